//! What ancestors have to be protected for: the sum of what is below them, kept as it changes.
//!
//! Adding all domains up for each change would cost the square of their number when many programs
//! start, or when their looks are due together.

use std::collections::BTreeMap;

use aplomb_domain::DomainPath;

use crate::cgroup::{Bytes, Limit};

/// The sum for each ancestor that has a protected domain below it.
#[derive(Debug, Default)]
pub struct Sums(BTreeMap<DomainPath, Sum>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    /// Of those that are protected for an amount. It cannot overflow: 2^64 domains of 2^64 bytes.
    bytes: u128,
    /// Number of domains that are protected as a whole.
    whole: usize,
    /// Number of domains that were added and not removed.
    domains: usize,
}

impl Sums {
    /// A domain below `ancestors` is protected for `limit`.
    pub fn add(&mut self, ancestors: &[DomainPath], limit: Limit) {
        for path in ancestors {
            let sum = self.0.entry(path.clone()).or_default();
            sum.domains += 1;
            match limit {
                Limit::Bytes(Bytes(n)) => sum.bytes += u128::from(n),
                Limit::Max => sum.whole += 1,
            }
        }
    }

    /// Take back an [`Sums::add`] with the same arguments.
    pub fn remove(&mut self, ancestors: &[DomainPath], limit: Limit) {
        for path in ancestors {
            let Some(sum) = self.0.get_mut(path) else {
                debug_assert!(false, "{path} was not added");
                continue;
            };
            sum.domains -= 1;
            match limit {
                Limit::Bytes(Bytes(n)) => sum.bytes -= u128::from(n),
                Limit::Max => sum.whole -= 1,
            }
            if sum.domains == 0 {
                self.0.remove(path);
            }
        }
    }

    /// The sum of what is below `path`; "max" if one of them is.
    pub fn of(&self, path: &DomainPath) -> Limit {
        match self.0.get(path) {
            None => Limit::ZERO,
            Some(sum) if sum.whole > 0 => Limit::Max,
            Some(sum) => Limit::Bytes(Bytes(u64::try_from(sum.bytes).unwrap_or(u64::MAX))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_counted_until_it_is_removed() {
        let [a, b]: [DomainPath; 2] = ["a", "a/b"].map(|p| p.parse().unwrap());
        let (both, one) = (vec![a.clone(), b.clone()], vec![a.clone()]);
        let bytes = |n| Limit::Bytes(Bytes(n));
        let mut sums = Sums::default();
        sums.add(&both, bytes(u64::MAX));
        sums.add(&one, bytes(3));
        assert_eq!(
            (sums.of(&a), sums.of(&b)),
            (bytes(u64::MAX), bytes(u64::MAX))
        );
        sums.remove(&both, bytes(u64::MAX));
        assert_eq!((sums.of(&a), sums.of(&b)), (bytes(3), Limit::ZERO));
        sums.add(&both, Limit::Max);
        assert_eq!((sums.of(&a), sums.of(&b)), (Limit::Max, Limit::Max));
        sums.remove(&both, Limit::Max);
        sums.remove(&one, bytes(3));
        assert!(sums.0.is_empty());
    }
}
