//! Capacities from files below a temporary directory, and from lists.

use proptest::prelude::*;

use super::*;

/// A machine's sysfs.
struct FakeSys(tempfile::TempDir);

impl FakeSys {
    /// CPUs that say in `file` what `values` are; None: the directory is there, but not the file.
    fn new(file: &str, values: &[Option<u32>]) -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        fake.add(file, values);
        fake
    }

    fn add(&self, file: &str, values: &[Option<u32>]) -> &Self {
        for (cpu, value) in values.iter().enumerate() {
            self.write(&format!("cpu{cpu}/uevent"), "");
            if let Some(value) = value {
                self.write(&format!("cpu{cpu}/{file}"), &value.to_string());
            }
        }
        self
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join("devices/system/cpu").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
        self
    }

    fn read(&self, cpus: u32) -> (Vec<u16>, Source) {
        let (capacities, source) = Capacities::read(self.0.path(), cpus);
        (capacities.0, source)
    }
}

const CAPACITY: &str = "cpu_capacity";
const CPPC: &str = "acpi_cppc/highest_perf";
const FREQUENCY: &str = "cpufreq/cpuinfo_max_freq";

fn all(values: &[u32]) -> Vec<Option<u32>> {
    values.iter().copied().map(Some).collect()
}

#[test]
fn arm_says_capacities_as_they_are() {
    let fake = FakeSys::new(CAPACITY, &all(&[446, 446, 1024, 871]));
    fake.add(
        FREQUENCY,
        &all(&[1_800_000, 1_800_000, 2_400_000, 2_400_000]),
    );
    assert_eq!(
        fake.read(4),
        (vec![446, 446, 1024, 871], Source::CpuCapacity)
    );
}

#[test]
fn intel_is_scaled_and_favoured_cores_are_like_the_others() {
    let fake = FakeSys::new(CPPC, &all(&[64, 68, 41, 41]));
    let expected = (vec![1024, 1024, 617, 617], Source::Cppc);
    assert_eq!(fake.read(4), expected);
    // Missing CPUs have full capacity.
    let (capacities, _) = fake.read(6);
    assert_eq!(capacities, [1024, 1024, 617, 617, 1024, 1024]);
    let alike = FakeSys::new(CPPC, &all(&[68, 62, 65]));
    assert_eq!(alike.read(3), (vec![1024; 3], Source::Alike));
}

#[test]
fn amd_ranks_cores_of_one_kind() {
    let fake = FakeSys::new(CPPC, &all(&[236, 166, 196]));
    fake.write(
        "modalias",
        "cpu:type:x86,ven0002fam001Amod0044:feature:,0000",
    );
    assert_eq!(fake.read(3).1, Source::Alike);
    fake.add(FREQUENCY, &all(&[5_100_000, 5_100_000, 3_300_000]));
    assert_eq!(fake.read(3), (vec![1024, 1024, 663], Source::MaxFrequency));
}

#[test]
fn a_source_that_is_incomplete_or_tells_nothing_apart_is_passed_over() {
    let speeds = all(&[4_900_000, 3_600_000]);
    for cppc in [vec![Some(64), None], all(&[64, 64]), all(&[0, 0])] {
        let fake = FakeSys::new(CPPC, &cppc);
        fake.add(FREQUENCY, &speeds);
        assert_eq!(fake.read(2), (vec![1024, 752], Source::MaxFrequency));
    }
}

#[test]
fn a_cpu_that_is_offline_needs_no_file() {
    let fake = FakeSys::new(CPPC, &[Some(64), Some(32), None]);
    assert_eq!(fake.read(3).1, Source::Alike);
    fake.write("cpu2/online", "0");
    assert_eq!(fake.read(3), (vec![1024, 512, 1024], Source::Cppc));
    fake.write("cpu2/online", "1");
    assert_eq!(fake.read(3).1, Source::Alike);
}

#[test]
fn nonsense_means_that_all_are_alike() {
    for values in [[0, 64], [3, 64], [0, 0], [1, u32::MAX]] {
        let fake = FakeSys::new(CPPC, &all(&values));
        assert_eq!(fake.read(2), (vec![1024; 2], Source::Alike), "{values:?}");
    }
    for text in ["", "fast", "-5", "99999999999999999999"] {
        let fake = FakeSys::new(CPPC, &all(&[64, 32]));
        fake.write("cpu1/acpi_cppc/highest_perf", text);
        assert_eq!(fake.read(2).1, Source::Alike, "{text:?}");
    }
    // No sysfs at all.
    let none = Capacities::read(Path::new("/nonexistent"), 2);
    assert_eq!(none, (Capacities::equal(2), Source::Alike));
}

