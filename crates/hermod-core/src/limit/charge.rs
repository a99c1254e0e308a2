//! Tests every rule, and charges all of them or none. Twin of `charge.lua`: what checks and reservations share.

use smallvec::SmallVec;

use crate::int::Micros;
use crate::limit::check::lent;
use crate::limit::limited::Limited;
use crate::limit::meter::{Act, Meter, Step};
use crate::limit::rule::Mode;
use crate::limit::tally::Head;
use crate::partition::Placed;
use crate::state::{Found, Limits};

/// What is to be done under some rules, and whose counters they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge<'a, P> {
    pub(super) place: &'a P,
    /// Whose counters; empty: those that all subjects share.
    pub(super) subject: &'a str,
    pub(super) act: Act,
    pub(super) cost: u64,
    pub(super) rules: &'a [std::sync::Arc<Limited>],
}

/// What every rule made of it. Nothing is written yet.
#[derive(Debug)]
pub(super) struct Tested {
    /// One for each rule. Where it was refused, as they are, uncharged.
    steps: Vec<(Found, Step)>,
    /// A rule that enforces refused.
    pub(super) is_refused: bool,
    /// A rule had no record that means anything.
    pub(super) is_fresh: bool,
}

impl<P: Placed> Charge<'_, P> {
    /// Whether a rule's record is written if nothing refused. A ban counts nothing, so it must not be
    /// written over what was counted before.
    #[inline]
    pub(super) fn writes(&self, rule: &Limited, step: &Step) -> bool {
        !step.is_refused && self.act != Act::Peek && rule.meter != Meter::Block
    }

    pub(super) fn test(&self, limits: &mut Limits, now: Micros) -> Tested {
        let mut steps: Vec<(Found, Step)> = Vec::with_capacity(self.rules.len());
        let (mut is_refused, mut is_fresh) = (false, false);
        for rule in self.rules {
            let found = limits.find(self.place, rule, self.subject);
            let stored = limits.get(found, now);
            is_fresh |= stored.is_none();
            let step = rule.meter.step(self.act, self.cost, lent(&stored), now);
            is_refused |= step.is_refused && rule.mode != Mode::Shadow;
            steps.push((found, step));
        }
        if is_refused {
            // Those that admitted are shown as they are, uncharged.
            for (rule, (found, step)) in self.rules.iter().zip(&mut steps) {
                *step = rule.meter.step(Act::Peek, self.cost, lent(&limits.get(*found, now)), now);
            }
        }
        Tested { steps, is_refused, is_fresh }
    }

    pub(super) fn write(&self, tested: Tested, limits: &mut Limits) {
        for (rule, (found, step)) in self.rules.iter().zip(tested.steps) {
            if self.writes(rule, &step) {
                limits.put(found, self.place.place(), rule, self.subject, step);
            }
        }
    }
}

impl Tested {
    /// What a script would say of the records.
    pub(super) fn heads(&self) -> SmallVec<[Head; 1]> {
        self.steps.iter().map(|(_, step)| step.head()).collect()
    }
}
