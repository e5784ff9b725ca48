/* SPDX-License-Identifier: GPL-2.0 */
/*
 * edf.h - the server of a reservation: C every T, ordered by earliest deadline first.
 *
 * Source: Redline (Yang et al., OSDI'08), section 6.2 and Listing 1.
 *
 * 1. Why. A movie needs 5 ms of CPU in every 30 ms and is ruined by the 31st. A share ("17 %") or a
 *    priority does not say by when. A deadline does, and among tasks whose needs add up to no more
 *    than the CPU, running the earliest deadline first meets them all (Liu and Layland). What can
 *    break it is a task that takes more than it said, so each task has a budget.
 *
 * 2. Model. A server has a period [start, deadline) and what is left of C in it, the budget. It is
 *    eligible while budget > 0 and start <= now. The scheduler runs the eligible task with the
 *    earliest deadline, and takes what it ran off the budget.
 *
 *                   budget used up: next period, start in the future
 *        +----------+ -----------------------------------------> +---------+
 *        | eligible |                                            | waiting |
 *        +----------+ <----------------------------------------- +---------+
 *          |     ^                    now >= start
 *          |     |
 *          +-----+ woke up after the deadline: new period from now
 *
 * 3. Control. Listing 1 (edf_assign) runs when a server begins, when its budget was charged, and
 *    when its task wakes up. Budget left at the deadline means one of two things. The task slept in
 *    between: it had its fill, and a new period begins. It never slept: it is late through no fault
 *    of its own, so it keeps its old, now earliest deadline, and its work is pushed through.
 *
 * 4. Where we differ, twice. (a) A task that wakes up before its deadline keeps period and budget
 *    in Listing 1. Nearly a whole budget with an all but past deadline is more than C/T until then,
 *    and delays others beyond their deadlines; and a periodic task that wakes 10 us early is left
 *    with what its last job did not need. So on wake-up we add the rule of the constant bandwidth
 *    server (Abeni and Buttazzo 1998): if budget / (deadline - now) exceeds C/T, a new period
 *    starts now. Measured, 5 ms every 30 ms of 6:30 against 20 hogs: median response 9.3 ms by the
 *    listing alone, 5.0 with the rule.
 *
 *    (b) Line 16 is printed as budget = max(budget + C, C). Taken literally, what a sleeper leaves
 *    unused adds up without end (a player that needs 1 of 5 ms could hold the CPU for a minute
 *    after an hour), and an overrun is forgiven. We take min: nothing is carried over, and an
 *    overrun is paid back. crates/policy/src/edf.rs has the counter-example as a test.
 *
 * 5. Policies. What becomes of a task whose budget is used up (the rest is common to all):
 *
 *        redline    waits for its next period; until then it has spare time, like best-effort work
 *        fcbs       the same, and it may use what others leave of their budgets (fcbs.h)
 *        cbs-hard   waits and does not run at all: C in T and never more (Abeni and Buttazzo's
 *                   hard reservation)
 *        cbs-soft   gets its next budget at once, for a deadline one period later (their soft
 *                   reservation). It runs before best-effort work for as long as it does not
 *                   sleep. That is C in T in the long run, not in each T: a server that ran alone
 *                   for an hour has used the budgets of many periods, and waits for the others.
 *        deferred   as redline; and it begins each period as best-effort work, too
 *
 * 6. Deferred servers (ours; the kernel's dl_server defers for the same reason). A helper may have
 *    to have C in each T, but hardly ever need it: it works for a moment, and gets the CPU as any
 *    task does that slept. By right it would go before all ordinary tasks each time, an editor that
 *    has just got a key among them. So its period's first part is deferred:
 *
 *        |-- best-effort work ---|== by right, up to C ============================|
 *        woke up             + T / EDF_DEFER_PART                            deadline
 *
 *    What it runs before is not charged. If it sleeps and wakes up before it has used any budget,
 *    a new period begins (4a). If it has used some, the right that is left is put off by as much,
 *    or for as long as it can be had in time. It has C by the deadline all the same, but in less
 *    time: for the other servers that is as if it had C every T - T / EDF_DEFER_PART, and so it is
 *    admitted (edf_density()).
 */
#ifndef APLOMB_POLICY_EDF_H
#define APLOMB_POLICY_EDF_H

#include "server.h"

enum edf_change {
	EDF_KEPT = 0,      /* same period */
	EDF_RENEWED = 1,   /* new period; had budget left */
	EDF_EXHAUSTED = 2, /* new period; the budget was used up */
	EDF_MISSED = 3     /* same period, its deadline has passed: the first time it is seen */
};

/*
 * Part of its period for which a deferred server is best-effort work. Trade: with a larger part,
 * programs wait longer for a helper that does not get the CPU; with a smaller one, ordinary tasks
 * wait for it. A fifth of 50 or of 100 ms is at most half a frame of a film.
 */
#define EDF_DEFER_PART 5

/* Bandwidth C/T in ppm of a CPU. */
static inline u64 edf_bandwidth(u64 runtime, u64 period)
{
	return period ? runtime * PPM / period : 0;
}

/* For how long a period of @period, under @policy (enum server_policy), gives no right yet, ns. */
static inline u64 edf_deferral(u64 period, u32 policy)
{
	return policy == POLICY_DEFERRED ? period / EDF_DEFER_PART : 0;
}

