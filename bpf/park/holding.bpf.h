/* SPDX-License-Identifier: GPL-2.0 */
/*
 * park/holding.bpf.h - tasks that have landed and are kept off the CPU by a timed reason: a queue
 * and a timer.
 *
 * 1. Queue. Each CPU has one, by the end of the park, and one timer for it. A machine-wide queue
 *    would be one lock for all CPUs.
 *
 * 2. Release. A task whose park is over is moved to the local queue of an idle CPU, or of its own
 *    CPU. It begins to run there, is told at once to give up the CPU, and is enqueued as any other
 *    task is: by its reservation, its domain, its weight. So this file knows nothing of those. The
 *    price is two switches.
 *
 *        [holding queue] --- timer, unpark(), recalled ---> [local queue] ---> runs ---> enqueued by its policy
 *
 * 3. If a task is dequeued while it is held (affinity, cgroup, class, exit), its next enqueue
 *    checks again whether it is to be held. The kernel moves the tasks of a CPU that goes off line
 *    when their parks are over.
 */
#ifndef APLOMB_PARK_HOLDING_BPF_H
#define APLOMB_PARK_HOLDING_BPF_H

#include "kernel/migration.bpf.h"
#include "park/park.bpf.h"
#include "state/right.bpf.h"
#include "state/unstarted.bpf.h"

#define DSQ_HELD(cpu) (0x60000ULL + (cpu))

/* Tasks of one queue that one firing of its timer releases. The rest follows at once. */
#define MAX_RELEASED_AT_ONCE 4096
/*
 * The timer fires at least this often, ns, while tasks are held. A task that is inserted while the
 * timer's callback looks through the queue could be missed otherwise.
 */
#define HELD_LOOK_NS (10 * NSEC_PER_MSEC)

struct held_cpu {
	u64 due; /* when the timer fires; TIME_NEVER: it does not */
	s32 nr;  /* tasks that are held, or are just being enqueued */
};

struct held_cpu held_cpus[MAX_CPUS];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct timer_slot);
} held_timers SEC(".maps");

static __always_inline struct held_cpu *held_cpu(u32 cpu)
{
	return &held_cpus[cpu & (MAX_CPUS - 1)];
}

static __noinline void held_timer_start(u32 cpu, u64 at)
{
	struct timer_slot *timer = bpf_map_lookup_elem(&held_timers, &cpu);

	held_cpu(cpu)->due = at;
	if (timer)
		timer_start(&timer->timer, TIMER_HELD, cpu, at, BPF_F_TIMER_ABS);
}

/* @p, of context @t, is in no holding queue any more. */
static __always_inline void held_leave(struct task_struct *p, struct task_ctx *t)
{
	if (!t->held)
		return;
	__sync_fetch_and_add(&held_cpu(t->held - 1)->nr, -1);
	t->held = 0;
	task_set_vtime(p, t->held_vtime);
}

/* Charges the time for which @p was held since the last call. */
VERIFIED_ONCE int held_charge(struct task_struct *p __arg_trusted, struct task_ctx *t __arg_nonnull,
			      u64 now)
{
	u32 i;

	for (i = 0; i < NR_PARK_REASONS; i++) {
		u64 ns = park_time(&t->park, i, t->held_since, now);

		if (ns)
			park_charge(p, t, i, ns, now);
	}
	t->held_since = now;
	return 0;
}

/* In ops.enqueue, before all others. True: @p is held. */
static __noinline bool park_enqueue(struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx(p);
	u64 now, until;
	u32 cpu = task_cpu(p);

	if (!t || !(t->held | t->park.reasons))
		return false;
	now = bpf_ktime_get_ns();
	if (t->held) {
		held_leave(p, t);
		held_charge(p, t, now);
	}
	until = park_due(p, t, now);
	if (!until || (t->landing != LANDING_LANDED && land(p, t)))
		return false;
	right_end(p, t);
	t->held_vtime = p->scx.dsq_vtime;
	t->held_since = now;
	t->held = cpu + 1;
	__sync_fetch_and_add(&held_cpu(cpu)->nr, 1); /* before `due` is read: held_tick() */
	if (time_before(until, held_cpu(cpu)->due))
		held_timer_start(cpu, until);
	dsq_insert_vtime(p, DSQ_HELD(cpu), FAIR_SLICE_NS, until, enq_flags);
	return true;
}

/* Returns the CPU on which @p, which is released, begins to run. */
static __always_inline s32 held_target(struct task_struct *p)
{
	s32 home = task_cpu(p), idle;

	if (stays(p))
		return home;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	return idle >= 0 && cpu_ctx(idle)->online ? idle : home;
}

/*
 * Releases those tasks of @cpu whose parks are over. Returns the end of the next one, or
 * TIME_NEVER.
 */
