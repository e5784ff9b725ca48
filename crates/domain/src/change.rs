//! Changes to a domain, as `aplomb domain set` and settings write them: `weight=200`.

use std::fmt;
use std::str::FromStr;

use aplomb_spec::{format_rate, format_size, parse_rate};
use serde::{Deserialize, Serialize};

use crate::{
    parse_disk, parse_limit, parse_memory, parse_reservation, parse_switch, parse_weight, percent,
    DomainPolicy, Limit, Reservation,
};

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// `cpu=25%`, `cpu=10ms/100ms`, `cpu=none`: the reservation.
    Cpu(Option<Reservation>),
    /// `memory=200M`, `memory=none`: the reservation of memory, bytes.
    Memory(Option<u64>),
    /// `io=20%`, `io=none`: the reservation of each disk's time, ppm.
    Io(Option<u32>),
    /// `net.weight=200`, `net.weight=none`: the weight of its packets.
    NetWeight(Option<u32>),
    /// `net.max=5Mbit`, `net.max=none`: the ceiling of what it sends, bits a second.
    NetMax(Option<u64>),
    /// `weight=200`: cpu.weight.
    Weight(u32),
    /// `max=50%`, `max=20ms/100ms`, `max=none`: cpu.max.
    Max(Option<Limit>),
    /// `policy=mtr`.
    Policy(DomainPolicy),
    /// `idle=1`: cpu.idle.
    Idle(bool),
}

/// The keys (the part before the "="), for messages and completions.
pub const CHANGES: [&str; 9] = [
    "cpu",
    "memory",
    "io",
    "net.weight",
    "net.max",
    "weight",
    "max",
    "policy",
    "idle",
];

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or("a change is written KEY=VALUE, such as weight=200")?;
        let change = match key.trim() {
            "cpu" => parse_reservation(value).map(Self::Cpu),
            "memory" => parse_memory(value).map(Self::Memory),
            "io" => parse_disk(value).map(Self::Io),
            "net.weight" if value.trim() == "none" => Ok(Self::NetWeight(None)),
            "net.weight" => parse_weight(value).map(Some).map(Self::NetWeight),
            "net.max" if value.trim() == "none" => Ok(Self::NetMax(None)),
            "net.max" => parse_rate(value).map(Some).map(Self::NetMax),
            "weight" => parse_weight(value).map(Self::Weight),
            "max" => parse_limit(value).map(Self::Max),
            "policy" => value.parse().map(Self::Policy),
            "idle" => parse_switch(value).map(Self::Idle),
            other => {
                let other = aplomb_spec::shorten(other);
                return Err(format!("\"{other}\" is none of {}", CHANGES.join(", ")));
            }
        };
        change.map_err(|e| format!("{}: {e}", key.trim()))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".into());
        match self {
            Self::Cpu(r) => write!(f, "cpu={}", or_none(r.map(|r| r.to_string()))),
            Self::Memory(m) => write!(f, "memory={}", or_none(m.map(format_size))),
            Self::Io(ppm) => write!(f, "io={}", or_none(ppm.map(percent))),
            Self::NetWeight(w) => write!(f, "net.weight={}", or_none(w.map(|w| w.to_string()))),
            Self::NetMax(bits) => write!(f, "net.max={}", or_none(bits.map(format_rate))),
            Self::Weight(w) => write!(f, "weight={w}"),
            Self::Max(m) => write!(f, "max={}", or_none(m.map(|m| m.to_string()))),
            Self::Policy(p) => write!(f, "policy={p}"),
            Self::Idle(idle) => write!(f, "idle={}", u8::from(*idle)),
        }
    }
}

/// Body of the fuzz target `domain`: runs every parser of this crate over any bytes. An accepted
/// text must print and parse back to the same value; an error message must be one line.
///
/// # Panics
/// If one of these does not hold.
pub fn fuzz_domain(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for line in text.lines() {
        let refused = match line.parse::<Change>() {
            Ok(change) => {
                assert_eq!(change.to_string().parse(), Ok(change), "{line:?}");
                None
            }
            Err(e) => Some(e),
        };
        let path = match line.parse::<crate::DomainPath>() {
            Ok(path) => {
                assert_eq!(path.to_string().parse(), Ok(path.clone()));
                assert!(path
                    .parts()
                    .all(|p| p != ".." && p != "." && !p.contains('/')));
                None
            }
            Err(e) => Some(e),
        };
        let queues = match line.parse::<crate::Queues>() {
            Ok(queues) => {
                assert_eq!(queues.to_string().parse(), Ok(queues), "{line:?}");
                None
            }
            Err(e) => Some(e),
        };
        let queue = match line.parse::<crate::QueuePath>() {
            Ok(path) => {
                assert_eq!(path.to_string().parse(), Ok(path), "{line:?}");
                None
            }
            Err(e) => Some(e),
        };
        let change = line.parse::<crate::QueueChange>().err();
        let errors = [refused, path, queues, queue, change];
        for e in errors.into_iter().flatten() {
            assert!(e.len() < 8192 && !e.contains(char::is_control), "{e:?}");
        }
        if let Ok(max) = crate::parse_cpu_max(line) {
            let written = crate::print_cpu_max(max);
            let again = crate::parse_cpu_max(&match max {
                None => written + " 100000",
                Some(_) => written,
            });
            assert_eq!(again, Ok(max));
        }
        let value = Some(line);
        let _ = crate::Marks::parse([value; 9]);
    }
    let _ = crate::find_mount(&text);
    let _ = crate::parse_proc_cgroup(&text);
    let _ = (
        crate::tree::parse_populated(&text),
        crate::tree::parse_used(&text),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_and_written() {
        for text in [
            "cpu=25%",
            "cpu=10ms/100ms",
            "cpu=none",
            "memory=200M",
            "memory=65537",
            "memory=none",
            "io=12.5%",
            "io=none",
            "net.weight=200",
            "net.weight=none",
            "net.max=5Mbit",
            "net.max=none",
            "weight=200",
            "max=50%",
            "max=20ms/100ms",
            "max=none",
            "policy=mtr",
            "idle=1",
        ] {
            assert_eq!(text.parse::<Change>().unwrap().to_string(), text);
        }
        for (text, part) in [
            ("weight", "KEY=VALUE"),
            ("weight=0", "weight: \"0\""),
            (
                "cpu.weight=100",
                "none of cpu, memory, io, net.weight, net.max, weight",
            ),
            ("memory=lots", "memory: \"lots\""),
            ("io=81%", "io: 81% is more than the 80%"),
            ("policy=edf", "policy: \"edf\""),
            ("idle=2", "idle: "),
        ] {
            let e = text.parse::<Change>().unwrap_err();
            assert!(e.contains(part), "{text}: {e}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_the_parsers(data: Vec<u8>) {
            fuzz_domain(&data);
        }

        #[test]
        fn nor_likely_queues(text in "([a-b]( (number|weight|priority|mark)=(0x)?[0-9a]{0,3}){0,4};?){0,3}(/a:)?[a:]{0,3}") {
            fuzz_domain(text.as_bytes());
        }

        #[test]
        fn likely_lines_do_not_either(text in "((cpu|memory|io|net.weight|net.max|max|weight|policy|idle)=[0-9a-zKMGT%./ ]{0,12}\n){0,4}|0::/[a./]{0,9}") {
            fuzz_domain(text.as_bytes());
        }
    }
}
