/* SPDX-License-Identifier: GPL-2.0 */
/*
 * server.bpf.h - the table of servers: a process takes one, its threads share it, the last frees it.
 *
 * Redline gives each task a reservation of its own. Its tasks were processes with one thread; a
 * browser has a hundred, and a hundred times 6:30 is refused. So a spec reserves for the program: one
 * server per process, from which whichever thread has work draws, on the server's CPU.
 */
#ifndef APLOMB_SERVER_BPF_H
#define APLOMB_SERVER_BPF_H

#include "governor.bpf.h"

static __always_inline void task_join(struct task_ctx *t, u32 slot, struct server *s)
{
	t->slot = slot;
	t->generation = s->info.generation;
	t->window_ns = 0;
	__sync_fetch_and_add(&s->info.threads, 1);
}

/* Give a slot back. Tasks that still refer to it see another generation and count as having none. */
static __noinline void server_release(struct server *s, u32 slot)
{
	u32 state;

	bpf_spin_lock(&s->lock);
	state = s->info.state;
	s->info.state = SERVER_FREE;
	bpf_spin_unlock(&s->lock);
	if (state == SERVER_FREE)
		return;
	if (state == SERVER_ADMITTED)
		governor_leave(s);
	emit(EV_EXITED, s, s->info.served_ns, s->info.periods, s->info.missed);
	s->info.generation++;
	__sync_fetch_and_sub(&nr_servers, 1);
	bpf_map_push_elem(&free_slots, &slot, 0);
}

/* A thread no longer draws on its server. A forked child in its window never counted. */
static __noinline void task_leave(struct task_ctx *t)
{
	struct server *s = server_of(t);
	u32 slot = t->slot;

	t->slot = 0;
	if (s && !t->window_ns && __sync_fetch_and_sub(&s->info.threads, 1) == 1)
		server_release(s, slot);
	t->window_ns = 0;
}

/* The program gives its server back, for all its threads: it runs something else now. */
static __noinline void program_leave(struct task_ctx *t)
{
	struct server *s = server_of(t);

	if (s && !t->window_ns)
		server_release(s, t->slot);
	t->slot = 0;
	t->window_ns = 0;
}

/*
 * @p becomes interactive under @spec: a slot, then the admission test. Whatever it had before is given
 * back. @parent: pid it inherits from, or 0. False if the table is full (told), else true, admitted
 * or not.
 */
static __noinline bool server_create(struct task_struct *p, struct task_ctx *t, const struct spec *spec,
				     s32 parent, bool launch)
{
	struct spec copy = *spec; /* the map's row may change while we look */
	struct server *s;
	u32 slot = 0;

	program_leave(t);
	if (bpf_map_pop_elem(&free_slots, &slot) || !(s = server_at(slot))) {
		emit_task(EV_LIMIT, p, copy.id, MAX_SERVERS, copy.runtime_ns, copy.period_ns);
		return false;
	}
	s->info.spec = copy;
	s->info.inherited = parent != 0;
	s->info.tgid = p->tgid;
	s->info.threads = 0;
	s->info.cpu = -1;
	s->info.served_ns = 0;
	s->info.periods = 0;
	s->info.exhausted = 0;
	s->info.missed = 0;
	s->exhausted_second = 0;
	s->missed_second = 0;
	s->exhausted_now = 0;
	__builtin_memset(&s->info.usage, 0, sizeof(s->info.usage));
	__builtin_memset(s->waiter, 0, sizeof(s->waiter));
	bpf_probe_read_kernel(s->info.comm, COMM_LEN, p->comm);
	s->info.state = SERVER_REJECTED;
	if (slot >= nr_slots)
		nr_slots = slot + 1;
	task_join(t, slot, s);
	if (__sync_fetch_and_add(&nr_servers, 1) == 0)
		governor_wake();
	if (parent)
		emit(EV_INHERITED, s, parent, copy.runtime_ns, copy.period_ns);
	governor_admit(s, p, launch, false);
	return true;
}

/*
 * A forked child's window is over without an exec: it inherits a server of its own if its parent's
 * spec says so (flag I), else it is best-effort (Redline, section 3).
 */
static __noinline void window_settle(struct task_struct *p, struct task_ctx *t)
{
	struct server *parent = server_of(t);

	if (parent && (parent->info.spec.flags & SPEC_INHERIT))
		server_create(p, t, &parent->info.spec, parent->info.tgid, true);
	else
		program_leave(t);
}

/* Is @s the server of the program that @p runs, as opposed to one it may use for its first 1 ms? */
static __always_inline struct server *server_owned(const struct task_ctx *t)
{
	return t && !t->window_ns ? server_of(t) : NULL;
}

#endif /* APLOMB_SERVER_BPF_H */
