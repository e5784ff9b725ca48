//! Random numbers from a seed, for workloads and tests. The same seed gives the same numbers.
//!
//! Not the crate `rand`, because committed results (`results/kato`) and regression seeds
//! (`proptest-regressions/`) must give the same run with every later version, and `rand` may change
//! with a minor version how a range is drawn.

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled", 2016). splitmix64 spreads the seed, so that the numbers of seeds 1, 2 and 3 are
/// independent.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator. Any seed is good, 0 included.
    pub fn new(seed: u64) -> Self {
        Self(spread(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1)
    }

    /// Stream `n` of a seed. The streams of one seed are independent, so that draws from one do
    /// not change the others.
    pub fn stream(seed: u64, n: u64) -> Self {
        Self::new(spread(seed).wrapping_add(n))
    }

    /// 0 to 2^64 - 1, each with the same probability.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// 0 to n - 1, each with the same probability; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// `from` to `to`, both included, each with the same probability.
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
    fn the_same_seed_gives_the_same_numbers_and_another_gives_others() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..5).map(|_| rng.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_ne!(Rng::stream(1, 0).next_u64(), Rng::stream(1, 1).next_u64());
    }

    #[test]
    fn numbers_are_uniform_and_in_range() {
        let mut rng = Rng::new(7);
        let mut seen = [0; 10];
        (0..10_000).for_each(|_| seen[rng.below(10) as usize] += 1);
        assert!(seen.iter().all(|n| (900..1100).contains(n)), "{seen:?}");
        assert!((0..1000).all(|_| (5..=7).contains(&rng.between(5, 7))));
        assert_eq!((rng.below(0), rng.between(3, 3)), (0, 3));
    }
}
