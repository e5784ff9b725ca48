/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hotplug.bpf.h - a server's CPUs go away, by affinity or because a CPU is taken offline: it moves.
 *
 * Source: ours. Without these callbacks the kernel would end the scheduler at each change, and all
 * reservations with it.
 *
 * An offline CPU's queues are served by nobody: what waits there goes to the machine's queue, and whoever
 * still has a reservation is queued by right again when it next stops. Servers are admitted anew, in order of
 * their slots; who does not fit on what is left is rejected, and reactivated like others (governor.bpf.h).
 */
#ifndef APLOMB_HOTPLUG_BPF_H
#define APLOMB_HOTPLUG_BPF_H

#include "reserved.bpf.h"

/* Tasks in one queue that are moved when its CPU goes; the rest at the governor's next second. */
#define MAX_MOVED 4096

/* @s, whose task is @p, has lost a CPU: admit it anew. */
static __noinline void server_move(struct server *s, struct task_struct *p)
{
	s32 before = s->info.cpu;

	governor_leave(s);
	if (governor_admit(s, p, true, false))
		emit(EV_MOVED, s, before, s->info.cpu, 0);
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

/* Whoever waits in @queue of an offline CPU may run anywhere. */
static __noinline void drain(u64 queue)
{
	u32 i;

	bpf_for(i, 0, MAX_MOVED) {
		struct bpf_iter_scx_dsq it;
		struct task_struct *p = NULL;
		bool moved = false;

		if (!bpf_iter_scx_dsq_new(&it, queue, 0))
			p = bpf_iter_scx_dsq_next(&it);
		if (p) {
			struct task_ctx *t = task_ctx(p);

			if (t && t->by_right) {
				t->by_right = RIGHT_NONE;
				scx_bpf_dsq_move_set_vtime(&it, fair_place(t->fair_vtime, fair_now));
			} else {
				scx_bpf_dsq_move_set_vtime(&it, fair_place(p->scx.dsq_vtime, fair_now));
			}
			scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
			moved = scx_bpf_dsq_move_vtime(&it, p, DSQ_FAIR, 0);
			ask_idle(p);
		}
		bpf_iter_scx_dsq_destroy(&it);
		if (!moved)
			return;
	}
}

void OPS(aplomb_cpu_offline, s32 cpu)
{
	u32 slot;

	cpu_ctx(cpu)->online = 0;
	bpf_for(slot, 1, nr_slots) {
		struct server *s = server_at(slot);
		struct task_struct *p;

		if (!s || s->info.state != SERVER_ADMITTED || !server_uses(s, cpu))
			continue;
		p = bpf_task_from_pid(s->info.tgid);
		if (!p)
			continue;
		server_move(s, p);
		bpf_task_release(p);
	}
	drain(DSQ_EDF(cpu));
	drain(DSQ_THROTTLED(cpu));
	drain(DSQ_PINNED(cpu));
}

void OPS(aplomb_cpu_online, s32 cpu)
{
	cpu_ctx(cpu)->online = 1;
	cpu_ctx(cpu)->deadline = TIME_NEVER;
}

#endif /* APLOMB_HOTPLUG_BPF_H */
