//! What the machine has for limits on dirty pages.

use super::{ok, warn, Fact, Machine};

/// First kernel on which a task can be parked at its return to user mode.
const PARKS: (u32, u32) = (7, 0);

impl Machine {
    /// The findings about disks.
    pub(super) fn disk_facts(&self) -> [Fact; 2] {
        [self.dirty_limits(), self.writeback()]
    }

    fn dirty_limits(&self) -> Fact {
        let name = "dirty-limits";
        if self.version().is_none_or(|v| v < PARKS) {
            return warn(
                name,
                "this kernel cannot park a task",
                "limit-dirty has no effect: best-effort work may fill a fifth of memory with pages that wait for a disk",
                "boot Linux 7.0 or later",
            );
        }
        ok(name, "can be enforced (limit-dirty under [disk])")
    }

    fn writeback(&self) -> Fact {
        let controllers = self.read("sys/fs/cgroup/cgroup.controllers");
        let controllers = controllers.unwrap_or_default();
        let has = |name| controllers.split_whitespace().any(|c| c == name);
        if has("io") && has("memory") {
            return ok("writeback", "by cgroup (ext4, XFS, btrfs)");
        }
        warn(
            "writeback",
            "not by cgroup: the controllers io and memory are not both in the cgroup v2 tree",
            "all best-effort work that writes to a disk has one dirty limit together",
            "boot without cgroup_disable= and cgroup_no_v1=, and mount cgroup v2 at /sys/fs/cgroup",
        )
    }
}
