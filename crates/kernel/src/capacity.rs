//! How fast each CPU is beside the fastest one: from sysfs, or from the configuration.
//!
//! bpf/policy/capacity.h says what the kernel side does with it.

use std::fmt;
use std::fs;
use std::path::Path;

/// From this part of the fastest CPU's value on, in percent, a CPU counts as equally fast. The
/// highest clock rates of cores of one kind differ by up to 10 % (Intel's favoured cores). Tasks
/// would be moved about for such a difference, and budgets converted, for nothing.
const ALIKE_PERCENT: u64 = 90;
/// The slowest CPU that is believed has this part of the fastest one's capacity. The slowest cores
/// on sale have a sixth. A smaller value is an error of the firmware, and a reservation on such a
/// CPU would take most of its time.
const SLOWEST_PART: u64 = 16;
/// The CPUs' makers in sysfs's modalias (X86_VENDOR_AMD, X86_VENDOR_HYGON) whose firmware ranks
/// cores of one kind by `highest_perf`, in steps that differ by up to 30 % (preferred cores). The
/// kernel has other numbers for their highest clock rates (amd_get_boost_ratio_numerator()).
const RANKED: [&str; 2] = [",ven0002", ",ven0009"];

/// Where capacities are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// No source tells CPUs apart.
    Alike,
    /// The setting `cpu-capacities`.
    Configured,
    /// `cpu_capacity`: what the kernel's own scheduler uses on Arm and RISC-V.
    CpuCapacity,
    /// `acpi_cppc/highest_perf`: the firmware's number for the highest performance.
    Cppc,
    /// `cpufreq/cpuinfo_max_freq`: the highest clock rate. It leaves out that kinds of cores differ
    /// in the work of one cycle, so it is the last.
    MaxFrequency,
}

impl Source {
    /// The sources in sysfs, best first.
    const IN_SYSFS: [Self; 3] = [Self::CpuCapacity, Self::Cppc, Self::MaxFrequency];
}

/// The file's path below a CPU's directory, or the setting's name.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alike => "no source",
            Self::Configured => "cpu-capacities in aplomb.toml",
            Self::CpuCapacity => "cpu_capacity",
            Self::Cppc => "acpi_cppc/highest_perf",
            Self::MaxFrequency => "cpufreq/cpuinfo_max_freq",
        })
    }
}

/// What is wrong with a list of capacities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    #[error("\"{0}\" is not CPUs and their capacity, such as \"6-13=614\"")]
    Syntax(String),
    #[error("{0} is not a capacity from 1 to {FULL}")]
    OutOfRange(u32),
    #[error("CPU {0} is named twice")]
    Twice(u32),
    #[error("there is no CPU {cpu}: this machine has {cpus}, from 0 on")]
    NoCpu { cpu: u32, cpus: u32 },
    #[error("no CPU has {FULL}, the capacity of the fastest")]
    NoneFull,
}

/// The capacity of each possible CPU by its number, from 1 to 1024. The fastest CPU has 1024.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacities(Vec<u16>);

/// [`Capacities::FULL`]
const FULL: u16 = Capacities::FULL;

impl Capacities {
    /// The fastest CPU's capacity (`CAPACITY_FULL`; the kernel's SCHED_CAPACITY_SCALE).
    pub const FULL: u16 = 1024;

    /// `cpus` equally fast CPUs.
    pub fn equal(cpus: u32) -> Self {
        Self(vec![FULL; cpus as usize])
    }

    /// The capacities of CPUs 0 to `cpus` - 1 of the machine whose sysfs is at `sys`. They are from
    /// the first source that tells CPUs apart, because some firmware has one `highest_perf` for all
    /// cores of a machine with two kinds. (`Source::Alike`: none does.)
    ///
    /// A source counts only if each CPU that is online has it, and no value is nonsense: not a
    /// number, 0, or below a sixteenth of the largest one. A CPU that is missing, or is offline and
    /// has no file, gets full capacity.
    pub fn read(sys: &Path, cpus: u32) -> (Self, Source) {
        let dir = sys.join("devices/system/cpu");
        let model = fs::read_to_string(dir.join("modalias")).unwrap_or_default();
        let ranked = RANKED.iter().any(|maker| model.contains(maker));
        let usable = |source: &Source| !(ranked && *source == Source::Cppc);
        for source in Source::IN_SYSFS.into_iter().filter(usable) {
            let values = values(&dir, cpus, &source.to_string());
            match values.and_then(|v| Self::scaled(&v)) {
                Some(capacities) if capacities.differ() => return (capacities, source),
                _ => {}
            }
        }
        (Self::equal(cpus), Source::Alike)
    }

