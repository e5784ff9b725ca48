/* SPDX-License-Identifier: GPL-2.0 */
/*
 * main.bpf.c - aplomb's scheduler: the callbacks of sched_ext, in the order of a task's life.
 *
 * Two layers on each CPU. Reserved tasks run by earliest deadline (reserved/queue.bpf.h), within
 * their budgets (reserved/run.bpf.h) and on what others left of theirs (reserved/reclaim.bpf.h).
 * What is left of the CPU is shared among all tasks by the tree of domains, or without domains by
 * virtual time (tree/). At exec a process may get a server (task/exec.bpf.h); admission decides by
 * load or by what is promised (reserved/admission.bpf.h), and the governor revises that every
 * second (layers/second.bpf.h). What concerns both layers is in layers/.
 *
 *   wake-up --> select_cpu --> enqueue --> [EDF queue of a CPU] --+
 *                                   \                              +--> dispatch --> running --> stopping
 *                                    +--> [fair queue] -----------+                                |
 *                                               ^-------------------- still runnable -------------+
 *
 * The plain case, without any interactive task, costs one test of reserved_on in each callback.
 */
#include "disk/account.bpf.h"
#include "disk/dirty.bpf.h"
#include "disk/look.bpf.h"
#include "kernel/ops.bpf.h"
#include "layers/account.bpf.h"
#include "layers/catch_up.bpf.h"
#include "layers/domain_server.bpf.h"
#include "layers/hotplug.bpf.h"
#include "layers/kinds.bpf.h"
#include "layers/load.bpf.h"
#include "layers/move.bpf.h"
#include "layers/second.bpf.h"
#include "layers/turn.bpf.h"
#include "memory/killed.bpf.h"
#include "memory/low.bpf.h"
#include "memory/swap.bpf.h"
#include "memory/relief_tick.bpf.h"
#include "memory/start.bpf.h"
#include "park/request.bpf.h"
#include "state/end.bpf.h"
#include "task/again.bpf.h"
#include "task/demote.bpf.h"
#include "task/exec.bpf.h"
#include "task/owner.bpf.h"
#include "task/reserve.bpf.h"
#include "tree/cgroups.bpf.h"
#include "tree/enqueue.bpf.h"
#include "tree/passing.bpf.h"
#include "tree/recall.bpf.h"
#include "tree/rescue_tick.bpf.h"
#include "tree/run.bpf.h"

char _license[] SEC("license") = "GPL";

/* --- a task comes and goes ------------------------------------------------------------------- */

/*
 * A task is forked, or exists when the scheduler is loaded. What it will need is allocated here,
 * where the kernel may wait for memory and where the fork fails if there is none. Later callbacks
 * can do neither: the task would run in the root domain and without its program's server.
 */
s32 OPS_SLEEPABLE(aplomb_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (tree_on && args->cgroup) {
		struct task_ctx *t =
			bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

		if (!t)
			return -ENOMEM;
		t->domain = slot_of(args->cgroup);
	}
	if (!tree_on && pinned(p)) /* for its clock alone (tree/clock.bpf.h 3) */
		bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (args->fork && reserved_on && !server_fork(p, bpf_get_current_task_btf()))
		return -ENOMEM;
	return 0;
}

/*
 * A task has gone. on_exit has made it leave its server, but not if its fork failed after
 * init_task; nor if the kernel skipped that tracing program, since its CPU was in the middle of the
 * same one: this happens when thousands exit at once.
 */
void OPS(aplomb_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *t = task_ctx(p);

	park_forget(p);
	gate_forget(t);
	if (t)
		landing_forget(t);
	if (t && t->slot)
		task_leave(t);
	fair_leave(t);
}

/* The task comes to our scheduling class. */
void OPS(aplomb_enable, struct task_struct *p)
{
	look_at_callback();
	task_set_vtime(p, first_place(p));
}

/* The task goes to another scheduling class. */
void OPS(aplomb_disable, struct task_struct *p)
{
	struct task_ctx *t = tree_on || gates_used || sessions_used ? task_ctx(p) : NULL;

	park_forget(p);
	gate_forget(t);
	fair_leave(t);
}

