//! Leases while the store cannot be reached: each rule's own policy decides, as it does for checks.
//!
//! A lease is renewed and given back by its id alone. Who knows it is asked first: the limiter of our own, if the
//! lease was asked for there. Of one that was taken before the store was lost nobody knows whether it is held and under
//! which rules, so the strictest of those that may have been its own decides; where none is closed it goes on.

use hermod_core::Micros;
use hermod_core::limit::{Lease, Limited, OnStoreError, Rules, Scope as Counter};
use hermod_engine::EngineError;

use super::{Keep, LeaseAnswer, Wanted};
use crate::app::limit::is_away;
use crate::app::{App, Caller};
use crate::code::Problem;

/// A part of a lease whose place does not answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) counter: Counter,
    /// The limiter of our own knows the lease.
    pub(super) is_known: bool,
}

impl App {
    /// Takes a lease, where that may be done without the store.
    pub(super) fn acquire_away(&self, caller: &Caller, wanted: &Wanted, fault: EngineError) -> Result<LeaseAnswer, Problem> {
        let rules = || wanted.own.iter().chain(wanted.shared.iter());
        if !is_away(&fault) || rules().any(|rule| rule.on_store_error == OnStoreError::Closed) {
            return Err(fault.into());
        }
        let told = |rules: &Rules| rules.iter().filter(|rule| rule.on_store_error == OnStoreError::Local).cloned().collect();
        // What it may last follows from all of the rules, also from those that are not counted now.
        let ttl = wanted.ttl.min(wanted.longest());
        let counted = Wanted { ttl, own: told(&wanted.own), shared: told(&wanted.shared), ..wanted.clone() };
        let mut answer = self.local.acquire(&caller.space, &counted, self.now());
        if answer.is_held {
            answer.until = Some(answer.now.plus(ttl));
        }
        answer.is_degraded = true;
        Ok(answer)
    }

    /// What is said of a lease that was to be kept or given back where parts of it did not answer. `answer` is what
    /// is known without them.
    pub(super) async fn keep_away(
        &self,
        caller: &Caller,
        keep: &Keep,
        lost: &[Lost],
        fault: EngineError,
        mut answer: LeaseAnswer,
    ) -> Result<LeaseAnswer, Problem> {
        answer.is_degraded = true;
        if lost.iter().any(|part| part.is_known) {
            return Ok(answer);
        }
        let all = self.catalog.leases_of(&caller.space, keep.subject.as_str()).await;
        let is_lost = |rule: &Limited| lost.iter().any(|part| part.counter == rule.scope);
        let rules: Rules = all.into_iter().filter(|rule| is_lost(rule)).collect();
        if rules.iter().any(|rule| rule.on_store_error == OnStoreError::Closed) {
            return Err(fault.into());
        }
        // Nothing but a rule that all share can make a lease of the part that all share.
        let may_be_held = !rules.is_empty() || lost.iter().any(|part| part.counter == Counter::Subject);
        if !answer.is_held && may_be_held {
            answer.is_held = true;
            answer.until = keep.ttl.and_then(|ttl| {
                let ttl = ttl.unwrap_or(Micros::MAX).min(Lease::longest(&rules));
                (ttl < Micros::MAX).then(|| self.now().plus(ttl))
            });
        }
        Ok(answer)
    }
}
