/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/ops.bpf.h - the callbacks of sched_ext, and what the kernel passes to them.
 *
 * libbpf copies the members of struct sched_ext_ops by name into the kernel's struct of that name.
 * A member that the kernel does not have must be NULL: crates/kernel leaves it out (scheduler.rs,
 * leave_out_unknown).
 */
#ifndef APLOMB_OPS_BPF_H
#define APLOMB_OPS_BPF_H

#include "kernel/types.bpf.h"
#include "kernel/enums.bpf.h"

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup; /* where the task is (scx_bpf_task_cgroup() is not allowed then) */
};

struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us, bw_quota_us, bw_burst_us; /* since 6.17; quota ~0: no limit */
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

#ifdef __bpf__
#pragma clang attribute pop
#endif

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*tick)(struct task_struct *p);
	void (*enable)(struct task_struct *p);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*disable)(struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	s32 (*cgroup_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us,
				     u64 burst_us);              /* 6.17 */
	void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle); /* 6.19 */
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

/*
 * Puts the names of the flags into the object's BTF. User space finds the kernel's numbers by these
 * names.
 */
const volatile enum scx_ops_flags ops_flags_names;

#endif /* APLOMB_OPS_BPF_H */
