//! A rule as both twins compute with it: a kind and a few integers. Twin of `meter.lua`.
//!
//! Each kind is a file: the *bucket* (debt that drains), the *window* (one counter), the *sliding*
//! window (counted marks) and its two-counter *estimate*. All of them do the same four things with a
//! record: bring it to now, test it, charge it, give back. They share the record's shape, so that
//! a rule whose algorithm is changed keeps what is used.
//!
//! A script answers with the head of each record as it stands afterwards. What is left, when to ask
//! again, how long to wait: that is computed from the head here, in one place, for both twins.

mod bucket;
mod estimate;
mod sliding;
mod window;

use crate::int::Micros;
use crate::limit::tally::{Head, Kind, Tally};

pub use bucket::Bucket;
pub use estimate::Estimate;
pub use sliding::Sliding;
pub use window::Window;

/// How a rule counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meter {
    /// Debt that drains.
    Bucket(Bucket),
    /// One counter for each period.
    Window(Window),
    /// Marks that leave the window one by one.
    Sliding(Sliding),
    /// This period's counter and a share of the last one's.
    Estimate(Estimate),
    /// Always refuses.
    Block,
    /// Leases: counted by `lease.rs`, invisible to checks.
    Leases {
        /// How many at once.
        limit: u64,
        /// The longest one.
        ttl_max: Micros,
    },
}

/// What is to be done with a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Charge, if it fits.
    Check,
    /// Only look.
    Peek,
    /// Charge also what does not fit, up to as much again as the limit.
    Force,
    /// Give back, never below nothing.
    Refund,
    /// Take back what was charged a moment ago: of marks the newest, so that it is as if it had not been.
    Undo,
}

impl Act {
    /// As scripts know it.
    pub fn number(self) -> u8 {
        match self {
            Act::Check => 0,
            Act::Peek => 1,
            Act::Force => 2,
            Act::Refund => 3,
            Act::Undo => 4,
        }
    }
}

/// What a meter made of a call: the record afterwards, and whether the cost fitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The record. If it was refused or only looked at, as it is now, uncharged.
    pub tally: Tally,
    /// When it means nothing any more.
    pub until: Micros,
    /// The cost did not fit, and nothing forced it.
    pub is_refused: bool,
}

impl Step {
    /// What a script would say of it.
    #[inline]
    pub fn head(&self) -> Head {
        self.tally.head(self.until, self.is_refused)
    }
}

/// What one rule said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruled {
    /// How many are left after this answer.
    pub left: u64,
    /// How long until everything is back.
    pub reset: Micros,
    /// When this rule would admit the cost.
    pub retry: Retry,
    /// How long to wait before acting, where the rule lets in what must queue.
    pub delay: Micros,
}

/// When a rule would admit the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It did.
    Now,
    /// After this span, if nothing else is taken meanwhile.
    After(Micros),
    /// At no time.
    Never,
}

impl Meter {
    /// Brings the record to `now` and acts on it.
    #[inline]
    pub fn step(&self, act: Act, cost: u64, stored: Option<(&Tally, Micros)>, now: Micros) -> Step {
        let (stored, ends) = stored.unzip();
        let mut step = match self {
            Meter::Bucket(bucket) => bucket.step(act, cost, stored, now),
            Meter::Window(window) => window.step(act, cost, stored, now),
            Meter::Sliding(sliding) => sliding.step(act, cost, stored, now),
            Meter::Estimate(estimate) => estimate.step(act, cost, stored, now),
            Meter::Block | Meter::Leases { .. } => {
                Step { tally: Tally::nothing(Kind::Block, now), until: now, is_refused: matches!(act, Act::Check | Act::Peek | Act::Force) }
            }
        };
        // A record that is not written anew ends when it says, if that is earlier.
        if let Some(ends) = ends.filter(|_| act == Act::Peek || step.is_refused) {
            step.until = step.until.min(ends);
        }
        step
    }

    /// What a record's head means to the caller.
    pub fn explain(&self, head: &Head, cost: u64, now: Micros) -> Ruled {
        let reset = head.until.since(now);
        let (left, delay, retry_at) = match self {
            Meter::Bucket(bucket) => (bucket.left(head), bucket.delay(head, now), bucket.retry_at(head, cost)),
            Meter::Window(window) => (window.limit().saturating_sub(head.amount), Micros::ZERO, Some(head.until)),
            Meter::Sliding(sliding) => (sliding.limit().saturating_sub(head.amount), Micros::ZERO, Some(Micros::saturating(head.unit))),
            Meter::Estimate(estimate) => (estimate.left(head), Micros::ZERO, estimate.retry_at(head, cost)),
            Meter::Block | Meter::Leases { .. } => (0, Micros::ZERO, None),
        };
        let retry = match (head.is_refused, retry_at) {
            (false, _) => Retry::Now,
            (true, Some(at)) if cost <= self.most() => Retry::After(at.min(head.until).since(now)),
            (true, _) => Retry::Never,
        };
        let delay = if head.is_refused { Micros::ZERO } else { delay };
        Ruled { left, reset, retry, delay }
    }

    /// The most that can ever be taken at once.
    pub fn most(&self) -> u64 {
        match self {
            Meter::Bucket(bucket) => bucket.most(),
            Meter::Window(window) => window.limit(),
            Meter::Sliding(sliding) => sliding.limit(),
            Meter::Estimate(estimate) => estimate.limit(),
            Meter::Block => 0,
            Meter::Leases { limit, .. } => *limit,
        }
    }

    /// Tokens per period.
    pub fn limit(&self) -> u64 {
        match self {
            Meter::Bucket(bucket) => bucket.limit(),
            other => other.most(),
        }
    }

    /// The most at once without waiting.
    pub fn burst(&self) -> u64 {
        match self {
            Meter::Bucket(bucket) => bucket.burst(),
            other => other.most(),
        }
    }

    /// As it is at `now`: a window of the calendar that was given may be about another time.
    pub fn at(&self, now: Micros) -> Option<Meter> {
        match self {
            Meter::Window(window) => window.at(now).map(Meter::Window),
            other => Some(other.clone()),
        }
    }

    /// A meter of then.
    pub(crate) fn told(kind: u8, ints: [u64; 5]) -> Option<Meter> {
        let [limit, second, third, fourth, fifth] = ints;
        Some(match kind {
            1 => Meter::Bucket(Bucket::told(ints)?),
            2 => Meter::Window(Window::every(limit, Micros::new(second)?).ok()?),
            3 => Meter::Window(Window::told(limit, [second, third, fourth])?),
            4 => Meter::Sliding(Sliding::told(limit, second, third)),
            5 if second > 0 && third > 0 => Meter::Estimate(Estimate::told(limit, second, third)),
            6 if fourth == 0 && fifth == 0 => Meter::Block,
            7 => Meter::Leases { limit, ttl_max: Micros::new(second)? },
            _ => return None,
        })
    }

    /// As scripts take it: the kind and five integers. Calendar windows are those around `about`.
    pub fn given(&self, about: Micros) -> (u8, [u64; 5]) {
        match self {
            Meter::Bucket(bucket) => (1, bucket.given()),
            Meter::Window(window) => window.given(about),
            Meter::Sliding(sliding) => (4, sliding.given()),
            Meter::Estimate(estimate) => (5, estimate.given()),
            Meter::Block => (6, [0; 5]),
            Meter::Leases { limit, ttl_max } => (7, [*limit, ttl_max.get(), 0, 0, 0]),
        }
    }
}
