//! What the kernel side has to know of the machine's CPUs before the load.

use super::{main_skel, tick};
use crate::facts::Machine;
use crate::Settings;

/// Says how many CPUs `machine` may have, and how fast each is. `cpus` is at most
/// [`crate::limits::MAX_CPUS`].
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
    let places = rodata.cpu_capacities.iter_mut();
    for (place, capacity) in places.zip(capacities.as_slice()) {
        *place = *capacity;
    }
}
