/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/events.bpf.h - every decision leaves an event with its numbers, and a count.
 *
 * The ring buffer never blocks anybody: when it is full the event is dropped and that is counted. What
 * can happen in every period of every task (exhausted, missed) is told once a second per server, with
 * the number of times; the server's own counters stay exact.
 */
#ifndef APLOMB_EVENTS_BPF_H
#define APLOMB_EVENTS_BPF_H

#include "state/state.bpf.h"

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

VERIFIED_ONCE int emit_server(u32 type, u32 slot, u64 a, u64 b, u64 c)
{
	struct server *s = server_at(slot);
	struct event *e = s ? event_begin(type) : NULL;

	if (!e)
		return 0;
	e->cpu = s->info.cpu;
	e->pid = s->info.tgid;
	e->spec_id = s->info.spec.id;
	e->a = a;
	e->b = b;
	e->c = c;
	__builtin_memcpy(e->comm, s->info.comm, COMM_LEN);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

/* A decision about @s; see enum event_type for the meaning of @a, @b, @c. */
static __always_inline void emit(u32 type, const struct server *s, u64 a, u64 b, u64 c)
{
	emit_server(type, s->info.slot, a, b, c);
}

/* A decision about a task that has no server. */
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

/* What Listing 1 did to the server in @slot: count it, and tell it if it is news in this second. */
VERIFIED_ONCE int emit_change(u32 slot, u32 change, u64 now)
{
	u64 second = now / NSEC_PER_SEC;
	struct server *s = server_at(slot);

	if (!s)
		return 0;
	if (change == EDF_RENEWED || change == EDF_EXHAUSTED)
		s->info.periods++;
	if (change == EDF_EXHAUSTED) {
		s->info.exhausted++;
		if (s->exhausted_second != second) {
			emit(EV_EXHAUSTED, s, s->exhausted_now + 1, s->info.spec.runtime_ns,
			     time_before(now, s->info.edf.start) ? s->info.edf.start - now : 0);
			s->exhausted_now = 0;
			s->exhausted_second = second;
		} else {
			s->exhausted_now++;
		}
	}
	if (change == EDF_MISSED) {
		bool windows =
			s->info.split.parts; /* the next period has begun when this one ended */

		s->info.missed++;
		if (s->missed_second != second) {
			emit(EV_MISSED, s,
			     now - (windows ? s->info.split.release : s->info.edf.deadline),
			     windows ? s->info.split.kept : s->info.edf.budget, s->info.edf.period);
			s->missed_second = second;
		}
	}
	return 0;
}

#endif /* APLOMB_EVENTS_BPF_H */
