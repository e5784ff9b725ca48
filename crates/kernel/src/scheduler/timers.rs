//! The timers of the kernel side are made before it is attached (bpf/layers/load.bpf.h).

use std::time::{Duration, Instant};

use libbpf_rs::ProgramInput;

use super::{main_skel, quietly};
use crate::LoadError;

/// For how long the daemon waits for memory. Beside programs that fill memory some is free again
/// and again within milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Makes them, and waits for memory if there is none.
///
/// # Errors
///
/// There was no memory within [`PATIENCE`], or the kernel refused the program.
pub(super) fn make(programs: &main_skel::MainProgs<'_>) -> Result<(), LoadError> {
    patiently(PATIENCE, PAUSE, || {
        quietly(|| programs.make_timers.test_run(ProgramInput::default()))
            .map(|output| output.return_value == 0)
    })
}

/// Calls `make` until it returns true, for up to `patience`, with pauses.
fn patiently(
    patience: Duration,
    pause: Duration,
    mut make: impl FnMut() -> Result<bool, LoadError>,
) -> Result<(), LoadError> {
    let start = Instant::now();
    while !make()? {
        if start.elapsed() >= patience {
            return Err(LoadError::NoMemory(patience));
        }
        std::thread::sleep(pause);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_again_until_all_are_made() {
        let mut tries = 0;
        patiently(PATIENCE, Duration::ZERO, || {
            tries += 1;
            Ok(tries == 3)
        })
        .unwrap();
        assert_eq!(tries, 3);
    }

    #[test]
    fn patience_ends() {
        let error = patiently(Duration::ZERO, Duration::ZERO, || Ok(false)).unwrap_err();
        assert!(matches!(error, LoadError::NoMemory(_)), "{error}");
    }
}
