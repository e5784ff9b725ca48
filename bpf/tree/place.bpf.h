/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/place.bpf.h - the fair layer's queues: in which of them a task waits, and where in it.
 *
 * Theory: policy/fair.h.
 *
 * 1. Without domains there is one queue for the machine, by virtual time. So no CPU is idle while a
 *    task waits, and shares hold for the machine. Each CPU has another one for tasks that may run
 *    nowhere else. A task's virtual time is its scx.dsq_vtime, so a best-effort task needs no
 *    context of ours.
 *
 * 2. With domains (tree/tree.bpf.h) each domain has such a queue. Then all pinned tasks, also those
 *    that may run on several CPUs, wait in queues of one CPU, so that any CPU may take the first
 *    task of a domain's queue. A CPU has one such queue, a lane, for each domain that has pinned
 *    tasks there. Its choice is among its lanes and the tree (tree/tree.bpf.h 7).
 *
 * 3. A lane and the queue of its domain (without domains: the machine's) are a pair
 *    (policy/fair.h, fair_pair), each with a virtual time of its own. The lane's less the lane's
 *    `even` is its virtual time by its domain's clock. So tasks in all lanes of a domain can be
 *    compared (tree/spread.bpf.h), and a task keeps its place when it changes between queues
 *    (tree/clock.bpf.h).
 *
 * 4. A task of a session competes from the time that it is put into a queue where it has to wait
 *    until it sleeps, ends or is held. Until then its session leaves it less weight. A task that
 *    finds its CPU free, or wakes up and runs at once, is not counted, which costs nothing. Where
 *    no task is in an autogroup (with systemd all are in cgroups), two loads at each enqueue say
 *    so.
 */
#ifndef APLOMB_TREE_PLACE_BPF_H
#define APLOMB_TREE_PLACE_BPF_H

#include "kernel/autogroup.bpf.h"
#include "kernel/peek.bpf.h"
#include "policy/autogroup.h"
#include "state/state.bpf.h"
#include "tree/node.bpf.h"
#include "tree/session.bpf.h"

/*
 * Does @p wait in a queue of one CPU? Without domains if it may run on one CPU only, with domains
 * if it may not run on all. With one CPU the machine's queue is that CPU's.
 */
static __always_inline bool pinned(const struct task_struct *p)
{
	return nr_cpus > 1 && (u32)p->nr_cpus_allowed < (tree_on ? nr_online : 2);
}

/* Returns the domain to which @p's time is charged. */
static __always_inline u32 domain_of_task(struct task_struct *p)
{
	struct task_ctx *t = tree_on ? task_ctx(p) : NULL;

	return t ? t->domain & (DOMAIN_SLOTS - 1) : SLOT_ROOT;
}

static __always_inline struct lane *lane(struct cpu_ctx *c, u32 k)
{
	return &c->tree.lanes[k & (MAX_LANES - 1)];
}

/* The queue beside the lanes of @domain. */
static __always_inline struct fair_queue *beside(u32 domain)
{
	return tree_on ? &branch(domain)->fair : &fair_all;
}

/* Its virtual time. Under another order than that of policy/fair.h the domain has one for this. */
static __always_inline u64 *beside_clock(u32 domain)
{
	if (tree_on && !leaf_is_fair(branch(domain)))
		return &branch(domain)->served;
	return &beside(domain)->now;
}

/* How far lane @l, with tasks of @domain, is ahead of the queue beside it, ns of virtual time. */
static __always_inline s64 lane_ahead(struct lane *l, u32 domain)
{
	return fair_pair_ahead(&l->pair, l->fair.now, *beside_clock(domain));
}

/* Lane @l is @domain's from now on: neither it nor the queue beside it is owed anything. */
static __always_inline void lane_begins(struct lane *l, u32 domain)
{
	l->domain = domain;
	l->pair.even = l->fair.now - *beside_clock(domain);
}

/* A task of @domain wakes up, and comes to lane @k of @cpu, @c. */
VERIFIED_ONCE int lane_wakes(u32 cpu, u32 k, u32 domain)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct lane *l = lane(c, k);

	if (scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)) || (c->tree.pinned && c->tree.leaf == domain))
		return 0;
	fair_pair_wakes(&l->pair, l->fair.now, *beside_clock(domain));
	return 0;
}

