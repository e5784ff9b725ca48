/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/capacity.bpf.h - the capacity of each CPU. Theory: policy/capacity.h.
 */
#ifndef APLOMB_STATE_CAPACITY_BPF_H
#define APLOMB_STATE_CAPACITY_BPF_H

#include "kernel/program.bpf.h"
#include "intf.h"
#include "policy/capacity.h"

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

/* The work that @cpu does in @time ns; or, of a time in ppm of @cpu, the work in ppm of the fastest. */
static __always_inline u64 work_on(u32 cpu, u64 time)
{
	return cpus_differ ? capacity_work(time, capacity_of(cpu)) : time;
}

/* The time that @cpu takes for @work ns (policy/capacity.h 2); or of it, for work in ppm. */
static __always_inline u64 time_on(u32 cpu, u64 work)
{
	return cpus_differ ? capacity_time(work, capacity_of(cpu)) : work;
}

#endif /* APLOMB_STATE_CAPACITY_BPF_H */
