/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/uapi.h - constants of the kernel's stable interface: they never change, so their numbers
 * are written here.
 *
 * Source: include/uapi/linux/bpf.h, errno-base.h, time.h; PF_* and TASK_COMM_LEN of
 * include/linux/sched.h, which are macros or part of /proc. All other numbers of the kernel are
 * read from its BTF: kernel/enums.bpf.h.
 */
#ifndef APLOMB_UAPI_H
#define APLOMB_UAPI_H

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_F_NO_PREALLOC = 1,
	BPF_NOEXIST = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_F_TIMER_ABS = 1,
	BPF_F_TIMER_CPU_PIN = 2,
	CLOCK_MONOTONIC = 1,
};

enum {
	EPERM = 1,
	ENOENT = 2,
	ESRCH = 3,
	E2BIG = 7,
	ENOMEM = 12,
	EBUSY = 16,
	EINVAL = 22,
	EMFILE = 24,
	ENOSPC = 28,
	EOPNOTSUPP = 95,
	BPF_TASK_ITER_PROC_THREADS = 2,
	PF_EXITING = 0x00000004,
	PF_KTHREAD = 0x00200000,
	SCHED_IDLE = 5,
	TASK_COMM_LEN = 16,
};

#endif /* APLOMB_UAPI_H */
