//! The window: one counter, back to zero at the turn of the period or of the calendar.
//!
//! A record holds how many were charged and when the last one was; they count in the window that
//! contains that moment. So the window is inside the value and not in the key, a rule whose period
//! is edited keeps what was used since its new window began, and a clock that steps back stays in
//! the window it had reached: nothing is given twice.
//!
//! Around a turn up to twice the limit can pass within one period's length. That is what a fixed
//! window is; the other kinds are there for who does not want it.

use super::{Act, Step};
use crate::id::Invalid;
use crate::int::{Micros, PRODUCT_MAX};
use crate::limit::per::{Bounds, Calendar};
use crate::limit::tally::{Kind, Tally};

/// One counter for each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    limit: u64,
    turns: Turns,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Turns {
    /// Counted from the epoch.
    Every(Micros),
    Calendar(Box<Calendar>),
    /// One window of a calendar, as a script was given it.
    Given(Bounds),
}

impl Window {
    /// `limit` in every span of this length.
    pub fn every(limit: u64, span: Micros) -> Result<Window, Invalid> {
        Window::new(limit, Turns::Every(span))
    }

    /// `limit` in every window of the calendar.
    pub fn calendar(limit: u64, calendar: Calendar) -> Result<Window, Invalid> {
        Window::new(limit, Turns::Calendar(Box::new(calendar)))
    }

    /// `limit` in one window of a calendar that is not known any more.
    pub(super) fn told(limit: u64, [start, end, next_end]: [u64; 3]) -> Option<Window> {
        let bounds = Bounds { start: Micros::new(start)?, end: Micros::new(end)?, next_end: Micros::new(next_end)? };
        Window::new(limit, Turns::Given(bounds)).ok()
    }

    /// As it is at `now`: of a window that was given, the next one from its turn on. None where it is
    /// about another time.
    pub(super) fn at(&self, now: Micros) -> Option<Window> {
        let turns = match &self.turns {
            Turns::Given(given) if now < given.start || now >= given.next_end => return None,
            Turns::Given(given) if now >= given.end => Turns::Given(Bounds { start: given.end, end: given.next_end, ..*given }),
            turns => turns.clone(),
        };
        Some(Window { limit: self.limit, turns })
    }

    fn new(limit: u64, turns: Turns) -> Result<Window, Invalid> {
        check_limit(limit)?;
        Ok(Window { limit, turns })
    }

    /// How many per window.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Windows of the calendar are given as they are around `about`: the script has no calendar.
    pub(super) fn given(&self, about: Micros) -> (u8, [u64; 5]) {
        match &self.turns {
            Turns::Every(span) => (2, [self.limit, span.get(), 0, 0, 0]),
            Turns::Calendar(calendar) => {
                let bounds = calendar.bounds(about);
                (3, [self.limit, bounds.start.get(), bounds.end.get(), bounds.next_end.get(), 0])
            }
            Turns::Given(bounds) => (3, [self.limit, bounds.start.get(), bounds.end.get(), bounds.next_end.get(), 0]),
        }
    }

    fn bounds(&self, now: Micros) -> Bounds {
        match &self.turns {
            Turns::Every(span) => {
                let start = now.get() - now.get() % span.get();
                let after = |n: u64| Micros::saturating(start + n * span.get());
                Bounds { start: after(0), end: after(1), next_end: after(2) }
            }
            Turns::Calendar(calendar) => calendar.bounds(now),
            Turns::Given(bounds) => *bounds,
        }
    }

    pub(super) fn step(&self, act: Act, cost: u64, stored: Option<&Tally>, now: Micros) -> Step {
        let mut bounds = self.bounds(now);
        let (mut count, mut ts) = (0, now);
        // What was charged in a window after the next is from a future that was never real.
        if let Some(stored) = stored.filter(|stored| stored.ts < bounds.next_end) {
            if stored.ts >= bounds.end {
                bounds = Bounds { start: bounds.end, end: bounds.next_end, ..bounds };
            }
            if stored.ts >= bounds.start {
                count = stored.tokens();
                ts = ts.max(stored.ts);
            }
        }
        let (count, is_refused) = act_on(act, count, cost, self.limit);
        let until = if count > 0 { bounds.end } else { now };
        Step { tally: Tally { amount: count, unit: 1, ts, marks: None, kind: Kind::Window }, until, is_refused }
    }
}

/// What becomes of a plain count, and whether the cost did not fit.
pub(super) fn act_on(act: Act, count: u64, cost: u64, limit: u64) -> (u64, bool) {
    let fits = cost <= limit && count <= limit - cost;
    match act {
        Act::Check | Act::Peek if !fits => (count, true),
        Act::Peek => (count, false),
        Act::Check => (count + cost, false),
        Act::Force => (count + cost.min(forced_max(count, limit)), false),
        Act::Refund | Act::Undo => (count.saturating_sub(cost), false),
    }
}

/// How much more force may add: up to twice the limit in all.
pub(super) fn forced_max(count: u64, limit: u64) -> u64 {
    (2 * limit).saturating_sub(count)
}

/// Twice the limit, and its sum with a charge, must be exact.
pub(super) fn check_limit(limit: u64) -> Result<(), Invalid> {
    match limit {
        0 => Err(Invalid::new("limit", "must be at least 1")),
        n if n > PRODUCT_MAX / 2 => Err(Invalid::new("limit", format!("must be at most {}", PRODUCT_MAX / 2))),
        _ => Ok(()),
    }
}
