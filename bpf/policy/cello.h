/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cello.h - shares of a disk: whose requests it gets next, when several groups want it.
 *
 * Source: Cello (QLinux, section 2.4): rounds, a share of the round for each class, and no idle
 * disk while there are requests. Eclipse, section 6.3: the same by reservation domain, and how the
 * time of a request is measured.
 *
 * 1. Why. A disk serves what it is sent, and a program that sends much gets most of it. The kernel
 *    offers no place where BPF could hold a request back. But the task that sends it can be kept
 *    off the CPU before its next one.
 *
 * 2. Model. The requests of a disk belong to groups: two classes that come first, domains with a
 *    reservation, and the rest. Time goes in rounds. A group is due a share of each round, in time
 *    of the disk. A request costs its group the time from when it was sent to the disk, or the one
 *    before it was done if that is later, until it is done. So the costs of a disk that is never
 *    idle add up to the time that passes, however many requests it has at once.
 *
 * 3. Control. While only one group wants the disk, all gates are open. Otherwise one gate is open:
 *    that of the first group, in their order, that has time left in this round. Groups behind it
 *    wait while they can: if what is left to them is as long as what is left of the round, they go
 *    first.
 *
 *      wants: the group has a request at the disk, or a task at the gate; or a task that waits for
 *             a request, and had one within CELLO_RECENT_NS; or had one within CELLO_ANTICIPATE_NS
 *
 *        time left            |\ first  |  \ second      |\
 *                             | \       |___\_____       | \
 *                             +-- round -----------------+-- round
 *
 *    A group that has sent more than was left (its requests were at the disk already when its gate
 *    closed) has the rest taken off its next share. Unused time is not kept.
 *
 * 4. No idle disk. A group that stops wanting no longer holds the others up. When no group that
 *    wants the disk has time left, a new round begins at once. And whatever the counts say, all
 *    gates open when the disk has done nothing for CELLO_IDLE_NS: a task may wait for something
 *    that is no request of this disk.
 *
 *    When one group has been alone for a whole round, no group owes anything, and a round begins
 *    when another one comes. (Not at once: a group that pauses often would have a new round each
 *    time, and so more than its share.)
 *
 * 5. A short queue. A request waits for those that are at the disk already, or on the way before
 *    it. If another group has used the disk within CELLO_RECENT_NS, so many tasks of the rest may
 *    wait for the disk at a time that it serves what each sends in one turn within CELLO_QUEUE_NS.
 *    How long a request takes is measured, and how long a turn: what the rest costs while tasks
 *    stand at its gate, by how many are let through meanwhile. A turn may be many requests: a
 *    system call that reads 64 MB cannot be held. (Eclipse: maxactive, a constant.) The disk is
 *    never without work for that. The same holds for a group of which more than CELLO_ACTIVE tasks
 *    stand at the gate, while another one wants the disk; but at least CELLO_ACTIVE may wait. So a
 *    crowd of tasks goes through the gate in its order.
 *
 * 6. Bound. A group that wants the disk all of the time gets its share of each round, less what
 *    one batch (CELLO_ACTIVE requests) of another group takes. Its turn may be early in one round
 *    and late in the next. So no request waits at the gate for longer than two rounds and that; in
 *    a group of more tasks than fit, longer by as many rounds.
 */
#ifndef APLOMB_POLICY_CELLO_H
#define APLOMB_POLICY_CELLO_H

#include "types.h"

/* The groups, in their order. */
enum cello_group_id {
	CELLO_SOFT_REAL_TIME = 0,
	CELLO_INTERACTIVE = 1,
	CELLO_DOMAINS = 2, /* the first of the domains that have a reservation */
	CELLO_REST = 15,   /* throughput-intensive work, and all that has no other group */
	NR_CELLO_GROUPS = 16
};

#define CELLO_BIT(group) (1U << (group))
#define CELLO_ALL (CELLO_BIT(NR_CELLO_GROUPS) - 1)

/*
 * A task that reads a file by parts computes between two requests. For so long, ns, its group still
 * wants the disk. Shorter: others' requests come in between. Longer: the disk is idle meanwhile.
 */
#define CELLO_ANTICIPATE_NS NSEC_PER_MSEC
/* Time between two looks, ns. A gate that should close is open for so long at most. */
#define CELLO_LOOK_NS (2 * NSEC_PER_MSEC)
/*
 * Tasks of one group that a look lets wait for the disk at a time. More: more is at the disk when
 * the gate closes.
 */
