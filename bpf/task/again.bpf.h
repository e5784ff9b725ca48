/* SPDX-License-Identifier: GPL-2.0 */
/*
 * task/again.bpf.h - which program a process is, looked at again when what that depends on changes
 * after its exec.
 *
 *  - Its cgroup. A desktop's shell learns the pid of what it launched, and moves it into
 *    app-*.scope some milliseconds after the exec. If the process leaves that cgroup again, it
 *    gives up what it had by it.
 *  - Its name. Wine and others set it when they run already. A process keeps what it has by an
 *    earlier name, as it does after exec: so it has one change of its server by name for each exec.
 *
 * A kernel thread executes nothing. It is matched when it is created, as it has its name by then.
 *
 * What was found by the file or an argument outranks a cgroup and a name (task/match.bpf.h), so it
 * stays. The threads that the process has already join its server in a timer, because a tracing
 * program may not iterate over threads.
 */
#ifndef APLOMB_AGAIN_BPF_H
#define APLOMB_AGAIN_BPF_H

#include "task/match.bpf.h"
#include "task/server.bpf.h"

/* Most threads of one process that join; further ones join when specs are read the next time. */
#define MAX_JOINING 512
/*
 * From one process to the next, ns. A user that moves processes to and fro all the time costs one
 * look at 512 threads in a millisecond, some percent of a CPU.
 */
#define JOIN_EVERY_NS NSEC_PER_MSEC

/* Processes whose threads are to join the server of their leader. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1024);
	__type(value, s32);
} joining SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} join_timer SEC(".maps");

u32 join_armed; /* the timer is set; changed atomically */

/* Is @task in exec, before the tracepoint at which on_exec matches it? */
static __always_inline bool in_exec(struct task_struct *task)
{
#ifdef __bpf__
	return BPF_CORE_READ_BITFIELD(task, in_execve);
#else
	return false; /* tasks of the simulator have no names */
#endif
}

static __always_inline void join_arm(void)
{
	struct timer_slot *slot;
	u32 zero = 0;

	if (__sync_lock_test_and_set(&join_armed, 1))
		return;
	slot = bpf_map_lookup_elem(&join_timer, &zero);
	if (slot && bpf_timer_start(&slot->timer, JOIN_EVERY_NS, 0))
		join_armed = 0;
}

/* The threads of process @pid join the server of their leader. */
VERIFIED_ONCE int join_process(s32 pid)
{
	struct task_struct *leader = bpf_task_from_pid(pid), *p;
	struct bpf_iter_task it;
	u32 i;

	if (!leader)
		return 0;
	bpf_rcu_read_lock();
	bpf_iter_task_new(&it, leader, BPF_TASK_ITER_PROC_THREADS);
	bpf_for(i, 0, MAX_JOINING) {
		p = bpf_iter_task_next(&it);
		if (!p)
			break;
		if (p->pid != p->tgid)
			rematch_thread(p, task_ctx(p));
	}
	bpf_iter_task_destroy(&it);
	bpf_rcu_read_unlock();
	bpf_task_release(leader);
	return 0;
}

static int join_timer_fired(void *map, u32 *key, struct timer_slot *slot)
{
	s32 pid;

	join_armed = 0;
	if (bpf_map_pop_elem(&joining, &pid))
		return 0;
	join_process(pid);
	join_arm();
	return 0;
}

/* @p, whose context is @t or which has none, becomes interactive under @spec. */
static __noinline void become(struct task_struct *p, struct task_ctx *t, const struct spec *spec,
			      u32 kind)
{
	s32 pid = p->pid;

	if (!t) {
		t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!t)
			return;
	}
	t->launched = 0; /* flag P is about an exec */
	task_apply(p, t, spec, kind, true);
	if (!bpf_map_push_elem(&joining, &pid, 0))
		join_arm();
}

/* @p is in another cgroup now. A child in its exec window is matched at its exec. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_move, struct cgroup *to, const char *path, struct task_struct *p)
{
	const struct spec *spec;
	struct task_ctx *t;
	struct server *s;
	struct file *file;
	u32 kind = 0;

	if (!nr_matchers[MATCH_APP] || p->pid != p->tgid || (p->flags & (PF_KTHREAD | PF_EXITING)))
		return 0;
	t = task_ctx(p);
	if (t && t->window_ns)
		return 0;
	s = server_owned(t);
	if (s && !s->info.inherited && s->matched != MATCH_APP && s->matched != MATCH_COMM)
		return 0; /* by its file or an argument, or it was asked for */
	file = p->mm ? p->mm->exe_file : NULL;
	if (!file)
		return 0;
	spec = match_program(p, file, false, &kind);
	if (!spec || kind != MATCH_APP) {
		if (t && s && s->matched == MATCH_APP)
			program_leave(t);
		return 0;
	}
	if (!s || s->info.inherited || !same_spec(s, spec))
		become(p, t, spec, MATCH_APP);
	return 0;
}

/*
 * @p has got the name @name. In exec on_exec matches it. A process whose file has a spec, even a
 * best-effort one, is not matched by its name.
 */
SEC("tp_btf/task_rename")
int BPF_PROG(on_name, struct task_struct *p, const char *name)
{
	const struct spec *spec = NULL;
	struct task_ctx *t;
	struct file *file;
	u64 ino, dev;

	if (p->pid != p->tgid || (p->flags & (PF_KTHREAD | PF_EXITING)) ||
	    !nr_matchers[MATCH_COMM] || in_exec(p))
		return 0;
	t = task_ctx(p);
	if (t && (t->window_ns || server_owned(t)))
		return 0;
	spec = match_name(MATCH_COMM, name);
	if (!spec)
		return 0;
	file = p->mm ? p->mm->exe_file : NULL;
	if (!file)
		return 0;
	ino = file->f_inode->i_ino;
	dev = file->f_inode->i_sb->s_dev;
	if (!match_file(file, ino, dev))
		become(p, t, spec, MATCH_COMM);
	return 0;
}

/* A new task, which has not run yet. */
SEC("tp_btf/task_newtask")
int BPF_PROG(on_kernel_thread, struct task_struct *p)
{
	const struct spec *spec;

	if (!(p->flags & PF_KTHREAD))
		return 0;
	spec = match_kthread(p);
	if (spec)
		become(p, NULL, spec, MATCH_KTHREAD);
	return 0;
}

static __always_inline s32 again_init(void)
{
	u32 zero = 0;
	struct timer_slot *slot = bpf_map_lookup_elem(&join_timer, &zero);

	return slot ? bpf_timer_set_callback(&slot->timer, join_timer_fired) : -EINVAL;
}

#endif /* APLOMB_AGAIN_BPF_H */
