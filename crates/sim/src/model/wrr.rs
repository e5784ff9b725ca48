//! Weighted round-robin, with one queue for all CPUs. The task at the head runs for a quantum in
//! proportion to its weight, then goes to the tail. A task that sleeps loses the rest of its
//! quantum. A task that was preempted (by a reserved task, see `edf.rs`) goes to the head with the
//! rest.

use std::collections::VecDeque;

use crate::model::core::{Core, Policy};
use crate::task::TaskId;
use crate::Reservation;

/// Quantum for each unit of weight, ns: 10 ms at nice 0, whose weight is 100.
const QUANTUM_NS: u64 = 100_000;

/// See the file's header.
#[derive(Default)]
pub struct Wrr {
    queue: VecDeque<TaskId>,
    /// The rest of each task's quantum, ns.
    left: Vec<u64>,
}

impl Wrr {
    fn renew(&mut self, core: &Core, id: TaskId) {
        self.left[id] = u64::from(core.tasks[id].weight.max(1)) * QUANTUM_NS;
    }
}

impl Policy for Wrr {
    fn new_task(&mut self, core: &mut Core, id: TaskId) {
        self.left.push(0);
        self.renew(core, id);
    }

    fn exec(&mut self, _: &mut Core, _: TaskId, _: Option<Reservation>) -> bool {
        false
    }

    fn wake(&mut self, core: &mut Core, id: TaskId) {
        self.renew(core, id);
        self.queue.push_back(id);
    }

    fn put(&mut self, core: &mut Core, id: TaskId) {
        if self.left[id] > 0 {
            self.queue.push_front(id);
        } else {
            self.wake(core, id);
        }
    }

    fn sleep(&mut self, _: &mut Core, _: TaskId) {}

    fn exit(&mut self, _: &mut Core, _: TaskId) {}

    fn pick(&mut self, core: &mut Core, cpu: usize) -> Option<TaskId> {
        let may = |&id: &TaskId| core.tasks[id].allowed.has(cpu);
        let at = self.queue.iter().position(may)?;
        self.queue.remove(at)
    }

    fn rival(&self, core: &Core, id: TaskId) -> Option<usize> {
        core.idle_for(id)
    }

    fn charge(&mut self, _: &Core, id: TaskId, ran: u64) {
        self.left[id] -= ran;
    }

    fn limit(&self, _: &Core, id: TaskId) -> u64 {
        self.left[id]
    }

    fn alarm(&mut self, _: &mut Core, _: u64) -> Option<TaskId> {
        None
    }
}