#[test]
fn a_list_is_taken_as_it_is() {
    let parse = |text: &str| Capacities::parse(text, 4).map(|c| c.0);
    assert_eq!(parse("0-1=1024,2-3=614"), Ok(vec![1024, 1024, 614, 614]));
    assert_eq!(parse("2=1020"), Ok(vec![1024, 1024, 1020, 1024]));
    assert_eq!(parse(" 3 = 1 , 0 - 1 = 900 "), Ok(vec![900, 900, 1024, 1]));
    for (text, error) in [
        (
            "",
            "\"\" is not CPUs and their capacity, such as \"6-13=614\"",
        ),
        ("0=1024,", "\"\" is not CPUs"),
        ("all=3", "\"all=3\" is not CPUs"),
        ("3-2=5", "\"3-2=5\" is not CPUs"),
        ("+1=5", "\"+1=5\" is not CPUs"),
        ("1", "\"1\" is not CPUs"),
        ("1=60%", "\"1=60%\" is not CPUs"),
        ("1=0", "0 is not a capacity from 1 to 1024"),
        ("1=1025", "1025 is not a capacity"),
        ("1=70000", "70000 is not a capacity"),
        ("0-1=1024,1=5", "CPU 1 is named twice"),
        ("0-4=5", "there is no CPU 4: this machine has 4, from 0 on"),
        ("0-3=512", "no CPU has 1024, the capacity of the fastest"),
    ] {
        let found = parse(text).unwrap_err().to_string();
        assert!(found.starts_with(error), "{text:?}: {found}");
    }
}

#[test]
fn the_setting_says_which_are_used() {
    let fake = FakeSys::new(CPPC, &all(&[64, 32]));
    let of = |text: &str| {
        let setting = CpuCapacities::parse(text, 2).unwrap();
        let (capacities, source) = setting.of(fake.0.path(), 3);
        (capacities.0, source)
    };
    assert_eq!(
        CpuCapacities::parse("auto", 2),
        Ok(CpuCapacities::default())
    );
    assert_eq!(of("auto"), (vec![1024, 512, 1024], Source::Cppc));
    assert_eq!(of("equal"), (vec![1024; 3], Source::Configured));
    assert_eq!(of("0=700"), (vec![700, 1024, 1024], Source::Configured));
    assert!(CpuCapacities::parse("Auto", 2).is_err());
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "[0-9=,\\- a]{0,24}|.*", cpus in 0u32..=1024) {
        if let Ok(capacities) = Capacities::parse(&text, cpus) {
            prop_assert_eq!(capacities.0.len(), cpus as usize);
            prop_assert!(capacities.0.iter().all(|c| (1..=FULL).contains(c)));
            prop_assert!(capacities.0.contains(&FULL));
        }
    }

    #[test]
    fn what_is_written_is_read(mut all in prop::collection::vec(1..=FULL, 1..64)) {
        all[0] = FULL;
        let each = all.iter().enumerate().map(|(cpu, c)| format!("{cpu}={c}"));
        let one_by_one = each.collect::<Vec<_>>().join(",");
        let mut next = 0;
        let run = |same: &[u16]| {
            let first = next;
            next += same.len();
            format!("{first}-{}={}", next - 1, same[0])
        };
        let in_ranges = all.chunk_by(|a, b| a == b).map(run).collect::<Vec<_>>().join(",");
        for text in [one_by_one, in_ranges] {
            let read = Capacities::parse(&text, all.len() as u32);
            prop_assert_eq!(read, Ok(Capacities(all.clone())));
        }
    }

    #[test]
    fn all_values_are_scaled_or_refused(values in prop::collection::vec(
        prop::option::of(prop_oneof![any::<u32>(), 0u32..2000]), 0..16,
    )) {
        if let Some(Capacities(all)) = Capacities::scaled(&values) {
            prop_assert!(all.iter().all(|c| (1..=FULL).contains(c)));
            prop_assert!(all.contains(&FULL));
        }
    }
}
