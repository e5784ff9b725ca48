/* SPDX-License-Identifier: GPL-2.0 */
/*
 * task/server.bpf.h - a process and its server: how it takes one from the table, how its threads
 * and forked children draw on it, how it gives it back.
 *
 * Source: Redline section 3 and Fig. 3 (inheritance, the window after a fork).
 *
 *     exec, aplomb run --> server_create --> server_launch --> [admitted or rejected]
 *                                                                      |
 *     new thread --> task_join          fork --> exec window, 1 ms     |
 *                                                  |                   |
 *                     no exec in it: window_settle +    last thread ends, or another program is
 *                     (a server of its own if flag I)   executed: server_release
 */
#ifndef APLOMB_TASK_SERVER_BPF_H
#define APLOMB_TASK_SERVER_BPF_H

#include "reserved/admission.bpf.h"
#include "state/timer.bpf.h"

/*
 * A thread joins @s in @generation. If that generation is over, the thread has no server. `slot` is
 * last: once it is set, the thread's end, on another CPU, gives the server back (task_leave()).
 */
static __always_inline void task_join(struct task_ctx *t, u32 slot, struct server *s,
				      u32 generation)
{
	bpf_spin_lock(&s->lock);
	if (s->info.generation == generation)
		s->info.threads++;
	bpf_spin_unlock(&s->lock);
	t->generation = generation;
	t->window_ns = 0;
	t->awake = 0;
	__sync_lock_test_and_set(&t->slot, slot);
}

/*
 * @leave threads of @generation leave the server in @slot. With the last one the slot becomes free;
 * if @leave is 0, at once. Tasks that still refer to it see another generation: they have no
 * server.
 */
VERIFIED_ONCE int server_release(u32 slot, u32 generation, u32 leave)
{
	struct server *s = server_at(slot);
	u32 state = SERVER_FREE;
	u64 used = 0;

	if (!s)
		return 0;
	bpf_spin_lock(&s->lock);
	if (s->info.usage.second == sample_no && !s->info.guaranteed)
		used = s->info.usage.ns[sample_no % LOAD_SAMPLES];
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
	waiting_over(s);
	if (state == SERVER_ADMITTED)
		admission_leave(s);
	emit(EV_EXITED, s, s->info.served_ns, s->info.periods, s->info.missed);
	owner_leave(s->account, work_on(s->info.cpu, used));
	__sync_fetch_and_sub(&nr_servers, 1);
	bpf_map_push_elem(&free_slots, &slot, 0);
	return 0;
}

/*
 * A thread no longer draws on its server. A forked child in its exec window was never counted. Two
 * CPUs may see that a thread ends (leave_if_ending()): the one that clears `slot` settles it.
 */
VERIFIED_ONCE int task_leave(struct task_ctx *t __arg_nonnull)
{
	struct server *s = server_of(t);
	u32 slot = __sync_lock_test_and_set(&t->slot, 0);

	if (s && slot) {
		awake_leave(s, t);
		if (!t->window_ns)
			server_release(slot, t->generation, 1);
	}
	t->window_ns = 0;
	return 0;
}

/*
 * @p got a server from elsewhere than its own system call. If it ends meanwhile, on_exit may have
 * looked before that: then this CPU gives the server back. @p has PF_EXITING before on_exit looks
 * at `slot`, and here `slot` is set before this looks at PF_EXITING, so at least one of the two
 * sees the other.
 */
static __always_inline void leave_if_ending(struct task_struct *p)
{
	struct task_ctx *t = p->flags & PF_EXITING ? task_ctx(p) : NULL;

	if (t)
		task_leave(t);
}

/* nr_slots = max(nr_slots, slot + 1), while other CPUs may do the same. */
static __always_inline void slots_cover(u32 slot)
{
	u32 i;

	for (i = 0; i < 8; i++) {
		u32 seen = nr_slots;

		if (slot < seen || __sync_val_compare_and_swap(&nr_slots, seen, slot + 1) == seen)
			return;
	}
}

