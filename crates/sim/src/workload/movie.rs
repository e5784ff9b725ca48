//! A movie player.
//!
//! Frame i can be decoded from first + i P on. The player decodes one frame after the other. It
//! shows each frame P after that time, or when it is decoded if that is later. This is what mplayer
//! does: it sleeps until a frame is due, shows it, and begins to decode the next. A late frame is
//! followed by the next at once, so a player that is behind shows more than one frame in P until it
//! has caught up.
//!
//! A frame whose decoding would begin more than N periods late is dropped: neither decoded nor
//! shown. (mplayer's -hardframedrop does so after 100 ms, about three frames. Without that option
//! mplayer drops no frame.)

use std::cell::RefCell;
use std::rc::Rc;

use crate::task::{Program, Step};
use crate::workload::{JobLog, Jobs, Trace};

/// The frames that a movie showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The time of each shown frame, ns, in order.
    pub times: Vec<u64>,
    /// Number of frames that were not shown.
    pub dropped: u64,
}

impl Shown {
    /// Number of frames in each second, from `from` ns on.
    pub fn per_second(&self, from: u64, seconds: usize) -> Vec<u64> {
        let mut frames = vec![0; seconds];
        for at in self.times.iter().filter(|&&at| at >= from) {
            if let Some(count) = frames.get_mut(((at - from) / 1_000_000_000) as usize) {
                *count += 1;
            }
        }
        frames
    }
}

/// The settings of a player.
#[derive(Clone, Debug)]
pub struct Player {
    /// The program that the player executes first (0: none).
    pub ino: u64,
    /// CPU time of the frames.
    pub trace: Rc<Trace>,
    /// The first frame, as an index into the trace.
    pub from: usize,
    /// Time between frames, ns.
    pub period: u64,
    /// The time from which the first frame can be decoded, ns.
    pub first: u64,
    /// Frames that are more than this many periods late are dropped; None: no frame is dropped.
    pub drop_after: Option<u64>,
}

/// See the file's header.
pub struct Movie {
    player: Player,
    frame: usize,
    release: u64,
    busy: bool,
    shown: Rc<RefCell<Shown>>,
    jobs: JobLog,
}

impl Movie {
    /// The task, its shown frames, and its frames as jobs with deadline P (a dropped frame misses
    /// it).
    pub fn new(player: Player) -> (Self, Rc<RefCell<Shown>>, JobLog) {
        let shown = Rc::new(RefCell::new(Shown::default()));
        let jobs = Rc::new(RefCell::new(Jobs {
            due: player.first + player.period,
            ..Jobs::default()
        }));
        let movie = Self {
            frame: player.from,
            release: player.first,
            busy: false,
            shown: Rc::clone(&shown),
            jobs: Rc::clone(&jobs),
            player,
        };
        (movie, shown, jobs)
    }

    fn decoded(&mut self, now: u64) {
        let due = self.release + self.player.period;
        self.shown.borrow_mut().times.push(now.max(due));
        let mut jobs = self.jobs.borrow_mut();
        jobs.response.push(now - self.release);
        jobs.missed += u64::from(now > due);
    }

    fn next_frame(&mut self) {
        self.frame += 1;
        self.release += self.player.period;
        self.jobs.borrow_mut().due = self.release + self.player.period;
    }
}

impl Program for Movie {
    fn next(&mut self, now: u64, _: u64) -> Step {
        if self.player.ino != 0 {
            return Step::Exec(std::mem::take(&mut self.player.ino));
        }
        if std::mem::replace(&mut self.busy, false) {
            self.decoded(now);
            self.next_frame();
        }
        let patience = self.player.drop_after.map(|n| n * self.player.period);
        while patience.is_some_and(|patience| now > self.release + patience) {
            self.shown.borrow_mut().dropped += 1;
            self.jobs.borrow_mut().missed += 1;
            self.next_frame();
        }
        if now < self.release {
            return Step::SleepUntil(self.release);
        }
        self.busy = true;
        Step::Run(self.player.trace.frame(self.frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Play a movie with these frames and a period of 1 ms alone on a CPU until `end`.
    fn play(frames: &str, drop_after: Option<u64>, end: u64) -> (Shown, Jobs) {
        let player = Player {
            ino: 0,
            trace: Rc::new(Trace::parse(Path::new("t"), frames).unwrap()),
            from: 0,
            period: 1_000_000,
            first: 0,
            drop_after,
        };
        let (mut movie, shown, jobs) = Movie::new(player);
        let mut now = 0;
        while now < end {
            match movie.next(now, 0) {
                Step::SleepUntil(at) => now = at,
                Step::Run(ns) => now += ns,
                step => panic!("{step:?}"),
            }
        }
        let (shown, jobs) = (shown.borrow().clone(), jobs.borrow().clone());
        (shown, jobs)
    }

    #[test]
    fn frames_in_time_are_shown_when_they_are_due() {
        let (shown, jobs) = play("200000\n900000\n", None, 4_000_000);
        assert_eq!(shown.times[..3], [1_000_000, 2_000_000, 3_000_000]);
        assert_eq!(jobs.missed, 0);
    }

    #[test]
    fn a_late_frame_is_shown_late_and_the_next_one_at_once() {
        let (shown, jobs) = play("1500000\n300000\n300000\n300000\n", None, 4_000_000);
        assert_eq!(shown.times[..3], [1_500_000, 2_000_000, 3_000_000]);
        assert_eq!((jobs.missed, jobs.response[1]), (1, 800_000));
    }

    #[test]
    fn a_player_that_is_far_behind_drops_frames_if_drop_after_is_set() {
        let frames = "3500000\n300000\n300000\n300000\n300000\n300000\n";
        let (shown, jobs) = play(frames, Some(2), 5_000_000);
        // frame 1 could begin 2.5 periods late; frame 2 begins 1.5 late, and the third is in time
        assert_eq!(shown.dropped, 1);
        assert_eq!(shown.times[..3], [3_500_000, 3_800_000, 4_100_000]);
        assert_eq!(jobs.missed, 4, "frames 0, 1, 2 and 3, which is 0.1 late");
        assert_eq!(play(frames, None, 5_000_000).0.dropped, 0);
    }

    #[test]
    fn seconds_are_counted_from_the_given_time() {
        let shown = Shown {
            times: vec![0, 400_000_000, 500_000_000, 1_600_000_000, 9_000_000_000],
            dropped: 0,
        };
        assert_eq!(shown.per_second(500_000_000, 3), [1, 1, 0]);
    }
}
