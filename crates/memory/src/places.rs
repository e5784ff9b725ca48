//! Where the kernel's files are, and whether they show the ages of pages.

use std::fs::File;
use std::path::PathBuf;

use serde::Serialize;

use crate::ages::{self, LRU_GEN};
use crate::{file, MemoryError};

/// Where the kernel's files are.
#[derive(Debug, Clone)]
pub struct Places {
    /// The root of the cgroup v2 tree, as the kernel has it and not as a namespace shows it.
    pub cgroup: PathBuf,
    /// `/sys/kernel/debug`.
    pub debugfs: PathBuf,
    /// `/sys/kernel/mm/lru_gen`.
    pub lru_gen: PathBuf,
}

impl Places {
    /// The places of this machine, whose cgroup tree is mounted at `cgroup`.
    pub fn system(cgroup: impl Into<PathBuf>) -> Self {
        Self {
            cgroup: cgroup.into(),
            debugfs: "/sys/kernel/debug".into(),
            lru_gen: "/sys/kernel/mm/lru_gen".into(),
        }
    }

    /// What the protection goes by on this machine.
    pub fn mode(&self) -> Mode {
        let enabled = self.lru_gen.join("enabled");
        let uses = |why: String| Mode::Uses { why };
        match file::read(&enabled) {
            Err(e) => return uses(e.to_string()),
            Ok(text) if !ages::is_enabled(&text) => {
                let (path, text) = (enabled.display(), text.trim());
                return uses(format!("{path}: it reads {text:?}: ages are switched off"));
            }
            Ok(_) => {}
        }
        // Kernel lockdown refuses this open, even to root.
        let path = self.debugfs.join(LRU_GEN);
        match File::options().read(true).append(true).open(&path) {
            Ok(_) => Mode::Ages,
            Err(e) => uses(MemoryError::io(&path, "opening it", e).to_string()),
        }
    }
}

/// What the protection goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The ages of pages.
    Ages,
    /// Only when the domain ran last: it is protected as a whole until pi after that.
    Uses { why: String },
}
