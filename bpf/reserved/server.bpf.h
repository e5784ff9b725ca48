/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/server.bpf.h - the server: the object that enforces a reservation.
 *
 * Source: Redline section 6.2; Kato, Ishikawa and Rajkumar section 5.2. Theory: policy/edf.h,
 * wmr.h.
 *
 * 1. Why one per process. Redline gives each task a reservation of its own. Its tasks were
 *    processes with one thread; a browser has a hundred, and a hundred times 6:30 is refused. So a
 *    spec reserves for the process, and each of its threads draws on the same server, on the
 *    server's CPU. A domain can have one too (layers/domain_server.bpf.h).
 *
 * 2. Model. Servers lie in an array. A task refers to its server by slot and generation; if the
 *    slot has another generation now, that server has gone and the task has none.
 *
 * 3. Control. server_assign() renews the period, or the window of a guaranteed server, when a
 *    thread wakes up or stops. While the server has no budget its threads wait elsewhere, and its
 *    timer fires when the next period starts: it moves the threads that are in `waiter`
 *    (layers/move.bpf.h).
 *
 * 4. Monitoring. What happens to a server is counted in server_info and reported by events. An
 *    event that every period of every task could cause (exhausted, missed) is sent once a second
 *    per server, with the number of times; the counters stay exact.
 *
 * 5. Minor threads. A program says by nice values which of its threads matter less: those that
 *    index files, or compress. If they drew on the budget, a minor thread that always runs would
 *    use all of it while the main thread sleeps. So a thread with a lower weight than nice 0, and
 *    than its process's main thread, draws on no server: it is best-effort work of its own weight.
 */
#ifndef APLOMB_SERVER_BPF_H
#define APLOMB_SERVER_BPF_H

#include "kernel/migration.bpf.h"
#include "reserved/soft.bpf.h"
#include "state/events.bpf.h"
#include "state/state.bpf.h"
#include "state/unstarted.bpf.h"
#include "policy/fcbs.h"
#include "policy/reserve.h"
#include "policy/wmr.h"

/*
 * Threads of one server that wait in a queue of the fair layer and are moved when its next period
 * starts. A further thread waits there until its own next wake-up.
 */
#define WAITERS 8

struct server {
	struct server_info info;   /* first: this is what user space reads */
	struct bpf_spin_lock lock; /* of all fields but those that name another */
	s32 waiter[WAITERS];       /* thread ids, 0: none */
	u64 asleep_since;          /* its last thread fell asleep; 0: none has yet */
	u64 exhausted_second;      /* in which its budget was last used up: one event a second */
	u64 missed_second;         /* likewise for a missed deadline */
	u64 elsewhere_second;      /* the same, of a thread that may not run on its CPU */
	u64 revoked_no;            /* sample_no when it was revoked last */
	u32 exhausted_now;         /* times in that second */
	u32 awake;                 /* threads that run or wait: 0 completes a job */
	struct edf_server
		before;        /* of the server that its process had until exec; period 0: none */
	struct fcbs_loan loan; /* under the lock of bank `loan_cpu` */
	u32 loan_cpu;
	u32 account; /* of its owner: reserved/owner.bpf.h */
	u32 matched; /* enum match_kind by which its program was found; 0: by none */
	u32 waits;   /* it is inherited, and counts in its account's `waiting` */
	/* memory/low.bpf.h. No lock: threads that draw at once may take a few pages more. */
	struct reserve_budget reserve;
	/* memory/swap.bpf.h. No lock: of two waits that end at once, one may be lost. */
	struct {
		u64 zone;      /* address of the one that lacked pages for it last; 0: none did */
		u64 ns, times; /* waited, since the last event */
		u64 short_ns;  /* of that, while memory was short */
		u64 told_second;
	} swap;
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
 * Free slots of `servers`. Slot 0 means "none" and is never in it. Last in, first out, so that the
 * table stays dense: a search takes at most as many steps as there ever were servers at one time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_SERVERS);
	__type(value, u32);
} free_slots SEC(".maps");

/* The governor's second (layers/second.bpf.h); armed only while there are servers. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} governor_timer SEC(".maps");

u32 nr_slots;   /* highest slot ever used + 1: user space reads servers[1 .. nr_slots - 1] */
u32 nr_servers; /* slots in use; changed atomically */
u32 sample_no;  /* number of the governor's second that runs: numbers the seconds of struct usage */

/* So that the skeleton knows this type */
const volatile struct server_info server_info_layout;

/* --- which server ---------------------------------------------------------------------------- */

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

/* The server on whose budget @t's thread draws, or NULL: it has none, or is minor. */
static __always_inline struct server *draws_on(const struct task_ctx *t)
{
	return t && !t->minor ? server_of(t) : NULL;
}

