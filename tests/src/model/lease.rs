//! Leases as a list of who holds what until when. When one is free is found by trying.

use std::collections::BTreeMap;

use hermod_core::limit::{Leased, Rule};
use hermod_core::{Micros, Outcome};

use super::first_time;

/// What is to be done with a lease. Spans in microseconds.
#[derive(Clone, Copy, Debug)]
pub enum Want<'a> {
    /// Take it for so long, under these rules.
    Acquire(u64, &'a [Rule]),
    /// Keep it for so long, or for as long as before.
    Renew(Option<u64>),
    /// Give it back.
    Release,
}

/// A call about a lease as the model sees it.
#[derive(Clone, Debug)]
pub struct LeaseAsked<'a> {
    /// Whose.
    pub home: &'a str,
    /// Which.
    pub id: &'a str,
    /// What is to be done.
    pub want: Want<'a>,
    /// An idempotency key and what it is bound to.
    pub once: Option<(&'a str, &'a str)>,
    /// When.
    pub now: u64,
}

/// What the model answers, and what of an engine's answer it can be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTold {
    /// The time of the answer.
    pub now: u64,
    /// How long it is held, or was until it was given back.
    pub until: Option<u64>,
    /// It was taken, and had been held before under all of the rules.
    pub was_held: bool,
    /// Each rule it was to be taken under.
    pub rules: Vec<RuleTold>,
}

/// What one rule said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTold {
    /// Its id and name.
    pub rule: (String, String),
    /// How many at once.
    pub limit: u64,
    /// How many there are after the answer.
    pub taken: u64,
    /// When one is free, if none is.
    pub retry_at: Option<u64>,
}

impl LeaseTold {
    fn of(leased: &Leased) -> LeaseTold {
        let told = leased.rules.iter().zip(&leased.taken).map(|(rule, (taken, retry_at))| RuleTold {
            rule: (rule.id.to_string(), rule.name.to_string()),
            limit: rule.meter.most(),
            taken: *taken,
            retry_at: retry_at.map(Micros::get),
        });
        LeaseTold { now: leased.now.get(), until: leased.until.map(Micros::get), was_held: leased.was_held, rules: told.collect() }
    }
}

/// The outcome of an engine, in the model's terms.
pub fn lease_told(outcome: &Outcome<Leased>) -> Outcome<LeaseTold> {
    match outcome {
        Outcome::Done(leased) => Outcome::Done(LeaseTold::of(leased)),
        Outcome::Replayed(leased) => Outcome::Replayed(LeaseTold::of(leased)),
        Outcome::Conflict => Outcome::Conflict,
    }
}

/// One lease counts once under each of its rules.
#[derive(Clone, Debug)]
struct Place {
    rule: String,
    id: String,
    until: u64,
    span: u64,
    span_max: u64,
}

/// All leases there are.
#[derive(Debug, Default)]
pub struct Leases {
    places: BTreeMap<String, Vec<Place>>,
    kept: BTreeMap<(String, String), (String, LeaseTold, u64)>,
}

impl Leases {
    /// What the engines should answer.
    pub fn ask(&mut self, asked: &LeaseAsked<'_>) -> Outcome<LeaseTold> {
        let kept = |key: &str| (asked.home.to_owned(), key.to_owned());
        if let Some((key, body)) = asked.once
            && let Some((kept_body, told, until)) = self.kept.get(&kept(key))
            && *until > asked.now
        {
            return if kept_body == body { Outcome::Replayed(told.clone()) } else { Outcome::Conflict };
        }
        let told = self.told(asked);
        if let Some((key, body)) = asked.once
            && told.until.is_some()
        {
            self.kept.insert(kept(key), (body.to_owned(), told.clone(), asked.now + 72 * 3_600_000_000));
        }
        Outcome::Done(told)
    }

