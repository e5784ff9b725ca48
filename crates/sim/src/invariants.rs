//! What must hold after every event. Each check panics with the time and the violation.
//!
//! | check | invariant |
//! |---|---|
//! | `no_task_is_lost` | a runnable task is in one place only, `place`, and may be there |
//! | `cgroups_count_their_tasks` | a task is in one cgroup, which exists and counts it |
//! | `offline_cpus_have_no_tasks` | an offline CPU has no task, and no task waits for it |
//! | `no_cpu_idles_while_a_task_waits` | work conservation |
//! | `tasks_wait_as_the_scheduler_knows` | a task has the right and the count of its queue |
//! | `no_task_starves` | no task waits longer than a bound |
//! | `best_effort_progresses` | reserved work leaves time to best-effort work |
//! | `no_budget_is_overrun` | a server runs on its budget no longer than the budget lasts |
//! | `virtual_time_is_monotonic` | virtual times do not go back |
//! | `admission_fits` | an admitted task fits, by the numbers that admission reports |

use crate::host::{self, CpuView};
use crate::kfuncs::SchedulerEvent;
use crate::queue::GLOBAL;
use crate::state::{Cpu, Power, State};
use crate::task::{Place, Task, TaskId};

/// Queues of bpf/state/ and bpf/tree/: DSQ_FAIR, and the first of DSQ_EDF, DSQ_PINNED and
/// DSQ_DOMAIN.
const FAIR: u64 = 1;
const EDF: u64 = 0x1_0000;
const THROTTLED: u64 = 0x3_0000;
const PINNED: u64 = 0x2_0000;
/// Number of queues of each CPU, from PINNED on: one for each lane.
const LANES: u64 = 32;
const DOMAIN: u64 = 0x4_0000;
/// `DOMAIN_SLOTS` of bpf/intf.h.
const DOMAINS: u64 = 8192;
/// `EV_ADMITTED` of bpf/intf.h.
const ADMITTED: u32 = 3;

/// The shortest time for which a budget's timer is set (`reserved_running`), ns. A budget may end
/// late by this time, and by the delays of the timer and the kick.
const BUDGET_BOUND_NS: u64 = 1_000;
/// Best-effort work keeps 1 - R_max of every interval of this length (bpf/policy/background.h), ns.
const BACKGROUND_WINDOW_NS: u64 = 100_000_000;

/// What the checks keep from event to event.
#[derive(Default)]
pub(crate) struct Invariants {
    seen: Vec<u8>,
    fair_now: u64,
    cpus: Vec<Before>,
}

/// The values at the beginning of a CPU's current run.
#[derive(Clone, Copy, Default)]
struct Run {
    /// The task's CPU time, ns.
    exec_start: u64,
    /// Number of exec calls on this CPU.
    execs: u32,
    /// The rest of the server's budget, ns.
    budget: i64,
    /// By what right the task runs (`enum right`).
    by_right: u32,
}

#[derive(Clone, Copy, Default)]
struct Before {
    pinned_now: u64,
    run: Run,
    /// A task that waits while this CPU is idle, and the time at which this began, ns.
    wanted: Option<(TaskId, u64)>,
    /// Since this time, ns, only reserved work has run here while best-effort work waited for this
    /// CPU.
    denied_since: Option<u64>,
}

impl Invariants {
    pub fn check(&mut self, s: &State) {
        self.cpus.resize(s.cpus.len(), Before::default());
        self.no_task_is_lost(s);
        for (cpu, c) in s.cpus.iter().enumerate() {
            let view = host::cpu_view(cpu);
            offline_cpus_have_no_tasks(s, cpu, c);
            self.no_cpu_idles_while_a_task_waits(s, cpu, c);
            self.no_budget_is_overrun(s, cpu, c, &view);
            self.virtual_time_is_monotonic(s, cpu, &view);
            self.best_effort_progresses(s, cpu, c, &view);
        }
        no_task_starves(s);
        tasks_wait_as_the_scheduler_knows(s);
        cgroups_count_their_tasks(s);
    }

