/* SPDX-License-Identifier: GPL-2.0 */
/*
 * task/server.bpf.h - the table of servers: a process takes one, its threads share it, the last frees it.
 *
 * Redline gives each task a reservation of its own. Its tasks were processes with one thread; a
 * browser has a hundred, and a hundred times 6:30 is refused. So a spec reserves for the program: one
 * server per process, from which whichever thread has work draws, on the server's CPU.
 */
#ifndef APLOMB_TASK_SERVER_BPF_H
#define APLOMB_TASK_SERVER_BPF_H

#include "reserved/governor.bpf.h"
#include "state/timer.bpf.h"

/* A thread joins @s, in its @generation; if that one is over, it has no server. */
static __always_inline void task_join(struct task_ctx *t, u32 slot, struct server *s,
				      u32 generation)
{
	t->slot = slot;
	t->generation = generation;
	t->window_ns = 0;
	t->awake = 0;
	bpf_spin_lock(&s->lock);
	if (s->info.generation == generation)
		s->info.threads++;
	bpf_spin_unlock(&s->lock);
}

/*
 * @leave threads of @generation leave the server in @slot; with the last, or if @leave is 0 at once, the slot becomes
 * free. Tasks that still refer to it see another generation and count as having none.
 */
VERIFIED_ONCE int server_release(u32 slot, u32 generation, u32 leave)
{
	struct server *s = server_at(slot);
	u32 state = SERVER_FREE;

	if (!s)
		return 0;
	bpf_spin_lock(&s->lock);
	if (s->info.generation == generation && s->info.state != SERVER_FREE) {
		s->info.threads -= leave;
		if (!leave || s->info.threads <= 0) {
			state = s->info.state;
			s->info.state = SERVER_FREE;
			s->info.generation++;
		}
	}
	bpf_spin_unlock(&s->lock);
	if (state == SERVER_FREE)
		return 0;
	if (state == SERVER_ADMITTED)
		governor_leave(s);
	emit(EV_EXITED, s, s->info.served_ns, s->info.periods, s->info.missed);
	__sync_fetch_and_sub(&nr_servers, 1);
	bpf_map_push_elem(&free_slots, &slot, 0);
	return 0;
}

/* @t's thread, one of @s's, is awake. */
static __always_inline void awake_join(struct server *s, struct task_ctx *t)
{
	if (t->awake)
		return;
	t->awake = 1;
	bpf_spin_lock(&s->lock);
	s->awake++;
	bpf_spin_unlock(&s->lock);
}

/* @t's thread, which may be awake, is none of @s's any more. */
static __always_inline void awake_leave(struct server *s, struct task_ctx *t)
{
	if (!t->awake)
		return;
	t->awake = 0;
	bpf_spin_lock(&s->lock);
	if (s->info.generation == t->generation && s->awake)
		s->awake--;
	bpf_spin_unlock(&s->lock);
}

/* A thread no longer draws on its server. A forked child in its window never counted. */
VERIFIED_ONCE int task_leave(struct task_ctx *t __arg_nonnull)
{
	struct server *s = server_of(t);

	if (s)
		awake_leave(s, t);
	if (s && !t->window_ns)
		server_release(t->slot, t->generation, 1);
	t->slot = 0;
	t->window_ns = 0;
	return 0;
}

/* nr_slots = max(nr_slots, slot + 1), against others who do the same. */
static __always_inline void slots_cover(u32 slot)
{
	u32 i;

	for (i = 0; i < 8; i++) {
		u32 seen = nr_slots;

		if (slot < seen || __sync_val_compare_and_swap(&nr_slots, seen, slot + 1) == seen)
			return;
	}
}

/* The program gives its server back, for all its threads: it runs something else now. (A domain's stays.) */
VERIFIED_ONCE int program_leave(struct task_ctx *t __arg_nonnull)
{
	struct server *s = server_of(t);

	if (s)
		awake_leave(s, t);
	if (s && !t->window_ns)
		server_release(t->slot, t->generation, is_domains(s));
	t->slot = 0;
	t->window_ns = 0;
	return 0;
}

/* Tasks that were refused may wait in the table for a better time as long as it is half empty. */
static __always_inline bool table_is_crowded(void)
{
	return nr_servers >= MAX_SERVERS / 2;
}

/* What @p's program had before it exchanges its server for another (exec). In the new server: the stack is short. */
static __always_inline void server_inherit(struct server *s, const struct edf_server *before)
{
	if (before)
		s->before = *before;
	else
		s->before.period = 0;
}

/* The server in @slot, which is free, begins anew under @spec, for process @tgid (0: a domain); without a name. */
static __always_inline void server_reset(struct server *s, u32 slot, const struct spec *spec,
					 s32 tgid)
{
	s->info.spec = *spec;
	if (s->info.spec.runtime_ns > s->info.spec.period_ns) /* two rows mixed */
		s->info.spec.runtime_ns = s->info.spec.period_ns;
	s->info.inherited = 0;
	s->info.tgid = tgid;
	s->info.threads = 0;
	s->info.cpu = -1;
	s->info.served_ns = 0;
	s->info.periods = 0;
	s->info.exhausted = 0;
	s->info.missed = 0;
	s->info.reclaimed_ns = 0;
	s->info.migrations = 0;
	s->info.slot = slot;
	s->awake = 0;
	s->loan.lent = 0;
	s->exhausted_second = 0;
	s->missed_second = 0;
	s->exhausted_now = 0;
	__builtin_memset(&s->info.usage, 0, sizeof(s->info.usage));
	__builtin_memset(s->waiter, 0, sizeof(s->waiter));
	s->info.state = SERVER_REJECTED;
	slots_cover(slot);
}

