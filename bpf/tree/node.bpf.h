/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/node.bpf.h - a domain as a node of the tree: its state, its members, and what its policy does with them.
 *
 * Theory: tree/tree.bpf.h. A member is a child domain, or the domain's own tasks. The functions here look at one node;
 * tree/tree.bpf.h has those that walk the tree.
 */
#ifndef APLOMB_TREE_NODE_BPF_H
#define APLOMB_TREE_NODE_BPF_H

#include "intf.h"
#include "kernel/kernel.bpf.h"
#include "policy/fair.h"
#include "policy/fifo.h"
#include "policy/heap.h"
#include "policy/mtr.h"
#include "policy/quota.h"
#include "policy/sfq.h"
#include "policy/share.h"
#include "policy/wrr.h"
#include "state/machine.bpf.h"

/* Weights are cpu.weight times this, so that cpu.idle's part can be said: a quarter of the least, the kernel's is 0.3. */
#define WEIGHT_UNIT 4
#define WEIGHT_IDLE 1
#define WEIGHT_OWN (SHARE_WEIGHT * WEIGHT_UNIT)
/*
 * Who goes on is behind by this much of its own running at most: what it runs until the others have been charged once, a
 * slice that ends with the second tick at HZ=250, and one more for those that end late.
 */
#define GOES_ON_NS (3 * FAIR_SLICE_NS)
/* Own tasks beside child domains count as one member of SHARE_WEIGHT each (as under EEVDF), up to so many. */
#define MAX_OWN 1000

/* Members: 2 * slot is a domain in its parent, 2 * slot + 1 its own tasks in itself. 0, the root in none, is none. */
#define MEMBER_OF(slot) (2 * (slot))
#define MEMBER_OWN(slot) (2 * (slot) + 1)
_Static_assert(HEAP_SIZE == 2 * DOMAIN_SLOTS, "two members for each domain");

struct member {
	struct sfq_member sfq;
	struct wrr_member wrr;
	struct mtr_member mtr;
	u32 weight;       /* cpu.weight, in WEIGHT_UNIT */
	u32 waits_with;   /* what it added to its branch's awake_sum when it began to wait */
	u32 reserved_ppm; /* of the machine */
	u32 released;     /* its cpu.max held it back until now */
	u32 reordered;    /* set_policy() took it out of the heap and inserts it again */
};

/* A domain as a node. */
struct branch {
	u64 cgid;
	u64 now;        /* virtual time of its own tasks' queue (policy/fair.h) */
	u64 weight_sum; /* of its child domains */
	u64 awake_sum;  /* of those members that wait */
	u64 ran_ns;     /* of all in it and below */
	u64 throttled_ns, throttled_since, throttled_times;
	u64 runtime_ns, interval_ns; /* reserved as C every T of one CPU; 0: not so */
	struct sfq_node sfq;
	struct wrr_node wrr;
	struct mtr_node mtr;
	struct quota quota;
	u32 heap; /* its first member; 0: nothing waits in it or below */
	u32 slot;
	u32 parent;
	u32 depth;
	u32 state;      /* enum domain_state */
	u32 policy;     /* enum domain_policy */
	u32 waiting;    /* its own tasks in its queue */
	u32 leaf_epoch; /* of its own tasks' order: another with each policy (tree/leaf.bpf.h) */
	u32 reordered;  /* it has had another policy than the default */
	u64 own_sum;    /* weights of its own tasks that are awake */
	struct fifo_node own_fifo;
	union {
		struct sfq_node own_sfq;
		struct mtr_node own_mtr;
		struct wrr_node own_wrr;
	};
	u32 turns; /* of its own tasks, since tree/rescue.bpf.h looked */
	u32 children;
	u32 throttled; /* has used up cpu.max: in no heap */
	u32 limited;   /* it or one above has a cpu.max */
	u32 idle;      /* cpu.idle */
	u32 cpu_weight;
	u32 reserved_sum; /* of its child domains, ppm of the machine */
	u32 server;       /* slot of its server (layers/domain_server.bpf.h), 0: none */
	u32 draws_on;     /* the same, or that of the nearest above that has one */
};

struct bpf_spin_lock tree_lock SEC(".data.tree") __hidden __attribute__((aligned(8)));
struct heap_node tree_nodes[HEAP_SIZE] SEC(".bss.nodes") __hidden;
struct member members[HEAP_SIZE] SEC(".bss.members") __hidden;
struct branch branches[DOMAIN_SLOTS] SEC(".bss.branches") __hidden;

/* Indices of `branches` that are no cgroup's but the root's */
#define SLOT_ROOT 0
#define SLOT_PASSING                                                                               \
	(DOMAIN_SLOTS -                                                                            \
	 1) /* tasks of throttled domains on their way to user mode (tree/limit.bpf.h 3) */
#define SLOT_NONE DOMAIN_SLOTS /* beyond the array: no domain */

/* 0: there is no domain but the root, and every path skips the tree. It stays 1 until the scheduler goes. */
u32 tree_on;
u32 tree_legacy;  /* tasks may be in DSQ_FAIR, from the time before */
u32 tree_waiting; /* tasks in all domains' queues */
u32 tree_released; /* a domain has time again, and idle CPUs have not been woken for it yet (tree/limit.bpf.h) */
u32 leaf_epochs; /* orders of own tasks so far; never 0 in a branch that has one (tree/leaf.bpf.h) */
u32 nr_domain_slots; /* highest slot ever used + 1 */

