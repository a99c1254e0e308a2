//! Reservations as a list of who reserved what until when, each with the rules of then.

use std::collections::BTreeMap;

use hermod_core::limit::{Act, Algorithm, Fate, OnExpiry, Per, Reserved, Retry, Rule, Rules, Scope, Settled, Verdict};
use hermod_core::{Micros, Outcome};

use super::record::Numbers;
use super::{Asked, Decided, Model};

/// How long after its expiry one is remembered.
const KEEP: u64 = 3_600_000_000;
/// How many that are settled are remembered.
const SETTLED_MAX: usize = 200;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub enum Want<'a> {
    /// Reserve `cost` for so many microseconds, under these rules; `shared` are those that were charged elsewhere.
    Reserve {
        /// Which.
        number: u128,
        /// How much.
        cost: u64,
        /// For how long.
        ttl: u64,
        /// The subject's own rules.
        rules: &'a [Rule],
        /// Rules that were charged elsewhere, and the end of each record since.
        shared: &'a [(Rule, u64)],
    },
    /// Settle it to this, or as it was estimated.
    Settle(u128, Option<u64>),
    /// Settle what has expired.
    Expired,
}

/// A call about reservations as the model sees it.
#[derive(Clone, Debug)]
pub struct ReservationAsked<'a> {
    /// Whose.
    pub subject: &'a str,
    /// What is to be done.
    pub want: Want<'a>,
    /// An idempotency key and what it is bound to.
    pub once: Option<(&'a str, &'a str)>,
    /// When.
    pub now: u64,
}

/// What the model answers, and what of an engine's answer it can be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// An estimate was tested.
    Checked(Decided),
    /// Too many are open.
    TooMany,
    /// What became of it.
    Settled {
        /// How it is settled.
        fate: Option<Fate>,
        /// By this call.
        is_done: bool,
        /// What was estimated, and what it was settled to.
        estimate: u64,
        /// The same of what it was settled to.
        charged: u64,
        /// How many had expired.
        expired: u64,
        /// What is to be done elsewhere: act, cost, rule.
        owed: Vec<(Act, u64, String)>,
    },
}

/// The outcome of an engine's reservation, in the model's terms.
pub fn reserved_told(outcome: Outcome<Reserved>, rules: &Rules) -> Outcome<Told> {
    let told = |reserved: Reserved| match reserved {
        Reserved::Checked(checked) => Told::Checked(Decided::of(&checked.explained(rules))),
        Reserved::TooMany { .. } => Told::TooMany,
    };
    match outcome {
        Outcome::Done(reserved) => Outcome::Done(told(reserved)),
        Outcome::Replayed(reserved) => Outcome::Replayed(told(reserved)),
        Outcome::Conflict => Outcome::Conflict,
    }
}

/// The outcome of an engine's settlement, in the model's terms.
pub fn settled_told(outcome: &Outcome<Settled>) -> Outcome<Told> {
    let told = |settled: &Settled| Told::Settled {
        fate: settled.fate,
        is_done: settled.is_done,
        estimate: settled.estimate,
        charged: settled.charged,
        expired: settled.expired,
        owed: settled.owed.iter().map(|owed| (owed.act, owed.cost, owed.rule.id.to_string())).collect(),
    };
    match outcome {
        Outcome::Done(settled) => Outcome::Done(told(settled)),
        Outcome::Replayed(settled) => Outcome::Replayed(told(settled)),
        Outcome::Conflict => Outcome::Conflict,
    }
}

/// What was charged under one rule of then.
#[derive(Clone, Debug)]
struct Part {
    rule: Rule,
    /// When it has come back by itself.
    ends: u128,
    /// The window of the calendar it was charged in, and the one after it: nothing is known of others.
    known: Option<(u128, u128, u128)>,
}

impl Part {
    fn new(rule: &Rule, until: u128, now: u128) -> Part {
        let numbers = Numbers::of(rule);
        // What was charged in a period is only given back in that period.
        let is_estimate = rule.algorithm == Algorithm::SlidingWindow && rule.approximate;
        let ends = if is_estimate { until - u128::from(rule.per.usual().get()) } else { until };
        let known = matches!(rule.per, Per::Calendar(_)).then(|| numbers.turns(now));
        Part { rule: rule.clone(), ends, known }
    }

