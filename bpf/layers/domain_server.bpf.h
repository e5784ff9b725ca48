/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/domain_server.bpf.h - C every T for a whole domain: one server, on which all its threads
 * draw; and the domain's end.
 *
 * Source: Eclipse (Bruno et al. 1998), sections 3 and 6 (a reservation belongs to a domain,
 * whatever processes are in it).
 *
 * 1. Why. A fraction says how much, but not by when: a domain that is due 20 % may get its 20 ms at
 *    the end of each 100. "10 ms every 50" has a deadline. So it is for the reserved layer, like a
 *    program's reservation. And it is guaranteed, like a spec's with flag G
 *    (reserved/admission.bpf.h 1), since there is no rule which of a domain's programs to revoke.
 *
 * 2. Model. A domain with such a reservation has a server. The threads that draw on it are those of
 *    the domain, and of the domains below that have no server of their own, unless their program
 *    has a server itself. What they run by right is charged to their domains as always, and the
 *    tree counts C/T as a fraction (share.h). So together they get C/T and their part of what is
 *    not reserved, and not C/T twice.
 *
 * 3. Control. A thread joins when it is enqueued next. It leaves when it is enqueued after the
 *    domain, the reservation, or the thread's domain has changed. The domain counts as one thread
 *    of its server, so the last thread that leaves does not free it.
 *
 *      set cpu=C/T ---> domain_serve ---> [promised, on one CPU or split] ---> domain_unserve
 *                             |                                                 ^
 *                             +-- does not fit: -E2BIG, all stays as before     +-- cpu=none, rmdir
 */
#ifndef APLOMB_DOMAIN_SERVER_BPF_H
#define APLOMB_DOMAIN_SERVER_BPF_H

#include "task/server.bpf.h"
#include "tree/disk_count.bpf.h"
#include "tree/disk_share.bpf.h"
#include "tree/domain.bpf.h"
#include "tree/domain_set.bpf.h"

/* Number of domains that have a server. While it is 0, no enqueue looks for one. */
u32 domain_servers;

/*
 * Finds the server on which each domain draws: its own, or that of the nearest domain above that
 * has one.
 */
VERIFIED_ONCE int domain_pass_on(void)
{
	u32 i, used = nr_domain_slots;

	bpf_for(i, 0, used) {
		u32 k, at = i, server = 0;

		bpf_for(k, 0, MAX_DEPTH + 1) {
			server = branch(at)->server;
			if (server || !at)
				break;
			at = branch(at)->parent;
		}
		branch(i)->draws_on = server;
	}
	return 0;
}

/* Domain @slot gives its server back. Its threads see that when they are enqueued next. */
VERIFIED_ONCE int domain_unserve(u32 slot)
{
	/* taken atomically: the cgroup may be removed while the daemon changes the domain */
	struct server *s = server_at(__sync_lock_test_and_set(&branch(slot)->server, 0));

	if (!s)
		return 0;
	__sync_fetch_and_sub(&domain_servers, 1);
	domain_pass_on();
	return server_release(s->info.slot, s->info.generation, 0);
}

/*
 * Creates a server of @runtime in every @period, ns, for domain @slot, which has none. Returns 0;
 * -EMFILE: all servers are taken; -E2BIG: no CPU can promise the reservation.
 */
VERIFIED_ONCE int domain_serve(u32 slot, u64 runtime, u64 period)
{
	struct spec spec = { .runtime_ns = runtime,
			     .period_ns = period,
			     .flags = SPEC_INTERACTIVE | SPEC_GUARANTEED | SPEC_DOMAIN };
	struct server *s;
	u32 taken = 0;

	if (bpf_map_pop_elem(&free_slots, &taken))
		return -EMFILE;
	s = server_at(taken);
	if (!s)
		return -EMFILE;
	server_reset(s, taken, &spec, 0);
	s->info.threads = 1;
	s->before.period = 0;
	__builtin_memcpy(s->info.comm, "(domain)", sizeof("(domain)"));
	server_added();
	if (!admit_by_promise(taken, NULL, false)) {
		server_release(taken, s->info.generation, 0);
		return -E2BIG;
	}
	branch(slot)->server = taken;
	__sync_fetch_and_add(&domain_servers, 1);
	return domain_pass_on();
}

/*
 * @t's thread is about to be enqueued: it joins the server on which it draws. Its program's own
 * server takes precedence over its domain's.
 */
