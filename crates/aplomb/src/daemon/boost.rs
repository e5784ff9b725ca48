//! Gives the daemon the highest weight while it loads the kernel side. Otherwise a start or a
//! restart during a fork bomb would wait among hundreds of tasks, and the machine with it.
//!
//! Nice -20 counts only inside an autogroup, and a service has an autogroup of its own. So the
//! autogroup gets nice -20 too. Both are restored when the scheduler is attached.

use std::fs;

use rustix::process::{getpriority_process, setpriority_process};

/// Until it is dropped, this process and its autogroup have nice -20. Needs CAP_SYS_NICE; without
/// it nothing changes.
#[derive(Debug)]
pub struct Boost {
    nice: Option<i32>,
    autogroup: Option<i32>,
}

const AUTOGROUP: &str = "/proc/self/autogroup";
const FIRST: i32 = -20;

impl Boost {
    pub fn new() -> Self {
        let nice = getpriority_process(None).ok();
        let autogroup = fs::read_to_string(AUTOGROUP)
            .ok()
            .and_then(|line| autogroup_nice(&line));
        let boost = Self { nice, autogroup };
        if boost.nice.is_some() {
            let _ = setpriority_process(None, FIRST);
        }
        if boost.autogroup.is_some() {
            let _ = fs::write(AUTOGROUP, FIRST.to_string());
        }
        boost
    }
}

impl Drop for Boost {
    fn drop(&mut self) {
        if let Some(nice) = self.autogroup {
            let _ = fs::write(AUTOGROUP, nice.to_string());
        }
        if let Some(nice) = self.nice {
            let _ = setpriority_process(None, nice);
        }
    }
}

/// The nice value in a line such as "/autogroup-42 nice 0".
fn autogroup_nice(line: &str) -> Option<i32> {
    line.trim().rsplit_once(" nice ")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_put_back() {
        let before = getpriority_process(None).unwrap();
        let boost = Boost::new();
        if rustix::process::geteuid().is_root() {
            assert_eq!(getpriority_process(None).unwrap(), FIRST);
        }
        drop(boost);
        assert_eq!(getpriority_process(None).unwrap(), before);
    }

    #[test]
    fn autogroups_are_read() {
        assert_eq!(autogroup_nice("/autogroup-42 nice -5\n"), Some(-5));
        assert_eq!(autogroup_nice(""), None);
    }
}
