//! The table of matchers, by which the kernel side knows programs at their exec.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;

use libbpf_rs::{Iter, MapCore, MapFlags};

use super::Scheduler;
use crate::layout::types as raw;
use crate::{limits, KernelError, Matcher, SpecRow};

impl Scheduler {
    /// See [`crate::Kernel::set_matchers`].
    pub(super) fn write_matchers(
        &mut self,
        rows: &[(Matcher, SpecRow)],
    ) -> Result<(), KernelError> {
        let mut wanted: BTreeMap<Matcher, SpecRow> = BTreeMap::new();
        for (key, row) in rows {
            wanted.entry(*key).or_insert(*row);
        }
        let limit = limits::MAX_SPECS as usize;
        if wanted.len() > limit {
            return Err(KernelError::TooManyMatchers {
                found: wanted.len(),
                limit,
            });
        }
        let mut counts = BTreeMap::new();
        for key in wanted.keys() {
            *counts.entry(key.0[0]).or_insert(0) += 1;
        }
        let failed = |doing| move |source| KernelError::Call { doing, source };
        let old: HashSet<Matcher> = self
            .skel
            .maps
            .matchers
            .keys()
            .filter_map(|k| Matcher::from_bytes(&k))
            .collect();
        // The kernel side does not look up a kind whose count is 0. So while rows are added and
        // removed, the count of every kind is set to 1.
        self.count_matchers(&(0..16).map(|kind| (kind, 1)).collect());
        let map = &self.skel.maps.matchers;
        // If the table cannot hold old and new rows together, the stale rows are removed first.
        let crowded = old.union(&wanted.keys().copied().collect()).count() > limit;
        let stale = || old.iter().filter(|k| !wanted.contains_key(k));
        let remove = || {
            stale().try_for_each(|k| map.delete(&k.bytes()).map_err(failed("removing a matcher")))
        };
        if crowded {
            remove()?;
        }
        for (key, row) in &wanted {
            map.update(&key.bytes(), bytes_of(&row.to_raw()), MapFlags::ANY)
                .map_err(failed("adding a matcher"))?;
        }
        if !crowded {
            remove()?;
        }
        self.count_matchers(&counts);
        Ok(())
    }

    /// Has the kernel side match all running processes. `keep`: those that have a reservation keep
    /// it.
    pub(super) fn match_running(&mut self, keep: bool) -> Result<(), KernelError> {
        let failed = |source| KernelError::Call {
            doing: "matching the running processes",
            source,
        };
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.rematch_keeps = keep.into();
        }
        let link = self.skel.progs.rematch.attach().map_err(failed)?;
        let mut walk = Iter::new(&link).map_err(failed)?;
        let mut out = [0; 4096];
        loop {
            match walk.read(&mut out) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e.into())),
            }
        }
    }

    /// Sets the number of matchers of each kind. The kernel side skips the lookup for kinds without
    /// matchers.
    fn count_matchers(&mut self, counts: &BTreeMap<u64, u32>) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            for (kind, slot) in bss.nr_matchers.iter_mut().enumerate() {
                // SAFETY: `slot` is valid. The kernel side may read it at the same time, but only
                // as a whole word.
                unsafe {
                    std::ptr::write_volatile(slot, counts.get(&(kind as u64)).copied().unwrap_or(0))
                };
            }
        }
    }
}

/// The bytes of a `spec`, as the map stores them.
fn bytes_of(row: &raw::spec) -> &[u8] {
    // SAFETY: `spec` has no padding (libbpf-cargo would have made it explicit).
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(row).cast::<u8>(), size_of::<raw::spec>())
    }
}
