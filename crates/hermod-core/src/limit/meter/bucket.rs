//! The bucket in its *debt form*: exact integers, one formula in Rust and Lua.
//!
//! A bucket holds `burst` tokens and regains `limit` of them per period. What is stored is not the
//! tokens left but the debt: 1 token is `period` units, and `limit` units drain per tick. So a
//! refill of 7 per 60 s needs no fraction, and an absent record is simply a debt of zero. With a
//! `queue`, so many tokens beyond the burst are let in as well, and told how long to wait.
//!
//! A record also says until when it means anything: when the debt is gone by the rule it was written
//! under. After that it counts as absent, also under a rule that was made slower meanwhile; otherwise
//! an answer would depend on whether the record has been collected yet.
//!
//! A tick is a microsecond, or a millisecond or a second where the largest debt would pass 2^52.
//! Every call happens at the tick it falls in; `retry_at` is therefore exact: refused one tick
//! earlier, admitted at it.
//!
//! Clocks step. Backwards by up to one full drain, the debt stands still until time has caught up:
//! nothing is given twice. Further than that the record is from a future that was never real, and is
//! not believed: a forward step that is taken back locks nobody out for longer than one full drain.
//! (To let such a debt drain from the moment of the step would need a write on refusal, and a refusal
//! changes nothing.)

use super::{Act, Step};
use crate::id::Invalid;
use crate::int::{Micros, PRODUCT_MAX, mul_div_ceil};
use crate::limit::tally::{Head, Kind, Tally};

/// The longest time from the largest debt to none, in microseconds (about 142 years).
const DRAIN_MAX_US: u64 = 1 << 52;
/// The longest period in ticks: what the long division in `meter.lua` can do.
const PERIOD_MAX: u64 = 1 << 51;

/// Debt that drains. All but `queue` are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    limit: u64,
    period: u64,
    burst: u64,
    tick_us: u64,
    queue: u64,
}

impl Bucket {
    /// `limit` tokens per `per`, at most `burst` at once, `queue` more if they wait.
    pub fn new(limit: u64, per: Micros, burst: u64, queue: u64) -> Result<Bucket, Invalid> {
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
            .map(|tick_us| Bucket { limit, period: per.get() / tick_us, burst, tick_us, queue })
            .find(Bucket::is_exact)
            .ok_or_else(|| {
                Invalid::new("burst", "is too much to be counted exactly over this period; choose less, or a period of whole seconds")
            })
    }

    pub(super) fn told([limit, period, burst, tick_us, queue]: [u64; 5]) -> Option<Bucket> {
        let bucket = Bucket { limit, period, burst, tick_us, queue };
        (limit > 0 && period > 0 && burst > 0 && tick_us > 0 && bucket.is_exact()).then_some(bucket)
    }

    fn is_exact(&self) -> bool {
        let debt_max = (2 * u128::from(self.burst) + u128::from(self.queue)) * u128::from(self.period);
        let drain_us = debt_max.div_ceil(u128::from(self.limit)) * u128::from(self.tick_us);
        self.limit <= PRODUCT_MAX
            && self.period <= PERIOD_MAX
            && debt_max <= u128::from(PRODUCT_MAX)
            && drain_us <= u128::from(DRAIN_MAX_US)
    }

    /// Tokens regained per period.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The most at once without waiting.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// The most at once, waiting included.
    pub fn most(&self) -> u64 {
        self.burst + self.queue
    }

    /// The length of a tick.
    pub fn tick_us(&self) -> u64 {
        self.tick_us
    }

    pub(super) fn given(&self) -> [u64; 5] {
        [self.limit, self.period, self.burst, self.tick_us, self.queue]
    }

    /// The largest debt: what force can bring it to.
    #[inline]
    fn debt_max(&self) -> u64 {
        (self.most() + self.burst) * self.period
    }

    #[inline]
    pub(super) fn step(&self, act: Act, cost: u64, stored: Option<&Tally>, now: Micros) -> Step {
        let (mut debt, time) = self.level(stored, now);
        let fits = cost <= self.most() && debt + cost * self.period <= self.most() * self.period;
        let mut is_refused = false;
        match act {
            Act::Check | Act::Peek if !fits => is_refused = true,
            Act::Peek => {}
            Act::Check => debt += cost * self.period,
            Act::Force if cost > self.most() + self.burst => debt = self.debt_max(),
            Act::Force => debt = (debt + cost * self.period).min(self.debt_max()),
            Act::Refund | Act::Undo if cost > debt / self.period => debt = 0,
            Act::Refund | Act::Undo => debt -= cost * self.period,
        }
        let until = Micros::saturating((time + debt.div_ceil(self.limit)) * self.tick_us);
        let ts = Micros::saturating(time * self.tick_us);
        Step { tally: Tally { amount: debt, unit: self.period, ts, marks: None, kind: Kind::Bucket }, until, is_refused }
    }

