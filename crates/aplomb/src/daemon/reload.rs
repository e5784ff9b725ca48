//! The daemon reads its specs again: after SIGHUP, a request, or a change of their files.

use std::time::Instant;

use sd_notify::NotifyState;
use tracing::{error, info, warn};

use super::manager::notify;
use super::signals::drain;
use super::{watch, Daemon, SETTLE};
use crate::protocol::{Answer, Code, Refusal};

impl Daemon {
    /// SIGHUP.
    pub(super) fn hangup(&mut self) {
        drain(&mut self.signals.reload);
        match NotifyState::monotonic_usec_now() {
            Ok(now) => notify(&[NotifyState::Reloading, now]),
            Err(e) => warn!("no monotonic clock: {e}"),
        }
        if let Answer::Refused(refusal) = self.reload() {
            error!("the old specs stay in force:\n{refusal}");
        }
        notify(&[NotifyState::Ready]);
    }

    /// Files changed: they are read when [`SETTLE`] has passed since the first change.
    pub(super) fn read_files_soon(&mut self, new: watch::Changed) {
        let (at, mut all) = self.settle.unwrap_or((Instant::now() + SETTLE, new));
        all.specs |= new.specs;
        all.programs |= new.programs;
        self.settle = (all.specs || all.programs).then_some((at, all));
    }

    pub(super) fn files_changed(&mut self, changed: watch::Changed) {
        if changed.specs {
            if let Answer::Refused(refusal) = self.reload() {
                error!("the old specs stay in force:\n{refusal}");
            }
            return;
        }
        match self.state.library.resolve_again() {
            Ok(true) => {
                // Running processes keep their reservation, even if their program's file was
                // removed. Those that started while the table was older than the file system are
                // matched now.
                let applied = self.state.apply_specs(false);
                if let Err(e) = applied.and_then(|()| self.state.kernel.look_back()) {
                    error!("{e}");
                } else {
                    info!(
                        "programs changed: {} matchers",
                        self.state.library.row_count()
                    );
                }
            }
            Ok(false) => {}
            Err(e) => error!("{e}"),
        }
        self.watch_files();
    }

    /// Read the specs again. Specs with an error are skipped, and the answer lists the errors.
    pub(super) fn reload(&mut self) -> Answer {
        // All changes until now are read now, so drop their events.
        self.watch.read();
        self.settle = None;
        let state = &mut self.state;
        let result = match state.library.reload() {
            Ok(()) => state
                .apply_specs(true)
                .map_err(|e| Refusal::new(Code::Failed, e.to_string())),
            Err(e) => Err(Refusal::new(Code::Failed, e.to_string())),
        };
        self.watch_files();
        match result {
            Ok(()) => {
                let r_max_ppm = self.state.config.kernel.r_max_ppm;
                self.state.library.warn_of_unreachable_guarantees(r_max_ppm);
                let (summary, report) = (
                    self.state.library.summary(),
                    self.state.library.error_report(),
                );
                info!("reloaded: {summary}");
                self.clients.notify(&report, &self.poll, &mut self.state);
                Answer::Done([vec![summary], report].concat().join("\n"))
            }
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    pub(super) fn watch_files(&mut self) {
        for problem in self.watch.set(self.state.library.wanted()) {
            warn!("{problem}");
        }
    }
}
