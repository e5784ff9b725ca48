//! The growth buffer: memory that is freed ahead of an interactive program which starts or grows
//! while memory is short. Theory: bpf/policy/reserve.h (4).
//!
//! The kernel side reports when an interactive program waits for a page. Then, and when one starts
//! while tasks of the machine wait for memory, the daemon moves the kernel's watermarks apart
//! (vm.watermark_scale_factor), and says which part of their distance is the buffer. It looks once
//! a second whether interactive programs still take pages below `low`, and moves the watermarks
//! back when none did for [`CALM`]. While memory is there, nothing wakes it.
//!
//! ```text
//! closed --- a program waits, or starts ---> open --- for 15 s ---> shut
//!   ^                                        |  ^                   |  |
//!   +--------------- calm for 3 s -----------+  +--- 15 s later ----+  |
//!   +--------------- calm for 3 s -------------------------------------+
//! ```
//!
//! Until it is calm, only tasks that ask for huge pages get any (`huge_pages`). A page fault that
//! takes one is 512 pages at once, down to `min`, and wakes no reclaimer: four best-effort tasks,
//! each parked after each such fault, took all that the kernel freed, and a program that started
//! waited for three seconds.
//!
//! Trade: while it is open, best-effort tasks that need memory get next to none, and the buffer's
//! worth of their pages is in swap that might be in memory. A program that grows without end would
//! make that last. So the buffer is open for 15 s at a time at most.

use std::path::Path;
use std::time::{Duration, Instant};

use aplomb_kernel::Kernel;
use aplomb_memory::pressure;
use tracing::{debug, warn};

use super::huge_pages;
use super::machine::{wanted_scale, MAX_SCALE, SCALE_FACTOR};
use super::{Memory, PRESSURE};

const LOOK: Duration = Duration::from_secs(1);
const CALM: Duration = Duration::from_secs(3);
/// The buffer is open for so long at a time, and then shut for as long. Trade: with less, the start
/// of a large program is not over; with more, a program that grows without end holds up the others.
const LONGEST: Duration = Duration::from_secs(15);
/// At most this part of the machine's memory is the buffer.
const LARGEST_PART: u64 = 16;

/// The settings of the watermarks, and whether they are apart.
#[derive(Debug)]
pub struct GrowthBuffer {
    /// vm.watermark_scale_factor otherwise. None: as it was before the daemon started.
    normal: Option<u64>,
    raised: u64,
    /// The part of the distance of the watermarks that is the buffer, ppm.
    ppm: u32,
    growing: Option<Growing>,
    /// It may not open before.
    shut_until: Option<Instant>,
}

/// While interactive programs take pages below `low`.
#[derive(Debug)]
struct Growing {
    /// How often they had at the last look.
    asked: u64,
    /// When they last did.
    last: Instant,
    look: Instant,
    /// Since when the buffer is open. None: it is shut.
    open: Option<Instant>,
}

/// What a look finds.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    AsBefore,
    /// It has been open for long.
    Shut,
    /// No program grows any more.
    Calm,
}

impl GrowthBuffer {
    /// `bytes`: its size; `total`: the machine's memory. `scale`: the factor that is in force,
    /// and `normal` if the daemon has set it. None: there is no buffer.
    pub fn new(bytes: u64, total: u64, scale: u64, normal: Option<u64>) -> Option<Self> {
        let more = wanted_scale(bytes.min(total / LARGEST_PART), total);
        let raised = (scale + more).min(MAX_SCALE);
        let part = raised.saturating_sub(scale) * 1_000_000 / raised.max(1);
        (part > 0).then_some(Self {
            normal,
            raised,
            ppm: u32::try_from(part).ok()?,
            growing: None,
            shut_until: None,
        })
    }

    /// When to look next; None while no program grows.
    pub fn deadline(&self) -> Option<Instant> {
        self.growing.as_ref().map(|g| g.look)
    }

    /// A program waits for a page, or starts; `asked` as in [`Growing`]. Returns whether the
    /// watermarks are to be moved apart.
    fn waits(&mut self, asked: u64, now: Instant) -> bool {
        let growing = self.growing.get_or_insert(Growing {
            asked,
            last: now,
            look: now + LOOK,
            open: None,
        });
        (growing.asked, growing.last) = (asked, now);
        if growing.open.is_some() || self.shut_until.is_some_and(|until| now < until) {
            return false;
        }
        growing.open = Some(now);
        true
    }

    /// A look at `now`.
    fn look(&mut self, asked: u64, now: Instant) -> Found {
        let Some(growing) = &mut self.growing else {
            return Found::AsBefore;
        };
        if asked != growing.asked {
            (growing.asked, growing.last) = (asked, now);
        }
        growing.look = now + LOOK;
        if now.saturating_duration_since(growing.last) >= CALM {
            self.growing = None;
            return Found::Calm;
        }
        let long = |since: &mut Instant| now.saturating_duration_since(*since) >= LONGEST;
        if growing.open.take_if(long).is_none() {
            return Found::AsBefore;
        }
        self.shut_until = Some(now + LONGEST);
        Found::Shut
    }

    fn is_open(&self) -> bool {
        self.growing.as_ref().is_some_and(|g| g.open.is_some())
    }
}

