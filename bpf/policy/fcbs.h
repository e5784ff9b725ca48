/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fcbs.h - flexible CBS: what a job leaves of its budget goes to a job that needs more than its
 * own.
 *
 * Source: Kato, Ishikawa and Rajkumar, section 4.2 and Fig. 3.
 *
 * 1. Why. A frame of a movie needs 10 to 45 ms; a budget for the worst refuses most movies, a
 *    budget for the usual one has the heavy frame wait although the light frames around it left
 *    half of theirs. Slack reclaiming evens this out, and every guarantee holds.
 *
 * 2. Model. Each CPU has a bank: slack (ns) with one deadline. Between two wake-ups of its program
 *    a server works on a job; the job is complete when all threads sleep. The paper's three rules:
 *
 *        a job completes with budget e and deadline s:
 *        |  bank += e, and the bank's deadline becomes the later of its own and s
 *        |
 *        +- rule 1: a server that has used up its budget (Fig. 3: s_k > t + P_k) runs on the
 *        |          bank, at the bank's deadline. When the bank is used up, the server gets its
 *        |          own budget and deadline back.
 *        +- rule 2: else the next task by deadline runs, at d. The bank's deadline becomes d if d
 *        |          is later, so that task may run on the slack when its own budget is used up.
 *        +- rule 3: else the CPU is idle or does best-effort work, which uses up the slack
 *
 *    Rule 3 and the end of rule 1 are one statement: the slack melts away with time, except while
 *    a server runs on a budget of its own (`frozen`).
 *
 * 3. Why nothing breaks. Slack is the rest of a job that would have been allowed to run at its
 *    deadline. The server that uses it stands in for that job. While servers with later deadlines
 *    go first, the slack takes over their deadline. While no server stands in, the slack melts as
 *    if the job ran. So the demand on each CPU is the same as if every job used all of its
 *    budget, and EDF meets all deadlines if it did so then.
 *
 * 4. Where we differ. (a) Which sleep ends a job? In the paper a system call says so. A player
 *    sleeps several times a frame, for a disk or a display, and would give its budget away at the
 *    first. So what is given is only lent: a server that wakes up before its deadline gets back
 *    what is not used yet (fcbs_take_back). The server gets at least Q in each period less the time
 *    it slept in it, and Q if it did not sleep, whatever the others do. (A period that edf_wake()
 *    ends, since more is left than C/T, is followed by a whole one at once.) (b) In rule 3 the
 *    paper adds the bonus to the budget of the next job, which may have an earlier deadline: 9 ms
 *    due in 100 become 9 ms due in 10, and a third task misses (crates/policy/src/fcbs has the
 *    example). Here slack never gets an earlier deadline. (c) An overrunning server waits for its
 *    next period (Listing 1) as far as its own budget goes, instead of getting the next budget at
 *    once with a later deadline: meanwhile it has spare time like best-effort work. Otherwise a
 *    busy loop with a reservation could take all that best-effort work has.
 *
 * 5. Several CPUs: the slack of a CPU is for servers of that CPU, as the paper says of partitioned
 *    EDF.
 */
#ifndef APLOMB_POLICY_FCBS_H
#define APLOMB_POLICY_FCBS_H

#include "edf.h"

/* Less than this is not worth a switch, ns: two context switches in a slow machine. */
#define FCBS_LEAST_NS (50 * NSEC_PER_USEC)

struct fcbs_bank {
	u64 slack;    /* ns at `stamp` */
	u64 deadline; /* of all of it */
	u64 stamp;    /* up to when it has melted, ns */
	u64 used;     /* ns that overrunning servers took, ever */
	u32 frozen;   /* a server runs on a budget of its own */
	u32 drawn;    /* an overrunning server runs on it */
};

/* What a server has lent, until its deadline. */
struct fcbs_loan {
	u64 lent; /* ns, 0: nothing */
	u64 used; /* the bank's `used` at that time */
};

/*
 * Let the slack melt up to @now. Time of the caller may be some ns behind another CPU's: nothing
 * melts.
 */
static inline void fcbs_settle(struct fcbs_bank *b, u64 now)
{
	u64 gone = time_before(b->stamp, now) ? now - b->stamp : 0;

	if (time_before(b->stamp, now))
		b->stamp = now;
	if (!b->frozen) {
		if (gone > b->slack)
			gone = b->slack;
		b->slack -= gone;
		if (b->drawn)
			b->used += gone;
	}
	if (!time_before(now, b->deadline))
		b->slack = 0;
}

/* A task begins to run on its own budget, by @deadline (rule 2). */
static inline void fcbs_freeze(struct fcbs_bank *b, u64 now, u64 deadline)
{
	fcbs_settle(b, now);
	b->frozen = 1;
	if (time_before(b->deadline, deadline))
		b->deadline = deadline;
}

/* A server without a budget of its own begins to run on the bank (rule 1). */
static inline void fcbs_draw(struct fcbs_bank *b, u64 now)
{
	fcbs_settle(b, now);
	b->drawn = 1;
}

/* The task that ran by right stops. */
static inline void fcbs_thaw(struct fcbs_bank *b, u64 now)
{
	fcbs_settle(b, now);
	b->frozen = 0;
	b->drawn = 0;
}

/* Slack that an overrunning server may use now, ns; its deadline is then b->deadline. */
static inline u64 fcbs_slack(const struct fcbs_bank *b, u64 now)
{
	u64 gone = time_before(b->stamp, now) && !b->frozen ? now - b->stamp : 0;

	if (!time_before(now, b->deadline) || gone >= b->slack || b->slack - gone < FCBS_LEAST_NS)
		return 0;
	return b->slack - gone;
}

/*
 * A job completes: @budget ns are left of the budget that was for until @deadline, and are lent
 * from now on. The server's own budget is 0 then.
 */
static inline void fcbs_give(struct fcbs_bank *b, struct fcbs_loan *l, u64 now, u64 budget,
			     u64 deadline)
{
	fcbs_settle(b, now);
	if (!b->slack || time_before(b->deadline, deadline))
		b->deadline = deadline;
	b->slack += budget;
	l->lent = budget;
	l->used = b->used;
}

/* It wakes up before its deadline: what it gets back of its budget, ns. */
static inline u64 fcbs_take_back(struct fcbs_bank *b, struct fcbs_loan *l, u64 now)
{
	u64 used, back;

	fcbs_settle(b, now);
	used = b->used - l->used;
	back = used < l->lent ? l->lent - used : 0;
	l->lent = 0;
	b->slack -= back < b->slack ? back : b->slack;
	return back;
}

#endif /* APLOMB_POLICY_FCBS_H */
