//! The order of disks' requests: which disks, their shares, and when they are watched.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags};

use super::{call, main_skel, quietly, Scheduler};
use crate::btf::Types;
use crate::disk::{per_cpu, DiskCounts, MINOR_BITS};
use crate::layout::types as raw;
use crate::{limits, DiskAccount, DiskShares, KernelError, OrderedDisk, Settings};

/// Leaves the programs out if requests are not to be ordered, or the kernel lacks what they see.
pub(super) fn fit(
    open: &mut main_skel::OpenMainSkel<'_>,
    kernel: &Types<'_>,
    settings: &Settings,
) -> libbpf_rs::Result<()> {
    let order = settings.order_disks && can_order(kernel);
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.disk_order = order.into();
        rodata.disk_counted_always = settings.count_disks.into();
    }
    open.progs.on_request_wanted.set_autoload(order);
    open.progs.on_request_sent.set_autoload(order);
    open.progs.on_request_done.set_autoload(order);
    if !order {
        open.maps.requests.set_max_entries(1)?;
        open.maps.disk_counts.set_max_entries(1)?;
    }
    Ok(())
}

pub(super) fn can_order(kernel: &Types<'_>) -> bool {
    kernel.has_function("bpf_task_work_schedule_resume")
}

/// The programs that see requests, while they are attached, and for how long they have been.
#[derive(Default)]
pub(super) struct Watch {
    /// on_request_done, on_request_sent
    counting: Vec<Link>,
    /// on_request_wanted, while disks are watched
    wanted: Option<Link>,
    counted: Duration,
    /// When `counting` were attached.
    since: Option<Instant>,
}

impl Watch {
    /// The requests are counted from now on.
    fn counts(&mut self, counting: Vec<Link>) {
        self.counting = counting;
        self.since = Some(Instant::now());
    }

    /// They are counted no longer.
    pub(super) fn end(&mut self) {
        self.wanted = None;
        self.counting.clear();
        self.counted = self.counted();
        self.since = None;
    }

    fn counted(&self) -> Duration {
        self.counted + self.since.map_or(Duration::ZERO, |at| at.elapsed())
    }
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
        if on != self.watch.wanted.is_none() || !self.order {
            return Ok(());
        }
        if !on {
            self.watch.wanted = None;
            if !self.count {
                self.watch.end();
            }
        }
        call(&self.skel.progs.disk_watch, &mut args, "watching the disks")?;
        if on {
            let attached = self.start_counting().and_then(|()| {
                let wanted = quietly(|| self.skel.progs.on_request_wanted.attach());
                wanted.map_err(|e| KernelError::Unwatched(e.to_string()))
            });
            self.watch.wanted = Some(attached.inspect_err(|_| {
                let mut off = raw::disk_watch_args { on: 0 };
                let _ = call(&self.skel.progs.disk_watch, &mut off, "watching the disks");
                if !self.count {
                    self.watch.end();
                }
            })?);
            call(&self.skel.progs.disk_watch, &mut args, "watching the disks")?;
        }
        Ok(())
    }

    /// Sees each request from now on.
    pub(super) fn start_counting(&mut self) -> Result<(), KernelError> {
        if !self.order || !self.watch.counting.is_empty() {
            return Ok(());
        }
        let programs = &self.skel.progs;
        let attached = quietly(|| {
            // The end of a request first: one whose end is missed would count for good.
            Ok(vec![
                programs.on_request_done.attach()?,
                programs.on_request_sent.attach()?,
            ])
        });
        let attached = attached.map_err(|e| KernelError::Unwatched(e.to_string()))?;
        self.watch.counts(attached);
        Ok(())
    }

    pub(super) fn read_disk_counts(&self) -> Result<Option<DiskCounts>, KernelError> {
        if !self.order {
            return Ok(None);
        }
        let maps = &self.skel.maps;
        let (rows, lost) = (per_cpu(&maps.disk_counts), per_cpu(&maps.disk_uncounted));
        let mut counts = DiskCounts {
            account: DiskAccount {
                always: self.count,
                counted_ns: u64::try_from(self.watch.counted().as_nanos()).unwrap_or(u64::MAX),
                uncounted: lost(&[0; 4])?.map_or(0, |sums| sums[0]),
            },
            domains: BTreeMap::new(),
        };
        for key in maps.disk_counts.keys() {
            // A row whose domain has just ended is gone.
            if let Some(sums) = rows(&key)? {
                counts.add(&key, &sums);
            }
        }
        Ok(Some(counts))
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
