/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/background.bpf.h - the part of each CPU that best-effort work keeps: 1 - R_max of every
 * 100 ms. Theory: policy/background.h. layers/turn.bpf.h gives that work its turn.
 */
#ifndef APLOMB_RESERVED_BACKGROUND_BPF_H
#define APLOMB_RESERVED_BACKGROUND_BPF_H

#include "state/state.bpf.h"

/* Until best-effort work is due on @c's CPU, ns; 0: it is due now. */
static __always_inline u64 laxity(struct cpu_ctx *c, u64 now)
{
	background_roll(&c->reserved.background, now, PPM - r_max_ppm);
	return background_laxity(&c->reserved.background, now);
}

/* A best-effort task ran for @ran ns, or a reserved one on spare time. */
static __always_inline void background_ran(struct cpu_ctx *c, u64 ran)
{
	background_charge(&c->reserved.background, ran);
	/* reserved tasks wanted this time: unless R_load has it, it could never exceed R_max */
	if (c->in_turn)
		__sync_fetch_and_add(&c->reserved.ran_ns, ran);
}

/* Does best-effort work have its turn on this CPU, or will it have it next? */
static __always_inline bool best_effort_turn(const struct cpu_ctx *c)
{
	return c->next.in_turn || c->in_turn;
}

#endif /* APLOMB_RESERVED_BACKGROUND_BPF_H */
