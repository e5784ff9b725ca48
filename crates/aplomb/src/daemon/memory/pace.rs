//! Bounds the CPU time of the looks at programs: with thousands of them the daemon would otherwise
//! compete with the programs that it serves, and keep its clients waiting.

use std::time::{Duration, Instant};

use rustix::time::{clock_gettime, ClockId};

/// After work that took a time, the next waits for so many times that: looks take at most a tenth
/// of one CPU. A look that comes late protects old pages for a little longer, so little is lost.
const REST: u32 = 9;

/// The CPU time of this thread. The time that it waited does not count: while memory is short it
/// waits most, and looks are needed most.
pub fn ran() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// When the next work may begin.
#[derive(Debug, Default)]
pub struct Pace {
    not_before: Option<Instant>,
}

impl Pace {
    /// Work ended at `now`, and took `took` of CPU time.
    pub fn ended(&mut self, now: Instant, took: Duration) {
        self.not_before = now.checked_add(took.saturating_mul(REST));
    }

    /// The time for work that is due at `due`.
    pub fn begin_at(&self, due: Instant) -> Instant {
        self.not_before.map_or(due, |at| at.max(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_a_tenth_of_the_time() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.begin_at(start), start);
        let took = Duration::from_millis(8);
        let (mut now, mut worked) = (start, Duration::ZERO);
        while now < start + Duration::from_secs(10) {
            now = pace.begin_at(now); // there is always work
            now += took;
            worked += took;
            pace.ended(now, took);
        }
        let part = worked.as_secs_f64() / now.duration_since(start).as_secs_f64();
        assert!((0.099..=0.101).contains(&part), "{part}");
        let later = now + Duration::from_secs(1);
        assert_eq!(
            pace.begin_at(later),
            later,
            "what is due later is not moved"
        );
    }
}
