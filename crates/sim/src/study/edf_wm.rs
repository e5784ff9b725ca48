//! The test of EDF-WM on paper: Kato, Ishikawa and Rajkumar, section 5 (Kato, Yamasaki and Ishikawa 2009), with
//! worst-fit as in 5.2.
//!
//! A task goes whole to the CPU with the least load of those that have room for it; else, for n = 2 up to all CPUs,
//! in windows of T/n to the n CPUs with the most room, if that is enough. Room is by the whole demand bound: what
//! is due in any L ns, sum C' (floor((L - D)/T) + 1) over what is there, may not exceed L (Baruah, Rosier and
//! Howell 1990). The paper looks at the deadlines of tasks only, and lets in sets that miss.
//!
//! It shares nothing with the scheduler's own admission (`bpf/policy/wmr.h`), which counts eight steps of each
//! staircase and goes on with a line: it is what that one is compared with, and never has less room.
//!
//! How far to look: until the staircases repeat (the periods' least common multiple), or from where on the line over
//! them, sum C'/T (L - D + T), is below L. If neither is before [`FAR_NS`], room is what keeps the line below
//! L from there on. That is the only place where this test has less than the demand bound says: of a task of
//! 100 ms at most 0.1 ms for each window that is there.

use std::cmp::Reverse;

use crate::study::taskset::PeriodicTask;

/// Up to here each step is counted, ns: 1000 of the longest periods of the study.
const FAR_NS: u64 = 100_000_000_000;
/// Parts of a CPU.
const WHOLE: u128 = 1_000_000_000_000_000;

/// What has to be done within `window`, once in `period`, ns: a task, or its share of one window.
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

    /// C' (T - D)/T: by so much the line over the staircase is above `load` L, in parts of 1 ns, rounded up.
    fn above(&self) -> u128 {
        let early = u128::from(self.period - self.window);
        (u128::from(self.work) * early * WHOLE).div_ceil(u128::from(self.period))
    }
}

/// What one CPU has to do.
#[derive(Clone, Debug, Default)]
struct Cpu {
    shares: Vec<Share>,
}

impl Cpu {
    fn load(&self) -> u128 {
        self.shares.iter().map(Share::load).sum()
    }

    /// The most work that there is room for within `window` ns, once in `period` ns.
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

    /// Of `period` ns, what the loads leave. Each is rounded down, so that three thirds are a whole; all that is
    /// less than a thousandth of a ns.
    fn rest(&self, period: u64) -> u64 {
        let taken = |s: &Share| u128::from(s.work) * WHOLE / u128::from(s.period);
        let taken: u128 = self.shares.iter().map(taken).sum();
        (WHOLE.saturating_sub(taken) * u128::from(period) / WHOLE) as u64
    }

    /// The least common multiple of all periods, and one more since windows end within the first: demand that has not
    /// been too much by then never is, if loads add up to a CPU at most. None: it is far.
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

    /// From here on the line is below L.
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

/// Does EDF-WM vouch for the set on so many CPUs?
pub(super) fn edf_wm(tasks: &[PeriodicTask], cpus: usize) -> bool {
    let mut cpus = vec![Cpu::default(); cpus];
    tasks.iter().all(|task| place(&mut cpus, task))
}

/// Enter a task where there is room; false: there is none.
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
