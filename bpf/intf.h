/* SPDX-License-Identifier: GPL-2.0 */
/*
 * intf.h - what the kernel side and user space share: map keys and values, events, limits.
 *
 * Plain C with fixed-width types. bpf/main.bpf.c includes it for the kernel, crates/kernel turns
 * the same structs into Rust through the BPF skeleton, so there is no second copy of a layout.
 * Every duration is in nanoseconds, every bandwidth in parts per million (ppm) of one CPU.
 */
#ifndef APLOMB_INTF_H
#define APLOMB_INTF_H

#include "policy/types.h"
#include "policy/load.h"
#include "policy/park.h"
#include "policy/server.h"

enum limits {
	MAX_CPUS = 1024,    /* possible CPUs; attach is refused above */
	MAX_SPECS = 8192,   /* matchers; user space refuses the spec that does not fit */
	MAX_SERVERS = 4096, /* interactive tasks at a time; one more stays best-effort (EV_LIMIT) */
	MAX_OWNED = 1024,   /* servers of one user, root excepted; one more stays best-effort */
	MAX_SEATS = 16,     /* whose users may have more than others */
	COMM_LEN = 16,      /* TASK_COMM_LEN */
	ARGS_SCANNED = 8,   /* arguments after argv[0] that a matcher may name */
	ARG_BYTES = 256,    /* bytes of the argument area that are looked at */
	CGROUP_BYTES = 128, /* bytes of the leaf cgroup's name that are looked at */
	MAX_DOMAINS = 4096, /* beside the root; tasks of one more are its ancestor's (EV_LIMIT) */
	/*
	 * Of these, those of one user, root excepted: a quarter. A session with its containers has
	 * about 100, and three users at their limit still leave a quarter to all others.
	 */
	MAX_OWNED_DOMAINS = MAX_DOMAINS / 4,
	DOMAIN_SLOTS = 8192, /* of the kernel side's tables: a power of two above MAX_DOMAINS + 2 */
	MAX_DISKS = 16,      /* whose requests are ordered; those of one more are not */
	MAX_VOLUMES = 256,   /* disks, and volumes on them */
	MAX_COUNTED_DISKS = 64, /* with device time; requests to one more are not counted */
	MAX_DISK_COUNTS = 8192, /* triples of domain, disk and class; one more is not counted */
	MAX_DEPTH = 16, /* levels below the root; tasks deeper are those of the ancestor there */
	EVENT_BYTES = 1 << 20 /* ring buffer; when full, events are dropped and counted (EV_LOST) */
};

/* The cgroup right below the root that holds memory domains (crates/aplomb, daemon/memory.rs) */
#define MEMORY_CGROUP "aplomb"

/* What a spec says; Redline section 3. The same word in spec.tab, TOML and here. */
enum spec_flags {
	SPEC_INTERACTIVE =
		1 << 0, /* class iact (else best-effort: the spec shields from inheritance) */
	SPEC_INHERIT =
		1 << 1, /* I: a forked child that does not exec a program with a spec keeps it */
	SPEC_REVOCABLE = 1 << 2, /* R: may be revoked when the CPU is overloaded */
	SPEC_PARENT = 1 << 3, /* P: matched only when an interactive task starts it (Redline's rule;
				      keeps a shell's or a tool's spec away from build jobs) */
	SPEC_STICKY = 1 << 4, /* from `aplomb run`: kept over exec of programs without a spec */
	SPEC_GUARANTEED =
		1 << 5, /* G: admitted by what is promised, not by what is used; may be split */
	SPEC_DOMAIN =
		1
		<< 6, /* a domain's, not a program's (layers/domain_server.bpf.h); never in a spec */
	SPEC_BY_ROOT = 1 << 7 /* root asked for it: it is in no user's account; never in a spec */
};

