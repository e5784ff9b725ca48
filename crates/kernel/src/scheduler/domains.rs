//! The table of domains of the loaded scheduler: reads it, and changes it through the BPF syscall
//! program `domain_set`.

use libbpf_rs::{MapCore, MapFlags, ProgramInput};

use super::{raw, Scheduler};
use crate::{limits, Domain, DomainChange, KernelError};

impl Scheduler {
    pub(super) fn read_domains(&self) -> Result<Vec<Domain>, KernelError> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else {
            return Ok(Vec::new());
        };
        // The kernel side keeps its own state of domains. This program brings the map `domains` up
        // to date.
        self.skel
            .progs
            .domain_refresh
            .test_run(ProgramInput::default())
            .map_err(|source| KernelError::Call {
                doing: "asking for the table of domains",
                source,
            })?;
        // SAFETY: valid. The kernel side may write it at the same time, but only as a whole word.
        let used = unsafe { std::ptr::read_volatile(&raw const bss.nr_domain_slots) };
        let mut domains = Vec::new();
        for slot in 0..used.min(limits::MAX_DOMAINS + 1) {
            let value = self
                .skel
                .maps
                .domains
                .lookup(&slot.to_ne_bytes(), MapFlags::ANY)
                .map_err(|source| KernelError::Call {
                    doing: "reading the table of domains",
                    source,
                })?;
            let Some(value) = value.filter(|v| v.len() >= size_of::<raw::domain_info>()) else {
                continue;
            };
            // SAFETY: `value` is long enough, and every bit pattern is a valid `domain_info`
            // (integers only).
            let info =
                unsafe { std::ptr::read_unaligned(value.as_ptr().cast::<raw::domain_info>()) };
            domains.extend(Domain::from_raw(&info));
        }
        Ok(domains)
    }

    pub(super) fn change_domain(
        &mut self,
        cgid: u64,
        change: DomainChange,
    ) -> Result<(), KernelError> {
        let disk = matches!(change, DomainChange::Disk(_));
        if disk && !self.order {
            return Err(KernelError::DisksNotOrdered);
        }
        let mut args = change.to_raw(cgid);
        super::call(&self.skel.progs.domain_set, &mut args, "changing a domain")?;
        match -args.result {
            0 => Ok(()),
            libc::ENOENT => Err(KernelError::NoDomain(cgid)),
            libc::ENOSPC => Err(KernelError::DomainFull {
                taken_ppm: args.taken_ppm,
                limit_ppm: args.limit_ppm,
            }),
            libc::EMFILE if disk => Err(KernelError::DiskGroupsTaken),
            libc::EMFILE => Err(KernelError::Full(limits::MAX_SERVERS)),
            libc::E2BIG => Err(KernelError::DomainUnpromised),
            _ => Err(KernelError::Invalid),
        }
    }
}
