/* SPDX-License-Identifier: GPL-2.0 */
/*
 * scheduler.c - the scheduler's own source compiled for the host, its maps and timers, and the
 * functions that the Rust side calls.
 *
 * All variables of this unit are in two sections of their own, static variables in functions too.
 * host_reset() sets them to their values at load time, so each simulation begins with a freshly
 * loaded scheduler.
 */
struct task_struct;
struct cgroup;
struct scx_cgroup_init_args;

/* --- optional callbacks: weak, so that the address of a missing one is NULL --- */
#define OPTIONAL __attribute__((weak))
void aplomb_runnable(struct task_struct *p, unsigned long long enq_flags) OPTIONAL;
void aplomb_quiescent(struct task_struct *p, unsigned long long deq_flags) OPTIONAL;
_Bool aplomb_yield(struct task_struct *from, struct task_struct *to) OPTIONAL;
void aplomb_set_weight(struct task_struct *p, unsigned int weight) OPTIONAL;
void aplomb_tick(struct task_struct *p) OPTIONAL;
void aplomb_cpu_online(int cpu) OPTIONAL;
void aplomb_cpu_offline(int cpu) OPTIONAL;
int aplomb_cgroup_init(struct cgroup *cgrp, struct scx_cgroup_init_args *args) OPTIONAL;
void aplomb_cgroup_exit(struct cgroup *cgrp) OPTIONAL;
int aplomb_cgroup_prep_move(struct task_struct *p, struct cgroup *from, struct cgroup *to) OPTIONAL;
void aplomb_cgroup_move(struct task_struct *p, struct cgroup *from, struct cgroup *to) OPTIONAL;
void aplomb_cgroup_cancel_move(struct task_struct *p, struct cgroup *from,
			       struct cgroup *to) OPTIONAL;
void aplomb_cgroup_set_weight(struct cgroup *cgrp, unsigned int weight) OPTIONAL;
void aplomb_cgroup_set_bandwidth(struct cgroup *cgrp, unsigned long long period_us,
				 unsigned long long quota_us, unsigned long long burst_us) OPTIONAL;
void aplomb_cgroup_set_idle(struct cgroup *cgrp, _Bool idle) OPTIONAL;

/* Rounds of all loops so far. A lock is held for longer by those under it: src/cost.rs. */
unsigned long long sim_rounds;
#define policy_for(i, from, to) for ((i) = (from); (i) < (to) && ++sim_rounds; (i)++)

#pragma clang section bss = "aplomb_bss" data = "aplomb_data"
#include "main.bpf.c"

/* --- maps: values in one pool; hash maps are searched (a simulation has few specs) --- */
#define HOST_MAPS 32
#define HOST_POOL (8 << 20)
#define HOST_HASH_USED 4200 /* rows of one hash map that a simulation may fill */

static struct host_map host_maps[HOST_MAPS];
static u8 host_pool[HOST_POOL] __attribute__((aligned(64)));
static size_t host_pool_used;
static u8 host_event[sizeof(struct event)] __attribute__((aligned(8)));

static void *host_allocate(size_t size)
{
	void *at = host_pool + host_pool_used;

	host_pool_used += (size + 63) / 64 * 64;
	if (host_pool_used > HOST_POOL)
		__builtin_trap(); /* a map was added: enlarge HOST_POOL */
	return at;
}

struct host_map *host_map_of(struct host_shape shape)
{
	u32 i, rows = shape.type == BPF_MAP_TYPE_HASH ? HOST_HASH_USED : shape.max_entries;

	for (i = 0; i < HOST_MAPS; i++) {
		struct host_map *m = &host_maps[i];

		if (m->map == shape.map)
			return m;
		if (m->map)
			continue;
		m->map = shape.map;
		m->values = host_allocate((size_t)rows * shape.value_size);
		if (shape.type == BPF_MAP_TYPE_HASH)
			m->keys = host_allocate((size_t)rows * shape.key_size);
		return m;
	}
	__builtin_trap(); /* a map was added: enlarge HOST_MAPS */
}

void *host_find(struct host_shape shape, const void *key)
{
	struct host_map *m = host_map_of(shape);
	u32 i;

	for (i = 0; i < m->used; i++)
		if (!__builtin_memcmp(m->keys + (size_t)i * shape.key_size, key, shape.key_size))
			return m->values + (size_t)i * shape.value_size;
	return NULL;
}