struct spec {
	u64 runtime_ns;  /* C, 100 us .. 10 s, <= period */
	u64 period_ns;   /* T, 1 ms .. 10 s */
	u32 id;          /* user space's number for it; 0 is never used */
	u32 flags;       /* enum spec_flags */
	u32 protect_s;   /* pi, memory protection period in seconds; 0: chosen by aplomb */
	u32 io_priority; /* 0..7, 0xffffffff: chosen by aplomb */
	u32 policy;      /* enum server_policy */
	u32 pad;
};

/*
 * A matcher is one row of a hash map: at exec the kernel asks it in the order of the list (but
 * MATCH_NAMED comes second), the first hit wins. Any program can take a name, so user space makes
 * every spec that is found by MATCH_ARG, MATCH_NAMED, MATCH_APP or MATCH_COMM revocable.
 */
enum match_kind {
	MATCH_ARG = 1, /* a: inode, b: device, c: hash of one argument (or of its last path part) */
	/*
	 * a: inode, b: device (major << 20 | minor) of the executable, c: the inode's generation; 0
	 * where user space cannot read it
	 */
	MATCH_FILE = 2,
	MATCH_APP = 3,     /* a: hash of a part of the cgroup's name (see name_hash), b, c: 0 */
	MATCH_COMM = 4,    /* a, b: the 16 bytes of the command name, little endian, c: 0 */
	MATCH_KTHREAD = 5, /* the same for kernel threads, whole or without its number: see below */
	MATCH_NAMED = 6,   /* a, b: as MATCH_FILE, c: hash of the command name; before MATCH_FILE */
	NR_MATCH_KINDS = 7
};

struct match_key {
	u64 kind; /* enum match_kind */
	u64 a, b, c;
};

/*
 * Hash of a name: FNV-1a, 64 bits. Arguments: the whole argument, and its part after the last '/'.
 * Cgroup names are cut at '-', '@' and at a final ".scope", ".service" or ".slice":
 * "app-flatpak-org.mozilla.firefox-12345.scope" has the parts app, flatpak, org.mozilla.firefox,
 * 12345. Command names: the first 15 bytes. Kernel threads: the whole name, and the name up to the
 * first '/', ':' or digit ("kworker/0:1" is also "kworker", "kswapd0" also "kswapd").
 */
#define NAME_HASH_INIT 0xcbf29ce484222325ULL
#define NAME_HASH_PRIME 0x100000001b3ULL

/* State of one interactive task (a process with its threads) in the table of servers. */
enum server_state {
	SERVER_FREE = 0,
	SERVER_ADMITTED = 1, /* has its reservation on .cpu */
	SERVER_REJECTED = 2, /* admission said no; best-effort, may be reactivated */
	SERVER_REVOKED = 3,  /* had it, lost it to overload; best-effort, may be reactivated */
	SERVER_DEMOTED = 4   /* had it; memory is short; best-effort until the daemon says so */
};

