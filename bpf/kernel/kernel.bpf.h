/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/kernel.bpf.h - all that aplomb knows of the kernel: types, kernel functions, and their versions.
 *
 * 1. Why not vmlinux.h. The scheduler touches few fields of few structs. Written out here they are
 *    documentation, and the list of what a simulator has to provide. Offsets come from the running
 *    kernel: preserve_access_index makes libbpf relocate each access by name (CO-RE).
 *
 * 2. Versions. Functions that changed are declared weak, in both forms, and chosen at load; the
 *    verifier drops the branch that a kernel lacks. libbpf cuts off one `___suffix` of a name, so
 *    `f___v2___k` is the kernel's `f___v2`. Supported: 6.16 to 7.3.
 */
#ifndef APLOMB_KERNEL_BPF_H
#define APLOMB_KERNEL_BPF_H

#ifndef APLOMB_HOST
#define policy_for bpf_for
#define policy_own_frame __attribute__((noinline))
#define policy_takes_stack TAKES_STACK
#endif
#include "policy/types.h"

typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef s32 __s32;
typedef u64 __u64;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

struct bpf_iter_num {
	u64 __opaque[1];
} __attribute__((aligned(8)));

struct bpf_spin_lock {
	u32 val;
};

struct bpf_timer {
	u64 __opaque[2];
} __attribute__((aligned(8)));

struct bpf_task_work {
	u64 __opaque;
} __attribute__((aligned(8)));

struct bpf_map {
	u32 id;
};

#ifdef APLOMB_HOST /* the simulator: crates/sim */
#include "host.h"
#define CPUMASK_WORDS 16
#else
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#define CPUMASK_WORDS 1 /* only passed on, never looked into */
#define SETTING const volatile
/*
 * A function that the verifier looks at once, by itself, not anew at each call on each way to it: without these a start
 * takes twice as long. So its arguments are numbers, our own structs (without a lock or a timer in them: for a
 * server its slot) and trusted tasks, and it finds out anew what its caller knew. Not to be called with a lock held.
 */
#define VERIFIED_ONCE __attribute__((noinline))
/*
 * First line of a function that is called in a loop and has one itself, or lies on the way to one that has: its frame is
 * @bytes deep from here on. Without it the verifiers of 6.16 to 6.17.8 and 6.18-rc5 write past the end of a state's stack,
 * into whatever the kernel keeps there: where a loop comes round, widen_imprecise_scalars() takes a frame to be as deep
 * as it was in the round before, though that was another call (mended by b0c8e6d3d866 in 6.18). @bytes is more than the
 * compiler uses, so that nothing of its own is overwritten, and a multiple of 8; the function is noinline and not
 * VERIFIED_ONCE. crates/kernel/tests/frames.rs finds who lacks it, or has too little.
 */
#define TAKES_STACK(bytes)                                                                         \
	asm volatile("*(u64 *)(r10 - %[at]) = %[none]"                                             \
		     :                                                                             \
		     : [at] "i"(bytes), [none] "r"(0ULL)                                           \
		     : "memory")
#define OPS(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define OPS_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)
#endif

/* Constants of include/uapi/linux/bpf.h; part of the kernel's stable interface */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_F_TIMER_ABS = 1,
	BPF_F_TIMER_CPU_PIN = 2,
	CLOCK_MONOTONIC = 1,
};

enum {
	ENOENT = 2,
	ESRCH = 3,
	E2BIG = 7,
	ENOMEM = 12,
	EBUSY = 16,
	EINVAL = 22,
	EMFILE = 24,
	ENOSPC = 28,
	PF_EXITING = 0x00000004,
	PF_KTHREAD = 0x00200000,
	TASK_COMM_LEN = 16,
};

/* include/linux/sched/ext.h; values are the kernel's ABI towards schedulers */
#define SCX_DSQ_FLAG_BUILTIN (1ULL << 63)
#define SCX_DSQ_LOCAL (SCX_DSQ_FLAG_BUILTIN | 2)
#define SCX_DSQ_LOCAL_ON(cpu) (SCX_DSQ_FLAG_BUILTIN | (1ULL << 62) | (cpu))
#define SCX_TASK_QUEUED 1 /* in scx.flags: runnable */
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_CPU_SELECTED (1ULL << 10)
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_OPS_ENQ_LAST 2ULL
#define SCX_OPS_ENQ_MIGRATION_DISABLED 16ULL
#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_DSQ_ITER_REV (1ULL << 16)

#ifndef APLOMB_HOST
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

typedef struct cpumask {
	unsigned long bits[CPUMASK_WORDS];
} cpumask_t;

