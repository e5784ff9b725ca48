/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/spread.bpf.h - tasks that may run on several CPUs, but not on all (taskset, cpuset.cpus),
 * are spread over these.
 *
 * Source: ours. Two looks at random instead of a search: the power of two choices (Mitzenmacher
 * 2001).
 *
 * 1. Why. Such a task waits in a lane of one CPU (tree/place.bpf.h). If it stayed there, its share
 *    would depend on where it was when it became runnable: of six loops on four CPUs two would have
 *    a CPU each, and eight children forked on one CPU would stay there.
 *
 * 2. Model. A CPU's number is that of the tasks of one domain in its lane, with the one that runs.
 *    Virtual times by the domain's clock (tree/place.bpf.h 3) can be compared between CPUs.
 *
 * 3. Control, at the end of a slice only:
 *
 *        numbers    the task that stops looks at SPREAD_LOOKS other CPUs of its mask, and goes to
 *                   the one with the least number if that is less than here. So numbers differ by
 *                   one at most, and where they are equal no task moves.
 *        behind     the CPU looks at one other CPU of that mask, and fetches the first task of the
 *                   domain's lane there, if it is behind the one that stops by SPREAD_BEHIND_NS. So
 *                   tasks on CPUs with greater numbers, or with little time for their domain,
 *                   change places with others that had more.
 *
 * 4. Cost. A few reads of other CPUs' queues for each slice of such a task; nothing at wake-ups,
 *    for which ops.select_cpu looks for an idle CPU. A task changes its CPU in vain only if it is
 *    behind, so as often as shares need it.
 */
#ifndef APLOMB_TREE_SPREAD_BPF_H
#define APLOMB_TREE_SPREAD_BPF_H

#include "kernel/migration.bpf.h"
#include "tree/change.bpf.h"
#include "tree/place.bpf.h"

/*
 * CPUs that one task looks at. Trade: with more, tasks that come together spread sooner, and each
 * slice costs more.
 */
#define SPREAD_LOOKS 4
/*
 * Trade: with less, tasks change their CPUs, and lose their caches, for a difference that the next
 * slice makes up; with more, shares even out later.
 */
#define SPREAD_BEHIND_NS FAIR_SLICE_NS

/* Another CPU of @p's mask than @cpu, another one each time; or @cpu. */
static __always_inline u32 other_cpu(struct task_struct *p, u32 cpu)
{
	u32 at = bpf_cpumask_any_distribute(p->cpus_ptr);

	if (at == cpu)
		at = bpf_cpumask_any_distribute(p->cpus_ptr);
	return at < nr_cpus && cpu_ctx(at)->online ? at : cpu;
}

/* The lane of @cpu with tasks of @domain; MAX_LANES: none. */
VERIFIED_ONCE u32 find_lane(u32 cpu, u32 domain)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 k, found = MAX_LANES;

	if (!tree_on || !domain)
		return 0;
	bpf_for(k, 1, c->tree.nr_lanes) {
		if (lane(c, k)->domain == domain) {
			found = k;
			break;
		}
	}
	return found;
}

/* Tasks of @domain that wait in its lane of @cpu. */
static __always_inline u32 nr_in_lane(u32 cpu, u32 domain)
{
	u32 k = find_lane(cpu, domain);

	return k < MAX_LANES ? scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)) : 0;
}

/*
 * @p, of @domain, has stopped on @cpu and waits from now on, in a lane: returns the CPU whose lane
 * that is.
 */
VERIFIED_ONCE u32 emptiest_cpu(struct task_struct *p __arg_trusted, u32 cpu, u32 domain)
{
	u32 i, best = cpu, least;

	if (p->nr_cpus_allowed < 2 || stays(p))
		return cpu;
	least = nr_in_lane(cpu, domain) + (cpu_ctx(cpu)->tree.from_lane == domain);
	bpf_for(i, 0, SPREAD_LOOKS) {
		u32 at = other_cpu(p, cpu), number;
		struct cpu_ctx *c = cpu_ctx(at);

		if (!least || at == cpu)
			break;
		number = nr_in_lane(at, domain) + (c->tree.pinned && c->tree.leaf == domain);
		if (number < least) {
			least = number;
			best = at;
		}
	}
	return best;
}

/* The virtual time of @p, which waits or ran in lane @k of @cpu, by its domain's clock. */
static __always_inline u64 common_vtime(const struct task_struct *p, u32 cpu, u32 k)
{
	return p->scx.dsq_vtime - lane(cpu_ctx(cpu), k)->pair.even;
}

/*
 * Moves @p, of context @t, which waits at @it in lane @k of @from, to its domain's lane of @cpu. If
 * another CPU has taken it meanwhile, the kernel refuses that.
 */
static __always_inline void fetch(struct bpf_iter_scx_dsq *it, struct task_struct *p,
				  struct task_ctx *t, u32 from, u32 k, u32 cpu)
{
	u32 to = lane_of(cpu, t->domain);
	u64 v = common_vtime(p, from, k) + lane(cpu_ctx(cpu), to)->pair.even;

	if (t->clock != from + 1 || !change_begin(t, cpu, to, v))
		return;
	scx_bpf_dsq_move_set_vtime(it, v);
	change_end(t, from + 1, scx_bpf_dsq_move_vtime(it, p, DSQ_PINNED(cpu, to), 0));
}

/*
 * @prev, which is pinned, stops on @cpu and could go on: looks at the lane of its domain on another
 * CPU, and fetches the first task there if that is behind.
 */
VERIFIED_ONCE int fetch_behind(struct task_struct *prev __arg_trusted, u32 cpu)
{
	struct task_ctx *t = task_ctx(prev);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = NULL;
	u32 from, k;
	u64 mine;

	if (!t || prev->nr_cpus_allowed < 2 || stays(prev) || t->clock != cpu + 1)
		return 0;
	from = other_cpu(prev, cpu);
	k = from == cpu ? MAX_LANES : find_lane(from, t->domain);
	if (k >= MAX_LANES)
		return 0;
	mine = common_vtime(prev, cpu, t->lane);
	if (!time_before(first_vtime(DSQ_PINNED(from, k), TIME_NEVER) + SPREAD_BEHIND_NS,
			 mine + lane(cpu_ctx(from), k)->pair.even))
		return 0;
	if (!bpf_iter_scx_dsq_new(&it, DSQ_PINNED(from, k), 0))
		p = bpf_iter_scx_dsq_next(&it);
	if (p && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !stays(p) &&
	    time_before(common_vtime(p, from, k) + SPREAD_BEHIND_NS, mine)) {
		t = task_ctx(p);
		if (t)
			fetch(&it, p, t, from, k, cpu);
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

#endif /* APLOMB_TREE_SPREAD_BPF_H */
