//! Figures 8 to 12 and 15 to 18: several movies at a time, and the frames that each shows in each
//! second.
//!
//! Each movie begins at a random frame of the trace and at a random time in a period. Counting
//! starts one second after the last movie has begun.

use std::path::PathBuf;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::machine::Scheduler;
use crate::rng::Rng;
use crate::study::settings;
use crate::workload::{Movie, Player, Trace, TraceError};
use crate::{CpuMask, Reservation};

/// Time between the starts of movies, ns.
const APART_NS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Several movies under a scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Show {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// Number of CPUs.
    pub cpus: usize,
    /// Number of movies.
    pub count: u64,
    /// A file, or a name of [`Trace::synthetic`].
    pub trace: PathBuf,
    /// Scale the trace to this mean and this peak, ns.
    pub scale: Option<(u64, Option<u64>)>,
    /// C of each movie's reservation, ns.
    pub runtime_ns: u64,
    /// T of each movie's reservation, and the time between frames, ns.
    pub period_ns: u64,
    /// Frames that are more than this many periods late are dropped.
    pub drop_after: Option<u64>,
    /// Number of endless best-effort tasks.
    pub background: u64,
    /// All movies begin with the first frame, at the same time.
    pub together: bool,
    /// Seed of the random beginnings.
    pub seed: u64,
    /// Number of seconds that are counted.
    pub seconds: usize,
}

/// The result of a show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// See [`Show`].
    pub scheduler: Scheduler,
    /// See [`Show`].
    pub count: u64,
    /// Number of movies that got their reservation.
    pub admitted: u64,
    /// Frames of the worst movie in each second.
    pub worst: Vec<u64>,
    /// Mean over the movies in each second.
    pub mean: Vec<f64>,
    /// Standard deviation over the movies in each second.
    pub deviation: Vec<f64>,
    /// Minimum of `worst`.
    pub worst_second: u64,
    /// Mean frames per second, over all movies and seconds.
    pub mean_fps: f64,
    /// Standard deviation of the frames per second, over all movies and seconds.
    pub deviation_fps: f64,
    /// Frames that were dropped, of all movies.
    pub dropped: u64,
    /// Frames that were late, of all movies.
    pub late: u64,
    /// Migrations of all movies.
    pub migrations: u64,
}

impl Show {
    /// Play the movies, and count their frames.
    ///
    /// # Errors
    /// The trace cannot be read or scaled.
    pub fn play(&self) -> Result<Outcome, TraceError> {
        let mut trace = Trace::read(&self.trace)?;
        if let Some((mean, peak)) = self.scale {
            trace = trace.scaled(mean, peak)?;
        }
        let trace = Rc::new(trace);
        let mut machine = self.scheduler.machine(settings(self.cpus));
        let begin = APART_NS * (self.count + 1);
        let all = CpuMask::first(self.cpus);
        let mut movies = Vec::new();
        for ino in 1..=self.count {
            let mut rng = Rng::stream(self.seed, ino);
            let (from, phase) = if self.together {
                (0, 0)
            } else {
                let from = rng.below(trace.frames().len() as u64);
                (from as usize, rng.below(self.period_ns))
            };
            machine.reserve(
                ino,
                Reservation {
                    runtime: self.runtime_ns,
                    period: self.period_ns,
                    guaranteed: true,
                    ..Reservation::default()
                },
            );
            let (movie, shown, jobs) = Movie::new(Player {
                ino,
                trace: Rc::clone(&trace),
                from,
                period: self.period_ns,
                first: begin + phase,
                drop_after: self.drop_after,
            });
            let id = machine.start_with(100, all, Box::new(movie));
            machine.run_until(APART_NS * ino);
            movies.push((id, shown, jobs));
        }
        let admitted = movies.iter().filter(|(id, ..)| machine.admitted(*id));
        let admitted = admitted.count() as u64;
        for _ in 0..self.background {
            machine.start_with(100, all, Box::new(crate::workload::hog(0)));
        }
        let counted = begin + self.period_ns + SECOND;
        machine.run_until(counted + self.seconds as u64 * SECOND);
        let fps: Vec<Vec<u64>> = movies
            .iter()
            .map(|(_, shown, _)| shown.borrow().per_second(counted, self.seconds))
            .collect();
        let second = |at: usize| fps.iter().map(move |movie| movie[at]);
        let worst: Vec<u64> = (0..self.seconds)
            .map(|at| second(at).min().unwrap_or(0))
            .collect();
        let (mean, deviation) = (0..self.seconds).map(|at| spread(second(at))).unzip();
        let (mean_fps, deviation_fps) = spread(fps.iter().flatten().copied());
        Ok(Outcome {
            scheduler: self.scheduler,
            count: self.count,
            admitted,
            worst_second: worst.iter().copied().min().unwrap_or(0),
            worst,
            mean,
            deviation,
            mean_fps,
            deviation_fps,
            dropped: movies.iter().map(|(_, s, _)| s.borrow().dropped).sum(),
            late: movies.iter().map(|(.., j)| j.borrow().missed).sum(),
            migrations: movies.iter().map(|&(id, ..)| machine.migrations(id)).sum(),
        })
    }
}

/// Mean and standard deviation; 0 if there are no numbers.
fn spread(numbers: impl Iterator<Item = u64> + Clone) -> (f64, f64) {
    let n = numbers.clone().count().max(1) as f64;
    let mean = numbers.clone().sum::<u64>() as f64 / n;
    let squares: f64 = numbers.map(|x| (x as f64 - mean).powi(2)).sum();
    (mean, (squares / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(scheduler: &str, count: u64) -> Show {
        Show {
            scheduler: scheduler.parse().unwrap(),
            cpus: 4,
            count,
            trace: "synthetic-h264".into(),
            scale: None,
            runtime_ns: 25_000_000,
            period_ns: 41_000_000,
            drop_after: None,
            background: 0,
            together: false,
            seed: 1,
            seconds: 20,
        }
    }

    #[test]
    fn spread_is_mean_and_deviation() {
        assert_eq!(spread([2, 4, 6, 8].into_iter()), (5.0, 5f64.sqrt()));
        assert_eq!(spread([].into_iter()), (0.0, 0.0));
    }

    /// A movie alone on a CPU falls behind only if frames in a row are longer than the period.
    #[test]
    fn four_movies_on_four_cpus_are_steady() {
        let seen = show("global-edf-soft", 4).play().unwrap();
        assert!(seen.worst_second >= 23, "{seen:?}");
        assert!((24.2..24.6).contains(&seen.mean_fps), "{seen:?}");
        assert_eq!((seen.admitted, seen.dropped), (4, 0));
    }

    #[test]
    fn many_movies_are_worse_than_few() {
        let seen = show("global-edf-soft", 9).play().unwrap(); // 9 x 23/41 is more than 4 CPUs
        assert!(seen.mean_fps < 20.0, "{seen:?}");
        let refused = show("partitioned-ff", 6).play().unwrap();
        assert_eq!(refused.admitted, 4);
    }
}