enum event_type {
	EV_ENDED = 0,   /* the kernel ended the scheduler: see exit_info */
	EV_MATCHED = 1, /* a: enum match_kind (0: asked for by aplomb run), b: runtime, c: period */
	EV_INHERITED = 2, /* a: pid of the parent, b: runtime, c: period */
	EV_ADMITTED = 3,  /* a: R_load, b: S_load before, c: B_i; all ppm of .cpu */
	EV_REJECTED = 4,  /* a: max(R_load, S_load) of the best CPU, b: R_hi, c: B_i */
	EV_EXHAUSTED = 5, /* a: times in the last second, b: runtime, c: ns until the next period */
	EV_REVOKED = 6,   /* a: R_load, b: R_max, c: the task's use over the window; ppm */
	EV_REACTIVATED = 7, /* a: R_load, b: R_lo, c: B_i; ppm */
	EV_MISSED = 8,      /* a: ns past the deadline, b: budget left, c: period */
	EV_EXITED = 9,      /* a: ns served in all, b: periods, c: deadlines missed */
	EV_MOVED = 10,      /* a: CPU before, b: CPU now (affinity change) */
	/*
	 * a: enum limits value reached: MAX_SERVERS, MAX_OWNED: the task stays best-effort. With
	 * pid 0: the cgroup b has no domain of its own, but is part of the cgroup c; a:
	 * MAX_DOMAINS, MAX_OWNED_DOMAINS, MAX_DEPTH; 0: the cgroup right above b has none either.
	 * The upper half of a: the user id whose task or cgroup it is
	 */
	EV_LIMIT = 11,
	EV_LOST = 12,       /* counter only: events dropped because the ring buffer was full */
	EV_GUARANTEED = 13, /* a: CPUs it is spread over, b: promised on .cpu before, c: B_i; ppm */
	EV_DOMAIN = 14, /* a domain was changed: a: cgroup id, b: enum domain_change, c: value */
	/*
	 * Tasks of .pid's domain were parked since the last such event, which is at most one a
	 * second for each domain, and none for cpu.max: a: enum park_reason, b: ns in all, c: times
	 */
	EV_PARKED = 15,
	EV_RETURNED = 16, /* a process runs that slept for longer than pi: a: ns that it slept */
	/*
	 * Memory of interactive programs is short: a: what the process's domain needs, b: what all
	 * need whose limit it is, c: that limit; bytes
	 */
	EV_DEMOTED = 17,
	/*
	 * memory has run out: the kernel killed a process: a: bytes that it had, b: enum
	 * memory_class, c: its oom_score_adj (signed). With pid 0: systemd-oomd killed a cgroup:
	 * a: why (0: memory and swap were used up, 1: tasks waited for memory, 2: other), .comm:
	 * the end of the cgroup's name. The daemon makes these.
	 */
	EV_KILLED = 18,
	/*
	 * a task of the first groups waits for a disk: a: enum cello_group_id. For the daemon,
	 * which watches the disks from then on
	 */
	EV_DISK = 19,
	/*
	 * refused or revoked, because all programs of its owner use too much: a: what they use or
	 * will, b: their limit; ppm of one CPU, c: the user id
	 */
	EV_OWNER = 20,
	/*
	 * a thread may not run on .cpu, where its program's reservation is, so it runs as
	 * best-effort work: a: its thread id, b: a CPU where it may run. At most one each second
	 * for a program
	 */
	EV_ELSEWHERE = 21,
	/*
	 * threads of the process waited for pages in swap: a: ns since the last such event, in all,
	 * b: times, c: ns of it while memory was short. At most one each second for a program
	 */
	EV_SWAPPED = 22,
	NR_EVENTS = 23
};

/*
 * Which policy orders the members of a domain: its child domains, and its own threads as one more.
 * DEFAULT is SFQ among domains and FAIR among threads. FAIR and FIFO are for threads; a domain with
 * children that is set to one of them still orders the children by SFQ.
 */
enum domain_policy {
	DOMAIN_DEFAULT = 0,
	DOMAIN_SFQ = 1,  /* policy/sfq.h */
	DOMAIN_MTR = 2,  /* policy/mtr.h */
	DOMAIN_WRR = 3,  /* policy/wrr.h */
	DOMAIN_FAIR = 4, /* policy/fair.h */
	DOMAIN_FIFO = 5,
	NR_DOMAIN_POLICIES = 6
};

enum domain_state {
	DOMAIN_FREE = 0,
	DOMAIN_LIVE = 1,
	DOMAIN_GONE = 2 /* its cgroup has gone, tasks of it have not */
};

/*
 * What user space sees of a domain: the first member of the values of map `domains`. Slot 0 is the
 * root.
 */