/*
 * A task of @domain begins to run that waited in lane @l. If no task waits beside it, none is owed
 * anything there, and that queue's virtual time follows. So it is that of the furthest lane, if a
 * domain has tasks in lanes only.
 */
VERIFIED_ONCE int beside_follows(struct lane *l __arg_nonnull, u32 domain)
{
	if (tree_on ? (s32)branch(domain)->waiting > 0 : scx_bpf_dsq_nr_queued(DSQ_FAIR) > 0)
		return 0;
	if (lane_ahead(l, domain) > 0)
		*beside_clock(domain) = l->fair.now - l->pair.even;
	return 0;
}

/*
 * Returns the lane of @cpu for tasks of @domain. If the domain has none, a lane without tasks
 * becomes its lane; if there is none either, it shares lane 0 with the root. (Two domains that look
 * for a lane at the same time may get the same one. So a choice looks at the first task of a lane,
 * not at the lane's domain.)
 */
VERIFIED_ONCE u32 lane_of(u32 cpu, u32 domain)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 k, n = c->tree.nr_lanes, unused = 0;

	if (!tree_on || !domain)
		return 0;
	bpf_for(k, 1, n) {
		if (lane(c, k)->domain == domain)
			return k;
		if (!unused && !scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)))
			unused = k;
	}
	if (!unused && n && n < MAX_LANES) {
		unused = n;
		c->tree.nr_lanes = n + 1;
	}
	if (unused)
		lane_begins(lane(c, unused), domain);
	return unused;
}

/* The lane of @c, its CPU, that @p belongs to, which is pinned. */
static __always_inline struct lane *lane_of_task(struct task_struct *p, struct cpu_ctx *c)
{
	return lane(c, tree_on ? lane_of(task_cpu(p), domain_of_task(p)) : 0);
}

/* The queue that @p belongs to. */
static __always_inline struct fair_queue *fair_queue_of(struct task_struct *p, struct cpu_ctx *c)
{
	return pinned(p) ? &lane_of_task(p, c)->fair : beside(domain_of_task(p));
}

/*
 * The weight of a lifted kernel thread. Its nice value says how little it matters by itself, but it
 * may hold a lock that others need (khugepaged, at nice 19, the mmap_lock of a player) and be
 * preempted in the middle of that. With the weight of nice 0 it then waited for a slice of each of
 * 50 hogs, and a movie stood still for 300 ms. With ten times that weight it waits for a tenth of
 * them.
 */
#define KTHREAD_WEIGHT (10 * FAIR_WEIGHT)

/* The weight of @p by its nice value and its policy, in 1/FAIR_UNIT of sched_ext's. */
static __always_inline u32 nice_weight(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE ? FAIR_IDLE_WEIGHT : p->scx.weight * FAIR_UNIT;
}

/*
 * The weight of a kernel thread. One with a server is one of those that a specification names
 * (specs/kernel.toml): interactive programs wait for it, so it is always lifted. Another one is for
 * a while only (policy/lift.h).
 */
static __noinline u32 kthread_weight(struct task_struct *p)
{
	u32 weight = nice_weight(p);
	const struct task_ctx *t;

	if (weight >= KTHREAD_WEIGHT)
		return weight;
	t = task_ctx(p);
	return !t || t->slot || lifted(&t->lift, scx_bpf_now()) ? KTHREAD_WEIGHT : weight;
}

/* @t's thread sleeps or ends, or is in another session. */
static __always_inline void session_leave(struct task_ctx *t)
{
	if (!t->crowd_weight)
		return;
	crowd_leave(t->crowd, t->crowd_weight);
	t->crowd_weight = 0;
}