    /// The capacities in proportion to `values`; full ones for CPUs without a value. None: a value
    /// is nonsense.
    fn scaled(values: &[Option<u32>]) -> Option<Self> {
        let known = values.iter().flatten().copied().map(u64::from);
        let largest = known.clone().max()?;
        if known.clone().min()? * SLOWEST_PART < largest.max(1) {
            return None;
        }
        let capacity = |value: u64| match value * 100 >= largest * ALIKE_PERCENT {
            true => FULL,
            // Below 1024, since the value is below the largest one.
            false => ((value * u64::from(FULL) + largest / 2) / largest) as u16,
        };
        let each = values
            .iter()
            .map(|v| v.map_or(FULL, |v| capacity(v.into())));
        Some(Self(each.collect()))
    }

    /// A list such as "0-5=1024,6-13=614", for a machine with `cpus` possible CPUs. A CPU that is
    /// not named has 1024. Capacities are taken as they are written, also above 90 %.
    ///
    /// # Errors
    ///
    /// See [`CapacityError`].
    pub fn parse(text: &str, cpus: u32) -> Result<Self, CapacityError> {
        let mut named = vec![None; cpus as usize];
        for part in text.split(',').map(str::trim) {
            let wrong = || CapacityError::Syntax(part.into());
            let (range, capacity) = part.split_once('=').ok_or_else(wrong)?;
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first = number(first).ok_or_else(wrong)?;
            let last = number(last).filter(|l| *l >= first).ok_or_else(wrong)?;
            let capacity = number(capacity).ok_or_else(wrong)?;
            let valid = u16::try_from(capacity).ok();
            let valid = valid.filter(|c| (1..=FULL).contains(c));
            let valid = valid.ok_or(CapacityError::OutOfRange(capacity))?;
            if last >= cpus {
                return Err(CapacityError::NoCpu { cpu: last, cpus });
            }
            for cpu in first..=last {
                if named[cpu as usize].replace(valid).is_some() {
                    return Err(CapacityError::Twice(cpu));
                }
            }
        }
        let all: Vec<u16> = named.into_iter().map(|c| c.unwrap_or(FULL)).collect();
        if !all.contains(&FULL) {
            return Err(CapacityError::NoneFull);
        }
        Ok(Self(all))
    }

    /// Some CPU is slower than the fastest.
    pub fn differ(&self) -> bool {
        self.0.iter().any(|c| *c != FULL)
    }

    /// By number of the CPU.
    pub fn as_slice(&self) -> &[u16] {
        &self.0
    }
}

/// Digits only: no sign.
fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The number in `file` of each CPU below `dir`; None for a CPU that is missing, or is offline and
/// has no such file. None instead of all: a CPU that is online lacks it, or it has no number.
fn values(dir: &Path, cpus: u32, file: &str) -> Option<Vec<Option<u32>>> {
    let value = |cpu| {
        let dir = dir.join(format!("cpu{cpu}"));
        match fs::read_to_string(dir.join(file)) {
            Ok(text) => text.trim().parse().ok().map(Some),
            Err(_) => (!is_online(&dir)).then_some(None),
        }
    };
    (0..cpus).map(value).collect()
}

/// A CPU that cannot be taken offline has no file that says so.
fn is_online(dir: &Path) -> bool {
    let online = fs::read_to_string(dir.join("online"));
    dir.is_dir() && online.map_or(true, |text| text.trim() != "0")
}

/// Which capacities are used: the setting `cpu-capacities`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CpuCapacities {
    /// Those that the machine names.
    #[default]
    Auto,
    /// All CPUs are taken for equally fast.
    Equal,
    /// These.
    Listed(Capacities),
}

impl CpuCapacities {
    /// "auto", "equal" or a list ([`Capacities::parse`]).
    ///
    /// # Errors
    ///
    /// See [`CapacityError`].
    pub fn parse(text: &str, cpus: u32) -> Result<Self, CapacityError> {
        match text {
            "auto" => Ok(Self::Auto),
            "equal" => Ok(Self::Equal),
            list => Capacities::parse(list, cpus).map(Self::Listed),
        }
    }

    /// The capacities of CPUs 0 to `cpus` - 1 of the machine whose sysfs is at `sys`.
    pub fn of(&self, sys: &Path, cpus: u32) -> (Capacities, Source) {
        match self {
            Self::Auto => Capacities::read(sys, cpus),
            Self::Equal => (Capacities::equal(cpus), Source::Configured),
            Self::Listed(list) => {
                let mut list = list.clone();
                list.0.resize(cpus as usize, FULL);
                (list, Source::Configured)
            }
        }
    }
}

#[cfg(test)]
mod tests;