#define CELLO_ACTIVE 16
/*
 * How long the disk may need for a turn of each task of the rest, ns. Shorter: a disk that
 * serves many requests at a time has too few. Longer: a frame of a film (40 ms) is late, since the
 * kernel's queues let some requests wait for several turns.
 */
#define CELLO_QUEUE_NS (10 * NSEC_PER_MSEC)
/* Turns of the rest over which their length is averaged: what came before counts half. */
#define CELLO_TURNS 64
/*
 * So many may wait in any case: while one returns from its request, the disk has another one. More
 * (Eclipse's maxactive was 4): a disk with one arm sorts them, and each makes the others wait.
 */
#define CELLO_LEAST_ACTIVE 2
/*
 * Without a request for so long, ns, the disk is idle: longer than a group is waited for. Shorter:
 * gates open while a task computes. Longer: a wrong count costs more of the disk.
 */
#define CELLO_IDLE_NS (4 * NSEC_PER_MSEC)
/* A group that had a request within this time, ns, will have another one: a film's is due. */
#define CELLO_RECENT_NS NSEC_PER_SEC

struct cello_group {
	u64 share_ppm; /* of a round */
	s64 left;      /* of this round, ns; below 0: taken off the next. Changed atomically */
	u64 seen;      /* when it had a request last */
	u32 at_disk;   /* requests. This and the next two: changed atomically */
	u32 waiting;   /* tasks that wait for a request, or at the gate; */
	u32 parked;    /* of these, at the gate */
	u32 most;      /* of the others, if there may not be more; 0: as many as want */
};

struct cello {
	u64 round_ns;
	u64 round_end;
	u64 done;    /* when a request was done last; exchanged atomically */
	u64 service; /* what a request costs on average, ns; 0: not known */
	u64 spent;   /* by the rest while tasks stood at its gate, ns, in so many */
	u64 turns;   /* of its tasks */
	u64 alone;   /* since when no two groups want it; 0: they do */
	u32 open;    /* gates: CELLO_BIT()s */
	struct cello_group groups[NR_CELLO_GROUPS];
};

static inline struct cello_group *cello_at(struct cello *c, u32 group)
{
	return &c->groups[group % NR_CELLO_GROUPS];
}

/* Nothing is known of what went before: all gates are open, and a round begins with the look. */
static inline void cello_begin(struct cello *c, u64 now, u64 round_ns)
{
	u32 i;

	c->round_ns = round_ns;
	c->round_end = now;
	c->done = now;
	c->service = 0;
	c->spent = 0;
	c->turns = 0;
	c->alone = 0;
	c->open = CELLO_ALL;
	policy_for(i, 0, NR_CELLO_GROUPS)
	{
		cello_at(c, i)->left = 0;
		cello_at(c, i)->seen = 0;
		cello_at(c, i)->at_disk = 0;
	}
}

/* A request of @group that was sent to the disk at @sent is done at @now. Returns what it cost. */
static inline u64 cello_done(struct cello *c, u32 group, u64 sent, u64 now)
{
	u64 before = __sync_lock_test_and_set(&c->done, now);
	u64 from = time_before(sent, before) ? before : sent;
	u64 cost = time_before(from, now) ? now - from : 0;
	struct cello_group *g = cello_at(c, group);

	g->seen = now;
	/* of two CPUs that do this at a time, one is not counted: these are averages */
	c->service = c->service ? c->service - c->service / 8 + cost / 8 : cost;
	if (group == CELLO_REST && g->parked)
		c->spent += cost;
	__sync_fetch_and_add(&g->left, -(s64)cost);
	/* another CPU has read the clock later: what lies between is not to count twice */
	if (time_before(now, before))
		__sync_val_compare_and_swap(&c->done, now, before);
	return cost;
}

static inline u64 cello_share_ns(const struct cello *c, const struct cello_group *g)
{
	return c->round_ns * g->share_ppm / PPM;
}

/* A round begins at @now. No group owes more than one share. */
static inline policy_own_frame void cello_round(struct cello *c, u64 now)
{
	policy_takes_stack(16);
	u32 i;

	c->round_end = now + c->round_ns;
	policy_for(i, 0, NR_CELLO_GROUPS)
	{
		struct cello_group *g = cello_at(c, i);
		s64 share = cello_share_ns(c, g), left = g->left, fresh;

		fresh = left > 0 ? share : left < -share ? 0 : left + share;
		__sync_fetch_and_add(&g->left, fresh - left);
	}
}

