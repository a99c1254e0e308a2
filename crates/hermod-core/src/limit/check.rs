//! Takes `cost` tokens from every matching rule, or from none. Twin of `check.lua`.

use std::sync::Arc;

use crate::id::{Name, RuleId, Subject};
use crate::int::{INT_MAX, Micros};
use crate::key;
use crate::limit::meter::{Meter, Refusal};
use crate::operation::{Answer, BadReply, Operation, Reply, Script, ScriptCall, Words, script};
use crate::partition::Place;
use crate::state::{Full, State};

/// A matching rule, as far as an operation needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// Which rule; part of the counter's key.
    pub id: RuleId,
    /// The policy it belongs to.
    pub name: Name,
    /// How it counts.
    pub meter: Meter,
    /// Whether the charge must be durable before the answer.
    pub durable: bool,
}

/// May `subject` take `cost` tokens now? If every rule admits it, they are taken.
#[derive(Clone, Debug)]
pub struct Check {
    place: Place,
    subject: Subject,
    cost: u64,
    rules: Arc<[Limited]>,
}

impl Check {
    /// `place` is the subject's. A cost of zero is held at 1, one above 2^53 - 1 at that.
    pub fn new(place: Place, subject: Subject, cost: u64, rules: Arc<[Limited]>) -> Check {
        Check { place, subject, cost: cost.clamp(1, INT_MAX), rules }
    }

    /// The rules it tests, in the order of the answer.
    pub fn rules(&self) -> &[Limited] {
        &self.rules
    }
}

impl Operation for Check {
    type Answer = Checked;

    const SCRIPT: Script = script!("limit/check");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.subject.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Checked, Full> {
        let limits = &mut state.limits;
        let mut verdict = Verdict::Allowed;
        let mut levels = Vec::with_capacity(self.rules.len());
        let mut rules = Vec::with_capacity(self.rules.len());
        let mut fresh = false;
        for rule in self.rules.iter() {
            let stored = limits.get(&self.place.space, &rule.id, &self.subject, now);
            fresh |= stored.is_none();
            let level = rule.meter.level(stored, now);
            let retry = match rule.meter.admits(level, self.cost, now) {
                Ok(()) => Retry::Now,
                Err(Refusal::Until(span)) => Retry::After(span),
                Err(Refusal::Never) => Retry::Never,
            };
            verdict = verdict.and(retry);
            levels.push(level);
            rules.push(Ruled { left: 0, reset: Micros::ZERO, retry });
        }
        if verdict == Verdict::Allowed && fresh && state.is_full {
            return Err(Full);
        }
        for ((rule, level), ruled) in self.rules.iter().zip(levels).zip(&mut rules) {
            let mut level = level;
            if verdict == Verdict::Allowed {
                level = rule.meter.charged(level, self.cost);
                let until = now.plus(rule.meter.reset(level, now));
                limits.put(&self.place, &rule.id, &self.subject, rule.meter.stored(level), until, rule.durable);
            }
            ruled.left = rule.meter.left(level);
            ruled.reset = rule.meter.reset(level, now);
        }
        Ok(Checked { verdict, now, rules, told: None })
    }

    fn call(&self, call: &mut ScriptCall) {
        call.given.reserve(8 + 32 * self.rules.len());
        call.given.extend_from_slice(&self.cost.to_le_bytes());
        for rule in self.rules.iter() {
            call.keys.push(key::limit(&self.place, &rule.id, &self.subject));
            call.given.extend_from_slice(&rule.meter.packed());
        }
    }

    fn is_durable(&self) -> bool {
        self.rules.iter().any(|rule| rule.durable)
    }

    fn note(&self) -> String {
        let mut note = String::from(" |");
        for rule in self.rules.iter() {
            note.push_str(&format!(" {} {} {} {}", rule.id, rule.name, rule.meter.limit(), rule.meter.burst()));
        }
        note
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Whether the tokens were taken.
    pub verdict: Verdict,
    /// The time of the answer; all spans count from here.
    pub now: Micros,
    /// One for each rule, in the order they were given.
    pub rules: Vec<Ruled>,
    /// In a replay, the rules of then: today's may be others.
    pub told: Option<Vec<Told>>,
}

/// A rule as it was when an answer was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which rule.
    pub id: RuleId,
    /// The policy it belonged to.
    pub name: Name,
    /// Tokens regained per period.
    pub limit: u64,
    /// The most at once.
    pub burst: u64,
}

