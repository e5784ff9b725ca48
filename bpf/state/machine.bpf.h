/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/machine.bpf.h - the machine's CPUs.
 */
#ifndef APLOMB_MACHINE_BPF_H
#define APLOMB_MACHINE_BPF_H

#include "policy/types.h"

u32 nr_cpus;   /* possible CPUs */
u32 nr_online; /* of them */

#endif /* APLOMB_MACHINE_BPF_H */
