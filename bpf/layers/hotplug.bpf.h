/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/hotplug.bpf.h - a server's CPUs go away, by affinity or because a CPU is taken offline: it moves.
 *
 * Source: ours. Without these callbacks the kernel would end the scheduler at each change, and all
 * reservations with it.
 *
 * Servers are admitted anew, in order of their slots, guaranteed ones within 4 s; who does not fit on what is
 * left is rejected, and reactivated like others (reserved/governor.bpf.h).
 */
#ifndef APLOMB_HOTPLUG_BPF_H
#define APLOMB_HOTPLUG_BPF_H

#include "reserved/queue.bpf.h"

/* Tasks in one queue that are moved when its CPU goes; what is left of more ends the scheduler (a stall). */
#define MAX_MOVED (1 << 16)

/* The server in @slot, whose task is @p (NULL: it has gone, threads are left), has lost a CPU: admit it anew. */
VERIFIED_ONCE int server_move(u32 slot, struct task_struct *p __arg_trusted __arg_nullable)
{
	struct server *s = server_at(slot);
	s32 before;
	bool had;

	if (!s)
		return 0;
	before = s->info.cpu;
	bpf_spin_lock(&s->lock);
	had = s->info.state == SERVER_ADMITTED;
	if (had)
		s->info.state = SERVER_REJECTED;
	bpf_spin_unlock(&s->lock);
	if (!had)
		return 0;
	governor_leave(s);
	/* a promise is made anew by the governor's next looks (reactivate_one), one a second */
	if (p && !(s->info.spec.flags & SPEC_GUARANTEED) && admit_by_load(slot, p, true, false))
		emit(EV_MOVED, s, before, s->info.cpu, 0);
	return 0;
}

/* Does @s have a part on @cpu? */
static __always_inline bool server_uses(const struct server *s, s32 cpu)
{
	u32 i;

	if (!is_split(s))
		return s->info.cpu == cpu;
	for (i = 0; i < WMR_PARTS; i++)
		if (i < s->info.split.parts && s->info.split.cpu[i] == cpu)
			return true;
	return false;
}

/*
 * Whoever waits in @queue of @cpu, which leaves, goes to its local queue: from there the kernel pushes each
 * to another CPU, with a wider affinity if it has to, and we are asked anew where to queue it.
 */
VERIFIED_ONCE int drain(u64 queue, u32 cpu)
{
	u32 i;

	bpf_for(i, 0, MAX_MOVED) {
		struct bpf_iter_scx_dsq it;
		struct task_struct *p = NULL;
		bool moved = false;

		if (!bpf_iter_scx_dsq_new(&it, queue, 0))
			p = bpf_iter_scx_dsq_next(&it);
		if (p)
			moved = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON(cpu), 0);
		bpf_iter_scx_dsq_destroy(&it);
		if (!moved)
			break;
	}
	return 0;
}

/* Likewise whoever was rescued (tree/rescue.bpf.h) and is of @cpu, which leaves: if it is tied to it, no other CPU would take it. */
VERIFIED_ONCE int drain_rescued(u32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 i;

	if (!bpf_iter_scx_dsq_new(&it, DSQ_RESCUE, 0)) {
		bpf_for(i, 0, MAX_MOVED) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			if ((u32)task_cpu(p) == cpu)
				scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON(cpu), 0);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

void OPS(aplomb_cpu_offline, s32 cpu)
{
	u32 slot, k;

	cpu_ctx(cpu)->online = 0;
	nr_online--;
	bpf_for(slot, 1, nr_slots) {
		struct server *s = server_at(slot);
		struct task_struct *p;

		if (!s || s->info.state != SERVER_ADMITTED || !server_uses(s, cpu))
			continue;
		p = bpf_task_from_pid(s->info.tgid);
		if (p) {
			server_move(slot, p);
			bpf_task_release(p);
		} else {
			server_move(slot, NULL);
		}
	}
	drain(DSQ_EDF(cpu), cpu);
	drain(DSQ_THROTTLED(cpu), cpu);
	bpf_for(k, 0, cpu_ctx(cpu)->tree.nr_lanes)
		drain(DSQ_PINNED(cpu, k), cpu);
	drain_rescued(cpu);
	/* the idle CPU that was asked to help with a task may have got one of these instead */
	wake_idle();
}

void OPS(aplomb_cpu_online, s32 cpu)
{
	cpu_ctx(cpu)->online = 1;
	nr_online++;
	cpu_ctx(cpu)->reserved.deadline = TIME_NEVER;
}

#endif /* APLOMB_HOTPLUG_BPF_H */
