//! Takes `cost` from every matching rule, or from none. Twin of `check.lua`.

use std::borrow::{Borrow, Cow};

use smallvec::SmallVec;

use crate::id::Subject;
use crate::int::{INT_MAX, Micros};
use crate::key;
use crate::limit::charge::Charge;
use crate::limit::index::no_rules;
use crate::limit::limited::{Limited, Rules};
use crate::limit::meter::{Act, Retry, Ruled};
use crate::limit::rule::Mode;
use crate::limit::tally::{Head, Tally};
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::{Place, Placed};
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// May `subject` take `cost` now? If every rule admits it, it is taken.
///
/// It owns what it is about, or borrows it (`Check<Home, &Subject, &Rules>`): to count references to names and rules
/// that all threads use takes longer than the check.
#[derive(Clone, Copy, Debug)]
pub struct Check<P = Place, S = Subject, R = Rules> {
    place: P,
    /// Whose counters; none: those that all subjects share.
    subject: Option<S>,
    /// Who asks, and whose idempotency keys count, where all share the counters.
    asker: Option<S>,
    act: Act,
    cost: u64,
    rules: R,
}

impl<P: Placed, S: Borrow<Subject>, R: Borrow<Rules>> Check<P, S, R> {
    /// `place` is that of the subject, or of the home `""` where all subjects share the counters. A
    /// cost of zero is held at 1, one above 2^53 - 1 at that.
    pub fn new(place: P, subject: Option<S>, act: Act, cost: u64, rules: R) -> Check<P, S, R> {
        Check { place, subject, asker: None, act, cost: cost.clamp(1, INT_MAX), rules }
    }

    /// On behalf of this subject, where all share the counters.
    #[must_use]
    pub fn asked_by(mut self, asker: S) -> Check<P, S, R> {
        self.asker = Some(asker);
        self
    }

    /// Whose counters.
    fn counted(&self) -> &str {
        self.subject.as_ref().map_or("", |subject| subject.borrow().as_str())
    }

    /// The rules it tests, in the order of the answer.
    pub fn rules(&self) -> &Rules {
        self.rules.borrow()
    }

    fn charge(&self) -> Charge<'_, P> {
        Charge { place: &self.place, subject: self.counted(), act: self.act, cost: self.cost, rules: self.rules() }
    }

    /// Under one rule, as most are: nothing is collected.
    #[inline]
    fn apply_one(&self, rule: &Limited, state: &mut State, now: Micros) -> Result<Checked, Full> {
        let found = state.limits.find(&self.place, rule, self.counted());
        let standing = state.limits.standing(found);
        let stored = standing.as_ref().and_then(|record| record.live(now)).map(|(packed, until)| (packed.tally(), until));
        let is_fresh = stored.is_none();
        let step = rule.meter.step(self.act, self.cost, lent(&stored), now);
        let is_refused = step.is_refused && rule.mode != Mode::Shadow;
        let heads = SmallVec::from_buf([step.head()]);
        if self.charge().writes(rule, &step) {
            if is_fresh && state.is_full && matches!(self.act, Act::Check | Act::Force) {
                return Err(Full);
            }
            match standing {
                // As most are.
                Some(record) if !rule.durable => record.put(step.tally.into(), step.until),
                _ => state.limits.put(found, self.place.place(), rule, self.counted(), step),
            }
        }
        Ok(Checked { now, cost: self.cost, is_refused, heads, told: None })
    }
}

/// A record as meters take it.
#[inline]
pub(super) fn lent<'a>(stored: &'a Option<(Cow<'_, Tally>, Micros)>) -> Option<(&'a Tally, Micros)> {
    stored.as_ref().map(|(tally, until)| (&**tally, *until))
}

