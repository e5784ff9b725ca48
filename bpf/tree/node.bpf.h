/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/node.bpf.h - a domain as a node of the tree: its state, its members, and what its policy
 * does with them.
 *
 * Theory: tree/tree.bpf.h. A member of a node is a child domain, or the domain's own tasks. The
 * functions here concern one node; tree/tree.bpf.h has those that walk the tree.
 */
#ifndef APLOMB_TREE_NODE_BPF_H
#define APLOMB_TREE_NODE_BPF_H

#include "intf.h"
#include "kernel/program.bpf.h"
#include "kernel/types.bpf.h"
#include "policy/fair.h"
#include "policy/fifo.h"
#include "policy/heap.h"
#include "policy/mtr.h"
#include "policy/quota.h"
#include "policy/sfq.h"
#include "policy/share.h"
#include "policy/wrr.h"
#include "state/machine.bpf.h"

/*
 * Weights are cpu.weight (1 to 10,000) times WEIGHT_UNIT, so that the weight of cpu.idle is a whole
 * number too: a quarter of the least cpu.weight. (The kernel's is 0.3 of it.)
 */
#define WEIGHT_UNIT 4
#define WEIGHT_IDLE 1
#define WEIGHT_OWN (SHARE_WEIGHT * WEIGHT_UNIT)
/*
 * A member that goes on is placed behind the node's virtual time by this much of its own running at
 * most, for each two CPUs: what it may run until the others have been charged once. That is a slice
 * that ends with the second tick at HZ=250, and another one for slices that end late. It may run on
 * many CPUs at once, and the charges of all come together. With less, six loops on four CPUs of
 * eight, which are due all of these, lost an eighth of them.
 */
#define GOES_ON_NS (3 * FAIR_SLICE_NS)
/*
 * Beside child domains, each own task counts as one member of SHARE_WEIGHT (as under EEVDF). More
 * tasks than this weigh no more.
 */
#define MAX_OWN 1000

/*
 * Indices of `members`: a domain as a member of its parent, and its own tasks as a member of
 * itself. 0 would be the root in its parent, and means none.
 */
#define MEMBER_OF(slot) (2 * (slot))
#define MEMBER_OWN(slot) (2 * (slot) + 1)
_Static_assert(HEAP_SIZE == 2 * DOMAIN_SLOTS, "two members for each domain");

struct member {
	struct sfq_member sfq;
	struct wrr_member wrr;
	struct mtr_member mtr;
	u32 weight;       /* in WEIGHT_UNIT */
	u32 waits_with;   /* what it added to its node's awake_sum when it was inserted */
	u32 reserved_ppm; /* of the machine */
	u32 released;     /* its throttling ends just now (unthrottle()) */
	u32 reinsert;     /* set_policy() took it out of the heap and inserts it again */
};

/* A domain as a node */
struct branch {
	u64 cgid;               /* id of its cgroup; 0: that has gone */
	struct fair_queue fair; /* its own tasks' queue */
	u64 weight_sum;         /* of its child domains */
	u64 awake_sum;          /* of the members in its heap */
	u64 ran_ns;             /* by all tasks in it and below */
	u64 throttled_ns, throttled_since, throttled_times;
	u64 released_at;             /* when its last throttling ended */
	u64 runtime_ns, interval_ns; /* reserved as C every T of one CPU; 0: not so */
	struct sfq_node sfq;
	struct wrr_node wrr;
	struct mtr_node mtr;
	struct quota quota;
	u32 heap; /* its first member; 0: no task waits in it or below */
	u32 slot;
	u32 parent; /* slot */
	u32 depth;
	u32 owner;      /* the row of `domain_owners` in which it counts (owner.bpf.h) */
	u32 state;      /* enum domain_state */
	u32 policy;     /* enum domain_policy */
	u32 waiting;    /* own tasks in its queue; may be below 0 (tree.bpf.h 5) */
	u32 leaf_epoch; /* number of its own tasks' order; another with each policy */
	u32 reordered;  /* its policy was changed once */
	u64 own_sum;    /* weights of its own tasks that are awake */
	u64 served; /* virtual time of its own tasks beside those in lanes (tree/leaf.bpf.h 3) */
	struct fifo_node own_fifo;
	union {
		struct sfq_node own_sfq;
		struct mtr_node own_mtr;
		struct wrr_node own_wrr;
	};
	u32 turns; /* of its own tasks since the last look of rescue_tick.bpf.h */
	u32 children;
	u32 throttled; /* has used up cpu.max: it is in no heap */
	u32 limited;   /* it, or a domain above it, has a cpu.max */
	u32 idle;      /* cpu.idle */
	u32 cpu_weight;
	u32 reserved_sum; /* of its child domains, ppm of the machine */
	u32 server;       /* slot of its server (layers/domain_server.bpf.h), 0: none */
	u32 draws_on;     /* its server, or that of the nearest domain above that has one */
	u32 disk_own;     /* the group of its share of the disks (disk_share.bpf.h), 0: none */
	u32 disk_group;   /* the same, or that of the nearest domain above that has one */
};