/* The bandwidth, ppm of a CPU, that @runtime every @period under @policy needs at worst. */
static inline u64 edf_density(u64 runtime, u64 period, u32 policy)
{
	return edf_bandwidth(runtime, period - edf_deferral(period, policy));
}

/* A period begins at @from. */
static inline void edf_renew(struct edf_server *s, u64 from, s64 budget)
{
	s->start = from + edf_deferral(s->period, s->policy);
	s->deadline = from + s->period;
	s->budget = budget;
	s->slept = 0;
	s->late = 0;
}

/*
 * Begin with a full budget: a task that was just admitted may run at once, unless it is deferred.
 * s->policy is set.
 */
static inline void edf_init(struct edf_server *s, u64 now, u64 runtime, u64 period)
{
	s->runtime = runtime;
	s->period = period;
	edf_renew(s, now, (s64)runtime);
}

/*
 * The same process exchanges its reservation @old for this one (exec): what it has used of the
 * period counts. Otherwise a program that execs itself every few milliseconds would never be
 * without budget.
 */
static inline void edf_succeed(struct edf_server *s, const struct edf_server *old, u64 now)
{
	if (!time_before(now, old->deadline))
		return;
	if (old->budget < s->budget)
		s->budget = old->budget > 0 ? old->budget : 1;
	if (time_before(s->start, old->start)) {
		/*
		 * it waited for its next period: it still does, for one of its new periods at most
		 */
		s->start = time_before(old->start, s->deadline) ? old->start : s->deadline;
		s->deadline = s->start + s->period;
	} else if (time_before(old->deadline, s->deadline)) {
		s->deadline = old->deadline; /* or each exec would put its next budget off */
	} else if (old->policy == POLICY_CBS_SOFT &&
		   time_before(now + old->period, old->deadline)) {
		s->deadline += old->deadline - (now + old->period); /* it ran ahead by that much */
	}
}

/* May the task run by right of its reservation now? */
static inline bool edf_eligible(const struct edf_server *s, u64 now)
{
	return s->budget > 0 && !time_before(now, s->start);
}

/* Take @ns of CPU off the budget; edf_assign() follows. */
static inline void edf_charge(struct edf_server *s, u64 ns)
{
	s->budget -= (s64)ns;
}

/* The task went to sleep of its own will. */
static inline void edf_sleep(struct edf_server *s)
{
	s->slept = 1;
}

/*
 * The task of a deferred server wakes up in a period that goes on. The budget is to be had in no
 * shorter time than its part of C every T - T / EDF_DEFER_PART. In units of 2^10 ns, so that the
 * product fits into 64 bits, and rounded up: too early a start harms no other server.
 */
static inline void edf_put_off(struct edf_server *s, u64 now)
{
	u64 deferral = edf_deferral(s->period, s->policy), until = now + deferral, latest;
	u64 runtime = s->runtime >> 10, needs;

	if (!deferral || s->budget <= 0 || !time_before(now, s->deadline))
		return;
	needs = (((u64)s->budget >> 10) + 1) * (((s->period - deferral) >> 10) + 1);
	needs /= runtime ? runtime : 1;
	latest = s->deadline - (needs << 10);
	if (time_before(latest, until))
		until = latest;
	if (time_before(s->start, until))
		s->start = until;
}

/*
 * The task wakes up: is what is left of budget and period more than its bandwidth (4a)? Followed by
 * edf_assign().
 *
 * A task that wakes up has slept, even if the period is a new one since: a stop that uses up the
 * budget begins one, and so does being admitted asleep.
 *
 * With a period or more to go (cbs-soft: any time) no budget is more than C/T. In units of 4 ns, so
 * that 10 s times 10 s fits into 64 bits, and rounded against the task: a period that begins some
 * ns too early is a gift for each wake-up, one that is kept some ns too long is none.
 */
static inline void edf_wake(struct edf_server *s, u64 now)
{
	s->slept = 1;
	if (s->budget > 0 && time_before(now, s->deadline) && s->deadline - now < s->period &&
	    (u64)s->budget / 4 * (s->period / 4) >
		    ((s->deadline - now) / 4 + 1) * (s->runtime / 4 + 1))
		edf_renew(s, now, (s64)s->runtime);
	edf_put_off(s, now);
}

/*
 * Listing 1: assign a new period if the current one is over.
 *
 * A budget below a whole period's debt cannot arise while budgets are enforced to microseconds, but
 * the bound keeps a server from waiting for longer than one period if a timer was very late.
 */
static inline enum edf_change edf_assign(struct edf_server *s, u64 now)
{
	bool had_budget = s->budget > 0;
	s64 budget;
	u64 next;

	if (had_budget && time_before(now, s->deadline))
		return EDF_KEPT;

	if (had_budget && !s->slept) {
		bool first = !s->late;

		s->late = 1;
		return first ? EDF_MISSED : EDF_KEPT;
	}

	budget = s->budget + (s64)s->runtime;
	if (budget > (s64)s->runtime)
		budget = (s64)s->runtime;
	if (budget <= 0)
		budget = 1;
	next = time_before(now, s->deadline) ? s->deadline : now;
	edf_renew(s, next, budget);
	if (!had_budget && s->policy == POLICY_CBS_SOFT)
		s->start = now; /* the deadline alone is postponed */
	return had_budget ? EDF_RENEWED : EDF_EXHAUSTED;
}

#endif /* APLOMB_POLICY_EDF_H */
