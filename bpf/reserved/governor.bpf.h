/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/governor.bpf.h - who becomes interactive, on which CPU, and who has to give it up.
 *
 * Source: Redline sections 6.1 and 6.3; the arithmetic is in policy/load.h.
 *
 *                 launch          R_load > R_max: exhausted first, then the heaviest
 *        (new) ---------> ADMITTED --------------------------> REVOKED
 *          |                 ^  ^                                 |
 *          | does not fit    |  +---------------------------------+
 *          +---> REJECTED ---+     R_load < R_lo, fits, its memory is there: one a window
 *
 * Where we differ: placement takes the CPU with the least max(R_load, S_load), since several programs
 * launched within a second would all see the same R_load. What is guaranteed there (reserved/guarantee.bpf.h) is
 * added to both. Rejected tasks may be reactivated like revoked ones, or a program that was started at a bad
 * moment would stay second class for life. Those who wait for a promise are tried one a second, in the seconds
 * that end no window.
 */
#ifndef APLOMB_GOVERNOR_BPF_H
#define APLOMB_GOVERNOR_BPF_H

#include "tree/fair.bpf.h"
#include "reserved/guarantee.bpf.h"
#include "kernel/symbols.bpf.h"

/* The governor's second; armed only while there are servers. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} governor_timer SEC(".maps");

/* Victims per CPU and second; more overload than that is dealt with in the next second. */
#define MAX_VICTIMS 16

static __always_inline u64 server_bandwidth(const struct server *s)
{
	return edf_bandwidth(s->info.spec.runtime_ns, s->info.spec.period_ns);
}

/* The allowed CPU with the least load, or -1. */
VERIFIED_ONCE s32 least_loaded(struct task_struct *p __arg_trusted)
{
	u64 least = TIME_NEVER;
	s32 best = -1;
	u32 cpu;

	bpf_rcu_read_lock(); /* a sleepable program has it not */
	bpf_for(cpu, 0, nr_cpus) {
		struct cpu_ctx *c = cpu_ctx(cpu);
		u64 load = cpu_expected(c);

		if (load < least && may_use(p, cpu)) {
			least = load;
			best = cpu;
		}
	}
	bpf_rcu_read_unlock();
	return best;
}

/* Would a task of @bw_ppm be admitted now, if only there were a slot? */
static __always_inline bool governor_fits(struct task_struct *p, u64 bw_ppm, u64 *load_ppm)
{
	s32 cpu = least_loaded(p);

	if (cpu < 0)
		return false;
	*load_ppm = cpu_expected(cpu_ctx(cpu));
	return load_fits(&cpu_ctx(cpu)->reserved.load, bw_ppm + cpu_ctx(cpu)->reserved.promised_ppm,
			 r_hi_ppm);
}

/* A period of @s begins: on its first CPU. Called with s->lock held. */
static __always_inline void server_begin(struct server *s, u64 now)
{
	edf_init(&s->info.edf, now, s->info.spec.runtime_ns, s->info.spec.period_ns);
	s->info.edf.policy = s->info.spec.policy ? s->info.spec.policy : server_policy;
	if (s->info.split.parts) {
		wmr_release(&s->info.split, &s->info.edf, now);
		if (!s->awake)
			wmr_sleep(&s->info.split, &s->info.edf, now);
	}
	s->info.admitted_ns = now;
}

