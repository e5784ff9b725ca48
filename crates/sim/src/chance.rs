//! Chance from a seed, for workloads and tests: the same seed, the same numbers.

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016);
/// the seed is spread by splitmix64, so that seeds 1, 2, 3 have nothing to do with each other.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Any seed will do.
    pub fn new(seed: u64) -> Self {
        Self(spread(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1)
    }

    /// A chance of its own for part `n` of what this seed makes.
    pub fn part(seed: u64, n: u64) -> Self {
        Self::new(spread(seed).wrapping_add(n))
    }

    /// 0 to 2^64 - 1, evenly.
    pub fn any(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// 0 to n - 1, evenly; 0 if n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.any()) * u128::from(n)) >> 64) as u64
    }

    /// `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below((to - from).saturating_add(1))
    }
}

fn spread(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_others_differ() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..5).map(|_| chance.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_ne!(Chance::part(1, 0).any(), Chance::part(1, 1).any());
    }

    #[test]
    fn numbers_are_even_and_within() {
        let mut chance = Chance::new(7);
        let mut seen = [0; 10];
        (0..10_000).for_each(|_| seen[chance.below(10) as usize] += 1);
        assert!(seen.iter().all(|n| (900..1100).contains(n)), "{seen:?}");
        assert!((0..1000).all(|_| (5..=7).contains(&chance.between(5, 7))));
        assert_eq!((chance.below(0), chance.between(3, 3)), (0, 3));
    }
}
