/* SPDX-License-Identifier: GPL-2.0 */
/*
 * task/match.bpf.h - which spec a task has: looked up in the kernel, without a hop to user space.
 *
 * Source: Redline section 3 and Fig. 3. Executables are recognised by inode and device, so that a
 * process in a container, or a copy in a home directory, cannot pose as /usr/bin/Xorg. Scripts, Wine,
 * Flatpak and Snap run somebody else's executable and are recognised by an argument, by the cgroup that
 * their launcher put them in, or by the command's name.
 *
 * Order: argument, file, application, command. One hash lookup each; kinds that no spec uses are skipped.
 */
#ifndef APLOMB_MATCH_BPF_H
#define APLOMB_MATCH_BPF_H

#include "task/server.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SPECS);
	__type(key, struct match_key);
	__type(value, struct spec);
} matchers SEC(".maps");

u32 nr_matchers[NR_MATCH_KINDS]; /* of each kind; written by user space */

/* So that the skeleton knows this type */
const volatile struct match_key match_key_layout;

/* Execs that wait for a look, which begins at once: one for each CPU is usual. One more than this stays unmatched. */
#define MAX_LEFT_OUT 1024

/* Threads whose exec on_exec was left out for, and the timer that looks at them. */
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

static __always_inline const struct spec *lookup(u64 kind, u64 a, u64 b, u64 c)
{
	struct match_key key = { .kind = kind, .a = a, .b = b, .c = c };

	return bpf_map_lookup_elem(&matchers, &key);
}

static __always_inline u64 hash_byte(u64 hash, char byte)
{
	return (hash ^ (u8)byte) * NAME_HASH_PRIME;
}

/* The first ARGS_SCANNED arguments of the running program @p, whole and by their last path part. */
static __noinline const struct spec *match_argument(struct task_struct *p, u64 ino, u64 dev)
{
	u64 whole = NAME_HASH_INIT, base = NAME_HASH_INIT, start, len;
	const struct spec *spec;
	char args[ARG_BYTES];
	u32 i, nr = 0;

	start = p->mm->arg_start;
	len = p->mm->arg_end - start;
	if (len > ARG_BYTES)
		len = ARG_BYTES;
	if (!len || bpf_probe_read_user(args, len, (void *)start))
		return NULL;
	bpf_for(i, 0, ARG_BYTES) {
		char byte;

		if (i >= len || nr > ARGS_SCANNED)
			break;
		byte = args[i & (ARG_BYTES - 1)];
		if (byte) {
			whole = hash_byte(whole, byte);
			base = byte == '/' ? NAME_HASH_INIT : hash_byte(base, byte);
			continue;
		}
		if (nr++) { /* not argv[0] */
			spec = lookup(MATCH_ARG, ino, dev, whole);
			if (!spec)
				spec = lookup(MATCH_ARG, ino, dev, base);
			if (spec)
				return spec;
		}
		whole = base = NAME_HASH_INIT;
	}
	return NULL;
}

/* The parts of the leaf cgroup's name, as systemd, Flatpak and Snap form it (see intf.h). */
static __noinline const struct spec *match_application(struct task_struct *p)
{
	TAKES_STACK(176);
	u64 part = NAME_HASH_INIT, to_dot = NAME_HASH_INIT;
	const struct spec *spec;
	char name[CGROUP_BYTES];
	u32 i;

	if (bpf_probe_read_kernel_str(name, sizeof(name),
				      BPF_CORE_READ(p, cgroups, dfl_cgrp, kn, name)) <= 0)
		return NULL;
	bpf_for(i, 0, CGROUP_BYTES) {
		char byte = name[i & (CGROUP_BYTES - 1)];

		if (byte && byte != '-' && byte != '@') {
			if (byte == '.')
				to_dot = part;
			part = hash_byte(part, byte);
			continue;
		}
		spec = lookup(MATCH_APP, part, 0, 0);
		if (!spec && !byte) /* the last part ends in ".scope", ".service" or ".slice" */
			spec = lookup(MATCH_APP, to_dot, 0, 0);
		if (spec || !byte)
			return spec;
		part = to_dot = NAME_HASH_INIT;
	}
	return NULL;
}

union comm {
	char name[COMM_LEN];
	u64 half[2];
};

static __always_inline const struct spec *match_command(struct task_struct *p)
{
	union comm comm = {};

	bpf_probe_read_kernel_str(comm.name, COMM_LEN, p->comm);
	return lookup(MATCH_COMM, comm.half[0], comm.half[1], 0);
}

/* A kernel thread: by its whole name, then without the number or CPU at its end. */
static __noinline const struct spec *match_kthread(struct task_struct *p)
{
	const struct spec *spec;
	union comm comm = {};
	bool cut = false;
	u32 i;

	if (!nr_matchers[MATCH_KTHREAD])
		return NULL;
	bpf_probe_read_kernel_str(comm.name, COMM_LEN, p->comm);
	spec = lookup(MATCH_KTHREAD, comm.half[0], comm.half[1], 0);
	if (spec)
		return spec;
	bpf_for(i, 0, COMM_LEN) {
		char byte = comm.name[i % COMM_LEN];

		cut |= byte >= '/' && byte <= ':'; /* digits are in between */
		if (cut)
			comm.name[i % COMM_LEN] = 0;
	}
	return lookup(MATCH_KTHREAD, comm.half[0], comm.half[1], 0);
}

