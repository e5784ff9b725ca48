//! What is protected, for people.

use std::time::Instant;

use aplomb_domain::DomainPath;
use serde::Serialize;

use super::{Domain, Protector, KNOB};
use crate::cgroup::{self, Bytes, Limit};
use crate::working_set::Protection;

/// A row of [`Protector::table`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub path: DomainPath,
    pub pi_ms: u64,
    /// Bytes in use at the last look.
    pub usage: Bytes,
    /// Its private reserve, bytes.
    pub private: Bytes,
    /// Bytes that were used within pi, by the last look; None before the first one.
    pub working_set: Option<Bytes>,
    pub protection: Protection,
    /// Time since the last look.
    pub looked_ms_ago: u64,
    /// The uppermost domain above that is protected for less than this one's part.
    pub limited_by: Option<DomainPath>,
}

impl Protector {
    /// The protected domains.
    pub fn table(&self, now: Instant) -> Vec<Line> {
        let lines = self.domains.iter().map(|(path, domain)| Line {
            path: path.clone(),
            pi_ms: domain.set.pi().as_millis() as u64,
            usage: domain.usage,
            private: self.reserves.private(path),
            working_set: domain.set.size(),
            protection: self.protection(path, domain),
            looked_ms_ago: now.saturating_duration_since(domain.looked).as_millis() as u64,
            limited_by: self.limited_by(path, domain),
        });
        lines.collect()
    }

    /// What a domain is protected for.
    fn protection(&self, path: &DomainPath, domain: &Domain) -> Protection {
        match self.reserves.divided(path) {
            None => domain.set.protection(),
            Some(Limit::Max) => Protection::Whole,
            Some(Limit::ZERO) => Protection::None,
            Some(Limit::Bytes(bytes)) => Protection::Bytes(bytes),
        }
    }

    /// The uppermost ancestor that is protected for less than what the domain's protection covers
    /// of its usage.
    fn limited_by(&self, path: &DomainPath, domain: &Domain) -> Option<DomainPath> {
        let needed = self.protection(path, domain).limit();
        let needed = needed.min(Limit::Bytes(domain.usage));
        let above = std::iter::successors(path.parent(), DomainPath::parent);
        let limits = above.filter(|a| !a.is_root()).filter(|a| {
            let low = cgroup::limit(&self.dir(a), KNOB).ok().flatten();
            low.is_some_and(|low| low < needed)
        });
        limits.last()
    }
}
