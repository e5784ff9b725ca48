/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/machine.bpf.h - the machine's CPUs.
 */
#ifndef APLOMB_MACHINE_BPF_H
#define APLOMB_MACHINE_BPF_H

#include "kernel/program.bpf.h"

/*
 * Possible CPUs. User space counts them before the load, so that the verifier drops the code that
 * this machine does not need. aplomb_init() refuses a number that is not the kernel's.
 */
SETTING u32 nr_cpus;

u32 nr_online; /* of them */

#endif /* APLOMB_MACHINE_BPF_H */
