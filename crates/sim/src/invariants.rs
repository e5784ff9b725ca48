//! What must hold after every event. Each check panics with the time and what is wrong.
//!
//! | invariant | check |
//! |---|---|
//! | a runnable task is in exactly one place, where it says it is, and may be there | `no_task_is_lost` |
//! | a task is in one cgroup, which is there and counts it | `cgroups_have_their_tasks` |
//! | a CPU that has gone has nothing, and nothing waits for it | `who_has_gone_has_nothing` |
//! | no CPU is idle while a task that may run there waits | `no_idle_cpu_is_wanted` |
//! | nobody waits for ever; reserved work leaves some time to best-effort work | `nobody_starves`, `best_effort_progresses` |
//! | a server runs by right no longer than its budget | `no_budget_is_overrun` |
//! | virtual times do not go back | `virtual_time_goes_on` |
//! | who is admitted fits, by the numbers that admission gives | `told` |

use crate::host::{self, CpuView};
use crate::kfuncs::Event;
use crate::state::{Cpu, Power, State};
use crate::task::{Place, Task, TaskId};

/// Queues of bpf/state/state.bpf.h and tree/tree.bpf.h: DSQ_FAIR, and the first of DSQ_EDF, DSQ_PINNED and DSQ_DOMAIN.
const FAIR: u64 = 1;
const EDF: u64 = 0x1_0000;
const PINNED: u64 = 0x2_0000;
/// Queues of each CPU from there.
const LANES: u64 = 32;
const DOMAIN: u64 = 0x4_0000;
/// `DOMAIN_SLOTS` of bpf/intf.h.
const DOMAINS: u64 = 8192;
/// `EV_ADMITTED` of bpf/intf.h.
const ADMITTED: u32 = 3;

/// Beside what timers and kicks are late: the shortest time that a budget's timer is set for
/// (`reserved_running`), ns.
const BUDGET_BOUND_NS: u64 = 1_000;
/// Best-effort work keeps 1 - R_max of every window of so long (bpf/policy/background.h), ns.
const BACKGROUND_WINDOW_NS: u64 = 100_000_000;

/// What the checks remember from event to event.
#[derive(Default)]
pub(crate) struct Invariants {
    seen: Vec<u8>,
    fair_now: u64,
    cpus: Vec<Before>,
}

/// The run that goes on, as it began.
#[derive(Clone, Copy, Default)]
struct Run {
    /// The task's CPU time, ns.
    exec_start: u64,
    /// What had been executed on this CPU.
    execs: u32,
    /// What was left of the server's budget, ns.
    budget: i64,
}

#[derive(Clone, Copy, Default)]
struct Before {
    pinned_now: u64,
    run: Run,
    /// The task that waits while this CPU is idle, and since when it does.
    wanted: Option<(TaskId, u64)>,
    /// Since when nothing but reserved work has run here while best-effort work waited for this CPU, ns.
    denied_since: Option<u64>,
}

impl Invariants {
    pub fn check(&mut self, s: &State) {
        self.cpus.resize(s.cpus.len(), Before::default());
        self.no_task_is_lost(s);
        for (cpu, c) in s.cpus.iter().enumerate() {
            let view = host::cpu_view(cpu);
            who_has_gone_has_nothing(s, cpu, c);
            self.no_idle_cpu_is_wanted(s, cpu, c);
            self.no_budget_is_overrun(s, cpu, c, &view);
            self.virtual_time_goes_on(s, cpu, &view);
            self.best_effort_progresses(s, cpu, c, &view);
        }
        nobody_starves(s);
        cgroups_have_their_tasks(s);
    }

    fn no_task_is_lost(&mut self, s: &State) {
        let seen = &mut self.seen;
        seen.clear();
        seen.resize(s.tasks.len(), 0);
        let now = s.now.get();
        let mut at = |id: TaskId, place: Place| {
            seen[id] += 1;
            let said = s.tasks[id].place.get();
            assert!(
                said == place,
                "{now} ns: task {id} is in {place:?} and says {said:?}"
            );
        };
        for (cpu, c) in s.cpus.iter().enumerate() {
            c.curr
                .get()
                .into_iter()
                .for_each(|id| at(id, Place::Running(cpu)));
            c.local
                .borrow()
                .iter()
                .for_each(|&id| at(id, Place::Local(cpu)));
        }
        s.queues
            .borrow()
            .all()
            .for_each(|(queue, id)| at(id, Place::Queue(queue)));
        let mut runnable = vec![0; s.cpus.len()];
        for (id, t) in s.tasks.iter().enumerate() {
            let place = t.place.get();
            assert_eq!(
                self.seen[id],
                u8::from(t.runnable()),
                "{now} ns: task {id} ({place:?}) is lost, or twice"
            );
            if let Place::Running(cpu) | Place::Local(cpu) = place {
                assert!(
                    t.allowed().has(cpu),
                    "{now} ns: task {id} may not be on CPU {cpu}"
                );
            }
            if t.runnable() {
                runnable[t.kernel.cpu.get() as usize] += 1;
            }
        }
        let counted: Vec<_> = s.cpus.iter().map(|c| c.runnable.get()).collect();
        assert_eq!(counted, runnable, "{now} ns: runnable tasks, by CPU");
    }