/*
 * The process runs another program now: it gives its server back, for all its threads. The server
 * of a domain stays.
 */
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

/*
 * Servers that were refused may wait in the table for reactivation as long as it is half empty, and
 * half of what @account may have of it.
 */
static __always_inline bool table_is_crowded(u32 account)
{
	return nr_servers >= MAX_SERVERS / 2 ||
	       (account && owner_at(account)->servers >= MAX_OWNED / 2);
}

/* Has @account, in which a new server counts already, more than it may have? */
static __always_inline bool account_is_full(u32 account)
{
	return account && owner_at(account)->servers > MAX_OWNED;
}

/* Takes a slot of the table for a server of @account; 0: none is free, or the account is full. */
static __always_inline u32 slot_take(u32 account)
{
	u32 slot = 0;

	if (account_is_full(account))
		return 0;
	return bpf_map_pop_elem(&free_slots, &slot) ? 0 : slot;
}

/* The account in which a server for @p under @spec counts, from now on. */
static __always_inline u32 account_join(struct task_struct *p, const struct spec *spec)
{
	if (p->flags & PF_KTHREAD || spec->flags & SPEC_BY_ROOT)
		return NO_ACCOUNT;
	return owner_join(task_owner(p));
}

/*
 * Exec replaces the server of a process by @s. Keeps in @s what the process had @before (NULL: no
 * server), because there is too little stack for it.
 */
static __always_inline void server_inherit(struct server *s, const struct server *old)
{
	if (!old) {
		s->before.period = 0;
		return;
	}
	s->before = old->info.edf;
	if (s->before.budget > 0)
		s->before.budget = work_on(old->info.cpu, s->before.budget);
}

/*
 * The server in @slot, which was free, gets @spec, for process @tgid (0: a domain); without a name.
 */
static __always_inline void server_reset(struct server *s, u32 slot, const struct spec *spec,
					 s32 tgid)
{
	s->info.spec = *spec;
	if (s->info.spec.runtime_ns >
	    s->info.spec.period_ns) /* @spec changed while it was copied */
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
	s->matched = 0;
	s->waits = 0;
	s->awake = 0;
	s->asleep_since = 0;
	__builtin_memset(&s->reserve, 0, sizeof(s->reserve));
	__builtin_memset(&s->swap, 0, sizeof(s->swap));
	s->loan.lent = 0;
	s->exhausted_second = 0;
	s->missed_second = 0;
	s->elsewhere_second = 0;
	s->exhausted_now = 0;
	__builtin_memset(&s->info.usage, 0, sizeof(s->info.usage));
	__builtin_memset(s->waiter, 0, sizeof(s->waiter));
	s->account = NO_ACCOUNT;
	s->info.state = SERVER_REJECTED;
	slots_cover(slot);
}

/*
 * Takes a slot for @p's process, which becomes interactive under @spec (a row of a map, or of
 * another server, so it may change meanwhile). The process gives back what it had. @parent: pid
 * from which it inherits, or 0.
 *
 * Returns 0, with an event, if the table is full; or if admission would refuse the server and it
 * may not wait in the table: in a crowded table, or an inherited one whose owner has too many that
 * wait (reserved/owner.bpf.h 3).
 */