VERIFIED_ONCE int domain_draw(struct task_ctx *t __arg_nonnull)
{
	u32 slot = branch(t->domain)->draws_on;
	struct server *s = server_of(t);

	if (s && (!is_domains(s) || t->slot == slot))
		return 0;
	if (s)
		task_leave(t);
	s = server_at(slot);
	if (s && is_domains(s) && s->info.state)
		task_join(t, slot, s, s->info.generation);
	return 0;
}

/* A cgroup with the CPU controller goes: its domain ends, and so does its reservation. */
void OPS(aplomb_cgroup_exit, struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	u32 slot = slot_of(cgrp);

	bpf_map_delete_elem(&domain_of, &id);
	if (!slot || branch(slot)->cgid != id)
		return;
	domain_detach(slot);
	if (branch(slot)->server)
		domain_unserve(slot);
	if (branch(slot)->disk_own)
		disk_share_end(slot);
	if (disk_order)
		disk_count_end(id, branch(branch(slot)->parent)->cgid);
	branch(slot)->state = DOMAIN_GONE;
	domain_bury(slot); /* while tasks wait, tree/rescue_tick.bpf.h does it later */
}

/*
 * Reserves @ppm of the machine for domain @slot; if @interval is not 0, as @runtime in each
 * @interval of one CPU, ns. Returns 0 or the error of set_fraction() or domain_serve(). @told: see
 * set_fraction().
 */
static __always_inline s32 set_reservation(u32 slot, u32 ppm, u64 runtime, u64 interval,
					   u32 told[2])
{
	u32 before = member(MEMBER_OF(slot))->reserved_ppm, unused[2] = {};
	struct branch *b = branch(slot);
	u64 id = b->cgid;
	s32 err = set_fraction(slot, id, ppm, told);

	if (err)
		return err;
	if (b->server)
		domain_unserve(slot);
	if (interval)
		err = domain_serve(slot, runtime, interval);
	if (err) { /* restores the old reservation, for which there was room */
		set_fraction(slot, id, before, unused);
		if (b->interval_ns)
			domain_serve(slot, b->runtime_ns, b->interval_ns);
	}
	if (b->cgid != id) { /* the cgroup was removed meanwhile (aplomb_cgroup_exit) */
		domain_unserve(slot);
		return -ENOENT;
	}
	if (err)
		return err;
	b->runtime_ns = interval ? runtime : 0;
	b->interval_ns = interval;
	return 0;
}

/* The daemon runs this (BPF_PROG_RUN) to change a domain. The answer is in @args. */
SEC("syscall")
int domain_set(struct domain_args *args)
{
	/*
	 * Field by field: before 6.19 a context may only be read at fixed offsets, not through a
	 * pointer.
	 */
	u64 id = args->cgid, runtime = args->runtime_ns, interval = args->interval_ns;
	u32 change = args->change, policy = args->policy, ppm = args->reserved_ppm;
	u32 *found = bpf_map_lookup_elem(&domain_of, &id), slot, told[2] = {};
	u32 cpus = nr_online ? nr_online : 1;
	s32 result = -EINVAL;

	args->result = -ENOENT;
	if (!found)
		return 0;
	slot = *found;
	if (branch(slot)->cgid != id)
		return 0;
	if (change != SET_RESERVATION)
		interval = 0;
	else if (!interval && !runtime)
		ppm = 0;
	else if (runtime && runtime <= interval && interval <= 10 * NSEC_PER_SEC)
		ppm = runtime * PPM / interval / cpus;
	else
		ppm = ~0U;
	if (change == SET_POLICY && policy < NR_DOMAIN_POLICIES) {
		set_policy(slot, policy);
		requeue(slot);
		result = 0;
	} else if (change == SET_DISK && slot && ppm <= PPM) {
		result = disk_share_set(slot, id, ppm, told);
	} else if (change != SET_POLICY && change != SET_DISK && slot && ppm <= PPM) {
		result = set_reservation(slot, ppm, runtime, interval, told);
	}
	args->result = result;
	args->taken_ppm = told[0];
	args->limit_ppm = told[1];
	if (!result)
		emit_plain(EV_DOMAIN, id, change, change == SET_POLICY ? policy : ppm);
	return 0;
}

#endif /* APLOMB_DOMAIN_SERVER_BPF_H */