static __always_inline struct branch *branch(u32 slot)
{
	return &branches[slot & (DOMAIN_SLOTS - 1)];
}

static __always_inline struct member *member(u32 i)
{
	return &members[i & (HEAP_SIZE - 1)];
}

static __always_inline bool in_heap(u32 i)
{
	return heap_at(tree_nodes, i)->in;
}

/*
 * Is domain @slot, or one above it, throttled? Read without tree_lock: the answer may be outdated.
 */
VERIFIED_ONCE int path_throttled(u32 slot)
{
	u32 k, at = slot, found = 0;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		found = branch(at)->throttled;
		if (found || !at)
			break;
		at = branch(at)->parent;
	}
	return found;
}

/* The virtual time with which a task begins in @b's queue. */
static __always_inline u64 branch_start(struct branch *b)
{
	return b->policy == DOMAIN_FIFO ? fifo_arrive(&b->own_fifo, b->now) : fair_start(b->now);
}

/* --- what a member is due --- */

static __always_inline u32 own_weight(const struct branch *b, u32 i)
{
	s32 waiting = b->waiting;
	u32 n = waiting > 0 ? waiting + 1 : 1;

	if (!(i & 1) || !b->children)
		return member(i)->weight;
	return (n < MAX_OWN ? n : MAX_OWN) * WEIGHT_OWN;
}

/* What domain @b has reserved itself, ppm of the machine; 0: the root. */
static __always_inline u32 branch_ppm(const struct branch *b)
{
	return b->depth ? member(MEMBER_OF(b->slot))->reserved_ppm : 0;
}

/*
 * What nobody reserved is split among those who want it, so @i's part is that of the weights that wait, and of its own.
 * (One who runs elsewhere while nobody of his waits is not counted: on several CPUs the reserved get a little less of the
 * rest than this says, never less than is reserved.)
 */
static __always_inline u64 awake_sum(const struct branch *b, u32 i)
{
	return b->awake_sum + (in_heap(i) ? 0 : own_weight(b, i));
}

/* The weight of member @i of @b, with what is reserved there (policy/share.h). */
static __always_inline u32 member_weight(const struct branch *b, u32 i)
{
	return share_weight(member(i)->reserved_ppm, b->reserved_sum, branch_ppm(b),
			    own_weight(b, i), awake_sum(b, i));
}

/*
 * Its share of @b for MTR-LS and WRR: among all members, awake or not. A share that grew whenever another slept would
 * break MTR-LS's bounds (mtr.h 5, its end): beside 20 that sleep for 5 ms now and then a sleeper waited for 250 ms.
 */
static __always_inline u32 member_ppm(const struct branch *b, u32 i)
{
	return share_ppm(member(i)->reserved_ppm, b->reserved_sum, branch_ppm(b), own_weight(b, i),
			 b->weight_sum);
}

/* --- the policies, side by side; called with tree_lock held --- */

static __always_inline u64 member_key(const struct branch *b, u32 i)
{
	const struct member *m = member(i);

	switch (b->policy) {
	case DOMAIN_MTR:
		return mtr_key(&m->mtr);
	case DOMAIN_WRR:
		return m->wrr.turn;
	default:
		return m->sfq.start;
	}
}

/* How something comes to wait. */
enum coming {
	GOES_ON = 0,    /* it ran, or may have */
	WAKES_UP = 1,   /* it slept */
	IS_PUT_BACK = 2 /* it has waited all along: a claim on it was in vain (5) */
};

/* Member @i of @b has something waiting again. WAKES_UP: it had nothing at all, not even running. */
static __always_inline void member_wake(struct branch *b, u32 i, enum coming how)
{
	bool slept = how == WAKES_UP;
	struct member *m = member(i);

	switch (b->policy) {
	case DOMAIN_MTR:
		if (!m->mtr.token)
			mtr_join(&m->mtr, &b->mtr, nr_cpus * member_ppm(b, i));
		else if (slept)
			mtr_wake(&m->mtr, &b->mtr);
		break;
	case DOMAIN_WRR:
		if (slept || !m->wrr.left)
			wrr_wake(&m->wrr, &b->wrr, wrr_quantum(member_ppm(b, i)));
		break;
	default:
		if (m->released)
			sfq_go_on(&m->sfq, &b->sfq, FAIR_SLICE_NS, member_weight(b, i));
		else if (how == GOES_ON)
			sfq_go_on(&m->sfq, &b->sfq, GOES_ON_NS, member_weight(b, i));
		else if (how == WAKES_UP)
			sfq_wake(&m->sfq, &b->sfq);
		/* IS_PUT_BACK: others may have been chosen before it in between; it loses nothing by that */
	}
}

static __always_inline void member_charge(struct branch *b, u32 i, u64 ns)
{
	struct member *m = member(i);

	switch (b->policy) {
	case DOMAIN_MTR:
		if (m->mtr.token) {
			mtr_resize(
				&m->mtr,
				nr_cpus *
					member_ppm(
						b,
						i)); /* what it is due changes with its siblings */
			mtr_charge(&m->mtr, &b->mtr, ns);
		}
		break;
	case DOMAIN_WRR:
		wrr_charge(&m->wrr, &b->wrr, ns, wrr_quantum(member_ppm(b, i)));
		break;
	default:
		sfq_charge(&m->sfq, ns, member_weight(b, i));
	}
}

#endif /* APLOMB_TREE_NODE_BPF_H */
