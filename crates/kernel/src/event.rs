//! The decisions of the kernel side, as it reports them: `enum event_type` and `struct event` of
//! bpf/intf.h in Rust's terms.

use aplomb_protocol::EventKind;

use crate::layout::types as raw;

/// The number of this kind of event in `enum event_type`.
pub(crate) fn event_number(kind: EventKind) -> u32 {
    use raw::event_type as e;
    match kind {
        EventKind::Matched => e::EV_MATCHED,
        EventKind::Inherited => e::EV_INHERITED,
        EventKind::Admitted => e::EV_ADMITTED,
        EventKind::Rejected => e::EV_REJECTED,
        EventKind::Exhausted => e::EV_EXHAUSTED,
        EventKind::Revoked => e::EV_REVOKED,
        EventKind::Reactivated => e::EV_REACTIVATED,
        EventKind::Missed => e::EV_MISSED,
        EventKind::Exited => e::EV_EXITED,
        EventKind::Moved => e::EV_MOVED,
        EventKind::Limit => e::EV_LIMIT,
        EventKind::Lost => e::EV_LOST,
        EventKind::Guaranteed => e::EV_GUARANTEED,
        EventKind::Domain => e::EV_DOMAIN,
        EventKind::Parked => e::EV_PARKED,
        EventKind::Returned => e::EV_RETURNED,
        EventKind::Demoted => e::EV_DEMOTED,
        EventKind::Killed => e::EV_KILLED,
        EventKind::Disk => e::EV_DISK,
        EventKind::Owner => e::EV_OWNER,
        EventKind::Elsewhere => e::EV_ELSEWHERE,
        EventKind::Swapped => e::EV_SWAPPED,
    }
    .0
}

fn event_kind(number: u32) -> Option<EventKind> {
    EventKind::ALL
        .into_iter()
        .find(|k| event_number(*k) == number)
}

/// One decision of the kernel side (`struct event`). The meaning of `a`, `b` and `c` depends on the
/// kind; bpf/intf.h lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time on CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    pub kind: EventKind,
    pub cpu: i32,
    pub pid: i32,
    pub spec_id: u32,
    /// Of [`EventKind::Limit`]: whose task or cgroup it is. Else 0.
    pub user: u32,
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub comm: [u8; 16],
}

impl Event {
    /// Time for which interactive tasks were parked since the last such event, because they took
    /// the memory reserve too fast, ns. None: the event says nothing of that.
    #[must_use]
    pub fn waited_for_reserve(&self) -> Option<u64> {
        let reason = u64::from(raw::park_reason::PARK_RESERVE.0);
        (self.kind == EventKind::Parked && self.a == reason).then_some(self.b)
    }

    /// Time for which tasks of an interactive program waited for pages in swap while memory was
    /// short, since the last such event, ns. None: the event says nothing of that.
    #[must_use]
    pub fn waited_for_swap(&self) -> Option<u64> {
        (self.kind == EventKind::Swapped && self.c > 0).then_some(self.c)
    }

    /// True if best-effort tasks were parked because memory is short.
    #[must_use]
    pub fn parked_for_memory(&self) -> bool {
        let reason = u64::from(raw::park_reason::PARK_MEMORY.0);
        self.kind == EventKind::Parked && self.a == reason
    }

    /// True if tasks were parked because their domain has too many dirty pages.
    #[must_use]
    pub fn parked_for_dirty(&self) -> bool {
        let reason = u64::from(raw::park_reason::PARK_DIRTY.0);
        self.kind == EventKind::Parked && self.a == reason
    }

    /// Decodes a record of the ring buffer. Returns None if it is no event that this program knows.
    /// One such record is sent by ops.exit to wake this program up.
    pub(crate) fn from_record(record: &[u8]) -> Option<Self> {
        if record.len() < size_of::<raw::event>() {
            return None;
        }
        // SAFETY: `record` is long enough, and every bit pattern is a valid `event` (integers
        // only).
        let e = unsafe { std::ptr::read_unaligned(record.as_ptr().cast::<raw::event>()) };
        let kind = event_kind(e.r#type)?;
        let (user, a) = match kind {
            EventKind::Limit => ((e.a >> 32) as u32, e.a & u64::from(u32::MAX)),
            _ => (0, e.a),
        };
        Some(Self {
            time_ns: e.time_ns,
            kind,
            cpu: e.cpu,
            pid: e.pid,
            spec_id: e.spec_id,
            user,
            a,
            b: e.b,
            c: e.c,
            comm: e.comm.map(|c| c as u8),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_of_the_header_has_a_kind() {
        let known: Vec<u32> = EventKind::ALL.into_iter().map(event_number).collect();
        let all: Vec<u32> = (1..raw::event_type::NR_EVENTS.0).collect();
        assert_eq!(known, all);
    }

    #[test]
    fn waits_for_swap_count_while_memory_is_short() {
        let swapped = |short_ns| Event {
            time_ns: 0,
            kind: EventKind::Swapped,
            cpu: 0,
            pid: 7,
            spec_id: 0,
            user: 0,
            a: 900,
            b: 3,
            c: short_ns,
            comm: [0; 16],
        };
        assert_eq!(swapped(500).waited_for_swap(), Some(500));
        assert_eq!(swapped(0).waited_for_swap(), None);
        let mut other = swapped(500);
        other.kind = EventKind::Parked;
        assert_eq!(other.waited_for_swap(), None);
    }

    #[test]
    fn records_become_events() {
        let raw = raw::event {
            time_ns: 7,
            r#type: 6,
            cpu: 1,
            pid: 812,
            a: 930_000,
            ..Default::default()
        };
        // SAFETY: plain integers without padding.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&raw).cast::<u8>(), size_of_val(&raw))
        };
        let event = Event::from_record(bytes).unwrap();
        assert_eq!(
            (event.kind, event.pid, event.a),
            (EventKind::Revoked, 812, 930_000)
        );
        assert_eq!(Event::from_record(&bytes[..20]), None, "too short");
        let mut unknown = bytes.to_vec();
        unknown[8] = 99;
        assert_eq!(Event::from_record(&unknown), None, "unknown type");
    }

    #[test]
    fn an_event_of_a_limit_says_whose_it_is() {
        let decoded = |kind: EventKind, a: u64| {
            let record = raw::event {
                r#type: event_number(kind),
                a,
                ..raw::event::default()
            };
            let at = (&raw const record).cast::<u8>();
            // SAFETY: an `event` has integers only, and no padding
            let bytes = unsafe { std::slice::from_raw_parts(at, size_of::<raw::event>()) };
            let event = Event::from_record(bytes).unwrap();
            (event.user, event.a)
        };
        let limit = u64::from(crate::limits::MAX_OWNED_DOMAINS);
        assert_eq!(decoded(EventKind::Limit, 1000 << 32 | limit), (1000, limit));
        assert_eq!(decoded(EventKind::Limit, limit), (0, limit), "root's");
        let ns = 5_000_000_000;
        assert_eq!(decoded(EventKind::Exited, ns), (0, ns));
    }
}
