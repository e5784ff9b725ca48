//! What the daemon tells the service manager: its state, and that its loop still runs.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tracing::warn;

/// Report the daemon's state to the service manager, if there is one.
pub fn notify(states: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(states) {
        warn!("the service manager cannot be notified: {e}");
    }
}

/// The signs of life that the service manager asks for (`WatchdogSec=`). Without one for that long,
/// it kills the daemon and starts it again.
#[derive(Debug)]
pub struct Heartbeat {
    every: Duration,
    at: Instant,
}

impl Heartbeat {
    /// None if the service manager asks for none.
    pub fn asked() -> Option<Self> {
        let within = sd_notify::watchdog_enabled()?;
        Some(Self::new(within, Instant::now()))
    }

    /// Two signs in each `within`: one may be late.
    fn new(within: Duration, now: Instant) -> Self {
        Self {
            every: within / 2,
            at: now,
        }
    }

    /// When the next sign is due.
    pub fn due(&self) -> Instant {
        self.at
    }

    /// Give a sign if one is due.
    pub fn tick(&mut self, now: Instant) {
        if self.at <= now {
            self.at = now + self.every;
            notify(&[NotifyState::Watchdog]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signs_of_life_in_each_interval() {
        let now = Instant::now();
        let mut heart = Heartbeat::new(Duration::from_secs(60), now);
        assert_eq!(heart.due(), now, "the first at once");
        heart.tick(now);
        assert_eq!(heart.due(), now + Duration::from_secs(30));
        heart.tick(now + Duration::from_secs(29));
        assert_eq!(heart.due(), now + Duration::from_secs(30));
        heart.tick(now + Duration::from_secs(45));
        assert_eq!(heart.due(), now + Duration::from_secs(75));
    }
}
