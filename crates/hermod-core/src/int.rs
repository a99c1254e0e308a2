//! Integers that both engines hold exactly.
//!
//! Lua's numbers are doubles: above 2^53 - 1 they skip integers. Every number that crosses into a
//! script is at most [`INT_MAX`], and products are kept at or below 2^52 by the code that forms
//! them, so that a sum of two is still exact.

use std::fmt;
use std::time::Duration;

/// The largest integer that survives a trip through Lua: 2^53 - 1.
pub const INT_MAX: u64 = (1 << 53) - 1;

/// The largest product a rule may form, so that the sum of two stays below [`INT_MAX`].
pub const PRODUCT_MAX: u64 = 1 << 52;

/// A point in time, or a span of it, in whole microseconds since the Unix epoch.
///
/// At most [`INT_MAX`], which lasts until the year 2255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u64);

impl Micros {
    /// The epoch; also the empty span.
    pub const ZERO: Micros = Micros(0);

    /// The latest representable instant.
    pub const MAX: Micros = Micros(INT_MAX);

    /// `us` microseconds, or `None` beyond [`INT_MAX`].
    pub const fn new(us: u64) -> Option<Micros> {
        if us <= INT_MAX { Some(Micros(us)) } else { None }
    }

    /// `us` microseconds, held at [`Micros::MAX`].
    pub const fn saturating(us: u64) -> Micros {
        if us <= INT_MAX { Micros(us) } else { Micros::MAX }
    }

    /// The span of a [`Duration`], rounded down to whole microseconds.
    #[inline]
    pub fn from_duration(d: Duration) -> Option<Micros> {
        let seconds = d.as_secs().checked_mul(1_000_000)?;
        Micros::new(seconds.checked_add(u64::from(d.subsec_micros()))?)
    }

    /// The number of microseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// As a standard duration.
    pub const fn to_duration(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// The sum, held at [`Micros::MAX`].
    #[must_use]
    pub const fn plus(self, span: Micros) -> Micros {
        Micros::saturating(self.0.saturating_add(span.0))
    }

    /// The span from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Micros) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `ceil(a * b / d)` without losing a digit, held at [`INT_MAX`]; `d` must not be zero.
///
/// The Lua scripts do it bit by bit, because they have no wider type.
pub fn mul_div_ceil(a: u64, b: u64, d: u64) -> u64 {
    debug_assert!(d > 0, "division by zero");
    let wide = (u128::from(a) * u128::from(b)).div_ceil(u128::from(d.max(1)));
    u64::try_from(wide).map_or(INT_MAX, |n| n.min(INT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micros_stop_at_the_last_exact_integer() {
        assert_eq!(Micros::new(INT_MAX), Some(Micros::MAX));
        assert_eq!(Micros::new(INT_MAX + 1), None);
        assert_eq!(Micros::MAX.plus(Micros::MAX), Micros::MAX);
        assert_eq!(Micros::ZERO.since(Micros::MAX), Micros::ZERO);
    }

    #[test]
    fn mul_div_rounds_up_and_does_not_overflow() {
        assert_eq!(mul_div_ceil(7, 3, 2), 11);
        assert_eq!(mul_div_ceil(1 << 51, 1 << 51, 1 << 51), 1 << 51);
        assert_eq!(mul_div_ceil(u64::MAX, u64::MAX, 1), INT_MAX);
    }
}