/*
 * A slot for @p, which becomes interactive under @spec (a row of a map, or another server's, that may change
 * while we look). Whatever it had before is given back. @parent: pid it inherits from, or 0. 0 if the
 * table is full or, for those that may not wait in it, if admission would say no (both told).
 */
VERIFIED_ONCE u32 server_create(struct task_struct *p __arg_trusted,
				struct task_ctx *t __arg_nonnull,
				const struct spec *spec __arg_nonnull, s32 parent)
{
	u64 bw = edf_bandwidth(spec->runtime_ns, spec->period_ns), load = 0;
	struct server *old = server_of(t), *s;
	u32 slot = 0, cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *c = cpu_ctx(cpu);
	bool runs = bpf_get_current_task_btf()->pid == p->pid;
	bool runs_on_old = false;

	if (!old || t->window_ns || is_domains(old))
		old = NULL;
	/* else clang splits it into a flag and a pointer, which verifiers before 7.0 take for two matters */
	barrier_var(old);
	if (old)
		runs_on_old = runs && c->reserved.slot == t->slot &&
			      c->reserved.generation == t->generation;
	if ((parent || table_is_crowded()) && !governor_fits(p, bw, &load)) {
		program_leave(t);
		emit_task(EV_REJECTED, p, spec->id, load, r_hi_ppm, bw);
		return 0;
	}
	if (bpf_map_pop_elem(&free_slots, &slot) || !(s = server_at(slot))) {
		program_leave(t);
		emit_task(EV_LIMIT, p, spec->id, MAX_SERVERS, spec->runtime_ns, spec->period_ns);
		return 0;
	}
	server_reset(s, slot, spec, p->tgid);
	server_inherit(s, old ? &old->info.edf : NULL);
	if (old) /* what it used of its period goes on to count here (edf_succeed), so not in S_load as well */
		old->info.edf.budget = old->info.edf.runtime;
	program_leave(t);
	s->info.inherited = parent != 0;
	bpf_probe_read_kernel(s->info.comm, COMM_LEN, p->comm);
	task_join(t, slot, s, s->info.generation);
	/*
	 * An exec in the middle of a run on the old server: what it ran since it was sent is charged, in whole,
	 * to the new one. Otherwise a program that execs itself would run for nothing.
	 */
	if (runs_on_old) {
		c->reserved.slot = slot;
		c->reserved.generation = s->info.generation;
	}
	__sync_fetch_and_add(&nr_servers, 1);
	governor_wake();
	if (parent)
		emit(EV_INHERITED, s, parent, s->info.spec.runtime_ns, s->info.spec.period_ns);
	return slot;
}

/* The admission test for the server in @slot, which server_create() has just made for @p. @launch: see governor_admit. */
VERIFIED_ONCE int server_launch(u32 slot, struct task_struct *p __arg_trusted, bool launch)
{
	struct server *s = server_at(slot);

	if (!s)
		return 0;
	if (governor_admit(slot, p, launch, false) && s->before.period) {
		bpf_spin_lock(&s->lock);
		edf_succeed(&s->info.edf, &s->before, s->info.edf.start);
		bpf_spin_unlock(&s->lock);
	}
	if (bpf_get_current_task_btf()->pid ==
	    p->pid) /* it runs: look at it anew, since its budget is another */
		cpu_timer_start(bpf_get_smp_processor_id(), bpf_ktime_get_ns(), NSEC_PER_USEC);
	return 0;
}

/*
 * A forked child's window is over without an exec: it inherits a server of its own if its parent's
 * spec says so (flag I), else it is best-effort (Redline, section 3).
 */
VERIFIED_ONCE int window_settle(struct task_struct *p __arg_trusted,
				struct task_ctx *t __arg_nonnull)
{
	struct server *parent = server_of(t);

	if (parent && (parent->info.spec.flags & SPEC_INHERIT)) {
		u32 slot = server_create(p, t, &parent->info.spec, parent->info.tgid);
		struct server *s = server_at(slot);

		if (s) { /* one promise is for one process */
			s->info.spec.flags &= ~SPEC_GUARANTEED;
			admit_by_load(slot, p, true, false);
		}
	} else {
		program_leave(t);
	}
	return 0;
}

/* The server of the program that @t's thread runs, as opposed to its domain's, or one it may use for its first 1 ms. */
static __always_inline struct server *server_owned(const struct task_ctx *t)
{
	return t && !t->window_ns && is_interactive(t) ? server_of(t) : NULL;
}

#endif /* APLOMB_TASK_SERVER_BPF_H */