/* The affinity of a task changes. A server follows that of its process's leader. */
void OPS(aplomb_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct server *s = server_owned(t);

	if (t) {
		follow_clock(p, t, task_cpu(p));
		recall_set_cpumask(p, t);
	}
	/* a task that may not migrate for a moment has one CPU for that moment: no change */
	if (!s || p->pid != p->tgid || stays(p) || s->info.state != SERVER_ADMITTED)
		return;
	if (!server_within(s, mask))
		server_move(t->slot, p);
}

/* --- it waits -------------------------------------------------------------------------------- */

s32 OPS(aplomb_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct server *s = draws_on(task_ctx_if_any(p));
	bool idle = false;
	s32 cpu;

	/* while its server waits for its next period, it may run wherever there is spare time */
	if (s && s->info.state == SERVER_ADMITTED &&
	    bpf_cpumask_test_cpu(s->info.cpu, p->cpus_ptr) &&
	    (!time_before(bpf_ktime_get_ns(), s->info.edf.start) || throttled(p, s)))
		return s->info.cpu;
	cpu = select_idle(p, prev_cpu, wake_flags, &idle);
	if (idle && !(tree_on && branch(domain_of_task(p))->limited))
		dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, 0);
	return cpu;
}

/*
 * @p's CPU has chosen to be idle, and enqueues @p only now. Wherever @p waits, the CPU looks again.
 * (Linux 7.3 does so by itself if @p goes to the local queue.) But not if @p waits for another CPU,
 * by right of @s: that CPU has been told, and this one would take @p first, on spare time. It would
 * have to give @p back at once, and would take it again: so a split task lost 0.6 ms of its window,
 * and its deadline.
 */
static __always_inline void last_looks_again(struct task_struct *p, const struct server *s,
					     u64 enq_flags)
{
	if ((enq_flags & SCX_ENQ_LAST) && !(s && s->info.cpu != task_cpu(p)))
		scx_bpf_kick_cpu(task_cpu(p), 0);
}