impl<P, S, R> Operation for Check<P, S, R>
where
    P: Placed + Send + Sync,
    S: Borrow<Subject> + Send + Sync,
    R: Borrow<Rules> + Send + Sync,
{
    type Answer = Checked;

    const SCRIPT: Script = Script::short("limit/check");

    fn place(&self) -> &Place {
        self.place.place()
    }

    fn home(&self) -> &str {
        self.subject.as_ref().or(self.asker.as_ref()).map_or("", |subject| subject.borrow().as_str())
    }

    #[inline]
    fn apply(&self, state: &mut State, now: Micros) -> Result<Checked, Full> {
        if let [rule] = &**self.rules() {
            return self.apply_one(rule, state, now);
        }
        let charge = self.charge();
        let tested = charge.test(&mut state.limits, now);
        let (is_refused, heads) = (tested.is_refused, tested.heads());
        if !is_refused {
            if tested.is_fresh && state.is_full && matches!(self.act, Act::Check | Act::Force) {
                return Err(Full);
            }
            charge.write(tested, &mut state.limits);
        }
        Ok(Checked { now, cost: self.cost, is_refused, heads, told: None })
    }

    fn call(&self, call: &mut ScriptCall, about: Micros) {
        call.keys.push(key::limit(self.place.place(), self.counted()));
        call.given.reserve_exact(size_of::<u8>() + size_of::<u64>());
        call.given.push(self.act.number());
        call.given.extend_from_slice(&self.cost.to_le_bytes());
        // About what a rule takes: to grow again and again costs more than to write it.
        call.shared.reserve_exact(self.rules().len() * 72);
        for rule in self.rules().iter() {
            rule.write(&mut call.shared, about);
        }
    }

    fn is_durable(&self) -> bool {
        self.act != Act::Peek && self.rules().iter().any(|rule| rule.durable)
    }

    fn is_kept(&self, answer: &Checked) -> bool {
        // One that changed nothing need not be kept: asking again is safe, and may by then be answered better.
        self.act != Act::Peek && !answer.is_refused
    }

    #[inline]
    fn footprint(state: &State) -> usize {
        state.limits.bytes()
    }

    fn note(&self, about: Micros) -> Vec<u8> {
        Limited::write_all(self.rules(), about)
    }

    fn reply(&self, answer: &Checked) -> Reply {
        let word = if answer.is_refused { b'd' } else { b'a' };
        let mut bytes = vec![word];
        bytes.extend_from_slice(&answer.now.get().to_le_bytes());
        for head in &answer.heads {
            head.write(&mut bytes);
        }
        Reply::new(bytes)
    }

    fn answer(&self, reply: &Reply, note: Option<&[u8]>) -> Result<Checked, BadReply> {
        let (mut rest, mut now) = (reply.as_bytes(), reply.now());
        // One that was kept says when; a script says it once for all.
        if note.is_some() {
            let kept = record::take(&mut rest).filter(|word| matches!(word, b"a" | b"d")).and_then(|_| record::take_micros(&mut rest));
            now = kept.ok_or_else(|| reply.bad("has no time"))?;
        }
        let told = note.map(|note| Limited::read_all(note).ok_or_else(|| reply.bad("has a note that is none of ours"))).transpose()?;
        let rules = told.as_ref().unwrap_or(self.rules());
        let mut heads: SmallVec<[Head; 1]> = SmallVec::with_capacity(rules.len());
        for _ in rules.iter() {
            heads.push(Head::take(&mut rest).ok_or_else(|| reply.bad("speaks of fewer rules"))?);
        }
        // After what a script says stand 8 bytes that say nothing.
        if rest.len() != if note.is_some() { 0 } else { 8 } {
            return Err(reply.bad("speaks of other rules"));
        }
        let is_refused = rules.iter().zip(&heads).any(|(rule, head)| head.is_refused && rule.mode != Mode::Shadow);
        Ok(Checked { now, cost: self.cost, is_refused, heads, told })
    }
}

/// What a check found, in the meters' own terms.
///
/// It does not hold the rules: all threads would count their references to them at once, which takes
/// longer than the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The time of the answer; all spans count from here.
    pub now: Micros,
    /// What was asked for.
    pub cost: u64,
    /// Whether a rule that enforces refused. If so, nothing was changed.
    pub is_refused: bool,
    /// The records as they stand after it, one for each rule.
    pub heads: SmallVec<[Head; 1]>,
    /// In a replay, the rules of then: today's may be others.
    pub told: Option<Rules>,
}