    /// Gives back what is left of one token, where the record ended at `ends` right after it was charged: what was charged
    /// last drains last, so it is what drains from now until then.
    pub fn give_back(&self, stored: Option<&Tally>, ends: Micros, now: Micros) -> Step {
        let (debt, time) = self.level(stored, now);
        let ticks = self.ticks(ends).saturating_sub(self.ticks(now));
        let debt = debt.saturating_sub(ticks.saturating_mul(self.limit).min(self.period));
        let until = Micros::saturating((time + debt.div_ceil(self.limit)) * self.tick_us);
        let ts = Micros::saturating(time * self.tick_us);
        Step { tally: Tally { amount: debt, unit: self.period, ts, marks: None, kind: Kind::Bucket }, until, is_refused: false }
    }

    /// The tick a time falls in. Most ticks are microseconds, and a division takes as long as all else here.
    #[inline]
    fn ticks(&self, time: Micros) -> u64 {
        if self.tick_us == 1 { time.get() } else { time.get() / self.tick_us }
    }

    /// The first tick that is not before a time.
    #[inline]
    fn ticks_up(&self, time: Micros) -> u64 {
        if self.tick_us == 1 { time.get() } else { time.get().div_ceil(self.tick_us) }
    }

    /// The debt at `now`, and the tick that counts.
    #[inline]
    fn level(&self, stored: Option<&Tally>, now: Micros) -> (u64, u64) {
        let time = self.ticks(now);
        let Some(stored) = stored else { return (0, time) };
        let debt = self.rescaled(stored);
        let stored_time = self.ticks_up(stored.ts);
        if time > stored_time {
            // Held at the largest number, where the twin must stay below 2^53 and divides: either way it is all.
            (debt.saturating_sub((time - stored_time).saturating_mul(self.limit)), time)
        } else if stored_time - time <= self.debt_max().div_ceil(self.limit) {
            (debt, stored_time)
        } else {
            (0, time)
        }
    }

    /// The stored debt in this bucket's units: changing a rule does not reset what is used.
    fn rescaled(&self, stored: &Tally) -> u64 {
        let is_mine = stored.kind == Kind::Bucket;
        if is_mine && stored.unit == self.period {
            return stored.amount.min(self.debt_max());
        }
        let (tokens, rest) = match is_mine {
            true => (stored.amount / stored.unit.max(1), stored.amount % stored.unit.max(1)),
            false => (stored.tokens(), 0),
        };
        if tokens >= self.most() + self.burst {
            return self.debt_max();
        }
        tokens * self.period + mul_div_ceil(rest, self.period, stored.unit.max(1))
    }

    /// Whole tokens left.
    pub(super) fn left(&self, head: &Head) -> u64 {
        (self.burst * self.period).saturating_sub(head.amount) / self.period
    }

    /// How long what was let in must wait.
    pub(super) fn delay(&self, head: &Head, now: Micros) -> Micros {
        let beyond = head.amount.saturating_sub(self.burst * self.period);
        if beyond == 0 || self.queue == 0 {
            return Micros::ZERO;
        }
        Micros::saturating(head.ts.get() + beyond.div_ceil(self.limit) * self.tick_us).since(now)
    }

    /// When `cost` will fit; it must not be above the most.
    pub(super) fn retry_at(&self, head: &Head, cost: u64) -> Option<Micros> {
        if cost > self.most() {
            return None;
        }
        let short = (head.amount + cost * self.period).saturating_sub(self.most() * self.period);
        Some(Micros::saturating(head.ts.get() + short.div_ceil(self.limit) * self.tick_us))
    }
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
        assert_eq!(Bucket::new(250, day, 250, 0).unwrap().tick_us(), 1);
        assert_eq!(Bucket::new(1_000_000, day, 1_000_000, 0).unwrap().tick_us(), 1_000);
        assert_eq!(Bucket::new(1_000_000_000, day, 1_000_000_000, 0).unwrap().tick_us(), 1_000_000);
        assert!(Bucket::new(1 << 50, day, 1 << 50, 0).is_err());
        assert!(Bucket::new(1, us(365 * 86_400_000_000), 1_000, 0).is_err(), "would drain for a thousand years");
    }

    #[test]
    fn a_record_from_beyond_one_full_drain_is_not_believed() {
        let m = Bucket::new(3, us(30_000_000), 3, 0).unwrap();
        let full = m.step(Act::Check, 3, None, us(100_000_000)).tally;
        // The largest debt is twice the burst: 60 s to drain.
        let refused = |t: u64| m.step(Act::Check, 1, Some(&full), us(t)).is_refused;
        assert!(refused(40_000_000));
        assert!(!refused(39_999_999));
    }
}
