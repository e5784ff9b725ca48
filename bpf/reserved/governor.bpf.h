/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/governor.bpf.h - revocation and reactivation: the governor's answer to each second's
 * load.
 *
 * Source: Redline section 6.1; the arithmetic is in policy/load.h. layers/second.bpf.h calls it.
 *
 *                 launch          R_load > R_max: exhausted first, then the heaviest
 *        (new) ---------> ADMITTED --------------------------> REVOKED
 *          |                 ^  ^                                 |
 *          | does not fit    |  +---------------------------------+
 *          +---> REJECTED ---+     R_load < R_lo, fits, its memory is there: one a window
 *
 * A server that never sleeps is revoked and reactivated for ever. That is Redline's rule too: it
 * fits again, as its right is what it takes too much of. While it has its right it takes C/T, or,
 * with cbs-soft, what its owner's account leaves of each second (reserved/soft.bpf.h). Root's,
 * which has no account, takes all but what best-effort work always has.
 *
 * A program can lose its reservation to a shortage of memory too (task/demote.bpf.h), and to its
 * owner's other programs (reserved/owner.bpf.h).
 *
 * Where we differ: rejected servers may be reactivated like revoked ones. Otherwise a program that
 * was started at a bad moment would stay best-effort for life. Guaranteed ones that were refused
 * are tried one a second, in the seconds that end no observation window. A revoked server is tried
 * again after a whole window without it at the earliest: in the paper it may be a second later.
 */
#ifndef APLOMB_GOVERNOR_BPF_H
#define APLOMB_GOVERNOR_BPF_H

#include "kernel/symbols.bpf.h"
#include "reserved/admission.bpf.h"

/* Victims per CPU and second; more overload than that is dealt with in the next second. */
#define MAX_VICTIMS 16

/* A server that may be revoked, and its part of its CPU's load, ppm */
struct victim {
	u32 slot; /* 0: none */
	u64 use;
};

/*
 * How much the server @s, which used @ppm over the window, deserves to be revoked.
 *
 * A server that exhausted its reservation ranks above all others, because a use is far below 2^32
 * ppm. Among several such servers the part of its own reservation that each used counts. A busy
 * loop uses all of it; a player with a heavy frame now and then does not, though it may have used
 * more in all. The part is that of the time since admission; otherwise new servers would always be
 * spared.
 */
static __always_inline u64 victim_rank(const struct server *s, u64 ppm, u64 now)
{
	if (!s->info.exhausted || now / NSEC_PER_SEC - s->exhausted_second >= LOAD_SAMPLES)
		return ppm;
	return (1ULL << 32) + usage_part_ppm(ppm, budget_bandwidth(s), now - s->info.admitted_ns);
}

/*
 * Does the program of @s never sleep? It used up its budget again and again within the window, and
 * at least LOOP_PPM of all that it had.
 */
#define LOOP_PPM 900000
static __always_inline bool server_loops(struct server *s, u64 use_ppm, u64 now)
{
	return s->info.exhausted && now / NSEC_PER_SEC - s->exhausted_second < LOAD_SAMPLES &&
	       usage_part_ppm(use_ppm, budget_bandwidth(s), now - s->info.admitted_ns) >= LOOP_PPM;
}

/* May @s, which used @ppm over the window, be revoked? */
static __always_inline bool may_revoke(struct server *s, u64 ppm, u64 now)
{
	if (s->info.state != SERVER_ADMITTED || s->info.guaranteed)
		return false;
	return s->info.spec.flags & SPEC_REVOCABLE || (s->account && server_loops(s, ppm, now));
}

/*
 * The revocable server that acts least like an interactive task: *victim. Of those on @cpu, or, if
 * @account is not 0, of that account.
 */
VERIFIED_ONCE int pick_victim(u32 cpu, u32 account, struct victim *victim __arg_nonnull)
{
	u64 worst = 0, now = bpf_ktime_get_ns();
	u32 slot;

	bpf_for(slot, 1, nr_slots) {
		struct server *s = server_at(slot);
		u64 ppm, rank;

		if (!s || s->info.state != SERVER_ADMITTED ||
		    (account ? s->account != account : s->info.cpu != (s32)cpu))
			continue;
		bpf_spin_lock(&s->lock);
		ppm = usage_ppm(&s->info.usage, sample_no);
		bpf_spin_unlock(&s->lock);
		if (!may_revoke(s, ppm, now))
			continue;
		rank = victim_rank(s, ppm, now);
		if (ppm && rank > worst) {
			worst = rank;
			victim->use = ppm;
			victim->slot = slot;
		}
	}
	return 0;
}

/*
 * @s, which uses @use ppm of its CPU, loses its reservation; @state: enum server_state, from now
 * on. False: it has none any more.
 */
