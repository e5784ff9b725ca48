/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/events.bpf.h - every decision leaves an event with its numbers, and a count.
 *
 * The ring buffer never blocks: when it is full, the event is dropped and EV_LOST counts it. Events
 * about a server are in reserved/server.bpf.h.
 */
#ifndef APLOMB_EVENTS_BPF_H
#define APLOMB_EVENTS_BPF_H

#include "kernel/program.bpf.h"
#include "kernel/types.bpf.h"
#include "intf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENT_BYTES);
} events SEC(".maps");

/* How many events of each type, enum event_type */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NR_EVENTS);
	__type(key, u32);
	__type(value, u64);
} stats SEC(".maps");

/* So that the skeleton knows this type */
const volatile struct event event_layout;

static __always_inline void count(u32 type)
{
	u64 *n = bpf_map_lookup_elem(&stats, &type);

	if (n)
		*n += 1;
}

static __always_inline struct event *event_begin(u32 type)
{
	struct event *e;

	count(type);
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		count(EV_LOST);
		return NULL;
	}
	e->time_ns = bpf_ktime_get_ns();
	e->type = type;
	return e;
}

/* A decision about a task that has no server; see enum event_type for the meaning of @a, @b, @c. */
static __always_inline void emit_task(u32 type, struct task_struct *p, u32 spec_id, u64 a, u64 b,
				      u64 c)
{
	struct event *e = event_begin(type);

	if (!e)
		return;
	e->cpu = -1;
	e->pid = p->tgid;
	e->spec_id = spec_id;
	e->a = a;
	e->b = b;
	e->c = c;
	bpf_probe_read_kernel(e->comm, COMM_LEN, p->comm);
	bpf_ringbuf_submit(e, 0);
}

/* A decision about no task. */
static __always_inline void emit_plain(u32 type, u64 a, u64 b, u64 c)
{
	struct event *e = event_begin(type);

	if (!e)
		return;
	e->cpu = -1;
	e->pid = 0;
	e->spec_id = 0;
	e->a = a;
	e->b = b;
	e->c = c;
	__builtin_memset(e->comm, 0, COMM_LEN);
	bpf_ringbuf_submit(e, 0);
}

#endif /* APLOMB_EVENTS_BPF_H */