/* Returns the server by whose right @t's task may run on @cpu, or NULL. */
static __always_inline struct server *right_on(const struct task_ctx *t, s32 cpu)
{
	struct server *s = draws_on(t);

	return s && s->info.state == SERVER_ADMITTED && s->info.cpu == cpu ? s : NULL;
}

/* Is @s a domain's, as opposed to a process's? (layers/domain_server.bpf.h) */
static __always_inline bool is_domains(const struct server *s)
{
	return s->info.spec.flags & SPEC_DOMAIN;
}

/* Has the process of @t a server? A forked child in its exec window has its parent's. */
static __always_inline bool is_interactive(const struct task_ctx *t)
{
	struct server *s = server_of(t);

	return s && !is_domains(s);
}

/*
 * The server of the program of @t's task if the task is interactive, NULL if it is best-effort. A
 * program without an admitted reservation of its own is best-effort.
 */
static __always_inline struct server *interactive_server(const struct task_ctx *t)
{
	struct server *s = server_of(t);

	return s && !is_domains(s) && s->info.state == SERVER_ADMITTED ? s : NULL;
}

static __always_inline bool is_split(const struct server *s)
{
	return s->info.split.parts > 1;
}

/* Guaranteed, split or not: controlled by windows (policy/wmr.h 3). */
static __always_inline bool is_guaranteed(const struct server *s)
{
	return s->info.split.parts > 0;
}

/* Does @p, whose server @s has no budget, wait off the CPU? A kernel thread never does. */
static __always_inline bool throttled(struct task_struct *p, const struct server *s)
{
	return s->info.edf.policy == POLICY_CBS_HARD && !(p->flags & PF_KTHREAD) && !stays(p);
}

/* What @s was asked for, ppm of the fastest CPU */
static __always_inline u64 server_bandwidth(const struct server *s)
{
	return edf_bandwidth(s->info.spec.runtime_ns, s->info.spec.period_ns);
}

/* What @s, which is admitted, has of its CPU, ppm */
static __always_inline u64 budget_bandwidth(const struct server *s)
{
	return edf_bandwidth(s->info.edf.runtime, s->info.edf.period);
}

/* The server policy of @spec, which may leave it to the machine's */
static __always_inline u32 policy_of(const struct spec *spec)
{
	return spec->policy ? spec->policy : server_policy;
}

/* The bandwidth by which @spec is admitted, ppm of a CPU */
static __always_inline u64 spec_density(const struct spec *spec)
{
	return edf_density(spec->runtime_ns, spec->period_ns, policy_of(spec));
}

static __always_inline u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* --- an event about it ------------------------------------------------------------------------ */

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

/* --- threads that draw on it ----------------------------------------------------------------- */

/*
 * @s, all of whose threads have slept since @since, is awake. After more than its memory protection
 * period the daemon has withdrawn the protection (crates/memory): it is told.
 */
static __always_inline void tell_return(const struct server *s, u64 since)
{
	u64 slept = bpf_ktime_get_ns() - since;

	if (s->info.spec.protect_s && slept > s->info.spec.protect_s * NSEC_PER_SEC)
		emit_server(EV_RETURNED, s->info.slot, slept, 0, 0);
}

/* @t's thread, which draws on @s, is awake. */
static __always_inline void awake_join(struct server *s, struct task_ctx *t)
{
	u64 since = 0;

	if (t->awake)
		return;
	t->awake = 1;
	bpf_spin_lock(&s->lock);
	if (!s->awake)
		since = s->asleep_since;
	s->awake++;
	bpf_spin_unlock(&s->lock);
	if (since)
		tell_return(s, since);
}

/* @t's thread, which may be awake, draws on @s no more. */
static __always_inline void awake_leave(struct server *s, struct task_ctx *t)
{
	if (!t->awake)
		return;
	t->awake = 0;
	bpf_spin_lock(&s->lock);
	if (s->info.generation == t->generation && s->awake)
		s->awake--;
	bpf_spin_unlock(&s->lock);
}

/*
 * @p, a thread of context @t that has server @s, is about to wait for a CPU: its nice value, or the
 * main thread's, may be another one than before. Is it minor?
 */
static __always_inline bool is_minor(struct task_struct *p, struct task_ctx *t, struct server *s)
{
	u32 weight = p->scx.weight;

	t->minor = weight < FAIR_NICE_0 && !is_domains(s) && p->pid != p->tgid &&
		   weight < p->group_leader->scx.weight;
	if (t->minor)
		awake_leave(s, t);
	return t->minor;
}

/* Does a thread of @s run on its budget now? What it has run so far is not charged yet. */
static __always_inline bool runs_on_budget(const struct server *s)
{
	const struct cpu_ctx *c = cpu_ctx(s->info.cpu);

	return c->reserved.slot == s->info.slot && c->by_right == RIGHT_OWN;
}