    fn no_task_is_lost(&mut self, s: &State) {
        let seen = &mut self.seen;
        seen.clear();
        seen.resize(s.tasks.len(), 0);
        let now = s.now.get();
        let mut at = |id: TaskId, place: Place| {
            seen[id] += 1;
            let own = s.tasks[id].place.get();
            assert!(
                own == place,
                "{now} ns: task {id} is in {place:?}, but its place is {own:?}"
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

    /// Work conservation for all queues that any CPU may serve. A CPU that is about to pick does
    /// not count as idle, nor does one that a higher scheduling class has. Tasks in local queues
    /// count for their own CPU only, since no other one may take them; tasks of throttled domains
    /// do not count.
    fn no_cpu_idles_while_a_task_waits(&mut self, s: &State, cpu: usize, c: &Cpu) {
        let wanted = &mut self.cpus[cpu].wanted;
        let now = s.now.get();
        let taken = now < c.taken_until.get();
        if c.curr.get().is_some() || c.resched.get() || !c.is_on() || taken {
            *wanted = None;
            return;
        }
        let waits = |t: &Task| {
            let queued = match t.place.get() {
                Place::Queue(FAIR) => true,
                Place::Local(here) => here == cpu,
                Place::Queue(queue) => {
                    (EDF..EDF + crate::MAX_CPUS as u64).contains(&queue)
                        || is_lane(queue)
                        || (DOMAIN..DOMAIN + DOMAINS).contains(&queue)
                }
                _ => false,
            };
            queued && t.allowed().has(cpu) && !host::throttled(&t.kernel)
        };
        let still = wanted.filter(|&(id, _)| waits(&s.tasks[id]));
        *wanted = still.or_else(|| Some((s.tasks.iter().position(waits)?, now)));
        if let Some((id, since)) = *wanted {
            let place = s.tasks[id].place.get();
            // A domain's next quota comes by a timer.
            let late = match place {
                Place::Queue(q) if (DOMAIN..DOMAIN + DOMAINS).contains(&q) => late(s),
                _ => 0,
            };
            assert!(
                now - since <= crate::IDLE_BOUND_NS + late,
                "{now} ns: CPU {cpu} is idle, and task {id} waits in {:?} since {since} at least",
                s.tasks[id].place.get()
            );
        }
    }

    fn virtual_time_is_monotonic(&mut self, s: &State, cpu: usize, view: &CpuView) {
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

    /// A budget is overrun at most by the delays of the timer and the kick. The run is compared
    /// with the budget at its beginning. During the run the budget may shrink, because another
    /// thread is charged to the same server: an exec on another CPU moves the current run there to
    /// the new server.
    fn no_budget_is_overrun(&mut self, s: &State, cpu: usize, c: &Cpu, view: &CpuView) {
        let run = &mut self.cpus[cpu].run;
        // two new tasks, one after the other, both begin at an exec_start of 0
        if run.exec_start != view.exec_start || run.by_right != view.by_right {
            *run = Run {
                exec_start: view.exec_start,
                by_right: view.by_right,
                execs: c.execs.get(),
                budget: view.budget,
            };
        }
        // the run's time before an exec is charged to the new budget, too, and the overrun is paid
        // back in later periods; so a run with an exec is not checked
        let same_program = run.execs == c.execs.get();
        let Some(id) = c.curr.get().filter(|_| view.by_right == 1 && same_program) else {
            return;
        };
        let counted = s.tasks[id].kernel.sum_exec_runtime.get();
        let ran = counted + (s.now.get() - c.counted_to.get()) - view.exec_start;
        let over = ran as i64 - run.budget.max(view.budget);
        assert!(
            over <= (late(s) + BUDGET_BOUND_NS) as i64,
            "{} ns: task {id} on CPU {cpu} overruns its budget by {over} ns ({} every {} ns)",
            s.now.get(),
            view.runtime,
            view.period
        );
    }

    /// Reserved work may use R_max of each interval: at the end of one and the beginning of the
    /// next, so at most twice R_max in a row. A reserved task that runs on spare time, or that was
    /// running when best-effort work became due, stops at a tick when its slice ends.
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
            "{now} ns: CPU {cpu} has run only reserved work since {began} ns"
        );
    }
}

/// The queues of `cpu` for pinned tasks.
fn lanes(cpu: usize) -> impl Iterator<Item = u64> {
    let first = PINNED + cpu as u64 * LANES;
    first..first + LANES
}

/// How late the end of a budget may be: the timer, and the kick that it sends.
fn late(s: &State) -> u64 {
    s.settings.timer_late_ns + s.settings.kick_ns
}

fn offline_cpus_have_no_tasks(s: &State, cpu: usize, c: &Cpu) {
    if c.is_on() {
        return;
    }
    let now = s.now.get();
    assert!(
        c.curr.get().is_none(),
        "{now} ns: CPU {cpu} is not online, but runs {:?}",
        c.curr.get()
    );
    assert!(
        c.power.get() == Power::Leaving || c.local.borrow().is_empty(),
        "{now} ns: CPU {cpu} is offline, but tasks are in its local queue"
    );
    for queue in lanes(cpu).chain([EDF + cpu as u64]) {
        if let Some((_, id)) = s.queues.borrow().next(queue, None) {
            let waits = now - s.tasks[id].waits_since.get();
            assert!(
                waits < crate::IDLE_BOUND_NS,
                "{now} ns: CPU {cpu} is not online, but task {id} has waited for {waits} ns in its \
                 queue {queue:#x} (allowed {:?})",
                s.tasks[id].allowed()
            );
        }
    }
}

/// Time after which the kernel's watchdog ends the scheduler, ns.
const PATIENCE_NS: u64 = 30_000_000_000;

/// A task waits at most for two slices of every runnable task, and for its own debt of virtual
/// time. In no case it waits longer than the kernel's watchdog allows.
fn no_task_starves(s: &State) {
    let waiting = s.tasks.iter().filter(|t| t.runnable()).count() as u64;
    // 5 s of debt, two slices of 8 ms; 10 times longer, as best-effort work may get a tenth of a
    // CPU
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

/// Is this a queue of tasks that wait by right of a reservation?
pub(crate) fn is_reserved(queue: u64) -> bool {
    (EDF..EDF + crate::MAX_CPUS as u64).contains(&queue)
}

/// Is this a lane of a CPU?
pub(crate) fn is_lane(queue: u64) -> bool {
    (PINNED..PINNED + crate::MAX_CPUS as u64 * LANES).contains(&queue)
}

/// By a task's right the CPU that runs it knows whose time that is, and finds its virtual time
/// again. Dispatch takes a task out of a domain's queue only if it is counted there.
fn tasks_wait_as_the_scheduler_knows(s: &State) {
    let cpus = crate::MAX_CPUS as u64;
    for (id, t) in s.tasks.iter().enumerate() {
        let wait = host::wait(&t.kernel);
        let (has_right, by_deadline) = (wait.right != 0, wait.by_deadline != 0);
        let holds = match t.place.get() {
            // in the global queue too it is on its way to a CPU
            Place::Local(_) | Place::Queue(GLOBAL) => has_right || !by_deadline,
            Place::Queue(queue) => {
                let reserved = is_reserved(queue) || (THROTTLED..THROTTLED + cpus).contains(&queue);
                let of_domain = (DOMAIN..DOMAIN + DOMAINS).contains(&queue);
                has_right == reserved && by_deadline == reserved && (wait.counted != 0) == of_domain
            }
            _ => true,
        };
        let now = s.now.get();
        assert!(
            holds,
            "{now} ns: task {id} is in {:x?}: {wait:?}",
            t.place.get()
        );
    }
}

/// A task's cgroup is also its task group's cgroup, so no move is left incomplete.
fn cgroups_count_their_tasks(s: &State) {
    let now = s.now.get();
    let mut tasks: Vec<u32> = s.cgroups.iter().map(|_| 0).collect();
    for (id, t) in s.tasks.iter().enumerate() {
        if t.place.get() == Place::Exited {
            continue;
        }
        let (of, group) = (s.cgroup_of(t), s.group_of(t));
        assert!(
            of.is_online() && of.id() == group.id(),
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

/// Admission reports the load that it measured (a), the load that it expects (b), and the load of
/// the new task (c). max(a, b) + c is below R_hi (Redline, section 6.1).
pub(crate) fn admission_fits(s: &State, event: &SchedulerEvent) {
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