    fn is_refunded(&self) -> bool {
        self.rule.on_expiry == OnExpiry::Refund
    }
}

#[derive(Clone, Debug)]
struct One {
    number: u128,
    fate: Fate,
    expires: u64,
    estimate: u64,
    charged: u64,
    parts: Vec<Part>,
}

impl One {
    fn refunds(&self) -> u128 {
        self.parts.iter().filter(|part| part.is_refunded()).map(|part| part.ends).max().unwrap_or(0)
    }

    fn until(&self) -> u128 {
        u128::from(self.expires + KEEP).max(self.refunds())
    }

    fn has_expired(&self, now: u64) -> bool {
        self.fate == Fate::Open && self.expires <= now
    }
}

/// All reservations there are, and what was charged.
#[derive(Debug, Default)]
pub struct Reservations {
    /// The counters.
    pub checks: Model,
    all: BTreeMap<String, Vec<One>>,
    kept: BTreeMap<(String, String), (String, Told, u64)>,
}

impl Reservations {
    /// What the engines should answer.
    pub fn ask(&mut self, asked: &ReservationAsked<'_>) -> Outcome<Told> {
        let kept = |key: &str| (asked.subject.to_owned(), key.to_owned());
        if let Some((key, body)) = asked.once
            && let Some((kept_body, told, until)) = self.kept.get(&kept(key))
            && *until > asked.now
        {
            return if kept_body == body { Outcome::Replayed(told.clone()) } else { Outcome::Conflict };
        }
        let (told, is_kept) = match asked.want {
            Want::Reserve { .. } => self.reserve(asked),
            Want::Settle(number, actual) => self.settle(asked, number, actual),
            Want::Expired => self.expire(asked),
        };
        if let Some((key, body)) = asked.once.filter(|_| is_kept) {
            self.kept.insert(kept(key), (body.to_owned(), told.clone(), asked.now + 72 * 3_600_000_000));
        }
        Outcome::Done(told)
    }

    /// Those that still mean something; what expired and has nothing to give back is settled by that.
    fn live(&self, asked: &ReservationAsked<'_>) -> Vec<One> {
        let now = u128::from(asked.now);
        let mut all = self.all.get(asked.subject).cloned().unwrap_or_default();
        all.retain(|one| one.until() > now);
        for one in &mut all {
            if one.has_expired(asked.now) && one.refunds() <= now {
                (one.fate, one.charged, one.parts) = (Fate::Kept, one.estimate, Vec::new());
            }
        }
        all
    }

    fn store(&mut self, asked: &ReservationAsked<'_>, mut all: Vec<One>) {
        while all.iter().filter(|one| one.fate != Fate::Open).count() > SETTLED_MAX {
            let first = all.iter().position(|one| one.fate != Fate::Open).unwrap_or(0);
            all.remove(first);
        }
        self.all.insert(asked.subject.to_owned(), all);
    }

    fn reserve(&mut self, asked: &ReservationAsked<'_>) -> (Told, bool) {
        let Want::Reserve { number, cost, ttl, rules, shared } = asked.want else { return (Told::TooMany, false) };
        let mut all = self.live(asked);
        if all.iter().filter(|one| one.fate == Fate::Open).count() >= 1_000 {
            return (Told::TooMany, false);
        }
        let now = Micros::saturating(asked.now);
        let decided = self.checks.decide(&Asked { subject: asked.subject, act: Act::Check, cost, rules, once: None, now });
        if decided.verdict != Verdict::Allowed {
            return (Told::Checked(decided), false);
        }
        let mut parts = Vec::new();
        for (rule, (_, ruled)) in rules.iter().zip(&decided.rules) {
            let record = self.checks.used.get(&(rule.id.to_string(), asked.subject.to_owned()));
            if let Some(record) = record.filter(|_| ruled.retry == Retry::Now) {
                parts.push(Part::new(rule, record.until, asked.now.into()));
            }
        }
        parts.extend(shared.iter().map(|(rule, until)| Part::new(rule, u128::from(*until), asked.now.into())));
        all.push(One { number, fate: Fate::Open, expires: asked.now + ttl, estimate: cost, charged: 0, parts });
        self.store(asked, all);
        (Told::Checked(decided), true)
    }

