/* SPDX-License-Identifier: GPL-2.0 */
/*
 * main.bpf.c - aplomb's scheduler: the callbacks of sched_ext, in the order of a task's life.
 *
 * Two layers on each CPU. Reserved tasks run by earliest deadline (reserved/queue.bpf.h) within their budgets
 * (reserved/budget.bpf.h), and on what others left of theirs (reserved/reclaim.bpf.h); the rest is shared by virtual time
 * among all tasks (tree/fair.bpf.h). Who is reserved is decided at exec (task/match.bpf.h) by admission, by load
 * (reserved/governor.bpf.h) or by what is promised (reserved/guarantee.bpf.h), and revised every second.
 *
 *   wake-up --> select_cpu --> enqueue --> [EDF queue of a CPU] --+
 *                                   \                              +--> dispatch --> running --> stopping
 *                                    +--> [fair queue] -----------+                                |
 *                                               ^-------------------- still runnable -------------+
 *
 * The plain case, no interactive task anywhere, costs one test of reserved_on a callback.
 */
#include "task/match.bpf.h"
#include "reserved/budget.bpf.h"
#include "layers/hotplug.bpf.h"
#include "task/reserve.bpf.h"
#include "tree/cgroups.bpf.h"
#include "tree/fair.bpf.h"
#include "layers/domain_server.bpf.h"
#include "tree/rescue_tick.bpf.h"
#include "tree/passing.bpf.h"

char _license[] SEC("license") = "GPL";

/* A fork: a thread joins its process's server, a child gets its window (Redline, section 3). */
s32 OPS(aplomb_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent;
	struct task_ctx *pt, *t;
	struct server *s;

	if (tree_on && args->cgroup) {
		t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (t)
			t->domain = slot_of(args->cgroup);
	}
	if (!args->fork || !reserved_on)
		return 0;
	parent = bpf_get_current_task_btf();
	pt = task_ctx(parent);
	if (!is_interactive(pt))
		return 0;
	if (p->tgid == parent->tgid && pt->window_ns)
		window_settle(parent, pt); /* a program with threads is not about to exec */
	s = server_of(pt);
	if (!s)
		return 0;
	t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return 0;
	if (p->tgid == parent->tgid) {
		task_join(t, pt->slot, s, pt->generation);
	} else {
		t->slot = pt->slot;
		t->generation = pt->generation;
		t->window_ns = pt->window_ns ? pt->window_ns : fork_window_ns;
		t->launched = 1;
	}
	return 0;
}

/*
 * A fork that failed after init_task never gets to on_exit; and the kernel leaves a tracing program out
 * if its CPU is in the middle of the same one, which happens when thousands exit at once.
 */
void OPS(aplomb_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *t = task_ctx(p);

	if (t && t->slot)
		task_leave(t);
	if (t && t->queued)
		tree_leave(t);
}

void OPS(aplomb_enable, struct task_struct *p)
{
	look_at_callback();
	task_set_vtime(p, tree_on ? branch_start(branch(domain_of_task(p))) : fair_start(fair_now));
}

/* It goes to another class of the kernel's. */
void OPS(aplomb_disable, struct task_struct *p)
{
	struct task_ctx *t = tree_on ? task_ctx(p) : NULL;

	if (t && t->queued)
		tree_leave(t);
}

s32 OPS(aplomb_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *t = task_ctx_if_any(p);
	bool idle = false;
	s32 cpu;

	if (t) {
		struct server *s = server_of(t);

		/* while it waits for its next period it may run wherever there is time to spare */
		if (s && s->info.state == SERVER_ADMITTED &&
		    bpf_cpumask_test_cpu(s->info.cpu, p->cpus_ptr) &&
		    (!time_before(bpf_ktime_get_ns(), s->info.edf.start) || throttled(p, s)))
			return s->info.cpu;
	}
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (idle && !(tree_on && branch(domain_of_task(p))->limited))
		dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, 0);
	return cpu;
}

