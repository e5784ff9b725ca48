/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fair.h - virtual time with nice weights: how the time that is not reserved is shared.
 *
 * Source: start-time fair queueing (see sfq.h); Redline 6.2 keeps interactive tasks in CFS as well,
 * for spare bandwidth.
 *
 * 1. Why. Best-effort work, and interactive tasks beyond their reservation, should progress in
 *    proportion to their weights. So each task has a virtual time that advances by what it ran over
 *    its weight, and the task that is furthest behind runs next.
 *
 * 2. Control. A sleeper must not save up credit, and no task may run up a debt that would starve it
 *    later. So a task's virtual time is held within a window around the queue's:
 *
 *        now - FAIR_CREDIT ........ now ........ now + FAIR_DEBT (or a light task's last turn)
 *
 *    When no task waits, each has got all that it wanted, and all are even: virtual time follows to
 *    the latest that a task has reached, and credit from before is void. (In start-time fair
 *    queueing a busy period ends.) A task that ran alone would otherwise be behind others that come
 *    later, for time that none wanted; and on a CPU that is idle half of the time the tasks that
 *    use it least would all go before the one that wakes up.
 *
 *    A new task starts one slice ahead of the queue. Otherwise a stream of short-lived children (a
 *    fork bomb) would always be served before tasks that already ran, and virtual time would stand
 *    still.
 *
 * 3. Preemption. A task that sleeps most of the time (a terminal, a shell, a pipe's reader) wakes
 *    up with up to FAIR_CREDIT of virtual time in hand. If it had to wait for the end of the
 *    running task's slice, each key press would take a slice, and a tick more. So it preempts the
 *    running task if it is behind it by more than FAIR_LEAD. It cannot do so often: what it runs
 *    takes the lead away, and only sleep in which others run gives it back.
 *
 *    Where the CPU is idle much of the time, virtual time hardly advances while a task sleeps, so
 *    it has no such lead, and is still the one that a user waits for. Or the running task has just
 *    woken up itself, with as much in hand. So a task that has not begun to run for FAIR_REST is
 *    rested: it preempts unless it is ahead of the queue's virtual time by FAIR_LEAD. That bounds
 *    how often each task may, and virtual time bounds what it gets: no more than its share.
 *
 *    A task that has just begun to run is guarded for FAIR_GUARD: it can send, and read, several
 *    messages before the tasks that these wake up. What would have preempted it has its turn when
 *    it sleeps, at another wake-up after that time, or at the tick. A task that is rested has its
 *    turn after FAIR_LEAD: most tasks that wake up are done by then. (Sixteen tasks that work for
 *    1 ms and sleep as long took 1.4 choices for each turn if it was after FAIR_GUARD, and one is
 *    enough.)
 *
 *    The running task may be the first one of the queue itself, and would go on. So a task that
 *    preempts goes before those that wait, unless it is ahead of the first of them by FAIR_LEAD.
 *    None of those starves: each task can overtake it only until it is ahead so far.
 */
#ifndef APLOMB_POLICY_FAIR_H
#define APLOMB_POLICY_FAIR_H

#include "types.h"

#define FAIR_NICE_0 100 /* sched_ext's weight of nice 0; it maps nice -20..19 to 8876..1.5 */
/*
 * Weights here are in 1/FAIR_UNIT of sched_ext's, since a task in the crowd of a session may have
 * less than 1 (policy/autogroup.h): 6,400 tasks of nice 0 are told apart.
 */
#define FAIR_UNIT 64
#define FAIR_WEIGHT (FAIR_NICE_0 * FAIR_UNIT)
/*
 * Of SCHED_IDLE: as the kernel's, 3 where nice 0 has 1024. With sched_ext's least weight, 1 of 100,
 * it would have a whole percent beside one task.
 */
#define FAIR_IDLE_WEIGHT (FAIR_WEIGHT * 3 / 1024)
#define FAIR_SLICE_NS (4 * NSEC_PER_MSEC)
/* One slice: a task that wakes up is served soon, and cannot hurt the queue by waking up often. */
#define FAIR_CREDIT_NS FAIR_SLICE_NS
/*
 * A task that used far more than its share by right of a reservation, and lost it, waits for this
 * much virtual time at most: for 25 slices of each other task. A light task waits for as long as
 * its own last turn cost it (fair_most_debt()). Otherwise each turn of one of nice 19, or of
 * SCHED_IDLE, would cost it no more than that: beside one loop of nice 0 it had 7.4 % instead of 1.
 */
#define FAIR_DEBT_NS (100 * NSEC_PER_MSEC)
/* The longest turn: a slice that a late tick ended. */
#define FAIR_TURN_NS (2 * FAIR_SLICE_NS)

/*
 * How far behind the running task a task that wakes up must be to preempt it, in virtual time.
 * Trade: with less, tasks that wake up each other would preempt each other in turn, and each switch
 * costs both; with more, a task that uses half of its share would wait for a slice.
 */
#define FAIR_LEAD_NS (1 * NSEC_PER_MSEC)

/*
 * A task is rested so long after it last began to run: half a slice. Trade: with less, tasks that
 * wake up each other over a network would preempt each other each time; with more, a task that
 * reads its pages from a disk would wait for a slice at each of them.
 */
#define FAIR_REST_NS (2 * NSEC_PER_MSEC)

/*
 * A task that has just begun to run keeps the CPU for so long before one that wakes up may preempt
 * it. Trade: with less, tasks that pass messages to each other switch at each of them. (40 tasks
 * that send to each other over sockets on one CPU switched 35,000 times in 1.43 s without a guard,
 * and do the same work with 1,500 switches in 1.06 s.) With more, a task that a user waits for is
 * delayed more often.
 */
#define FAIR_GUARD_NS (300 * NSEC_PER_USEC)

/* The virtual time that @ran_ns of CPU time cost a task of @weight. */
static inline u64 fair_cost(u64 ran_ns, u32 weight)
{
	return weight == FAIR_WEIGHT ? ran_ns : ran_ns * FAIR_WEIGHT / (weight ? weight : 1);
}

/*
 * The part of a virtual time @ns that counts for a task of @weight: what @ns of CPU time cost it,
 * if it is heavier than nice 0. Otherwise a kernel thread of ten times that weight could run for
 * ten slices after its sleep, before another task that slept.
 */
static inline u64 fair_scaled(u64 ns, u32 weight)
{
	return weight > FAIR_WEIGHT ? fair_cost(ns, weight) : ns;
}

/* How far ahead of a queue's virtual time a task of @weight may be when it joins. */
static inline u64 fair_most_debt(u32 weight)
{
	u64 turn = fair_cost(FAIR_TURN_NS, weight);

	return turn > FAIR_DEBT_NS ? turn : FAIR_DEBT_NS;
}

/* A queue's virtual time. Each field only advances. */
struct fair_queue {
	u64 now;   /* of the task that began to run last; `last`, if no task waited since */
	u64 last;  /* the latest that a task has run to */
	u64 floor; /* `now` when no task waited last: there is no credit below it */
};

/* A task with virtual time @v begins to run. */
static inline void fair_begins(struct fair_queue *q, u64 v)
{
	if (time_before(q->now, v))
		q->now = v;
}

/* A task has run to virtual time @v. */
static inline void fair_ran(struct fair_queue *q, u64 v)
{
	if (time_before(q->last, v))
		q->last = v;
}

/* No task waits in @q. */
static inline void fair_none_waits(struct fair_queue *q)
{
	fair_begins(q, q->last);
	if (q->floor != q->now)
		q->floor = q->now;
}

/* The virtual time with which a task of @weight and virtual time @v joins @q. */
static inline u64 fair_place(u64 v, const struct fair_queue *q, u32 weight)
{
	u64 earliest = q->now - fair_scaled(FAIR_CREDIT_NS, weight);

	if (time_before(earliest, q->floor))
		earliest = q->floor;
	if (time_before(v, earliest))
		return earliest;
	if (time_before(q->now + fair_most_debt(weight), v))
		return q->now + fair_most_debt(weight);
	return v;
}

/* Does a task of @weight that wakes up with virtual time @v preempt one that is at @other? */
static inline bool fair_preempts(u64 v, u32 weight, u64 other)
{
	return time_before(v + fair_scaled(FAIR_LEAD_NS, weight), other);
}

/* Does one that is rested preempt the running task, if the queue's virtual time is @now? */
static inline bool fair_rested_preempts(u64 v, u32 weight, u64 now)
{
	return time_before(v - fair_scaled(FAIR_LEAD_NS, weight), now);
}

/* The part of @ns that a running task of @weight has before one of weight @wakes */
static inline u64 fair_part(u64 ns, u32 weight, u32 wakes)
{
	return weight < wakes ? ns * weight / wakes : ns;
}

/*
 * Does the running task, of @weight, which began @ran_ns ago, keep the CPU from one of weight
 * @wakes? One that is lighter does so for less time.
 */
static inline bool fair_guarded(u64 ran_ns, u32 weight, u32 wakes)
{
	return ran_ns < fair_part(FAIR_GUARD_NS, weight, wakes);
}

/* If so: for how long it may keep it, ns. */
static inline u64 fair_turn_left(u64 ran_ns, u32 weight, u32 wakes)
{
	u64 turn = fair_part(FAIR_LEAD_NS, weight, wakes);

	return ran_ns < turn ? turn - ran_ns : 0;
}

/* Does it go before the first task that waits, which is at @first? */
static inline bool fair_overtakes(u64 v, u32 weight, u64 first)
{
	return !time_before(first + fair_scaled(FAIR_LEAD_NS, weight), v);
}

/*
 * The debt that is allowed for a task of @weight in a queue with @waiting tasks. All of them must
 * advance by it before the debtor's turn, so with many the whole of it would starve the debtor (and
 * the kernel's watchdog would end the scheduler after 30 s). With this bound it waits for its debt
 * 5 s at most, and for two slices of each other task, which a tick may end a slice too late.
 */
static inline u64 fair_debt(u64 waiting, u32 weight)
{
	u64 each = 5 * NSEC_PER_SEC / (waiting + 1), most = fair_most_debt(weight);

	return each < most ? each : most;
}

/* The virtual time of a task that is new in @q. */
static inline u64 fair_start(const struct fair_queue *q)
{
	return q->now + FAIR_SLICE_NS;
}

/*
 * The choice of one CPU between the machine's queue and the tasks pinned to this CPU. (With
 * domains: between the two kinds of tasks of one domain.)
 *
 * Pinned tasks cannot wait in a queue that all CPUs serve: every other CPU would have to skip them.
 * So they have a queue of their own, with a virtual time of its own. The two queues are two members
 * of a start-time fair queue whose tags are their virtual times: the one that is behind goes first.
 * So a pinned task and another one of its weight get the same, as long as this CPU is enough for
 * that.
 *
 * What a queue runs while the other has no task, or cannot use what it is due, puts it ahead or
 * behind, and that may be for hours. So `even`, the distance between the two virtual times at which
 * neither is owed anything, follows: one is ahead of the other by FAIR_PAIR_LEAD at most. That is
 * the cost of one contended turn, a slice that a late tick ended: with less, such turns would be
 * forgotten in part.
 */
#define FAIR_PAIR_LEAD_NS (4 * FAIR_SLICE_NS)

struct fair_pair {
	u64 even; /* what the pinned tasks' virtual time is more than the other queue's then */
};

/*
 * The pinned tasks are at @pinned, the others at @others: lets `even` follow. Returns how far the
 * pinned tasks are ahead, ns of virtual time.
 */
static inline s64 fair_pair_ahead(struct fair_pair *f, u64 pinned, u64 others)
{
	s64 ahead = pinned - others - f->even, within = ahead;

	if (within > (s64)FAIR_PAIR_LEAD_NS)
		within = FAIR_PAIR_LEAD_NS;
	if (within < -(s64)FAIR_PAIR_LEAD_NS)
		within = -(s64)FAIR_PAIR_LEAD_NS;
	if (within != ahead)
		f->even += ahead - within;
	return within;
}

/*
 * The pinned tasks, which all slept, are at @pinned, the others at @others. Of what they did not
 * use in their sleep they keep FAIR_LEAD: enough to go first when they wake up. (Without it the two
 * queues would be even, and the turn of one of the others could come first.)
 */
static inline void fair_pair_wakes(struct fair_pair *f, u64 pinned, u64 others)
{
	s64 ahead = pinned - others - f->even + FAIR_LEAD_NS;

	if (ahead < 0)
		f->even += ahead;
}

#endif /* APLOMB_POLICY_FAIR_H */
