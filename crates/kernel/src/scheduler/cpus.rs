//! What the kernel side has to know of the machine's CPUs before the load.

use super::{main_skel, tick};
use crate::facts::Machine;
use crate::topology::{Caches, Cores};
use crate::Settings;

/// Says how many CPUs `machine` may have, how fast each is, which are threads of one core, and
/// which share a cache. `cpus` is at most [`crate::limits::MAX_CPUS`].
pub(super) fn fit(
    open: &mut main_skel::OpenMainSkel<'_>,
    machine: &Machine,
    settings: &Settings,
    cpus: u32,
) {
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
        return;
    };
    rodata.nr_cpus = cpus;
    rodata.tick_ns = tick::period_ns();
    let (capacities, _) = settings.cpu_capacities.of(&machine.sys(), cpus);
    rodata.cpus_differ = capacities.differ().into();
    let cores = Cores::read(&machine.sys(), cpus);
    rodata.cores_shared = cores.are_shared().into();
    for (place, next) in rodata.next_thread.iter_mut().zip(cores.next_threads()) {
        *place = *next;
    }
    let caches = Caches::read(&machine.sys(), cpus);
    rodata.caches_differ = caches.differ().into();
    for (place, cache) in rodata.cpu_caches.iter_mut().zip(caches.as_slice()) {
        *place = *cache;
    }
    let places = rodata.cpu_capacities.iter_mut();
    for (place, capacity) in places.zip(capacities.as_slice()) {
        *place = *capacity;
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use libbpf_rs::skel::SkelBuilder;

    use super::*;
    use crate::{limits, CpuCapacities};

    /// `cpus_differ` and the capacities of the first five CPUs, if there are `cpus`.
    fn told(setting: &str, cpus: u32) -> (u32, [u16; 5]) {
        let settings = Settings {
            cpu_capacities: CpuCapacities::parse(setting, cpus).unwrap(),
            ..Settings::default()
        };
        let mut place = MaybeUninit::uninit();
        let builder = main_skel::MainSkelBuilder::default();
        let mut open = builder.open(&mut place).unwrap();
        let nowhere = Machine::at("/nonexistent");
        fit(&mut open, &nowhere, &settings, cpus);
        let rodata = open.maps.rodata_data.as_deref().unwrap();
        assert_eq!(rodata.nr_cpus, cpus);
        let first = std::array::from_fn(|cpu| rodata.cpu_capacities[cpu]);
        (rodata.cpus_differ, first)
    }

    #[test]
    fn the_kernel_side_is_told_how_fast_each_cpu_is() {
        assert_eq!(told("0-1=614", 4), (1, [614, 614, 1024, 1024, 0]));
        assert_eq!(told("auto", 2), (0, [1024, 1024, 0, 0, 0]));
        assert_eq!(told("equal", limits::MAX_CPUS), (0, [1024; 5]));
    }
}