/* Admission by what is promised: the server in @slot, whose task is @p (NULL: a domain's), gets its place, or goes on without one. */
VERIFIED_ONCE int governor_guarantee(u32 slot, struct task_struct *p __arg_trusted __arg_nullable,
				     bool again)
{
	struct server *s = server_at(slot);
	u64 now = bpf_ktime_get_ns(), bw;
	bool taken = false, fits;
	u32 parts;

	if (!s)
		return false;
	bw = server_bandwidth(s);
	fits = guarantee(s, p);
	parts = s->info.split.parts;
	bpf_spin_lock(&s->lock);
	if ((!p || s->info.tgid == p->tgid) &&
	    s->info.state != SERVER_FREE) { /* else its task has just ended */
		taken = fits;
		if (fits) {
			server_begin(s, now);
			s->info.cpu = s->info.split.cpu[0];
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
	else if (!again)
		emit(EV_REJECTED, s, cpu_expected(cpu_ctx(p ? task_cpu(p) : 0)), r_max_ppm, bw);
	return taken;
}

/*
 * Admission test for the server in @slot, whose task is @p. @launch: add its C/T to S_load; not for tasks that were
 * already running when aplomb came, or came back: their use is measured within a second.
 * @again: EV_REACTIVATED instead of EV_ADMITTED, and R_lo as the limit for the CPU's load.
 */
VERIFIED_ONCE int admit_by_load(u32 slot, struct task_struct *p __arg_trusted, bool launch,
				bool again)
{
	u64 bw, r, expected, now = bpf_ktime_get_ns();
	struct server *s = server_at(slot);
	struct cpu_ctx *c;
	bool fits, taken;
	s32 cpu;

	if (!s)
		return false;
	bw = server_bandwidth(s);
	s->info.guaranteed = 0;
	s->info.split.parts = 0;
	cpu = least_loaded(p);
	if (cpu < 0)
		return false;
	c = cpu_ctx(cpu);
	bpf_spin_lock(&governor_lock);
	r = c->reserved.promised_ppm + c->reserved.load.r_ppm;
	expected = cpu_expected(c);
	fits = load_fits(&c->reserved.load, bw + c->reserved.promised_ppm, r_hi_ppm) &&
	       (!again || r < r_lo_ppm);
	if (fits && launch)
		load_launch(&c->reserved.load, bw);
	bpf_spin_unlock(&governor_lock);

	if (!fits) {
		if (!again) {
			bpf_spin_lock(&s->lock);
			if (s->info.state != SERVER_FREE)
				s->info.state = SERVER_REJECTED;
			bpf_spin_unlock(&s->lock);
			emit(EV_REJECTED, s, expected, r_hi_ppm, bw);
		}
		return false;
	}
	bpf_spin_lock(&s->lock);
	taken = s->info.tgid == p->tgid && s->info.state != SERVER_FREE;
	if (taken) { /* else its task has just ended */
		server_begin(s, now);
		s->info.cpu = cpu;
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

/* The same, or by what is promised, as the spec of @s says. */
VERIFIED_ONCE int governor_admit(u32 slot, struct task_struct *p __arg_trusted, bool launch,
				 bool again)
{
	struct server *s = server_at(slot);

	if (!s)
		return false;
	if (!(s->info.spec.flags & SPEC_GUARANTEED))
		return admit_by_load(slot, p, launch, again);
	s->info.guaranteed = 0;
	s->info.split.parts = 0;
	return governor_guarantee(slot, p, again);
}

/*
 * @s leaves its CPU's books: its task ended, or moves. What it used of the current period stays in
 * S_load and decays there, or a chain of processes that each use up a whole budget and end would be
 * admitted for ever.
 */
static __always_inline void governor_leave(struct server *s)
{
	u64 now = bpf_ktime_get_ns(), age = (now - s->info.admitted_ns) / NSEC_PER_SEC;
	u64 bw = server_bandwidth(s);
	struct cpu_ctx *c = cpu_ctx(s->info.cpu);

	if (s->info.guaranteed) {
		guarantee_leave(s);
		return;
	}
	if (time_before(now, s->info.edf.deadline) && s->info.spec.runtime_ns)
		bw = s->info.edf.budget > 0 ? bw * (u64)s->info.edf.budget / s->info.spec.runtime_ns
					    : 0;

	bpf_spin_lock(&governor_lock);
	load_leave(&c->reserved.load, bw, age);
	bpf_spin_unlock(&governor_lock);
}

/* Slot of the revocable server on @cpu that acts least like an interactive task, or 0; *use: its part of the load. */
VERIFIED_ONCE u32 pick_victim(u32 cpu, u64 *use __arg_nonnull)
{
	u32 victim = 0;
	u64 worst = 0, now = bpf_ktime_get_ns(), second = now / NSEC_PER_SEC;
	u32 slot;

	bpf_for(slot, 1, nr_slots) {
		struct server *s = server_at(slot);
		u64 ppm, rank;

		if (!s || s->info.state != SERVER_ADMITTED || s->info.cpu != (s32)cpu ||
		    s->info.guaranteed || !(s->info.spec.flags & SPEC_REVOCABLE))
			continue;
		bpf_spin_lock(&s->lock);
		ppm = usage_ppm(&s->info.usage, sample_no);
		bpf_spin_unlock(&s->lock);
		/*
		 * An exhausted reservation outranks any use, which is far below 2^32 ppm. Among exhausted ones
		 * the part of the own reservation that was used counts: a busy loop uses all of it, a player
		 * with a heavy frame now and then does not, though it may have used more in all. And it counts
		 * for as long as the server was there, or those who just came would always be spared.
		 */
		rank = ppm;
		if (s->info.exhausted && second - s->exhausted_second < LOAD_SAMPLES)
			rank = (1ULL << 32) +
			       usage_part_ppm(ppm, server_bandwidth(s), now - s->info.admitted_ns);
		if (ppm && rank > worst) {
			worst = rank;
			*use = ppm;
			victim = slot;
		}
	}
	return victim;
}

/* Revocation: one CPU's load is above R_max; bring it below R_hi. */
VERIFIED_ONCE int relieve_cpu(u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 i;

	bpf_for(i, 0, MAX_VICTIMS) {
		u64 use = 0, r = c->reserved.promised_ppm + c->reserved.load.r_ppm;
		struct server *s;
		bool revoked;

		if (r < r_hi_ppm)
			break;
		s = server_at(pick_victim(cpu, &use));
		if (!s)
			break; /* only irrevocable ones are left: background.h keeps best-effort alive */
		bpf_spin_lock(&governor_lock);
		load_forget(&c->reserved.load, use);
		bpf_spin_unlock(&governor_lock);
		bpf_spin_lock(&s->lock);
		revoked = s->info.state == SERVER_ADMITTED;
		if (revoked)
			s->info.state = SERVER_REVOKED;
		bpf_spin_unlock(&s->lock);
		if (revoked)
			emit(EV_REVOKED, s, r, r_max_ppm, use);
	}
	return 0;
}

/*
 * Reactivation: at most one task, where a CPU's load is below R_lo; round robin over the table. With @promises one of
 * those who wait for a promise is tried instead, whether it fits or not: that may look at all CPUs' rosters.
 */
VERIFIED_ONCE int reactivate_one(bool promises)
{
	static u32 cursor;
	u32 i;

	bpf_for(i, 0, nr_slots) {
		struct task_struct *p;
		struct server *s;
		bool done = false;

		cursor = cursor + 1 < nr_slots ? cursor + 1 : 1;
		s = server_at(cursor);
		if (!s || (s->info.state != SERVER_REVOKED && s->info.state != SERVER_REJECTED) ||
		    promises != !!(s->info.spec.flags & SPEC_GUARANTEED))
			continue;
		if (is_domains(s)) {
			governor_guarantee(cursor, NULL, true);
			break;
		}
		p = bpf_task_from_pid(s->info.tgid);
		if (!p)
			continue;
		bpf_rcu_read_lock(); /* to 6.18 a callback of a sleepable program counts as sleepable */
		if (memory_is_there(p))
			done = governor_admit(cursor, p, true, true);
		bpf_rcu_read_unlock();
		bpf_task_release(p);
		if (done || promises)
			break;
	}
	return 0;
}

/* Tasks that one look takes out of an inactive CPU's queue; the rest a second later. */
#define MAX_RESCUED 1024

/* @cpu takes no tasks any more (cpu_active): whoever waits for it may run elsewhere, in spare time. */
VERIFIED_ONCE int rescue(u32 cpu)
{
	u32 i;

	bpf_for(i, 0, MAX_RESCUED) {
		struct bpf_iter_scx_dsq it;
		struct task_struct *p = NULL;
		bool moved = false;

		bpf_rcu_read_lock(); /* see reactivate_one */
		if (!bpf_iter_scx_dsq_new(&it, DSQ_EDF(cpu), 0))
			p = bpf_iter_scx_dsq_next(&it);
		if (p) {
			struct task_ctx *t = task_ctx(p);

			scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
			scx_bpf_dsq_move_set_vtime(
				&it, fair_place(t ? t->fair_vtime : fair_now, fair_now));
			if (t)
				t->by_right = RIGHT_NONE;
			moved = scx_bpf_dsq_move_vtime(&it, p, DSQ_FAIR, 0);
			tree_legacy = 1;
			ask_idle(p);
		}
		bpf_iter_scx_dsq_destroy(&it);
		bpf_rcu_read_unlock();
		if (!moved)
			break;
	}
	return 0;
}

/* See reserved/queue.bpf.h. A server's timer does it to the ns; but a server may go while its threads are throttled. */
int throttled_release(u32 cpu, u64 now);

/* Once a second while there are servers: sample, then revoke or reactivate. */
static int governor_tick(void *map, int *key, struct timer_slot *slot)
{
	static u64 last_ns, ticks;
	u64 now = bpf_ktime_get_ns(), interval = now - last_ns;
	bool idle = !nr_servers;
	u32 cpu, edf_queued = 0;

	/* the first tick after a pause: what was counted in between belongs to no second */
	if (interval > 2 * LOAD_SAMPLE_NS)
		interval = LOAD_SAMPLE_NS;
	last_ns = now;
	bpf_for(cpu, 0, nr_cpus) {
		struct cpu_ctx *c = cpu_ctx(cpu);
		u64 used = __sync_lock_test_and_set(&c->reserved.ran_ns, 0);

		if (scx_bpf_dsq_nr_queued(DSQ_THROTTLED(cpu)))
			throttled_release(cpu, now);
		edf_queued += scx_bpf_dsq_nr_queued(DSQ_EDF(cpu)) +
			      scx_bpf_dsq_nr_queued(DSQ_THROTTLED(cpu));
		if (scx_bpf_dsq_nr_queued(DSQ_EDF(cpu)) && !cpu_active(cpu))
			rescue(cpu);

		bpf_spin_lock(&governor_lock);
		load_sample(&c->reserved.load, used, interval);
		if (idle)
			__builtin_memset(&c->reserved.load, 0, sizeof(c->reserved.load));
		bpf_spin_unlock(&governor_lock);
		if (c->reserved.load.r_ppm + c->reserved.promised_ppm > r_max_ppm)
			relieve_cpu(cpu);
	}
	sample_no++;
	if (idle && !edf_queued) {
		/* no timer while nobody is interactive; a first server that comes just now is seen here, or
		 * sees the switch off and starts the timer itself */
		__sync_lock_test_and_set(&reserved_on, 0);
		if (!nr_servers)
			return 0;
		reserved_on = 1;
	}
	/* one a window, so that its use is measured before the next; a promise needs no measuring */
	reactivate_one(++ticks % LOAD_SAMPLES != 0);
	bpf_timer_start(&slot->timer, LOAD_SAMPLE_NS, 0);
	return 0;
}

/* A server was added, nr_servers counts it: see that the reserved layer is on and the second ticks. */
static __always_inline void governor_wake(void)
{
	struct timer_slot *slot;
	u32 zero = 0;

	if (__sync_lock_test_and_set(&reserved_on, 1))
		return;

	slot = bpf_map_lookup_elem(&governor_timer, &zero);
	if (slot)
		bpf_timer_start(&slot->timer, LOAD_SAMPLE_NS, 0);
}

#endif /* APLOMB_GOVERNOR_BPF_H */
