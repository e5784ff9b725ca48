/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fair.bpf.h - the fair layer: all that runs by no reservation. Theory: policy/fair.h.
 *
 * One queue for the machine, by virtual time, so that no CPU idles while a task waits and shares hold for
 * the machine; and one per CPU for tasks that may run nowhere else. A task's virtual time is its
 * scx.dsq_vtime, so best-effort tasks need no context of ours.
 */
#ifndef APLOMB_FAIR_BPF_H
#define APLOMB_FAIR_BPF_H

#include "state.bpf.h"

/* CPUs that have gone off line and are passed over in one search for an idle one. */
#define MAX_GONE 8

/* Tied to one CPU of several? (With one CPU the machine's queue is that CPU's.) */
static __always_inline bool pinned(const struct task_struct *p)
{
	return nr_cpus > 1 && p->nr_cpus_allowed == 1;
}

/* The virtual time of the queue that @p belongs to. */
static __always_inline u64 *fair_clock(const struct task_struct *p, struct cpu_ctx *c)
{
	return pinned(p) ? &c->pinned_now : &fair_now;
}

static __always_inline bool fair_waiting(u32 cpu)
{
	return scx_bpf_dsq_nr_queued(DSQ_FAIR) || (nr_cpus > 1 && scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu)));
}

/* Where @p joins @dsq, whose virtual time is @now. */
static __always_inline u64 fair_vtime(struct task_struct *p, u64 dsq, u64 now)
{
	u64 v = fair_place(p->scx.dsq_vtime, now);

	if (time_before(now + FAIR_SLICE_NS, v)) { /* in debt; how far that may go depends on the queue */
		u64 latest = now + fair_debt(scx_bpf_dsq_nr_queued(dsq));

		if (time_before(latest, v))
			v = latest;
	}
	return v;
}

/*
 * @p waits for a CPU that is busy with other things: an idle one may help. A CPU that is off line may count
 * as idle still; once picked it does no more.
 */
static __noinline void ask_idle(struct task_struct *p)
{
	u32 i;

	bpf_for(i, 0, MAX_GONE) {
		s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (idle < 0)
			return;
		if (cpu_ctx(idle)->online) {
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
			return;
		}
	}
}

/*
 * Put @p, which waits nowhere, into its fair queue; wake a CPU for it if one is idle, unless somebody has
 * @looked for one just now.
 *
 * A task that wakes up where nobody waits, and that no other CPU could take, is next here anyway: it
 * goes straight to the CPU's local queue, which spares it a sorted insert and a dispatch. Only on
 * wake-up, or tasks that use up their slices would take turns there without regard to weight.
 */
static __always_inline void fair_enqueue(struct task_struct *p, u64 enq_flags, bool looked)
{
	s32 cpu = task_cpu(p);

	if ((enq_flags & SCX_ENQ_WAKEUP) && (nr_cpus == 1 || pinned(p)) && !fair_waiting(cpu)) {
		p->scx.dsq_vtime = fair_place(p->scx.dsq_vtime, *fair_clock(p, cpu_ctx(cpu)));
		dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags);
		return;
	}
	if (pinned(p)) {
		dsq_insert_vtime(p, DSQ_PINNED(cpu), FAIR_SLICE_NS,
				 fair_vtime(p, DSQ_PINNED(cpu), cpu_ctx(cpu)->pinned_now), enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	dsq_insert_vtime(p, DSQ_FAIR, FAIR_SLICE_NS, fair_vtime(p, DSQ_FAIR, fair_now), enq_flags);
	if (nr_cpus > 1 && !looked)
		ask_idle(p);
}

/* @p begins to run: the queue's virtual time follows. */
static __always_inline void fair_running(struct task_struct *p, struct cpu_ctx *c)
{
	u64 *now = fair_clock(p, c);

	if (time_before(*now, p->scx.dsq_vtime))
		*now = p->scx.dsq_vtime;
}

/*
 * A kernel thread's nice value says how little it matters by itself. But it may hold locks of those that
 * matter (khugepaged, at nice 19, the mmap_lock of a player), so it counts as nice 0 at least.
 */
static __always_inline u32 fair_weight(const struct task_struct *p)
{
	u32 weight = p->scx.weight;

	return (p->flags & PF_KTHREAD) && weight < FAIR_WEIGHT ? FAIR_WEIGHT : weight;
}

/* @p ran for @ran ns on @cpu, by right or not: all of it counts against its share. */
static __always_inline void fair_charge(struct task_struct *p, u32 cpu, struct cpu_ctx *c, u64 ran)
{
	u32 waiting;

	p->scx.dsq_vtime += fair_cost(ran, fair_weight(p));
	if (nr_cpus == 1)
		return;
	waiting = scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu));
	if (pinned(p))
		fair_pair_charge(&c->pair, 1, ran, waiting + 1);
	else if (waiting)
		fair_pair_charge(&c->pair, 0, ran, scx_bpf_dsq_nr_queued(DSQ_FAIR) / nr_cpus + 1);
}

/* What became of the CPU when the fair layer was asked for work. */
enum fair_choice {
	FAIR_NONE = 0,
	FAIR_TAKEN = 1, /* a task from a queue is sent */
	FAIR_KEPT = 2   /* the one that runs goes on */
};

/*
 * @prev used up its slice and is in no queue while dispatch chooses. If it is still furthest behind it
 * goes on; otherwise two tasks would take turns whatever their weights are. Not for one with a server,
 * whose accounts are settled when it stops; nor between the two queues, where fair_pair decides.
 */
static __noinline bool fair_keeps(struct task_struct *prev, u32 cpu)
{
	u64 dsq = pinned(prev) ? DSQ_PINNED(cpu) : DSQ_FAIR;
	struct bpf_iter_scx_dsq it;
	struct task_struct *head = NULL;
	bool keep;

	if (nr_cpus > 1 && scx_bpf_dsq_nr_queued(pinned(prev) ? DSQ_FAIR : DSQ_PINNED(cpu)))
		return false;
	if (!bpf_iter_scx_dsq_new(&it, dsq, 0))
		head = bpf_iter_scx_dsq_next(&it);
	keep = !head || time_before(prev->scx.dsq_vtime, head->scx.dsq_vtime);
	bpf_iter_scx_dsq_destroy(&it);
	return keep;
}

/* Choose the next task for @cpu; @prev runs still, and could go on, or is NULL. */
static __always_inline enum fair_choice fair_dispatch(u32 cpu, struct cpu_ctx *c, struct task_struct *prev)
{
	if (prev && fair_keeps(prev, cpu)) {
		prev->scx.slice = FAIR_SLICE_NS;
		fair_running(prev, c);
		return FAIR_KEPT;
	}
	if (nr_cpus > 1 && scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu))) {
		u32 member = 1;

		if (scx_bpf_dsq_nr_queued(DSQ_FAIR))
			member = fair_pair_pick(&c->pair);
		if (member == 0 && dsq_move_to_local(DSQ_FAIR))
			return FAIR_TAKEN;
		if (dsq_move_to_local(DSQ_PINNED(cpu)))
			return FAIR_TAKEN;
	}
	return dsq_move_to_local(DSQ_FAIR) ? FAIR_TAKEN : FAIR_NONE;
}

#endif /* APLOMB_FAIR_BPF_H */
