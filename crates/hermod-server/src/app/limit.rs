//! limit: check, peek, force, refund, reset; leases stand in `lease.rs`, reservations in `reserve.rs`.
//!
//! Rules of one subject are one operation. Rules that all subjects share live in another partition:
//! they are charged first, and given back if the subject's own refuse. Where the store cannot be
//! reached, each rule's own policy decides.

mod answer;
mod decide;
mod lease;
mod local;
mod refusals;
mod reserve;
mod top;

use std::sync::Arc;

use hermod_catalog::{Matched, Scope};
use hermod_core::limit::{Act, Attributes, Considered, Facts, Limited, Mode, OnStoreError, Reset, Rules, Scope as Counter, no_rules};
use hermod_core::{Action, INT_MAX, Invalid, Once, Outcome, Subject};
use hermod_engine::{Clock, Engine, EngineError};

use super::{App, Caller};
use crate::code::{Code, Problem, conflict};

pub use answer::{CheckAnswer, Said};
use decide::{Fault, Ran, Split};
pub use lease::{LeaseAnswer, LeaseAsk, LeaseSaid};
pub(crate) use local::Local;
pub(crate) use refusals::Refusals;
use reserve::gives_back;
pub use reserve::{ReserveAnswer, SettleAnswer, SettleOutcome};
pub(crate) use top::Top;

/// May this subject do this now?
#[derive(Clone, Debug)]
pub struct CheckAsk {
    /// Who.
    pub subject: Subject,
    /// What.
    pub action: Action,
    /// How much of it.
    pub cost: u64,
    /// Check, peek, force or refund.
    pub act: Act,
    /// What else rules may look at.
    pub attributes: Attributes,
}

impl CheckAsk {
    /// Checks what came from outside.
    pub fn new(subject: &str, action: &str, cost: Option<u64>) -> Result<CheckAsk, Invalid> {
        let cost = cost.unwrap_or(1);
        if cost == 0 || cost > INT_MAX {
            return Err(Invalid::new("cost", format!("must be between 1 and {INT_MAX}")));
        }
        let (subject, action) = (Subject::new(subject)?, Action::new(action)?);
        Ok(CheckAsk { subject, action, cost, act: Act::Check, attributes: Attributes::default() })
    }

    /// With what else rules may look at.
    pub fn with(mut self, attributes: &Attributes) -> Result<CheckAsk, Invalid> {
        attributes.check()?;
        self.attributes.clone_from(attributes);
        Ok(self)
    }

    fn facts(&self) -> Facts<'_> {
        Facts { subject: self.subject.as_str(), action: self.action.as_str(), cost: self.cost, attributes: &self.attributes }
    }
}

impl App {
    /// Takes the cost from every matching rule, or from none; or peeks, forces or refunds.
    pub async fn check(&self, caller: &Caller, ask: &CheckAsk, once: Option<&Once>) -> Result<CheckAnswer, Problem> {
        caller.need(Scope::LimitCheck)?;
        let may_be_known = once.is_none() && ask.act == Act::Check && self.refusals.is_some();
        if let Some(refusals) = self.refusals.as_ref().filter(|_| may_be_known)
            && let Some(known) = refusals.known(&caller.space, ask, self.catalog.version())
        {
            self.count(caller, ask, &known);
            return Ok(known);
        }
        let version = self.catalog.version();
        let Matched { rules, is_degraded } = self.matched(caller, &ask.facts()).await;
        few_enough(&rules)?;
        let (own, shared) = split(rules);
        let split = Split { own, shared };
        if !matches!(ask.act, Act::Refund | Act::Undo) {
            self.settle_expired(caller, &ask.subject, &split).await;
        }
        // What expires and is given back would not be noticed.
        let may_be_known = may_be_known && !gives_back(&split.own) && !gives_back(&split.shared);
        let asked = self.refusals.as_ref().map(|refusals| refusals.asking(&caller.space, &ask.subject, version));
        let answer = match self.decide(caller, ask, &split, once, None).await {
            Ok(mut answer) => {
                answer.is_degraded = is_degraded;
                answer
            }
            Err(Fault::Engine(fault)) => self.without_store(caller, ask, &split.own, &split.shared, fault)?,
            Err(fault) => return Err(fault.into()),
        };
        if let Some(refusals) = &self.refusals {
            match ask.act {
                Act::Check if may_be_known && !answer.is_degraded => {
                    asked.into_iter().for_each(|asked| refusals.learn(&caller.space, ask, asked, &answer));
                }
                Act::Refund | Act::Undo | Act::Force if !split.shared.is_empty() => refusals.forget_all(),
                Act::Refund | Act::Undo | Act::Force => refusals.forget(&caller.space, &ask.subject),
                Act::Check | Act::Peek => {}
            }
        }
        if ask.act == Act::Check {
            self.count(caller, ask, &answer);
        }
        Ok(answer)
    }

