/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/reclaim.bpf.h - each CPU's bank of unused budget, at work. Theory: policy/fcbs.h.
 *
 * Source: Kato, Ishikawa and Rajkumar, section 4.2.
 *
 *    the last thread of a server sleeps  --> reclaim_give      wakes up early --> reclaim_back
 *    a task starts or ends a run by right --> reclaim_run, reclaim_stop
 *    a server has no budget left  --> reclaim_slack: if there is slack it runs on the bank at once;
 *                                     else wait_for_period: it runs when its next period starts, or
 *                                     before that when there is slack (layers/move.bpf.h)
 */
#ifndef APLOMB_RECLAIM_BPF_H
#define APLOMB_RECLAIM_BPF_H

#include "reserved/server.bpf.h"

/* Overrunning servers that a CPU remembers; of two with the same remainder the later one counts. */
#define OVERRUNNERS 8

/* What is left over on a CPU, and which servers could use it. */
struct cpu_bank {
	struct bpf_spin_lock lock; /* of `bank`, and of the loans of servers that lent to it */
	u32 wanted;                /* a server may be in `overrunner` */
	struct fcbs_bank bank;
	u32 overrunner[OVERRUNNERS]; /* slots, 0: none */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct cpu_bank);
} banks SEC(".maps");

static __always_inline struct cpu_bank *bank_of(u32 cpu)
{
	return bpf_map_lookup_elem(&banks, &cpu);
}

static __always_inline bool reclaims(const struct server *s)
{
	return s->info.edf.policy == POLICY_FCBS;
}

/* @s's job is complete: lends @budget, valid until @deadline, to the servers of its CPU. */
static __noinline void reclaim_give(struct server *s, u32 cpu, u64 now, u64 budget, u64 deadline)
{
	struct cpu_bank *b = bank_of(cpu);

	if (!b)
		return;
	bpf_spin_lock(&b->lock);
	fcbs_give(&b->bank, &s->loan, now, budget, deadline);
	s->loan_cpu = cpu;
	bpf_spin_unlock(&b->lock);
}

/* What a server gets back when it wakes up */
struct repaid {
	bool lent; /* it had lent something */
	u64 back;  /* ns of that which come back */
};

/*
 * @s wakes up at @now. The caller renews the period with the same @now: otherwise a task that wakes
 * up at its deadline, as periodic tasks do, could be before the deadline here and past it there.
 */
static __noinline void reclaim_back(struct server *s, u64 now, struct repaid *r)
{
	struct cpu_bank *b;
	u32 cpu = s->loan_cpu;

	r->lent = false;
	r->back = 0;
	if (!s->loan.lent)
		return;
	b = bank_of(cpu);
	if (!b)
		return;
	bpf_spin_lock(&b->lock);
	if (s->loan.lent) { /* another thread may have been first */
		r->lent = true;
		if (time_before(now, s->info.edf.deadline))
			r->back = fcbs_take_back(&b->bank, &s->loan, now);
		else
			s->loan.lent = 0;
	}
	bpf_spin_unlock(&b->lock);
	if (r->back && cpu_ctx(cpu)->by_right == RIGHT_DRAWN)
		scx_bpf_kick_cpu(cpu,
				 SCX_KICK_PREEMPT); /* the task that runs on slack has less now */
}

/* What an overrunning server may use now */
struct slack {
	u64 ns;       /* 0: there is none */
	u64 deadline; /* with which it is used */
};

static __always_inline struct slack reclaim_slack(u32 cpu, u64 now)
{
	struct cpu_bank *b = bank_of(cpu);
	struct slack slack = {};

	if (!b || !b->bank.slack)
		return slack;
	slack.ns = fcbs_slack(&b->bank, now);
	slack.deadline = slack.ns ? b->bank.deadline : 0;
	return slack;
}

/* A task begins to run on @cpu by @right, for @deadline. */
static __always_inline void reclaim_run(u32 cpu, u64 now, u32 right, u64 deadline)
{
	struct cpu_bank *b = bank_of(cpu);

	if (!b)
		return;
	bpf_spin_lock(&b->lock);
	if (right == RIGHT_OWN)
		fcbs_freeze(&b->bank, now, deadline);
	else
		fcbs_draw(&b->bank, now);
	bpf_spin_unlock(&b->lock);
}

/* The task that ran on @cpu by right stops. */
static __always_inline void reclaim_stop(u32 cpu, u64 now)
{
	struct cpu_bank *b = bank_of(cpu);

	if (!b)
		return;
	bpf_spin_lock(&b->lock);
	fcbs_thaw(&b->bank, now);
	bpf_spin_unlock(&b->lock);
}

/* @s has used up its budget and waits: it could use what others leave on @cpu. */
static __always_inline void reclaim_want(struct server *s, u32 cpu)
{
	struct cpu_bank *b = reclaims(s) ? bank_of(cpu) : NULL;

	if (!b)
		return;
	b->overrunner[s->info.slot % OVERRUNNERS] = s->info.slot;
	b->wanted = 1;
}

/* Could any server use @cpu's slack? This is cheap, since each dispatch asks. */
static __always_inline bool reclaim_wanted(u32 cpu)
{
	struct cpu_bank *b = bank_of(cpu);

	return b && b->wanted;
}

/* Of the overrunning servers that wait on @cpu, the one with the earliest deadline. */
static __noinline struct server *reclaim_pick(u32 cpu, u64 now)
{
	struct cpu_bank *b = bank_of(cpu);
	struct server *best = NULL;
	u64 earliest = TIME_NEVER;
	u32 i;

	if (!b)
		return NULL;
	b->wanted = 0; /* first: a server that comes meanwhile sets it again */
	bpf_for(i, 0, OVERRUNNERS) {
		u32 slot = b->overrunner[i % OVERRUNNERS];
		struct server *s = server_at(slot);

		if (!s)
			continue;
		if (s->info.state != SERVER_ADMITTED || s->info.cpu != (s32)cpu || !s->awake ||
		    edf_eligible(&s->info.edf, now)) {
			b->overrunner[i % OVERRUNNERS] = 0;
			continue;
		}
		if (best) /* one of the two stays (with a count the verifier would not finish) */
			b->wanted = 1;
		if (time_before(s->info.edf.deadline, earliest)) {
			earliest = s->info.edf.deadline;
			best = s;
		}
	}
	if (best) /* reclaim_want() enters it again when it is queued again */
		b->overrunner[best->info.slot % OVERRUNNERS] = 0;
	return best;
}

/*
 * Thread @pid waits in a queue of the fair layer or runs on spare time: it is to be moved when @s's
 * next period starts.
 */
static __noinline void wait_for_period(struct server *s, s32 pid)
{
	u64 start;

	bpf_spin_lock(&s->lock);
	waiter_add(s, pid);
	start = s->info.edf.start;
	bpf_spin_unlock(&s->lock);
	timer_start(&s->timer, TIMER_SERVER, s->info.slot, start, BPF_F_TIMER_ABS);
	reclaim_want(s, s->info.cpu);
}

#endif /* APLOMB_RECLAIM_BPF_H */
