//! How long a delivery waits after an attempt that failed.
//!
//! Exact integers in whole milliseconds, because the Lua twin computes the same with doubles. The
//! largest product of the growth is 30 days x 100, 2,592,000,000 ms x 100,000; that of the jitter
//! 2,592,000,000 ms x 1,000 x 1,000. Both are below 2^52, and so below the 2^53 that a double holds.

use crate::int::Micros;

/// The longest pause between two attempts: 30 days.
pub const DELAY_MAX: Micros = Micros::saturating(30 * 86_400_000_000);

/// The pauses between attempts: `first`, then each `factor` times the last, up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first attempt, in whole milliseconds.
    pub first: Micros,
    /// How many thousandths of the last pause the next one has; 1,000 to 100,000.
    pub factor_permille: u32,
    /// The longest pause, in whole milliseconds; at most 30 days.
    pub max: Micros,
    /// Up to how many thousandths of a pause are taken off it by chance; at most 1,000.
    pub jitter_permille: u32,
}

impl Default for Backoff {
    /// One second, doubled up to ten minutes, up to a fifth less by chance.
    fn default() -> Backoff {
        let (first, max) = (Micros::saturating(1_000_000), Micros::saturating(600_000_000));
        Backoff { first, factor_permille: 2_000, max, jitter_permille: 200 }
    }
}

impl Backoff {
    /// The pause after the `attempt`-th attempt, counted from 1. `chance_permille` is drawn by the
    /// caller from 0 to 1,000 inclusive: 0 takes nothing off, 1,000 all of the jitter.
    pub fn delay(&self, attempt: u32, chance_permille: u64) -> Micros {
        let ms = |span: Micros| span.get() / 1_000;
        let max = ms(self.max);
        let mut delay = ms(self.first).min(max);
        for _ in 1..attempt {
            let next = (delay * u64::from(self.factor_permille) / 1_000).min(max);
            // It only grows; what did not grow stays as it is.
            if next <= delay {
                break;
            }
            delay = next;
        }
        let less = delay * u64::from(self.jitter_permille) * chance_permille.min(1_000) / 1_000_000;
        Micros::saturating((delay - less) * 1_000)
    }

    /// As its script takes it, in milliseconds and thousandths: first, factor, max, jitter.
    pub(super) fn numbers(&self) -> [u64; 4] {
        [self.first.get() / 1_000, u64::from(self.factor_permille), self.max.get() / 1_000, u64::from(self.jitter_permille)]
    }
}
