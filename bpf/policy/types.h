/* SPDX-License-Identifier: GPL-2.0 */
/*
 * types.h - the integer types of the policy headers.
 *
 * A policy header is pure C: structs, integers, no kernel types, no maps, no clock of its own (the
 * caller passes `now`). Clang compiles it into BPF for the kernel, the host compiler into the tests
 * and the simulator: one copy of each algorithm.
 */
#ifndef APLOMB_POLICY_TYPES_H
#define APLOMB_POLICY_TYPES_H

#include <stdbool.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC 1000000000ULL
#define PPM 1000000ULL /* one whole CPU, in parts per million */
/* Later than any time: 146 years. Not ~0, which time_before() would take for just before 0. */
#define TIME_NEVER (1ULL << 62)

/*
 * What verifiers need of loops; both come from kernel/program.bpf.h when this is compiled for the
 * kernel. policy_for: a loop that the verifier need not follow round by round. policy_own_frame,
 * and policy_takes_stack() as first line: a function with a loop that is called in a loop; it is
 * not inlined.
 */
#ifdef __bpf__
#define policy_for bpf_for
#define policy_own_frame __attribute__((noinline))
#define policy_takes_stack TAKES_STACK
#else
#ifndef policy_for /* a test counts the rounds: crates/policy/src/shim_tree.c */
#define policy_for(i, from, to) for ((i) = (from); (i) < (to); (i)++)
#endif
#define policy_own_frame
#define policy_takes_stack(bytes)
#endif

/* a is before b, on a clock that may wrap (virtual times do) */
static inline bool time_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

#endif /* APLOMB_POLICY_TYPES_H */
