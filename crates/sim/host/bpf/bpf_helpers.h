/* SPDX-License-Identifier: GPL-2.0 */
/*
 * bpf/bpf_helpers.h - in libbpf's place, for the simulator: BPF's helpers, maps and timers on the
 * host.
 *
 * bpf/main.bpf.c compiles unchanged: scheduler.c defines the functions for maps and timers,
 * src/kfuncs.rs the kernel's. One thread at a time runs the scheduler, so locks and RCU do nothing.
 * Includes only headers that don't include this one.
 */
#ifndef APLOMB_SIM_BPF_HELPERS_H
#define APLOMB_SIM_BPF_HELPERS_H

#include "kernel/uapi.h"
#include "policy/types.h"

typedef unsigned long size_t;

#define SEC(name)
#define __ksym
#define __weak __attribute__((weak))
#define __hidden
#define __kptr
#define __arg_nonnull
#define __arg_nullable
#define __arg_trusted
#define barrier_var(var) ((void)(var))
#define __noinline
#define __always_inline inline
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
/* As with the kernel's, the address of a weak function that the simulator lacks is NULL. */
#define bpf_ksym_exists(sym) ((sym) != NULL)
#define bpf_for policy_for
#define NULL ((void *)0)

struct task_struct;
struct bpf_timer;

/* --- time and place: src/kfuncs.rs ----------------------------------------------------------- */
u64 sim_now(void);
u64 sim_jiffies(void);
u32 sim_cpu(void);
struct task_struct *sim_current(void);
s32 sim_timer_new(struct bpf_timer *timer);
bool sim_timer_start(u32 number, u64 at_ns);
void sim_timer_cancel(u32 number);
void sim_event(const void *event);
void sim_lock(const void *lock);
void sim_unlock(const void *lock);
void sim_atomic(const void *word);

#define bpf_ktime_get_ns() sim_now()
#define bpf_jiffies64() sim_jiffies()
#define bpf_get_smp_processor_id() sim_cpu()
#define bpf_get_current_task_btf() sim_current()
#define bpf_spin_lock(lock) sim_lock(lock)
#define bpf_spin_unlock(lock) sim_unlock(lock)
/* An atomic change takes the cache line from the CPU that had it (src/cost.rs). */
#define __sync_fetch_and_add(word, by) (sim_atomic(word), __sync_fetch_and_add(word, by))
#define __sync_fetch_and_sub(word, by) (sim_atomic(word), __sync_fetch_and_sub(word, by))
#define __sync_val_compare_and_swap(word, old, new)                                                \
	(sim_atomic(word), __sync_val_compare_and_swap(word, old, new))

/* --- maps: scheduler.c ----------------------------------------------------------------------- */

/* A map is identified by its address. Its declaration has the sizes. */
struct host_shape {
	const void *map;
	u32 type, key_size, value_size, max_entries;
};
#define HOST_LENGTH(map, member) ((u32)(sizeof(*(map)->member) / sizeof(int)))
#define HOST_SHAPE(m)                                                                              \
	((struct host_shape){ (m), HOST_LENGTH(m, type), sizeof(*(m)->key), sizeof(*(m)->value),   \
			      HOST_LENGTH(m, max_entries) })
#define HOST_STACK(m)                                                                              \
	((struct host_shape){ (m), HOST_LENGTH(m, type), 0, sizeof(*(m)->value),                   \
			      HOST_LENGTH(m, max_entries) })

struct host_map {
	const void *map;
	u8 *values, *keys;
	u32 used; /* of a stack or a hash map */
};

struct host_map *host_map_of(struct host_shape shape);
void *host_find(struct host_shape shape, const void *key); /* in a hash map */
int host_update(struct host_shape shape, const void *key, const void *value);
long host_delete(struct host_shape shape, const void *key);
long host_push(struct host_shape shape, const void *value);
long host_pop(struct host_shape shape, void *value);
void *host_task_storage(struct task_struct *p, size_t size, u64 flags);

static inline void *host_row(struct host_map **home, struct host_shape shape, const void *key)
{
	u32 row = *(const u32 *)key;

	if (!*home)
		*home = host_map_of(shape);
	return row < shape.max_entries ? (*home)->values + (size_t)row * shape.value_size : NULL;
}

/* Each place in the source that looks up an array keeps the array's map (until host_reset()). */
#define bpf_map_lookup_elem(map, key)                                                              \
	((typeof((map)->value))({                                                                  \
		static struct host_map *home_;                                                     \
		HOST_LENGTH(map, type) == BPF_MAP_TYPE_HASH                                        \
			? host_find(HOST_SHAPE(map), (key))                                        \
			: host_row(&home_, HOST_SHAPE(map), (key));                                \
	}))
#define bpf_map_update_elem(map, key, val, flags) host_update(HOST_SHAPE(map), (key), (val))
#define bpf_map_delete_elem(map, key) host_delete(HOST_SHAPE(map), (key))
#define bpf_map_push_elem(map, val, flags) host_push(HOST_STACK(map), (val))
#define bpf_map_pop_elem(map, val) host_pop(HOST_STACK(map), (val))
#define bpf_task_storage_get(map, p, init, flags)                                                  \
	((typeof((map)->value))host_task_storage((p), sizeof(*(map)->value), (flags)))

/* One thread: nothing comes between the two steps. */
#define bpf_kptr_xchg(place, new)                                                                  \
	({                                                                                         \
		typeof(*(place)) old_ = *(place);                                                  \
		*(place) = (new);                                                                  \
		old_;                                                                              \
	})

/* --- timers ---------------------------------------------------------------------------------- */
long host_timer_init(struct bpf_timer *timer, struct host_shape shape);
long host_timer_callback(struct bpf_timer *timer, void *callback);
long host_timer_start(struct bpf_timer *timer, u64 ns, u64 flags);
#define bpf_timer_init(timer, map, clock) host_timer_init((timer), HOST_SHAPE(map))
#define bpf_timer_set_callback(timer, callback) host_timer_callback((timer), (void *)(callback))
#define bpf_timer_start(timer, ns, flags) host_timer_start((timer), (ns), (flags))
long host_timer_cancel(struct bpf_timer *timer);
long host_timer_refuse(void);
#define bpf_timer_cancel(timer) ((void)(timer), host_timer_refuse())
#define bpf_timer_cancel_async(timer) host_timer_cancel(timer)

/* --- memory, events -------------------------------------------------------------------------- */
long host_copy(void *to, u32 size, const void *from);
long host_copy_string(void *to, u32 size, const void *from);
#define bpf_probe_read_kernel(to, size, from) host_copy((to), (size), (from))
#define bpf_probe_read_user(to, size, from) host_copy((to), (size), (from))
#define bpf_probe_read_kernel_str(to, size, from) host_copy_string((to), (size), (from))
#define bpf_kallsyms_lookup_name(name, size, flags, address) ((void)(name), -1)

void *host_event_reserve(u32 size);
#define bpf_ringbuf_reserve(map, size, flags) host_event_reserve(size)
#define bpf_ringbuf_submit(event, flags) sim_event(event)

#endif /* APLOMB_SIM_BPF_HELPERS_H */