static __always_inline bool server_revoke(struct server *s, u32 state, u64 use)
{
	struct cpu_ctx *c = cpu_ctx(s->info.cpu);
	bool revoked;

	bpf_spin_lock(&governor_lock);
	load_forget(&c->reserved.load, use);
	if (s->account)
		load_forget(&owner_at(s->account)->load, work_on(s->info.cpu, use));
	bpf_spin_unlock(&governor_lock);
	bpf_spin_lock(&s->lock);
	revoked = s->info.state == SERVER_ADMITTED;
	if (revoked) {
		s->info.state = state;
		s->revoked_no = sample_no;
	}
	bpf_spin_unlock(&s->lock);
	return revoked;
}

/* Revocation: @cpu's load is above R_max; bring it below R_hi. */
VERIFIED_ONCE int relieve_cpu(u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 i;

	bpf_for(i, 0, MAX_VICTIMS) {
		u64 r = c->reserved.promised_ppm + c->reserved.load.r_ppm;
		struct victim victim = {};
		struct server *s;

		if (r < r_hi_ppm)
			break;
		pick_victim(cpu, NO_ACCOUNT, &victim);
		s = server_at(victim.slot);
		if (!s)
			break; /* none may be revoked: background.h keeps best-effort work alive */
		if (server_revoke(s, SERVER_REVOKED, victim.use))
			emit(EV_REVOKED, s, r, r_max_ppm, victim.use);
	}
	return 0;
}

/* Account @row uses more than its limit by too much; bring it below. */
VERIFIED_ONCE int relieve_owner(u32 row)
{
	u64 limit = owner_limit(row);
	bool waits = soft_waits(row); /* one goes, whatever is used */
	u32 i;

	soft_at(row)->waits = 0;
	bpf_for(i, 0, MAX_VICTIMS) {
		u64 r = owner_expected(owner_at(row));
		struct victim victim = {};
		struct server *s;

		if (r < limit && !(waits && !i))
			break;
		pick_victim(0, row, &victim);
		s = server_at(victim.slot);
		if (!s)
			break; /* its programs sleep, and none may be revoked */
		if (server_revoke(s, SERVER_REVOKED, victim.use))
			emit(EV_OWNER, s, r, limit, owner_at(row)->uid);
	}
	return 0;
}

/* Adds up what each account's servers used by right in the second that ends. */
VERIFIED_ONCE int owners_add_up(void)
{
	u32 slot;

	bpf_for(slot, 1, nr_slots) {
		struct server *s = server_at(slot);

		if (!s || s->account == NO_ACCOUNT || s->info.state == SERVER_FREE ||
		    s->info.guaranteed || s->info.usage.second != sample_no)
			continue;
		__sync_fetch_and_add(
			&owner_at(s->account)->used_ns,
			work_on(s->info.cpu, s->info.usage.ns[sample_no % LOAD_SAMPLES]));
	}
	return 0;
}

/* The governor's second for all accounts, after @interval ns. @none: owner_sample(). */
VERIFIED_ONCE int look_at_owners(u64 interval, bool none)
{
	u32 row;

	owners_add_up();
	bpf_for(row, 0, MAX_OWNERS) {
		if (row != NO_ACCOUNT && owner_sample(row, interval, none))
			relieve_owner(row);
	}
	return 0;
}

/* May @s be tried again now? One that was revoked may after a whole window without it. */
static __always_inline bool may_reactivate(const struct server *s)
{
	return s->info.state == SERVER_REJECTED ||
	       (s->info.state == SERVER_REVOKED && sample_no - s->revoked_no > LOAD_SAMPLES);
}

/*
 * Reactivates at most one server if a CPU's load is below R_lo. The table is searched round robin.
 * With @promises, tries a server that waits for a promise instead; only one, even if it does not
 * fit, because a try may look at the rosters of all CPUs.
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
		if (!s || !may_reactivate(s) ||
		    promises != !!(s->info.spec.flags & SPEC_GUARANTEED))
			continue;
		if (is_domains(s)) {
			admit_by_promise(cursor, NULL, true);
			break;
		}
		p = bpf_task_from_pid(s->info.tgid);
		if (!p)
			continue;
		bpf_rcu_read_lock();    /* up to 6.18 a sleepable program's callback is sleepable */
		if (memory_is_there(p)) /* Redline 6.1, reactivation (b) */
			done = admit(cursor, p, true, true);
		bpf_rcu_read_unlock();
		bpf_task_release(p);
		if (done)
			waiting_over(s);
		if (done || promises)
			break;
	}
	return 0;
}

#endif /* APLOMB_GOVERNOR_BPF_H */