    fn settle(&mut self, asked: &ReservationAsked<'_>, number: u128, actual: Option<u64>) -> (Told, bool) {
        let mut all = self.live(asked);
        let told = |fate, is_done, one: Option<&One>, charged, expired, owed| {
            let estimate = one.map_or(0, |one| one.estimate);
            Told::Settled { fate, is_done, estimate, charged, expired, owed }
        };
        let Some(at) = all.iter().position(|one| one.number == number) else { return (told(None, false, None, 0, 0, Vec::new()), false) };
        let one = all.remove(at);
        if one.fate != Fate::Open {
            return (told(Some(one.fate), false, Some(&one), one.charged, 0, Vec::new()), false);
        }
        let has_expired = one.has_expired(asked.now);
        let (fate, charged) = if has_expired { (Fate::Refunded, 0) } else { (Fate::Settled, actual.unwrap_or(one.estimate)) };
        let owed = self.close(asked, &one, charged);
        all.push(One { fate, charged, parts: Vec::new(), ..one.clone() });
        self.store(asked, all);
        (told(Some(fate), true, Some(&one), charged, u64::from(has_expired), owed), true)
    }

    fn expire(&mut self, asked: &ReservationAsked<'_>) -> (Told, bool) {
        let (expired, mut all): (Vec<One>, Vec<One>) = self.live(asked).into_iter().partition(|one| one.has_expired(asked.now));
        let mut owed = Vec::new();
        for one in &expired {
            owed.extend(self.close(asked, one, 0));
            all.push(One { fate: Fate::Refunded, charged: 0, parts: Vec::new(), ..one.clone() });
        }
        if !expired.is_empty() {
            self.store(asked, all);
        }
        let count = u64::try_from(expired.len()).unwrap_or(u64::MAX);
        (Told::Settled { fate: None, is_done: count > 0, estimate: 0, charged: 0, expired: count, owed }, count > 0)
    }

    /// Charges or gives back the difference; what must be done elsewhere.
    fn close(&mut self, asked: &ReservationAsked<'_>, one: &One, charged: u64) -> Vec<(Act, u64, String)> {
        let now = u128::from(asked.now);
        let mut owed = Vec::new();
        for part in &one.parts {
            let numbers = Numbers::of(&part.rule);
            let charged = if one.has_expired(asked.now) && !part.is_refunded() { one.estimate } else { charged };
            let (act, cost) = match charged < one.estimate {
                true if now >= part.ends => continue,
                true => (Act::Refund, numbers.draining(u128::from(one.estimate - charged), now, part.ends)),
                false => (Act::Force, u128::from(charged - one.estimate)),
            };
            let is_known = part.known.is_none_or(|(start, _, next)| now >= start && now < next);
            if cost == 0 || !is_known {
                continue;
            }
            if part.rule.scope == Scope::Global {
                owed.push((act, u64::try_from(cost).unwrap_or(u64::MAX), part.rule.id.to_string()));
                continue;
            }
            let key = (part.rule.id.to_string(), asked.subject.to_owned());
            // What is beyond the two windows that are known is not believed.
            let record = self.checks.used.get(&key).filter(|record| part.known.is_none_or(|(_, _, next)| record.at() < next));
            let view = numbers.brought(record, now);
            self.checks.used.insert(key, numbers.acted(&view, act, cost, now));
        }
        owed
    }

    /// What is stored for each subject, as people read it but for the rules of then, and until when it means something.
    pub fn stored(&self) -> impl Iterator<Item = (&str, String, u64)> {
        self.all.iter().map(|(subject, all)| {
            let text = |one: &One| format!("{:x} {:?} until {} {} {} ", one.number, one.fate, one.expires, one.estimate, one.charged);
            let until = all.iter().map(One::until).max().unwrap_or(0);
            (subject.as_str(), all.iter().map(text).collect::<Vec<_>>().join(", "), u64::try_from(until).unwrap_or(u64::MAX))
        })
    }
}
