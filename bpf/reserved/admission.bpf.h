/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/admission.bpf.h - which servers get their reservation, on which CPU, and how they give
 * it back.
 *
 * Source: Redline sections 6.1 and 6.3; Kato, Ishikawa and Rajkumar, section 5.2.
 * Theory: policy/load.h, wmr.h 4; placement of guaranteed servers: reserved/room.bpf.h 2.
 *
 * 1. Two kinds of reservation. By load: the measured use decides, so more is admitted than would
 *    fit, and revocation ends an overload within seconds (reserved/governor.bpf.h). That suits a
 *    desktop, whose specs reserve ten times what their programs use. Guaranteed: a server is
 *    admitted only if no deadline can be missed even when all guaranteed servers use their whole
 *    budgets. That suits a few applications that need it. Only this kind can be split over CPUs.
 *
 * 2. Where we differ. Placement by load takes the CPU with the least max(R_load, S_load), since
 *    several programs launched within a second would all see the same R_load. What is guaranteed
 *    there is added to both. Where cores have several threads, the core with the least goes first;
 *    where CPUs differ, the fastest whose load stays below R_lo. The paper has one CPU.
 *
 * 3. Races. Two admissions by promise look at the same rosters. The second one sees that they have
 *    changed (`promises`) and looks again. A process may end while its server is admitted; so its
 *    tgid and state are compared again under the server's lock.
 */
#ifndef APLOMB_ADMISSION_BPF_H
#define APLOMB_ADMISSION_BPF_H

#include "reserved/owner.bpf.h"
#include "reserved/room.bpf.h"
#include "reserved/server.bpf.h"

/*
 * Number of tries of an admission while others change the rosters. After that the server is
 * refused, and may be reactivated.
 */
#define GUARANTEE_TRIES 4

/* What a program of @bw_ppm, in work, costs on @cpu, with context @c: the least one is its CPU. */
static __always_inline u64 load_cost(const struct cpu_ctx *c, u32 cpu, u64 bw_ppm)
{
	u64 cost = spread_cost(cpu);

	if (cpus_differ && cpu_expected(c) + time_on(cpu, bw_ppm) >= r_lo_ppm)
		return TIME_NEVER / 2 + cost;
	return cost_on(cpu, cost);
}

/* The allowed CPU with the least load, for a program of @bw_ppm, in work; or -1. */
VERIFIED_ONCE s32 least_loaded(struct task_struct *p __arg_trusted, u64 bw_ppm)
{
	u64 least = TIME_NEVER;
	s32 best = -1;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		struct cpu_ctx *c = cpu_ctx(cpu);
		u64 cost = load_cost(c, cpu, bw_ppm);

		if (cost < least && may_use(p, cpu)) {
			least = cost;
			best = cpu;
		}
	}
	return best;
}

/* Would a process of @account with @bw_ppm be admitted by load now? *@load_ppm: of the best CPU. */
static __always_inline bool admission_fits(struct task_struct *p, u32 account, u64 bw_ppm,
					   u64 *load_ppm)
{
	s32 cpu = least_loaded(p, bw_ppm);
	struct cpu_ctx *c;

	if (cpu < 0)
		return false;
	c = cpu_ctx(cpu);
	*load_ppm = cpu_expected(c);
	return load_fits(&c->reserved.load, time_on(cpu, bw_ppm) + c->reserved.promised_ppm,
			 r_hi_ppm) &&
	       owner_fits(account, owner_limit(account), bw_ppm);
}

/* @s has no reservation, because its owner's account has no room. */
static __always_inline void owner_refuses(const struct server *s)
{
	const struct owner *o = owner_at(s->account);

	emit(EV_OWNER, s, owner_expected(o), owner_limit(s->account), o->uid);
}

/* @s leaves the account's load: admission_leave(). */
static __always_inline void owner_load_leave(const struct server *s, u64 bw_ppm, u64 age_s)
{
	if (s->account == NO_ACCOUNT)
		return;
	bpf_spin_lock(&governor_lock);
	load_leave(&owner_at(s->account)->load, bw_ppm, age_s);
	bpf_spin_unlock(&governor_lock);
}

