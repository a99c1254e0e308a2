//! The lanes a test runs on: the model, each engine, and each engine behind HTTP.

mod engine;
mod http;

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use hermod_core::limit::{Act, Pattern, Retry, Rule, Verdict};
use hermod_core::{Micros, Outcome, RuleId};

use crate::model::{Asked, Decided, Model};
pub use engine::EngineLane;
pub use http::HttpLane;

/// When every test begins: long ago, so that no real clock can be mistaken for it.
pub const START: Micros = Micros::saturating(1_500_000_000_000_000);

/// Which store an engine runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// In this process.
    Embedded,
    /// A single Redis.
    Redis,
    /// A Redis Cluster.
    Cluster,
}

impl Store {
    /// All of them.
    pub const ALL: [Store; 3] = [Store::Embedded, Store::Redis, Store::Cluster];
}

/// A check to be made.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Who.
    pub subject: String,
    /// What.
    pub action: String,
    /// Check, peek, force or refund.
    pub act: Act,
    /// How much.
    pub cost: u64,
    /// An idempotency key.
    pub key: Option<String>,
}

impl Ask {
    /// What an idempotency key is bound to.
    fn body(&self) -> String {
        format!("{} {} {:?} {}", self.subject, self.action, self.act, self.cost)
    }
}

/// What came out, as far as every lane can see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `allowed`, `denied`, `never` or `conflict`.
    pub verdict: &'static str,
    /// What is left, by the name of the rule.
    pub left: BTreeMap<String, u64>,
    /// The rule that refused.
    pub bound_by: Option<String>,
    /// When to ask again, since the start, in milliseconds rounded up, as HTTP shows it.
    pub retry_ms: Option<u64>,
    /// How long to wait, in milliseconds rounded up, as HTTP shows it.
    pub delay_ms: u64,
    /// Answered before.
    pub is_replayed: bool,
}

impl Seen {
    /// An answer of this kind that says nothing else.
    pub fn only(verdict: &'static str) -> Seen {
        Seen { verdict, left: BTreeMap::new(), bound_by: None, retry_ms: None, delay_ms: 0, is_replayed: false }
    }

    fn new(rules: &[Rule], outcome: Outcome<Decided>) -> Seen {
        let (decided, is_replayed) = match outcome {
            Outcome::Done(decided) => (decided, false),
            Outcome::Replayed(decided) => (decided, true),
            Outcome::Conflict => return Seen::only("conflict"),
        };
        let verdict = match decided.verdict {
            Verdict::Allowed => "allowed",
            Verdict::Denied => "denied",
            Verdict::Never => "never",
        };
        let is_shadow = |name: &str| rules.iter().any(|rule| rule.name.as_str() == name && rule.mode == hermod_core::limit::Mode::Shadow);
        // Never outweighs any time; the first of equals binds.
        let longest = |retry: &Retry| match retry {
            Retry::Now => 0,
            Retry::After(span) => span.get(),
            Retry::Never => u64::MAX,
        };
        let mut bound: Option<(&str, u64)> = None;
        for (name, ruled) in decided.rules.iter().filter(|(name, _)| !is_shadow(name)) {
            let wait = longest(&ruled.retry);
            if wait > bound.map_or(0, |(_, longest)| longest) {
                bound = Some((name, wait));
            }
        }
        let retry_us = bound.map(|(_, wait)| wait).filter(|wait| *wait < u64::MAX);
        let delay = decided.rules.iter().filter(|(name, _)| !is_shadow(name)).map(|(_, ruled)| ruled.delay.get()).max();
        Seen {
            verdict,
            left: decided.rules.iter().map(|(name, ruled)| (name.clone(), ruled.left)).collect(),
            bound_by: bound.map(|(name, _)| name.to_owned()),
            retry_ms: retry_us.map(|us| (decided.now.since(START).get() + us).div_ceil(1000)),
            delay_ms: delay.unwrap_or(0).div_ceil(1000),
            is_replayed,
        }
    }
}

/// One way to run a test.
#[derive(Debug)]
pub enum Lane {
    /// The slow, obvious one.
    Model(ModelLane),
    /// An engine, called directly.
    Engine(Box<EngineLane>),
    /// A server with its own engine and catalog, over HTTP.
    Http(Box<HttpLane>),
}

