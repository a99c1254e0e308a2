//! How long a delivery waits after an attempt that failed.
//!
//! Exact integers in whole milliseconds, because the Lua twin computes the same with doubles. The
//! largest product of the growth is 30 days x 100, 2,592,000,000 ms x 100,000; that of the jitter
//! 2,592,000,000 ms x 1,000 x 1,000. Both are below 2^52, and so below the 2^53 that a double holds.

use serde::{Deserialize, Serialize};

use super::definition::{span_text, whole_ms};
use crate::id::Invalid;
use crate::int::Micros;

/// The longest pause between two attempts: 30 days.
pub const DELAY_MAX: Micros = Micros::saturating(30 * 86_400_000_000);

/// The pauses between attempts: `first`, then each `factor` times the last, up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// The pause after the first attempt, in whole milliseconds.
    #[serde(with = "span_text")]
    pub first: Micros,
    /// How many thousandths of the last pause the next one has; 1,000 to 100,000.
    pub factor_permille: u32,
    /// The longest pause, in whole milliseconds; at most 30 days.
    #[serde(with = "span_text")]
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

    /// That every field is within its bounds, and the products above with them.
    pub fn check(&self) -> Result<(), Invalid> {
        whole_ms("backoff.first", self.first)?;
        whole_ms("backoff.max", self.max)?;
        if !(1_000..=100_000).contains(&self.factor_permille) {
            return Err(Invalid::new("backoff.factor", "must be between 1 and 100"));
        }
        if self.jitter_permille > 1_000 {
            return Err(Invalid::new("backoff.jitter", "must be between 0 and 1"));
        }
        if self.max > DELAY_MAX {
            return Err(Invalid::new("backoff.max", "must be at most 30days"));
        }
        if self.first > self.max {
            return Err(Invalid::new("backoff.first", "must not be longer than backoff.max"));
        }
        Ok(())
    }
}

/// A number with up to three decimals, such as `2.5`, in thousandths. Read as text, so that nothing is rounded.
pub fn permille(field: &'static str, text: &str) -> Result<u32, Invalid> {
    let fault = || Invalid::new(field, "must be a number of at least 0 with at most three decimals");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let decimals = decimals.trim_end_matches('0');
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(decimals) || decimals.len() > 3 {
        return Err(fault());
    }
    format!("{whole}{decimals:0<3}").parse().map_err(|_| fault())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::int::PRODUCT_MAX;

    fn backoff(first_ms: u64, factor_permille: u32, max_ms: u64, jitter_permille: u32) -> Backoff {
        let us = |ms: u64| Micros::saturating(ms * 1_000);
        Backoff { first: us(first_ms), factor_permille, max: us(max_ms), jitter_permille }
    }

    fn delays(backoff: &Backoff, attempts: std::ops::RangeInclusive<u32>) -> Vec<u64> {
        attempts.map(|attempt| backoff.delay(attempt, 0).get() / 1_000).collect()
    }

    #[test]
    fn pauses_grow_by_the_factor_up_to_the_longest() {
        let default = Backoff::default();
        default.check().unwrap();
        assert_eq!(delays(&default, 1..=5), [1_000, 2_000, 4_000, 8_000, 16_000]);
        assert_eq!(delays(&default, 10..=12), [512_000, 600_000, 600_000]);
        assert_eq!(delays(&backoff(10, 1_500, 60, 0), 1..=7), [10, 15, 22, 33, 49, 60, 60], "each is rounded down");
        assert_eq!(delays(&backoff(7, 1_000, 60, 0), 1..=3), [7, 7, 7]);
        assert_eq!(delays(&backoff(1, 1_999, 60, 0), 1..=3), [1, 1, 1], "what rounds down to itself stays");
        assert_eq!(delays(&backoff(0, 100_000, 60, 0), 1..=3), [0, 0, 0]);
        assert_eq!(default.delay(0, 0), default.delay(1, 0), "no attempt is the first");
        assert_eq!(default.delay(u32::MAX, 0).get(), 600_000_000);
    }

    #[test]
    fn jitter_only_takes_off_and_no_more_than_its_share() {
        let default = Backoff::default();
        let at = |chance| default.delay(1, chance).get();
        assert_eq!([at(0), at(1), at(500), at(1_000)], [1_000_000, 1_000_000, 900_000, 800_000]);
        assert_eq!(at(5_000), at(1_000), "beyond certainty there is nothing");
        assert_eq!(backoff(999, 1_000, 999, 1_000).delay(1, 1_000), Micros::ZERO);
        assert_eq!(backoff(999, 1_000, 999, 1).delay(1, 1_000).get(), 999_000, "less than a millisecond is nothing");
        assert_eq!(backoff(1_000, 1_000, 1_000, 1).delay(1, 1_000).get(), 999_000);
    }

    #[test]
    fn the_largest_products_are_exact_in_a_double() {
        let max_ms = DELAY_MAX.get() / 1_000;
        assert!(max_ms * 100_000 <= PRODUCT_MAX && max_ms * 1_000 * 1_000 <= PRODUCT_MAX);
        let largest = backoff(max_ms, 100_000, max_ms, 1_000);
        largest.check().unwrap();
        assert_eq!(largest.delay(100, 0), DELAY_MAX);
        assert_eq!(largest.delay(100, 1_000), Micros::ZERO);
        assert_eq!(largest.delay(100, 999).get(), 2_592_000_000);
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        for (bad, field) in [
            (backoff(1, 999, 10, 0), "backoff.factor"),
            (backoff(1, 100_001, 10, 0), "backoff.factor"),
            (backoff(1, 1_000, 10, 1_001), "backoff.jitter"),
            (backoff(11, 1_000, 10, 0), "backoff.first"),
            (backoff(1, 1_000, 2_592_000_001, 0), "backoff.max"),
            (Backoff { first: Micros::saturating(1), ..Backoff::default() }, "backoff.first"),
        ] {
            assert_eq!(bad.check().unwrap_err().field, field, "{bad:?}");
        }
    }

    #[test]
    fn decimals_are_read_without_rounding() {
        for (text, expected) in [("2", 2_000), ("2.5", 2_500), ("0.2", 200), ("0.001", 1), ("1.000", 1_000), ("100.0", 100_000)] {
            assert_eq!(permille("f", text).unwrap(), expected, "{text}");
        }
        for bad in ["", ".5", "-1", "1e3", "0.0001", "two", "1.2.3", "99999999999", "+1"] {
            assert!(permille("f", bad).is_err(), "{bad}");
        }
    }
}
