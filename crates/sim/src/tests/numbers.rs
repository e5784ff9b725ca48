//! A simulation has the same result whatever the kernel's numbers are. A scheduler with a copied
//! number would behave differently under another numbering.

use crate::host::host_exit_flags;
use crate::workload::{hog, on_off, Periodic};
use crate::{CpuMask, Numbers, Program, Reservation, Settings, Simulation, Switch, ROOT};

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;

/// Play a machine that uses all parts of the scheduler. Returns the context switches, and the
/// number of searches for an idle CPU.
fn play(numbers: Numbers, domains: bool) -> (Vec<Switch>, u64) {
    let mut sim = Simulation::new(Settings {
        cpus: 4,
        numbers,
        checked: true,
        traced: true,
        ..Settings::default()
    });
    sim.spec(
        7,
        Reservation {
            runtime: 6 * MS,
            period: 30 * MS,
            ..Reservation::default()
        },
    );
    for k in 0..6 {
        sim.start(on_off(0, (3 + k) * MS, 5 * MS));
    }
    sim.start(hog(0));
    sim.start_with(100, CpuMask::only(1), Box::new(on_off(0, 2 * MS, 7 * MS)));
    sim.start(Periodic::new(7, 5 * MS, 30 * MS, 10 * MS).0);
    if domains {
        let a = sim.create_cgroup(ROOT, "a").unwrap();
        let all = CpuMask::first(4);
        let programs: [Box<dyn Program>; 2] =
            [Box::new(hog(0)), Box::new(on_off(0, 3 * MS, 8 * MS))];
        for program in programs {
            sim.start_in(a, 100, all, program).unwrap();
        }
    }
    sim.run_until(2 * SEC);
    (sim.trace().to_vec(), sim.idle_searches())
}

#[test]
fn the_kernels_numbers_change_nothing() {
    for domains in [false, true] {
        let (trace, searches) = play(Numbers::SINCE_6_19, domains);
        assert!(trace.len() > 1000 && searches > 100, "{searches}");
        for other in [Numbers::BEFORE_6_19, Numbers::OTHER] {
            let (theirs, looked) = play(other, domains);
            assert_eq!(looked, searches, "searches for an idle CPU: {other:?}");
            assert_eq!(theirs, trace, "{other:?}");
        }
    }
}

/// No CPU is idle: a wake-up looks for one in ops.select_cpu, and ops.enqueue does not look again.
#[test]
fn a_wake_up_looks_for_an_idle_cpu_once() {
    const WAKE_UPS: u64 = 100;
    for numbers in [Numbers::BEFORE_6_19, Numbers::SINCE_6_19, Numbers::OTHER] {
        let looked = |wakes: bool| {
            let mut sim = Simulation::new(Settings {
                cpus: 2,
                numbers,
                ..Settings::default()
            });
            for cpu in 0..2 {
                sim.start_with(100, CpuMask::only(cpu), Box::new(hog(0)));
            }
            if wakes {
                sim.start(on_off(0, 1, 20 * MS));
            }
            sim.run_until((WAKE_UPS * 20 + 10) * MS);
            sim.idle_searches()
        };
        let searches = looked(true) - looked(false);
        assert!(
            (WAKE_UPS / 2..=WAKE_UPS + 2).contains(&searches),
            "{searches} searches for at most {WAKE_UPS} wake-ups: {numbers:?}"
        );
    }
}

/// What ops.exit reports of an end, by the numbers of each kernel.
#[test]
fn the_kernels_numbers_say_how_it_ended() {
    const RESTART: u32 = 1; // enum exit_flags of bpf/intf.h
    const HOTPLUG: u32 = 2;
    for numbers in [Numbers::BEFORE_6_19, Numbers::SINCE_6_19, Numbers::OTHER] {
        let _sim = Simulation::new(Settings {
            numbers,
            ..Settings::default()
        });
        // SAFETY: reads the numbers that the simulation has set
        let flags = |kind: u64, code: u64| unsafe { host_exit_flags(kind as i32, code as i64) };
        let Numbers {
            exit_error: error,
            ecode_rsn_hotplug: hotplug,
            ecode_act_restart: restart,
            ..
        } = numbers;
        assert_eq!(flags(64, 0), 0, "unregistered: {numbers:?}");
        assert_eq!(flags(65, hotplug | restart), RESTART | HOTPLUG);
        assert_eq!(flags(65, restart), RESTART);
        assert_eq!(flags(error, 0), 0);
        assert_eq!(flags(error + 2, restart), 0, "an error is no restart");
    }
}