impl Lane {
    /// Every lane there is, each with nothing in it.
    pub async fn all() -> Result<Vec<(String, Lane)>> {
        let mut lanes = vec![("model".to_owned(), Lane::Model(ModelLane::default()))];
        for store in Store::ALL {
            lanes.push((format!("{store:?} engine"), Lane::Engine(Box::new(EngineLane::open(store).await?))));
            lanes.push((format!("{store:?} HTTP"), Lane::Http(Box::new(HttpLane::open(store).await?))));
        }
        Ok(lanes)
    }

    /// Sets the clock to this long after the start.
    pub fn set_time(&mut self, since_start: Micros) {
        let now = START.plus(since_start);
        match self {
            Lane::Model(lane) => lane.now = now,
            Lane::Engine(lane) => lane.clock().set(now),
            Lane::Http(lane) => lane.clock().set(now),
        }
    }

    /// Adds or replaces a rule.
    pub async fn put_rule(&mut self, rule: Rule) -> Result<()> {
        match self {
            Lane::Model(lane) => lane.rules.put(rule),
            Lane::Engine(lane) => lane.rules.put(rule),
            Lane::Http(lane) => lane.put_rule(&rule).await?,
        }
        Ok(())
    }

    /// Asks.
    pub async fn check(&mut self, ask: &Ask) -> Result<Seen> {
        match self {
            Lane::Model(lane) => {
                let rules = lane.rules.matching(&ask.action, &ask.subject);
                if rules.is_empty() {
                    return Ok(unlimited());
                }
                let body = ask.body();
                let once = ask.key.as_deref().map(|key| (key, body.as_str()));
                let asked = Asked { subject: &ask.subject, act: ask.act, cost: ask.cost, rules: &rules, once, now: lane.now };
                Ok(Seen::new(&rules, lane.model.check(&asked)))
            }
            Lane::Engine(lane) => lane.check(ask).await,
            Lane::Http(lane) => lane.check(ask).await,
        }
    }

    /// Ends it cleanly.
    pub async fn close(self) -> Result<()> {
        match self {
            Lane::Model(_) => {}
            Lane::Engine(lane) => lane.close().await?,
            Lane::Http(lane) => lane.close().await,
        }
        Ok(())
    }
}

fn unlimited() -> Seen {
    Seen::only("allowed")
}

/// The model with its clock and its rules.
#[derive(Debug)]
pub struct ModelLane {
    model: Model,
    rules: Rules,
    now: Micros,
}

impl Default for ModelLane {
    fn default() -> ModelLane {
        ModelLane { model: Model::default(), rules: Rules::default(), now: START }
    }
}

/// The rules of a lane without a catalog.
#[derive(Debug, Default)]
pub struct Rules(BTreeMap<RuleId, Rule>);

impl Rules {
    /// Adds or replaces a rule.
    pub fn put(&mut self, rule: Rule) {
        self.0.insert(rule.id.clone(), rule);
    }

    /// Of each name the most specific rule, by name: an exact subject before a glob before none, then
    /// the same for the action.
    pub fn matching(&self, action: &str, subject: &str) -> Vec<Rule> {
        let rank = |pattern: Option<&Pattern>| pattern.map_or((0, 0), |p| (if p.is_glob() { 1 } else { 2 }, p.literal_len()));
        let specific = |rule: &Rule| {
            let (subject, action) = (rank(rule.subject.as_ref()), rank(Some(&rule.action)));
            (subject.0, action.0, subject.1, action.1)
        };
        let mut by_name: BTreeMap<String, Rule> = BTreeMap::new();
        for rule in self.0.values() {
            if !rule.action.matches(action) || rule.subject.as_ref().is_some_and(|pattern| !pattern.matches(subject)) {
                continue;
            }
            let found = by_name.get(rule.name.as_str());
            if found.is_none_or(|other| specific(rule) > specific(other)) {
                by_name.insert(rule.name.to_string(), rule.clone());
            }
        }
        by_name.into_values().collect()
    }
}

/// Reads `10s`, `250ms`, `0s`.
pub fn parse_span(text: &str) -> Result<Micros> {
    let Some(span) = humantime::parse_duration(text).ok().and_then(Micros::from_duration) else {
        bail!("{text:?} is no duration");
    };
    Ok(span)
}
