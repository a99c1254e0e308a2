//! The token bucket in its *debt form*: exact integers, one formula in Rust and Lua.
//!
//! A bucket holds `burst` tokens and regains `limit` of them per period. What is stored is not the
//! tokens left but the debt: 1 token is `period` units, and `limit` units drain per tick. So a
//! refill of 7 per 60 s needs no fraction, and an absent record is simply a debt of zero.
//!
//! A record also says until when it means anything: when the debt is gone by the rule it was written
//! under. After that it counts as absent, also under a rule that was made slower meanwhile; otherwise
//! an answer would depend on whether the record has been collected yet.
//!
//! A tick is a microsecond, or a millisecond or a second where `burst * period` would pass 2^52.
//! Every call happens at the tick it falls in; `retry_at` is therefore exact: refused one tick
//! earlier, admitted at it.
//!
//! Clocks step. Backwards by up to one full drain, the debt stands still until time has caught up:
//! nothing is given twice. Further than that the record is from a future that was never real, and is
//! not believed: a forward step that is taken back locks nobody out for longer than one full drain.
//! (To let such a debt drain from the moment of the step would need a write on refusal, and a refusal
//! changes nothing.)

use crate::id::Invalid;
use crate::int::{Micros, PRODUCT_MAX, mul_div_ceil};
use crate::record;

/// The longest time from a full debt to none, in microseconds (about 142 years).
const DRAIN_MAX_US: u64 = 1 << 52;
/// The longest period in ticks: what the long division in `check.lua` can do.
const PERIOD_MAX: u64 = 1 << 51;

/// A rule as both engines compute with it. All fields are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    limit: u64,
    period: u64,
    burst: u64,
    tick_us: u64,
}

impl Meter {
    /// `limit` tokens per `per`, at most `burst` at once.
    pub fn new(limit: u64, per: Micros, burst: u64) -> Result<Meter, Invalid> {
        if limit == 0 {
            return Err(Invalid::new("limit", "must be at least 1"));
        }
        if burst == 0 {
            return Err(Invalid::new("burst", "must be at least 1"));
        }
        if per == Micros::ZERO {
            return Err(Invalid::new("per", "must be at least 1us"));
        }
        [1, 1_000, 1_000_000]
            .into_iter()
            .filter(|tick_us| per.get().is_multiple_of(*tick_us))
            .map(|tick_us| Meter { limit, period: per.get() / tick_us, burst, tick_us })
            .find(Meter::is_exact)
            .ok_or_else(|| {
                Invalid::new("burst", "is too much to be counted exactly over this period; choose less, or a period of whole seconds")
            })
    }

    fn is_exact(&self) -> bool {
        let full = u128::from(self.burst) * u128::from(self.period);
        let drain_us = full.div_ceil(u128::from(self.limit)) * u128::from(self.tick_us);
        self.limit <= PRODUCT_MAX && self.period <= PERIOD_MAX && full <= u128::from(PRODUCT_MAX) && drain_us <= u128::from(DRAIN_MAX_US)
    }

    /// Tokens regained per period.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The period in ticks, which is also the debt of one token.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// The most tokens that can be taken at once.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// The length of a tick.
    pub fn tick_us(&self) -> u64 {
        self.tick_us
    }

    /// As the script takes it: `limit period burst tick_us`, little endian.
    pub fn packed(&self) -> [u8; 32] {
        pack([self.limit, self.period, self.burst, self.tick_us])
    }

    fn full(&self) -> u64 {
        self.burst * self.period
    }

    /// What is stored, brought to `now`. An absent record is no debt.
    pub fn level(&self, stored: Option<Bucket>, now: Micros) -> Level {
        let mut time = now.get() / self.tick_us;
        let Some(stored) = stored else { return Level { debt: 0, time } };
        let stored_time = stored.ts.get().div_ceil(self.tick_us);
        let mut debt = self.rescaled(stored);
        if time > stored_time {
            let drained = (time - stored_time).min(debt.div_ceil(self.limit)) * self.limit;
            debt = debt.saturating_sub(drained);
        } else if stored_time - time <= self.full().div_ceil(self.limit) {
            time = stored_time;
        } else {
            debt = 0;
        }
        Level { debt, time }
    }

    /// The stored debt in this meter's units, at most full: changing a rule does not reset what is used.
    fn rescaled(&self, stored: Bucket) -> u64 {
        if stored.period == self.period {
            return stored.debt.min(self.full());
        }
        let tokens = stored.debt / stored.period;
        if tokens >= self.burst {
            return self.full();
        }
        tokens * self.period + mul_div_ceil(stored.debt % stored.period, self.period, stored.period)
    }

