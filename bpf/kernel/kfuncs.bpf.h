/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/kfuncs.bpf.h - the kernel's functions for BPF programs, and which kernel has which form of
 * them.
 *
 * Functions that changed are declared weak, in both forms, and chosen at load: the verifier drops
 * the branch that a kernel lacks. libbpf cuts off one `___suffix` of a name, so `f___v2___k` is the
 * kernel's `f___v2`. Supported: 6.16 to 7.3.
 */
#ifndef APLOMB_KFUNCS_BPF_H
#define APLOMB_KFUNCS_BPF_H

#include "kernel/program.bpf.h"
#include "kernel/types.bpf.h"

extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				  bool *is_idle) __ksym;
/* Since 6.19 the arguments are in a struct. */
extern s32 __scx_bpf_select_cpu_and(struct task_struct *p, const struct cpumask *cpus_allowed,
				    struct scx_bpf_select_cpu_and_args *args) __ksym __weak;
extern s32 scx_bpf_select_cpu_and___v1(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				       const struct cpumask *cpus_allowed, u64 flags) __ksym __weak;
extern s32 scx_bpf_pick_idle_cpu(const cpumask_t *cpus_allowed, u64 flags) __ksym;
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
extern bool scx_bpf_task_running(const struct task_struct *p) __ksym;
extern void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym;
extern u32 scx_bpf_nr_cpu_ids(void) __ksym;
extern u64 scx_bpf_now(void) __ksym; /* the run queue's clock, ns: costs little */
extern const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
extern void scx_bpf_put_cpumask(const struct cpumask *cpumask) __ksym;

extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
extern void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice) __ksym;
extern void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime) __ksym;
extern bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
			     u64 enq_flags) __ksym;
extern bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
				   u64 enq_flags) __ksym;

extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task,
			     unsigned int flags) __ksym;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym;

extern struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
extern void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym;
extern void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;
extern u32 bpf_cpumask_any_distribute(const struct cpumask *mask) __ksym;
extern void bpf_preempt_disable(void) __ksym;
extern void bpf_preempt_enable(void) __ksym;
extern void bpf_local_irq_save(unsigned long *flags) __ksym;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
/*
 * Each takes a reference, which bpf_cgroup_release() drops. scx_bpf_task_cgroup() is allowed for
 * the callback's own task only.
 */
extern struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym __weak;
extern struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
extern struct cgroup *bpf_cgroup_from_id(u64 cgid) __ksym;
extern void bpf_cgroup_release(struct cgroup *cgrp) __ksym;

/* Since 6.19 the inserts return a bool, and move_to_local takes enq_flags. */
extern bool scx_bpf_dsq_insert___v2___k(struct task_struct *p, u64 dsq, u64 slice,
					u64 enq_flags) __ksym __weak;
extern void scx_bpf_dsq_insert___v1(struct task_struct *p, u64 dsq, u64 slice,
				    u64 enq_flags) __ksym __weak;
extern bool __scx_bpf_dsq_insert_vtime(struct task_struct *p,
				       struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
extern void scx_bpf_dsq_insert_vtime___v1(struct task_struct *p, u64 dsq, u64 slice, u64 vtime,
					  u64 enq_flags) __ksym __weak;
extern bool scx_bpf_dsq_move_to_local___v2___k(u64 dsq, u64 enq_flags) __ksym __weak;
extern bool scx_bpf_dsq_move_to_local___v1(u64 dsq) __ksym __weak;

/*
 * Since 6.19. Before that a scheduler wrote to the fields of p->scx directly, which later kernels
 * will refuse.
 */
extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
extern bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) __ksym __weak;

/*
 * Since 7.0. In 6.18 the function has another name and one argument more; there it counts as
 * missing. The callback's map must have the kernel's type: libbpf compares the types, and a
 * function whose type differs counts as missing without a message.
 */
extern int bpf_task_work_schedule_resume(struct task_struct *p, struct bpf_task_work *work,
					 void *map__map,
					 int (*callback)(struct bpf_map *map, void *key,
							 void *value)) __ksym __weak;
#define task_work_exists() bpf_ksym_exists(bpf_task_work_schedule_resume)
#define task_work_resume(p, work, map, callback)                                                   \
	bpf_task_work_schedule_resume(p, work, map, callback)

static __always_inline void dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 enq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2___k))
		scx_bpf_dsq_insert___v2___k(p, dsq, slice, enq_flags);
	else
		scx_bpf_dsq_insert___v1(p, dsq, slice, enq_flags);
}

static __always_inline void dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime,
					     u64 enq_flags)
{
	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime)) {
		struct scx_bpf_dsq_insert_vtime_args args = {};

		args.dsq_id = dsq; /* field by field: only such accesses are relocated */
		args.slice = slice;
		args.vtime = vtime;
		args.enq_flags = enq_flags;
		__scx_bpf_dsq_insert_vtime(p, &args);
	} else {
		scx_bpf_dsq_insert_vtime___v1(p, dsq, slice, vtime, enq_flags);
	}
}

/*
 * The idle CPU that the kernel would choose for @p, which wakes up, among @cpus and those that @p
 * may use; below 0: there is none.
 */
static __always_inline s32 select_cpu_among(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
					    const struct cpumask *cpus)
{
	if (bpf_ksym_exists(__scx_bpf_select_cpu_and)) {
		struct scx_bpf_select_cpu_and_args args = {};

		args.prev_cpu = prev_cpu;
		args.wake_flags = wake_flags;
		return __scx_bpf_select_cpu_and(p, cpus, &args);
	}
	return scx_bpf_select_cpu_and___v1(p, prev_cpu, wake_flags, cpus, 0);
}

/* Sets the slice of @p, which runs on this CPU or is queued here, to @slice ns. */
static __always_inline void task_set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

/* Sets the virtual time by which the next insert into an ordered queue places @p. */
static __always_inline void task_set_vtime(struct task_struct *p, u64 vtime)
{
	if (p->scx.dsq_vtime == vtime) /* often at a wake-up; the call takes 0.1 us */
		return;
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime))
		scx_bpf_task_set_dsq_vtime(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

static __always_inline bool dsq_move_to_local(u64 dsq)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___k))
		return scx_bpf_dsq_move_to_local___v2___k(dsq, 0);
	return scx_bpf_dsq_move_to_local___v1(dsq);
}

#endif /* APLOMB_KFUNCS_BPF_H */
