/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/io.bpf.h - what the kernel knows about a task's input and output, and about a request.
 *
 * A task that waits for a disk does so in io_schedule(), which sets in_iowait until the task runs
 * again. A request has the priority of the task that sent it (ioprio_set(), ionice) and the cgroup
 * to which its bytes are charged: for a page that is written back, that of the task that wrote to
 * it.
 */
#ifndef APLOMB_KERNEL_IO_BPF_H
#define APLOMB_KERNEL_IO_BPF_H

#include "kernel/program.bpf.h"
#include "kernel/types.bpf.h"

/* include/uapi/linux/ioprio.h */
#define IOPRIO_CLASS_SHIFT 13
#define IOPRIO_LEVEL_MASK 7
#define IOPRIO_CLASS_RT 1

#define MINOR_BITS 20 /* include/linux/kdev_t.h */

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct gendisk {
	int major, first_minor;
};

struct block_device {
	struct gendisk *bd_disk;
};

struct bio {
	struct block_device *bi_bdev;
	unsigned short bi_ioprio;
	struct blkcg_gq *bi_blkg;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	struct bio *bio;
	unsigned rq_flags;
	u64 start_time_ns;
};

/* Bits of rq_flags, by number. The number here is never used: see kernel/enums.bpf.h. */
enum rqf_flags {
	__RQF_IO_STAT = 1,
};

struct io_context {
	unsigned short ioprio;
};

struct task_struct___io {
	struct io_context *io_context;
	unsigned in_iowait : 1;
};

struct pt_regs___x86 {
	unsigned long orig_ax;
};

struct pt_regs___arm64 {
	s32 syscallno;
};

#pragma clang attribute pop

/* Does @p sleep until a disk has done something? True until it runs again. */
static __always_inline bool waits_for_disk(struct task_struct *p)
{
	struct task_struct___io *io = (void *)p;

	return BPF_CORE_READ_BITFIELD(io, in_iowait);
}

/* The priority of @p's requests; 0: by its nice value. */
static __always_inline u32 io_priority(struct task_struct *p)
{
	struct task_struct___io *io = (void *)p;
	struct io_context *context = io->io_context;

	return context ? context->ioprio : 0;
}

/* Is @p, the current task, in a system call? If not, it has a fault or an interrupt. */
static __always_inline bool in_system_call(struct task_struct *p)
{
	void *regs = (void *)bpf_task_pt_regs(p);
	struct pt_regs___arm64 *arm64 = regs;
	struct pt_regs___x86 *x86 = regs;

	if (bpf_core_field_exists(x86->orig_ax))
		return (s64)BPF_CORE_READ(x86, orig_ax) >= 0;
	if (bpf_core_field_exists(arm64->syscallno))
		return BPF_CORE_READ(arm64, syscallno) >= 0;
	return true;
}

/* The disk's number, or that of the volume: major << 20 | minor. 0: unknown. */
static __always_inline u32 disk_number(struct gendisk *disk)
{
	return disk ? (u32)disk->major << MINOR_BITS | (u32)disk->first_minor : 0;
}

/* The cgroup that @bio is charged to; NULL: none. */
static __always_inline struct cgroup *bio_cgroup(struct bio *bio)
{
	struct blkcg_gq *blkg = bio->bi_blkg;

	return blkg ? blkg->blkcg->css.cgroup : NULL;
}

/* Was the creation time of @rq set? Not if its disk keeps no statistics (queue/iostats). */
static __always_inline bool has_start_time(struct request *rq)
{
	return rq->rq_flags & 1U << bpf_core_enum_value(enum rqf_flags, __RQF_IO_STAT);
}
#else /* the simulator has no disks */
struct task_struct;

static inline bool waits_for_disk(struct task_struct *p)
{
	return false;
}

static inline u32 io_priority(struct task_struct *p)
{
	return 0;
}
#endif

#endif /* APLOMB_KERNEL_IO_BPF_H */