    /// Work conservation, of all queues that any CPU may serve. A CPU on which a choice is under way is not idle for long.
    /// Not of local queues, which the kernel lets nobody else serve; nor of those whom `cpu.max` holds back.
    fn no_idle_cpu_is_wanted(&mut self, s: &State, cpu: usize, c: &Cpu) {
        let wanted = &mut self.cpus[cpu].wanted;
        if c.curr.get().is_some() || c.resched.get() || !c.on() {
            *wanted = None;
            return;
        }
        let now = s.now.get();
        let waits = |t: &Task| {
            let queued = match t.place.get() {
                Place::Queue(FAIR) => true,
                Place::Queue(queue) => {
                    (EDF..EDF + crate::MAX_CPUS as u64).contains(&queue)
                        || (PINNED..PINNED + crate::MAX_CPUS as u64 * LANES).contains(&queue)
                        || (DOMAIN..DOMAIN + DOMAINS).contains(&queue)
                }
                _ => false,
            };
            queued && t.allowed().has(cpu) && !host::held_back(&t.kernel)
        };
        let still = wanted.filter(|&(id, _)| waits(&s.tasks[id]));
        *wanted = still.or_else(|| Some((s.tasks.iter().position(waits)?, now)));
        if let Some((id, since)) = *wanted {
            assert!(
                now - since <= crate::IDLE_BOUND_NS,
                "{now} ns: CPU {cpu} is idle, and task {id} waits in {:?} since {since} at least",
                s.tasks[id].place.get()
            );
        }
    }

    fn virtual_time_goes_on(&mut self, s: &State, cpu: usize, view: &CpuView) {
        let before = &mut self.cpus[cpu];
        let back = |before: u64, now: u64| (now.wrapping_sub(before) as i64) < 0;
        assert!(
            !back(self.fair_now, view.fair_now) && !back(before.pinned_now, view.pinned_now),
            "{} ns, CPU {cpu}: virtual time goes back",
            s.now.get()
        );
        self.fair_now = view.fair_now;
        before.pinned_now = view.pinned_now;
    }

    /// By so much as timer and kick are late, and no more. Of what the run began with: while it goes on, another
    /// thread that was sent before may be charged (an exec elsewhere moves the run under way to the new server).
    fn no_budget_is_overrun(&mut self, s: &State, cpu: usize, c: &Cpu, view: &CpuView) {
        let run = &mut self.cpus[cpu].run;
        if run.exec_start != view.exec_start || view.by_right == 0 {
            *run = Run {
                exec_start: view.exec_start,
                execs: c.execs.get(),
                budget: view.budget,
            };
        }
        // what it ran before an exec is charged to the new budget, and paid back if that is too much
        let same_program = run.execs == c.execs.get();
        let Some(id) = c.curr.get().filter(|_| view.by_right == 1 && same_program) else {
            return;
        };
        let counted = s.tasks[id].kernel.sum_exec_runtime.get();
        let ran = counted + (s.now.get() - c.counted_to.get()) - view.exec_start;
        let over = ran as i64 - run.budget.max(view.budget);
        assert!(
            over <= (late(s) + BUDGET_BOUND_NS) as i64,
            "{} ns: task {id} on CPU {cpu} is {over} ns past the budget of its server ({} every {} ns)",
            s.now.get(),
            view.runtime,
            view.period
        );
    }