/* A server was taken: counts it, turns on the reserved layer, and starts the governor's second. */
static __always_inline void server_added(void)
{
	struct timer_slot *slot;
	u32 zero = 0;

	__sync_fetch_and_add(&nr_servers, 1);
	if (__sync_lock_test_and_set(&reserved_on, 1))
		return;
	slot = bpf_map_lookup_elem(&governor_timer, &zero);
	if (slot)
		timer_start(&slot->timer, TIMER_ONE, TIMER_GOVERNOR, LOAD_SAMPLE_NS, 0);
}

/* --- its period ------------------------------------------------------------------------------ */

/*
 * @s, whose policy is cbs-soft, has used up its budget and has the next one, for a later deadline.
 * If the account of its owner has no time left in this second, @s waits for its next period, as
 * under redline: one period at most, however far its deadline was postponed before. With s->lock
 * held.
 */
static __always_inline void soft_exhausted(struct server *s, u64 now)
{
	struct edf_server *e = &s->info.edf;
	u64 begins = e->deadline - e->period;

	if (!time_before(now, begins) || soft_goes_on(s->account, work_on(s->info.cpu, e->runtime)))
		return;
	e->start = time_before(begins, now + e->period) ? begins : now + e->period;
}

/*
 * Handles a wake-up if @wake, then renews the period (Redline, Listing 1), or the window of a
 * guaranteed server, whose CPU follows its window. Returns enum edf_change. With s->lock held.
 */
static __always_inline u32 server_assign(struct server *s, u64 now, bool wake)
{
	struct wmr_split *w = &s->info.split;
	u32 change, x;

	if (!is_guaranteed(s)) {
		if (wake)
			edf_wake(&s->info.edf, now);
		change = edf_assign(&s->info.edf, now);
		if (change == EDF_EXHAUSTED && s->info.edf.policy == POLICY_CBS_SOFT)
			soft_exhausted(s, now);
		return change;
	}
	if (wake)
		wmr_wake(w, &s->info.edf, now);
	change = wmr_assign(w, &s->info.edf, now);
	x = w->window & (WMR_PARTS - 1);
	if (!time_before(now, s->info.edf.start) && s->info.cpu != w->cpu[x]) {
		s->info.cpu = w->cpu[x];
		s->info.migrations++;
	}
	return change;
}

/* Thread @pid is to be moved when @s's next period or window starts. With s->lock held. */
static __always_inline void waiter_add(struct server *s, s32 pid)
{
	s32 i, empty = -1;

	for (i = WAITERS - 1; i >= 0; i--) {
		if (s->waiter[i] == pid)
			return;
		if (!s->waiter[i])
			empty = i;
	}
	if (empty >= 0)
		s->waiter[empty] = pid;
}

/* Returns the time at which @s's timer has to fire next while a thread of @s is awake. */
static __always_inline u64 timer_due(const struct server *s, u64 now)
{
	return time_before(now, s->info.edf.start) ? s->info.edf.start : s->info.edf.deadline;
}

/* --- its events ------------------------------------------------------------------------------ */

static __always_inline void emit_exhausted(struct server *s, u64 now)
{
	u64 second = now / NSEC_PER_SEC;

	s->info.exhausted++;
	if (s->exhausted_second == second) {
		s->exhausted_now++;
		return;
	}
	emit(EV_EXHAUSTED, s, s->exhausted_now + 1, s->info.spec.runtime_ns,
	     time_before(now, s->info.edf.start) ? s->info.edf.start - now : 0);
	s->exhausted_now = 0;
	s->exhausted_second = second;
}

static __always_inline void emit_missed(struct server *s, u64 now)
{
	bool windows = is_guaranteed(s); /* then the next period has begun when this one ended */
	u64 second = now / NSEC_PER_SEC;

	s->info.missed++;
	if (s->missed_second == second)
		return;
	emit(EV_MISSED, s, now - (windows ? s->info.split.release : s->info.edf.deadline),
	     windows ? s->info.split.kept : s->info.edf.budget, s->info.edf.period);
	s->missed_second = second;
}

/* Thread @pid, which draws on @s, may run on @cpu and not on @s's CPU. */
static __always_inline void emit_elsewhere(struct server *s, s32 pid, s32 cpu, u64 now)
{
	u64 second = now / NSEC_PER_SEC;

	if (s->elsewhere_second == second)
		return;
	s->elsewhere_second = second;
	emit(EV_ELSEWHERE, s, pid, cpu, 0);
}

/*
 * server_assign() has returned @change (enum edf_change) for the server in @slot: counts it, and
 * reports it once a second.
 */
VERIFIED_ONCE int emit_change(u32 slot, u32 change, u64 now)
{
	struct server *s = server_at(slot);

	if (!s)
		return 0;
	if (change == EDF_RENEWED || change == EDF_EXHAUSTED)
		s->info.periods++;
	if (change == EDF_EXHAUSTED)
		emit_exhausted(s, now);
	if (change == EDF_MISSED)
		emit_missed(s, now);
	return 0;
}

#endif /* APLOMB_SERVER_BPF_H */
