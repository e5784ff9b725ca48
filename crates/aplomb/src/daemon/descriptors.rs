//! How many files the daemon may have open.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use tracing::warn;

/// Files that the daemon needs at most: a process descriptor for each of 1,024 reservations, 1,024
/// programs whose memory is followed, 1,024 that are watched for being killed, and 512 that wait
/// for systemd; connections, maps and programs of the kernel side, events of each of 1,024 CPUs.
pub const WANTED: u64 = 8192;

/// Raise the limit of open files, whose usual value is 1,024. Where it stays lower, say so: at the
/// limit, programs are refused reservations and clients wait.
pub fn raise() {
    let now = getrlimit(Resource::Nofile);
    let Some(wanted) = wanted(now) else { return };
    if setrlimit(Resource::Nofile, wanted).is_err() {
        let most = now.maximum.unwrap_or(WANTED);
        let within = Rlimit {
            current: Some(most),
            maximum: now.maximum,
        };
        let _ = setrlimit(Resource::Nofile, within);
        warn!(
            "only {most} files may be open; with many programs {WANTED} are needed (LimitNOFILE=)"
        );
    }
}

/// The limits to set. None: they suffice.
fn wanted(now: Rlimit) -> Option<Rlimit> {
    // None stands for "no limit".
    if now.current.is_none_or(|n| n >= WANTED) {
        return None;
    }
    Some(Rlimit {
        current: Some(WANTED),
        maximum: now.maximum.map(|n| n.max(WANTED)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_only_raised() {
        let limit = |current, maximum| Rlimit { current, maximum };
        let usual = wanted(limit(Some(1024), Some(524_288)));
        assert_eq!(usual, Some(limit(Some(WANTED), Some(524_288))));
        let low = wanted(limit(Some(1024), Some(4096)));
        assert_eq!(low, Some(limit(Some(WANTED), Some(WANTED))));
        assert_eq!(wanted(limit(Some(WANTED), Some(WANTED))), None);
        assert_eq!(wanted(limit(None, None)), None);
    }
}