void OPS(aplomb_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_if_any(p);

	if (t && domain_servers)
		domain_draw(t);
	if (t && reserved_enqueue(p, t, enq_flags))
		return;
	if ((enq_flags & SCX_ENQ_LAST) &&
	    !tree_on) { /* nobody else is there, and dispatch did not let it go on */
		dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags);
		return;
	}
	/*
	 * A kernel thread of one CPU does that CPU's own business: it is never delayed when it wakes up.
	 * If it used up a whole slice it queues like everybody, or it could stop the CPU.
	 */
	if ((p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1 && (enq_flags & SCX_ENQ_WAKEUP)) {
		dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	/* for a reserved task select_cpu has not looked for an idle CPU */
	fair_enqueue(p, enq_flags, !t && (enq_flags & SCX_ENQ_CPU_SELECTED));
}

/* @prev, which has no server, runs on @cpu and might go on: what it ran so far counts. */
static __always_inline void settle(struct task_struct *prev, u32 cpu, struct cpu_ctx *c)
{
	u64 ran = prev->se.sum_exec_runtime - c->exec_start;

	c->exec_start += ran;
	fair_charge(prev, cpu, c, ran, false, true);
	if (reserved_on)
		background_ran(c, ran);
}

/* Has @prev, which began to run as best-effort work, got a server since (by exec)? */
static __always_inline bool became_reserved(struct task_struct *prev, struct cpu_ctx *c)
{
	struct task_ctx *t = task_ctx_if_any(prev);

	if (!server_of(t))
		return false;
	c->reserved.slot = t->slot;
	c->reserved.generation = t->generation;
	return true;
}

/* Best-effort work goes before reserved work now: it has waited for as long as it may. */
static __always_inline bool turn_dispatch(u32 cpu, struct cpu_ctx *c, struct task_struct *plain)
{
	if (!background_due(cpu, c, plain))
		return false;
	c->next.in_turn = 1;
	switch (fair_dispatch(cpu, c, plain)) {
	case FAIR_TAKEN:
		return true;
	case FAIR_HELD:
		c->next.in_turn = 0;
		return false;
	case FAIR_KEPT:
		c->next.in_turn = 0;
		if (!c->in_turn)
			turn_begin(cpu, c);
		return true;
	default:
		c->next.in_turn = 0;
		return false;
	}
}

/*
 * Nobody else is there: @prev goes on. (Without a slice it would be enqueued.) Its queue's virtual time goes with it, or it
 * would owe to who comes what nobody wanted.
 */
static __always_inline void go_on(struct task_struct *prev, struct cpu_ctx *c)
{
	task_set_slice(prev, FAIR_SLICE_NS);
	fair_running(prev, c);
}

void OPS(aplomb_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct task_struct *plain = NULL; /* prev, if it is best-effort and could go on */
	u64 deadline = TIME_NEVER;        /* prev's, if it could go on by right */

	if (c->exec.left_out)
		look_at_left_out(c);
	if (prev && !(prev->scx.flags & SCX_TASK_QUEUED))
		prev = NULL;
	if (prev && !c->reserved.slot) {
		settle(prev, cpu, c);
		if (!became_reserved(prev, c))
			plain = prev;
	}
	if (!reserved_on) {
		if (!fair_dispatch(cpu, c, plain) && prev)
			go_on(prev, c);
		return;
	}
	/* nothing runs and nothing was sent: what was, but never came to run, is forgotten here */
	c->reserved.deadline = TIME_NEVER;
	c->next.in_turn = 0;
	if (prev && !plain) {
		reserved_settle(prev, cpu);
		deadline = running_deadline(prev, cpu);
	}
	if (reclaim_wanted(cpu))
		offer_slack(cpu);
	if (deadline != TIME_NEVER || scx_bpf_dsq_nr_queued(DSQ_EDF(cpu))) {
		if (turn_dispatch(cpu, c, plain)) {
			if (nr_cpus > 1)
				help_first(DSQ_EDF(cpu));
			return;
		}
		if (deadline != TIME_NEVER && reserved_keeps(prev, cpu, deadline))
			return;
		if (reserved_dispatch(cpu))
			return;
	}
	switch (fair_dispatch(cpu, c, plain)) {
	case FAIR_TAKEN:
		c->next.best_effort = 1;
		return;
	case FAIR_KEPT:
		return;
	case FAIR_HELD:
		prev = NULL;
		break;
	default:
		break;
	}
	if (nr_cpus > 1 && reserved_steal(cpu))
		return;
	if (prev && (plain || reserved_continue(prev)))
		go_on(prev, c);
}

void OPS(aplomb_running, struct task_struct *p)
{
	u32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct task_ctx *t = task_ctx_if_any(p);
	bool rescued;

	c->exec_start = p->se.sum_exec_runtime;
	c->reserved.deadline = TIME_NEVER;
	c->reserved.stopped_pid = 0;
	c->reserved.slot = 0;
	c->by_right = 0;
	c->in_turn = c->next.in_turn;
	c->next.in_turn = 0;
	if (tree_on)
		tree_running(p, cpu);
	else if (c->next.rescued)
		rescue_begin(cpu, c);
	rescued = c->next.rescued;
	c->next.rescued = 0;
	if (t) {
		struct server *s = server_of(t);

		if (s) {
			c->reserved.slot = t->slot;
			c->reserved.generation = t->generation;
			awake_join(s, t); /* it need not have been enqueued */
		}
		if (t->by_right) {
			t->by_right = RIGHT_NONE;
			task_set_vtime(p, t->fair_vtime);
			if (s && right_on(t, cpu) && reserved_running(t, cpu)) {
				c->in_turn = 0;
				c->next.best_effort = 0;
				return;
			}
		}
	}
	if (c->in_turn)
		turn_begin(cpu, c);
	else if (reserved_on && !c->next.best_effort)
		yield_to_earlier(cpu, TIME_NEVER);
	c->next.best_effort = 0;
	if (!rescued) /* it was nowhere near its turn: no clock follows */
		fair_running(p, c);
}

void OPS(aplomb_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 ran = p->se.sum_exec_runtime - c->exec_start;

	fair_charge(p, cpu, c, ran, !runnable, c->by_right);
	if (tree_on && !runnable) { /* what is counted from here on is its tail() */
		struct task_ctx *t = task_ctx(p);

		if (t)
			t->charged_to = p->se.sum_exec_runtime;
	}
	if (c->reserved.slot) {
		struct task_ctx *t = task_ctx(p);

		reserved_stopping(t, cpu, ran, runnable);
		if (t) {
			window_charge(p, t, ran);
			/* interrupted by a higher class it will run again without an enqueue, by right */
			t->by_right = runnable ? c->by_right : RIGHT_NONE;
			t->fair_vtime = p->scx.dsq_vtime;
		}
	}
	if (reserved_on && !c->by_right)
		background_ran(c, ran);
	if (c->in_turn || c->tree.limited) {
		c->in_turn = 0;
		c->tree.limited = 0;
		cpu_timer_cancel(cpu);
	}
	c->tree.leaf = SLOT_NONE;
	c->reserved.deadline = TIME_NEVER;
	c->reserved.slot = 0;
	c->by_right = 0;
	c->reserved.stopped_pid = runnable ? p->pid : 0;
}

/* While a task of ours runs: what is due before the next tick? */
void OPS(aplomb_tick, struct task_struct *p)
{
	u32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);

	if (c->exec.left_out)
		look_at_left_out(c);
	if (reserved_on || tree_on)
		cpu_timer_tick(cpu);
	if (!rescue_armed && fair_waiting(cpu))
		rescue_arm();
}