void OPS(aplomb_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_if_any(p);
	/*
	 * For a task with a server select_cpu need not have looked for an idle CPU. That is the
	 * server it had then: domain_draw() may give it another one, or none.
	 */
	bool looked = (enq_flags & SCX_ENQ_CPU_SELECTED) && !draws_on(t);
	s32 claimed = claimed_for(p);

	if (parks_on && park_enqueue(p, enq_flags)) {
		last_looks_again(p, NULL, enq_flags);
		fair_leave(task_ctx(p));
		unclaim(claimed);
		return;
	}
	if (t && domain_servers)
		domain_draw(t);
	if (t && reserved_enqueue(p, t, enq_flags)) {
		last_looks_again(p, draws_on(t), enq_flags);
		tree_not_in(t);
		unclaim(claimed);
		return;
	}
	last_looks_again(p, NULL, enq_flags);
	if (claimed >= 0 && goes_to(p, claimed, enq_flags))
		return;
	/* no other task is there, and dispatch did not let it go on */
	if ((enq_flags & SCX_ENQ_LAST) && !tree_on) {
		dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags);
		return;
	}
	/*
	 * A kernel thread of one CPU does that CPU's own work: it is never delayed when it wakes
	 * up. But if it has a reservation, that says what it has. If it used up a whole slice, it
	 * queues like all tasks; otherwise it could stop the CPU.
	 */
	if ((p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1 && (enq_flags & SCX_ENQ_WAKEUP) &&
	    !interactive_server(t)) {
		dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	fair_enqueue(p, enq_flags, looked);
}

/* --- it runs --------------------------------------------------------------------------------- */

/*
 * No other task is there: @prev, if it is still runnable, goes on. (Without a slice it would be
 * enqueued.) Its queue's virtual time follows it. Otherwise @prev would owe, to a task that comes
 * later, time that no task wanted.
 */
static __always_inline void nothing_waits(struct task_struct *prev, struct cpu_ctx *c)
{
	if (prev) {
		task_set_slice(prev, FAIR_SLICE_NS);
		fair_running(prev, c);
	} else {
		fair_idle(c);
	}
}

/*
 * The CPU chooses its next task. @prev runs still. The order: best-effort work if its turn is due,
 * reserved tasks by deadline, best-effort work, reserved tasks of other CPUs, @prev on spare time.
 */
void OPS(aplomb_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct task_struct *plain = NULL; /* prev, if it is best-effort and could go on */
	u64 deadline = TIME_NEVER;        /* prev's, if it could go on by right */

	catch_up();
	look_at_left_out(c);
	/* it sleeps, is to be held where it landed, or leaves for a CPU of its kind */
	if (prev &&
	    (!(prev->scx.flags & SCX_TASK_QUEUED) || has_landed(prev) || is_leaving(prev, c)))
		prev = NULL;
	if (prev && !c->reserved.slot) {
		settle(prev, cpu, c);
		if (!became_reserved(prev, c))
			plain = prev;
	}
	if (!reserved_on) {
		if (!fair_dispatch(cpu, c, plain))
			nothing_waits(prev, c);
		return;
	}
	/* a task that was sent before, but never came to run, is forgotten here */
	c->reserved.deadline = TIME_NEVER;
	c->next.in_turn = 0;
	if (prev && !plain) {
		reserved_settle(prev, cpu);
		deadline = running_deadline(task_ctx(prev), cpu);
	}
	if (reclaim_wanted(cpu))
		offer_slack(cpu);
	if (deadline != TIME_NEVER || scx_bpf_dsq_nr_queued(DSQ_EDF(cpu))) {
		if (turn_dispatch(cpu, c, plain)) {
			if (nr_cpus > 1)
				help_first(DSQ_EDF(cpu));
			return;
		}
		if (deadline != TIME_NEVER && keep_by_right(prev, cpu, deadline))
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
	nothing_waits(prev && (plain || reserved_continue(prev)) ? prev : NULL, c);
}

/* @p, which has a server or had one when it was queued, begins to run. True: by right. */
static __always_inline bool reserved_run(struct task_struct *p, struct task_ctx *t, u32 cpu,
					 struct cpu_ctx *c)
{
	struct server *s = draws_on(t);
	u32 right = right_end(p, t);

	if (s) {
		c->reserved.slot = t->slot;
		c->reserved.generation = t->generation;
		awake_join(s, t); /* it need not have been enqueued */
	}
	return s && right && right_on(t, cpu) && run_by_right(t, cpu);
}

/* @p begins to run: what dispatch handed over is taken, and the CPU's timer is set for its end. */
void OPS(aplomb_running, struct task_struct *p)
{
	u32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct task_ctx *t = task_ctx_if_any(p);
	struct handover sent = c->next;
	bool held = parks_on && park_running(p, cpu);

	if (held)
		fair_rejoin(p, c);
	if (gates_used)
		gate_runs(p, held);
	help_ends(p, c);
	c->exec_start = p->se.sum_exec_runtime;
	c->reserved.deadline = TIME_NEVER;
	c->reserved.stopped_pid = 0;
	c->reserved.slot = 0;
	c->by_right = 0;
	c->in_turn = sent.in_turn;
	c->tree.rescued = sent.rescued;
	c->exec.busy = 0; /* a tick preempted the one that was; it may wait for long */
	if (tree_on)
		tree_running(p, cpu, held);
	else if (sent.rescued)
		rescue_begin(cpu, c);
	c->next = (struct handover){};
	if (t && reserved_run(p, t, cpu, c)) {
		c->in_turn = 0;
		return;
	}
	if (c->in_turn)
		turn_begin(cpu, c);
	else if (reserved_on && !sent.best_effort)
		yield_to_earlier(cpu, TIME_NEVER);
	if (!sent.rescued) /* it was nowhere near its turn: no virtual time follows it */
		fair_comes(p, c);
}

/* While a task of ours runs: what is due before the next tick? */
void OPS(aplomb_tick, struct task_struct *p)
{
	u32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);

	catch_up();
	look_at_left_out(c);
	if (reserved_on || tree_on)
		cpu_timer_tick(cpu);
	if (parks_on)
		park_tick(p);
	if (cpus_differ)
		kinds_tick(p, cpu, c);
	c->tree.unwanted = 0;
	if (c->tree.wanted)
		guard_ends(p, c);
	if (!rescue_armed)
		rescue_look(c, fair_waiting(cpu));
}

/* @p stops: it is charged. Then it sleeps, or with @runnable it is enqueued. */
void OPS(aplomb_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 ran = p->se.sum_exec_runtime - c->exec_start;

	fair_charge(p, cpu, c, ran, !runnable, c->by_right);
	if (disk_order && !runnable && waits_for_disk(p) && gate_matters(p))
		gate_sleeps(p);
	if (tree_on && !runnable) { /* what is counted from here on is its tail() */
		struct task_ctx *t = task_ctx(p);

		if (t)
			t->charged_to = p->se.sum_exec_runtime;
	}
	if (c->reserved.slot)
		reserved_stop(p, cpu, c, ran, runnable);
	if (reserved_on && !c->by_right)
		background_ran(c, ran);
	if (c->in_turn || c->tree.limited || c->tree.wanted) {
		c->in_turn = 0;
		c->tree.limited = 0;
		cpu_timer_cancel(cpu);
	}
	c->tree.leaf = SLOT_NONE;
	c->reserved.deadline = TIME_NEVER;
	c->reserved.slot = 0;
	c->by_right = 0;
	c->reserved.stopped_pid = runnable ? p->pid : 0;
	if (runnable)
		stop_for_higher_class(p, cpu);
	else
		unclaim(claimed_for(p));
}

/* --- the scheduler comes and goes ------------------------------------------------------------ */

/*
 * The daemon runs this before it attaches the scheduler, until it returns 0. -ENOMEM: some timers
 * are missing yet (layers/load.bpf.h).
 */
SEC("syscall")
int make_timers(void *unused)
{
	long err = TIMER_MADE(governor_timer, 0);

	if (!err)
		err = TIMER_MADE(rescue_timer, 0);
	if (!err)
		err = TIMER_MADE(pass_timer, 0);
	if (!err)
		err = TIMER_MADE(recall_timer, 0);
	if (!err)
		err = TIMER_MADE(relief_timer, 0);
	if (!err)
		err = TIMER_MADE(exec_timer, 0);
	if (!err)
		err = TIMER_MADE(join_timer, 0);
	if (!err)
		err = TIMER_MADE(disk_timer, 0);
	return err ? err : make_many_timers();
}

s32 OPS_SLEEPABLE(aplomb_init)
{
	s32 err;

	if (scx_bpf_nr_cpu_ids() != nr_cpus || nr_cpus > MAX_CPUS)
		return -EINVAL;
	err = scx_bpf_create_dsq(DSQ_FAIR, -1);
	if (!err)
		err = domains_init();
	if (!err)
		err = cpus_init();
	if (!err)
		err = kinds_init();
	if (!err)
		err = servers_init();
	if (!err)
		err = governor_init();
	if (!err)
		err = rescue_init();
	if (!err)
		err = passing_init();
	if (!err)
		err = recall_init();
	if (!err)
		err = relief_init();
	if (!err)
		err = exec_init();
	if (!err)
		err = again_init();
	return err ? err : disk_order_init();
}

void OPS(aplomb_exit, struct scx_exit_info *info)
{
	report_end(info);
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
	 * ENQ_LAST for cbs-hard: a CPU may idle though a task of it would like to run.
	 * ENQ_MIGRATION_DISABLED for cpu.max: a parked task (park/landing.bpf.h) may not migrate,
	 * and the kernel would put it back on its CPU without asking us.
	 * ENQ_EXITING: tasks that exit would wait in the CPU's local queue. With two of them there
	 * it is never empty, so ops.dispatch is not called, and a reserved task waits until they
	 * are gone: for 350 ms, as four tasks of 230 MB were killed.
	 */
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000, /* the longest there is: 2,000 hogs take turns for 8 s */
	.name = "aplomb",
};
