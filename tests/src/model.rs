//! The third opinion: a slow, obvious model that shares no formula with the engines.
//!
//! It keeps what was charged in plain terms and answers one question only: would this cost fit at
//! this time? When to ask again is found by trying: the first time at which it would fit. The engines
//! compute that time in one step. Where all of them agree, the formula is likely to be right.

pub mod lease;
pub mod pick;
pub mod queue;
pub mod realm;
mod record;
pub mod reservation;
pub mod reset;

use std::collections::{BTreeMap, HashMap};

use hermod_core::limit::{Act, Checked, Explained, Mode, Retry, Rule, Ruled, Rules, Verdict};
use hermod_core::{Micros, Outcome};

use record::{Numbers, Record};

/// A check as the model sees it.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Who.
    pub subject: &'a str,
    /// Check, peek, force or refund.
    pub act: Act,
    /// How much.
    pub cost: u64,
    /// Under which rules.
    pub rules: &'a [Rule],
    /// An idempotency key and what it is bound to.
    pub once: Option<(&'a str, &'a str)>,
    /// When.
    pub now: Micros,
}

/// What the model answers, and what of an engine's answer it can be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The outcome over all rules.
    pub verdict: Verdict,
    /// The time of the answer.
    pub now: Micros,
    /// What each rule said, with its name.
    pub rules: Vec<(String, Ruled)>,
}

impl Decided {
    /// The same of an engine's answer.
    pub fn of(checked: &Explained) -> Decided {
        let rules = checked.ruled().map(|(rule, ruled)| (rule.name.to_string(), ruled)).collect();
        Decided { verdict: checked.verdict(), now: checked.now, rules }
    }
}

/// The outcome of an engine under these rules, in the model's terms.
pub fn decided(outcome: Outcome<Checked>, rules: &Rules) -> Outcome<Decided> {
    match outcome {
        Outcome::Done(checked) => Outcome::Done(Decided::of(&checked.explained(rules))),
        Outcome::Replayed(checked) => Outcome::Replayed(Decided::of(&checked.explained(rules))),
        Outcome::Conflict => Outcome::Conflict,
    }
}

/// All state there is.
#[derive(Clone, Debug, Default)]
pub struct Model {
    used: HashMap<(String, String), Record>,
    kept: BTreeMap<(String, String), (String, Decided, u64)>,
}

impl Model {
    /// What the engines should answer.
    pub fn check(&mut self, asked: &Asked<'_>) -> Outcome<Decided> {
        if let Some((key, body)) = asked.once
            && let Some((kept_body, answer, until)) = self.kept.get(&(asked.subject.to_owned(), key.to_owned()))
            && *until > asked.now.get()
        {
            return if kept_body == body { Outcome::Replayed(answer.clone()) } else { Outcome::Conflict };
        }
        let decided = self.decide(asked);
        if let (Some((key, body)), Verdict::Allowed) = (asked.once, decided.verdict)
            && asked.act != Act::Peek
        {
            let until = asked.now.get() + 72 * 3_600_000_000;
            self.kept.insert((asked.subject.to_owned(), key.to_owned()), (body.to_owned(), decided.clone(), until));
        }
        Outcome::Done(decided)
    }

    fn decide(&mut self, asked: &Asked<'_>) -> Decided {
        let (now, cost) = (u128::from(asked.now.get()), u128::from(asked.cost));
        // Where a ban refuses what would be forced, the other rules are shown as they would answer a check.
        let is_banned = asked.act == Act::Force && asked.rules.iter().any(|rule| rule.mode == Mode::Block);
        let is_asking = matches!(asked.act, Act::Check | Act::Peek) || is_banned;
        let is_giving = matches!(asked.act, Act::Refund | Act::Undo);
        let mut seen = Vec::new();
        let mut verdict = Verdict::Allowed;
        for rule in asked.rules {
            let numbers = Numbers::of(rule);
            let key = (rule.id.to_string(), asked.subject.to_owned());
            let record = self.used.get(&key).cloned();
            // A ban forbids whatever takes.
            let is_banned = rule.mode == Mode::Block && !is_giving;
            let fits = !is_banned && (!is_asking || numbers.fits(record.as_ref(), cost, now));
            let never = is_banned || (is_asking && cost > numbers.most());
            if rule.mode != Mode::Shadow && !fits {
                verdict = if never || verdict == Verdict::Never { Verdict::Never } else { Verdict::Denied };
            }
            seen.push((rule, numbers, key, record, fits, never));
        }
        let mut rules = Vec::new();
        for (rule, numbers, key, record, fits, never) in seen {
            let mut view = numbers.brought(record.as_ref(), now);
            // What is not written anew ends when it says.
            if let Some(record) = record.as_ref().filter(|record| record.until > now) {
                view.until = view.until.min(record.until);
            }
            if verdict == Verdict::Allowed && fits && asked.act != Act::Peek && rule.mode != Mode::Block {
                view = numbers.acted(&view, asked.act, cost, now);
                self.used.insert(key, view.clone());
            }
            let retry = match (fits, never) {
                (true, _) => Retry::Now,
                (false, true) => Retry::Never,
                (false, false) => {
                    let at = first_time(now, now + numbers.longest(), |at| numbers.fits(record.as_ref(), cost, at));
                    Retry::After(micros(at - now))
                }
            };
            let ruled = Ruled {
                left: u64::try_from(numbers.left(&view, now)).unwrap_or(u64::MAX),
                reset: micros(view.until.saturating_sub(now)),
                retry,
                delay: if fits { micros(numbers.delay(&view, now)) } else { Micros::ZERO },
            };
            rules.push((rule.name.to_string(), ruled));
        }
        Decided { verdict, now: asked.now, rules }
    }
}

/// The first time in `from..=to` at which `fits` is true; it stays true once it is.
fn first_time(from: u128, to: u128, fits: impl Fn(u128) -> bool) -> u128 {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

fn micros(us: u128) -> Micros {
    Micros::saturating(u64::try_from(us).unwrap_or(u64::MAX))
}
