//! Chance as an input: a seed from which every draw follows.
//!
//! SplitMix64 over (seed, index): stateless, so a draw can be recomputed from its seed alone, and
//! rejection sampling, so that no outcome is favoured.

/// The source of all draws of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// A seed from the edge of the system, or from a test.
    pub const fn new(seed: u64) -> Seed {
        Seed(seed)
    }

    /// The `index`-th raw draw.
    pub const fn draw(self, index: u64) -> u64 {
        let mut z = self.0.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A seed of its own for the `index`-th part of an operation.
    #[must_use]
    pub const fn child(self, index: u64) -> Seed {
        Seed(self.draw(index))
    }

    /// A number in `0..n`, each equally likely; 0 if `n` is 0.
    pub fn below(self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // The tail of the range that would favour small numbers is drawn again.
        let fair = u64::MAX - u64::MAX % n;
        (0..).map(|i| self.draw(i)).find(|&d| d < fair).map_or(0, |d| d % n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_its_neighbour_differs() {
        let draws = |s: u64| (0..8).map(|i| Seed::new(s).child(i).below(1000)).collect::<Vec<_>>();
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
    }

    #[test]
    fn draws_are_uniform() {
        let mut seen = [0u32; 6];
        for i in 0..60_000 {
            seen[usize::try_from(Seed::new(1).child(i).below(6)).unwrap()] += 1;
        }
        // Chi-square with 5 degrees of freedom: 20.5 is the 0.1 % point.
        let chi: f64 = seen.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 20.5, "chi-square {chi}, {seen:?}");
    }
}
