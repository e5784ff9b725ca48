//! `sched_yield` between the threads of a program that has a reservation (bpf/layers/turn.bpf.h).

use std::cell::Cell;
use std::rc::Rc;

use super::{reserve, MS, SEC};
use crate::workload::hog;
use crate::{Program, Simulation, Step};

use super::cgroups::machine;

const WORK: u64 = MS / 100;

/// Two threads in turn wait for each other: each works for 10 us in its turn, else it yields.
struct Waiter {
    turn: Rc<Cell<u64>>,
    handed: Rc<Cell<u64>>,
    vain: Rc<Cell<u64>>,
    me: u64,
    first: Vec<Step>,
}

impl Program for Waiter {
    fn next(&mut self, _now: u64, _ran: u64) -> Step {
        if let Some(step) = self.first.pop() {
            return step;
        }
        if self.turn.get() != self.me {
            self.vain.set(self.vain.get() + 1);
            return Step::Yield;
        }
        self.turn.set(1 - self.me);
        self.handed.set(self.handed.get() + 1);
        Step::Run(WORK)
    }

    fn child(&mut self, which: u64) -> Box<dyn Program> {
        Box::new(Waiter {
            turn: self.turn.clone(),
            handed: self.handed.clone(),
            vain: self.vain.clone(),
            me: which,
            first: vec![Step::Run(1)],
        })
    }
}

/// Starts the two threads, beside 12 hogs. Returns the hand-offs and the yields in a second.
fn hand_offs(sim: &mut Simulation) -> (u64, u64) {
    let counter = || Rc::new(Cell::new(0));
    let (turn, handed, vain) = (counter(), counter(), counter());
    sim.start(Waiter {
        turn,
        handed: handed.clone(),
        vain: vain.clone(),
        me: 0,
        first: vec![Step::Thread(1), Step::Run(MS), Step::Exec(7)],
    });
    (0..12).for_each(|_| {
        sim.start(hog(0));
    });
    sim.run_until(SEC);
    let before = (handed.get(), vain.get());
    sim.run_until(2 * SEC);
    (handed.get() - before.0, vain.get() - before.1)
}

#[test]
fn threads_of_one_server_hand_the_cpu_to_each_other() {
    let mut sim = machine(1);
    sim.spec(7, reserve(50 * MS, 100 * MS));
    let (handed, yields) = hand_offs(&mut sim);
    // half of the time is theirs by right, 10 us for each
    assert!(handed >= SEC / 2 / WORK * 95 / 100, "{handed}");
    assert!(yields <= handed + handed / 20, "{yields} for {handed}");
}