/* @s is admitted, or has gone. */
static __always_inline void waiting_over(struct server *s)
{
	if (__sync_lock_test_and_set(&s->waits, 0))
		owner_waits_no_more(s->account);
}

/* @s begins its first period, on its first CPU, s->info.cpu. With s->lock held. */
static __always_inline void server_begin(struct server *s, u64 now)
{
	s->info.edf.policy = policy_of(&s->info.spec);
	edf_init(&s->info.edf, now, time_on(s->info.cpu, s->info.spec.runtime_ns),
		 s->info.spec.period_ns);
	if (s->info.split.parts) {
		wmr_release(&s->info.split, &s->info.edf, now);
		if (!s->awake)
			wmr_sleep(&s->info.split, &s->info.edf, now);
	}
	s->info.admitted_ns = now;
}

/* --- by what is promised --------------------------------------------------------------------- */

/*
 * Finds room for @s, whose task is @p, and promises it: info.split says where. The plan is written
 * there directly, to save stack; nothing reads it before the server is admitted.
 */
static __always_inline bool guarantee(struct server *s, struct task_struct *p)
{
	u64 runtime = s->info.spec.runtime_ns, period = s->info.spec.period_ns;
	u32 try;

	bpf_for(try, 0, GUARANTEE_TRIES) {
		u32 seen = promises;
		bool done;

		if (!period || !find_room(p, runtime, period, &s->info.split))
			break;
		bpf_spin_lock(&governor_lock);
		done = promises == seen;
		if (done)
			promise(&s->info.split, s->info.slot, period, true);
		bpf_spin_unlock(&governor_lock);
		if (done)
			return true;
	}
	s->info.split.parts = 0;
	return false;
}

/* @s gives back what it was promised. */
static __noinline void guarantee_leave(struct server *s)
{
	TAKES_STACK(80);
	u64 period = s->info.spec.period_ns ? s->info.spec.period_ns : 1;

	bpf_spin_lock(&governor_lock);
	promise(&s->info.split, s->info.slot, period, false);
	bpf_spin_unlock(&governor_lock);
	owner_promise_ends(s->account, server_bandwidth(s));
}

/*
 * Admits the server in @slot, whose task is @p (NULL: a domain's), if it can be promised all of its
 * reservation. @again: it was refused or revoked before.
 */
VERIFIED_ONCE int admit_by_promise(u32 slot, struct task_struct *p __arg_trusted __arg_nullable,
				   bool again)
{
	struct server *s = server_at(slot);
	u64 now = bpf_ktime_get_ns(), bw;
	bool taken = false, owned, fits;
	u32 parts;

	if (!s)
		return false;
	bw = server_bandwidth(s);
	owned = owner_promise(s->account, bw);
	fits = owned && guarantee(s, p);
	if (owned && !fits)
		owner_promise_ends(s->account, bw);
	parts = s->info.split.parts;
	bpf_spin_lock(&s->lock);
	if ((!p || s->info.tgid == p->tgid) &&
	    s->info.state != SERVER_FREE) { /* else its process has just ended */
		taken = fits;
		if (fits) {
			s->info.cpu = s->info.split.cpu[0];
			server_begin(s, now);
			s->info.guaranteed = 1;
			s->info.state = SERVER_ADMITTED;
		} else if (!again) {
			s->info.state = SERVER_REJECTED;
		}
	}
	bpf_spin_unlock(&s->lock);
	if (fits && !taken)
		guarantee_leave(s);
	if (taken)
		emit(EV_GUARANTEED, s, parts,
		     cpu_ctx(s->info.cpu)->reserved.promised_ppm -
			     edf_bandwidth(s->info.split.runtime[0], s->info.spec.period_ns),
		     bw);
	if (taken || again)
		return taken;
	if (!owned)
		owner_refuses(s);
	else
		emit(EV_REJECTED, s, cpu_expected(cpu_ctx(p ? task_cpu(p) : 0)), r_max_ppm, bw);
	return false;
}

/* --- by load --------------------------------------------------------------------------------- */

/*
 * Admits the server in @slot, whose task is @p, if its CPU's load allows it.
 *
 * @launch: adds its C/T to S_load. Not set for processes that already ran when aplomb was started
 * or restarted, because their use is measured within a second. @again: it was refused or revoked
 * before. Then R_lo is the limit of the CPU's load, and the event is EV_REACTIVATED instead of
 * EV_ADMITTED.
 */