struct domain_info {
	u64 cgid;         /* the cgroup's id: the inode number of its directory */
	u64 ran_ns;       /* CPU time of all tasks in it and below, since it came */
	u64 throttled_ns; /* time it had to wait for the next period of cpu.max, in all */
	u64 throttled;    /* times */
	u64 quota_ns;     /* cpu.max, of each period, over all CPUs; 0: no limit */
	u64 period_ns;    /* cpu.max */
	u64 burst_ns;     /* cpu.max.burst */
	u64 runtime_ns;   /* reservation C every T of one CPU; */
	u64 interval_ns;  /* T, 0: none */
	u32 reserved_ppm; /* reservation: fraction of the machine; 0: none */
	u32 disk_ppm;     /* reservation of each disk's time; 0: none */
	u32 share_ppm;    /* of the machine, that it is due while all others want theirs too */
	u32 weight;       /* cpu.weight, 1 to 10,000 */
	u32 idle;         /* cpu.idle */
	u32 policy;       /* enum domain_policy, as set */
	u32 state;        /* enum domain_state */
	u32 slot;         /* its index in `domains` */
	u32 parent;       /* slot */
	u32 depth;        /* 0: the root */
	u32 children;     /* domains right below */
	u32 waiting;      /* its own tasks that wait for a CPU */
	u32 is_throttled; /* has used up cpu.max */
	u64 parked_ns[NR_PARK_REASONS]; /* time that its own tasks were parked, by reason */
	u64 parked[NR_PARK_REASONS];    /* times */
	u64 parks_cut;                  /* requests for more than the bound of a park */
};

/* Bits of domain_args.change */
enum domain_change {
	SET_POLICY = 1,
	SET_FRACTION = 2,    /* reserved_ppm */
	SET_RESERVATION = 4, /* runtime_ns, interval_ns */
	SET_DISK = 8         /* reserved_ppm: of each disk's time */
};

/* Argument and answer of the syscall program `domain_set` */
struct domain_args {
	u64 cgid;
	u64 runtime_ns; /* 0 with interval_ns 0: none */
	u64 interval_ns;
	u32 change;       /* enum domain_change, one of them */
	u32 policy;       /* enum domain_policy */
	u32 reserved_ppm; /* 0: none */
	/*
	 * 0; -ENOENT: no such domain; -EINVAL; -ENOSPC: see below; -E2BIG: no CPU can promise it;
	 * -EMFILE: all MAX_SERVERS are taken; of the disks: all groups of domains (policy/cello.h)
	 */
	s32 result;
	u32 taken_ppm; /* answer: reserved by others beside it */
	u32 limit_ppm; /* answer: the most that may be reserved there */
};

/* What user space sees of the map `memory_counts` */
enum memory_class {
	MEMORY_INTERACTIVE = 0, /* admitted */
	MEMORY_BEST_EFFORT = 1,
	NR_MEMORY_CLASSES = 2
};

enum memory_count {
	MEMORY_ASKED = 0,           /* allocations while memory was below the low watermark */
	MEMORY_PARKED = 1,          /* parks by PARK_MEMORY */
	MEMORY_RECLAIMED = 2,       /* times that a task reclaimed for itself */
	MEMORY_RECLAIMED_LIMIT = 3, /* the same, because of a cgroup's own limit */
	MEMORY_SWAPPED_IN = 4,      /* page faults that read a page from swap and waited for it */
	NR_MEMORY_COUNTS = 5
};

/* What user space sees of a server: the first member of the values of map `servers`. */
struct server_info {
	struct spec spec;
	struct edf_server edf;
	struct wmr_split split; /* guaranteed: on which CPUs, how much of each */
	struct usage usage;     /* of the reservation, last four seconds */
	u64 admitted_ns;        /* CLOCK_MONOTONIC of the last admission */
	u64 served_ns;          /* CPU time taken by right of the reservation, in all */
	u64 periods;            /* periods begun */
	u64 exhausted;          /* times the budget was used up */
	u64 missed;             /* deadlines that passed with work left */
	u64 reclaimed_ns;       /* CPU time taken of what others left (fcbs) */
	u64 migrations;         /* from window to window (split) */
	u32 state;              /* enum server_state */
	u32 generation;         /* of this slot; a task's reference to an older one is void */
	u32 inherited;          /* 1: from the parent, not matched by itself */
	s32 cpu;
	s32 tgid;
	s32 threads;    /* that draw on it */
	u32 guaranteed; /* 1: by the demand bound */
	u32 slot;       /* its index in `servers` */
	char comm[COMM_LEN];
};