/* Protects all of the tree: nodes, members, heaps, and the fields of a task_ctx that name it. */
struct bpf_spin_lock tree_lock SEC(".data.tree") __hidden __attribute__((aligned(8)));
struct heap_node tree_nodes[HEAP_SIZE] SEC(".bss.nodes") __hidden;
struct member members[HEAP_SIZE] SEC(".bss.members") __hidden;
struct branch branches[DOMAIN_SLOTS] SEC(".bss.branches") __hidden;

/* Indices of `branches` with a meaning of their own */
#define SLOT_ROOT 0
/* tasks of throttled domains on their way to user mode (tree/limit.bpf.h 3); never a cgroup's */
#define SLOT_PASSING (DOMAIN_SLOTS - 1)
#define SLOT_NONE DOMAIN_SLOTS /* no domain: beyond the array */

/* 0: the root is the only domain, and every path skips the tree. Once 1 it stays so. */
u32 tree_on;
u32 tree_legacy;     /* tasks may be in DSQ_FAIR, from the time before tree_on */
u32 tree_ordered;    /* a policy with an order of its own was set once (MTR-LS, WRR) */
u32 tree_released;   /* a throttling has ended, and no idle CPU was woken for it yet */
u32 leaf_epochs;     /* orders of own tasks so far */
u32 nr_domain_slots; /* highest slot ever used + 1, without SLOT_PASSING */

/*
 * Changed at each wake-up, so not on the cache line of the flags above: the tasks in all domains'
 * queues, and how often a domain has come to have waiting tasks.
 */
u32 tree_waiting SEC(".bss.waiting") __hidden;
u32 tree_entries SEC(".bss.waiting") __hidden;

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

/* Are @b's own tasks members, with an order of this file? */
static __always_inline bool leaf_has_members(const struct branch *b)
{
	return b->policy == DOMAIN_SFQ || b->policy == DOMAIN_MTR || b->policy == DOMAIN_WRR;
}

/* Are they ordered by policy/fair.h? */
static __always_inline bool leaf_is_fair(const struct branch *b)
{
	return !leaf_has_members(b) && b->policy != DOMAIN_FIFO;
}

/* Returns the virtual time with which a new task begins in @b's queue. */
static __always_inline u64 branch_start(struct branch *b)
{
	return b->policy == DOMAIN_FIFO ? fifo_arrive(&b->own_fifo, b->fair.now)
					: fair_start(&b->fair);
}

/* --- what a member is due ------------------------------------------------------------------- */

/* The weight of member @i of @b by cpu.weight; own tasks beside child domains weigh by number. */
static __always_inline u32 own_weight(const struct branch *b, u32 i)
{
	s32 waiting = b->waiting;
	u32 n = waiting > 0 ? waiting + 1 : 1;

	if (!(i & 1) || !b->children)
		return member(i)->weight;
	return (n < MAX_OWN ? n : MAX_OWN) * WEIGHT_OWN;
}

