/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/second.bpf.h - the governor's second: once a second, while there are servers, the load of
 * each CPU is sampled; then servers are revoked or reactivated.
 *
 * Source: Redline section 6.1; policy/load.h, reserved/governor.bpf.h.
 *
 * It also does what the timers of servers cannot: it releases throttled tasks whose server has
 * gone, and empties the EDF queue of a CPU that takes no tasks any more. It stops when the last
 * server has gone.
 */
#ifndef APLOMB_SECOND_BPF_H
#define APLOMB_SECOND_BPF_H

#include "reserved/governor.bpf.h"
#include "reserved/queue.bpf.h"
#include "tree/node.bpf.h"

/* Tasks that one look takes out of an inactive CPU's queue. The rest follows a second later. */
#define MAX_EVACUATED 1024

/*
 * @cpu takes no tasks any more (cpu_active): moves the tasks in its EDF queue, which run on other
 * CPUs, in spare time.
 */
VERIFIED_ONCE int evacuate(u32 cpu)
{
	u32 i;

	bpf_for(i, 0, MAX_EVACUATED) {
		struct bpf_iter_scx_dsq it;
		struct task_struct *p = NULL;

		bpf_rcu_read_lock(); /* see reactivate_one */
		if (!bpf_iter_scx_dsq_new(&it, DSQ_EDF(cpu), 0))
			p = bpf_iter_scx_dsq_next(&it);
		if (p) {
			struct task_ctx *t = task_ctx(p);
			u16 stay = t ? t->stay : 0;

			scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
			scx_bpf_dsq_move_set_vtime(&it, fair_place(t ? t->fair_vtime : fair_all.now,
								   &fair_all, fair_weight(p)));
			if (t)
				t->by_right = RIGHT_NONE;
			/* refused, if another CPU takes it out or puts it back: look again */
			if (scx_bpf_dsq_move_vtime(&it, p, DSQ_FAIR, 0) && t && t->stay == stay)
				t->by_deadline = 0;
			tree_legacy = 1;
			ask_idle(p);
		}
		bpf_iter_scx_dsq_destroy(&it);
		bpf_rcu_read_unlock();
		if (!p)
			break;
	}
	return 0;
}

/* One sample of @cpu's load over @interval. @none: there is no server, so its history ends. */
static __always_inline void sample_load(u32 cpu, u64 interval, bool none)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 used = __sync_lock_test_and_set(&c->reserved.ran_ns, 0);

	bpf_spin_lock(&governor_lock);
	load_sample(&c->reserved.load, used, interval);
	if (none)
		__builtin_memset(&c->reserved.load, 0, sizeof(c->reserved.load));
	bpf_spin_unlock(&governor_lock);
}

/*
 * Moves tasks in @cpu's reserved queues that no other timer or callback would move. Returns how
 * many tasks wait there.
 */
static __always_inline u32 look_at_queues(u32 cpu, u64 now)
{
	u32 waiting;

	if (scx_bpf_dsq_nr_queued(DSQ_THROTTLED(cpu)))
		throttled_release(cpu, now);
	waiting = scx_bpf_dsq_nr_queued(DSQ_EDF(cpu)) + scx_bpf_dsq_nr_queued(DSQ_THROTTLED(cpu));
	if (scx_bpf_dsq_nr_queued(DSQ_EDF(cpu)) && !cpu_active(cpu))
		evacuate(cpu);
	return waiting;
}

static int governor_tick(void *map, int *key, struct timer_slot *slot)
{
	static u64 last_ns, ticks;
	u64 now = bpf_ktime_get_ns(), interval = now - last_ns;
	bool none = !nr_servers;
	u32 cpu, waiting = 0;

	/* the first look after a pause: what was counted during the pause belongs to no second */
	if (interval > 2 * LOAD_SAMPLE_NS)
		interval = LOAD_SAMPLE_NS;
	last_ns = now;
	bpf_for(cpu, 0, nr_cpus) {
		struct reserved_cpu *r = &cpu_ctx(cpu)->reserved;

		waiting += look_at_queues(cpu, now);
		sample_load(cpu, interval, none);
		if (r->load.r_ppm + r->promised_ppm > r_max_ppm)
			relieve_cpu(cpu);
	}
	look_at_owners(interval, none);
	sample_no++;
	if (none && !waiting) {
		/*
		 * First the switch is set to off, then the servers are counted. A server that is
		 * taken meanwhile is counted here, or server_added() sees that the switch is off
		 * and starts the timer itself.
		 */
		__sync_lock_test_and_set(&reserved_on, 0);
		if (!nr_servers)
			return 0;
		reserved_on = 1;
	}
	/*
	 * By load one a window, so that its use is measured before the next is reactivated. A
	 * promise needs no measurement.
	 */
	reactivate_one(++ticks % LOAD_SAMPLES != 0);
	bpf_timer_start(&slot->timer, LOAD_SAMPLE_NS, 0);
	return 0;
}

static __always_inline s32 governor_init(void)
{
	u32 zero = 0;
	struct timer_slot *slot = bpf_map_lookup_elem(&governor_timer, &zero);

	return slot ? bpf_timer_set_callback(&slot->timer, governor_tick) : -EINVAL;
}

#endif /* APLOMB_SECOND_BPF_H */
