/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/state.bpf.h - what several folders share: settings, dispatch queues, the state of a CPU and
 * of a task.
 *
 * Locks. A cpu_ctx is protected by its CPU's run-queue lock, a task_ctx by the lock of the run
 * queue that the task is on; fields with another lock name it. A server, a bank and the tree have
 * locks of their own (reserved/server.bpf.h, reserved/reclaim.bpf.h, tree/tree.bpf.h). A run-queue
 * lock is always taken first. Of the others only one is held at a time: the verifier refuses a
 * second. While one is held, the verifier allows no call of a kernel function, except for the loops
 * of bpf_for.
 */
#ifndef APLOMB_STATE_BPF_H
#define APLOMB_STATE_BPF_H

#include "kernel/enums.bpf.h"
#include "kernel/kfuncs.bpf.h"
#include "state/machine.bpf.h"
#include "intf.h"
#include "policy/background.h"
#include "policy/capacity.h"
#include "policy/edf.h"
#include "policy/fair.h"
#include "policy/fifo.h"
#include "policy/lift.h"
#include "policy/load.h"
#include "policy/mtr.h"
#include "policy/park.h"
#include "policy/sfq.h"
#include "policy/wrr.h"

/* --- settings: written by the daemon before the load ----------------------------------------- */

/*
 * Thresholds of a CPU's load (policy/load.h). A higher r_hi admits more applications, a lower one
 * leaves more room for their bursts. r_max - r_hi is the burst that is tolerated. 1 - r_max is what
 * best-effort work keeps of each CPU. r_lo is far enough below r_hi that a reactivated task does
 * not cause the overload for which it was revoked.
 */
SETTING u64 r_lo_ppm = 600000;
SETTING u64 r_hi_ppm = 800000;
SETTING u64 r_max_ppm = 900000;
/* Redline section 3: CPU time that a forked child has, on its parent's budget, to exec. */
SETTING u64 fork_window_ns = NSEC_PER_MSEC;

/*
 * The policy of a server whose spec does not name one (policy/edf.h 5). Trade: with fcbs, heavy
 * frames use what light ones left; the cost is two additions under a lock at each sleep.
 */
SETTING u32 server_policy = POLICY_FCBS;

/*
 * Time between two ticks of a CPU, ns. If it is set too short, budgets end late. If it is set too
 * long, timers are started for jobs that need none.
 */
SETTING u64 tick_ns = 10 * NSEC_PER_MSEC;

/* --- dispatch queues ------------------------------------------------------------------------- */

/*
 * Lanes of one CPU: queues of pinned tasks (tree/place.bpf.h), one for each domain that has such
 * tasks waiting there. Those of more domains wait in lane 0, the root's. More lanes would cost
 * time: a choice looks at all that have been in use.
 */
#define MAX_LANES 32

#define DSQ_FAIR 1ULL                     /* the machine's: by virtual time */
#define DSQ_RESCUE 2ULL                   /* those that have waited too long (tree/rescue.bpf.h) */
#define DSQ_EDF(cpu) (0x10000ULL + (cpu)) /* reserved tasks of one CPU: by deadline */
#define DSQ_PINNED(cpu, lane)                                                                      \
	(0x20000ULL + (cpu) * MAX_LANES + (lane)) /* tasks that may run on this CPU only */
#define DSQ_THROTTLED(cpu)                                                                         \
	(0x30000ULL + (cpu)) /* cbs-hard without budget: by start of the next period */
#define DSQ_DOMAIN(slot) (0x40000ULL + (slot)) /* own tasks of one domain */

/* --- a task ---------------------------------------------------------------------------------- */

/* By what right a task runs or is queued: task_ctx.by_right and cpu_ctx.by_right */
enum right {
	RIGHT_NONE = 0,
	RIGHT_OWN = 1,  /* on its server's budget */
	RIGHT_DRAWN = 2 /* on slack: what other servers left of theirs (policy/fcbs.h) */
};

/* task_ctx.gate_state: where the task is on its way to a disk (disk/gate.bpf.h) */
enum gate_state {
	GATE_NONE = 0,
	GATE_WAITS = 1,    /* for a request */
	GATE_PARKED = 2,   /* it is at the gate, or on its way there */
	GATE_RELEASED = 3, /* it waits for a CPU, to send its next request */
};

