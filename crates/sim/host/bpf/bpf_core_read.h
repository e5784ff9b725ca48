/* SPDX-License-Identifier: GPL-2.0 */
/*
 * bpf/bpf_core_read.h - in libbpf's place, for the simulator: fields are where the compiler puts
 * them, and enumerators have the values that the simulated kernel gives them.
 *
 * The kernel's numbers differ from version to version (bpf/kernel/enums.bpf.h). Here they are
 * variables that crates/sim/src/numbers.rs sets before each simulation. So a test can find a number
 * that the scheduler did not take from the kernel. A new enumerator needs a member of its own name
 * both here and in numbers.rs.
 */
#ifndef APLOMB_SIM_BPF_CORE_READ_H
#define APLOMB_SIM_BPF_CORE_READ_H

extern struct sim_numbers {
	u64 SCX_DSQ_LOCAL, SCX_DSQ_LOCAL_ON;
	u64 SCX_ENQ_WAKEUP, SCX_ENQ_HEAD, SCX_ENQ_CPU_SELECTED, SCX_ENQ_PREEMPT, SCX_ENQ_LAST;
	u64 SCX_TASK_QUEUED;
	u64 SCX_KICK_IDLE, SCX_KICK_PREEMPT;
	u64 SCX_DSQ_ITER_REV;
	u64 SCX_EXIT_ERROR, SCX_ECODE_RSN_HOTPLUG, SCX_ECODE_ACT_RESTART;
	u64 VM_FAULT_MAJOR;
	u64 cpu_cgrp_id;
} sim_numbers;

#define bpf_core_enum_value(type, enumerator) (sim_numbers.enumerator)
/*
 * The scheduler asks this about cpu_cgrp_id only, which does not exist here: simulated cgroups have
 * no structs of controllers.
 */
#define bpf_core_enum_value_exists(type, enumerator) 0
#define bpf_core_field_exists(field...) 1
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)
#define bpf_core_cast(pointer, type) ((type *)(pointer))
#define CORE_READ_1(p, a) ((p)->a)
#define CORE_READ_2(p, a, b) ((p)->a->b)
#define CORE_READ_3(p, a, b, c) ((p)->a->b->c)
#define CORE_READ_4(p, a, b, c, d) ((p)->a->b->c->d)
#define CORE_READ_AS(_1, _2, _3, _4, name, ...) name
#define BPF_CORE_READ(p, ...)                                                                      \
	CORE_READ_AS(__VA_ARGS__, CORE_READ_4, CORE_READ_3, CORE_READ_2, CORE_READ_1)(p,           \
										      __VA_ARGS__)

#endif /* APLOMB_SIM_BPF_CORE_READ_H */