    /// Forgets what a subject has used under the rules that match; how many counters meant something.
    pub async fn reset(&self, caller: &Caller, ask: &CheckAsk, once: Option<&Once>) -> Result<u64, Problem> {
        caller.need(Scope::RulesWrite)?;
        let rules = self.matched(caller, &ask.facts()).await.rules;
        few_enough(&rules)?;
        let (own, _shared) = split(rules);
        let place = self.engine.partitions().place(&caller.space, ask.subject.as_str());
        let ran = self.engine.run(&Reset::new(place, ask.subject.clone(), own), once).await?;
        if let Some(refusals) = &self.refusals {
            refusals.forget(&caller.space, &ask.subject);
        }
        match ran.outcome {
            Outcome::Done(answer) | Outcome::Replayed(answer) => Ok(answer.forgotten),
            Outcome::Conflict => Err(conflict()),
        }
    }

    /// Every rule that was considered for this question, and why it does not apply.
    pub async fn considered(&self, caller: &Caller, ask: &CheckAsk) -> Result<Vec<Considered>, Problem> {
        caller.need(Scope::LimitCheck)?;
        Ok(self.catalog.considered(&caller.space, &ask.facts()).await)
    }

    /// The subjects that were refused most, about, of the caller's space.
    pub fn refused(&self, caller: &Caller, most: usize) -> Result<Vec<(String, u64)>, Problem> {
        caller.need(Scope::RulesRead)?;
        Ok(self.top.most(&caller.space, most))
    }

    pub(super) async fn matched(&self, caller: &Caller, facts: &Facts<'_>) -> Matched {
        match self.catalog.matching_now(&caller.space, facts) {
            Some(matched) => matched,
            None => self.catalog.matching(&caller.space, facts).await,
        }
    }

    /// The store cannot be reached: what each rule says for that case. A refusal must come from a count.
    fn without_store(
        &self,
        caller: &Caller,
        ask: &CheckAsk,
        own: &Rules,
        shared: &Rules,
        fault: EngineError,
    ) -> Result<CheckAnswer, Problem> {
        let all = || own.iter().chain(shared.iter());
        let is_closed = |rule: &Arc<Limited>| rule.on_store_error == OnStoreError::Closed && rule.mode == Mode::Enforce;
        if !is_away(&fault) || ask.act != Act::Check || all().any(is_closed) {
            return Err(fault.into());
        }
        // A ban needs no store.
        let is_told = |rule: &&Arc<Limited>| rule.on_store_error == OnStoreError::Local || rule.mode == Mode::Block;
        let counts = |rules: &Rules| rules.iter().filter(is_told).cloned().collect::<Rules>();
        let (own, shared) = (counts(own), counts(shared));
        let mut answer = self.local.check(&caller.space, ask, &own, &shared, self.now());
        answer.is_degraded = true;
        Ok(answer)
    }

    fn count(&self, caller: &Caller, ask: &CheckAsk, answer: &CheckAnswer) {
        self.metrics.checked(answer.is_allowed());
        for said in answer.said() {
            self.metrics.decided(said.name, said.label, said.decision());
        }
        if !answer.is_allowed() {
            self.top.add(&caller.space, ask.subject.as_str());
        }
    }
}

/// Whether the store cannot be reached, so that each rule's own policy decides.
fn is_away(fault: &EngineError) -> bool {
    matches!(fault, EngineError::Unavailable { .. })
}

/// What a rule is counted as. One subject's own must not be told from another's.
fn label(rule: &Limited) -> &str {
    if rule.is_personal { "own" } else { rule.id.as_str() }
}

/// So many rules can apply to one call: a script must not hold up the others for long.
const RULES_MAX: usize = 200;

/// Refuses a call to which more rules apply than can be tested in one step.
pub(super) fn few_enough(rules: &Rules) -> Result<(), Problem> {
    if rules.len() <= RULES_MAX {
        return Ok(());
    }
    let many = format!("{} rules of different names apply to this call, and {RULES_MAX} can; join some of them.", rules.len());
    Err(Problem::new(Code::TooManyRules, many))
}

/// The subject's own counters, and those that all subjects share. Leases are no matter of charges.
fn split(rules: Rules) -> (Rules, Rules) {
    let is_plain = |rule: &Limited| rule.scope == Counter::Subject && !rule.is_lease();
    if rules.iter().all(|rule| is_plain(rule)) {
        return (rules, no_rules());
    }
    let counted = || rules.iter().filter(|rule| !rule.is_lease());
    let (own, shared): (Vec<_>, Vec<_>) = counted().cloned().partition(|rule| rule.scope == Counter::Subject);
    (own.into(), shared.into())
}

/// On Redis a refusal is worth remembering: it saves a round trip. Not where time is set by hand.
pub(crate) fn refusals_for(engine: &Engine, clock: &Clock) -> Option<Refusals> {
    match (engine, clock) {
        (Engine::Redis(_), Clock::System) => Some(Refusals::new()),
        _ => None,
    }
}