int host_update(struct host_shape shape, const void *key, const void *value)
{
	struct host_map *m = host_map_of(shape);
	void *at = host_find(shape, key);

	if (!at) {
		if (m->used == HOST_HASH_USED)
			return -ENOSPC;
		__builtin_memcpy(m->keys + (size_t)m->used * shape.key_size, key, shape.key_size);
		at = m->values + (size_t)m->used++ * shape.value_size;
	}
	__builtin_memcpy(at, value, shape.value_size);
	return 0;
}

long host_delete(struct host_shape shape, const void *key)
{
	struct host_map *m = host_map_of(shape);
	u8 *at = host_find(shape, key), *last;
	size_t row;

	if (!at)
		return -ENOENT;
	row = (at - m->values) / shape.value_size;
	last = m->values + (size_t)--m->used * shape.value_size;
	__builtin_memmove(at, last, shape.value_size);
	__builtin_memmove(m->keys + row * shape.key_size,
			  m->keys + (size_t)m->used * shape.key_size, shape.key_size);
	return 0;
}

long host_push(struct host_shape shape, const void *value)
{
	struct host_map *m = host_map_of(shape);

	if (m->used == shape.max_entries)
		return -1;
	__builtin_memcpy(m->values + (size_t)m->used++ * shape.value_size, value, shape.value_size);
	return 0;
}

long host_pop(struct host_shape shape, void *value)
{
	struct host_map *m = host_map_of(shape);

	if (!m->used)
		return -1;
	__builtin_memcpy(value, m->values + (size_t)--m->used * shape.value_size, shape.value_size);
	return 0;
}

void *sim_storage(struct task_struct *p, size_t size);
void *host_task_storage(struct task_struct *p, size_t size, u64 flags)
{
	if (!p->bpf_storage && (flags & BPF_LOCAL_STORAGE_GET_F_CREATE))
		p->bpf_storage = sim_storage(p, size);
	return p->bpf_storage;
}

#define EOPNOTSUPP 95

/* --- timers: the words of a bpf_timer are its callback, its map, and the simulator's number --- */
struct host_timer {
	void *callback;
	u32 home;   /* index of its map + 1, 0: not initialised */
	u32 number; /* in the simulator */
};

struct host_timer_home {
	u32 value_size;
	const void *map;
};
static struct host_timer_home host_homes[HOST_MAPS];

long host_timer_init(struct bpf_timer *timer, struct host_shape shape)
{
	struct host_timer *t = (struct host_timer *)timer;
	u32 map = host_map_of(shape) - host_maps;
	s32 number = t->home ? -1 : sim_timer_new(timer);

	if (t->home)
		return -EBUSY;
	if (number < 0)
		return -ENOMEM;
	t->home = map + 1;
	t->number = number;
	host_homes[map] = (struct host_timer_home){ shape.value_size, shape.map };
	return 0;
}

long host_timer_callback(struct bpf_timer *timer, void *callback)
{
	struct host_timer *t = (struct host_timer *)timer;

	t->callback = callback;
	return t->home ? 0 : -EINVAL;
}

long host_timer_start(struct bpf_timer *timer, u64 ns, u64 flags)
{
	struct host_timer *t = (struct host_timer *)timer;

	if (!t->home || !t->callback)
		return -EINVAL;
	ns = flags & BPF_F_TIMER_ABS ? ns : sim_now() + ns;
	return sim_timer_start(t->number, ns) ? 0 : -ENOMEM;
}

/* Since 7.0 bpf_timer_cancel() fails while interrupts are off, as in a scheduler's callbacks. */
long host_timer_refuse(void)
{
	return -EOPNOTSUPP;
}

/* bpf_timer_cancel_async() */
long host_timer_cancel(struct bpf_timer *timer)
{
	struct host_timer *t = (struct host_timer *)timer;

	if (!t->home)
		return -EINVAL;
	sim_timer_cancel(t->number);
	return 0;
}

/* The timer has expired. */
void host_timer_fire(struct bpf_timer *timer)
{
	struct host_timer *t = (struct host_timer *)timer;
	struct host_timer_home *home = &host_homes[t->home - 1];
	struct host_map *map = &host_maps[t->home - 1];
	u32 row = ((u8 *)timer - map->values) / home->value_size;
	int (*callback)(void *, u32 *, void *) = t->callback;

	callback((void *)home->map, &row, map->values + (size_t)row * home->value_size);
}

