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
/* A variable that user space writes before the load. The verifier treats it as a constant. */
#define SETTING const volatile
/*
 * A function that the verifier checks once, by itself, and not again for each call on each path to
 * it. Without such functions a start takes twice as long. The arguments may be numbers, trusted
 * tasks, and our own structs without a lock or a timer in them (so a server is passed by its slot).
 * The verifier does not know there what the caller has checked, so the function checks it again. It
 * must not be called with a lock held.
 *
 * Under a lock, a function with many ways through it is static and noinline, and so are those of
 * its parts that it uses twice. At its return the verifier forgets what it knew on each way, and
 * follows what comes after once. (6.18 followed 697,000 instructions of aplomb_dispatch, of the
 * million that it allows. Since member_wake() and member_charge() are such functions, and
 * lanes_wait() is a loop of its own, it follows 280,000.)
 */
#define VERIFIED_ONCE __attribute__((noinline))
/*
 * First line of a function that is called in a loop, and that contains a loop or calls a function
 * with one: from here on the function's stack frame is @bytes deep. Without this the verifiers of
 * 6.16 to 6.17.8 and 6.18-rc5 write past the end of a state's stack, into other memory of the
 * kernel. At the end of a loop's round, widen_imprecise_scalars() assumes that a frame is as deep
 * as in the round before, although that was the frame of another call (fixed by b0c8e6d3d866 in
 * 6.18). @bytes is a multiple of 8, and more than the compiler uses, so that none of the function's
 * own variables is overwritten. The function is noinline and not VERIFIED_ONCE.
 * crates/kernel/tests/frames.rs finds functions that lack this line, or whose @bytes is too small.
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
