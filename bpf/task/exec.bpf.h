/* SPDX-License-Identifier: GPL-2.0 */
/*
 * task/exec.bpf.h - a program starts or ends: its process gets a server, keeps it, or gives it
 * back.
 *
 * Source: Redline section 3 and Fig. 3.
 *
 * 1. Exec. A tracing program matches the executable (task/match.bpf.h) and applies the spec. The
 *    plain case, no spec and no interactive parent, leaves nothing behind.
 *
 * 2. Execs that it misses. Since 7.0 a task can be preempted in the middle of a tracing program.
 *    The kernel then skips the same program for every task that execs on that CPU meanwhile (the
 *    recursion misses of `bpftool prog`): of eight programs started at a time, for one in ten.
 *    bpf_preempt_disable() does not help: the preemption then comes at bpf_preempt_enable(), which
 *    is still in the program. But perf's handlers, at the same tracepoint and after on_exec, run
 *    with preemption disabled. A program of that kind may not take a lock or set a timer. So it
 *    records the thread, and ops.dispatch or ops.tick, whichever comes first on this CPU, starts a
 *    timer that matches it. What the thread forks before that has no part in its server. So a task
 *    that wakes up does not preempt one that is in on_exec (wake_preempts()).
 *
 * 3. Specs that change. The daemon reads the iterator `rematch` after attach, and whenever specs
 *    have changed: it looks at every task again. If programs' files have changed, what has a server
 *    keeps it (`rematch_keeps`), and what started before the daemon knew the new files is found.
 */
#ifndef APLOMB_EXEC_BPF_H
#define APLOMB_EXEC_BPF_H

#include "task/match.bpf.h"
#include "task/server.bpf.h"

/*
 * Most missed execs that wait to be matched. Matching begins at once, so usually there is at most
 * one for each CPU. Further ones stay unmatched.
 */
#define MAX_LEFT_OUT 1024

/* Threads whose exec on_exec missed, and the timer that matches them. */
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

/*
 * Matches the exec of @p, which runs @file, and applies the spec. False: no memory for a context.
 */
static __noinline bool exec_match(struct task_struct *p, struct file *file)
{
	bool current = p == bpf_get_current_task_btf(); /* else its arguments cannot be read */
	struct task_ctx *t = task_ctx(p);
	const struct spec *spec;
	u32 kind = 0;

	if (t && t->exec_id == (u32)p->self_exec_id)
		return true; /* on_exec has matched it */
	spec = match_program(p, file, current, &kind);
	if (!t) {
		if (!spec)
			return true; /* the plain case: no spec, no interactive parent */
		t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!t)
			return false;
	}
	t->exec_id = (u32)p->self_exec_id;
	task_apply(p, t, spec, kind, true);
	t->launched = 0; /* an interactive parent counts for the first exec only */
	return true;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, s32 old_pid, struct linux_binprm *bprm)
{
	struct cpu_ctx *c = cpu_ctx(bpf_get_smp_processor_id()); /* the task stays here */

	c->exec.busy = 1;
	if (exec_match(p, bprm->file))
		c->exec.seen = p->pid;
	c->exec.busy = 0;
	return 0;
}

/* After on_exec: has it looked at this exec (2)? */
SEC("tp/sched/sched_process_exec")
int on_exec_left_out(void *args)
{
	struct cpu_ctx *c = cpu_ctx(bpf_get_smp_processor_id());
	s32 pid = bpf_get_current_task_btf()->pid;

	if (c->exec.seen != pid && !bpf_map_push_elem(&left_out, &pid, 0))
		c->exec.left_out = 1;
	c->exec.seen = 0;
	return 0;
}

/* A thread whose exec was missed on this CPU is in `left_out`. */
static __noinline void exec_timer_start(struct cpu_ctx *c)
{
	struct timer_slot *slot;
	u32 zero = 0;

	slot = bpf_map_lookup_elem(&exec_timer, &zero);
	/* if the timer cannot be started (state/unstarted.bpf.h), the next look does */
	c->exec.left_out = slot && bpf_timer_start(&slot->timer, 0, 0);
}

/* In ops.tick, and when @c's CPU chooses. */
static __always_inline void look_at_left_out(struct cpu_ctx *c)
{
	if (c->exec.left_out)
		exec_timer_start(c);
}

/* Without memory for a context the exec is tried again after this, ns. */
#define LEFT_OUT_AGAIN_NS (10 * NSEC_PER_MSEC)

/* Matches one missed exec; the timer is started again until there is none. */
static int exec_timer_fired(void *map, u32 *key, struct timer_slot *slot)
{
	struct task_struct *p;
	struct file *file;
	u64 again = 0;
	s32 pid;

	if (bpf_map_pop_elem(&left_out, &pid))
		return 0;
	p = bpf_task_from_pid(pid);
	if (p) {
		bpf_rcu_read_lock(); /* see reactivate_one */
		file = p->mm ? p->mm->exe_file : NULL;
		if (file && !exec_match(p, file)) {
			bpf_map_push_elem(&left_out, &pid, 0);
			again = LEFT_OUT_AGAIN_NS;
		}
		bpf_rcu_read_unlock();
		bpf_task_release(p);
	}
	bpf_timer_start(&slot->timer, again, 0);
	return 0;
}

/* If this program misses an exit in the same way, aplomb_exit_task sees it. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);

	if (t)
		task_leave(t);
	return 0;
}

/* The iterator leaves the servers that there are; written by user space */
u32 rematch_keeps;

/* Looks at every task again (3). Leaders come first, as the iterator goes by process id. */
SEC("iter/task")
int rematch(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task, *parent;
	const struct spec *spec = NULL;
	struct server *s;
	struct task_ctx *t;
	struct file *file = NULL;
	u32 kind = MATCH_KTHREAD;

	if (!p)
		return 0;
	t = bpf_task_storage_get(&tasks, p, 0, 0);
	if (p->pid != p->tgid) {
		rematch_thread(p, t);
		return 0;
	}
	s = server_owned(t);
	if (s && (rematch_keeps || s->info.inherited || (s->info.spec.flags & SPEC_STICKY)))
		return 0;
	if (p->flags & PF_KTHREAD) {
		spec = match_kthread(p);
	} else {
		file = p->mm ? p->mm->exe_file : NULL;
		if (!file)
			return 0;
		spec = match_program(p, file, false, &kind);
	}
	if (!spec) {
		/* its spec was removed; not if its file was replaced, by an upgrade */
		if (s && !(file && !file->f_inode->i_nlink))
			program_leave(t);
		return 0;
	}
	if (s && same_spec(s, spec))
		return 0;
	if (!t) {
		t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!t)
			return 0;
	}
	parent = p->real_parent;
	t->launched = parent && is_interactive(task_ctx(parent));
	task_apply(p, t, spec, kind, false);
	t->launched = 0;
	return 0;
}

static __always_inline s32 exec_init(void)
{
	u32 zero = 0;
	struct timer_slot *slot = bpf_map_lookup_elem(&exec_timer, &zero);

	return slot ? bpf_timer_set_callback(&slot->timer, exec_timer_fired) : -EINVAL;
}

#endif /* APLOMB_EXEC_BPF_H */
