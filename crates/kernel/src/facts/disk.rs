//! What the machine has for limits on dirty pages, and for the order of requests.

use aplomb_disk::Disk;

use super::{ok, warn, Fact, Machine};

/// First kernel on which a task can be parked at its return to user mode.
const PARKS: (u32, u32) = (7, 0);

impl Machine {
    /// The findings about disks.
    pub(super) fn disk_facts(&self) -> [Fact; 3] {
        [
            self.dirty_limits(),
            self.writeback(),
            self.disk_schedulers(),
        ]
    }

    fn disk_schedulers(&self) -> Fact {
        let name = "disk-schedulers";
        let disks = aplomb_disk::disks(&self.root.join("sys")).unwrap_or_default();
        let named = |wanted: &dyn Fn(&Disk) -> bool| {
            let disks = disks.iter().filter(|d| wanted(d));
            let each = disks.filter_map(|d| Some(format!("{} {}", d.name, d.scheduler.as_ref()?)));
            each.collect::<Vec<_>>().join(", ")
        };
        let (by_arrival, costly) = (named(&by_arrival), named(&costly));
        if !by_arrival.is_empty() {
            return warn(
                name,
                by_arrival,
                "what is at such a disk is served as it came, so a film waits for the large reads of others",
                "echo mq-deadline > /sys/block/DISK/queue/scheduler, and a udev rule that does it at each boot",
            );
        }
        if !costly.is_empty() {
            return warn(
                name,
                costly,
                "BFQ costs 1.9 us a request against 0.7 of mq-deadline, which limits a disk that does 100,000 a second",
                "echo none > /sys/block/DISK/queue/scheduler, and a udev rule that does it at each boot",
            );
        }
        match named(&|_| true).as_str() {
            "" => ok(name, "no disk has one"),
            all => ok(name, all),
        }
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

/// The disk serves few requests at a time, and nothing orders those that wait for it by class.
/// Measured by redline/mass-read and qlinux/disk-isolation (docs/disk.md).
fn by_arrival(disk: &Disk) -> bool {
    let orders = |s: &str| matches!(s, "mq-deadline" | "bfq");
    let slow = disk.rotational || disk.queues == 1;
    slow && disk.scheduler.as_deref().is_some_and(|s| !orders(s))
}

/// The disk is a fast one, and its scheduler is not.
fn costly(disk: &Disk) -> bool {
    !disk.rotational && disk.queues > 1 && disk.scheduler.as_deref() == Some("bfq")
}