/* What is reserved for domain @b itself, ppm of the machine; 0: it is the root. */
static __always_inline u32 branch_ppm(const struct branch *b)
{
	return b->depth ? member(MEMBER_OF(b->slot))->reserved_ppm : 0;
}

/*
 * The sum of weights among which member @i of @b shares what is not reserved: those of the members
 * in the heap, and its own. (A member that runs while none of its tasks waits is not counted. So on
 * several CPUs a member with a reservation gets a little less of the rest than this says, but never
 * less than is reserved.)
 */
static __always_inline u64 awake_sum(const struct branch *b, u32 i)
{
	return b->awake_sum + (in_heap(i) ? 0 : own_weight(b, i));
}

/* The weight of member @i of @b under SFQ, with what is reserved there (policy/share.h). */
static __noinline u32 member_weight(const struct branch *b, u32 i)
{
	return share_weight(member(i)->reserved_ppm, b->reserved_sum, branch_ppm(b),
			    own_weight(b, i), awake_sum(b, i));
}

/*
 * The share of member @i of @b under MTR-LS and WRR: among all members, awake or not. A share that
 * grew whenever another member slept would break MTR-LS's bounds (mtr.h 5): beside 20 members that
 * slept for 5 ms now and then, one member waited for 250 ms.
 */
static __noinline u32 member_ppm(const struct branch *b, u32 i)
{
	return share_ppm(member(i)->reserved_ppm, b->reserved_sum, branch_ppm(b), own_weight(b, i),
			 b->weight_sum);
}

/* --- the policies, side by side; called with tree_lock held --------------------------------- */

/* The key of member @i in @b's heap: the least is next. */
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

/* How a member comes to have a task waiting */
enum coming {
	GOES_ON = 0,    /* it ran, or could have: it keeps its place */
	WAKES_UP = 1,   /* it slept: no task of it waited or ran */
	IS_PUT_BACK = 2 /* it has waited all along: a claim on it found no task (tree.bpf.h 5) */
};

static __always_inline u64 goes_on_ns(void)
{
	return GOES_ON_NS * ((nr_cpus + 1) / 2);
}

/*
 * The virtual time of @b by which a member that goes on is placed (policy/sfq.h 5). With one CPU no
 * member is taken out of turn.
 */
static __always_inline u64 goes_on_from(const struct branch *b)
{
	return nr_cpus == 1 ? b->sfq.now : b->sfq.before;
}

/* Member @i of @b has a task waiting again: places it. */
static __noinline void member_wake(struct branch *b, u32 i, enum coming how)
{
	TAKES_STACK(40);
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
		if (m->released || how == GOES_ON)
			sfq_go_on(&m->sfq, m->released ? b->sfq.now : goes_on_from(b),
				  m->released ? FAIR_SLICE_NS : goes_on_ns(), member_weight(b, i));
		else if (how == WAKES_UP)
			sfq_wake(&m->sfq, &b->sfq);
		/* IS_PUT_BACK: choices in between are not to cost it its place */
	}
}

/* Member @i of @b ran for @ns. */
static __noinline void member_charge(struct branch *b, u32 i, u64 ns)
{
	TAKES_STACK(40);
	struct member *m = member(i);

	switch (b->policy) {
	case DOMAIN_MTR:
		if (!m->mtr.token)
			break;
		/* its share changes with its siblings' */
		mtr_resize(&m->mtr, nr_cpus * member_ppm(b, i));
		mtr_charge(&m->mtr, &b->mtr, ns);
		break;
	case DOMAIN_WRR:
		wrr_charge(&m->wrr, &b->wrr, ns, wrr_quantum(member_ppm(b, i)));
		break;
	default:
		sfq_charge(&m->sfq, ns, member_weight(b, i));
	}
}

#endif /* APLOMB_TREE_NODE_BPF_H */