/* Had @g a request, or sent one, within @ns? */
static inline bool cello_seen(const struct cello_group *g, u64 now, u64 ns)
{
	return g->seen && time_before(now, g->seen + ns);
}

static inline bool cello_wants(const struct cello_group *g, u64 now)
{
	return g->at_disk || g->parked || (g->waiting && cello_seen(g, now, CELLO_RECENT_NS)) ||
	       cello_seen(g, now, CELLO_ANTICIPATE_NS);
}

/* Those of @groups, as CELLO_BIT()s, that have time left in this round. */
static inline policy_own_frame u32 cello_able(struct cello *c, u32 groups)
{
	policy_takes_stack(16);
	u32 i, able = 0;

	policy_for(i, 0, NR_CELLO_GROUPS)
	{
		if (groups & CELLO_BIT(i) && cello_at(c, i)->left > 0)
			able |= CELLO_BIT(i);
	}
	return able;
}

/* A new round begins at @now. Returns those of @groups that have time left then. */
static inline policy_own_frame u32 cello_renewed(struct cello *c, u32 groups, u64 now)
{
	cello_round(c, now);
	return cello_able(c, groups);
}

/* Of the groups @able, which is not 0, the one that goes first, with @rest ns left of the round. */
static inline policy_own_frame u32 cello_first(struct cello *c, u32 able, u64 rest)
{
	policy_takes_stack(24);
	u64 behind = 0; /* time left to those that come later */
	u32 i, last = 0;

	policy_for(i, 0, NR_CELLO_GROUPS)
	{
		if (able & CELLO_BIT(i))
			behind += cello_at(c, i)->left;
	}
	policy_for(i, 0, NR_CELLO_GROUPS)
	{
		if (!(able & CELLO_BIT(i)))
			continue;
		behind -= cello_at(c, i)->left;
		last = i;
		if (behind < rest)
			break;
	}
	return last;
}

/* No group owes anything: what one had while it was alone was no other's. */
static inline policy_own_frame void cello_forget(struct cello *c)
{
	policy_takes_stack(16);
	u32 i;

	policy_for(i, 0, NR_CELLO_GROUPS)
	{
		s64 left = cello_at(c, i)->left;

		if (left < 0)
			__sync_fetch_and_add(&cello_at(c, i)->left, -left);
	}
}

/* Has a group that comes before the rest used the disk of late? */
static inline policy_own_frame bool cello_shared(struct cello *c, u64 now)
{
	policy_takes_stack(16);
	u32 i, found = 0;

	policy_for(i, 0, CELLO_REST)
	{
		const struct cello_group *g = cello_at(c, i);

		if (g->at_disk || cello_seen(g, now, CELLO_RECENT_NS))
			found = 1;
	}
	return found;
}

/* Tasks of @g that wait for the disk. The counts are read one after the other: never below 0. */
static inline u32 cello_active(const struct cello_group *g)
{
	u32 waiting = g->waiting, parked = g->parked;

	return waiting > parked ? waiting - parked : 0;
}

/* @nr tasks at the gate of @group are let through. */
static inline void cello_released(struct cello *c, u32 group, u32 nr)
{
	if (group % NR_CELLO_GROUPS != CELLO_REST)
		return;
	c->turns += nr;
	if (c->turns < CELLO_TURNS)
		return;
	c->turns /= 2;
	c->spent /= 2;
}

/* What a turn of a task of the rest takes the disk, ns; 0: not known. */
static inline u64 cello_turn_ns(const struct cello *c)
{
	u64 turn = c->turns ? c->spent / c->turns : 0;

	return turn > c->service ? turn : c->service;
}

/* How many tasks of the rest may wait for the disk while other groups use it (5). */
static inline u32 cello_most_active(const struct cello *c)
{
	u64 turn = cello_turn_ns(c), most = turn ? CELLO_QUEUE_NS / turn : CELLO_LEAST_ACTIVE;

	return most < CELLO_LEAST_ACTIVE ? CELLO_LEAST_ACTIVE : most > 65536 ? 65536 : most;
}