/* @p goes to sleep, or ends. */
static __always_inline void session_sleeps(struct task_struct *p)
{
	struct task_ctx *t = sessions_used ? task_ctx(p) : NULL;

	if (t)
		session_leave(t);
}

/* @p, of session @id, has to wait for a CPU. Without memory for its context it is not counted. */
static __noinline int session_join(struct task_struct *p, u32 id)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t || (t->crowd_weight && t->session == id))
		return 0;
	session_leave(t);
	t->session = id;
	t->crowd = session_place(id, p->scx.weight);
	t->crowd_weight = p->scx.weight;
	sessions_used = 1;
	return 0;
}

/* @p has to wait for a CPU. */
static __always_inline void session_waits(struct task_struct *p)
{
	u32 id = autogroup_of(p);

	if (id)
		session_join(p, id);
}

/* The weight of @p, which is in an autogroup, in 1/FAIR_UNIT of sched_ext's. */
static __noinline u32 session_weight(struct task_struct *p)
{
	const struct task_ctx *t = task_ctx(p);
	u32 crowd = t && t->crowd_weight ? crowd_of(t->crowd) : 0;

	return autogroup_weight(nice_weight(p), autogroup_nice_weight(p), crowd, FAIR_UNIT);
}

/* The weight of @p, in 1/FAIR_UNIT of sched_ext's. */
static __always_inline u32 fair_weight(struct task_struct *p)
{
	if (p->flags & PF_KTHREAD)
		return kthread_weight(p);
	return sessions_used && autogroup_of(p) ? session_weight(p) : nice_weight(p);
}

/* Kernel thread @p ran for @ran ns. */
static __noinline int kthread_charge(struct task_struct *p, u64 ran)
{
	struct task_ctx *t;

	if (nice_weight(p) >= KTHREAD_WEIGHT)
		return 0;
	t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (t && !t->slot)
		lift_charge(&t->lift, scx_bpf_now(), ran);
	return 0;
}

/*
 * @p begins to run: did it go straight to the local queue of @c's CPU? What is there runs before
 * anything else, so one task less is left of those that did. But a task that runs may come from a
 * real-time class (`chrt -o`); then it was not there. If it counted, it would keep its turn in the
 * local queue when a real-time task preempts it, as would the next one, and what wakes up would
 * wait for a slice of each.
 */
static __always_inline bool comes_straight(struct task_struct *p, struct cpu_ctx *c)
{
	s32 left;

	if (!c->tree.straight)
		return false;
	left = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON(task_cpu(p)));
	if (left >= (s32)c->tree.straight)
		return false;
	c->tree.straight = left;
	return true;
}

/* @p begins to run: the virtual time of its queue follows. */
static __always_inline void fair_running(struct task_struct *p, struct cpu_ctx *c)
{
	if (pinned(p)) {
		struct lane *l = lane_of_task(p, c);

		fair_begins(&l->fair, p->scx.dsq_vtime);
		beside_follows(l, domain_of_task(p));
	} else {
		fair_begins(beside(domain_of_task(p)), p->scx.dsq_vtime);
	}
	c->tree.turn_pid = comes_straight(p, c) ? p->pid : 0;
	if (!tree_on)
		c->tree.leaf = SLOT_ROOT;
	c->tree.vtime = p->scx.dsq_vtime;
	c->tree.began = scx_bpf_now();
	c->tree.weight = fair_weight(p);
	c->tree.pinned = pinned(p);
	c->tree.from_lane = SLOT_NONE;
}

/*
 * @c's CPU has no task to run, so none waits for it. In a domain that is seen when a task goes to
 * sleep (fair_charge()).
 */
static __always_inline void fair_idle(struct cpu_ctx *c)
{
	if (!tree_on)
		fair_none_waits(c->tree.pinned ? &lane(c, 0)->fair : &fair_all);
}

/*
 * @p was held. That was no sleep of its own, so it has no credit: else a task that is parked again
 * and again would go before all that sleep.
 */
