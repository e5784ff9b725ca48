//! Which process dies when memory runs out: what the machine has set up for it.

use std::fs;

use super::{ok, warn, Fact, Machine};

/// Programs of a session without which the user has nothing, by the names of their processes.
const SESSION: [&str; 10] = [
    "Xorg",
    "Xwayland",
    "gnome-shell",
    "kwin_wayland",
    "kwin_x11",
    "sway",
    "Hyprland",
    "labwc",
    "weston",
    "plasmashell",
];
/// First version of systemd with hooks before a kill of systemd-oomd.
const PREKILL: u32 = 260;

impl Machine {
    /// The findings about the end of memory.
    pub(super) fn oom_facts(&self) -> [Fact; 4] {
        [
            self.oom_killer(),
            self.pressure(),
            self.session(),
            self.oomd(),
        ]
    }

    fn oom_killer(&self) -> Fact {
        let set = |name: &str| {
            let value = self.read(&format!("proc/sys/vm/{name}"));
            value.is_some_and(|v| v != "0")
        };
        if set("panic_on_oom") {
            return warn(
                "oom-killer",
                "the kernel panics when memory runs out (vm.panic_on_oom)",
                "all programs end, whatever their scores",
                "sysctl vm.panic_on_oom=0",
            );
        }
        if set("oom_kill_allocating_task") {
            return warn(
                "oom-killer",
                "the kernel kills the task that asks for memory (vm.oom_kill_allocating_task)",
                "that may be an interactive program; scores do not count",
                "sysctl vm.oom_kill_allocating_task=0",
            );
        }
        ok("oom-killer", "the kernel kills by size and oom_score_adj")
    }

    fn pressure(&self) -> Fact {
        if self.read("proc/pressure/memory").is_some() {
            return ok("memory-pressure", "reported by the kernel (PSI)");
        }
        warn(
            "memory-pressure",
            "this kernel does not report it",
            "that memory is short is seen late, and before Linux 7.0 not at all: interactive programs may be killed first",
            "boot with psi=1, on a kernel with CONFIG_PSI",
        )
    }

    /// What the display servers and shells that run have.
    fn session(&self) -> Fact {
        let processes = fs::read_dir(self.path("proc"))
            .into_iter()
            .flatten()
            .flatten();
        let pids = processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let mut found: Vec<(String, i32)> = pids
            .filter_map(|pid| {
                let name = self.read(&format!("proc/{pid}/comm"))?;
                let adj = self.read(&format!("proc/{pid}/oom_score_adj"))?;
                let known = SESSION.contains(&name.as_str());
                known.then_some((name, adj.parse().ok()?))
            })
            .collect();
        found.sort();
        found.dedup();
        if found.is_empty() {
            return ok("oom-session", "no display server runs");
        }
        let text: Vec<_> = found
            .iter()
            .map(|(name, adj)| format!("{name} {adj}"))
            .collect();
        let text = text.join(", ");
        if found.iter().all(|(_, adj)| *adj <= 0) {
            return ok("oom-session", format!("oom_score_adj: {text}"));
        }
        // systemd gives the programs of a session 100 or 200, its services 0.
        ok(
            "oom-session",
            format!("oom_score_adj: {text} (as the session's other programs; lower while memory is short)"),
        )
    }

    fn oomd(&self) -> Fact {
        if !self.path("run/systemd/oom/io.systemd.ManagedOOM").exists() {
            return ok("oomd", "systemd-oomd does not run");
        }
        let hooks = match self.systemd_version() {
            Some(v) if v >= PREKILL => "its prekill hooks are not used",
            Some(_) => "this version has no prekill hooks",
            None => "its version is unknown",
        };
        ok(
            "oomd",
            format!(
                "systemd-oomd runs: its kills are reported, and it is told what to avoid ({hooks})"
            ),
        )
    }

    /// The number in the name of systemd's own library.
    fn systemd_version(&self) -> Option<u32> {
        let dirs = [
            "usr/lib/systemd",
            "usr/lib64/systemd",
            "usr/lib/x86_64-linux-gnu/systemd",
            "usr/lib/aarch64-linux-gnu/systemd",
        ];
        let files = dirs
            .into_iter()
            .filter_map(|d| fs::read_dir(self.path(d)).ok());
        let names = files.flatten().flatten().map(|e| e.file_name());
        let mut versions = names.filter_map(|name| {
            let rest = name.to_str()?.strip_prefix("libsystemd-shared-")?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        });
        versions.next()
    }
}
