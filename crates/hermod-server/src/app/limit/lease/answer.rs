//! What became of a lease, over all its operations.

use hermod_core::Micros;
use hermod_core::limit::Leased;
use hermod_engine::Durability;

use crate::app::limit::label;
use crate::telemetry::Decision;

/// What became of a lease.
#[derive(Clone, Debug)]
pub struct LeaseAnswer {
    /// Its id.
    pub lease: String,
    /// The time of the answer.
    pub now: Micros,
    /// Whether it is held; after a release, whether it was.
    pub is_held: bool,
    /// When it ends by itself.
    pub until: Option<Micros>,
    /// What each rule said.
    pub rules: Vec<LeaseSaid>,
    /// The rule that refused.
    pub bound_by: Option<String>,
    /// When it could be taken, if nobody else does meanwhile.
    pub retry_at: Option<Micros>,
    /// What it survives.
    pub durability: Option<Durability>,
    /// It was answered without all that should have been asked: the subject's own rules could not be
    /// read, or the store could not be reached.
    pub is_degraded: bool,
    /// The answer was given before, for the same idempotency key.
    pub is_replayed: bool,
}

/// What one rule said of a lease.
#[derive(Clone, Debug)]
pub struct LeaseSaid {
    /// The rule.
    pub id: String,
    /// Its policy.
    pub name: String,
    /// How many at once.
    pub limit: u64,
    /// How many are left.
    pub left: u64,
    /// For the counters: what it is counted as, and what it said.
    pub(super) counted: (String, Decision),
}

impl LeaseAnswer {
    pub(in crate::app::limit) fn new(lease: &str, now: Micros) -> LeaseAnswer {
        LeaseAnswer {
            lease: lease.to_owned(),
            now,
            is_held: true,
            until: None,
            rules: Vec::new(),
            bound_by: None,
            retry_at: None,
            durability: None,
            is_degraded: false,
            is_replayed: false,
        }
    }

    /// Takes in what one operation made of it.
    pub(in crate::app::limit) fn add(&mut self, leased: &Leased, durability: Option<Durability>, is_replayed: bool) {
        self.now = leased.now;
        self.is_held &= leased.is_held();
        self.until = match (self.until, leased.until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.until = self.until.filter(|_| self.is_held);
        for (rule, (taken, retry_at)) in leased.rules.iter().zip(&leased.taken) {
            let limit = rule.meter.most();
            let decision = if retry_at.is_some() { Decision::Refused } else { Decision::Allowed };
            self.rules.push(LeaseSaid {
                id: rule.id.to_string(),
                name: rule.name.to_string(),
                limit,
                left: limit.saturating_sub(*taken),
                counted: (label(rule).to_owned(), decision),
            });
        }
        if leased.retry_at() > self.retry_at {
            self.retry_at = leased.retry_at();
            self.bound_by = leased.bound_by().map(|rule| rule.name.to_string());
        }
        self.durability = durability.filter(|_| leased.is_held());
        self.is_replayed |= is_replayed;
    }
}