/// The outcome over all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every rule admitted, and was charged.
    Allowed,
    /// At least one refused; nothing was charged.
    Denied,
    /// The cost is above the burst of at least one rule; nothing was charged.
    Never,
}

impl Verdict {
    fn and(self, retry: Retry) -> Verdict {
        match (self, retry) {
            (Verdict::Never, _) | (_, Retry::Never) => Verdict::Never,
            (Verdict::Denied, _) | (_, Retry::After(_)) => Verdict::Denied,
            (Verdict::Allowed, Retry::Now) => Verdict::Allowed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Verdict::Allowed => "allowed",
            Verdict::Denied => "denied",
            Verdict::Never => "never",
        }
    }
}

/// What one rule said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruled {
    /// Whole tokens left after this answer.
    pub left: u64,
    /// How long until all of the burst is back.
    pub reset: Micros,
    /// When this rule would admit the cost.
    pub retry: Retry,
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

impl Checked {
    /// The rule that decided: the one that never admits, else the one that refuses longest.
    pub fn bound_by(&self) -> Option<usize> {
        let never = self.rules.iter().position(|r| r.retry == Retry::Never);
        let longest = || {
            let spans = self.rules.iter().enumerate().filter_map(|(i, r)| match r.retry {
                Retry::After(span) => Some((i, span)),
                Retry::Now | Retry::Never => None,
            });
            // The first of equals, so that the answer does not depend on the iterator.
            spans.reduce(|a, b| if b.1 > a.1 { b } else { a }).map(|(i, _)| i)
        };
        never.or_else(longest)
    }

    /// When all rules would admit: the maximum over those that refused. `None` if allowed, or never.
    pub fn retry_at(&self) -> Option<Micros> {
        match self.bound_by().and_then(|i| self.rules.get(i))?.retry {
            Retry::After(span) => Some(self.now.plus(span)),
            Retry::Now | Retry::Never => None,
        }
    }
}

impl Answer for Checked {
    fn to_reply(&self) -> Reply {
        let mut text = format!("{} {}", self.verdict.word(), self.now);
        for rule in &self.rules {
            text.push_str(&match rule.retry {
                Retry::Now => format!(" {} {} 0", rule.left, rule.reset),
                Retry::After(span) => format!(" {} {} {span}", rule.left, rule.reset),
                Retry::Never => format!(" {} {} never", rule.left, rule.reset),
            });
        }
        Reply::new(text)
    }

    fn from_reply(reply: &Reply) -> Result<Checked, BadReply> {
        let mut words = reply.words();
        let verdict = match words.word()? {
            "allowed" => Verdict::Allowed,
            "denied" => Verdict::Denied,
            "never" => Verdict::Never,
            _ => return Err(words.bad("opens with an unknown word")),
        };
        let now = Micros::saturating(words.int()?);
        let mut rules = Vec::new();
        let mut told = None;
        while let Some(left) = words.next_word() {
            if left == "|" {
                told = Some(tellings(&mut words)?);
                break;
            }
            let left = left.parse().map_err(|_| words.bad("holds a word that is no integer"))?;
            let reset = Micros::saturating(words.int()?);
            let retry = match words.word()? {
                "0" => Retry::Now,
                "never" => Retry::Never,
                span => Retry::After(Micros::saturating(span.parse().map_err(|_| words.bad("holds a word that is no integer"))?)),
            };
            rules.push(Ruled { left, reset, retry });
        }
        Ok(Checked { verdict, now, rules, told })
    }

    fn is_kept(&self) -> bool {
        self.verdict == Verdict::Allowed
    }
}

/// The rules of a kept reply's note.
fn tellings(words: &mut Words<'_>) -> Result<Vec<Told>, BadReply> {
    let mut told = Vec::new();
    while let Some(id) = words.next_word() {
        let id = RuleId::new(id).map_err(|_| words.bad("names no rule"))?;
        let name = Name::new(words.word()?).map_err(|_| words.bad("names no policy"))?;
        told.push(Told { id, name, limit: words.int()?, burst: words.int()? });
    }
    Ok(told)
}
