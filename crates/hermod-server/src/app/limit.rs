//! limit: check.

use std::sync::Arc;

use hermod_catalog::Scope;
use hermod_core::limit::{Check, Checked, Limited, Retry, Verdict};
use hermod_core::{Action, INT_MAX, Invalid, Micros, Once, Outcome, Subject};
use hermod_engine::Durability;

use super::{App, Caller};
use crate::code::{Problem, conflict};

/// May this subject do this now?
#[derive(Clone, Debug)]
pub struct CheckAsk {
    /// Who.
    pub subject: Subject,
    /// What.
    pub action: Action,
    /// How much of it.
    pub cost: u64,
}

impl CheckAsk {
    /// Checks what came from outside.
    pub fn new(subject: &str, action: &str, cost: Option<u64>) -> Result<CheckAsk, Invalid> {
        let cost = cost.unwrap_or(1);
        if cost == 0 || cost > INT_MAX {
            return Err(Invalid::new("cost", format!("must be between 1 and {INT_MAX}")));
        }
        Ok(CheckAsk { subject: Subject::new(subject)?, action: Action::new(action)?, cost })
    }
}

/// Whether it may, why not, and when it may.
#[derive(Clone, Debug)]
pub struct CheckAnswer {
    /// What the engine found; none if no rule matched, which allows.
    pub checked: Option<Checked>,
    /// The rules, in the same order.
    pub rules: Arc<[Limited]>,
    /// What the charge survives; none if nothing was charged.
    pub durability: Option<Durability>,
    /// The subject's own rules could not be read: only everyone's were applied.
    pub is_degraded: bool,
    /// The answer was given before, for the same idempotency key.
    pub is_replayed: bool,
}

impl CheckAnswer {
    /// Whether it may.
    pub fn is_allowed(&self) -> bool {
        self.checked.as_ref().is_none_or(|checked| checked.verdict == Verdict::Allowed)
    }

    /// Whether it never may: the cost is above a rule's burst.
    pub fn is_never(&self) -> bool {
        self.checked.as_ref().is_some_and(|checked| checked.verdict == Verdict::Never)
    }

    /// The name of the rule that refused.
    pub fn bound_by(&self) -> Option<&str> {
        self.ruled().nth(self.checked.as_ref()?.bound_by()?).map(|said| said.name)
    }

    /// When it may.
    pub fn retry_at(&self) -> Option<Micros> {
        self.checked.as_ref()?.retry_at()
    }

    /// What each rule said, in a replay each rule of then.
    pub fn ruled(&self) -> impl Iterator<Item = Said<'_>> {
        let now = self.checked.as_ref().map_or(Micros::ZERO, |checked| checked.now);
        let told = self.checked.as_ref().and_then(|checked| checked.told.as_deref());
        let of_then = told.unwrap_or_default().iter().map(|t| (t.id.as_str(), t.name.as_str(), t.limit, t.burst));
        let today = self.rules.iter().filter(move |_| told.is_none());
        let of_today = today.map(|r| (r.id.as_str(), r.name.as_str(), r.meter.limit(), r.meter.burst()));
        let ruled = self.checked.iter().flat_map(|checked| &checked.rules);
        of_then.chain(of_today).zip(ruled).map(move |((id, name, limit, burst), ruled)| {
            let retry_at = match ruled.retry {
                Retry::After(span) => Some(now.plus(span)),
                Retry::Now | Retry::Never => None,
            };
            Said { id, name, limit, burst, left: ruled.left, reset_at: now.plus(ruled.reset), retry_at }
        })
    }
}

/// What one rule said.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// The rule.
    pub id: &'a str,
    /// Its policy.
    pub name: &'a str,
    /// Tokens regained per period.
    pub limit: u64,
    /// The most at once.
    pub burst: u64,
    /// Tokens left.
    pub left: u64,
    /// When all of the burst is back.
    pub reset_at: Micros,
    /// When it would admit; none if it did, or never will.
    pub retry_at: Option<Micros>,
}

impl App {
    /// Takes the cost from every matching rule, or from none.
    pub async fn check(&self, caller: &Caller, ask: CheckAsk, once: Option<&Once>) -> Result<CheckAnswer, Problem> {
        caller.need(Scope::LimitCheck)?;
        let known = self.catalog.matching_now(&caller.space, &ask.action, &ask.subject);
        let matched = match known {
            Some(matched) => matched,
            None => self.catalog.matching(&caller.space, &ask.action, &ask.subject).await,
        };
        let mut answer =
            CheckAnswer { checked: None, rules: matched.rules, durability: None, is_degraded: matched.is_degraded, is_replayed: false };
        // Without a rule there is nothing to charge; an idempotency key is honoured all the same.
        if !answer.rules.is_empty() || once.is_some() {
            let place = self.engine.partitions().place(&caller.space, ask.subject.as_str());
            let check = Check::new(place, ask.subject, ask.cost, Arc::clone(&answer.rules));
            let ran = self.engine.run(&check, once).await?;
            let checked = match ran.outcome {
                Outcome::Done(checked) => checked,
                Outcome::Replayed(checked) => {
                    answer.is_replayed = true;
                    checked
                }
                Outcome::Conflict => return Err(conflict()),
            };
            let is_charged = checked.verdict == Verdict::Allowed && !checked.rules.is_empty();
            answer.durability = is_charged.then_some(ran.durability);
            answer.checked = Some(checked);
        }
        self.metrics.checked(answer.is_allowed());
        Ok(answer)
    }
}
