//! Tests on fake machines, good and bad, made of files.

use super::*;

/// A machine without any problem, as files below a temporary directory.
struct FakeMachine(tempfile::TempDir);

impl FakeMachine {
    fn new() -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        fake.write("proc/sys/kernel/osrelease", "7.3.4+deb13-cloud-amd64");
        // Our own object describes every kernel type that it uses, so it can stand in for the
        // kernel's BTF.
        let object = concat!(env!("OUT_DIR"), "/main.bpf.o");
        fs::create_dir_all(fake.0.path().join("sys/kernel/btf")).unwrap();
        fs::copy(object, fake.0.path().join("sys/kernel/btf/vmlinux")).unwrap();
        fake.write("sys/kernel/sched_ext/state", "disabled");
        fake.write("sys/devices/system/cpu/possible", "0-7");
        fake.write("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
        fake.write("sys/fs/cgroup/cgroup.controllers", "cpu io memory");
        fake.write("sys/kernel/mm/lru_gen/enabled", "0x0007");
        fake.write(
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 5",
        );
        fake.write(
            "proc/self/mountinfo",
            "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,memory_recursiveprot",
        );
        fake.write("proc/1/comm", "systemd");
        fake.write("proc/pressure/memory", "some avg10=0.00");
        fake
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
        self
    }

    fn machine(&self) -> Machine {
        Machine::at(self.0.path())
    }

    fn facts(&self) -> Vec<Fact> {
        self.machine().facts(&CpuCapacities::Auto)
    }

    fn level(&self, name: &str) -> Level {
        self.facts()
            .into_iter()
            .find(|f| f.name == name)
            .unwrap()
            .level
    }
}

#[test]
fn a_good_machine_has_only_good_facts() {
    let fake = FakeMachine::new();
    assert!(fake.machine().require().is_ok());
    for fact in fake.facts() {
        assert_eq!(fact.level, Level::Ok, "{fact:?}");
    }
}

#[test]
fn every_complaint_says_why_and_what_to_do() {
    let fake = FakeMachine(tempfile::tempdir().unwrap());
    fake.write("sys/kernel/realtime", "1")
        .write("sys/kernel/security/lockdown", "none [confidentiality]");
    fake.write("proc/sys/net/core/bpf_jit_enable", "0")
        .write("proc/1/comm", "runit");
    let bad: Vec<Fact> = fake
        .facts()
        .into_iter()
        .filter(|f| f.level != Level::Ok)
        .collect();
    assert!(bad.len() >= 8, "{bad:?}");
    for fact in bad {
        assert!(!fact.why.is_empty() && !fact.change.is_empty(), "{fact:?}");
    }
}

#[test]
fn debian_6_12_is_refused_by_name() {
    let fake = FakeMachine::new();
    fake.write("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64");
    fs::remove_dir_all(fake.0.path().join("sys/kernel/sched_ext")).unwrap();
    let error = fake.machine().require().unwrap_err();
    assert!(matches!(error, LoadError::NoSchedExt { .. }));
    assert!(error.to_string().contains("6.12.48+deb13-amd64"), "{error}");
    assert_eq!(fake.level("kernel"), Level::Warn);
    assert_eq!(fake.level("sched_ext"), Level::Fail);
}

#[test]
fn advice_is_for_the_distribution_at_hand() {
    let advice = |os_release: &str| {
        let fake = FakeMachine::new();
        fake.write("etc/os-release", os_release);
        fs::remove_dir_all(fake.0.path().join("sys/kernel/sched_ext")).unwrap();
        let facts = fake.facts();
        let of = |name: &str| facts.iter().find(|f| f.name == name).unwrap().clone();
        (of("distribution").found, of("sched_ext").change)
    };
    for (os_release, name, words) in [
        (
            "ID=fedora\nPRETTY_NAME=\"Fedora Linux 43\"",
            "Fedora Linux 43",
            "dnf upgrade --refresh kernel",
        ),
        (
            "ID=arch\nPRETTY_NAME=\"Arch Linux\"",
            "Arch Linux",
            "pacman -Syu linux",
        ),
        (
            "ID=nixos\nPRETTY_NAME=\"NixOS 25.11\"",
            "NixOS 25.11",
            "nixos-rebuild boot",
        ),
    ] {
        let (found, change) = advice(os_release);
        assert_eq!(found, name);
        assert!(change.contains(words), "{change}");
    }
}

#[test]
fn refusals_name_what_is_missing() {
    let fake = FakeMachine::new();
    fake.write("proc/self/status", "CapEff:\t0000000000000000");
    assert!(fake
        .machine()
        .require()
        .unwrap_err()
        .to_string()
        .contains("CAP_BPF"));
    let fake = FakeMachine::new();
    fake.write("sys/kernel/sched_ext/state", "enabled")
        .write("sys/kernel/sched_ext/root/ops", "bpfland_1.1");
    assert!(fake
        .machine()
        .require()
        .unwrap_err()
        .to_string()
        .contains("bpfland_1.1"));
    assert_eq!(fake.level("scheduler"), Level::Fail);
    fake.write("sys/kernel/sched_ext/root/ops", "aplomb");
    assert_eq!(fake.level("scheduler"), Level::Ok);
    let fake = FakeMachine::new();
    fake.write("sys/devices/system/cpu/possible", "0-1024");
    assert!(matches!(
        fake.machine().require(),
        Err(LoadError::TooManyCpus {
            found: 1025,
            limit: 1024
        })
    ));
    let fake = FakeMachine::new();
    fs::remove_file(fake.0.path().join("sys/devices/system/cpu/possible")).unwrap();
    assert!(matches!(
        fake.machine().require(),
        Err(LoadError::NoCpuList)
    ));
    let fake = FakeMachine::new();
    let btf = fake.0.path().join("sys/kernel/btf/vmlinux");
    fs::write(&btf, "").unwrap();
    assert!(matches!(fake.machine().require(), Err(LoadError::NoBtf)));
    fs::remove_file(&btf).unwrap();
    assert!(matches!(fake.machine().require(), Err(LoadError::NoBtf)));
}

