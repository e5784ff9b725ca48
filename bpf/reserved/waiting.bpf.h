/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/waiting.bpf.h - how many inherited servers of one owner may wait in the table until they
 * fit.
 *
 * A process that forks eight children at once (a zygote, a browser) has some that do not fit at
 * that moment. They wait for reactivation like any program that was started at a bad moment. But a
 * fork bomb of such a program would fill the table, so each owner has MAX_WAITING places; one more
 * child stays best-effort.
 *
 * The owner is the login (audit's loginuid, which survives su and user namespaces), or without one
 * the user. Owners share a counter if their numbers are equal modulo OWNERS.
 */
#ifndef APLOMB_WAITING_BPF_H
#define APLOMB_WAITING_BPF_H

#include "reserved/server.bpf.h"

#define MAX_WAITING 32
#define OWNERS 4096 /* a power of two */

u32 waiting_of[OWNERS]; /* changed atomically */

static __always_inline u32 owner_of(struct task_struct *p)
{
#ifdef __bpf__
	u32 login = -1;

	if (bpf_core_field_exists(p->loginuid)) /* else the kernel has no audit */
		login = BPF_CORE_READ(p, loginuid.val);
	return login != (u32)-1 ? login : BPF_CORE_READ(p, real_cred, uid.val);
#else
	return 0;
#endif
}

/* Takes one of the places of @p's owner: returns its counter's number and 1; 0: there is none. */
static __always_inline u32 waiting_take(struct task_struct *p)
{
	u32 at = owner_of(p) & (OWNERS - 1);

	if (waiting_of[at] >= MAX_WAITING)
		return 0;
	__sync_fetch_and_add(&waiting_of[at], 1);
	return at + 1;
}

/* Gives the place @place back. */
static __always_inline void waiting_give(u32 place)
{
	if (place)
		__sync_fetch_and_sub(&waiting_of[(place - 1) & (OWNERS - 1)], 1);
}

/* @s is admitted, or has gone. */
static __always_inline void waiting_over(struct server *s)
{
	if (s->waiting_place)
		waiting_give(__sync_lock_test_and_set(&s->waiting_place, 0));
}

#endif /* APLOMB_WAITING_BPF_H */
