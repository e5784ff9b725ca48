//! The CPU time of each frame of a movie, as recorded from a player: CSV, one frame a line.
//!
//! ```text
//! # mplayer, 1920x800 H.264, recorded in the lab
//! 23100000
//! 18400000
//! ```

use std::path::{Path, PathBuf};

use crate::rng::Rng;

/// Most frames of a trace; a file with more is refused.
const MAX_FRAMES: usize = 10_000_000;
/// Least CPU time of a frame after scaling, ns.
const LEAST_NS: u64 = 1_000;
/// Greatest CPU time of a frame in a file, ns; a file with more is refused.
const MOST_NS: u64 = 3_600_000_000_000;

/// What is wrong with a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// A line that is not a time in ns.
    #[error("{0}:{1}: \"{2}\": a line is the CPU time of a frame: 1 to {MOST_NS} ns")]
    Line(PathBuf, usize, String),
    /// No frames, or too many.
    #[error("{0}: {1} frames; 1 to {MAX_FRAMES}")]
    Frames(PathBuf, usize),
    /// Scaling cannot reach this mean and this peak.
    #[error(
        "mean {0} ns, peak {1} ns: the peak must be more than the mean, and the frames must differ"
    )]
    Scale(u64, u64),
}

/// CPU time of each frame, ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace(Vec<u64>);