VERIFIED_ONCE u64 held_release(u32 cpu, u64 now)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u64 next = TIME_NEVER;
	u32 i;

	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, DSQ_HELD(cpu), 0)) {
		bpf_for(i, 0, MAX_RELEASED_AT_ONCE) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			if (time_before(now, p->scx.dsq_vtime)) {
				next = p->scx.dsq_vtime;
				break;
			}
			scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON(held_target(p)), 0);
		}
		if (i == MAX_RELEASED_AT_ONCE)
			next = now;
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return next;
}

static int held_tick(void *map, u32 *cpu, struct timer_slot *timer)
{
	struct held_cpu *held = held_cpu(*cpu);
	u64 now = bpf_ktime_get_ns(), next;

	held->due = TIME_NEVER;
	next = held_release(*cpu, now);
	if (!__sync_fetch_and_add(&held->nr, 0))
		return 0;
	if (time_before(now + HELD_LOOK_NS, next))
		next = now + HELD_LOOK_NS;
	if (time_before(next, held->due))
		held_timer_start(*cpu, next);
	return 0;
}

/*
 * @reason is over for the tasks that wait in @cpu's holding queue, from the first one on, until
 * @more, which is counted down, is 0. With PARK_DISK: for those at @gate, which are GATE_RELEASED
 * then. Those that have no other reason are released. Called without a run queue's lock.
 *
 * @more is in memory of the caller's own, and not on its stack: the verifier follows a counter
 * there through each value that it may have.
 */
static __noinline void held_end(u32 cpu, u32 reason, u32 gate, u32 *more, u64 now)
{
	TAKES_STACK(120);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 i;

	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, DSQ_HELD(cpu), 0)) {
		bpf_for(i, 0, MAX_RELEASED_AT_ONCE) {
			struct task_ctx *t;

			p = *more ? bpf_iter_scx_dsq_next(&it) : NULL;
			if (!p)
				break;
			t = task_ctx(p);
			if (!t || !(t->park.reasons & PARK_BIT(reason)))
				continue;
			if (reason == PARK_DISK &&
			    (t->gate_at != gate ||
			     __sync_val_compare_and_swap(&t->gate_state, GATE_PARKED,
							 GATE_RELEASED) != GATE_PARKED))
				continue;
			(*more)--;
			/* memory/: what its parks that end early cost is not counted */
			if (reason == PARK_DISK)
				held_charge(p, t, now);
			park_end(&t->park, reason);
			if (!park_due(p, t, now))
				scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON(held_target(p)), 0);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
}

/* Releases @p, which is held, before its time. Called without a run queue's lock. */
static __noinline void held_let_go(struct task_struct *p, struct task_ctx *t)
{
	TAKES_STACK(64);
	struct bpf_iter_scx_dsq it;
	u32 held = t->held;

	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, DSQ_HELD(held - 1), 0) && held)
		scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON(held_target(p)), 0);
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
}

/* @reason keeps @p off the CPU no longer. Called without a run queue's lock. */
static __always_inline void unpark(struct task_struct *p, u32 reason)
{
	struct task_ctx *t = task_ctx(p);

	if (!t)
		return;
	park_end(&t->park, reason);
	if (t->held && !park_due(p, t, bpf_ktime_get_ns()))
		held_let_go(p, t);
}

/*
 * In ops.running, before all others. A task that was held is told to give up the CPU, and is
 * enqueued by its policy. So is a task that waited in its domain's queue where it landed, and is to
 * be held now. Returns whether it was held.
 */
static __noinline bool park_running(struct task_struct *p, u32 cpu)
{
	struct task_ctx *t = task_ctx(p);
	bool landed, was_held;
	u64 now;

	if (!t || !(t->held | t->park.reasons))
		return false;
	now = bpf_ktime_get_ns();
	landed = t->landing == LANDING_LANDED;
	landing_leave(t);
	was_held = t->held != 0;
	if (was_held) {
		held_leave(p, t);
		held_charge(p, t, now);
	} else {
		landed = landed && park_due(p, t, now);
	}
	park_settle(&t->park, now);
	if (landed && !is_recalled(p))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return was_held;
}

/* @p leaves sched_ext: it is held no longer. */
static __always_inline void park_forget(struct task_struct *p)
{
	struct task_ctx *t = parks_on ? task_ctx(p) : NULL;

	if (!t)
		return;
	t->park.reasons = 0;
	if (t->held)
		__sync_fetch_and_add(&held_cpu(t->held - 1)->nr, -1);
	t->held = 0;
}

/* The queue and the timer of @cpu, when the scheduler is loaded. */
static __always_inline s32 holding_init(u32 cpu)
{
	struct timer_slot *timer = bpf_map_lookup_elem(&held_timers, &cpu);
	s32 err;

	held_cpu(cpu)->due = TIME_NEVER;
	err = timer ? bpf_timer_set_callback(&timer->timer, held_tick) : -EINVAL;
	return err ? err : scx_bpf_create_dsq(DSQ_HELD(cpu), -1);
}

#endif /* APLOMB_PARK_HOLDING_BPF_H */
