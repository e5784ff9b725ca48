//! Queues of a domain: members beside its own packets, each with a weight, that take some of these
//! packets (docs/network.md).
//!
//! The attribute `trusted.aplomb.net_queues` has all queues of a domain:
//!
//! ```text
//! voice number=9 weight=300 priority=6 mark=0x10; bulk number=2 weight=20
//! ```
//!
//! The number is a part of it because attached sockets carry it ([`attached_priority`]): it must
//! outlive the daemon.

use std::fmt;
use std::str::FromStr;

use aplomb_spec::shorten;

use crate::notation::USUAL_WEIGHT;
use crate::{parse_weight, DomainPath};

/// Queues of one domain.
pub const MAX_QUEUES: usize = 16;
/// Queues of all domains together (bpf/net/select.bpf.h).
pub const MAX_ALL_QUEUES: usize = 1024;
/// Bytes of a queue's name.
const MAX_NAME: usize = 32;
/// Bytes of the attribute: more than 16 queues with the longest names and numbers take.
pub const MAX_QUEUES_TEXT: usize = 2048;

/// Priorities (SO_PRIORITY) of attached sockets: those that begin with these 20 bits. For a
/// priority above 6 the kernel wants CAP_NET_ADMIN or CAP_NET_RAW.
const ATTACHED: u32 = 0xa9100;

/// The priority of a socket that is attached to the queue with this number. Its low four bits are
/// 0, so the kernel's own queueing disciplines see a socket of the usual priority.
pub fn attached_priority(number: u32) -> u32 {
    (ATTACHED << 12) | (number << 4)
}

/// Was the priority given by an attachment?
pub fn is_attached(priority: u32) -> bool {
    priority >> 12 == ATTACHED
}

/// A queue's name: 1 to 32 of a-z, 0-9 and "-".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueName(String);

impl FromStr for QueueName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(allowed) {
            return Ok(Self(text.into()));
        }
        let text = shorten(text);
        Err(format!(
            "\"{text}\" is no name of a queue: 1 to {MAX_NAME} of a-z, 0-9 and \"-\""
        ))
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A queue by its domain and its name, `media:voice`. The last ":" divides them, because a cgroup's
/// name may have one too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePath {
    pub domain: DomainPath,
    pub name: QueueName,
}

impl FromStr for QueuePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (domain, name) = text
            .rsplit_once(':')
            .ok_or("a queue is written DOMAIN:QUEUE, such as media:voice")?;
        Ok(Self {
            domain: domain.parse().map_err(|e| format!("domain: {e}"))?,
            name: name.parse().map_err(|e| format!("queue: {e}"))?,
        })
    }
}

impl fmt::Display for QueuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.domain, self.name)
    }
}

/// A change of a queue, as `aplomb net queue` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueChange {
    /// `weight=300`.
    Weight(u32),
    /// `priority=6`, `priority=none`: the priority of its sockets.
    Priority(Option<u32>),
    /// `mark=0x10`, `mark=none`: the mark of its sockets.
    Mark(Option<u32>),
}

impl FromStr for QueueChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or("a change is written KEY=VALUE, such as priority=6")?;
        let change = match key {
            "weight" => parse_weight(value).map(Self::Weight),
            "priority" if value == "none" => Ok(Self::Priority(None)),
            "priority" => parse_priority(value).map(|p| Self::Priority(Some(p))),
            "mark" if value == "none" => Ok(Self::Mark(None)),
            "mark" => parse_selector(value).map(|m| Self::Mark(Some(m))),
            other => {
                let other = shorten(other);
                return Err(format!("\"{other}\" is none of weight, priority, mark"));
            }
        };
        change.map_err(|e| format!("{key}: {e}"))
    }
}

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub name: QueueName,
    /// 1 to [`MAX_QUEUES`], another one for each queue of the domain.
    pub number: u32,
    pub weight: u32,
    /// It takes the packets of sockets with this priority (SO_PRIORITY).
    pub priority: Option<u32>,
    /// It takes the packets with this mark (SO_MARK).
    pub mark: Option<u32>,
}

impl Queue {
    fn apply(&mut self, change: QueueChange) {
        match change {
            QueueChange::Weight(weight) => self.weight = weight,
            QueueChange::Priority(priority) => self.priority = priority,
            QueueChange::Mark(mark) => self.mark = mark,
        }
    }
}

impl FromStr for Queue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let name: QueueName = words.next().unwrap_or("").parse()?;
        let (mut number, mut seen) = (None, Vec::new());
        let mut queue = Self {
            name,
            number: 0,
            weight: USUAL_WEIGHT,
            priority: None,
            mark: None,
        };
        for word in words {
            let fail = |e| format!("queue {}: {e}", queue.name);
            let key = word.split('=').next().unwrap_or("");
            if seen.contains(&key) {
                return Err(fail(format!("{}: it is there twice", shorten(key))));
            }
            seen.push(key);
            match word.strip_prefix("number=") {
                Some(value) => number = Some(parse_number(value).map_err(fail)?),
                None => {
                    let change = word.parse().map_err(fail)?;
                    queue.apply(change);
                }
            }
        }
        let missing = || format!("queue {}: number: it is missing", queue.name);
        queue.number = number.ok_or_else(missing)?;
        Ok(queue)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, number, weight) = (&self.name, self.number, self.weight);
        write!(f, "{name} number={number} weight={weight}")?;
        if let Some(priority) = self.priority {
            write!(f, " priority={priority}")?;
        }
        match self.mark {
            Some(mark) => write!(f, " mark={mark:#x}"),
            None => Ok(()),
        }
    }
}

