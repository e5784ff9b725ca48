/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/server.bpf.h - the server: the object that enforces a reservation. Theory: policy/edf.h, wmr.h.
 *
 * 1. Model. A process has one server (or a whole domain has: layers/domain_server.bpf.h). All threads draw on it. Servers
 *    lie in an array, and tasks refer to them by slot and generation: a reference to an older generation is void.
 *
 * 2. Control. Its period, or its window on one CPU if it is guaranteed, is renewed when a thread wakes up or stops
 *    (server_assign). While it has no budget, its threads wait elsewhere, and its timer goes off when the next period
 *    starts: it moves those threads that are in `waiter`.
 */
#ifndef APLOMB_SERVER_BPF_H
#define APLOMB_SERVER_BPF_H

#include "state/state.bpf.h"
#include "state/events.bpf.h"
#include "policy/fcbs.h"
#include "policy/wmr.h"

/*
 * Threads of one server that wait in a queue of the fair layer, to be moved when its next period starts. A further thread
 * waits there until its own next wake-up.
 */
#define WAITERS 8

struct server {
	struct server_info info;   /* first: this is what user space reads */
	struct bpf_spin_lock lock; /* of all fields but those that name another */
	s32 waiter[WAITERS];       /* thread ids, 0: none */
	u64 exhausted_second;      /* in which its budget was last used up; told once a second */
	u64 missed_second;         /* likewise for a missed deadline */
	u32 exhausted_now;         /* times in that second */
	u32 awake;                 /* threads that run or wait: 0 completes a job */
	struct edf_server
		before;        /* of the server that its program had until exec; period 0: none */
	struct fcbs_loan loan; /* under the lock of bank `loan_cpu` */
	u32 loan_cpu;
	u32 pad;
	struct bpf_timer
		timer; /* at the start of the next period or window, while a thread waits */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SERVERS);
	__type(key, u32);
	__type(value, struct server);
} servers SEC(".maps");

/*
 * Slots of `servers` that are free. Slot 0 means "none" and is never in it. Last in, first out, so that the table stays
 * dense: a look through it takes no more steps than there were ever servers at a time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_SERVERS);
	__type(value, u32);
} free_slots SEC(".maps");

u32 nr_slots;   /* highest slot ever used + 1: user space reads servers[1 .. nr_slots - 1] */
u32 nr_servers; /* slots in use; changed atomically */

/* So that the skeleton knows this type */
const volatile struct server_info server_info_layout;

static __always_inline struct server *server_at(u32 slot)
{
	return slot ? bpf_map_lookup_elem(&servers, &slot) : NULL;
}

/* The server that @t refers to, or NULL if that one has gone. */
static __always_inline struct server *server_of(const struct task_ctx *t)
{
	struct server *s = t ? server_at(t->slot) : NULL;

	return s && s->info.generation == t->generation && s->info.state ? s : NULL;
}

/* Is @s a domain's, as opposed to a program's? (layers/domain_server.bpf.h) */
static __always_inline bool is_domains(const struct server *s)
{
	return s->info.spec.flags & SPEC_DOMAIN;
}

/* Has its program a server? Or, in the exec window, the program that forked it? */
static __always_inline bool is_interactive(const struct task_ctx *t)
{
	struct server *s = server_of(t);

	return s && !is_domains(s);
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

#endif /* APLOMB_SERVER_BPF_H */