impl Memory {
    /// An interactive program starts.
    pub fn starts(&mut self, now: Instant, kernel: &mut dyn Kernel) {
        if self.growth.is_none() {
            return;
        }
        match pressure::waits_by(Path::new(PRESSURE)) {
            Ok(true) => self.open_growth_buffer(now, kernel),
            Ok(false) => {}
            Err(e) => debug!("{e}"), // psi=0: when the program waits
        }
    }

    /// An interactive program waits for a page.
    pub(super) fn open_growth_buffer(&mut self, now: Instant, kernel: &mut dyn Kernel) {
        let asked = asked(kernel);
        let Some(growth) = &mut self.growth else {
            return;
        };
        if growth.waits(asked, now) {
            let (raised, ppm) = (growth.raised, growth.ppm);
            // First the watermarks: a buffer without them would be taken from the reserve.
            if !self.set_knob(SCALE_FACTOR, Some(&raised.to_string())) {
                self.growth = None;
                return;
            }
            kernel.set_growth_buffer(ppm);
            if let Some(value) = huge_pages::restrained() {
                self.set_knob(huge_pages::ENABLED, Some(value));
            }
        }
    }

    /// The look that is due, if one is.
    pub(super) fn look_at_growth(&mut self, now: Instant, kernel: &mut dyn Kernel) {
        let due = |h: &&mut GrowthBuffer| h.deadline().is_some_and(|at| at <= now);
        let Some(growth) = self.growth.as_mut().filter(due) else {
            return;
        };
        let found = growth.look(asked(kernel), now);
        // the kernel side may have been loaded again
        kernel.set_growth_buffer(if growth.is_open() { growth.ppm } else { 0 });
        let normal = growth.normal.map(|n| n.to_string());
        if found != Found::AsBefore {
            self.set_knob(SCALE_FACTOR, normal.as_deref());
        }
        if found == Found::Calm {
            self.set_knob(huge_pages::ENABLED, None);
        }
    }

    /// Set a knob; None: as it was before the daemon started. Returns whether it is set.
    fn set_knob(&mut self, knob: &str, value: Option<&str>) -> bool {
        let Some(protector) = &mut self.protector else {
            return false;
        };
        match protector.set_knob(Path::new(knob), value) {
            Ok(()) => true,
            Err(e) if e.is_vanished() => false, // a kernel without huge pages
            Err(e) => {
                warn!("no growth buffer for interactive programs: {e}");
                false
            }
        }
    }
}

/// How often interactive tasks took pages below `low` so far.
fn asked(kernel: &dyn Kernel) -> u64 {
    let counts = kernel.memory_counts().unwrap_or_default();
    let of = counts.iter().find(|c| c.class == "interactive");
    of.map_or(0, |c| c.asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn it_is_a_part_of_the_distance() {
        // 8 of 768 MB are 105; 48 (a sixteenth) are 625
        let small = GrowthBuffer::new(64 * MB, 768 * MB, 105, Some(105)).unwrap();
        assert_eq!((small.raised, small.ppm), (730, 856_164));
        // 10 of 10,000 are 64 MB of 64 GB already
        let large = GrowthBuffer::new(64 * MB, 64 << 30, 10, None).unwrap();
        assert_eq!((large.raised, large.ppm), (20, 500_000));
        assert!(GrowthBuffer::new(0, 768 * MB, 105, None).is_none());
        assert!(GrowthBuffer::new(MB, 768 * MB, 3000, None).is_none());
        assert!(
            GrowthBuffer::new(MB, 0, 10, None).is_none(),
            "no memory is known"
        );
    }

    #[test]
    fn it_lasts_while_programs_grow() {
        let mut growth = GrowthBuffer::new(64 * MB, 768 * MB, 105, None).unwrap();
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        assert_eq!(growth.deadline(), None, "nothing wakes the daemon");
        assert!(growth.waits(7, start));
        assert!(!growth.waits(8, start), "they are apart already");
        assert_eq!(growth.deadline(), Some(at(1)));
        assert_eq!(growth.look(9, at(1)), Found::AsBefore, "it grows");
        assert_eq!(growth.look(9, at(2)), Found::AsBefore);
        assert_eq!(growth.look(9, at(3)), Found::AsBefore);
        assert_eq!(
            growth.look(9, at(4)),
            Found::Calm,
            "3 s after the last page"
        );
        assert_eq!(growth.deadline(), None);
        assert!(growth.waits(10, at(9)));
    }

    #[test]
    fn a_program_that_grows_without_end_has_it_half_of_the_time() {
        let mut growth = GrowthBuffer::new(64 * MB, 768 * MB, 105, None).unwrap();
        let start = Instant::now();
        let mut open = 0;
        for second in 0..600 {
            let now = start + Duration::from_secs(second);
            growth.waits(second, now);
            assert_ne!(growth.look(second, now), Found::Calm);
            open += u32::from(growth.is_open());
        }
        assert!((280..=310).contains(&open), "{open} of 600 s");
        let end = start + Duration::from_secs(600) + CALM;
        assert_eq!(growth.look(599, end), Found::Calm);
        assert_eq!(growth.deadline(), None);
    }
}
