//! The estimate: this period's count, and of the last one's the share that still lies in the window.
//!
//! Two integers instead of a ring. It takes the last period's charges to have come evenly; where they
//! came late, up to twice the limit can pass in a trailing window. Offered as `approximate: true`,
//! for who counts millions and does not mind.

use super::window::{check_limit, forced_max};
use super::{Act, Step};
use crate::id::Invalid;
use crate::int::{Micros, PRODUCT_MAX};
use crate::limit::tally::{Head, Kind, Tally};

/// This period's counter and a share of the last one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    limit: u64,
    /// In ticks.
    period: u64,
    tick_us: u64,
}

impl Estimate {
    /// `limit` per `per`, about.
    pub fn new(limit: u64, per: Micros) -> Result<Estimate, Invalid> {
        check_limit(limit)?;
        [1, 1_000, 1_000_000]
            .into_iter()
            .filter(|tick_us| per.get().is_multiple_of(*tick_us))
            .map(|tick_us| Estimate { limit, period: per.get() / tick_us, tick_us })
            .find(|e| 2 * u128::from(e.limit) * u128::from(e.period) <= u128::from(PRODUCT_MAX))
            .ok_or_else(|| {
                Invalid::new("limit", "is too much to be estimated exactly over this period; choose less, or a period of whole seconds")
            })
    }

    pub(super) fn told(limit: u64, period: u64, tick_us: u64) -> Estimate {
        Estimate { limit, period, tick_us }
    }

    /// How many per period.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn given(&self) -> [u64; 5] {
        [self.limit, self.period, self.tick_us, 0, 0]
    }

    pub(super) fn step(&self, act: Act, cost: u64, stored: Option<&Tally>, now: Micros) -> Step {
        let (mut this, mut last, time) = self.level(stored, now);
        let used = self.used(this, last, time);
        let fits = cost <= self.limit && used <= self.limit - cost;
        let mut is_refused = false;
        match act {
            Act::Check | Act::Peek if !fits => is_refused = true,
            Act::Peek => {}
            Act::Check => this += cost,
            Act::Force => this += cost.min(forced_max(this, self.limit)),
            Act::Refund | Act::Undo => {
                let rest = cost.saturating_sub(this);
                this = this.saturating_sub(cost);
                last = last.saturating_sub(rest);
            }
        }
        let turn = time - time % self.period;
        let until = match (this, last) {
            (0, 0) => now.get(),
            (0, _) => (turn + self.period) * self.tick_us,
            _ => (turn + 2 * self.period) * self.tick_us,
        };
        let ts = Micros::saturating(time * self.tick_us);
        let tally = Tally { amount: this, unit: last, ts, marks: None, kind: Kind::Estimate };
        Step { tally, until: Micros::saturating(until), is_refused }
    }

    /// The two counts at `now`, and the tick that counts.
    fn level(&self, stored: Option<&Tally>, now: Micros) -> (u64, u64, u64) {
        let time = now.get() / self.tick_us;
        let Some(stored) = stored else { return (0, 0, time) };
        let stored_time = stored.ts.get().div_ceil(self.tick_us);
        // From further ahead than a whole period: a future that was never real.
        if stored_time > time + self.period {
            return (0, 0, time);
        }
        let time = time.max(stored_time);
        let bounded = |count: u64| count.min(2 * self.limit);
        let (this, last) = match stored.kind {
            Kind::Estimate => (bounded(stored.amount), bounded(stored.unit)),
            _ => (bounded(stored.tokens()), 0),
        };
        match time / self.period - stored_time / self.period {
            0 => (this, last, time),
            1 => (0, this, time),
            _ => (0, 0, time),
        }
    }

    /// What counts as used: the share of the last period is rounded up.
    fn used(&self, this: u64, last: u64, time: u64) -> u64 {
        this + (last * (self.period - time % self.period)).div_ceil(self.period)
    }

    pub(super) fn left(&self, head: &Head) -> u64 {
        self.limit.saturating_sub(self.used(head.amount, head.unit, head.ts.get() / self.tick_us))
    }

    /// When `cost` will fit; it must not be above the limit.
    pub(super) fn retry_at(&self, head: &Head, cost: u64) -> Option<Micros> {
        let time = head.ts.get() / self.tick_us;
        let turn = time - time % self.period;
        let free = self.limit.checked_sub(cost)?;
        // Within this period, if what came in it leaves room; else in the next, where that is the last one's.
        let (turn, room, shared) = match free.checked_sub(head.amount) {
            Some(room) => (turn, room, head.unit),
            None => (turn + self.period, free, head.amount),
        };
        let room = room.min(shared);
        let elapsed = self.period - (room * self.period).checked_div(shared).unwrap_or(self.period);
        Some(Micros::saturating((turn + elapsed) * self.tick_us))
    }
}
