/* SPDX-License-Identifier: GPL-2.0 */
/*
 * task/reserve.bpf.h - a reservation for a running process, asked for by its id (aplomb run, aplomb
 * set).
 *
 * The daemon checks the caller's rights, then runs this program (BPF_PROG_RUN); the answer is in
 * the arguments. The daemon then reads the iterator `rematch`, with which the process's other
 * threads join.
 */
#ifndef APLOMB_RESERVE_BPF_H
#define APLOMB_RESERVE_BPF_H

#include "task/server.bpf.h"

/* So that the skeleton knows this type */
const volatile struct reserve_args reserve_args_layout;

static __always_inline s32 reserve_for(struct task_struct *p, const struct spec *spec,
				       struct reserve_args *args)
{
	struct task_ctx *t;
	struct server *s;
	u64 load = 0;
	u32 slot;

	if (p->pid != p->tgid)
		return -EINVAL;
	t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return -ENOSPC;
	if (!spec->period_ns) {
		program_leave(t);
		return 0;
	}
	admission_fits(p, NO_ACCOUNT, spec_density(spec), &load);
	args->load_ppm = load;
	slot = server_create(p, t, spec, 0);
	s = server_at(slot);
	if (!s)
		return -ENOSPC;
	server_launch(slot, p, true);
	if (server_of(t) != s)
		return -ESRCH;
	args->state = s->info.state;
	args->cpu = s->info.cpu;
	return 0;
}

SEC("syscall")
int reserve(struct reserve_args *args)
{
	/*
	 * field by field: before 6.19 a context may be read at fixed offsets only, not by a pointer
	 */
	struct spec spec = {
		.runtime_ns = args->spec.runtime_ns,
		.period_ns = args->spec.period_ns,
		.id = args->spec.id,
		.flags = args->spec.flags,
		.protect_s = args->spec.protect_s,
		.io_priority = args->spec.io_priority,
		.policy = args->spec.policy,
	};
	struct task_struct *p;

	args->state = SERVER_FREE;
	args->cpu = -1;
	args->load_ppm = 0;
	args->result = -EINVAL;
	if (spec.period_ns && (!spec.runtime_ns || spec.runtime_ns > spec.period_ns ||
			       spec.period_ns > 10 * NSEC_PER_SEC))
		return 0;
	p = bpf_task_from_pid(args->pid);
	if (!p) {
		args->result = -ESRCH;
		return 0;
	}
	bpf_rcu_read_lock();
	args->result = reserve_for(p, &spec, args);
	bpf_rcu_read_unlock();
	bpf_task_release(p);
	return 0;
}

#endif /* APLOMB_RESERVE_BPF_H */
