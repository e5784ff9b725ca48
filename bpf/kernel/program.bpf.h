/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/program.bpf.h - how a BPF program is written: libbpf's macros, and what verifiers need of
 * a function.
 *
 * The same sources are compiled for the host, for the simulator. Its folder then gives <bpf/...> in
 * libbpf's place (crates/sim/host/bpf). Nothing here or in any other file of bpf/ refers to the
 * simulator.
 */
#ifndef APLOMB_PROGRAM_BPF_H
#define APLOMB_PROGRAM_BPF_H

#include "policy/types.h"

typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef s32 __s32;
typedef u64 __u64;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

struct bpf_iter_num {
	u64 __opaque[1];
} __attribute__((aligned(8)));

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define OPS(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define OPS_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)

#ifdef __bpf__
/* User space writes it before the load; the verifier then takes it for a constant. */
#define SETTING const volatile
/*
 * A function that the verifier checks once, by itself, and not anew for each call on each path to
 * it. Without these a start takes twice as long. Its arguments are therefore numbers, our own
 * structs (without a lock or a timer in them: for a server its slot) and trusted tasks, and it
 * finds out anew what its caller knew. Not to be called with a lock held.
 */
#define VERIFIED_ONCE __attribute__((noinline))
/*
 * First line of a function that is called in a loop and contains one itself, or lies on the way to
 * a function that does: its frame is @bytes deep from here on. Without it the verifiers of 6.16 to
 * 6.17.8 and 6.18-rc5 write past the end of a state's stack, into whatever the kernel keeps there:
 * where a loop comes round, widen_imprecise_scalars() takes a frame to be as deep as it was in the
 * round before, though that was another call (mended by b0c8e6d3d866 in 6.18). @bytes is more than
 * the compiler uses, so that nothing of the function's own is overwritten, and a multiple of 8; the
 * function is noinline and not VERIFIED_ONCE. crates/kernel/tests/frames.rs finds the functions
 * that lack it, or have too little.
 */
#define TAKES_STACK(bytes)                                                                         \
	asm volatile("*(u64 *)(r10 - %[at]) = %[none]"                                             \
		     :                                                                             \
		     : [at] "i"(bytes), [none] "r"(0ULL)                                           \
		     : "memory")
#else
#define SETTING volatile
#define VERIFIED_ONCE
#define TAKES_STACK(bytes)
#endif

#endif /* APLOMB_PROGRAM_BPF_H */