/// The queues of one domain, by name. No two have the same name, number, priority or mark.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queues(Vec<Queue>);

impl Queues {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Queue> {
        self.0.iter()
    }

    pub fn find(&self, name: &QueueName) -> Option<&Queue> {
        self.0.iter().find(|q| q.name == *name)
    }

    /// Make changes to the queue `name`, which is created if it is missing.
    ///
    /// # Errors
    /// The domain has [`MAX_QUEUES`] queues, or another one with that priority or mark.
    pub fn change(&mut self, name: &QueueName, changes: &[QueueChange]) -> Result<(), String> {
        let mut queue = match self.find(name) {
            Some(queue) => queue.clone(),
            None => Queue {
                name: name.clone(),
                number: self.free_number(name).ok_or_else(full)?,
                weight: USUAL_WEIGHT,
                priority: None,
                mark: None,
            },
        };
        changes.iter().for_each(|change| queue.apply(*change));
        self.replace(queue)
    }

    /// Remove the queue `name`. None: there was none.
    pub fn remove(&mut self, name: &QueueName) -> Option<Queue> {
        let at = self.0.iter().position(|q| q.name == *name)?;
        Some(self.0.remove(at))
    }

    /// Add a queue of another domain. Its number changes if this domain has one with that number.
    ///
    /// # Errors
    /// As [`Queues::change`]; there is a queue of that name.
    pub fn add(&mut self, mut queue: Queue) -> Result<(), String> {
        if self.find(&queue.name).is_some() {
            return Err(format!("there is a queue {} already", queue.name));
        }
        if self.0.iter().any(|q| q.number == queue.number) {
            queue.number = self.free_number(&queue.name).ok_or_else(full)?;
        }
        self.replace(queue)
    }

    /// Add a queue, in place of the one with its name.
    fn replace(&mut self, queue: Queue) -> Result<(), String> {
        let others = || self.0.iter().filter(|q| q.name != queue.name);
        if others().count() >= MAX_QUEUES {
            return Err(full());
        }
        let (name, number) = (&queue.name, queue.number);
        for other in others() {
            let twice = |key: &str, value: String| {
                let owner = &other.name;
                Err(format!(
                    "queue {name}: {key}: queue {owner} has {value} already"
                ))
            };
            if other.number == number {
                return twice("number", number.to_string());
            }
            match (queue.priority, queue.mark) {
                (Some(p), _) if other.priority == Some(p) => {
                    return twice("priority", p.to_string())
                }
                (_, Some(m)) if other.mark == Some(m) => return twice("mark", format!("{m:#x}")),
                _ => {}
            }
        }
        self.remove(&queue.name.clone());
        let at = self.0.partition_point(|q| q.name < queue.name);
        self.0.insert(at, queue);
        Ok(())
    }

    /// A number for a queue of this name. Sockets that were attached to a queue keep its number
    /// when it is removed. So the search begins at a number by the name: a queue that is created
    /// again finds its sockets, and another one most often no others'.
    fn free_number(&self, name: &QueueName) -> Option<u32> {
        let numbers = 1..=MAX_QUEUES as u32;
        let sum = name.0.bytes().fold(0u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        let skip = sum as usize % MAX_QUEUES;
        let mut all = numbers.clone().skip(skip).chain(numbers);
        all.find(|n| self.0.iter().all(|q| q.number != *n))
    }
}

impl FromStr for Queues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > MAX_QUEUES_TEXT {
            return Err(format!("it has more than {MAX_QUEUES_TEXT} bytes"));
        }
        let mut queues = Self::default();
        for part in text.trim().split(';') {
            let queue: Queue = part.parse()?;
            if queues.find(&queue.name).is_some() {
                return Err(format!("queue {}: it is there twice", queue.name));
            }
            queues.replace(queue)?;
        }
        Ok(queues)
    }
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, queue) in self.0.iter().enumerate() {
            let gap = if i > 0 { "; " } else { "" };
            write!(f, "{gap}{queue}")?;
        }
        Ok(())
    }
}

fn full() -> String {
    format!("the domain has {MAX_QUEUES} queues already")
}

fn parse_number(text: &str) -> Result<u32, String> {
    let number = crate::notation::digits(text).filter(|n| (1..=MAX_QUEUES as u64).contains(n));
    let wrong = || {
        let text = shorten(text);
        format!("number: \"{text}\" is not between 1 and {MAX_QUEUES}")
    };
    number.map(|n| n as u32).ok_or_else(wrong)
}

fn parse_priority(text: &str) -> Result<u32, String> {
    let priority = parse_selector(text)?;
    if is_attached(priority) {
        let text = shorten(text);
        return Err(format!("{text} is one of those that attached sockets have"));
    }
    Ok(priority)
}

/// A priority or mark. 0 is what all other sockets have.
fn parse_selector(text: &str) -> Result<u32, String> {
    let value = match text.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u32::from_str_radix(hex, 16).ok()
        }
        Some(_) => None,
        None => crate::notation::digits(text).and_then(|n| u32::try_from(n).ok()),
    };
    value.filter(|v| *v > 0).ok_or_else(|| {
        let text = shorten(text);
        format!("\"{text}\" is no number from 1 to 0xffffffff")
    })
}

#[cfg(test)]
mod tests;
