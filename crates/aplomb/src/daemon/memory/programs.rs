//! The protected programs by process id, with their number in each domain: when one of thousands
//! exits, the others are not searched for its domain.

use std::collections::BTreeMap;

use aplomb_domain::DomainPath;

/// A program.
#[derive(Debug, Clone)]
pub struct Kept {
    pub domain: DomainPath,
    /// The user whose cap counts.
    pub uid: u32,
    /// It is never demoted.
    pub spared: bool,
}

#[derive(Debug, Default)]
pub struct Programs {
    by_pid: BTreeMap<i32, Kept>,
    in_domain: BTreeMap<DomainPath, usize>,
}

impl Programs {
    pub fn get(&self, pid: i32) -> Option<&Kept> {
        self.by_pid.get(&pid)
    }

    pub fn len(&self) -> usize {
        self.by_pid.len()
    }

    pub fn by_pid(&self) -> &BTreeMap<i32, Kept> {
        &self.by_pid
    }

    /// Add a program, or change it.
    pub fn insert(&mut self, pid: i32, kept: Kept) {
        self.remove(pid);
        *self.in_domain.entry(kept.domain.clone()).or_default() += 1;
        self.by_pid.insert(pid, kept);
    }

    /// Remove a program. True: it was the last one of its domain.
    pub fn remove(&mut self, pid: i32) -> Option<(Kept, bool)> {
        let gone = self.by_pid.remove(&pid)?;
        let left = self.in_domain.get_mut(&gone.domain);
        let last = left.is_none_or(|left| {
            *left -= 1;
            *left == 0
        });
        if last {
            self.in_domain.remove(&gone.domain);
        }
        Some((gone, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_program_of_a_domain_is_known() {
        let kept = |domain: &str| Kept {
            domain: domain.parse().unwrap(),
            uid: 0,
            spared: false,
        };
        let mut programs = Programs::default();
        programs.insert(7, kept("a"));
        programs.insert(8, kept("a"));
        programs.insert(8, kept("a")); // changed
        programs.insert(9, kept("b"));
        assert_eq!(programs.len(), 3);
        assert!(!programs.remove(7).unwrap().1);
        assert!(programs.remove(8).unwrap().1);
        assert!(programs.remove(8).is_none());
        assert!(programs.get(9).is_some());
        programs.insert(9, kept("a")); // moved
        assert!(programs.remove(9).unwrap().1);
        assert!(programs.in_domain.is_empty());
    }
}
