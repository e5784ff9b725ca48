/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/room.bpf.h - the governor's books: what each CPU has promised, and what it could promise
 * more. Theory: policy/wmr.h 4.
 *
 * Source: Kato, Ishikawa and Rajkumar, section 5.2.
 *
 * 1. Model. Each CPU has a roster of the guaranteed reservations, or parts of them, that it has
 *    promised, and a load of what runs there without a guarantee (policy/load.h). For admission by
 *    load, what is promised counts as used. For a guarantee, the other servers are an existing load
 *    of max(R_load, S_load). R_max less that load may be promised of a CPU, since best-effort work
 *    keeps the rest (policy/background.h).
 *
 * 2. Placement. A heavy reservation (more than half a CPU) by worst-fit: on the CPU with the least
 *    expected load where it fits, for what it needs beyond its budget. A light one by best-fit: on
 *    the CPU that has promised most, where it fits. The paper has worst-fit for all. Then light
 *    ones, which come first by chance, leave no CPU free enough for heavy ones, and less is
 *    admitted than by partitioned first-fit: of 2,000 sets (tasks of 10 to 100 %, 80 % load, 4
 *    CPUs) 1,848, first-fit 1,888, as it is here 1,987. If it fits on no CPU, n CPUs with the
 *    largest rooms share it, in windows of P/n; which n is tried first: policy/wmr.h,
 *    WMR_WINDOW_NS. The last part is smaller than the room there, so it goes where the room is
 *    just enough. Of CPUs that are even otherwise, one on the core with the least expected load is
 *    taken: two threads of a core do little more than one. Where CPUs differ, the fastest on which
 *    it fits goes before all that; parts are compared by the work that fits into them.
 */
#ifndef APLOMB_ROOM_BPF_H
#define APLOMB_ROOM_BPF_H

#include "state/state.bpf.h"
#include "policy/wmr.h"

/* What each CPU has promised (policy/wmr.h); under governor_lock. */
struct wmr_roster rosters[MAX_CPUS];
u32 promises; /* changes with each change of a roster; under governor_lock */

static __always_inline struct wmr_roster *roster(u32 cpu)
{
	return &rosters[cpu & (MAX_CPUS - 1)];
}

/* What is promised and expected on @c, ppm: what placement compares. */
static __always_inline u64 cpu_expected(const struct cpu_ctx *c)
{
	return c->reserved.promised_ppm + load_expected(&c->reserved.load);
}

#define MAX_THREADS 8 /* of one core */
#define LOAD_BITS 25  /* the load of a core is below 2^25 ppm: eight CPUs, each below 4 PPM */

/* The same for all threads of @cpu's core together. */
VERIFIED_ONCE u64 core_expected(u32 cpu)
{
	u64 sum = cpu_expected(cpu_ctx(cpu));
	u32 i, at = cpu;

	bpf_for(i, 1, MAX_THREADS) {
		at = next_thread[at & (MAX_CPUS - 1)];
		if (at == cpu)
			break;
		sum += cpu_expected(cpu_ctx(at));
	}
	return sum;
}

/*
 * What placement on @cpu costs by load alone, below 2^50: the load of its core, then its own. So a
 * core without load goes before the idle thread of another.
 */
static __always_inline u64 spread_cost(u32 cpu)
{
	u64 own = cpu_expected(cpu_ctx(cpu));

	return (cores_shared ? core_expected(cpu) : own) << LOAD_BITS | own;
}

/* The same, or any @cost below 2^50, with the CPU's capacity: slower CPUs come after all faster. */
static __always_inline u64 cost_on(u32 cpu, u64 cost)
{
	return cpus_differ ? cost + ((u64)(CAPACITY_FULL - capacity_of(cpu)) << 50) : cost;
}

/* May @p run on @cpu? A domain (@p NULL) may use any. */
static __always_inline bool may_use(struct task_struct *p, u32 cpu)
{
	if (!cpu_ctx(cpu)->online)
		return false;
	if (!p)
		return true;
	barrier_var(p); /* else clang takes the address in @p first, and verifiers refuse that */
	return bpf_cpumask_test_cpu(cpu, affinity(p));
}

/*
 * Returns how much of each @window in @period @cpu could promise, ns. Not static, so that the
 * verifier checks it once.
 */
__noinline u64 room_on(u32 cpu, u64 period, u64 window)
{
	u64 used = load_expected(&cpu_ctx(cpu)->reserved.load);

	if (period < NSEC_PER_MSEC || used >= r_max_ppm)
		return 0;
	return wmr_room(roster(cpu), period, window, r_max_ppm - used);
}

/* The CPU for all of @runtime of work in @period, or -1: there is none. */
VERIFIED_ONCE s32 whole_fit(struct task_struct *p __arg_trusted __arg_nullable, u64 runtime,
			    u64 period)
{
	bool light = runtime <= period / 2;
	u64 least = TIME_NEVER;
	s32 best = -1;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		const struct cpu_ctx *c = cpu_ctx(cpu);
		u64 cost = spread_cost(cpu);

		if (light) /* by what is promised; if that is the same, by the load of the core */
			cost = (PPM - c->reserved.promised_ppm) << LOAD_BITS | cost >> LOAD_BITS;
		cost = cost_on(cpu, cost);
		if (cost < least && may_use(p, cpu) &&
		    room_on(cpu, period, period) >= time_on(cpu, runtime)) {
			least = cost;
			best = cpu;
		}
	}
	return best;
}

