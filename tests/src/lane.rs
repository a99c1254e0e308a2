//! The lanes a test runs on: the model, each engine, and each engine behind HTTP.

mod engine;
mod http;

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use hermod_core::limit::{Checked, Rule, Verdict};
use hermod_core::{Micros, Outcome, RuleId};

use crate::model::{Asked, Model};
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
    /// How much.
    pub cost: u64,
    /// An idempotency key.
    pub key: Option<String>,
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
    /// Answered before.
    pub is_replayed: bool,
}

impl Seen {
    fn new(rules: &[Rule], outcome: Outcome<Checked>) -> Seen {
        let (checked, is_replayed) = match outcome {
            Outcome::Done(checked) => (checked, false),
            Outcome::Replayed(checked) => (checked, true),
            Outcome::Conflict => {
                return Seen { verdict: "conflict", left: BTreeMap::new(), bound_by: None, retry_ms: None, is_replayed: false };
            }
        };
        let verdict = match checked.verdict {
            Verdict::Allowed => "allowed",
            Verdict::Denied => "denied",
            Verdict::Never => "never",
        };
        let name = |i: usize| rules.get(i).map(|rule| rule.name.to_string());
        Seen {
            verdict,
            left: rules.iter().zip(&checked.rules).map(|(rule, ruled)| (rule.name.to_string(), ruled.left)).collect(),
            bound_by: checked.bound_by().and_then(name),
            retry_ms: checked.retry_at().map(|at| at.since(START).get().div_ceil(1000)),
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
                let body = format!("{} {} {}", ask.subject, ask.action, ask.cost);
                let once = ask.key.as_deref().map(|key| (key, body.as_str()));
                let asked = Asked { subject: &ask.subject, cost: ask.cost, rules: &rules, once, now: lane.now };
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
    Seen { verdict: "allowed", left: BTreeMap::new(), bound_by: None, retry_ms: None, is_replayed: false }
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

    /// Of each name the subject's own rule, else everyone's; by name.
    pub fn matching(&self, action: &str, subject: &str) -> Vec<Rule> {
        let mut by_name: BTreeMap<String, Rule> = BTreeMap::new();
        for rule in self.0.values().filter(|rule| rule.action.as_str() == action) {
            let is_own = rule.subject.as_ref().map(|s| s.as_str() == subject);
            if is_own == Some(true) || (is_own.is_none() && !by_name.contains_key(rule.name.as_str())) {
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