/* --- memory, events --- */
long host_copy(void *to, u32 size, const void *from)
{
	__builtin_memcpy(to, from, size);
	return 0;
}

long host_copy_string(void *to, u32 size, const void *from)
{
	const char *c = from;
	char *d = to;
	u32 i = 0;

	while (i + 1 < size && c[i]) {
		d[i] = c[i];
		i++;
	}
	d[i] = 0;
	return i + 1;
}

void *host_event_reserve(u32 size)
{
	__builtin_memset(host_event, 0, size);
	return host_event;
}

/* --- functions that the Rust side calls --- */
extern char __start_aplomb_bss[], __stop_aplomb_bss[], __start_aplomb_data[], __stop_aplomb_data[];

/* @saved: the data section at the program's start, host_data_size() bytes. */
size_t host_data_size(void)
{
	return __stop_aplomb_data - __start_aplomb_data;
}

void host_data_save(void *saved)
{
	__builtin_memcpy(saved, __start_aplomb_data, host_data_size());
}

void host_reset(const void *saved)
{
	__builtin_memset(__start_aplomb_bss, 0, __stop_aplomb_bss - __start_aplomb_bss);
	__builtin_memcpy(__start_aplomb_data, saved, host_data_size());
}

/*
 * Each core has @threads CPUs, one after the other, and each cache @cache; the last one may have
 * fewer.
 */
void host_cores(u32 threads, u32 cache)
{
	u32 cpu;

	for (cpu = 0; cpu < nr_cpus; cpu++) {
		bool last = (cpu + 1) % threads == 0 || cpu + 1 == nr_cpus;

		cpu_caches[cpu] = cpu / cache;
		next_thread[cpu] = last ? cpu - cpu % threads : cpu + 1;
	}
	cores_shared = threads > 1;
	caches_differ = cache < nr_cpus;
}

/* CPUs from @slow_from have @capacity, all before it CAPACITY_FULL. */
void host_capacities(u32 slow_from, u32 capacity)
{
	u32 cpu;

	for (cpu = 0; cpu < MAX_CPUS; cpu++)
		cpu_capacities[cpu] = cpu < slow_from ? CAPACITY_FULL : capacity;
	cpus_differ = 1;
}

void host_settings(u64 lo_ppm, u64 hi_ppm, u64 max_ppm, u32 policy, u64 tick)
{
	r_lo_ppm = lo_ppm;
	r_hi_ppm = hi_ppm;
	r_max_ppm = max_ppm;
	server_policy = policy;
	tick_ns = tick;
	nr_cpus = scx_bpf_nr_cpu_ids();
}

/* A spec for the program with inode @ino on device 1. */
int host_spec(u64 ino, const struct spec *spec)
{
	struct match_key key = { .kind = MATCH_FILE, .a = ino, .b = 1 };

	nr_matchers[MATCH_FILE]++;
	return host_update(HOST_SHAPE(&matchers), &key, spec);
}

void host_exec(struct task_struct *p, struct linux_binprm *bprm)
{
	on_exec(p, 0, bprm);
	on_exec_left_out(NULL);
}

void host_exit(struct task_struct *p)
{
	on_exit(p);
}

/* What ops.exit reports for an end of @kind with @code: enum exit_flags. */
u32 host_exit_flags(s32 kind, s64 code)
{
	struct scx_exit_info info = { .kind = kind, .exit_code = code };

	return exit_flags(&info);
}

/* The server of @p; NULL: none. */
const struct server_info *host_server(struct task_struct *p)
{
	struct server *s = server_owned(task_ctx(p));

	return s ? &s->info : NULL;
}

/* Which of the optional callbacks exist, in the order of struct Has in src/host.rs. */
u32 host_has(void)
{
	return !!aplomb_runnable | !!aplomb_quiescent << 1 | !!aplomb_yield << 2 |
	       !!aplomb_set_weight << 3 | !!aplomb_cpu_online << 4 | !!aplomb_cpu_offline << 5 |
	       !!(aplomb_ops.flags & SCX_OPS_ENQ_LAST) << 6 | !!aplomb_tick << 7 |
	       !!(aplomb_ops.flags & SCX_OPS_ENQ_EXITING) << 8;
}

