/* SPDX-License-Identifier: GPL-2.0 */
/*
 * quota.h - cpu.max with burst, of one domain: a quota of CPU time in each period, and no more.
 *
 * Source: the kernel's CFS bandwidth control (Documentation/scheduler/sched-bwc.rst), whose meaning
 * of cpu.max and cpu.max.burst this keeps. The kernel passes the numbers on to a sched_ext
 * scheduler and enforces nothing.
 *
 * 1. Model. A domain has a pool of run time. Each period adds the quota to it. Unused time may
 *    stay, as long as the pool holds no more than quota + burst. CPUs claim time in advance, run on
 *    it without asking, and return what they did not need. So the pool, and its lock, are out of
 *    the path of a switch. If nothing is left, the domain is throttled.
 *
 *        left   quota + burst ----------------------------------  no more than this
 *               quota         |\        |\    /|                  a period begins: + quota
 *               0             | \_______| \__/ | \                claims take, returns give back
 *               debt          |         |      |  \__             a late timer: less time later
 *
 * 2. What it promises. Let f be the claims that CPUs hold at a moment (in flight), and o what they
 *    ran beyond their claims.
 *
 *        in a period                    used <= quota + burst + f at its beginning + o in it
 *        in n periods, from any one on  used <= n quota + burst + f at the beginning
 *                                               + o not yet repaid
 *        wanted all the time            used  = n quota, but for f and all o: else no time is lost
 *
 *    (Time beyond a claim that is reported only in the next period is a debt there, even if the
 *    period before had room for it. That room is lost, unless burst keeps it.)
 *
 *    Time that is returned in a later period than it was claimed in is kept as if it had not been
 *    used in its own. (A window that does not begin with a period can contain the end of one and
 *    the beginning of another: quota + burst more. It is so in the kernel too.)
 *
 * 3. Hierarchy. A domain runs on the least that it and its ancestors grant. Claim from the leaf
 *    upwards, at each domain what the one below was granted. Then return to each domain what it
 *    granted beyond the last one. No time is lost (crates/policy tests it).
 *
 * 4. Where we differ. A debt beyond what QUOTA_DEBT_NS of periods repay is forgotten. The reason: a
 *    throttled task is runnable to the kernel, and if a task waits for 30 s, the kernel's watchdog
 *    ends the scheduler.
 */
#ifndef APLOMB_POLICY_QUOTA_H
#define APLOMB_POLICY_QUOTA_H

#include "types.h"

/*
 * Quotas, bursts and debts are no more than this, ns (36 years), so that sums of them fit into s64.
 */
#define QUOTA_MOST (1ULL << 60)
/* The period if there is none (the kernel's default; its bounds are 1 ms and 1 s). */
#define QUOTA_PERIOD_NS (100 * NSEC_PER_MSEC)
/* The longest time that a domain is throttled for a debt, ns (or one period, if that is longer). */
#define QUOTA_DEBT_NS (10 * NSEC_PER_SEC)

/* The least claim on a machine of several CPUs, ns: some ten times the cost of a choice. */
#define QUOTA_PART_NS (100 * NSEC_PER_USEC)

struct quota {
	u64 period_ns;
	u64 quota_ns; /* in each period; 0: no limit */
	u64 burst_ns; /* of unused time, this much may stay */
	s64 left;     /* what may still be claimed in this period; negative: debt */
	u64 refill;   /* when the next period begins, ns */
};

static inline u64 quota_least(u64 a, u64 b)
{
	return a < b ? a : b;
}

/*
 * Sets the limit: @quota_ns (0: none) in each @period_ns from @now on; of unused time up to
 * @burst_ns may stay. It begins with a full quota. If the limit is the same as before, nothing
 * happens: a period goes on.
 */
static inline void quota_set(struct quota *q, u64 now, u64 quota_ns, u64 period_ns, u64 burst_ns)
{
	quota_ns = quota_least(quota_ns, QUOTA_MOST);
	burst_ns = quota_least(burst_ns, QUOTA_MOST);
	period_ns = period_ns ? quota_least(period_ns, QUOTA_MOST) : QUOTA_PERIOD_NS;
	if (q->quota_ns == quota_ns && q->period_ns == period_ns && q->burst_ns == burst_ns)
		return;
	q->quota_ns = quota_ns;
	q->period_ns = period_ns;
	q->burst_ns = burst_ns;
	q->left = (s64)quota_ns;
	q->refill = now + period_ns;
}

/* Begins the periods that are due at @now, any number of them. */
static inline void quota_roll(struct quota *q, u64 now)
{
	u64 n, room;

	if (!q->quota_ns || time_before(now, q->refill))
		return;
	n = (now - q->refill) / q->period_ns + 1;
	q->refill += n * q->period_ns;
	room = (u64)((s64)(q->quota_ns + q->burst_ns) - q->left);
	if (n > room / q->quota_ns)
		q->left += (s64)room;
	else
		q->left += (s64)(n * q->quota_ns);
}

/*
 * The most, ns, that one of several CPUs may claim at a time: half of what is left, but
 * QUOTA_PART_NS at least. Without it the CPU that dispatches first after a refill claims a small
 * quota whole, in each period, and a task on another CPU never runs. Trade: at the end of each
 * period a CPU claims up to seven times (8 ms, 4 ms, … 0.1 ms) instead of once.
 */
static inline u64 quota_part(const struct quota *q)
{
	u64 half = q->left > 0 ? (u64)q->left / 2 : 0;

	return half > QUOTA_PART_NS ? half : QUOTA_PART_NS;
}

/* Claims up to @want ns in advance. Returns the ns that are granted; 0: throttled. */
static inline u64 quota_claim(struct quota *q, u64 want)
{
	if (!q->quota_ns)
		return want;
	if (q->left <= 0)
		return 0;
	want = quota_least(want, (u64)q->left);
	q->left -= (s64)want;
	return want;
}

/* @used of the @granted ns that quota_claim() returned were needed. If more, the rest is a debt. */
static inline void quota_return(struct quota *q, u64 granted, u64 used)
{
	s64 most = (s64)(q->quota_ns + q->burst_ns), least;
	u64 periods;

	if (!q->quota_ns)
		return;
	if (used <= granted) {
		q->left += (s64)quota_least(granted - used, QUOTA_MOST);
		if (q->left > most)
			q->left = most;
		return;
	}
	periods = QUOTA_DEBT_NS / q->period_ns;
	if (!periods)
		periods = 1;
	least = -(s64)(q->quota_ns > QUOTA_MOST / periods ? QUOTA_MOST : q->quota_ns * periods);
	q->left -= (s64)quota_least(used - granted, QUOTA_MOST);
	if (q->left < least)
		q->left = least;
}

/*
 * Can @cpus CPUs use more than the quota? If not, the limit is none: the domain is not throttled.
 * Without this it would be, for some microseconds, when the CPUs have claimed the rest of a period
 * and the next claim comes before that period's end (4 CPUs, 400 ms of 100: 2 times in 10 s).
 */
static inline bool quota_binds(const struct quota *q, u32 cpus)
{
	return q->quota_ns && q->quota_ns < (u64)cpus * q->period_ns;
}

/* Is no time left to claim? */
static inline bool quota_throttled(const struct quota *q)
{
	return q->quota_ns && q->left <= 0;
}

#endif /* APLOMB_POLICY_QUOTA_H */