/* The spec of @p, which runs @file; *kind: how it was found. @exec: @p is current, in exec. */
static __always_inline const struct spec *match_program(struct task_struct *p, struct file *file,
							bool exec, u32 *kind)
{
	u64 ino = file->f_inode->i_ino, dev = file->f_inode->i_sb->s_dev;
	const struct spec *spec = NULL;

	*kind = MATCH_ARG;
	if (exec && nr_matchers[MATCH_ARG])
		spec = match_argument(p, ino, dev);
	if (!spec && nr_matchers[MATCH_FILE]) {
		*kind = MATCH_FILE;
		spec = lookup(MATCH_FILE, ino, dev, 0);
	}
	if (!spec && nr_matchers[MATCH_APP]) {
		*kind = MATCH_APP;
		spec = match_application(p);
	}
	if (!spec && nr_matchers[MATCH_COMM]) {
		*kind = MATCH_COMM;
		spec = match_command(p);
	}
	return spec;
}

/*
 * What an exec, or a look at a running program, decides: @spec is the program's own or NULL. A spec
 * with flag P counts only if an interactive task started it.
 */
VERIFIED_ONCE int task_apply(struct task_struct *p __arg_trusted, struct task_ctx *t __arg_nonnull,
			     const struct spec *spec, u32 kind, bool launch)
{
	struct server *s;
	u32 slot;

	if (spec && (spec->flags & SPEC_PARENT) && !t->launched)
		spec = NULL;
	s = server_owned(t);
	if (s && ((s->info.spec.flags & SPEC_STICKY) ||
		  (!spec && (s->info.spec.flags & SPEC_INHERIT)))) {
		/* kept: by flag I, or since what was asked for (aplomb run) outranks what was shipped */
		bpf_probe_read_kernel(s->info.comm, COMM_LEN, p->comm);
		return 0;
	}
	if (!spec) {
		if (t->window_ns)
			return window_settle(p, t);
		return program_leave(t);
	}
	if (!(spec->flags & SPEC_INTERACTIVE))
		return program_leave(t);
	emit_task(EV_MATCHED, p, spec->id, kind, spec->runtime_ns, spec->period_ns);
	slot = server_create(p, t, spec, 0);
	if (slot)
		server_launch(slot, p, launch);
	return 0;
}

/* What the exec of @p, which runs @file, decides. False: there was no memory to remember it. */
static __noinline bool exec_match(struct task_struct *p, struct file *file)
{
	bool current = p == bpf_get_current_task_btf(); /* else its arguments cannot be read */
	struct task_ctx *t = task_ctx(p);
	const struct spec *spec;
	u32 kind = 0;

	if (t && t->exec_id == (u32)p->self_exec_id)
		return true; /* on_exec did it */
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
	t->launched = 0; /* that the parent was interactive counts for the first exec only */
	return true;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, s32 old_pid, struct linux_binprm *bprm)
{
	if (exec_match(p, bprm->file))
		cpu_ctx(bpf_get_smp_processor_id())->exec.seen = p->pid;
	return 0;
}

/*
 * Since 7.0 a task can be preempted in the middle of a tracing program, and the kernel leaves the same program out for
 * whoever execs on that CPU meanwhile (the recursion misses of `bpftool prog`): one in ten, of eight started at a
 * time. bpf_preempt_disable is no help: the preemption then comes with bpf_preempt_enable, which is still in the
 * program. But perf's handlers, at the same point and after on_exec, run with preemption disabled. A program of that
 * kind may not lock or set a timer; so it leaves word, and dispatch or a tick, whichever comes first on this CPU,
 * has a timer look at whoever on_exec did not.
 */
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

/* on_exec_left_out has left word on this CPU. */
static __noinline void look_at_left_out(struct cpu_ctx *c)
{
	struct timer_slot *slot;
	u32 zero = 0;

	c->exec.left_out = 0;
	slot = bpf_map_lookup_elem(&exec_timer, &zero);
	if (slot)
		bpf_timer_start(&slot->timer, 0, 0);
}

/* From no memory to the next try, ns. */
#define LEFT_OUT_AGAIN_NS (10 * NSEC_PER_MSEC)

/* One of those that were left out; the timer is started again until there is none. */
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

/* Whoever it leaves out in the same way aplomb_exit_task finds. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);

	if (t)
		task_leave(t);
	return 0;
}

/* Does the table's row still say what server @s was made from? */
static __always_inline bool same_spec(const struct server *s, const struct spec *spec)
{
	return s->info.spec.id == spec->id && s->info.spec.runtime_ns == spec->runtime_ns &&
	       s->info.spec.period_ns == spec->period_ns && s->info.spec.flags == spec->flags;
}

/*
 * Look at every task again: read by the daemon once after attach (programs that were running before
 * us) and when specs have changed. Leaders first, as the iterator goes by process id; threads join.
 */
SEC("iter/task")
int rematch(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task, *leader, *parent;
	const struct spec *spec = NULL;
	struct server *s;
	struct task_ctx *t;
	struct file *file = NULL;
	u32 kind = MATCH_KTHREAD;

	if (!p)
		return 0;
	t = bpf_task_storage_get(&tasks, p, 0, 0);
	leader = p->group_leader;
	if (p->pid != p->tgid) {
		struct task_ctx *lt = leader ? task_ctx(leader) : NULL;

		s = server_owned(lt);
		if (!s || (t && t->slot == lt->slot && t->generation == lt->generation))
			return 0;
		if (!t) {
			t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
			if (!t)
				return 0;
		}
		task_leave(t);
		task_join(t, lt->slot, s, lt->generation);
		return 0;
	}
	s = server_owned(t);
	if (s && (s->info.inherited || (s->info.spec.flags & SPEC_STICKY)))
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
		/* its spec was taken away; unless its file was replaced (an upgrade), that is another matter */
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

#endif /* APLOMB_MATCH_BPF_H */