/* The cgroup callbacks, in the order of struct CgroupOps in src/host.rs; NULL: missing. */
const struct host_cgroup_ops {
	s32 (*init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*exit)(struct cgroup *cgrp);
	s32 (*prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*set_weight)(struct cgroup *cgrp, u32 weight);
	void (*set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us);
	void (*set_idle)(struct cgroup *cgrp, bool idle);
} host_cgroup_ops = {
	.init = aplomb_cgroup_init,
	.exit = aplomb_cgroup_exit,
	.prep_move = aplomb_cgroup_prep_move,
	.move = aplomb_cgroup_move,
	.cancel_move = aplomb_cgroup_cancel_move,
	.set_weight = aplomb_cgroup_set_weight,
	.set_bandwidth = aplomb_cgroup_set_bandwidth,
	.set_idle = aplomb_cgroup_set_idle,
};

void host_runnable(struct task_struct *p, u64 flags)
{
	aplomb_runnable(p, flags);
}

void host_quiescent(struct task_struct *p, u64 flags)
{
	aplomb_quiescent(p, flags);
}

void host_yield(struct task_struct *p)
{
	aplomb_yield(p, NULL);
}

void host_tick(struct task_struct *p)
{
	aplomb_tick(p);
}

void host_set_weight(struct task_struct *p, u32 weight)
{
	aplomb_set_weight(p, weight);
}

void host_cpu(s32 cpu, bool comes)
{
	if (comes)
		aplomb_cpu_online(cpu);
	else
		aplomb_cpu_offline(cpu);
}

/* Is @p's domain, or one above it, throttled (its cpu.max used up)? */
const void *host_tree_lock(void)
{
	return &tree_lock;
}

bool host_throttled(struct task_struct *p)
{
	struct task_ctx *t = tree_on ? task_ctx(p) : NULL;

	return t && path_throttled(t->domain);
}

/* How @p waits by what the scheduler knows, for the invariants; the same in src/host.rs. */
struct host_wait {
	u32 right, by_deadline, counted;
};

void host_wait(struct task_struct *p, struct host_wait *wait)
{
	const struct task_ctx *t = task_ctx(p);

	if (t)
		*wait = (struct host_wait){ t->by_right, t->by_deadline, t->queued };
}

/* The scheduler's state of a CPU, for the invariants; the same in src/host.rs. */
struct host_cpu_view {
	u64 fair_now, pinned_now, exec_start;
	u32 by_right;
	u64 period, runtime;
	s64 budget;
};

void host_cpu_view(u32 cpu, struct host_cpu_view *view)
{
	const struct cpu_ctx *c = cpu_ctx(cpu);
	const struct server *s = c->by_right == RIGHT_OWN ? server_at(c->reserved.slot) : NULL;

	*view = (struct host_cpu_view){ .fair_now = fair_all.now,
					.pinned_now = c->tree.lanes[0].fair.now,
					.exec_start = c->exec_start };
	if (!s || s->info.generation != c->reserved.generation)
		return;
	view->by_right = 1;
	view->period = s->info.edf.period;
	view->runtime = s->info.edf.runtime;
	view->budget = s->info.edf.budget;
}

/* Process @pid gets a reservation by request (aplomb set); a period of 0 clears it. */
s32 host_reserve(s32 pid, const struct spec *spec)
{
	struct reserve_args args = { .pid = pid, .spec = *spec };

	reserve(&args);
	return args.result;
}

/* How often the domain of the cgroup with this id was throttled; *@ns: for how long, in all. */
u64 host_domain_throttled(u64 cgid, u64 *ns)
{
	u32 *slot = bpf_map_lookup_elem(&domain_of, &cgid);
	const struct branch *b = branch(slot ? *slot : SLOT_ROOT);

	*ns = b->throttled_ns;
	return b->throttled_times;
}

u64 host_domain_ran(u64 cgid)
{
	u32 *slot = bpf_map_lookup_elem(&domain_of, &cgid), at = slot ? *slot : SLOT_ROOT;
	struct domain *d;

	domain_refresh(NULL);
	d = bpf_map_lookup_elem(&domains, &at);
	return d ? d->info.ran_ns : 0;
}

u64 host_load_ppm(u32 cpu)
{
	return cpu_ctx(cpu)->reserved.load.r_ppm;
}

#include "layout.h"
