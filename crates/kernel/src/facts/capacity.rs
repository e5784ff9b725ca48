//! Whether CPUs differ.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{ok, Fact, Machine};
use crate::{limits, Capacities, CpuCapacities, Source};

impl Machine {
    /// The capacities that `setting` says, or those of this machine.
    pub(super) fn capacities(&self, setting: &CpuCapacities) -> Fact {
        let cpus = self.possible_cpus().unwrap_or(0).min(limits::MAX_CPUS);
        let sys = self.sys();
        let (capacities, source) = setting.of(&sys, cpus);
        // A CPU that the machine could have, but has not, has no directory.
        let exists = |cpu| sys.join(format!("devices/system/cpu/cpu{cpu}")).is_dir();
        let kinds = match capacities.differ() {
            true => kinds(&capacities, exists),
            false => "all CPUs are alike".into(),
        };
        let found = match source {
            Source::Alike => kinds,
            source => format!("{kinds} (from {source})"),
        };
        ok("cpu-capacities", found)
    }
}

/// "6 of full capacity, 8 of 60 %": the CPUs for which `counts` is true, fastest first.
fn kinds(capacities: &Capacities, counts: impl Fn(u32) -> bool) -> String {
    let full = u32::from(Capacities::FULL);
    let mut kinds = BTreeMap::<_, u32>::new();
    for (cpu, capacity) in (0..).zip(capacities.as_slice()) {
        if counts(cpu) {
            let percent = (u32::from(*capacity) * 100 + full / 2) / full;
            *kinds.entry(Reverse(percent)).or_default() += 1;
        }
    }
    let each = kinds.iter().map(|(Reverse(percent), count)| match percent {
        100 => format!("{count} of full capacity"),
        percent => format!("{count} of {percent} %"),
    });
    each.collect::<Vec<_>>().join(", ")
}
