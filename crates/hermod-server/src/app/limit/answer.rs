//! What a check is answered with, over all its operations.

use hermod_core::Micros;
use hermod_core::limit::{Explained, Limited, Mode, Retry, Ruled, Verdict};
use hermod_engine::Durability;
use smallvec::{SmallVec, smallvec};

use super::{Ran, label};
use crate::telemetry::Decision;

/// Whether it may, why not, and when it may.
#[derive(Clone, Debug)]
pub struct CheckAnswer {
    /// One for each partition that was asked: the subject's own, and the one that all share.
    parts: SmallVec<[Explained; 1]>,
    /// What the charge survives; none if nothing was charged.
    pub durability: Option<Durability>,
    /// It was answered without all that should have been asked: the subject's own rules could not be
    /// read, or the store could not be reached.
    pub is_degraded: bool,
    /// The answer was given before, for the same idempotency key.
    pub is_replayed: bool,
    /// When it was noted down, if it is to be settled.
    pub(super) reserved_at: Option<Micros>,
}

impl CheckAnswer {
    /// Nothing limits it.
    pub(super) fn unlimited(now: Micros, cost: u64) -> CheckAnswer {
        CheckAnswer::of(Explained::unlimited(now, cost))
    }

    pub(super) fn of(checked: Explained) -> CheckAnswer {
        CheckAnswer { parts: smallvec![checked], durability: None, is_degraded: false, is_replayed: false, reserved_at: None }
    }

    pub(super) fn new(ran: Ran) -> CheckAnswer {
        let is_charged = ran.is_charged && ran.checked.verdict() == Verdict::Allowed && !ran.checked.rules.is_empty();
        let durability = is_charged.then_some(ran.durability);
        let is_reserved = ran.is_reserved && ran.checked.verdict() == Verdict::Allowed;
        let reserved_at = is_reserved.then_some(ran.checked.now);
        CheckAnswer { durability, is_replayed: ran.is_replayed, reserved_at, ..CheckAnswer::of(ran.checked) }
    }

    /// Together with what another partition said.
    pub(super) fn and(mut self, other: Ran) -> CheckAnswer {
        let other = CheckAnswer::new(other);
        self.durability = if self.is_allowed() && other.is_allowed() { other.durability.or(self.durability) } else { None };
        self.is_replayed |= other.is_replayed;
        self.reserved_at = self.reserved_at.or(other.reserved_at);
        self.parts.extend(other.parts);
        self
    }

    /// The same some time later, nothing having changed meanwhile.
    pub(super) fn after(&self, elapsed: Micros) -> CheckAnswer {
        let mut later = self.clone();
        for part in &mut later.parts {
            part.now = part.now.plus(elapsed);
        }
        later
    }

    /// The time of the answer.
    pub fn now(&self) -> Micros {
        self.parts.iter().map(|part| part.now).max().unwrap_or_default()
    }

    /// Whether it may.
    pub fn is_allowed(&self) -> bool {
        self.parts.iter().all(|part| part.verdict() == Verdict::Allowed)
    }

    /// Whether it never may: a rule forbids it, or could never hold the cost.
    pub fn is_never(&self) -> bool {
        self.parts.iter().any(|part| part.verdict() == Verdict::Never)
    }

    /// The name of the rule that refused: the one that never admits, else the one that refuses longest.
    pub fn bound_by(&self) -> Option<&str> {
        let is_bound = |part: &&Explained| part.verdict() != Verdict::Allowed;
        let never = self.parts.iter().find(|part| part.verdict() == Verdict::Never);
        let longest = || self.parts.iter().filter(is_bound).reduce(|a, b| if b.retry_at() > a.retry_at() { b } else { a });
        never.or_else(longest).and_then(Explained::bound_by).map(|rule| rule.name.as_str())
    }

    /// When it may; none if it may now, or never.
    pub fn retry_at(&self) -> Option<Micros> {
        if self.is_never() {
            return None;
        }
        self.parts.iter().filter_map(Explained::retry_at).max()
    }

    /// How long to wait before acting, where a rule lets in what must queue.
    pub fn delay(&self) -> Micros {
        if !self.is_allowed() {
            return Micros::ZERO;
        }
        self.parts.iter().map(Explained::delay).max().unwrap_or_default()
    }

    /// What each rule said; in a replay, each rule of then.
    pub fn said(&self) -> impl Iterator<Item = Said<'_>> {
        self.parts.iter().flat_map(|part| part.ruled().map(|(rule, ruled)| Said::new(rule, ruled, part.now)))
    }
}

/// What one rule said.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// The rule.
    pub id: &'a str,
    /// Its policy.
    pub name: &'a str,
    /// How many per period.
    pub limit: u64,
    /// The most at once.
    pub burst: u64,
    /// The usual length of its period.
    pub window: Micros,
    /// How many are left.
    pub left: u64,
    /// When everything is back.
    pub reset_at: Micros,
    /// When it would admit; none if it did, or never will.
    pub retry_at: Option<Micros>,
    /// Whether it would have refused.
    pub is_refused: bool,
    /// It only reports.
    pub is_shadow: bool,
    /// What the rule is counted as.
    pub(super) label: &'a str,
}

impl<'a> Said<'a> {
    fn new(rule: &'a Limited, ruled: Ruled, now: Micros) -> Said<'a> {
        Said {
            id: rule.id.as_str(),
            name: rule.name.as_str(),
            limit: rule.meter.limit(),
            burst: rule.meter.burst(),
            window: rule.window,
            left: ruled.left,
            reset_at: now.plus(ruled.reset),
            retry_at: match ruled.retry {
                Retry::After(span) => Some(now.plus(span)),
                Retry::Now | Retry::Never => None,
            },
            is_refused: ruled.retry != Retry::Now,
            is_shadow: rule.mode == Mode::Shadow,
            label: label(rule),
        }
    }

    /// For the counters.
    pub(crate) fn decision(&self) -> Decision {
        match (self.is_refused, self.is_shadow) {
            (false, _) => Decision::Allowed,
            (true, false) => Decision::Refused,
            (true, true) => Decision::WouldRefuse,
        }
    }
}
