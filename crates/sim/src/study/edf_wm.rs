//! The analytic test of EDF-WM: Kato, Ishikawa and Rajkumar, section 5 (Kato, Yamasaki and Ishikawa
//! 2009), with worst-fit as in 5.2.
//!
//! A task goes whole to the CPU with the least load among those with room for it. If there is none,
//! it is split for n = 2 up to all CPUs: into windows of T/n on the n CPUs with the most room, if
//! that is enough. Room is by the demand bound: the work due in any L ns, the sum of
//! C' (floor((L - D)/T) + 1) over all shares of the CPU, may not exceed L (Baruah, Rosier and
//! Howell 1990). The paper checks the deadlines of the tasks only, and accepts sets that miss.
//!
//! This test shares no code with the scheduler's admission (`bpf/policy/wmr.h`), which counts eight
//! steps of each demand staircase and goes on with a line. `edf_wm/tests.rs` compares the two: this
//! test never finds less room.
//!
//! The check ends where the staircases repeat (the periods' least common multiple), or where the
//! line above them, sum C'/T (L - D + T), is below L from then on. If both are beyond [`FAR_NS`],
//! room is limited so that the line is below L from there on. Only then this test has less room
//! than the demand bound: for a task of 100 ms at most 0.1 ms less for each window on the CPU.

use std::cmp::Reverse;

use crate::study::taskset::PeriodicTask;

/// Each step is counted up to here, ns: 1000 times the longest period of the study.
const FAR_NS: u64 = 100_000_000_000;
/// Loads are in units of 1/WHOLE of a CPU.
const WHOLE: u128 = 1_000_000_000_000_000;

/// Work that has to be done within `window`, once in each `period`, ns: a task, or its share of one
/// window.
#[derive(Clone, Copy, Debug)]
struct Share {
    work: u64,
    window: u64,
    period: u64,
}

impl Share {
    /// C'/T, in parts of [`WHOLE`], rounded up.
    fn load(&self) -> u128 {
        (u128::from(self.work) * WHOLE).div_ceil(u128::from(self.period))
    }

    /// C' (T - D)/T: how much the line above the staircase is above `load` L, in parts of [`WHOLE`]
    /// of 1 ns, rounded up.
    fn above(&self) -> u128 {
        let early = u128::from(self.period - self.window);
        (u128::from(self.work) * early * WHOLE).div_ceil(u128::from(self.period))
    }
}

/// The shares of one CPU.
#[derive(Clone, Debug, Default)]
struct Cpu {
    shares: Vec<Share>,
}

impl Cpu {
    fn load(&self) -> u128 {
        self.shares.iter().map(Share::load).sum()
    }

    /// The room: the most work that may be added within `window` ns, once in each `period` ns.
    fn room(&self, period: u64, window: u64) -> u64 {
        let windowed = self.shares.iter().any(|s| s.window < s.period);
        if window == period && !windowed {
            return self.rest(period);
        }
        let cycle = self.cycle(period);
        let work = match cycle {
            Some(_) => self.rest(period),
            None => self.under_the_line(period, window),
        };
        let mut new = Share {
            work,
            window,
            period,
        };
        let far = |new: &Share| self.far(new).min(cycle.unwrap_or(FAR_NS));
        let mut end = far(&new);
        let mut steps: Vec<(u64, Share)> = self.shares.iter().map(|s| (s.window, *s)).collect();
        let (mut due, mut own, mut jobs) = (0, window, 0);
        loop {
            let at = steps.iter().fold(own, |at, step| at.min(step.0));
            if at > end || new.work == 0 {
                return new.work;
            }
            for (next, share) in steps.iter_mut().filter(|step| step.0 == at) {
                due += share.work;
                *next += share.period;
            }
            if own == at {
                jobs += 1;
                own += period;
            }
            if jobs > 0 && jobs * new.work + due > at {
                new.work = at.saturating_sub(due) / jobs;
                end = far(&new);
            }
        }
    }

    /// The part of `period` that the loads leave, ns. Each load is rounded down, so that three
    /// thirds are at most one CPU. The error is less than a thousandth of a ns.
    fn rest(&self, period: u64) -> u64 {
        let taken = |s: &Share| u128::from(s.work) * WHOLE / u128::from(s.period);
        let taken: u128 = self.shares.iter().map(taken).sum();
        (WHOLE.saturating_sub(taken) * u128::from(period) / WHOLE) as u64
    }

    /// Twice the least common multiple of all periods, because windows end within the first. If the
    /// demand was not too much until then, it never is, provided that the loads are at most one
    /// CPU. None: it is beyond [`FAR_NS`].
    fn cycle(&self, period: u64) -> Option<u64> {
        let mut periods = self.shares.iter().map(|s| s.period);
        let cycle = periods.try_fold(period, |cycle, p| {
            let next = cycle / divisor(cycle, p) * p;
            (next <= FAR_NS / 2).then_some(next)
        });
        cycle.map(|cycle| 2 * cycle)
    }

    /// The most work with which the line is below L at [`FAR_NS`], and so from there on.
    fn under_the_line(&self, period: u64, window: u64) -> u64 {
        let above: u128 = self.shares.iter().map(Share::above).sum();
        let free = WHOLE.saturating_sub(self.load()) * u128::from(FAR_NS);
        let room = free.saturating_sub(above) / u128::from(FAR_NS + period - window);
        (room * u128::from(period) / WHOLE) as u64
    }

    /// The time from which on the line is below L, ns.
    fn far(&self, new: &Share) -> u64 {
        let shares = || self.shares.iter().chain([new]);
        let free = WHOLE.saturating_sub(shares().map(Share::load).sum());
        let above: u128 = shares().map(Share::above).sum();
        above.checked_div(free).map_or(FAR_NS, |far| {
            u64::try_from(far + 1).unwrap_or(FAR_NS).min(FAR_NS)
        })
    }
}

/// Greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        divisor(b, a % b)
    }
}

/// Is the set schedulable by EDF-WM on this number of CPUs?
pub(super) fn edf_wm(tasks: &[PeriodicTask], cpus: usize) -> bool {
    let mut cpus = vec![Cpu::default(); cpus];
    tasks.iter().all(|task| place(&mut cpus, task))
}

/// Place a task. False: there is no room.
fn place(cpus: &mut [Cpu], task: &PeriodicTask) -> bool {
    let &PeriodicTask { work, period } = task;
    let share = |work, window| Share {
        work,
        window,
        period,
    };
    let whole = cpus
        .iter_mut()
        .filter(|cpu| cpu.room(period, period) >= work);
    if let Some(cpu) = whole.min_by_key(|cpu| cpu.load()) {
        cpu.shares.push(share(work, period));
        return true;
    }
    for n in 2..=cpus.len() {
        let window = period / n as u64;
        let mut rooms: Vec<(u64, usize)> = (0..cpus.len())
            .map(|cpu| (cpus[cpu].room(period, window), cpu))
            .collect();
        rooms.sort_by_key(|&(room, cpu)| (Reverse(room), cpu));
        rooms.truncate(n);
        if rooms.iter().map(|r| r.0).sum::<u64>() >= work {
            let mut left = work;
            for (room, cpu) in rooms {
                let part = room.min(left);
                left -= part;
                if part > 0 {
                    cpus[cpu].shares.push(share(part, window));
                }
            }
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
