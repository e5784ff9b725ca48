//! What theory says about each model, and what must hold for all of them.

use crate::machine::Machine;
use crate::model::core::Policy;
use crate::model::{Edf, Fit, Model, Server, WHOLE_PPM};
use crate::task::Step;
use crate::workload::{hog, JobLog, Periodic};
use crate::{CpuMask, Reservation, Settings, TaskId};

mod any;
mod edf;
mod fair;
mod fcbs;

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;
/// The beginning of periodic tasks; they have executed their programs before.
const BEGIN: u64 = 100 * MS;

fn machine<P: Policy>(cpus: usize, policy: P) -> Model<P> {
    let settings = Settings {
        cpus,
        traced: true,
        ..Settings::default()
    };
    Model::new(settings, policy)
}

fn edf(cpus: usize, fit: Fit, server: Server) -> Model<Edf> {
    machine(cpus, Edf::new(cpus, fit, server, WHOLE_PPM))
}

fn reservation(runtime: u64, period: u64) -> Reservation {
    Reservation {
        runtime,
        period,
        ..Reservation::default()
    }
}

/// Start a periodic task that reserves `runtime` every `period` and uses `work` of it.
fn periodic(
    m: &mut impl Machine,
    ino: u64,
    work: u64,
    runtime: u64,
    period: u64,
) -> (TaskId, JobLog) {
    m.reserve(ino, reservation(runtime, period));
    let (task, jobs) = Periodic::new(ino, work, period, BEGIN);
    (start(m, task), jobs)
}

/// Start a task with this reservation that never stops from [`BEGIN`] on.
fn greedy(m: &mut impl Machine, ino: u64, runtime: u64, period: u64) -> TaskId {
    m.reserve(ino, reservation(runtime, period));
    let mut before = vec![Step::SleepUntil(BEGIN), Step::Exec(ino)];
    start(m, move |_: u64, _: u64| {
        before.pop().unwrap_or(Step::Run(SEC))
    })
}

fn start(m: &mut impl Machine, program: impl crate::Program + 'static) -> TaskId {
    m.start_with(100, CpuMask::first(crate::MAX_CPUS), Box::new(program))
}