#[test]
fn what_memory_lacks_is_said() {
    for (file, text, name) in [
        (
            "sys/fs/cgroup/cgroup.controllers",
            "cpu",
            "memory-controller",
        ),
        ("sys/kernel/mm/lru_gen/enabled", "0x0000", "memory-ages"),
        ("sys/kernel/mm/lru_gen/enabled", "what", "memory-ages"),
        ("proc/swaps", "Filename Type Size Used Priority", "swap"),
        (
            "proc/self/mountinfo",
            "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate",
            "memory-shared-reserve",
        ),
    ] {
        let fake = FakeMachine::new();
        fake.write(file, text);
        assert_eq!(fake.level(name), Level::Warn, "{file}");
    }
}

#[test]
fn what_decides_who_dies_is_found() {
    let fake = FakeMachine::new();
    let found = |name: &str| {
        let facts = fake.facts();
        facts.into_iter().find(|f| f.name == name).unwrap().found
    };
    assert_eq!(found("oom-session"), "no display server runs");
    assert!(found("oomd").contains("does not run"));
    fake.write("proc/812/comm", "gnome-shell")
        .write("proc/812/oom_score_adj", "200")
        .write("proc/813/comm", "make")
        .write("proc/813/oom_score_adj", "0");
    assert!(found("oom-session").starts_with("oom_score_adj: gnome-shell 200 (as the session's"));
    fake.write("run/systemd/oom/io.systemd.ManagedOOM", "");
    assert!(found("oomd").contains("its version is unknown"));
    fake.write("usr/lib/systemd/libsystemd-shared-257.9-1.so", "");
    assert!(found("oomd").contains("has no prekill hooks"));
    assert_eq!(fake.level("oom-killer"), Level::Ok);
    fake.write("proc/sys/vm/oom_kill_allocating_task", "1");
    assert_eq!(fake.level("oom-killer"), Level::Warn);
    fake.write("proc/sys/vm/panic_on_oom", "2");
    assert!(found("oom-killer").contains("panics"));
    fs::remove_file(fake.0.path().join("proc/pressure/memory")).unwrap();
    assert_eq!(fake.level("memory-pressure"), Level::Warn);
}

#[test]
fn a_disk_has_the_scheduler_that_suits_it() {
    let fake = FakeMachine::new();
    let disk = |name: &str, scheduler: &str, rotational: &str, queues: u32| {
        let at = |file: &str| format!("sys/block/{name}/{file}");
        fake.write(&at("dev"), "8:0").write(&at("size"), "2048");
        fake.write(&at("stat"), "0 0 0 0 0 0 0 0 0 0 0");
        fake.write(&at("queue/scheduler"), scheduler);
        fake.write(&at("queue/rotational"), rotational);
        for queue in 0..queues {
            fake.write(&at(&format!("mq/{queue}/nr_tags")), "32");
        }
    };
    let found = || {
        let facts = fake.facts();
        let fact = facts.into_iter().find(|f| f.name == "disk-schedulers");
        fact.map(|f| (f.level, f.found)).unwrap()
    };
    assert_eq!(found(), (Level::Ok, "no disk has one".into()));
    disk("nvme0n1", "[none] mq-deadline bfq", "0", 8);
    disk("sda", "none [mq-deadline] bfq", "1", 1);
    disk("dm-0", "none", "0", 0);
    assert_eq!(found(), (Level::Ok, "nvme0n1 none, sda mq-deadline".into()));
    disk("nvme0n1", "none mq-deadline [bfq]", "0", 8);
    assert_eq!(found(), (Level::Warn, "nvme0n1 bfq".into()));
    disk("sda", "[none] mq-deadline bfq", "1", 1);
    disk("sdb", "[kyber] none", "0", 1);
    assert_eq!(found(), (Level::Warn, "sda none, sdb kyber".into()));
}

#[test]
fn cpus_that_differ_are_counted() {
    let fake = FakeMachine::new();
    let found = |setting: &str| {
        let setting = CpuCapacities::parse(setting, 8).unwrap();
        let facts = fake.machine().facts(&setting);
        let fact = facts.into_iter().find(|f| f.name == "cpu-capacities");
        fact.map(|f| (f.level, f.found)).unwrap()
    };
    let ok = |found: &str| (Level::Ok, found.to_owned());
    assert_eq!(found("auto"), ok("all CPUs are alike"));
    // CPUs 6 and 7 are possible, but missing.
    for (cpu, highest) in [65, 65, 39, 39, 68, 39].into_iter().enumerate() {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/acpi_cppc/highest_perf");
        fake.write(&file, &format!("{highest}"));
    }
    let from_firmware = ok("3 of full capacity, 3 of 57 % (from acpi_cppc/highest_perf)");
    assert_eq!(found("auto"), from_firmware);
    let set = "(from cpu-capacities in aplomb.toml)";
    assert_eq!(found("equal"), ok(&format!("all CPUs are alike {set}")));
    let listed = ok(&format!("4 of full capacity, 1 of 50 %, 1 of 25 % {set}"));
    assert_eq!(found("0=256,3=512"), listed);
}
