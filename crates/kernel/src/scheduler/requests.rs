//! Requests about one process: its reservation, its owner, its demotion, a park. Each runs a
//! syscall program.

use super::{call, Scheduler};
use crate::layout::types as raw;
use crate::types::server_state;
use crate::{limits, KernelError, Owner, Reserved, Shortage, SpecRow};

impl Scheduler {
    pub(super) fn request_reservation(
        &mut self,
        pid: i32,
        spec: Option<SpecRow>,
    ) -> Result<Reserved, KernelError> {
        let mut args = raw::reserve_args {
            pid,
            spec: spec.map(SpecRow::to_raw).unwrap_or_default(),
            ..Default::default()
        };
        call(
            &self.skel.progs.reserve,
            &mut args,
            "asking for a reservation",
        )?;
        match -args.result {
            0 => Ok(Reserved {
                state: server_state(args.state),
                cpu: args.cpu,
                load_ppm: args.load_ppm,
            }),
            libc::ESRCH => Err(KernelError::NoProcess(pid)),
            libc::ENOSPC => Err(KernelError::Full(limits::MAX_SERVERS)),
            _ => Err(KernelError::Invalid),
        }
    }

    pub(super) fn request_owner(&self, pid: i32) -> Result<Owner, KernelError> {
        let mut args = raw::owner_args {
            pid,
            ..Default::default()
        };
        call(&self.skel.progs.owner_of, &mut args, "asking for an owner")?;
        match args.result {
            0 => Ok(Owner {
                uid: args.uid,
                account: args.owner,
            }),
            _ => Err(KernelError::NoProcess(pid)),
        }
    }

    pub(super) fn request_demotion(
        &mut self,
        pid: i32,
        short: Option<Shortage>,
    ) -> Result<(), KernelError> {
        let numbers = short.unwrap_or_default();
        let mut args = raw::demote_args {
            pid,
            promote: short.is_none().into(),
            demand: numbers.demand,
            total: numbers.total,
            limit: numbers.limit,
            ..Default::default()
        };
        call(&self.skel.progs.demote, &mut args, "demoting a program")?;
        match -args.result {
            0 => Ok(()),
            libc::EPERM => Err(KernelError::Spared(pid)),
            _ => Err(KernelError::NoProcess(pid)),
        }
    }

    pub(super) fn request_park(&mut self, tid: i32, for_ns: u64) -> Result<(), KernelError> {
        let mut args = raw::park_args {
            pid: tid,
            for_ns,
            ..Default::default()
        };
        call(
            &self.skel.progs.park_request,
            &mut args,
            "asking for a park",
        )?;
        match -args.result {
            0 => Ok(()),
            libc::ESRCH => Err(KernelError::NoProcess(tid)),
            libc::EOPNOTSUPP => Err(KernelError::CannotPark),
            libc::EINVAL => Err(KernelError::NeverParks(tid)),
            _ => Err(KernelError::Full(limits::MAX_SERVERS)),
        }
    }
}
