/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/end.bpf.h - why the kernel ended the scheduler, for the daemon.
 */
#ifndef APLOMB_STATE_END_BPF_H
#define APLOMB_STATE_END_BPF_H

#include "kernel/ops.bpf.h"
#include "state/events.bpf.h"

struct exit_info exit_info;

/* Returns enum exit_flags: only this side knows the running kernel's numbers. */
static __always_inline u32 exit_flags(const struct scx_exit_info *info)
{
	u32 flags = info->exit_code & SCX_ECODE_RSN_HOTPLUG ? EXIT_HOTPLUG : 0;

	if (info->kind < SCX_EXIT_ERROR && info->exit_code & SCX_ECODE_ACT_RESTART)
		flags |= EXIT_RESTART;
	return flags;
}

/* Tells the daemon why the scheduler ended, and wakes it. */
static __always_inline void report_end(const struct scx_exit_info *info)
{
	struct event *end;

	bpf_probe_read_kernel_str(exit_info.reason, sizeof(exit_info.reason), info->reason);
	bpf_probe_read_kernel_str(exit_info.msg, sizeof(exit_info.msg), info->msg);
	exit_info.exit_code = info->exit_code;
	exit_info.flags = exit_flags(info);
	__sync_fetch_and_add(&exit_info.kind, info->kind);
	end = bpf_ringbuf_reserve(&events, sizeof(*end), 0);
	if (end) { /* if it is full the daemon is awake anyway */
		__builtin_memset(end, 0, sizeof(*end));
		bpf_ringbuf_submit(end, BPF_RB_FORCE_WAKEUP);
	}
}

#endif /* APLOMB_STATE_END_BPF_H */
