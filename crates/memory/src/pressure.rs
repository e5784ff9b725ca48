//! Pressure stall information: whether tasks wait for memory.
//!
//! Source: Documentation/accounting/psi.rst. A task stalls while it reclaims memory, waits for a
//! page that was given up a moment ago. The kernel does not count a task that aplomb parks for
//! memory, nor most waits for a swapped page (bpf/memory/swap.bpf.h), so [`Waits`] does.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{file, MemoryError};

/// The trigger fires if some task stalled for a tenth of a second within two seconds, at most once
/// in two seconds. Trade: a longer stall costs a film more than three frames; a shorter one wakes
/// the daemon for what no person sees. Another interval would need CAP_SYS_RESOURCE.
const TRIGGER: &str = "some 100000 2000000";
/// The trigger for those that only prepare: 10 ms of half a second, the shortest window that the
/// kernel takes (it needs CAP_SYS_RESOURCE). It is checked ten times in each window.
const EARLY: &str = "some 10000 500000";
/// Tasks of a cgroup wait for memory if some of them stalled for more than this part of the last 10
/// s, in hundredths of a percent: 5 %, half a second.
const WAITS: u32 = 500;

/// The time over which [`WAITS`] is measured.
const WINDOW: Duration = Duration::from_secs(10);
/// From one report of waits to the next, as by [`TRIGGER`]: each makes the daemon read the memory
/// of all programs, and any number of tasks can wait.
const QUIET: Duration = Duration::from_secs(2);

/// For how long interactive tasks were parked for memory, or waited for pages in swap, in the last
/// [`WINDOW`].
#[derive(Debug, Default)]
pub struct Waits {
    since: Option<Instant>,
    sum: Duration,
    reported: Option<Instant>,
}

impl Waits {
    /// They waited for `time` more. True if they wait for memory by that: it is more than the part
    /// of a window that [`waits`] asks for. Then the count begins anew. At most once in [`QUIET`].
    pub fn add(&mut self, time: Duration, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) > WINDOW {
            (self.since, self.sum) = (Some(now), Duration::ZERO);
        }
        self.sum = self.sum.saturating_add(time);
        let quiet = self.reported.is_some_and(|at| now < at + QUIET);
        let waits = !quiet && self.sum > WINDOW * WAITS / 10_000;
        if waits {
            (self.since, self.sum, self.reported) = (None, Duration::ZERO, Some(now));
        }
        waits
    }
}

/// Becomes ready for poll (EPOLLPRI) when tasks of the machine stall. It costs nothing before.
#[derive(Debug)]
pub struct Trigger(File);

impl Trigger {
    /// Arm a trigger by `/proc/pressure/memory`, which is at `path`.
    ///
    /// # Errors
    /// Failed system calls. EOPNOTSUPP: pressure is not accounted (psi=0).
    pub fn arm(path: &Path) -> Result<Self, MemoryError> {
        Self::arm_at(path, TRIGGER)
    }

    /// Arm one that fires earlier.
    ///
    /// # Errors
    /// As [`Trigger::arm`].
    pub fn arm_early(path: &Path) -> Result<Self, MemoryError> {
        Self::arm_at(path, EARLY)
    }

    fn arm_at(path: &Path, trigger: &str) -> Result<Self, MemoryError> {
        let open = File::options().read(true).write(true).open(path);
        let mut file = open.map_err(|e| MemoryError::io(path, "opening it", e))?;
        // The kernel wants the text in one write, with its end.
        let armed = file.write_all(format!("{trigger}\0").as_bytes());
        armed.map_err(|e| MemoryError::io(path, "arming a trigger", e))?;
        Ok(Self(file))
    }
}

impl AsFd for Trigger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// True if tasks of the cgroup at `dir` waited for memory in the last 10 s. False if it has no
/// memory.pressure.
///
/// # Errors
/// Failed system calls; a file of unknown form.
pub fn waits(dir: &Path) -> Result<bool, MemoryError> {
    waits_by(&dir.join("memory.pressure"))
}

/// The same of those that the file at `path` is about, `/proc/pressure/memory` of the machine.
///
/// # Errors
/// As [`waits`].
pub fn waits_by(path: &Path) -> Result<bool, MemoryError> {
    let Some(text) = file::read_if_there(path)? else {
        return Ok(false);
    };
    let stalled = parse_some_avg10(&text);
    let stalled = stalled.ok_or_else(|| MemoryError::state(path, "no line \"some avg10=…\""))?;
    Ok(stalled > WAITS)
}

/// The average over 10 s of the line "some avg10=12.34 avg60=…", in hundredths of a percent.
pub fn parse_some_avg10(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|l| l.strip_prefix("some avg10="))?;
    let (whole, rest) = line.split_once('.')?;
    let cents = rest.get(..2)?;
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(cents) {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    whole.checked_mul(100)?.checked_add(cents.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_count_if_they_take_a_twentieth_of_ten_seconds() {
        let (mut sum, start) = (Waits::default(), Instant::now());
        let (short, second) = (Duration::from_millis(100), Duration::from_secs(1));
        // 100 ms in each 3 s: seldom
        for n in 0..20 {
            assert!(!sum.add(short, start + second * 3 * n));
        }
        let start = start + second * 100;
        let waits: Vec<bool> = (0..12)
            .map(|n| sum.add(short, start + second * n))
            .collect();
        let sixths: Vec<usize> = (0..12).filter(|n| waits[*n]).collect();
        assert_eq!(sixths, [5, 11]);
        // thousands of tasks are parked all the time
        let start = start + second * 100;
        let reports = (0..1000).filter(|n| sum.add(second, start + short * *n / 10));
        assert_eq!(reports.count(), 5, "10 s, one in two");
    }

    #[test]
    fn the_average_is_read() {
        let text = "some avg10=12.34 avg60=0.10 avg300=0.00 total=99\nfull avg10=9.00 x\n";
        assert_eq!(parse_some_avg10(text), Some(1234));
        assert_eq!(parse_some_avg10("some avg10=0.00 avg60=0.00\n"), Some(0));
        for wrong in [
            "",
            "full avg10=1.00",
            "some avg10=1",
            "some avg10=-1.00",
            "some avg10=1.é",
        ] {
            assert_eq!(parse_some_avg10(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn without_pressure_information_the_error_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("memory");
        let e = Trigger::arm(&missing).unwrap_err().to_string();
        assert!(e.contains("/memory: opening it: "), "{e}");
    }

    #[test]
    fn a_cgroup_waits_from_half_a_second_on() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!waits(dir.path()).unwrap());
        let file = dir.path().join("memory.pressure");
        for (text, expected) in [("some avg10=5.00 ", false), ("some avg10=5.01 ", true)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(waits(dir.path()).unwrap(), expected);
        }
        std::fs::write(&file, "none").unwrap();
        let e = waits(dir.path()).unwrap_err().to_string();
        assert!(
            e.ends_with("memory.pressure: no line \"some avg10=…\""),
            "{e}"
        );
    }
}