impl Checked {
    /// In terms that people understand; the rules are those of the call.
    pub fn explained(self, rules: &Rules) -> Explained {
        let rules = self.told.unwrap_or_else(|| rules.clone());
        Explained { now: self.now, cost: self.cost, rules, heads: self.heads }
    }
}

/// An answer and the rules it was found under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The time of the answer; all spans count from here.
    pub now: Micros,
    /// What was asked for.
    pub cost: u64,
    /// The rules, in a replay those of then.
    pub rules: Rules,
    heads: SmallVec<[Head; 1]>,
}

/// The outcome over all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every rule admitted, and was charged.
    Allowed,
    /// At least one refused; nothing was charged.
    Denied,
    /// At least one always will; nothing was charged.
    Never,
}

impl Explained {
    /// An answer under no rules: allowed.
    pub fn unlimited(now: Micros, cost: u64) -> Explained {
        Explained { now, cost, rules: no_rules(), heads: SmallVec::new() }
    }

    /// What each rule said.
    pub fn ruled(&self) -> impl Iterator<Item = (&Limited, Ruled)> {
        self.rules.iter().zip(&self.heads).map(|(rule, head)| (&**rule, rule.meter.explain(head, self.cost, self.now)))
    }

    /// The rules that did not refuse: those that were charged, if any was.
    pub fn admitting(&self) -> Rules {
        let admitted = self.rules.iter().zip(&self.heads).filter(|(_, head)| !head.is_refused);
        admitted.map(|(rule, _)| rule.clone()).collect()
    }

    /// The rules that were charged, if any was, and their records since.
    pub(super) fn charged(&self) -> impl Iterator<Item = (&Limited, &Head)> {
        self.rules.iter().zip(&self.heads).filter(|(_, head)| !head.is_refused).map(|(rule, head)| (&**rule, head))
    }

    /// Whether the cost was taken.
    pub fn verdict(&self) -> Verdict {
        let refused = self.rules.iter().zip(&self.heads).filter(|(rule, head)| head.is_refused && rule.mode != Mode::Shadow);
        refused.fold(Verdict::Allowed, |verdict, (rule, _)| match verdict {
            Verdict::Never => Verdict::Never,
            _ if self.cost > rule.meter.most() => Verdict::Never,
            _ => Verdict::Denied,
        })
    }

    /// The rule that decided: the one that never admits, else the one that refuses longest.
    pub fn bound_by(&self) -> Option<&Limited> {
        let refused = self.ruled().filter(|(rule, ruled)| ruled.retry != Retry::Now && rule.mode != Mode::Shadow);
        // The first of equals, so that the answer does not depend on the iterator.
        let longer = |a: (_, Ruled), b: (_, Ruled)| if span(b.1.retry) > span(a.1.retry) { b } else { a };
        refused.reduce(longer).map(|(rule, _)| rule)
    }

    /// When all rules would admit: the maximum over those that refused. `None` if allowed, or never.
    pub fn retry_at(&self) -> Option<Micros> {
        if self.verdict() != Verdict::Denied {
            return None;
        }
        let refused = self.ruled().filter(|(rule, _)| rule.mode != Mode::Shadow);
        refused.map(|(_, ruled)| span(ruled.retry)).max().map(|longest| self.now.plus(longest))
    }

    /// How long to wait before acting, where a rule lets in what must queue.
    pub fn delay(&self) -> Micros {
        self.ruled().filter(|(rule, _)| rule.mode != Mode::Shadow).map(|(_, ruled)| ruled.delay).max().unwrap_or_default()
    }
}

/// For comparison: never is longer than any span.
fn span(retry: Retry) -> Micros {
    match retry {
        Retry::Now => Micros::ZERO,
        Retry::After(span) => span,
        Retry::Never => Micros::MAX,
    }
}