    /// Whether `cost` can be taken, and if not, when.
    pub fn admits(&self, level: Level, cost: u64, now: Micros) -> Result<(), Refusal> {
        if cost > self.burst {
            return Err(Refusal::Never);
        }
        let room = self.full() - level.debt;
        let need = cost * self.period;
        if need <= room {
            return Ok(());
        }
        let at = (level.time + (need - room).div_ceil(self.limit)) * self.tick_us;
        Err(Refusal::Until(Micros::saturating(at).since(now)))
    }

    /// The level after `cost` was taken; it must have been admitted.
    #[must_use]
    pub fn charged(&self, level: Level, cost: u64) -> Level {
        Level { debt: level.debt + cost * self.period, ..level }
    }

    /// Whole tokens left.
    pub fn left(&self, level: Level) -> u64 {
        (self.full() - level.debt) / self.period
    }

    /// How long until all of the burst is back.
    pub fn reset(&self, level: Level, now: Micros) -> Micros {
        if level.debt == 0 {
            return Micros::ZERO;
        }
        Micros::saturating((level.time + level.debt.div_ceil(self.limit)) * self.tick_us).since(now)
    }

    /// How the level is stored.
    pub fn stored(&self, level: Level) -> Bucket {
        Bucket { debt: level.debt, ts: Micros::saturating(level.time * self.tick_us), period: self.period }
    }
}

/// A bucket's record: the debt, the time it was true at, and the unit it was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Units of debt.
    pub debt: u64,
    /// When.
    pub ts: Micros,
    /// The debt of one token when this was written. Never zero.
    pub period: u64,
}

impl Bucket {
    /// As Redis holds it: `debt ts period until`, little endian. A person reads it with
    /// `struct.unpack('<I8I8I8I8', value)`.
    pub fn unpack(bytes: &[u8]) -> Option<(Bucket, Micros)> {
        let mut rest = bytes;
        let mut int = || record::take(&mut rest).map(u64::from_le_bytes);
        let (debt, ts, period, until) = (int()?, int()?, int()?, int()?);
        let bucket = Bucket { debt, ts: Micros::new(ts)?, period };
        (rest.is_empty() && period > 0).then_some((bucket, Micros::new(until)?))
    }
}

fn pack(ints: [u64; 4]) -> [u8; 32] {
    let mut out = [0; 32];
    for (slot, int) in out.chunks_exact_mut(8).zip(ints) {
        slot.copy_from_slice(&int.to_le_bytes());
    }
    out
}

/// A bucket brought to a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    debt: u64,
    time: u64,
}

/// Why a meter did not admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Ask again after this long.
    Until(Micros),
    /// The cost is above the burst and can never fit.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Micros {
        Micros::new(n).unwrap()
    }

    #[test]
    fn ticks_grow_only_when_they_must() {
        let day = us(86_400_000_000);
        assert_eq!(Meter::new(250, day, 250).unwrap().tick_us(), 1);
        assert_eq!(Meter::new(1_000_000, day, 1_000_000).unwrap().tick_us(), 1_000);
        assert_eq!(Meter::new(1_000_000_000, day, 1_000_000_000).unwrap().tick_us(), 1_000_000);
        assert!(Meter::new(1 << 50, day, 1 << 50).is_err());
        assert!(Meter::new(1, us(365 * 86_400_000_000), 1_000).is_err(), "would drain for a thousand years");
    }

    #[test]
    fn fractional_refill_7_per_60s() {
        let m = Meter::new(7, us(60_000_000), 7).unwrap();
        let empty = m.charged(m.level(None, Micros::ZERO), 7);
        let retry = 60_000_000_u64.div_ceil(7);
        assert_eq!(m.admits(empty, 1, Micros::ZERO), Err(Refusal::Until(us(retry))));
        let stored = Some(m.stored(empty));
        let at = |t: u64| m.admits(m.level(stored, us(t)), 1, us(t));
        assert_eq!(at(retry - 1), Err(Refusal::Until(us(1))));
        assert_eq!(at(retry), Ok(()));
    }

    #[test]
    fn a_record_from_beyond_one_full_drain_is_not_believed() {
        let m = Meter::new(3, us(30_000_000), 3).unwrap();
        let stored = Some(m.stored(m.charged(m.level(None, us(100_000_000)), 3)));
        let at = |t: u64| m.admits(m.level(stored, us(t)), 1, us(t));
        assert_eq!(at(70_000_000), Err(Refusal::Until(us(40_000_000))));
        assert_eq!(at(69_999_999), Ok(()));
    }
}