VERIFIED_ONCE u32 server_create(struct task_struct *p __arg_trusted,
				struct task_ctx *t __arg_nonnull,
				const struct spec *spec __arg_nonnull, s32 parent)
{
	u64 bw = spec_density(spec), load = 0;
	struct server *old = server_of(t), *s;
	u32 slot, account, waits = 0, cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *c = cpu_ctx(cpu);
	bool runs = bpf_get_current_task_btf()->pid == p->pid;
	bool runs_on_old = false;

	if (!old || t->window_ns || is_domains(old))
		old = NULL;
	/*
	 * Otherwise clang splits it into a flag and a pointer, and verifiers before 7.0 do not
	 * connect the two.
	 */
	barrier_var(old);
	if (old)
		runs_on_old = runs && c->reserved.slot == t->slot &&
			      c->reserved.generation == t->generation;
	account = account_join(p, spec);
	if ((parent || table_is_crowded(account)) && !admission_fits(p, account, bw, &load) &&
	    (table_is_crowded(account) || !(waits = owner_waits(account)))) {
		owner_leave(account, 0);
		program_leave(t);
		emit_task(EV_REJECTED, p, spec->id, load, r_hi_ppm, bw);
		return 0;
	}
	slot = slot_take(account);
	s = server_at(slot);
	if (!s) {
		if (waits)
			owner_waits_no_more(account);
		program_leave(t);
		emit_task(EV_LIMIT, p, spec->id,
			  (u64)owner_at(account)->uid << 32 |
				  (account_is_full(account) ? MAX_OWNED : MAX_SERVERS),
			  0, 0);
		owner_leave(account, 0);
		return 0;
	}
	server_reset(s, slot, spec, p->tgid);
	s->account = account;
	s->waits = waits;
	server_inherit(s, old);
	/*
	 * What the old server used of its period counts in the new server (edf_succeed), so it must
	 * not count in S_load as well.
	 */
	if (old)
		old->info.edf.budget = old->info.edf.runtime;
	program_leave(t);
	s->info.inherited = parent != 0;
	bpf_probe_read_kernel(s->info.comm, COMM_LEN, p->comm);
	task_join(t, slot, s, s->info.generation);
	/*
	 * The task runs on the old server: all that it ran since it started to run is charged to
	 * the new one. Otherwise a program that execs itself would not be charged at all.
	 */
	if (runs_on_old) {
		c->reserved.slot = slot;
		c->reserved.generation = s->info.generation;
	}
	server_added();
	if (parent)
		emit(EV_INHERITED, s, parent, s->info.spec.runtime_ns, s->info.spec.period_ns);
	return slot;
}

/*
 * Admission of the server in @slot, which server_create() has just made for @p. @launch:
 * admit_by_load.
 */
VERIFIED_ONCE int server_launch(u32 slot, struct task_struct *p __arg_trusted, bool launch)
{
	struct server *s = server_at(slot);

	if (!s)
		return 0;
	if (admit(slot, p, launch, false) && s->before.period) {
		bpf_spin_lock(&s->lock);
		if (s->before.budget > 0)
			s->before.budget = time_on(s->info.cpu, s->before.budget);
		edf_succeed(&s->info.edf, &s->before, s->info.edf.start);
		bpf_spin_unlock(&s->lock);
	}
	if (bpf_get_current_task_btf()->pid == p->pid) {
		/* the CPU chooses again, since the budget is another one */
		cpu_timer_start(bpf_get_smp_processor_id(), bpf_ktime_get_ns(), NSEC_PER_USEC);
	} else {
		/*
		 * The task may wait in a queue of the fair layer, since its wake-up came before the
		 * server. The server's timer moves it.
		 */
		bpf_spin_lock(&s->lock);
		waiter_add(s, p->pid);
		bpf_spin_unlock(&s->lock);
		timer_start(&s->timer, TIMER_SERVER, slot, 0, 0);
		leave_if_ending(p);
	}
	return 0;
}

/*
 * A forked child's exec window is over without an exec: it inherits a server of its own if its
 * parent's spec says so (flag I), else it is best-effort (Redline, section 3).
 */
VERIFIED_ONCE int window_settle(struct task_struct *p __arg_trusted,
				struct task_ctx *t __arg_nonnull)
{
	struct server *parent = server_of(t);

	if (parent && (parent->info.spec.flags & SPEC_INHERIT)) {
		u32 slot = server_create(p, t, &parent->info.spec, parent->info.tgid);
		struct server *s = server_at(slot);

		if (s) { /* a guarantee is for one process */
			s->info.spec.flags &= ~SPEC_GUARANTEED;
			admit_by_load(slot, p, true, false);
		}
	} else {
		program_leave(t);
	}
	return 0;
}