static __always_inline void fair_rejoin(struct task_struct *p, struct cpu_ctx *c)
{
	u64 now = fair_queue_of(p, c)->now;

	if (tree_on && !leaf_is_fair(branch(domain_of_task(p))))
		return; /* its order is not by this virtual time */
	if (time_before(p->scx.dsq_vtime, now))
		task_set_vtime(p, now);
}

/*
 * @p, of @domain, wakes up while no task waits: is it next after the task that runs on @c's CPU, in
 * whatever queue it would wait?
 *
 * Not if its virtual time is more than a slice later. (Less does not count: of two tasks that wake
 * up each other, one is always a little later.) Nor if the running task is of another domain or
 * waits in another kind of queue: then the tree, or fair_pair, decides.
 */
static __always_inline bool is_next(struct task_struct *p, struct cpu_ctx *c, u32 domain)
{
	if (c->tree.pinned != pinned(p) ||
	    (tree_on && c->tree.leaf != SLOT_NONE && c->tree.leaf != domain))
		return false;
	return !time_before(c->tree.vtime + FAIR_SLICE_NS, p->scx.dsq_vtime);
}

/*
 * The virtual time of @p, which comes to our scheduling class. It is new, unless it runs: then it
 * comes from a real-time class, has not been chosen from its queue, and the queue's virtual time
 * must not follow it (fair_running()). A thousand of those, one after another, would put it ahead
 * by a slice each, and all that sleep meanwhile would come back behind them.
 */
static __always_inline u64 first_place(struct task_struct *p)
{
	struct branch *b = branch(domain_of_task(p));
	u64 v = tree_on ? branch_start(b) : fair_start(&fair_all);

	return scx_bpf_task_running(p) && (!tree_on || leaf_is_fair(b)) ? v - FAIR_SLICE_NS : v;
}

/* Did @p last begin to run so long ago that it is rested (policy/fair.h 3)? */
static __always_inline bool rested(const struct task_struct *p, u64 clock)
{
	/* the clocks of two CPUs may differ a little */
	return bpf_core_field_exists(p->sched_info.last_arrival) &&
	       (s64)(clock - p->sched_info.last_arrival) >= (s64)FAIR_REST_NS;
}

/* What the virtual time of @domain's lane of @cpu, @c, is more than the other queue's when even. */
static __always_inline u64 even_there(struct cpu_ctx *c, u32 cpu, u32 domain)
{
	struct lane *l = lane(c, lane_of(cpu, domain));

	lane_ahead(l, domain); /* `even` follows */
	return l->pair.even;
}

/* Does @c's CPU run something that no task of the fair layer preempts when it wakes up? */
static __always_inline bool undisturbed(const struct cpu_ctx *c)
{
	return c->by_right || c->in_turn || c->tree.rescued || c->exec.busy;
}

/*
 * @p, of @domain, wakes up and waits with virtual time @v in a queue at @now: does it preempt the
 * task that runs on @c's CPU? Not a reserved task by right, nor best-effort work in its turn, nor a
 * rescued task in its 0.2 ms, nor one that starts a program (task/exec.bpf.h 2). Nor a task of
 * another domain, which the tree compares; nor of a higher scheduling class. If only one of them is
 * pinned, both are compared by their domain's clock (3).
 *
 * First @v is compared with the queue: tasks that wake up each other end there. If the running task
 * has just begun, the CPU chooses anew when it has had its turn (wait_for_turn()), or at the tick
 * (guard_ends()).
 */
