//! One epoll for everything that the daemon waits for. It has a time-out only if something has a
//! deadline, so an idle daemon is never woken.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{epoll, Timespec};

/// The sources of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    StopSignal,
    ReloadSignal,
    Listener,
    Files,
    /// The cgroup tree changed.
    Cgroups,
    /// A file system was mounted or unmounted.
    Mounts,
    /// Tasks wait for memory.
    Pressure,
    /// Another program changed a setting of the kernel that the daemon had changed.
    Knobs,
    Events,
    /// The connection of this number.
    Client(u32),
    /// Some task has waited a little for memory.
    EarlyPressure,
    /// systemd-oomd has killed.
    Oomd,
    /// Another session is the active one of a seat.
    Seats,
    /// The service manager has answered a call.
    Errands,
    /// A network interface, or its queueing discipline, has changed.
    Interfaces,
    /// The process of this id, which has a reservation, has exited.
    Process(i32),
}

impl Source {
    fn pack(self) -> u64 {
        let (kind, number) = match self {
            Self::StopSignal => (0, 0),
            Self::ReloadSignal => (6, 0),
            Self::Listener => (1, 0),
            Self::Files => (2, 0),
            Self::Cgroups => (7, 0),
            Self::Pressure => (8, 0),
            Self::Knobs => (9, 0),
            Self::Events => (3, 0),
            Self::EarlyPressure => (10, 0),
            Self::Oomd => (11, 0),
            Self::Seats => (12, 0),
            Self::Mounts => (13, 0),
            Self::Errands => (14, 0),
            Self::Interfaces => (15, 0),
            Self::Client(n) => (4, n),
            Self::Process(pid) => (5, pid as u32),
        };
        kind << 32 | u64::from(number)
    }

    fn unpack(data: u64) -> Option<Self> {
        let number = data as u32;
        Some(match data >> 32 {
            0 => Self::StopSignal,
            6 => Self::ReloadSignal,
            1 => Self::Listener,
            2 => Self::Files,
            7 => Self::Cgroups,
            8 => Self::Pressure,
            9 => Self::Knobs,
            3 => Self::Events,
            10 => Self::EarlyPressure,
            11 => Self::Oomd,
            12 => Self::Seats,
            13 => Self::Mounts,
            14 => Self::Errands,
            15 => Self::Interfaces,
            4 => Self::Client(number),
            5 => Self::Process(number as i32),
            _ => return None,
        })
    }
}

/// The events to wait for on a file descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
    /// What poll(2) calls exceptional data: a trigger of the kernel.
    Priority,
    /// Only the end of the connection.
    Hangup,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Self::Read => epoll::EventFlags::IN,
            Self::Write => epoll::EventFlags::OUT,
            Self::Priority => epoll::EventFlags::PRI,
            Self::Hangup => epoll::EventFlags::RDHUP,
        }
    }
}

/// An epoll instance.
#[derive(Debug)]
pub struct Poll {
    fd: OwnedFd,
}

impl Poll {
    /// # Errors
    /// No file descriptors or memory left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            fd: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        })
    }

    /// Wait for `interest` on `fd`, and report it as `source`, until `fd` is closed.
    ///
    /// # Errors
    /// `fd` was added already; no memory left.
    pub fn add(&self, fd: impl AsFd, source: Source, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(
            &self.fd,
            fd,
            epoll::EventData::new_u64(source.pack()),
            interest.flags(),
        )?)
    }

    /// Wait for other events on `fd`.
    ///
    /// # Errors
    /// `fd` was not added.
    pub fn change(&self, fd: impl AsFd, source: Source, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(
            &self.fd,
            fd,
            epoll::EventData::new_u64(source.pack()),
            interest.flags(),
        )?)
    }

    /// Stop waiting for `fd`.
    pub fn remove(&self, fd: impl AsFd) {
        // The only error is that `fd` was not added.
        let _ = epoll::delete(&self.fd, fd);
    }

    /// Sleep until a source is ready, or until `deadline`.
    ///
    /// # Errors
    /// None in practice. A signal only ends the sleep early.
    pub fn wait(&self, deadline: Option<Instant>) -> io::Result<Vec<Source>> {
        let left = deadline.map(|d| {
            d.saturating_duration_since(Instant::now())
                .min(Duration::from_secs(86_400))
        });
        let left = left.map(|d| Timespec {
            tv_sec: d.as_secs() as _,
            tv_nsec: d.subsec_nanos() as _,
        });
        let mut ready = Vec::with_capacity(64);
        match epoll::wait(&self.fd, spare_capacity(&mut ready), left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(ready
            .iter()
            .filter_map(|e| Source::unpack(e.data.u64()))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn sources_survive_packing() {
        for s in [
            Source::StopSignal,
            Source::ReloadSignal,
            Source::Listener,
            Source::Files,
            Source::Cgroups,
            Source::Pressure,
            Source::Knobs,
            Source::Events,
            Source::EarlyPressure,
            Source::Oomd,
            Source::Errands,
            Source::Client(u32::MAX),
            Source::Process(812),
        ] {
            assert_eq!(Source::unpack(s.pack()), Some(s));
        }
        assert_eq!(Source::unpack(u64::MAX), None);
    }

    #[test]
    fn it_wakes_for_data_and_for_deadlines() {
        let poll = Poll::new().unwrap();
        let (here, mut there) = UnixStream::pair().unwrap();
        poll.add(&here, Source::Client(7), Interest::Read).unwrap();
        let begin = Instant::now();
        assert_eq!(
            poll.wait(Some(begin + Duration::from_millis(20))).unwrap(),
            []
        );
        assert!(begin.elapsed() >= Duration::from_millis(20));
        there.write_all(b"x").unwrap();
        assert_eq!(poll.wait(None).unwrap(), [Source::Client(7)]);
        poll.change(&here, Source::Client(7), Interest::Hangup)
            .unwrap();
        assert_eq!(poll.wait(Some(Instant::now())).unwrap(), []);
        drop(there);
        assert_eq!(poll.wait(None).unwrap(), [Source::Client(7)]);
    }
}
