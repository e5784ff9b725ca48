/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/hotplug.bpf.h - the CPUs of a server go away, by affinity or because a CPU goes off line:
 * the server moves, and the CPU's queues are emptied.
 *
 * Source: ours. Without these callbacks the kernel would end the scheduler at each change, and all
 * reservations with it.
 *
 * Servers are admitted anew, in order of their slots, guaranteed ones within 4 s. A server that
 * does not fit on the CPUs that are left is rejected, and may be reactivated
 * (reserved/governor.bpf.h).
 */
#ifndef APLOMB_HOTPLUG_BPF_H
#define APLOMB_HOTPLUG_BPF_H

#include "reserved/admission.bpf.h"
#include "tree/waiting.bpf.h"

/*
 * Most tasks of one queue that are moved when its CPU leaves. Further tasks would stay in the
 * queue, and the watchdog would end the scheduler because of them.
 */
#define MAX_MOVED (1 << 16)

/*
 * The server in @slot has lost a CPU: admits it anew. @p: the server's task, or NULL if that task
 * has exited and other threads are left.
 */
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
	admission_leave(s);
	/* guaranteed servers are admitted anew by reactivate_one(), one a second */
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

/* May a task with affinity @mask use all CPUs of its server @s? */
static __always_inline bool server_within(const struct server *s, const struct cpumask *mask)
{
	u32 i;

	for (i = 1; i < WMR_PARTS; i++)
		if (i < s->info.split.parts && !bpf_cpumask_test_cpu(s->info.split.cpu[i], mask))
			return false;
	return bpf_cpumask_test_cpu(s->info.cpu, mask) &&
	       (!is_split(s) || bpf_cpumask_test_cpu(s->info.split.cpu[0], mask));
}

/* Admits anew all servers that have a part on @cpu, which leaves. */
static __always_inline void move_servers(s32 cpu)
{
	u32 slot;

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
}

/*
 * Moves @p, at @it in a queue of a CPU that leaves, to the local queue of @home. If that CPU is
 * idle, no other task counts on it from now on.
 */
static __always_inline void send_home(struct bpf_iter_scx_dsq *it, struct task_struct *p, s32 home)
{
	bool idle = cpu_ctx(home)->online && scx_bpf_test_and_clear_cpu_idle(home);

	if (!scx_bpf_dsq_move(it, p, SCX_DSQ_LOCAL_ON(home), 0) && idle)
		scx_bpf_kick_cpu(home, SCX_KICK_IDLE); /* it is idle again after that */
}

/*
 * Moves the tasks in @queue of @cpu, which leaves, to its local queue. From there the kernel pushes
 * each to another CPU, with a wider affinity if it has to, and calls ops.enqueue for it again. A
 * task that came to a lane here from another CPU (tree/spread.bpf.h) goes back to that one.
 */
VERIFIED_ONCE int drain(u64 queue, u32 cpu)
{
	u32 i;

	bpf_for(i, 0, MAX_MOVED) {
		struct bpf_iter_scx_dsq it;
		struct task_struct *p = NULL;

		if (!bpf_iter_scx_dsq_new(&it, queue, 0))
			p = bpf_iter_scx_dsq_next(&it);
		if (p) { /* refused, if another CPU takes it out or puts it back: look again */
			u32 home = task_cpu(p);

			send_home(&it, p, cpu_ctx(home)->online ? home : cpu);
		}
		bpf_iter_scx_dsq_destroy(&it);
		if (!p)
			break;
	}
	return 0;
}

/*
 * The same for rescued tasks (tree/rescue.bpf.h) of @cpu, which leaves: no other CPU could take
 * those that are pinned to it.
 */
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

/* A CPU comes. */
void OPS(aplomb_cpu_online, s32 cpu)
{
	cpu_ctx(cpu)->online = 1;
	nr_online++;
	cpu_ctx(cpu)->reserved.deadline = TIME_NEVER;
}

/* A CPU goes. */
void OPS(aplomb_cpu_offline, s32 cpu)
{
	u32 k;

	cpu_ctx(cpu)->online = 0;
	nr_online--;
	move_servers(cpu);
	drain(DSQ_EDF(cpu), cpu);
	drain(DSQ_THROTTLED(cpu), cpu);
	bpf_for(k, 0, cpu_ctx(cpu)->tree.nr_lanes)
		drain(DSQ_PINNED(cpu, k), cpu);
	drain_rescued(cpu);
	/* the idle CPU that was asked to help with a task may have got one of these instead */
	wake_idle();
}

#endif /* APLOMB_HOTPLUG_BPF_H */
