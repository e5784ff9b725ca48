/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/machine.bpf.h - the machine's CPUs.
 */
#ifndef APLOMB_MACHINE_BPF_H
#define APLOMB_MACHINE_BPF_H

#include "kernel/program.bpf.h"
#include "intf.h"
#include "policy/capacity.h"

/*
 * Possible CPUs. User space counts them before the load, so that the verifier drops the code that
 * this machine does not need. aplomb_init() refuses a number that is not the kernel's.
 */
SETTING u32 nr_cpus;

u32 nr_online; /* of them */

/*
 * Each CPU's capacity (policy/capacity.h), 1 to CAPACITY_FULL, and whether they differ. If they do
 * not, the verifier drops all conversions of time and work.
 */
SETTING u16 cpu_capacities[MAX_CPUS];
SETTING u32 cpus_differ;

/* The capacity of @cpu. */
static __always_inline u32 capacity_of(u32 cpu)
{
	u32 capacity = cpus_differ ? cpu_capacities[cpu & (MAX_CPUS - 1)] : CAPACITY_FULL;

	return capacity ? capacity : CAPACITY_FULL;
}

/* What a task on @cpu does in @time ns, in work (policy/capacity.h 2). */
static __always_inline u64 work_on(u32 cpu, u64 time)
{
	return cpus_differ ? capacity_work(time, capacity_of(cpu)) : time;
}

/* How long @cpu takes for @work ns. */
static __always_inline u64 time_on(u32 cpu, u64 work)
{
	return cpus_differ ? capacity_time(work, capacity_of(cpu)) : work;
}

#endif /* APLOMB_MACHINE_BPF_H */
