/* SPDX-License-Identifier: GPL-2.0 */
/*
 * server.h - the state of a reservation's server: what edf.h and wmr.h compute on, and user space
 * reads.
 *
 * Structs without functions, in a header of their own: intf.h shares them with user space and needs
 * no policy.
 */
#ifndef APLOMB_POLICY_SERVER_H
#define APLOMB_POLICY_SERVER_H

#include "types.h"

enum server_policy {
	POLICY_DEFAULT = 0, /* in a spec: what is set for all */
	POLICY_REDLINE = 1,
	POLICY_CBS_HARD = 2,
	POLICY_CBS_SOFT = 3,
	POLICY_FCBS = 4,
	POLICY_DEFERRED = 5,
	NR_POLICIES = 6
};

struct edf_server {
	u64 runtime;  /* C, ns */
	u64 period;   /* T, ns, >= runtime */
	u64 start;    /* from when the current period gives a right, ns on the caller's clock */
	u64 deadline; /* its end: its begin + period (cbs-soft: or later) */
	s64 budget;   /* ns left of C; below 0 after an overrun */
	u32 slept;    /* the task slept voluntarily in this period (Listing 1, line 7) */
	u32 late;     /* this period's deadline passed with work left: reported once */
	u32 policy;   /* enum server_policy, not the default */
	u32 pad;
};

/*
 * CPUs that one reservation may be split over: with more, windows become shorter than their
 * overhead.
 */
#define WMR_PARTS 8

/*
 * A reservation over several CPUs; beside its edf_server, whose start, deadline and budget are the
 * window's.
 */
struct wmr_split {
	u64 runtime[WMR_PARTS]; /* Q'_x, ns */
	s32 cpu[WMR_PARTS];
	u64 release;  /* the period's start, ns */
	u64 slept_at; /* when its task went to sleep, ns; TIME_NEVER: it is awake */
	s64 kept;     /* the budget then, or when a period ended with work left, ns */
	u32 parts;    /* n; 0: not split */
	u32 window;   /* number of the current one */
};

#endif /* APLOMB_POLICY_SERVER_H */
