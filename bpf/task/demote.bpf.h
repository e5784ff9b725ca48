/* SPDX-License-Identifier: GPL-2.0 */
/*
 * task/demote.bpf.h - a program is demoted, because the memory of interactive programs does not
 * fit, and comes back.
 *
 * Source: Redline section 4 (demotion) and section 6.1 (reactivation). The daemon knows how much
 * memory each program needs, so it chooses the program (crates/memory/src/demotion.rs), and runs
 * these programs (BPF_PROG_RUN). The answer is in the arguments.
 *
 *     ADMITTED -- demote --> DEMOTED -- promote --> REVOKED -- reserved/governor.bpf.h --> ADMITTED
 *
 * The governor alone does not reactivate a demoted program. Its memory test (memory_is_there())
 * asks whether free memory holds what the program itself lacks, not whether all programs fit.
 */
#ifndef APLOMB_DEMOTE_BPF_H
#define APLOMB_DEMOTE_BPF_H

#include "reserved/governor.bpf.h"
#include "task/server.bpf.h"

/* So that the skeleton knows this type */
const volatile struct demote_args demote_args_layout;

/* What @s used of its CPU over the window, ppm */
static __always_inline u64 server_use(struct server *s)
{
	u64 ppm;

	bpf_spin_lock(&s->lock);
	ppm = usage_ppm(&s->info.usage, sample_no);
	bpf_spin_unlock(&s->lock);
	return ppm;
}

static __always_inline s32 server_demote(struct server *s)
{
	if (s->info.guaranteed || !(s->info.spec.flags & SPEC_REVOCABLE))
		return -EPERM;
	if (s->info.state != SERVER_ADMITTED)
		return -ESRCH;
	return server_revoke(s, SERVER_DEMOTED, server_use(s)) ? 0 : -ESRCH;
}

static __always_inline s32 server_promote(struct server *s)
{
	s32 result = -ESRCH;

	bpf_spin_lock(&s->lock);
	if (s->info.state == SERVER_DEMOTED) {
		s->info.state = SERVER_REVOKED;
		result = 0;
	}
	bpf_spin_unlock(&s->lock);
	return result;
}

SEC("syscall")
int demote(struct demote_args *args)
{
	struct task_struct *p = bpf_task_from_pid(args->pid);
	u64 demand = args->demand, limit = args->limit, total = args->total;
	struct server *s;

	args->result = -ESRCH;
	if (!p)
		return 0;
	s = server_owned(task_ctx(p));
	if (s && args->promote)
		args->result = server_promote(s);
	else if (s)
		args->result = server_demote(s);
	if (s && !args->promote && !args->result)
		emit(EV_DEMOTED, s, demand, total, limit);
	bpf_task_release(p);
	return 0;
}

#endif /* APLOMB_DEMOTE_BPF_H */
