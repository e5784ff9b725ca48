/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/state.bpf.h - what the scheduler remembers: settings, CPUs, tasks, servers; counters and events.
 *
 * Who owns what. A cpu_ctx belongs to its CPU's run-queue lock, a task_ctx to the lock of the run
 * queue its task is on, a server to its own spin lock, a bank to its own, and rosters and loads to the
 * governor's. A run queue's lock comes before any of them, and of them one at a time is held: the verifier
 * sees to that. Nothing is called while one is held but the verifier's loops (bpf_for).
 */
#ifndef APLOMB_STATE_BPF_H
#define APLOMB_STATE_BPF_H

#include "kernel/kernel.bpf.h"
#include "intf.h"
#include "policy/fair.h"
#include "policy/background.h"
#include "policy/fifo.h"
#include "policy/mtr.h"
#include "policy/sfq.h"
#include "policy/wrr.h"

/*
 * Settings, written by user space before the load. Trade: a higher r_hi lets more applications in, a
 * lower one leaves more room for their bursts; r_max - r_hi is how much of a burst is tolerated, and
 * 1 - r_max is what best-effort work keeps of each CPU; r_lo well below r_hi keeps a task from
 * being reactivated into the overload that revoked it.
 */
SETTING u64 r_lo_ppm = 600000;
SETTING u64 r_hi_ppm = 800000;
SETTING u64 r_max_ppm = 900000;
/* Redline section 3: CPU time a forked child has, on its parent's budget, to exec. */
SETTING u64 fork_window_ns = NSEC_PER_MSEC;

/*
 * What becomes of a task that has used up its budget, unless its spec says otherwise (policy/edf.h 5).
 * Trade: fcbs lets heavy frames use what light ones left, for two locked additions at each sleep.
 */
SETTING u32 server_policy = POLICY_FCBS;

/* Between two ticks of a CPU, ns. Too little: budgets end late; too much: timers for jobs that need none. */
SETTING u64 tick_ns = 10 * NSEC_PER_MSEC;

/*
 * Queues of one CPU for tasks that may not run everywhere (tree/place.bpf.h): one for each domain that has such tasks waiting
 * there. Those of more domains than this wait in the first one, the root's. More would cost time: a choice looks at all
 * that have been in use.
 */
#define LANES 32

/* Dispatch queues */
#define DSQ_FAIR 1ULL                     /* the machine's: by virtual time */
#define DSQ_RESCUE 2ULL                   /* those that have waited too long (tree/rescue.bpf.h) */
#define DSQ_EDF(cpu) (0x10000ULL + (cpu)) /* reserved tasks of one CPU: by deadline */
#define DSQ_PINNED(cpu, lane)                                                                      \
	(0x20000ULL + (cpu) * LANES + (lane)) /* tasks that may run on this CPU only */
#define DSQ_THROTTLED(cpu)                                                                         \
	(0x30000ULL + (cpu)) /* cbs-hard without budget: by start of the next period */

/* Threads of one server that wait in a fair queue and are moved when its next period starts. One more
 * waits there until its own next wake-up. */
#define WAITERS 8

struct server {
	struct server_info info; /* first: this is what user space reads */
	struct bpf_spin_lock lock;
	s32 waiter[WAITERS];  /* thread ids, 0: none */
	u64 exhausted_second; /* in which its budget was last used up; told once a second */
	u64 missed_second;    /* likewise for a missed deadline */
	u32 exhausted_now;    /* times in that second */
	u32 awake;            /* threads that run or wait: 0 completes a job */
	struct edf_server
		before; /* of the server that its program had until its exec; period 0: none */
	struct fcbs_loan loan; /* under the lock of bank `loan_cpu` */
	u32 loan_cpu;
	u32 pad;
	struct bpf_timer
		timer; /* at the start of the next period or window, while a thread waits for it */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SERVERS);
	__type(key, u32);
	__type(value, struct server);
} servers SEC(".maps");

/*
 * Slots of `servers` that are free; slot 0 means "none" and is never in it. Last in, first out, so that
 * the table stays dense and whoever looks through it looks at no more than were ever in use at once.
 */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_SERVERS);
	__type(value, u32);
} free_slots SEC(".maps");

/* Overrunning servers that a CPU remembers; of two with the same rest the later one counts. */
#define OVERRUNNERS 8

/* Execs that wait for a look, which begins at once: one for each CPU is usual. One more than this stays unmatched. */
#define MAX_LEFT_OUT 1024

/* What is left over on a CPU (policy/fcbs.h), and who could use it. */
struct cpu_bank {
	struct bpf_spin_lock lock;
	u32 wanted; /* somebody may be in `overrunner` */
	struct fcbs_bank bank;
	u32 overrunner[OVERRUNNERS]; /* slots, 0: none */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct cpu_bank);
} banks SEC(".maps");