/*
 * Has the disk nothing to do at @now, with @at_disk requests? After a second without the end of one
 * the number is taken for wrong.
 */
static inline bool cello_idle(const struct cello *c, u32 at_disk, u64 now)
{
	return !time_before(now, c->done + (at_disk ? NSEC_PER_SEC : CELLO_IDLE_NS));
}

/* No two groups want the disk (4). */
static inline void cello_alone(struct cello *c, u64 now)
{
	if (!c->alone)
		c->alone = now;
	if (time_before(now, c->alone + c->round_ns))
		return;
	cello_forget(c);
	c->round_end = now;
}

/* Decides at @now which gates are open, and returns them: CELLO_BIT()s. */
static inline policy_own_frame u32 cello_look(struct cello *c, u64 now)
{
	policy_takes_stack(48);
	u32 i, wants = 0, at_disk = 0, able, most, crowd;
	bool shared;

	if (!time_before(now, c->round_end))
		cello_round(c, now);
	policy_for(i, 0, NR_CELLO_GROUPS)
	{
		at_disk |= cello_at(c, i)->at_disk;
		if (cello_wants(cello_at(c, i), now))
			wants |= CELLO_BIT(i);
	}
	c->open = CELLO_ALL;
	if (wants & (wants - 1)) {
		c->alone = 0;
		able = cello_able(c, wants);
		if (!able)
			able = cello_renewed(c, wants, now);
		if (!able) /* all owed a whole share */
			able = cello_renewed(c, wants, now);
		if (able && !cello_idle(c, at_disk, now))
			c->open = CELLO_BIT(cello_first(c, able, c->round_end - now));
	} else {
		cello_alone(c, now);
	}
	shared = cello_shared(c, now);
	most = cello_most_active(c);
	crowd = most > CELLO_ACTIVE ? most : CELLO_ACTIVE;
	policy_for(i, 0, NR_CELLO_GROUPS)
	{
		struct cello_group *g = cello_at(c, i);

		/* a crowd: a few of it would have all turns, and the others' parks end at once */
		g->most = wants & (wants - 1) && g->parked > CELLO_ACTIVE ? crowd : 0;
		if (i == CELLO_REST && shared)
			g->most = most;
		/* those at the gate go before those that come */
		if (g->most && cello_active(g) + (g->parked != 0) > g->most)
			c->open &= ~CELLO_BIT(i);
	}
	return c->open;
}

/* How many tasks that wait at the gate of @group a look lets through. */
static inline u32 cello_admits(struct cello *c, u32 group)
{
	const struct cello_group *g = cello_at(c, group);
	u32 active = cello_active(g), most = g->most ? g->most : CELLO_ACTIVE, room;

	if (!g->parked || !(c->open & CELLO_BIT(group % NR_CELLO_GROUPS)))
		return 0;
	room = most > active ? most - active : 0;
	return room < CELLO_ACTIVE ? room : CELLO_ACTIVE;
}

/*
 * A domain reserves @ppm of the disk's time while others have @taken. The classes and the rest keep
 * a fifth: the interactive programs of all domains without a reservation, and the system's own.
 */
#define CELLO_LIMIT_PPM 800000

/*
 * Loops go through all groups and ask this: of a loop over some, older verifiers do not see that
 * the index is in bounds.
 */
static inline bool cello_is_domain(u32 group)
{
	return group >= CELLO_DOMAINS && group < CELLO_REST;
}

static inline bool cello_fits(u64 taken, u64 ppm)
{
	return taken + ppm <= CELLO_LIMIT_PPM;
}

/* What domains leave is shared by the classes and the rest by weight. No weight may be 0. */
static inline void cello_share(struct cello *c, u64 soft_real_time, u64 interactive, u64 rest)
{
	u64 sum = soft_real_time + interactive + rest, free = PPM;
	u32 i;

	policy_for(i, 0, NR_CELLO_GROUPS)
	{
		if (cello_is_domain(i))
			free -= cello_at(c, i)->share_ppm;
	}
	if (!sum)
		return;
	cello_at(c, CELLO_SOFT_REAL_TIME)->share_ppm = free * soft_real_time / sum;
	cello_at(c, CELLO_INTERACTIVE)->share_ppm = free * interactive / sum;
	cello_at(c, CELLO_REST)->share_ppm = free * rest / sum;
}

#endif /* APLOMB_POLICY_CELLO_H */
