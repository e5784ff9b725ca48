/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/enums.bpf.h - the kernel's own numbers, read from the running kernel.
 *
 * Flags of sched_ext change from version to version: SCX_ENQ_CPU_SELECTED was 1 << 10 up to 6.18
 * and is 1 << 20 since 6.19. So each name here is a macro that libbpf replaces at load with the
 * value of the kernel's BTF (CO-RE): an immediate in the instruction, without a load at run time.
 * The numbers in the enums below only make the enumerators known to the compiler; programs never
 * see them. An enumerator that the kernel lacks is refused before the load, by name (crates/kernel,
 * btf.rs).
 *
 * Exception: SCX_OPS_* are in the initialiser of struct sched_ext_ops, where a constant must stand.
 * User space replaces them before the load, by name (crates/kernel, scheduler.rs).
 */
#ifndef APLOMB_ENUMS_BPF_H
#define APLOMB_ENUMS_BPF_H

#include "kernel/program.bpf.h"

enum scx_dsq_id_flags {
	SCX_DSQ_LOCAL = 1ULL << 63 | 2,
	SCX_DSQ_LOCAL_ON = 3ULL << 62,
};

enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1ULL,
	SCX_ENQ_CPU_SELECTED = 1ULL << 20,
	SCX_ENQ_PREEMPT = 1ULL << 32,
	SCX_ENQ_LAST = 1ULL << 41,
};

enum scx_ent_flags {
	SCX_TASK_QUEUED = 1, /* in scx.flags: runnable */
};

enum scx_kick_flags {
	SCX_KICK_IDLE = 1,
	SCX_KICK_PREEMPT = 2,
};

enum scx_consts {
	SCX_CPUPERF_ONE = 1024, /* the highest speed of a CPU */
};

enum scx_dsq_iter_flags {
	SCX_DSQ_ITER_REV = 1 << 16,
};

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
	SCX_EXIT_ERROR = 1024, /* from here on the scheduler was ended because of an error */
};

enum scx_exit_code {
	SCX_ECODE_RSN_HOTPLUG = 1ULL << 32,
	SCX_ECODE_ACT_RESTART = 1ULL << 48,
};

enum vm_fault_reason {
	VM_FAULT_MAJOR = 4, /* a page fault waited for a device */
};

enum cgroup_subsys_id {
	cpu_cgrp_id = 1,
};

/*
 * Each macro has the name of its enumerator. A macro's own name is not expanded again in its
 * expansion, so the name there means the enumerator.
 */
#define SCX_DSQ_LOCAL bpf_core_enum_value(enum scx_dsq_id_flags, SCX_DSQ_LOCAL)
#define SCX_DSQ_LOCAL_ON(cpu) (bpf_core_enum_value(enum scx_dsq_id_flags, SCX_DSQ_LOCAL_ON) | (cpu))
#define SCX_ENQ_WAKEUP bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_WAKEUP)
#define SCX_ENQ_CPU_SELECTED bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_CPU_SELECTED)
#define SCX_ENQ_PREEMPT bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_PREEMPT)
#define SCX_ENQ_LAST bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_LAST)
#define SCX_TASK_QUEUED bpf_core_enum_value(enum scx_ent_flags, SCX_TASK_QUEUED)
#define SCX_KICK_IDLE bpf_core_enum_value(enum scx_kick_flags, SCX_KICK_IDLE)
#define SCX_KICK_PREEMPT bpf_core_enum_value(enum scx_kick_flags, SCX_KICK_PREEMPT)
#define SCX_CPUPERF_ONE bpf_core_enum_value(enum scx_consts, SCX_CPUPERF_ONE)
#define SCX_DSQ_ITER_REV bpf_core_enum_value(enum scx_dsq_iter_flags, SCX_DSQ_ITER_REV)
#define VM_FAULT_MAJOR bpf_core_enum_value(enum vm_fault_reason, VM_FAULT_MAJOR)
#define SCX_EXIT_ERROR bpf_core_enum_value(enum scx_exit_kind, SCX_EXIT_ERROR)
#define SCX_ECODE_RSN_HOTPLUG bpf_core_enum_value(enum scx_exit_code, SCX_ECODE_RSN_HOTPLUG)
#define SCX_ECODE_ACT_RESTART bpf_core_enum_value(enum scx_exit_code, SCX_ECODE_ACT_RESTART)

/* These have no macros: they are the exception above. */
enum scx_ops_flags {
	SCX_OPS_ENQ_LAST = 2,
	SCX_OPS_ENQ_EXITING = 4,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 16,
};

#endif /* APLOMB_ENUMS_BPF_H */