struct task_ctx {
	/* reserved/ and task/ */
	u32 slot;        /* of its server, 0: none */
	u32 generation;  /* of that slot when the task joined */
	u64 window_ns;   /* > 0: a forked child in its exec window, ns left; slot is its parent's */
	u64 fair_vtime;  /* while by_deadline: its virtual time */
	u32 by_right;    /* enum right: queued as a reserved task */
	u32 by_deadline; /* dsq_vtime is its deadline (state/right.bpf.h) */
	u32 launched;    /* an interactive task started it (flag P) */
	u32 awake;       /* counted in its server's `awake` */
	u32 minor;       /* it draws on no server: reserved/server.bpf.h 5 */
	u32 exec_id;     /* of the exec that was matched last (self_exec_id) */
	u32 starts;      /* a spec matched at this exec: memory/start.bpf.h */
	/* memory/ */
	u32 bumped;     /* pages taken since its last park by PARK_MEMORY (policy/bump.h) */
	u64 swap_since; /* its page fault for a page in swap began then; 0: it has none */
	/* disk/gate.bpf.h: of the task's last request, and of the gate where it waits */
	u32 gate, gate_at;
	u32 gate_state;
	/* tree/ */
	u32 domain;  /* slot of the domain it belongs to; 0: the root */
	u32 queued;  /* in which domain's queue it waits (tree/queue.bpf.h); 0: in none */
	u16 woke;    /* it came there by a wake-up (tree/cache.bpf.h) */
	u16 stay;    /* number of its last stay in a queue: another one after each enqueue */
	u32 refused; /* told that its domain has no time: turns since then, and 1 (claim_late()) */
	u32 weight;  /* of fair_weight(), when it was enqueued last */
	u32 session; /* it competes in (tree/session.bpf.h) */
	u32 crowd, crowd_weight; /* the place of that crowd, and what it counts there; 0: not */
	u32 lane;                /* in which it waited last, if it is pinned */
	u32 clock; /* its virtual time is of a lane of this CPU - 1; 0: of its domain (clock.bpf.h) */
	struct {
		u64 vtime;
		u32 clock, lane; /* clock 0: no CPU moves it */
	} change;                /* a move that is under way (tree/change.bpf.h) */
	struct lift lift;        /* of a kernel thread (tree/place.bpf.h) */
	u64 charged_to;          /* its total CPU time when it went to sleep: see tail() */
	/* park/ */
	struct park park; /* timed reasons that keep it off the CPU (park/park.bpf.h) */
	u64 held_since;   /* the time from then on is not charged to them yet */
	u64 held_vtime;   /* while held: its virtual time; dsq_vtime is the end of its park then */
	u32 held;         /* it waits in the holding queue of this CPU - 1; 0: in none */
	u32 landing;      /* enum landing_state (park/landing.bpf.h) */
	u64 landing_id;   /* of its task work, in `landings`; 0: it was not asked to land so far */
	u64 throttled_since; /* parked by cpu.max since then; 0: it is not */
	u64 recalled_ns;     /* when it was recalled last (tree/recall.bpf.h) */
	/* as a member of its domain's own tasks (tree/leaf.bpf.h), under tree_lock: */
	u32 leaf_slot;  /* of domain */
	u32 leaf_epoch; /* whose branch.leaf_epoch it joined in */
	u32 own_weight; /* counted in its own_sum; 0: it sleeps */
	union {
		struct sfq_member sfq;
		struct mtr_member mtr;
		struct wrr_member wrr;
	} leaf;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

/* --- a CPU ----------------------------------------------------------------------------------- */

/* Tasks of restricted affinity of one domain that wait for one CPU; under its run-queue lock */
struct lane {
	struct fair_queue fair;
	struct fair_pair pair; /* between it and its domain's queue (policy/fair.h) */
	u32 domain; /* whose tasks wait in it; lane 0: the root's, and those that found no lane */
	u32 turns;  /* since tree/rescue.bpf.h looked */
};

/* What the tree chose for a CPU, with the time that it claimed for it (tree/dispatch.bpf.h) */
struct pick {
	u32 leaf;    /* the domain whose task it is; SLOT_NONE: none */
	u64 granted; /* by its cpu.max, ns; 0: it has none */
	u64 turn_ns; /* the turn ends after this, ns; 0: with the slice */
};

/* What a domain owes for the last turn of its task on a CPU (tree/owed.bpf.h) */
struct owed {
	u64 ns;
	u64 cgid;     /* of the domain's cgroup */
	u32 slot;     /* the domain; SLOT_NONE: nothing is owed */
	u32 comes;    /* how it is to be placed before, as tree_cpu.alone; 0: it is */
	u32 sleeps;   /* the task went to sleep */
	u32 unwanted; /* no task waits in the CPU's lanes */
};

/* The tree's part of a CPU */
struct tree_cpu {
	/* of the task that runs */
	u32 leaf;     /* its domain; SLOT_NONE: no task of ours runs */
	u32 limited;  /* the CPU's timer ends it: by cpu.max, its turn, or as rescued */
	u64 granted;  /* what cpu.max granted it, ns */
	u64 leaf_key; /* its key, in a domain under MTR-LS (tree/leaf.bpf.h) */
	u32 passing;  /* it waited in the queue of SLOT_PASSING */
	u32 alone;    /* it is not charged while no task waits (tree/alone.bpf.h); 0: it is */
	u32 entries;  /* tree_entries when it began to run */
	u64 alone_ns; /* what it ran alone and is not charged for */
	u32 rescued;  /* it was rescued (tree/rescue.bpf.h): no wake-up preempts it */
	/* of the last task that the fair layer chose */
	u64 vtime;     /* its virtual time when it began to run, or was charged last */
	u64 came;      /* when it got the CPU: scx_bpf_now() */
	u64 began;     /* the same, or when it was chosen to go on */
	u32 wanted;    /* one that woke up would have preempted it, but it was guarded */
	u64 turn_left; /* that one is rested, and waits for so long at most, ns; 0: to the tick */
	u32 weight;    /* its weight then */
	u32 pinned;    /* it may not run everywhere: those have a virtual time of their own */
	u32 straight;  /* tasks that woke up, went straight to its local queue, and wait there */
	u64 straight_vtime; /* the virtual time of the last of them */
	u32 turn_pid; /* the thread that began to run last, if it woke up and went there; else 0 */
	struct owed owed;
	struct pick next; /* for the task that dispatch has sent; ops.running takes it */
	u32 from_lane;    /* the domain of a pinned task that it has sent; SLOT_NONE: none */
	struct lane lanes[MAX_LANES];
	u32 nr_lanes; /* that have been in use; lane 0 always */
	u32 vain;     /* choices in a row whose claims found no task (look_again()) */
	u32 waited;   /* ticks in a row that found a task waiting (rescue_look()) */
	u32 unwanted; /* no task waits for it: seen since the last tick (nobody_waits()) */
	/*
	 * Scratch of one dispatch: the domain of the first task in each lane, or SLOT_NONE. Here,
	 * since 128 bytes are too much for the stack that dispatch shares with all that it calls.
	 */
	u32 heads[MAX_LANES];
};

/*
 * What ops.dispatch decided about the task that it sent, for ops.running of that task. ops.stopping
 * of the task before comes in between, so a field of the running task cannot carry it. ops.running
 * takes and clears it. If the task never came to run, the next ops.dispatch clears in_turn; the
 * rest stays for the next task that begins to run.
 */
struct handover {
	u32 in_turn; /* best-effort work in its turn before reserved tasks (layers/turn.bpf.h) */
	u32 best_effort; /* a best-effort task: dispatch has seen that no reserved task waits */
	u32 rescued;     /* from DSQ_RESCUE */
};

/* The reserved layer's part of a CPU */
struct reserved_cpu {
	u64 deadline;    /* of the reserved task that runs or was sent to run; TIME_NEVER: none */
	u32 slot;        /* server of the running task, 0: none */
	u32 generation;  /* of that slot */
	s32 stopped_pid; /* thread that stopped here and is to be enqueued again, 0: none */
	u32 yielded;     /* the last task here was told to yield to an earlier deadline */
	u64 ran_ns;      /* run by right since the governor's last sample; changed atomically */
	struct background background; /* what best-effort work is due here */
	struct load load;             /* under governor_lock */
	u32 promised_ppm;             /* bandwidth guaranteed here; under governor_lock */
};

/* Execs on a CPU that the tracing program missed (task/exec.bpf.h) */
struct exec_cpu {
	s32 seen;     /* thread whose exec on_exec has just looked at here */
	u32 busy;     /* the thread that runs is in on_exec: no wake-up preempts it */
	u32 left_out; /* a thread is in `left_out` whose exec it has not looked at */
};

struct cpu_ctx {
	/* of the task that runs */
	u64 exec_start; /* its total CPU time when it began to run */
	u32 by_right;   /* enum right */
	u32 in_turn;    /* best-effort work in its turn before reserved tasks */
	/* of the CPU */
	u64 timer_due; /* when to choose again (state/timer.bpf.h); TIME_NEVER: no such time */
	u32 timer_set; /* for timer_due, and not left to a tick */
	u32 online;
	s32 leaves_pid; /* its task that leaves it for `leaves_to` (layers/kinds.bpf.h); 0: none */
	s32 leaves_to;
	s32 asked; /* the thread that this CPU, which was idle, is to help (state/idle.bpf.h); or 0 */
	struct handover next;
	struct reserved_cpu reserved;
	struct exec_cpu exec;
	struct tree_cpu tree;
} __attribute__((aligned(64)));

struct cpu_ctx cpus[MAX_CPUS];

/* Of the governor's books: each CPU's load, promised_ppm and roster, and all accounts of owners */
struct bpf_spin_lock governor_lock SEC(".data.governor") __hidden __attribute__((aligned(8)));

struct fair_queue fair_all; /* the machine's queue */

/*
 * 0: no task is interactive, and every path skips the reserved layer. Set with the first server;
 * cleared once the last has gone and no task is left in an EDF queue (layers/second.bpf.h).
 */
u32 reserved_on;

struct timer_slot {
	struct bpf_timer timer;
};

static __always_inline struct cpu_ctx *cpu_ctx(u32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}

/*
 * Each CPU's capacity (policy/capacity.h), 1 to CAPACITY_FULL, and whether they differ. If they do
 * not, the verifier drops all conversions of time and work.
 */
SETTING u16 cpu_capacities[MAX_CPUS];
SETTING u32 cpus_differ;

/* The last-level cache of each CPU, and whether there are several. */
SETTING u16 cpu_caches[MAX_CPUS];
SETTING u32 caches_differ;

/*
 * The next CPU of the same core, round and round; whether any core has several (SMT). If none has,
 * the verifier drops the walks.
 */
SETTING u16 next_thread[MAX_CPUS];
SETTING u32 cores_shared;

/* The capacity of @cpu. */
static __always_inline u32 capacity_of(u32 cpu)
{
	u32 capacity = cpus_differ ? cpu_capacities[cpu & (MAX_CPUS - 1)] : CAPACITY_FULL;

	return capacity ? capacity : CAPACITY_FULL;
}

/* The work that @cpu does in @time ns. Both may be ppm as well, of @cpu and of the fastest one. */
static __always_inline u64 work_on(u32 cpu, u64 time)
{
	return cpus_differ ? capacity_work(time, capacity_of(cpu)) : time;
}

/* The time that @cpu takes for @work ns, or ppm. */
static __always_inline u64 time_on(u32 cpu, u64 work)
{
	return cpus_differ ? capacity_time(work, capacity_of(cpu)) : work;
}

static __always_inline struct task_ctx *task_ctx(struct task_struct *p)
{
	/* nearly every task has no context: one load says so, and saves the call */
	return p->bpf_storage ? bpf_task_storage_get(&tasks, p, 0, 0) : NULL;
}

/*
 * The task's context if any task has a server at all: the plain case pays one load and one branch.
 */
static __always_inline struct task_ctx *task_ctx_if_any(struct task_struct *p)
{
	return reserved_on ? task_ctx(p) : NULL;
}

#endif /* APLOMB_STATE_BPF_H */
