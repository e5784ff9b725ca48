/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/types.bpf.h - the kernel's structs, with the fields that the scheduler uses.
 *
 * Why not vmlinux.h: the scheduler uses few fields of few structs. Written out here they are
 * documentation, and the list of what a simulator has to provide. Offsets come from the running
 * kernel: preserve_access_index has libbpf relocate each access by the names of struct and field
 * (CO-RE).
 */
#ifndef APLOMB_TYPES_BPF_H
#define APLOMB_TYPES_BPF_H

#include "kernel/uapi.h"
#include "policy/types.h"

/* Opaque: the kernel looks for these by name in map values. */
struct bpf_spin_lock {
	u32 val;
};

struct bpf_timer {
	u64 __opaque[2];
} __attribute__((aligned(8)));

struct bpf_task_work {
	u64 __opaque;
} __attribute__((aligned(8)));

struct bpf_iter_task {
	u64 __opaque[3];
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
	u64 __opaque[6];
} __attribute__((aligned(8)));

#define CPUMASK_WORDS                                                                              \
	16 /* of 64 CPUs: MAX_CPUS. Only passed on: the kernel's mask may be shorter or longer. */

#define CGROUP_LEVELS 17 /* of a cgroup's ancestors: the root, and MAX_DEPTH levels below it */

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct bpf_map {
	u32 id;
};

typedef struct cpumask {
	unsigned long bits[CPUMASK_WORDS];
} cpumask_t;

struct bpf_cpumask {
	cpumask_t cpumask;
};

struct sched_ext_entity {
	u32 weight;
	u32 flags;
	u64 slice;
	u64 dsq_vtime;
	unsigned long
		runnable_at; /* jiffies when it began to wait; the watchdog measures from here */
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct sched_info {
	u64 last_arrival; /* when it last began to run, ns of the run queue's clock */
};

struct super_block {
	u32 s_dev;
};

struct bdi_writeback;

struct inode {
	unsigned long i_ino;
	unsigned int i_nlink;
	u32 i_generation; /* another one for each file that gets this number */
	struct super_block *i_sb;
	/* of the cgroup that dirties it, on its device; NULL: none yet */
	struct bdi_writeback *i_wb;
};

struct address_space {
	struct inode *host;
};

struct file {
	struct inode *f_inode;
};

struct percpu_counter {
	s64 count;
};

typedef struct {
	s64 counter;
} atomic_long_t;

/* Indices into rss_stat. Only constants are relocated, so the running kernel is not asked. */
enum mm_counter {
	MM_FILEPAGES = 0,
	MM_ANONPAGES = 1,
	MM_SWAPENTS = 2,
	MM_SHMEMPAGES = 3,
};

struct mm_struct {
	struct file *exe_file;
	unsigned long arg_start, arg_end;
	unsigned long total_vm;
	struct percpu_counter rss_stat[4]; /* enum mm_counter */
	atomic_long_t pgtables_bytes;
};

/* What the threads of a process share. */
struct signal_struct {
	short oom_score_adj;
};

/*
 * A part of struct task_struct (libbpf leaves out what follows the three underscores). It is apart
 * because the simulator's tasks have to fit into four lines of the cache.
 */
struct task_struct___shared {
	struct signal_struct *signal;
};

/* The tasks of one session, where no cgroup has them. */
struct autogroup {
	unsigned long id;
};

/* Another part of struct task_struct: for the simulator, see `session` there. */
struct task_struct___group {
	struct task_group *sched_task_group;
};

typedef struct {
	u32 val;
} kuid_t;

struct kernfs_iattrs {
	kuid_t ia_uid;
};

struct kernfs_node {
	const char *name;
	u64 id;                      /* of a cgroup's directory: the cgroup's */
	struct kernfs_iattrs *iattr; /* NULL: it has been root's all along */
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;                               /* 0: the root */
	struct cgroup_subsys_state *subsys[1];   /* one for each enum cgroup_subsys_id */
	struct cgroup *ancestors[CGROUP_LEVELS]; /* by level, itself included; the kernel has all */
};

/* The CPU controller's part of a cgroup; it begins with its cgroup_subsys_state. */
struct task_group {
	int idle;                    /* cpu.idle */
	unsigned long shares;        /* its weight, if it is an autogroup's */
	struct autogroup *autogroup; /* NULL: it is a cgroup's */
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct thread_info {
	u32 cpu;
};

struct kernel_siginfo;

/* Indices into struct zone. Only constants are relocated, so the running kernel is not asked. */
enum zone_watermarks {
	WMARK_MIN = 0,
	WMARK_LOW = 1,
	WMARK_HIGH = 2,
};

enum zone_stat_item {
	NR_FREE_PAGES = 0,
};

/* A part of a node's memory. In pages. */
struct zone {
	unsigned long _watermark[3]; /* enum zone_watermarks */
	unsigned long watermark_boost;
	atomic_long_t vm_stat[1]; /* enum zone_stat_item */
};

/* Indices into bdi_writeback.stat. As above, only constants are relocated. */
enum wb_stat_item {
	WB_RECLAIMABLE = 0,
	WB_WRITEBACK = 1,
	WB_WRITTEN = 3,
};

/* What the kernel knows of the dirty pages of one memory cgroup on one device. */
struct bdi_writeback {
	struct percpu_counter stat[4];     /* enum wb_stat_item */
	unsigned long avg_write_bandwidth; /* pages a second, estimated */
};

struct sigpending {
	struct {
		unsigned long sig[1]; /* bit n - 1: signal n */
	} signal;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid, tgid;
	int nr_cpus_allowed;
#ifdef __bpf__
	unsigned int policy; /* SCHED_NORMAL, SCHED_BATCH or SCHED_IDLE */
	unsigned short migration_disabled;
	cpumask_t cpus_mask; /* its affinity; cpus_ptr: the CPUs that it may run on now */
#else /* small, so that a task of the simulator has four lines of the cache */
	unsigned char policy, migration_disabled;
	unsigned short session; /* the number of its autogroup; 0: none */
#endif
	const cpumask_t *cpus_ptr;
	struct mm_struct *mm;
	struct task_struct *real_parent, *group_leader;
	struct css_set *cgroups;
	struct sched_entity se;
	struct sched_info sched_info;
	struct sched_ext_entity scx;
	void *bpf_storage;      /* task storage of all BPF programs, NULL: none */
	u64 self_exec_id;       /* changes with each exec */
#ifdef __bpf__                  /* tasks of the simulator get no signals, and may always migrate */
	unsigned in_execve : 1; /* it is in exec, before its program's tracepoint */
	unsigned long jobctl;   /* what job control and the freezer want of it */
	struct sigpending pending;
	void *migration_pending; /* a change of its affinity waits for it to move */
#endif
	char comm[TASK_COMM_LEN];
};

struct linux_binprm {
	struct file *file;
};

struct bpf_iter_meta {
	u64 session_id;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* Arguments of __scx_bpf_dsq_insert_vtime(), 6.19. */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id, slice, vtime, enq_flags;
};

/* Arguments of __scx_bpf_select_cpu_and(), 6.19. */
struct scx_bpf_select_cpu_and_args {
	s32 prev_cpu;
	u64 wake_flags, flags;
};

#ifdef __bpf__
#pragma clang attribute pop
#endif

/* The CPU whose run queue @p is on: scx_bpf_task_cpu() without the call. */
static inline s32 task_cpu(const struct task_struct *p)
{
	return p->thread_info.cpu;
}

#endif /* APLOMB_TYPES_BPF_H */