impl Trace {
    /// Read a file, or generate a trace if `path` is a name of [`Trace::synthetic`].
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        if let Some(trace) = path.to_str().and_then(|name| Self::synthetic(name, 1)) {
            return Ok(trace);
        }
        let text = std::fs::read_to_string(path).map_err(|e| TraceError::Read(path.into(), e))?;
        Self::parse(path, &text)
    }

    /// Parse the text of the file `path`.
    ///
    /// # Errors
    /// As [`Trace::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, TraceError> {
        let mut frames = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let time = line.parse().ok().filter(|ns| (1..=MOST_NS).contains(ns));
            frames.push(time.ok_or_else(|| TraceError::Line(path.into(), number, line.into()))?);
        }
        if !(1..=MAX_FRAMES).contains(&frames.len()) {
            return Err(TraceError::Frames(path.into(), frames.len()));
        }
        Ok(Self(frames))
    }

    /// CPU time of frame `number`, ns. After the last frame the trace begins again.
    pub fn frame(&self, number: usize) -> u64 {
        self.0[number % self.0.len()]
    }

    /// All frames, ns; at least one.
    pub fn frames(&self) -> &[u64] {
        &self.0
    }

    /// Mean, ns, rounded down.
    pub fn mean(&self) -> u64 {
        let sum: u128 = self.0.iter().map(|&ns| u128::from(ns)).sum();
        (sum / self.0.len() as u128) as u64
    }

    /// Maximum, ns.
    pub fn peak(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// The trace of a slower or faster machine. x becomes mean + (x - old mean) (peak - mean) /
    /// (old peak - old mean), so that mean and peak are as given. A frame that would get less than
    /// 1 us gets 1 us; then the mean is a little greater. Without `peak` x becomes x mean / old
    /// mean.
    ///
    /// # Errors
    /// [`TraceError::Scale`], if the peak is not above the mean, or all frames cost the same.
    pub fn scaled(&self, mean: u64, peak: Option<u64>) -> Result<Self, TraceError> {
        let (old_mean, old_peak) = (self.mean(), self.peak());
        let map: Box<dyn Fn(u64) -> i128> = match peak {
            None => {
                Box::new(move |x| i128::from(x) * i128::from(mean) / i128::from(old_mean.max(1)))
            }
            Some(peak) if peak > mean && old_peak > old_mean => Box::new(move |x| {
                let off = i128::from(x) - i128::from(old_mean);
                i128::from(mean) + off * i128::from(peak - mean) / i128::from(old_peak - old_mean)
            }),
            Some(peak) => return Err(TraceError::Scale(mean, peak)),
        };
        let at_least = |ns: i128| ns.clamp(i128::from(LEAST_NS), i128::from(u64::MAX)) as u64;
        Ok(Self(self.0.iter().map(|&x| at_least(map(x))).collect()))
    }

    /// Generate a trace of five minutes. "synthetic-h264": groups of 12 frames (one I, three P,
    /// eight B) in scenes of different activity, mean 23 ms and peak 45 ms, as in figure 6 of Kato
    /// and others. "synthetic-raw": frames that hardly differ, mean 8.3 ms and peak 9.5 ms, as in
    /// their figure 7. None: there is no such name.
    pub fn synthetic(name: &str, seed: u64) -> Option<Self> {
        const FRAMES: usize = 24 * 300;
        let mut rng = Rng::new(seed);
        let (frames, mean, peak): (Vec<u64>, _, _) = match name {
            "synthetic-h264" => {
                let mut scene = 1000;
                let frame = |number: usize| {
                    if rng.below(60) == 0 {
                        scene = rng.between(700, 1300); // a cut
                    }
                    let kind = match number % 12 {
                        0 => 1500,
                        3 | 6 | 9 => 1150,
                        _ => 880,
                    };
                    // the sum of two uniform numbers, so that small deviations are more frequent
                    let own = rng.between(850, 1000) + rng.between(0, 150);
                    kind * scene * own
                };
                ((0..FRAMES).map(frame).collect(), 23_000_000, 45_000_000)
            }
            "synthetic-raw" => {
                let frame = |_| 1000 + rng.between(0, 40) + rng.between(0, 40);
                ((0..FRAMES).map(frame).collect(), 8_300_000, 9_500_000)
            }
            _ => return None,
        };
        Self(frames).scaled(mean, Some(peak)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Trace, String> {
        Trace::parse(Path::new("a.csv"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn lines_are_frames() {
        let trace = parse("# mplayer\n5000\n\n 7000 \n").unwrap();
        assert_eq!(trace.frames(), [5000, 7000]);
        assert_eq!([0, 1, 2].map(|n| trace.frame(n)), [5000, 7000, 5000]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("5\nx\n", "a.csv:2: \"x\""),
            ("5\n-1\n", "a.csv:2"),
            ("0\n", "a.csv:1"),
            ("5.5\n", "a.csv:1"),
            ("# nothing\n", "a.csv: 0 frames"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(Trace::read(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn scaling_gives_mean_and_peak() {
        let trace = parse("10000\n20000\n60000\n").unwrap();
        let scaled = trace.scaled(50_000, Some(80_000)).unwrap();
        assert_eq!(scaled.frames(), [50_000 - 20_000, 40_000, 80_000]);
        assert_eq!((scaled.mean(), scaled.peak()), (50_000, 80_000));
        assert_eq!(
            trace.scaled(15_000, None).unwrap().frames(),
            [5000, 10_000, 30_000]
        );
        let steep = trace.scaled(30_000, Some(100_000)).unwrap();
        assert_eq!(steep.frames()[0], LEAST_NS, "30 - 20 * 70/30 is below 0");
        assert!(trace.scaled(50_000, Some(50_000)).is_err());
        assert!(parse("7\n7\n").unwrap().scaled(8, Some(9)).is_err());
    }

    #[test]
    fn synthetic_traces_are_like_those_of_the_paper() {
        let h264 = Trace::read(Path::new("synthetic-h264")).unwrap();
        assert!(h264.mean().abs_diff(23_000_000) < 1000, "{}", h264.mean());
        assert_eq!(h264.peak(), 45_000_000);
        let within = h264.frames().iter().filter(|&&ns| ns < 25_000_000);
        let share = within.count() as f64 / h264.frames().len() as f64;
        assert!(
            (0.6..0.9).contains(&share),
            "a majority below 25 ms: {share}"
        );
        let raw = Trace::synthetic("synthetic-raw", 1).unwrap();
        assert!(raw.frames().iter().all(|&ns| ns > 7_000_000));
    }
}
