//! What must hold after every event.

use crate::state::State;
use crate::task::{Place, TaskId};

/// Panics with what is wrong: each runnable task is in exactly one place, where it says it is, and may be
/// there; and no CPU is idle, with nothing on its way, while a task that may run there waits.
pub(crate) fn check(s: &State) {
    let tasks = s.tasks.borrow();
    let mut seen = vec![0u32; tasks.len()];
    let mut at = |id: TaskId, place: Place| {
        seen[id] += 1;
        let said = tasks[id].place;
        let same = match (said, place) {
            (Place::Queue(a, _), Place::Queue(b, _)) => a == b,
            (a, b) => a == b,
        };
        assert!(
            same,
            "{} ns: task {id} is in {place:?} and says {said:?}",
            s.now.get()
        );
    };
    for (cpu, c) in s.cpus.borrow().iter().enumerate() {
        c.curr.iter().for_each(|&id| at(id, Place::Running(cpu)));
        c.local.iter().for_each(|&id| at(id, Place::Local(cpu)));
    }
    s.queues
        .borrow()
        .all()
        .for_each(|(queue, id)| at(id, Place::Queue(queue, (0, 0))));
    for (id, t) in tasks.iter().enumerate() {
        let expected = u32::from(!matches!(t.place, Place::Asleep | Place::Gone));
        assert_eq!(
            seen[id],
            expected,
            "{} ns: task {id} ({:?}) is lost, or twice",
            s.now.get(),
            t.place
        );
        if let Place::Running(cpu) | Place::Local(cpu) = t.place {
            assert!(
                t.allowed.has(cpu),
                "{} ns: task {id} may not be on CPU {cpu}",
                s.now.get()
            );
        }
    }
    no_idle_cpu_is_wanted(s);
    nobody_starves(s);
}

/// Two slices of every task that may be before it, a debt, and the kernel's own patience (its watchdog: 30 s).
fn nobody_starves(s: &State) {
    let tasks = s.tasks.borrow();
    let waiting = tasks
        .iter()
        .filter(|t| !matches!(t.place, Place::Asleep | Place::Gone))
        .count() as u64;
    // best-effort work may have a tenth of the CPU only
    let bound = (5_000_000_000 + waiting * 2 * 8_000_000) * 10;
    for (id, t) in tasks.iter().enumerate() {
        if let Place::Queue(..) | Place::Local(_) = t.place {
            let waits = s.now.get() - t.waits_since;
            assert!(
                waits < bound,
                "{} ns: task {id} has waited for {waits} ns in {:?}",
                s.now.get(),
                t.place
            );
        }
    }
}

/// The machine's fair queue, DSQ_FAIR of bpf/state.bpf.h.
const FAIR: u64 = 1;

/// Work conservation, of the machine's fair queue. A CPU on which a choice is under way is not idle for long.
///
/// Best-effort tasks only, for now: a reserved task that is preempted waits for its own CPU, and one that is
/// moved to the fair queue (`head_is_eligible`) waits for whoever chooses next; in neither case is an idle CPU
/// kicked. Nor of local queues, which the kernel lets nobody else serve. These waits end with the budget, or
/// the slice, of who is before them.
fn no_idle_cpu_is_wanted(s: &State) {
    let tasks = s.tasks.borrow();
    for (cpu, c) in s.cpus.borrow().iter().enumerate() {
        if c.curr.is_some() || c.resched {
            continue;
        }
        let waits = |t: &crate::task::Task| {
            matches!(t.place, Place::Queue(FAIR, _))
                && t.kernel.bpf_storage.is_null()
                && t.allowed.has(cpu)
                && s.now.get() - t.waits_since > crate::IDLE_BOUND_NS
                && s.now.get() - c.idle_since.unwrap_or(s.now.get()) > crate::IDLE_BOUND_NS
        };
        if let Some(id) = tasks.iter().position(|t| waits(t)) {
            panic!(
                "{} ns: CPU {cpu} is idle since {:?}, and task {id} waits in {:?}",
                s.now.get(),
                c.idle_since,
                tasks[id].place
            );
        }
    }
}