    /// Reserved work may have R_max of a window, so at most twice that in a row; what it runs on spare time,
    /// and what was under way when the turn came, ends with a slice, at a tick.
    fn best_effort_progresses(&mut self, s: &State, cpu: usize, c: &Cpu, view: &CpuView) {
        let now = s.now.get();
        let wanted = s.settings.r_max_ppm < 1_000_000
            && view.by_right == 1
            && lanes(cpu).chain([FAIR]).any(|queue| {
                let head = s.queues.borrow().next(queue, None);
                head.is_some_and(|(_, id)| s.tasks[id].allowed().has(cpu))
            });
        let since = &mut self.cpus[cpu].denied_since;
        if !wanted || c.curr.get().is_none() {
            *since = None;
            return;
        }
        let began = *since.get_or_insert(now);
        let bound = 2 * BACKGROUND_WINDOW_NS + s.settings.tick_ns + late(s);
        assert!(
            now - began < bound,
            "{now} ns: CPU {cpu} has run nothing but reserved work since {began} ns"
        );
    }
}

/// The queues of `cpu` for those who may not run everywhere.
fn lanes(cpu: usize) -> impl Iterator<Item = u64> {
    let first = PINNED + cpu as u64 * LANES;
    first..first + LANES
}

/// How late the end of a budget may be: the timer, and the kick that it sends.
fn late(s: &State) -> u64 {
    s.settings.timer_late_ns + s.settings.kick_ns
}

fn who_has_gone_has_nothing(s: &State, cpu: usize, c: &Cpu) {
    if c.on() {
        return;
    }
    let now = s.now.get();
    assert!(
        c.curr.get().is_none(),
        "{now} ns: CPU {cpu} has gone, and runs {:?}",
        c.curr.get()
    );
    assert!(
        c.power.get() == Power::Leaving || c.local.borrow().is_empty(),
        "{now} ns: CPU {cpu} has gone, and tasks are in its local queue"
    );
    for queue in lanes(cpu).chain([EDF + cpu as u64]) {
        if let Some((_, id)) = s.queues.borrow().next(queue, None) {
            let waits = now - s.tasks[id].waits_since.get();
            assert!(
                waits < crate::IDLE_BOUND_NS,
                "{now} ns: CPU {cpu} has gone, and task {id} of CPU {} waits in its queue {queue:#x} since {} (allowed {:?}, {})",
                s.tasks[id].kernel.cpu.get(), s.tasks[id].waits_since.get(), s.tasks[id].allowed(), s.tasks[id].kernel.nr_cpus_allowed.get()
            );
        }
    }
}

/// The kernel's own patience (its watchdog).
const PATIENCE_NS: u64 = 30_000_000_000;

/// Two slices of every task that may be before it, and a debt; and no more than the kernel bears.
fn nobody_starves(s: &State) {
    let waiting = s.tasks.iter().filter(|t| t.runnable()).count() as u64;
    // best-effort work may have a tenth of the CPU only
    let bound = (5_000_000_000 + waiting * 2 * 8_000_000) * 10;
    let bound = bound.min(PATIENCE_NS);
    for (id, t) in s.tasks.iter().enumerate() {
        if let Place::Queue(..) | Place::Local(_) = t.place.get() {
            let waits = s.now.get() - t.kernel.scx.runnable_at.get() * s.settings.tick_ns;
            assert!(
                waits < bound,
                "{} ns: task {id} has waited for {waits} ns in {:?}",
                s.now.get(),
                t.place.get()
            );
        }
    }
}

/// And none is left between two after a move.
fn cgroups_have_their_tasks(s: &State) {
    let now = s.now.get();
    let mut tasks: Vec<u32> = s.cgroups.iter().map(|_| 0).collect();
    for (id, t) in s.tasks.iter().enumerate() {
        if t.place.get() == Place::Gone {
            continue;
        }
        let (of, group) = (s.cgroup_of(t), s.group_of(t));
        assert!(
            of.is_there() && of.id() == group.id(),
            "{now} ns: task {id} is in cgroup {}, with the task group of {}",
            of.id(),
            group.id()
        );
        tasks[of.id()] += 1;
    }
    for (c, tasks) in s.cgroups.iter().zip(tasks) {
        assert_eq!(c.tasks(), tasks, "{now} ns: tasks of cgroup {}", c.id());
    }
}

/// Admission says what load it saw, what it expected, and what it added; the sum is below R_hi (Redline,
/// section 6.1).
pub(crate) fn told(s: &State, event: &Event) {
    if event.kind == ADMITTED {
        let sum = event.a.max(event.b) + event.c;
        assert!(
            sum < s.settings.r_hi_ppm,
            "{} ns: pid {} was admitted to CPU {} at {sum} ppm",
            s.now.get(),
            event.pid,
            event.cpu
        );
    }
}