enum exit_flags {
	EXIT_RESTART = 1, /* the kernel asks for the scheduler to be loaded again */
	EXIT_HOTPLUG = 2  /* a CPU went off line or came */
};

/* Why the kernel ended the scheduler; filled in by ops.exit (.data `exit_info`). */
struct exit_info {
	s32 kind;      /* enum scx_exit_kind of the kernel; 0: still running */
	u32 flags;     /* enum exit_flags */
	s64 exit_code; /* as the kernel gave it, for messages */
	char reason[128];
	char msg[1024];
};

struct event {
	u64 time_ns; /* CLOCK_MONOTONIC */
	u32 type;    /* enum event_type */
	s32 cpu;
	s32 pid; /* thread group id of the task it is about */
	u32 spec_id;
	u64 a, b, c;
	char comm[COMM_LEN];
};

/*
 * Argument and answer of the syscall program `reserve` (aplomb run, aplomb set): see
 * task/reserve.bpf.h
 */
struct reserve_args {
	s32 pid;          /* thread group id */
	s32 result;       /* 0, or -errno: -ESRCH no such task, -ENOSPC table full, -EINVAL */
	struct spec spec; /* .period_ns == 0: take the reservation away */
	u32 state;        /* answer: enum server_state */
	s32 cpu;          /* answer */
	u64 load_ppm;     /* answer: max(R_load, S_load) of that CPU before */
};

/* Argument and answer of the syscall program `owner_of`: see task/owner.bpf.h */
struct owner_args {
	s32 pid;    /* thread group id */
	s32 result; /* 0, or -ESRCH */
	u32 uid;    /* answer: its real user id */
	u32 owner;  /* answer: the user id to whose account it counts */
};

/* Argument and answer of the syscall program `demote`: see task/demote.bpf.h */
struct demote_args {
	s32 pid; /* thread group id */
	/*
	 * 0, or -errno: -ESRCH: no such process, or not one that is admitted (promote: demoted);
	 * -EPERM: its spec or its guarantee spares it
	 */
	s32 result;
	u32 promote; /* 1: it may be reactivated again */
	u32 pad;
	u64 demand, total, limit; /* for the event, bytes */
};

/* Argument of the syscall program `disk_set`: disk/look.bpf.h */
struct disk_set_args {
	u64 round_ns; /* 0: as it was */
	u32 disks;    /* the indices in `disk_of` are lower */
	/* weights of the classes and the rest in what domains leave, 1 to 10,000 */
	u32 soft_real_time, interactive, rest;
};

/* Argument of the syscall program `disk_watch`: disk/look.bpf.h */
struct disk_watch_args {
	u32 on; /* 1: watch the disks; 0: do not */
};

/* Classes of requests, as device time is counted: disk/account.bpf.h */
enum disk_class {
	DISK_SOFT_REAL_TIME = 0,
	DISK_INTERACTIVE = 1,
	DISK_REST = 2,
	NR_DISK_CLASSES = 3
};

/* Key and value of the map `disk_counts`: tree/disk_count.bpf.h */
struct disk_count_key {
	u64 domain; /* the cgroup's id */
	u32 disk;   /* major << 20 | minor */
	u32 class;  /* enum disk_class */
};

struct disk_count {
	u64 requests;  /* that are done */
	u64 device_ns; /* their device time */
	u64 wait_ns;   /* how long they waited before they were sent to the disk; */
	u64 waits;     /* those of which that is known */
};

/* Argument and answer of the syscall program `park_request` (aplomb park): park/request.bpf.h */
struct park_args {
	s32 pid; /* thread id */
	/*
	 * 0, or -errno: -ESRCH; -EINVAL: the thread never returns to user mode; -EOPNOTSUPP: this
	 * kernel cannot (before 7.0); -ENOMEM
	 */
	s32 result;
	u64 for_ns; /* from now; 0: the thread goes on */
};

#endif /* APLOMB_INTF_H */
