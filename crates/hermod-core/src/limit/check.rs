//! Takes `cost` from every matching rule, or from none. Twin of `check.lua`.

use smallvec::SmallVec;

use crate::id::Subject;
use crate::int::{INT_MAX, Micros};
use crate::key;
use crate::limit::limited::{Limited, Rules};
use crate::limit::meter::{Act, Retry, Ruled, Step};
use crate::limit::rule::Mode;
use crate::limit::tally::Head;
use crate::operation::{BadReply, Operation, Reply, Script, ScriptCall, script};
use crate::partition::Place;
use crate::record;
use crate::state::{Full, State};

/// May `subject` take `cost` now? If every rule admits it, it is taken.
#[derive(Clone, Debug)]
pub struct Check {
    place: Place,
    /// Whose counters; none: those that all subjects share.
    subject: Option<Subject>,
    act: Act,
    cost: u64,
    rules: Rules,
}

impl Check {
    /// `place` is that of the subject, or of the home `""` where all subjects share the counters. A
    /// cost of zero is held at 1, one above 2^53 - 1 at that.
    pub fn new(place: Place, subject: Option<Subject>, act: Act, cost: u64, rules: Rules) -> Check {
        Check { place, subject, act, cost: cost.clamp(1, INT_MAX), rules }
    }

    /// The rules it tests, in the order of the answer.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    fn step(&self, rule: &Limited, act: Act, state: &mut State, now: Micros) -> (Step, bool) {
        let stored = state.limits.get(&self.place.space, &rule.id, self.home(), now);
        (rule.meter.step(act, self.cost, stored, now), stored.is_none())
    }

    fn writes(&self, step: &Step) -> bool {
        !step.is_refused && self.act != Act::Peek
    }

    fn put(&self, rule: &Limited, step: Step, state: &mut State) {
        state.limits.put(&self.place, &rule.id, self.home(), step.tally, step.until, rule.durable);
    }
}

impl Operation for Check {
    type Answer = Checked;

    const SCRIPT: Script = script!("limit/check", "limit/meter");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.subject.as_ref().map_or("", Subject::as_str)
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Checked, Full> {
        let mut steps: SmallVec<[Step; 1]> = SmallVec::new();
        let (mut is_refused, mut is_fresh) = (false, false);
        for rule in self.rules.iter() {
            let (step, fresh) = self.step(rule, self.act, state, now);
            is_refused |= step.is_refused && rule.mode != Mode::Shadow;
            is_fresh |= fresh;
            steps.push(step);
        }
        if is_refused && self.rules.len() > 1 {
            // Those that admitted are shown as they are, uncharged.
            for (rule, step) in self.rules.iter().zip(&mut steps) {
                *step = self.step(rule, Act::Peek, state, now).0;
            }
        }
        let heads = steps.iter().map(Step::head).collect();
        if !is_refused {
            if is_fresh && state.is_full && matches!(self.act, Act::Check | Act::Force) {
                return Err(Full);
            }
            for (rule, step) in self.rules.iter().zip(steps) {
                if self.writes(&step) {
                    self.put(rule, step, state);
                }
            }
        }
        Ok(Checked { now, cost: self.cost, rules: self.rules.clone(), heads })
    }

    fn call(&self, call: &mut ScriptCall, about: Micros) {
        call.keys.push(key::limit(&self.place, self.home()));
        call.given.push(self.act.number());
        call.given.push(u8::try_from(self.rules.len()).unwrap_or(u8::MAX));
        call.given.extend_from_slice(&self.cost.to_le_bytes());
        for rule in self.rules.iter() {
            rule.write(&mut call.given, about);
        }
    }

    fn is_durable(&self) -> bool {
        self.act != Act::Peek && self.rules.iter().any(|rule| rule.durable)
    }

    fn is_kept(&self, answer: &Checked) -> bool {
        // One that changed nothing need not be kept: asking again is safe, and may by then be answered better.
        self.act != Act::Peek && answer.verdict() == Verdict::Allowed
    }

    fn note(&self, about: Micros) -> Vec<u8> {
        Limited::write_all(&self.rules, about)
    }

    fn reply(&self, answer: &Checked) -> Reply {
        let word = if answer.heads.iter().zip(self.rules.iter()).any(|(head, rule)| head.is_refused && rule.mode != Mode::Shadow) {
            b'd'
        } else {
            b'a'
        };
        let mut bytes = vec![word];
        bytes.extend_from_slice(&answer.now.get().to_le_bytes());
        for head in &answer.heads {
            head.write(&mut bytes);
        }
        Reply::new(bytes)
    }

    fn answer(&self, reply: &Reply, note: Option<&[u8]>) -> Result<Checked, BadReply> {
        let mut rest = reply.as_bytes();
        let [_word] = record::take(&mut rest).ok_or_else(|| reply.bad("is empty"))?;
        let now = record::take_micros(&mut rest).ok_or_else(|| reply.bad("has no time"))?;
        let rules = match note {
            Some(note) => Limited::read_all(note).ok_or_else(|| reply.bad("has a note that is none of ours"))?,
            None => self.rules.clone(),
        };
        let mut heads = SmallVec::with_capacity(rules.len());
        while !rest.is_empty() {
            heads.push(Head::take(&mut rest).ok_or_else(|| reply.bad("holds half a record"))?);
        }
        match heads.len() == rules.len() {
            true => Ok(Checked { now, cost: self.cost, rules, heads }),
            false => Err(reply.bad("speaks of other rules")),
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The time of the answer; all spans count from here.
    pub now: Micros,
    /// What was asked for.
    pub cost: u64,
    /// The rules, in a replay those of then.
    pub rules: Rules,
    /// The records as they stand after it, one for each rule.
    pub heads: SmallVec<[Head; 1]>,
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

impl Checked {
    /// An answer under no rules: allowed.
    pub fn unlimited(now: Micros, cost: u64) -> Checked {
        Checked { now, cost, rules: Rules::from([]), heads: SmallVec::new() }
    }

    /// What each rule said.
    pub fn ruled(&self) -> impl Iterator<Item = (&Limited, Ruled)> {
        self.rules.iter().zip(&self.heads).map(|(rule, head)| (&**rule, rule.meter.explain(head, self.cost, self.now)))
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