struct sched_ext_entity {
	u32 weight;
	u32 flags;
	u64 slice;
	u64 dsq_vtime;
	unsigned long
		runnable_at; /* jiffies: since then it waits; what the kernel's watchdog looks at */
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct super_block {
	u32 s_dev;
};

struct inode {
	unsigned long i_ino;
	unsigned int i_nlink;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
};

struct percpu_counter {
	s64 count;
};

struct mm_struct {
	struct file *exe_file;
	unsigned long arg_start, arg_end;
	unsigned long total_vm;
	struct percpu_counter rss_stat[4];
};

struct kernfs_node {
	const char *name;
	u64 id; /* of a cgroup's directory: the cgroup's */
};

struct cgroup_subsys_state;

struct cgroup {
	struct kernfs_node *kn;
	int level; /* 0: the root */
#ifndef APLOMB_HOST
	struct cgroup_subsys_state *subsys[1]; /* one for each enum cgroup_subsys_id */
#endif
};

/* The CPU controller's part of a cgroup; it begins with its cgroup_subsys_state. */
struct task_group {
	int idle; /* cpu.idle */
};

enum cgroup_subsys_id {
	cpu_cgrp_id = 1
}; /* here any number: it differs from kernel to kernel */

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct thread_info {
	u32 cpu;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid, tgid;
	int nr_cpus_allowed;
	unsigned short migration_disabled;
	const cpumask_t *cpus_ptr;
	struct mm_struct *mm;
	struct task_struct *real_parent, *group_leader;
	struct css_set *cgroups;
	struct sched_entity se;
	struct sched_ext_entity scx;
	void *bpf_storage; /* task storage of all BPF programs, NULL: none */
	u64 self_exec_id;  /* changes with each exec */
	char comm[TASK_COMM_LEN];
};

struct linux_binprm {
	struct file *file;
};

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

enum scx_exit_kind {
	SCX_EXIT_NONE, /* the others are user space's to name */
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

struct bpf_iter_meta {
	u64 session_id;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#ifndef APLOMB_HOST
#pragma clang attribute pop
#endif

/* The CPU whose run queue @p is on: scx_bpf_task_cpu() without the call. */
static __always_inline s32 task_cpu(const struct task_struct *p)
{
	return p->thread_info.cpu;
}

/*
 * Layouts that the kernel must agree with are matched by name (struct_ops: libbpf copies the members
 * that both know) or are opaque.
 */
struct bpf_iter_scx_dsq {
	u64 __opaque[6];
} __attribute__((aligned(8)));

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id, slice, vtime, enq_flags;
};

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

extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				  bool *is_idle) __ksym;
extern s32 scx_bpf_pick_idle_cpu(const cpumask_t *cpus_allowed, u64 flags) __ksym;
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
extern u32 scx_bpf_nr_cpu_ids(void) __ksym;
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

extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;
extern void bpf_preempt_disable(void) __ksym;
extern void bpf_preempt_enable(void) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
/* Each gives a reference, for bpf_cgroup_release(). The first: of the callback's own task only. */
extern struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym __weak;
extern struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
extern struct cgroup *bpf_cgroup_from_id(u64 cgid) __ksym;
extern void bpf_cgroup_release(struct cgroup *cgrp) __ksym;

/* 6.19: dsq_insert and move_to_local return, or take, more than before */
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

/* 6.19: until then a scheduler wrote the fields of p->scx itself; the kernel will refuse that one day. */
extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
extern bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) __ksym __weak;

#ifndef APLOMB_HOST
/*
 * 7.0 (6.18 has it by another name, with one argument more: it counts as lacking it). The callback's map must be of the
 * kernel's type: libbpf compares, and what does not match counts as lacking too, without a word.
 */
extern int bpf_task_work_schedule_resume(struct task_struct *p, struct bpf_task_work *work,
					 void *map__map,
					 int (*callback)(struct bpf_map *map, void *key,
							 void *value)) __ksym __weak;
#define task_work_exists() bpf_ksym_exists(bpf_task_work_schedule_resume)
#define task_work_resume(p, work, map, callback)                                                   \
	bpf_task_work_schedule_resume(p, work, map, callback)
#endif

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
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = dsq,
			.slice = slice,
			.vtime = vtime,
			.enq_flags = enq_flags,
		};
		__scx_bpf_dsq_insert_vtime(p, &args);
	} else {
		scx_bpf_dsq_insert_vtime___v1(p, dsq, slice, vtime, enq_flags);
	}
}

/* @p, which runs on this CPU or is queued here, may run for @slice more, ns. */
static __always_inline void task_set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

/* The key by which the next insert into a queue by virtual time orders @p. */
static __always_inline void task_set_vtime(struct task_struct *p, u64 vtime)
{
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

#ifndef APLOMB_HOST
/* cpu.idle of @cgrp, as it is now: cgroup_init is told weight and limit only. */
static __always_inline bool cgroup_is_idle(struct cgroup *cgrp)
{
	void *group = NULL;
	int idle = 0;
	u64 at;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		return false;
	at = bpf_core_field_offset(struct cgroup, subsys) +
	     bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id) * sizeof(void *);
	bpf_probe_read_kernel(&group, sizeof(group), (void *)cgrp + at);
	if (group && bpf_core_field_exists(struct task_group, idle))
		bpf_probe_read_kernel(&idle, sizeof(idle),
				      group + bpf_core_field_offset(struct task_group, idle));
	return idle > 0;
}
#endif

#endif /* APLOMB_KERNEL_BPF_H */
