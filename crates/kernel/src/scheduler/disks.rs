//! The order of disks' requests: which disks, their shares, and when they are watched.

use libbpf_rs::{MapCore, MapFlags};

use super::{call, main_skel, quietly, Scheduler};
use crate::btf::Types;
use crate::layout::types as raw;
use crate::{limits, DiskShares, KernelError, OrderedDisk};

/// How the kernel packs a device's numbers (include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// Leaves the programs out if requests are not to be ordered, or the kernel lacks what they see.
pub(super) fn fit(
    open: &mut main_skel::OpenMainSkel<'_>,
    kernel: &Types<'_>,
    order: bool,
) -> libbpf_rs::Result<()> {
    let order = order && kernel.has_function("bpf_task_work_schedule_resume");
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.disk_order = order.into();
    }
    open.progs.on_request_wanted.set_autoload(order);
    open.progs.on_request_sent.set_autoload(order);
    open.progs.on_request_done.set_autoload(order);
    if !order {
        open.maps.requests.set_max_entries(1)?;
    }
    Ok(())
}

impl Scheduler {
    pub(super) fn set_disks(
        &mut self,
        disks: &[OrderedDisk],
        shares: DiskShares,
    ) -> Result<(), KernelError> {
        let failed = |source| KernelError::Call {
            doing: "naming the disks whose requests are ordered",
            source,
        };
        let table = &self.skel.maps.disk_of;
        let known = &disks[..disks.len().min(limits::MAX_VOLUMES as usize)];
        let key = |d: &OrderedDisk| (d.major << MINOR_BITS | d.minor).to_ne_bytes();
        // First remove, so that there is room.
        let old: Vec<Vec<u8>> = table.keys().collect();
        for gone in old
            .iter()
            .filter(|k| !known.iter().any(|d| key(d) == k[..]))
        {
            table.delete(gone).map_err(failed)?;
        }
        for disk in known.iter().filter(|d| d.disk < limits::MAX_DISKS) {
            let value = disk.disk.to_ne_bytes();
            table
                .update(&key(disk), &value, MapFlags::ANY)
                .map_err(failed)?;
        }
        let mut args = raw::disk_set_args {
            round_ns: shares.round_ns,
            disks: known.iter().map(|d| d.disk + 1).max().unwrap_or(0),
            soft_real_time: shares.soft_real_time,
            interactive: shares.interactive,
            rest: shares.rest,
        };
        call(
            &self.skel.progs.disk_set,
            &mut args,
            "setting the shares of disks",
        )
    }

    pub(super) fn set_watch(&mut self, on: bool) -> Result<(), KernelError> {
        let mut args = raw::disk_watch_args { on: on.into() };
        if on != self.watch.is_empty() || !self.order {
            return Ok(());
        }
        if !on {
            self.watch.clear();
        }
        call(&self.skel.progs.disk_watch, &mut args, "watching the disks")?;
        if on {
            let programs = &self.skel.progs;
            let attached = quietly(|| {
                // The end of a request first: one whose end is missed would count for good.
                Ok(vec![
                    programs.on_request_done.attach()?,
                    programs.on_request_sent.attach()?,
                    programs.on_request_wanted.attach()?,
                ])
            });
            self.watch = attached.map_err(|e| {
                let mut off = raw::disk_watch_args { on: 0 };
                let _ = call(&self.skel.progs.disk_watch, &mut off, "watching the disks");
                KernelError::Unwatched(e.to_string())
            })?;
        }
        Ok(())
    }

    pub(super) fn last_wanted_ns(&self) -> u64 {
        let bss = self.skel.maps.bss_data.as_deref();
        // SAFETY: it is valid. The kernel side may write it at the same time, but only as a whole
        // word.
        bss.map_or(0, |bss| unsafe {
            std::ptr::read_volatile(&raw const bss.disk_wanted)
        })
    }
}