static __always_inline bool wake_preempts(struct task_struct *p, struct cpu_ctx *c, u32 domain,
					  u64 v, u64 now)
{
	u64 clock = scx_bpf_now(), other = c->tree.vtime;
	u32 weight = fair_weight(p);
	bool rest;
	s64 ran;

	if (c->tree.leaf != domain || undisturbed(c))
		return false;
	if (c->tree.pinned != pinned(p)) {
		u64 even = even_there(c, task_cpu(p), domain);

		if (c->tree.pinned) {
			other -= even;
		} else {
			v -= even;
			now = *beside_clock(domain);
			if (tree_on && !leaf_is_fair(branch(domain)))
				other = now; /* the running task's is of another order */
		}
	}
	rest = rested(p, clock) && fair_rested_preempts(v, weight, now);
	if (!rest && !fair_preempts(v, weight, now))
		return false;
	ran = clock - c->tree.came;
	if (fair_guarded(ran, c->tree.weight, weight)) {
		c->tree.wanted = 1;
		c->tree.turn_left = fair_turn_left(ran, c->tree.weight, weight);
		return false;
	}
	if (rest || fair_preempts(v, weight, other))
		return true;
	ran = clock - c->tree.began;
	return ran > 0 && fair_preempts(v, weight, other + fair_cost(ran, c->tree.weight));
}

/*
 * @p wakes up in another domain than the task that runs on @c's CPU. Returns how long that task has
 * run, ns, as far as it counts against it: without the lead that @p needs if it is not rested.
 */
static __always_inline u64 ran_beyond_lead(const struct task_struct *p, const struct cpu_ctx *c)
{
	u64 clock = scx_bpf_now(), need = rested(p, clock) ? 0 : FAIR_LEAD_NS;
	s64 ran = clock - c->tree.began;

	return ran > (s64)need ? ran - need : 0;
}

/* Returns the virtual time with which @p joins @dsq, which is @q. */
static __always_inline u64 fair_vtime(struct task_struct *p, u64 dsq, const struct fair_queue *q)
{
	u32 weight = fair_weight(p), own = nice_weight(p);
	u64 v = fair_place(p->scx.dsq_vtime, q, weight), latest, waiting;

	if (!time_before(q->now + FAIR_SLICE_NS, v))
		return v;
	/* in debt, which is bounded by the length of the queue */
	waiting = scx_bpf_dsq_nr_queued(dsq);
	if (weight < own) /* with a crowd: the others of its session have as little each */
		waiting = waiting * weight / own;
	latest = q->now + fair_debt(waiting, weight);
	return time_before(latest, v) ? latest : v;
}

/*
 * @prev has used up its slice and is in no queue while dispatch chooses. Does it go before the
 * first task of @dsq? Without this check two tasks would take turns whatever their weights are.
 */
static __always_inline bool still_first(struct task_struct *prev, u64 dsq)
{
	return time_before(prev->scx.dsq_vtime, first_vtime(dsq, prev->scx.dsq_vtime + 1));
}

/*
 * Returns how many tasks wait in the local queue of @c's CPU, which is @p's, if all of them are
 * there straight and none is reserved; else -1.
 */
static __always_inline s32 straight_there(struct task_struct *p, const struct cpu_ctx *c)
{
	s32 there = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON(task_cpu(p)));

	return c->reserved.deadline == TIME_NEVER && there <= (s32)c->tree.straight ? there : -1;
}

/*
 * @p, with virtual time @v, preempts the task that runs on @c's CPU: does it also go before the
 * tasks that wait in @dsq, straight to the CPU's local queue? It would also go before those that
 * are there already.
 */
static __always_inline bool overtakes(struct task_struct *p, const struct cpu_ctx *c, u64 dsq,
				      u64 v)
{
	s32 there = straight_there(p, c);
	u32 weight = fair_weight(p);

	if (there < 0)
		return false;
	if (there && !fair_overtakes(v, weight, c->tree.straight_vtime))
		return false;
	return fair_overtakes(v, weight, first_vtime(dsq, v));
}

/* What the fair layer found for a CPU */
enum fair_choice {
	FAIR_NONE = 0,  /* no task */
	FAIR_TAKEN = 1, /* a task from a queue, which was sent */
	FAIR_KEPT = 2,  /* the running task: it goes on */
	FAIR_HELD = 3,  /* no task, and the running task may not go on (cpu.max) */
	FAIR_AGAIN = 4  /* within dispatch.bpf.h: nothing, but the next try may find a task */
};

#endif /* APLOMB_TREE_PLACE_BPF_H */
