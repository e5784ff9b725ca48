//! Random task sets, as in Kato, Ishikawa and Rajkumar, section 7.1.

use crate::rng::Rng;

/// A periodic task whose deadlines are its periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicTask {
    /// C, ns.
    pub work: u64,
    /// T, ns.
    pub period: u64,
}

/// The distribution of task sets.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// C/T of a task, ppm: uniformly from the first to the second.
    pub range_ppm: (u64, u64),
    /// Sum of all C/T, ppm of one CPU.
    pub total_ppm: u64,
}

/// Shortest and longest period, us.
const PERIOD_US: (u64, u64) = (1_000, 100_000);
/// The last task is left out if less work than this is left for it, ns.
const LEAST_WORK_NS: u64 = 1_000;

impl Recipe {
    /// The set of a seed. Tasks are added until the total is reached; the last one gets the rest.
    /// Periods are whole microseconds, uniformly from 1 to 100 ms.
    pub fn draw(&self, seed: u64) -> Vec<PeriodicTask> {
        let mut rng = Rng::new(seed);
        let mut left = self.total_ppm;
        let mut tasks = Vec::new();
        while left > 0 {
            let share = rng.between(self.range_ppm.0.max(1), self.range_ppm.1);
            let share = share.min(left).min(1_000_000);
            left -= share;
            let period = 1000 * rng.between(PERIOD_US.0, PERIOD_US.1);
            let work = period / 1000 * share / 1000;
            if work >= LEAST_WORK_NS {
                tasks.push(PeriodicTask { work, period });
            }
        }
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_their_total_and_their_range() {
        let recipe = Recipe {
            range_ppm: (500_000, 1_000_000),
            total_ppm: 3_000_000,
        };
        let mut periods = Vec::new();
        for seed in 0..200 {
            let set = recipe.draw(seed);
            assert_eq!(set, recipe.draw(seed));
            let share = |t: &PeriodicTask| t.work as f64 / t.period as f64;
            let sum: f64 = set.iter().map(share).sum();
            assert!((2.99999..=3.0).contains(&sum), "{sum}");
            let (_, others) = set.split_last().unwrap();
            assert!(others.iter().all(|t| (0.4999..=1.0).contains(&share(t))));
            periods.extend(set.iter().map(|t| t.period));
        }
        let mean = periods.iter().sum::<u64>() as f64 / periods.len() as f64 / 1e6;
        assert!((48.0..53.0).contains(&mean), "{mean} ms");
        assert!(periods
            .iter()
            .all(|t| (1_000_000..=100_000_000).contains(t)));
        assert_ne!(recipe.draw(1), recipe.draw(2));
    }
}