    fn told(&mut self, asked: &LeaseAsked<'_>) -> LeaseTold {
        let stored = self.places.get(asked.home).cloned().unwrap_or_default();
        let live: Vec<Place> = stored.into_iter().filter(|place| place.until > asked.now).collect();
        let (places, told) = match asked.want {
            Want::Acquire(span, rules) => acquired(asked, span, rules, live),
            Want::Renew(span) => renewed(asked, span, live),
            Want::Release => released(asked, live),
        };
        // Who is refused changes nothing.
        if told.until.is_some() {
            self.places.insert(asked.home.to_owned(), places);
        }
        told
    }

    /// What is stored for each home, as people read it, with the time from which it means nothing.
    pub fn stored(&self) -> impl Iterator<Item = (&str, String, u64)> {
        self.places.iter().map(|(home, places)| {
            let text = |p: &Place| format!("{}/{} until {} for {} of {}", p.rule, p.id, p.until, p.span, p.span_max);
            let ends = places.iter().map(|place| place.until).max().unwrap_or(0);
            (home.as_str(), places.iter().map(text).collect::<Vec<_>>().join(", "), ends)
        })
    }
}

type Step = (Vec<Place>, LeaseTold);

fn acquired(asked: &LeaseAsked<'_>, span: u64, rules: &[Rule], mut places: Vec<Place>) -> Step {
    let mut told = LeaseTold { now: asked.now, until: None, was_held: false, rules: Vec::new() };
    let mut held = 0;
    for rule in rules {
        let of_rule: Vec<&Place> = places.iter().filter(|place| place.rule == rule.id.as_str()).collect();
        let others = |at: u128| of_rule.iter().filter(|place| place.id != asked.id && u128::from(place.until) > at).count();
        let fits = |at: u128| u64::try_from(others(at)).is_ok_and(|others| others < rule.limit);
        let has_one = of_rule.iter().any(|place| place.id == asked.id);
        held += usize::from(has_one);
        let now = u128::from(asked.now);
        let last = of_rule.iter().map(|place| u128::from(place.until)).max().unwrap_or(now);
        let retry_at = if has_one || fits(now) { None } else { u64::try_from(first_time(now, last, fits)).ok() };
        told.rules.push(RuleTold {
            rule: (rule.id.to_string(), rule.name.to_string()),
            limit: rule.limit,
            taken: u64::try_from(others(now)).unwrap_or(u64::MAX),
            retry_at,
        });
    }
    if told.rules.iter().any(|rule| rule.retry_at.is_some()) {
        return (places, told);
    }
    told.was_held = held == rules.len() && held > 0;
    // It ends under all rules at once.
    let span_max = rules.iter().map(|rule| rule.per.usual().get()).min().unwrap_or(0);
    let span = span.min(span_max);
    for (rule, told_of_rule) in rules.iter().zip(&mut told.rules) {
        places.retain(|place| place.id != asked.id || place.rule != rule.id.as_str());
        let until = asked.now + span;
        places.push(Place { rule: rule.id.to_string(), id: asked.id.to_owned(), until, span, span_max });
        told.until = Some(told.until.map_or(until, |other| other.min(until)));
        told_of_rule.taken += 1;
    }
    (places, told)
}

fn renewed(asked: &LeaseAsked<'_>, span: Option<u64>, mut places: Vec<Place>) -> Step {
    let mut ends = Vec::new();
    for place in places.iter_mut().filter(|place| place.id == asked.id) {
        place.span = span.unwrap_or(place.span).min(place.span_max);
        place.until = asked.now + place.span;
        ends.push(place.until);
    }
    (places, LeaseTold { now: asked.now, until: ends.into_iter().min(), was_held: false, rules: Vec::new() })
}

fn released(asked: &LeaseAsked<'_>, places: Vec<Place>) -> Step {
    let (own, others): (Vec<Place>, Vec<Place>) = places.into_iter().partition(|place| place.id == asked.id);
    (others, LeaseTold { now: asked.now, until: own.iter().map(|place| place.until).min(), was_held: false, rules: Vec::new() })
}