/* In task_ctx.by_right and cpu_ctx.by_right */
enum right {
	RIGHT_NONE = 0,
	RIGHT_OWN = 1,  /* on its server's budget */
	RIGHT_DRAWN = 2 /* on what others left */
};

struct task_ctx {
	u32 slot;       /* server, 0: none */
	u32 generation; /* of that slot when the task joined */
	u64 window_ns;  /* > 0: a forked child that may still exec; slot is its parent's */
	u64 fair_vtime; /* while by_right: dsq_vtime holds the deadline then */
	u32 by_right;   /* enum right: queued, or running, as a reserved task */
	u32 launched;   /* an interactive task started it (flag P) */
	u32 awake;      /* counted in its server's `awake` */
	u32 exec_id;    /* of the exec that was matched last (self_exec_id) */
	u32 domain;     /* slot of the domain it belongs to; 0: the root */
	u32 queued;     /* it waits in the queue of this domain - 1; 0: in none. See unqueue() */
	u32 parked;     /* enum parked (tree/limit.bpf.h) */
	u32 refused;    /* told to make way, as its cpu.max was used up; not asked about since */
	u32 weight;     /* by its nice value, when it was queued last */
	u32 lane;       /* in which it waited last, if it may not run everywhere */
	u64 charged_to; /* its total CPU time when it went to sleep: see tail() */
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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SPECS);
	__type(key, struct match_key);
	__type(value, struct spec);
} matchers SEC(".maps");

struct timer_slot {
	struct bpf_timer timer;
};

/* The governor's books: every cpu_ctx.load. */
struct bpf_spin_lock governor_lock SEC(".data.governor") __hidden __attribute__((aligned(8)));

/* Ends a budget, or the best-effort turn, on one CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct timer_slot);
} cpu_timers SEC(".maps");

/* The governor's second; armed only while there are servers. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} governor_timer SEC(".maps");

/* Threads whose exec on_exec was left out for, and the timer that looks at them (task/match.bpf.h). */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_LEFT_OUT);
	__type(value, s32);
} left_out SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} exec_timer SEC(".maps");

/* Once a second while tasks wait in the fair layer's queues (tree/rescue.bpf.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} rescue_timer SEC(".maps");

/* Goes off when a domain is throttled in which tasks wait (park/passing.bpf.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} pass_timer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENT_BYTES);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NR_EVENTS);
	__type(key, u32);
	__type(value, u64);
} stats SEC(".maps");

struct lane {
	u64 now;               /* virtual time of its queue */
	struct fair_pair pair; /* between it and its domain's queue (policy/fair.h) */
	u32 domain; /* whose tasks wait in it; the first one: the root's, and those that have none */
	u32 turns;  /* since tree/rescue.bpf.h looked */
};

/* Choices of one dispatch that find nothing: between an enqueue's count and its task, or past a throttled domain. */
#define TREE_TRIES 8

struct cpu_ctx {
	u64 deadline;   /* of the reserved task that runs or was sent to run; TIME_NEVER: none */
	u64 timer_due;  /* when to choose again (state/timer.bpf.h); TIME_NEVER: no such time */
	u64 exec_start; /* the running task's total CPU time when it began to run */
	u64 fair_vtime; /* virtual time of the last task that the fair layer chose, when it began to run */
	u32 fair_pinned; /* was it one that may not run everywhere? Those have a virtual time of their own */
	u64 reserved_ns; /* run by right since the governor's last look */
	struct load load;
	struct background background;
	struct lane lanes[LANES];
	u32 nr_lanes;     /* that have been in use; the first one always */
	u32 heads[LANES]; /* in a choice: the domain of the first task in each, or NO_LEAF */
	u32 has_heads;    /* of any */
	u32 slot;         /* server of the running task, 0: none */
	u32 generation;   /* of that slot */
	u32 by_right;     /* enum right: it runs by right of that server */
	s32 putting;      /* thread id that just stopped here and is about to be enqueued again */
	s32 exec_seen;    /* thread whose exec on_exec has just looked at here */
	u32 leaf;         /* domain of the running task */
	u32 limited;      /* the CPU's timer ends it: by cpu.max, its turn, or as rescued */
	u64 granted;      /* what cpu.max granted it, ns */
	u64 leaf_key;     /* of the running task, in a domain under MTR-LS (tree/leaf.bpf.h) */
	u32 passing;      /* it waited in PASSING's queue */
	u32 rescued;      /* dispatch has just sent one from DSQ_RESCUE */
	u32 next_leaf;    /* for what dispatch has just sent: the same */
	u64 next_granted;
	u64 claimed;            /* by the last choice of the tree */
	u64 turn_ns;            /* which ends after so long, ns; 0: with the slice */
	u32 to_wake;            /* idle CPUs, in wake_idle() */
	u32 failed[TREE_TRIES]; /* domains in which a dispatch has found nothing */
	u32 nr_failed;
	u32 left_out; /* it was left out for another's (task/match.bpf.h) */
	u32 chosen;   /* dispatch has just sent a best-effort task: nothing reserved was waiting */
	u32 yielded;  /* the last task here was told to yield to an earlier deadline */
	u32 turn; /* dispatch has just sent best-effort work although reserved tasks wait (background.h) */
	u32 in_turn; /* what runs was sent so; not the same: dispatch comes before stopping of the task before */
	u32 timer_set; /* for timer_due, and not left to a tick */
	u32 online;
	u32 guaranteed_ppm; /* bandwidth promised here; the governor's */
} __attribute__((aligned(64)));