/* The server of @t's own process: not its domain's, nor its parent's in the exec window. */
static __always_inline struct server *server_owned(const struct task_ctx *t)
{
	return t && !t->window_ns && is_interactive(t) ? server_of(t) : NULL;
}

/* A child in its exec window ran for @ran ns. A rest of 10 us would not be worth a timer. */
static __always_inline void window_charge(struct task_struct *p, struct task_ctx *t, u64 ran)
{
	if (!t->window_ns)
		return;
	if (ran + 10 * NSEC_PER_USEC >= t->window_ns)
		window_settle(p, t);
	else
		t->window_ns -= ran;
}

/*
 * @p is forked by @parent, which runs. A thread draws on its process's server. A child gets its
 * exec window, on its parent's server. False: no memory, the fork fails.
 */
static __always_inline bool server_fork(struct task_struct *p, struct task_struct *parent)
{
	struct task_ctx *pt = task_ctx(parent), *t;
	bool thread = p->tgid == parent->tgid;
	struct server *s;

	if (!is_interactive(pt))
		return true;
	if (thread && pt->window_ns)
		window_settle(parent, pt); /* a process with threads is not about to exec */
	s = server_of(pt);
	if (!s)
		return true;
	t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return false;
	if (thread) {
		task_join(t, pt->slot, s, pt->generation);
	} else {
		t->slot = pt->slot;
		t->generation = pt->generation;
		t->window_ns = pt->window_ns ? pt->window_ns : fork_window_ns;
		t->launched = 1;
	}
	return true;
}

/*
 * Applies @spec, or NULL if there is none, to @p's program. @kind: how the spec was found. A spec
 * with flag P counts only if an interactive task started the program.
 */
VERIFIED_ONCE int task_apply(struct task_struct *p __arg_trusted, struct task_ctx *t __arg_nonnull,
			     const struct spec *spec, u32 kind, bool launch)
{
	struct server *s;
	u32 slot;

	if (spec && (spec->flags & SPEC_PARENT) && !t->launched)
		spec = NULL;
	s = server_owned(t);
	if (s && ((s->info.spec.flags & SPEC_STICKY) ||
		  (!spec && (s->info.spec.flags & SPEC_INHERIT)))) {
		/*
		 * The process keeps its server: by flag I, or because the server was asked for
		 * (aplomb run), which outranks any spec.
		 */
		bpf_probe_read_kernel(s->info.comm, COMM_LEN, p->comm);
		return 0;
	}
	if (!spec) {
		if (t->window_ns)
			return window_settle(p, t);
		return program_leave(t);
	}
	if (!(spec->flags & SPEC_INTERACTIVE))
		return program_leave(t);
	emit_task(EV_MATCHED, p, spec->id, kind, spec->runtime_ns, spec->period_ns);
	t->starts = launch;
	slot = server_create(p, t, spec, 0);
	s = server_at(slot);
	if (s) {
		s->matched = kind;
		server_launch(slot, p, launch);
	}
	return 0;
}

/* Does the matcher's row still hold what server @s was made from? */
static __always_inline bool same_spec(const struct server *s, const struct spec *spec)
{
	return s->info.spec.id == spec->id && s->info.spec.runtime_ns == spec->runtime_ns &&
	       s->info.spec.period_ns == spec->period_ns && s->info.spec.flags == spec->flags &&
	       s->info.spec.policy == spec->policy;
}

/* A thread that is not its process's leader joins the leader's server. */
static __always_inline void rematch_thread(struct task_struct *p, struct task_ctx *t)
{
	struct task_struct *leader = p->group_leader;
	struct task_ctx *lt = leader ? task_ctx(leader) : NULL;
	struct server *s = server_owned(lt);

	if (!s || (t && t->slot == lt->slot && t->generation == lt->generation))
		return;
	if (!t) {
		t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!t)
			return;
	}
	task_leave(t);
	task_join(t, lt->slot, s, lt->generation);
	leave_if_ending(p);
}

#endif /* APLOMB_TASK_SERVER_BPF_H */
