/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/guarantee.bpf.h - admission of guaranteed reservations: by what is promised. Theory: policy/wmr.h.
 *
 * Source: Kato, Ishikawa and Rajkumar, section 5.2; beside Redline's admission by load (reserved/governor.bpf.h).
 *
 * 1. Two kinds of reservation. By load: what is really used decides, more is let in than would fit, and an
 *    overload is mended within seconds by revocation. That suits a desktop, whose specs reserve ten times
 *    what they use. Guaranteed: nobody is let in who could make a deadline be missed, even if all use
 *    all they have. That suits a few who need it, and it is the only one that can be split over CPUs.
 *
 * 2. Together. To those admitted by load what is promised counts as used: R_lo, R_hi and R_max are met by
 *    promised + max(R_load, S_load). To those guaranteed the others are a load of max(R_load, S_load) that
 *    is there already; the part of a CPU that may be promised is R_max less that, since best-effort
 *    work keeps the rest (background.h). Should the others use more later, they are the ones revoked.
 *
 * 3. Placement. A heavy reservation (more than half a CPU) by worst-fit: on the CPU with the least expected
 *    load where it fits, for what it needs beyond its budget. A light one by best-fit: on the CPU that has
 *    promised most, where it fits. The paper has worst-fit for all. Then light ones, which come first by
 *    chance, leave no CPU free enough for heavy ones, and less is let in than by partitioned first-fit: of 2,000
 *    sets (tasks of 10 to 100 %, 80 % load, 4 CPUs) 1,848, first-fit 1,888, as it is here 1,987. If it fits on
 *    none, n CPUs with the largest rooms share it, in windows of P/n; which n first: wmr.h, WMR_WINDOW_NS.
 *
 * 4. Two admissions at a time look at the same rosters; the second to finish sees that they changed
 *    (`promises`), and looks again.
 */
#ifndef APLOMB_GUARANTEE_BPF_H
#define APLOMB_GUARANTEE_BPF_H

#include "reserved/server.bpf.h"

/* Of the governor's books: each CPU's load, promised_ppm and roster, and `promises` */
struct bpf_spin_lock governor_lock SEC(".data.governor") __hidden __attribute__((aligned(8)));

/* What each CPU has promised (policy/wmr.h); under governor_lock. */
struct wmr_roster rosters[MAX_CPUS];
u32 promises;  /* changes with each change of a roster; under governor_lock */
u32 sample_no; /* of the governor's second that runs: numbers the seconds of struct usage */

static __always_inline struct wmr_roster *roster(u32 cpu)
{
	return &rosters[cpu & (MAX_CPUS - 1)];
}

/* Times that an admission looks again because of another; then it is refused, and may be reactivated. */
#define GUARANTEE_TRIES 4

/* What is promised and expected on @c, ppm: what placement compares. */
static __always_inline u64 cpu_expected(const struct cpu_ctx *c)
{
	return c->reserved.promised_ppm + load_expected(&c->reserved.load);
}

/* What @cpu could promise of @window in @period, ns. Not static: so the verifier looks at it once. */
__noinline u64 guarantee_room(u32 cpu, u64 period, u64 window)
{
	u64 used = load_expected(&cpu_ctx(cpu)->reserved.load);

	if (period < NSEC_PER_MSEC || used >= r_max_ppm)
		return 0;
	return wmr_room(roster(cpu), period, window, r_max_ppm - used);
}

/* @p NULL: a domain, which may use any. */
static __always_inline bool may_use(struct task_struct *p, u32 cpu)
{
	return cpu_ctx(cpu)->online && (!p || bpf_cpumask_test_cpu(cpu, p->cpus_ptr));
}

/* The CPU for all of @runtime in @period, or -1: there is none. */
VERIFIED_ONCE s32 whole_fit(struct task_struct *p __arg_trusted __arg_nullable, u64 runtime,
			    u64 period)
{
	bool light = runtime <= period / 2;
	u64 least = TIME_NEVER;
	s32 best = -1;
	u32 cpu;

	bpf_rcu_read_lock();
	bpf_for(cpu, 0, nr_cpus) {
		const struct cpu_ctx *c = cpu_ctx(cpu);
		u64 cost = cpu_expected(c);

		if (light) /* what is promised comes first; where it is the same, the load, which is below 4 PPM */
			cost += (PPM - c->reserved.promised_ppm) * (4 * PPM);
		if (cost < least && may_use(p, cpu) &&
		    guarantee_room(cpu, period, period) >= runtime) {
			least = cost;
			best = cpu;
		}
	}
	bpf_rcu_read_unlock();
	return best;
}

/* Split @runtime in @period over several CPUs; false: there is not enough in all. */
VERIFIED_ONCE int split_fit(struct task_struct *p __arg_trusted __arg_nullable, u64 runtime,
			    u64 period, struct wmr_split *plan __arg_nonnull)
{
	u32 first = wmr_first(period, nr_cpus), i, cpu;
	bool done = false;

	bpf_rcu_read_lock();
	bpf_for(i, 2, WMR_PARTS + 1) {
		u32 n = wmr_parts(first, i);
		u64 window = period / n;

		if (n > nr_cpus || window < 2 * WMR_LEAST_NS)
			break;
		__builtin_memset(plan, 0, sizeof(*plan));
		bpf_for(cpu, 0, nr_cpus) {
			if (may_use(p, cpu))
				wmr_offer(plan, n, cpu, guarantee_room(cpu, period, window));
		}
		done = wmr_complete(plan, n, runtime);
		if (done)
			break;
	}
	bpf_rcu_read_unlock();
	return done;
}

static __always_inline bool guarantee_plan(struct task_struct *p, u64 runtime, u64 period,
					   struct wmr_split *plan)
{
	s32 cpu = whole_fit(p, runtime, period);

	if (cpu < 0)
		return split_fit(p, runtime, period, plan);
	__builtin_memset(plan, 0, sizeof(*plan));
	plan->parts = 1;
	plan->cpu[0] = cpu;
	plan->runtime[0] = runtime;
	return true;
}

/* Enter @plan into the rosters, or take @slot out of them (@enter false). Governor's lock held. */
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

/*
 * Find room for @s, whose task is @p, and promise it: info.split says where. It is filled in in place, for the
 * stack's sake; nobody looks at it before the server is admitted.
 */
static __always_inline bool guarantee(struct server *s, struct task_struct *p)
{
	u64 runtime = s->info.spec.runtime_ns, period = s->info.spec.period_ns;
	u32 try;

	bpf_for(try, 0, GUARANTEE_TRIES) {
		u32 seen = promises;
		bool done;

		if (!period || !guarantee_plan(p, runtime, period, &s->info.split))
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
}

#endif /* APLOMB_GUARANTEE_BPF_H */