/* The affinity of a program changed: its server follows where it may go, or waits for a place. */
void OPS(aplomb_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	struct task_ctx *t = task_ctx_if_any(p);
	struct server *s = server_owned(t);
	u32 i;

	/* a task that may not migrate for a moment has one CPU for that moment: no change of affinity */
	if (!s || p->pid != p->tgid || stays(p) || s->info.state != SERVER_ADMITTED)
		return;
	for (i = 1; i < WMR_PARTS; i++)
		if (i < s->info.split.parts && !bpf_cpumask_test_cpu(s->info.split.cpu[i], mask))
			break;
	if (i == WMR_PARTS && bpf_cpumask_test_cpu(s->info.cpu, mask) &&
	    (!is_split(s) || bpf_cpumask_test_cpu(s->info.split.cpu[0], mask)))
		return;
	server_move(t->slot, p);
}

s32 OPS_SLEEPABLE(aplomb_init)
{
	const struct cpumask *online;
	struct timer_slot *g, *e;
	u32 i, zero = 0;
	s32 err;

	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS)
		return -EINVAL;
	nr_slots = 1;
	err = scx_bpf_create_dsq(DSQ_FAIR, -1);
	if (!err)
		err = domains_init();
	if (err)
		return err;
	online = scx_bpf_get_online_cpumask();
	bpf_for(i, 0, nr_cpus) {
		struct timer_slot *slot;
		u32 cpu = i, k;

		cpu_ctx(cpu)->reserved.deadline = TIME_NEVER;
		cpu_ctx(cpu)->timer_due = TIME_NEVER;
		cpu_ctx(cpu)->tree.leaf = SLOT_NONE;
		cpu_ctx(cpu)->tree.next.leaf = SLOT_NONE;
		cpu_ctx(cpu)->tree.nr_lanes = 1;
		cpu_ctx(cpu)->online = bpf_cpumask_test_cpu(cpu, online);
		nr_online += cpu_ctx(cpu)->online;
		err = scx_bpf_create_dsq(DSQ_EDF(cpu), -1);
		bpf_for(k, 0, nr_cpus > 1 ? MAX_LANES : 1) {
			if (!err)
				err = scx_bpf_create_dsq(DSQ_PINNED(cpu, k), -1);
		}
		if (!err)
			err = scx_bpf_create_dsq(DSQ_THROTTLED(cpu), -1);
		slot = bpf_map_lookup_elem(&cpu_timers, &cpu);
		if (err || !slot)
			break;
		bpf_timer_init(&slot->timer, &cpu_timers, CLOCK_MONOTONIC);
	}
	scx_bpf_put_cpumask(online);
	if (err)
		return err;
	bpf_for(i, 1, MAX_SERVERS) {
		struct server *s;
		u32 slot = MAX_SERVERS - i; /* so that the lowest is taken first */

		s = bpf_map_lookup_elem(&servers, &slot);
		if (!s)
			break;
		bpf_timer_init(&s->timer, &servers, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&s->timer, server_timer);
		err = bpf_map_push_elem(&free_slots, &slot, 0);
		if (err)
			return err;
	}
	g = bpf_map_lookup_elem(&governor_timer, &zero);
	if (g) {
		bpf_timer_init(&g->timer, &governor_timer, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&g->timer, governor_tick);
	}
	e = bpf_map_lookup_elem(&rescue_timer, &zero);
	if (e) {
		bpf_timer_init(&e->timer, &rescue_timer, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&e->timer, rescue_tick);
	}
	e = bpf_map_lookup_elem(&pass_timer, &zero);
	if (e) {
		bpf_timer_init(&e->timer, &pass_timer, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&e->timer, pass_tick);
	}
	e = bpf_map_lookup_elem(&exec_timer, &zero);
	if (e) {
		bpf_timer_init(&e->timer, &exec_timer, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&e->timer, exec_timer_fired);
	}
	return 0;
}