/* The parts of @plan, which are work, become time on their CPUs. */
static __always_inline void parts_in_time(struct wmr_split *plan)
{
	u32 i;

	bpf_for(i, 0, WMR_PARTS) {
		if (i >= plan->parts)
			break;
		plan->runtime[i] = time_on(plan->cpu[i], plan->runtime[i]);
	}
}

/* Into how many parts @runtime of work in @period is split first, of the CPUs that @p may use. */
VERIFIED_ONCE u32 first_parts(struct task_struct *p __arg_trusted __arg_nullable, u64 runtime,
			      u64 period)
{
	u64 promised = wmr_bandwidth(runtime, period);
	u32 cpu, usable = 0;

	bpf_for(cpu, 0, nr_cpus) {
		if (may_use(p, cpu)) {
			usable++;
			promised += cpu_ctx(cpu)->reserved.promised_ppm;
		}
	}
	return wmr_first(period, usable, promised);
}

/* Has @plan one of its first @n parts on @cpu? */
VERIFIED_ONCE int has_part_on(const struct wmr_split *plan __arg_nonnull, u32 n, s32 cpu)
{
	u32 i;

	bpf_for(i, 0, n) {
		if (plan->cpu[i & (WMR_PARTS - 1)] == cpu)
			return true;
	}
	return false;
}

/*
 * The last part of @plan needs less than its CPU has room for: it goes where that is just enough,
 * so that larger rooms are left. (If the others are enough, it needs nothing.) Inline: before 7.0
 * calls may be 8 deep.
 */
static __always_inline void last_by_best_fit(struct task_struct *p, u64 period,
					     struct wmr_split *plan)
{
	u32 parts = plan->parts, last = (parts - 1) & (WMR_PARTS - 1), cpu;
	u64 need = plan->runtime[last], least = TIME_NEVER, window = period / parts;

	if (!need)
		return;
	bpf_for(cpu, 0, nr_cpus) {
		u64 room = may_use(p, cpu) ? work_on(cpu, room_on(cpu, period, window)) : 0;

		if (room < need || room >= least || has_part_on(plan, last, cpu))
			continue;
		least = room;
		plan->cpu[last] = cpu;
	}
}

/* Split @runtime of work in @period over several CPUs; false: there is not enough in all. */
VERIFIED_ONCE int split_fit(struct task_struct *p __arg_trusted __arg_nullable, u64 runtime,
			    u64 period, struct wmr_split *plan __arg_nonnull)
{
	u32 first = first_parts(p, runtime, period), i, cpu;
	bool done = false;

	if (first < 2 || first > WMR_PARTS) /* the verifier asks */
		return false;
	bpf_for(i, 2, WMR_PARTS + 1) {
		u32 n = wmr_parts(first, i);
		u64 window = period / n;

		if (n > nr_cpus || window < 2 * WMR_LEAST_NS)
			break;
		__builtin_memset(plan, 0, sizeof(*plan));
		bpf_for(cpu, 0, nr_cpus) {
			if (may_use(p, cpu))
				wmr_offer(plan, n, cpu, work_on(cpu, room_on(cpu, period, window)));
		}
		done = wmr_complete(plan, n, runtime);
		if (done)
			break;
	}
	if (done)
		last_by_best_fit(p, period, plan);
	if (done && cpus_differ)
		parts_in_time(plan);
	return done;
}

/* Find CPUs for @runtime of work in @period: *plan. False: there is no room. */
static __always_inline bool find_room(struct task_struct *p, u64 runtime, u64 period,
				      struct wmr_split *plan)
{
	s32 cpu = whole_fit(p, runtime, period);

	if (cpu < 0)
		return split_fit(p, runtime, period, plan);
	__builtin_memset(plan, 0, sizeof(*plan));
	plan->parts = 1;
	plan->cpu[0] = cpu;
	plan->runtime[0] = time_on(cpu, runtime);
	return true;
}

/* Enter @plan into the rosters, or with @enter false take @slot out. With governor_lock held. */
static __always_inline void promise(const struct wmr_split *plan, u64 slot, u64 period, bool enter)
{
	u32 i;

	bpf_for(i, 0, WMR_PARTS) {
		u32 cpu = plan->cpu[i], ppm = wmr_bandwidth(plan->runtime[i], period);

		if (i >= plan->parts)
			break;
		if (enter) {
			wmr_join(roster(cpu), slot, plan->runtime[i], period / plan->parts, period);
			cpu_ctx(cpu)->reserved.promised_ppm += ppm;
		} else {
			wmr_leave(roster(cpu), slot);
			cpu_ctx(cpu)->reserved.promised_ppm -= ppm;
		}
	}
	promises++;
}

#endif /* APLOMB_ROOM_BPF_H */
