/* SPDX-License-Identifier: GPL-2.0 */
/*
 * bpf/bpf_tracing.h - in libbpf's place, for the simulator: a BPF program is a plain function.
 */
#ifndef APLOMB_SIM_BPF_TRACING_H
#define APLOMB_SIM_BPF_TRACING_H

#define BPF_PROG(name, args...) name(args)

#endif /* APLOMB_SIM_BPF_TRACING_H */