/* Leave word for the daemon why it ended, and wake it. */
void OPS(aplomb_exit, struct scx_exit_info *info)
{
	struct event *end;

	bpf_probe_read_kernel_str(exit_info.reason, sizeof(exit_info.reason), info->reason);
	bpf_probe_read_kernel_str(exit_info.msg, sizeof(exit_info.msg), info->msg);
	exit_info.exit_code = info->exit_code;
	__sync_fetch_and_add(&exit_info.kind, info->kind);
	end = bpf_ringbuf_reserve(&events, sizeof(*end), 0);
	if (end) { /* if it is full the daemon is awake anyway */
		__builtin_memset(end, 0, sizeof(*end));
		bpf_ringbuf_submit(end, BPF_RB_FORCE_WAKEUP);
	}
}

SEC(".struct_ops.link")
struct sched_ext_ops aplomb_ops = {
	.select_cpu = (void *)aplomb_select_cpu,
	.enqueue = (void *)aplomb_enqueue,
	.dispatch = (void *)aplomb_dispatch,
	.running = (void *)aplomb_running,
	.stopping = (void *)aplomb_stopping,
	.tick = (void *)aplomb_tick,
	.enable = (void *)aplomb_enable,
	.set_cpumask = (void *)aplomb_set_cpumask,
	.cpu_online = (void *)aplomb_cpu_online,
	.cpu_offline = (void *)aplomb_cpu_offline,
	.init_task = (void *)aplomb_init_task,
	.exit_task = (void *)aplomb_exit_task,
	.disable = (void *)aplomb_disable,
	.cgroup_init = (void *)aplomb_cgroup_init,
	.cgroup_exit = (void *)aplomb_cgroup_exit,
	.cgroup_prep_move = (void *)aplomb_cgroup_prep_move,
	.cgroup_move = (void *)aplomb_cgroup_move,
	.cgroup_set_weight = (void *)aplomb_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)aplomb_cgroup_set_bandwidth,
	.cgroup_set_idle = (void *)aplomb_cgroup_set_idle,
	.init = (void *)aplomb_init,
	.exit = (void *)aplomb_exit,
	/*
	 * ENQ_LAST for cbs-hard: a CPU may idle though a task of it would like to run. ENQ_MIGRATION_DISABLED for cpu.max: who
	 * is parked (tree/limit.bpf.h) may not migrate, and the kernel would put it back on its CPU without asking us.
	 */
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000, /* the longest there is: 2,000 hogs take turns for 8 s */
	.name = "aplomb",
};