VERIFIED_ONCE int admit_by_load(u32 slot, struct task_struct *p __arg_trusted, bool launch,
				bool again)
{
	u64 bw, need, r, expected, limit, now = bpf_ktime_get_ns();
	struct server *s = server_at(slot);
	struct cpu_ctx *c;
	bool fits, owned, taken;
	s32 cpu;

	if (!s)
		return false;
	bw = spec_density(&s->info.spec);
	s->info.guaranteed = 0;
	s->info.split.parts = 0;
	limit = owner_limit(s->account);
	if (again && !owner_fits(s->account, limit, bw))
		return false;
	cpu = least_loaded(p, bw);
	if (cpu < 0)
		return false;
	c = cpu_ctx(cpu);
	need = time_on(cpu, bw);
	bpf_spin_lock(&governor_lock);
	r = c->reserved.promised_ppm + c->reserved.load.r_ppm;
	expected = cpu_expected(c);
	fits = load_fits(&c->reserved.load, need + c->reserved.promised_ppm, r_hi_ppm) &&
	       (!again || r < r_lo_ppm);
	owned = owner_fits(s->account, limit, bw);
	if (fits && owned && launch) {
		load_launch(&c->reserved.load, need);
		if (s->account)
			load_launch(&owner_at(s->account)->load, bw);
	}
	bpf_spin_unlock(&governor_lock);

	if (!fits || !owned) {
		if (!again) {
			bpf_spin_lock(&s->lock);
			if (s->info.state != SERVER_FREE)
				s->info.state = SERVER_REJECTED;
			bpf_spin_unlock(&s->lock);
			if (fits)
				owner_refuses(s);
			else
				emit(EV_REJECTED, s, expected, r_hi_ppm, bw);
		}
		return false;
	}
	bpf_spin_lock(&s->lock);
	taken = s->info.tgid == p->tgid && s->info.state != SERVER_FREE;
	if (taken) { /* else its process has just ended */
		s->info.cpu = cpu;
		server_begin(s, now);
		s->info.state = SERVER_ADMITTED;
	}
	bpf_spin_unlock(&s->lock);
	if (!taken)
		return false; /* what was added to S_load decays */
	if (again)
		emit(EV_REACTIVATED, s, r, r_lo_ppm, bw);
	else
		emit(EV_ADMITTED, s, r, expected, bw);
	return true;
}

/* Admits the server in @slot by promise or by load, as its spec says. */
VERIFIED_ONCE int admit(u32 slot, struct task_struct *p __arg_trusted, bool launch, bool again)
{
	struct server *s = server_at(slot);

	if (!s)
		return false;
	if (!(s->info.spec.flags & SPEC_GUARANTEED))
		return admit_by_load(slot, p, launch, again);
	s->info.guaranteed = 0;
	s->info.split.parts = 0;
	return admit_by_promise(slot, p, again);
}

/*
 * @s, which was admitted, leaves the governor's books: its process ended, or moves. What it used of
 * the current period stays in S_load and decays there. Otherwise a chain of processes that each use
 * up a whole budget and end would always be admitted.
 */
static __always_inline void admission_leave(struct server *s)
{
	u64 now = bpf_ktime_get_ns(), age = (now - s->info.admitted_ns) / NSEC_PER_SEC;
	u64 bw = spec_density(&s->info.spec);
	struct cpu_ctx *c = cpu_ctx(s->info.cpu);

	if (s->info.guaranteed) {
		guarantee_leave(s);
		return;
	}
	if (time_before(now, s->info.edf.deadline) && s->info.edf.runtime)
		bw = s->info.edf.budget > 0 ? bw * (u64)s->info.edf.budget / s->info.edf.runtime
					    : 0;

	bpf_spin_lock(&governor_lock);
	load_leave(&c->reserved.load, time_on(s->info.cpu, bw), age);
	bpf_spin_unlock(&governor_lock);
	owner_load_leave(s, bw, age);
}

#endif /* APLOMB_ADMISSION_BPF_H */
