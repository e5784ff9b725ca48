//! The end of the scheduler while the daemon runs: loading it again, or giving up.
//!
//! The kernel asks for a restart (a hotplug event that was lost, an incompatible change), or it has
//! ended the scheduler because of an error. After an error the daemon ends, and systemd starts it
//! again. If that happens again and again, it gives up (ejections.rs).

use std::time::{Duration, Instant};

use anyhow::Result;
use aplomb_kernel::{ExitInfo, Kernel, LoadError, Settings};
use tracing::{info, warn};

use super::boost::Boost;
use super::{Daemon, Loader};

/// Restarts that the kernel may ask for in [`RESTART_WINDOW`]. One more ends the daemon. Restarts
/// because of CPU hotplug do not count: an administrator causes them, and their number is bounded.
const MAX_RESTARTS: usize = 3;
const RESTART_WINDOW: Duration = Duration::from_secs(60);
/// Least time between two restarts because of CPU hotplug. The scheduler handles hotplug itself
/// (bpf/layers/hotplug.bpf.h), so the kernel should ask for none; if it does, no setting is lost.
///
/// Often several CPUs are switched in a row (a laptop parks cores). The first restart is done at
/// once; a later one waits until this time has passed since the previous one. So a row of changes
/// costs few restarts.
const HOTPLUG_PAUSE: Duration = Duration::from_secs(1);

impl Daemon {
    /// The kernel detached the scheduler.
    ///
    /// # Errors
    /// The daemon has to end. If systemd should not start it again, the exit code says so.
    pub(super) fn ended(&mut self, exit: &ExitInfo) -> Result<()> {
        let attached = self.state.attached.take();
        if let Some(fd) = self.state.kernel.event_fd() {
            self.poll.remove(fd);
        }
        let ran = attached.map_or(Duration::ZERO, |at| at.elapsed());
        if !exit.restart {
            let message = format!("the kernel ended the scheduler and runs its own: {exit}");
            return Err(self.ejections.another(ran, &message));
        }
        let now = Instant::now();
        if !exit.hotplug {
            self.restarts
                .retain(|t| now.duration_since(*t) < RESTART_WINDOW);
            if self.restarts.len() >= MAX_RESTARTS {
                let message = format!(
                    "more than {MAX_RESTARTS} restarts within a minute; the kernel's own scheduler runs: {exit}"
                );
                return Err(self.ejections.another(ran, &message));
            }
            self.restarts.push_back(now);
        }
        info!("the kernel asks for a restart: {exit}");
        match self.restarted {
            Some(last) if now.duration_since(last) < HOTPLUG_PAUSE => {
                self.restart_at = Some(now + HOTPLUG_PAUSE);
                Ok(())
            }
            _ => self.restart(),
        }
    }

    /// Load and attach the scheduler again, with the specs and reservations that were in force.
    ///
    /// # Errors
    /// It cannot be loaded or attached.
    pub(super) fn restart(&mut self) -> Result<()> {
        let _boost = Boost::new();
        self.restart_at = None;
        self.state.kernel.detach();
        self.state.kernel = load_patiently(&mut self.load, &self.state.config.kernel)?;
        self.attach()?;
        self.state.restarts += 1;
        self.restarted = Some(Instant::now());
        let lost = self.state.reserve_again();
        if lost > 0 {
            warn!("{lost} reservations could not be made again");
        }
        info!("ready: scheduler aplomb attached");
        Ok(())
    }
}

/// Load the kernel side. If the kernel is still detaching an earlier aplomb (killed just now, or
/// ended for a restart), wait a moment and try again.
///
/// # Errors
/// Those of `load`.
pub(super) fn load_patiently(
    load: &mut Loader,
    settings: &Settings,
) -> Result<Box<dyn Kernel>, LoadError> {
    for _ in 0..50 {
        match load(settings) {
            Err(LoadError::Busy(name)) if aplomb_kernel::facts::is_aplomb(&name) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
    load(settings)
}
