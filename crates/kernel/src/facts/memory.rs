//! What the machine has for the protection of memory.

use super::{ok, warn, Fact, Machine};

impl Machine {
    /// The findings about memory.
    pub(super) fn memory_facts(&self) -> [Fact; 4] {
        [
            self.memory_controller(),
            self.memory_ages(),
            self.memory_shared(),
            self.swap(),
        ]
    }

    fn memory_controller(&self) -> Fact {
        let controllers = self.read("sys/fs/cgroup/cgroup.controllers");
        let controllers = controllers.unwrap_or_default();
        if controllers.split_whitespace().any(|c| c == "memory") {
            return ok("memory-controller", "in the cgroup v2 tree");
        }
        warn(
            "memory-controller",
            "not in the cgroup v2 tree",
            "no program's memory can be protected",
            "boot with cgroup_no_v1=memory, and without cgroup_disable=memory",
        )
    }

    fn memory_ages(&self) -> Fact {
        let enabled = self.read("sys/kernel/mm/lru_gen/enabled");
        let bits = enabled.as_deref().and_then(|text| {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            u64::from_str_radix(digits, 16).ok()
        });
        match bits {
            Some(bits) if bits & 1 == 1 => ok("memory-ages", "known: multi-generational LRU"),
            bits => warn(
                "memory-ages",
                match bits {
                    Some(_) => "the multi-generational LRU is off",
                    None => "this kernel has no multi-generational LRU",
                },
                "whole programs are protected, also what they have not used for long",
                "echo y > /sys/kernel/mm/lru_gen/enabled, on a kernel with CONFIG_LRU_GEN",
            ),
        }
    }

    fn memory_shared(&self) -> Fact {
        let mounts = self.read("proc/self/mountinfo").unwrap_or_default();
        let mut trees = mounts.lines().filter(|l| l.contains(" - cgroup2 "));
        if trees.any(|l| l.contains("memory_recursiveprot")) {
            return ok(
                "memory-shared-reserve",
                "the kernel shares what is unclaimed",
            );
        }
        warn(
            "memory-shared-reserve",
            "the cgroup tree is mounted without memory_recursiveprot",
            "what programs grow by is protected when the daemon measures next, not at once",
            "mount -o remount,memory_recursiveprot /sys/fs/cgroup, before the daemon starts",
        )
    }

    fn swap(&self) -> Fact {
        let swaps = self.read("proc/swaps").unwrap_or_default();
        let devices: Vec<&str> = swaps
            .lines()
            .skip(1)
            .filter_map(|l| l.split_whitespace().next())
            .collect();
        if !devices.is_empty() {
            return ok("swap", devices.join(", "));
        }
        warn(
            "swap",
            "none",
            "when memory is short only pages of files can be taken: programs and libraries are read again and again",
            "compressed swap in memory (zram-tools, systemd-zram-generator), or a swap file",
        )
    }
}
