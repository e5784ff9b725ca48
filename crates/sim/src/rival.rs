//! Other CPUs that act in the middle of a callback.
//!
//! The simulator runs one callback at a time. In the kernel two CPUs may look at the same task of a
//! dispatch queue. Between the look of the one and its move of the task, the other may take the
//! task out and put it back. The task then waits in the queue as before, but the kernel refuses the
//! move of the first CPU (`nldsq_cursor_lost_task`, kernel/sched/ext/ext.c).
//!
//! A test can let this happen at random. The other CPU makes a change that alters nothing: the
//! kernel takes a task off its run queue and puts it back for each new nice value, for instance.
//! Or it takes the first task of a reserved queue, or of a lane, to run it.

use std::cell::{Cell, RefCell};

use crate::hotplug::SAVE;
use crate::invariants::{is_lane, is_reserved};
use crate::rng::Rng;
use crate::state::State;
use crate::task::{Place, Task};

/// The state of the other CPUs' interference.
pub(crate) struct Rivals {
    rng: RefCell<Rng>,
    /// One in this many looks at a waiting task meets another CPU; 0: none.
    one_in: Cell<u64>,
    /// A rival is at work. It has no rivals itself.
    at_work: Cell<bool>,
}

impl Rivals {
    pub fn new() -> Self {
        Self {
            rng: RefCell::new(Rng::new(1)),
            one_in: Cell::new(0),
            at_work: Cell::new(false),
        }
    }

    /// From now on one in `one_in` looks at a waiting task meets another CPU; 0: none.
    #[cfg(test)]
    pub fn meet(&self, one_in: u64) {
        self.one_in.set(one_in);
    }

    fn act(&self) -> bool {
        let one_in = self.one_in.get();
        one_in > 0 && !self.at_work.get() && self.rng.borrow_mut().below(one_in) == 0
    }
}

impl State {
    /// This CPU looks at `t`, which waits in a dispatch queue. Perhaps another CPU takes it out
    /// and puts it back. It cannot if `t` is on this CPU's run queue, which is locked.
    pub fn rival(&self, t: &Task) {
        let elsewhere = t.kernel.cpu.get() as usize != self.cpu.get();
        if !elsewhere || !matches!(t.place.get(), Place::Queue(_)) || !self.rivals.act() {
            return;
        }
        if self.rivals.rng.borrow_mut().below(2) == 0 && self.steal(t) {
            return;
        }
        let (cpu, current) = (self.cpu.get(), self.current.get());
        let (insertion, moved) = (self.insertion.take(), self.moved.get());
        self.rivals.at_work.set(true);
        self.enter_cpu(t.kernel.cpu.get() as usize);
        self.sched_change(t, SAVE, || self.ops_set_weight(t));
        self.rivals.at_work.set(false);
        self.cpu.set(cpu);
        self.current.set(current);
        self.insertion.set(insertion);
        self.moved.set(moved);
    }

    /// `t` waits in a queue of one CPU and is the first there: its CPU takes it to run it.
    fn steal(&self, t: &Task) -> bool {
        let Place::Queue(queue) = t.place.get() else {
            return false;
        };
        let first = self.queues.borrow().next(queue, None).map(|(_, id)| id);
        let cpu = t.kernel.cpu.get() as usize;
        let stolen = (is_reserved(queue) || is_lane(queue))
            && first == Some(Self::id(&t.kernel))
            && self.cpus[cpu].is_on()
            && self.move_to_local(queue, cpu);
        if stolen {
            self.resched(cpu);
        }
        stolen
    }
}