struct cpu_ctx cpus[MAX_CPUS];
/* What each CPU has promised (policy/wmr.h); the governor's. */
struct wmr_roster rosters[MAX_CPUS];
u32 promises; /* changes with each change of a roster */

u32 nr_cpus;    /* possible CPUs */
u32 nr_online;  /* of them */
u32 nr_slots;   /* highest slot ever used + 1: user space reads servers[1 .. nr_slots - 1] */
u32 nr_servers; /* slots in use */
/*
 * 0: nobody is interactive, and every path skips the reserved layer. Set with the first server;
 * cleared by the governor once the last has gone and no task is left in an EDF queue.
 */
u32 reserved_on;
u32 nr_matchers[NR_MATCH_KINDS]; /* written by user space */
u32 sample_no; /* of the governor's second that runs: numbers the seconds of struct usage */
u64 fair_now;  /* virtual time of the machine's queue */
struct exit_info exit_info;

/* So that the skeleton knows these types */
const volatile struct event event_layout;
const volatile struct server_info server_info_layout;
const volatile struct match_key match_key_layout;
const volatile struct reserve_args reserve_args_layout;

static __always_inline struct cpu_ctx *cpu_ctx(u32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}

static __always_inline struct task_ctx *task_ctx(struct task_struct *p)
{
	/* one load tells for nearly every task that it has none, and saves the call */
	return p->bpf_storage ? bpf_task_storage_get(&tasks, p, 0, 0) : NULL;
}

static __always_inline struct wmr_roster *roster(u32 cpu)
{
	return &rosters[cpu & (MAX_CPUS - 1)];
}

/* The task's context if any task has a server at all: the plain case pays one load and one branch. */
static __always_inline struct task_ctx *task_ctx_if_any(struct task_struct *p)
{
	return reserved_on ? task_ctx(p) : NULL;
}

static __always_inline struct server *server_at(u32 slot)
{
	return slot ? bpf_map_lookup_elem(&servers, &slot) : NULL;
}

/* Address of the kernel's __cpu_active_mask; 0: unknown. See find_symbols. */
static u64 active_mask;

/*
 * Will the kernel still let @cpu take tasks? A CPU that leaves is inactive first; then the kernel waits for all
 * RCU readers (sched_cpu_deactivate), and calls ops.cpu_offline only after that. Meanwhile the CPU takes no
 * task from elsewhere (scx_rq_online). A reader that waited for this CPU alone would never run, and the
 * kernel would wait for it until it ends the scheduler.
 */
static __always_inline bool cpu_active(u32 cpu)
{
	u64 word;

	if (!active_mask ||
	    bpf_probe_read_kernel(&word, sizeof(word), (void *)(active_mask + cpu / 64 * 8)))
		return true;
	return word >> (cpu % 64) & 1;
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

/* Has its program a server, or the program that forked it, while it is in its first 1 ms? */
static __always_inline bool is_interactive(const struct task_ctx *t)
{
	struct server *s = server_of(t);

	return s && !is_domains(s);
}

/*
 * How often the kernel has disabled migration of the current task for the callback itself (__bpf_prog_enter): once, on
 * all kernels before 6.18; since then with preemptible RCU only. A current task that shows 0 proves that it does not.
 */
u32 disabled_by_callback = 1; /* not static: clang makes a bool of it, and its BTF says u32 */

/* In ops.enable, which comes before all others. */
static __always_inline void look_at_callback(void)
{
	if (!bpf_get_current_task_btf()->migration_disabled)
		disabled_by_callback = 0;
}

/* Does @p have to stay on its CPU for a moment (migrate_disable), whatever its affinity? */
static __always_inline bool stays(struct task_struct *p)
{
	u32 own = p == bpf_get_current_task_btf() ? disabled_by_callback : 0;

	return p->migration_disabled > own;
}

static __always_inline void count(u32 type)
{
	u64 *n = bpf_map_lookup_elem(&stats, &type);

	if (n)
		*n += 1;
}

#endif /* APLOMB_STATE_BPF_H */
