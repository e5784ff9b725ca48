/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/peek.bpf.h - a look at the first task of a dispatch queue.
 *
 * Why not the iterator: it takes the queue's lock twice. Each choice of a CPU, and many a wake-up,
 * looks at the first task of a queue that all CPUs serve, so the CPUs would wait for each other.
 * Since 6.19 the kernel keeps a pointer to that task, which is read without the lock. Either way
 * another CPU may take the task at once.
 */
#ifndef APLOMB_KERNEL_PEEK_BPF_H
#define APLOMB_KERNEL_PEEK_BPF_H

#include "kernel/kfuncs.bpf.h"

extern struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym __weak;

/*
 * Defines @name(dsq, none), which returns @value, in u64, of @first, the first task of @dsq, or
 * @none if no task waits there.
 */
#define LOOK_AT_FIRST(name, first, value)                                                          \
	static __noinline u64 name(u64 dsq, u64 none)                                              \
	{                                                                                          \
		TAKES_STACK(64);                                                                   \
		struct bpf_iter_scx_dsq it;                                                        \
		struct task_struct *first = NULL;                                                  \
                                                                                                   \
		if (bpf_ksym_exists(scx_bpf_dsq_peek)) {                                           \
			first = scx_bpf_dsq_peek(dsq);                                             \
			return first ? (value) : none;                                             \
		}                                                                                  \
		if (!bpf_iter_scx_dsq_new(&it, dsq, 0))                                            \
			first = bpf_iter_scx_dsq_next(&it);                                        \
		if (first)                                                                         \
			none = (value);                                                            \
		bpf_iter_scx_dsq_destroy(&it);                                                     \
		return none;                                                                       \
	}

/* The virtual time, or deadline, by which the first task of a queue is ordered. */
LOOK_AT_FIRST(first_vtime, first, first->scx.dsq_vtime)

#endif /* APLOMB_KERNEL_PEEK_BPF_H */
