//! Leases: so many at once.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::Attributes;
use super::durability::Durability;
use crate::time::{Time, span};

/// A lease to be taken, under every rule of algorithm `concurrency` that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AcquireRequest {
    /// Who acts.
    pub subject: String,
    /// What it does.
    pub action: String,
    /// The lease's id. Taking one twice with the same id is one lease. One is made up if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// For how long; as long as the rule allows if absent.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "span")]
    pub ttl: Option<Duration>,
    /// What else the rules' conditions may look at.
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

impl AcquireRequest {
    /// A new lease for as long as the rule allows.
    pub fn new(subject: impl Into<String>, action: impl Into<String>) -> AcquireRequest {
        AcquireRequest { subject: subject.into(), action: action.into(), lease: None, ttl: None, attributes: Attributes::new() }
    }

    /// With this id.
    #[must_use]
    pub fn lease(mut self, lease: impl Into<String>) -> AcquireRequest {
        self.lease = Some(lease.into());
        self
    }

    /// For this long.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> AcquireRequest {
        self.ttl = Some(ttl);
        self
    }

    /// With these attributes for the rules' conditions.
    #[must_use]
    pub fn attributes(mut self, attributes: Attributes) -> AcquireRequest {
        self.attributes = attributes;
        self
    }
}

/// A lease that is held.
#[derive(Serialize)]
pub(super) struct Held<'a> {
    pub(super) subject: &'a str,
    pub(super) lease: &'a str,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "span")]
    pub(super) ttl: Option<Duration>,
}

/// What became of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Leased {
    /// Whether it is held; after a release, whether it was.
    pub allowed: bool,
    /// Its id.
    pub lease: String,
    /// When it ends by itself.
    #[serde(default)]
    pub expires_at: Option<Time>,
    /// Every rule it counts under; none means that nothing limits this action.
    pub rules: Vec<LeaseRule>,
    /// The name of the rule that refused.
    #[serde(default)]
    pub bound_by: Option<String>,
    /// When one could be had, if nobody else takes it meanwhile.
    #[serde(default)]
    pub retry_at: Option<Time>,
    /// The time of the answer, by the clock that counted.
    #[serde(default)]
    pub now: Option<Time>,
    /// How safe the change was when the answer was sent; absent if nothing was changed.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// Whether not all could be asked that should have been: the subject's own rules, or the store.
    #[serde(default)]
    pub degraded: bool,
    /// Whether this is an earlier answer to the same idempotency key.
    #[serde(default)]
    pub replayed: bool,
}

/// One rule that a lease counts under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeaseRule {
    /// The rule's identifier.
    pub id: String,
    /// The policy it belongs to.
    pub name: String,
    /// How many at once.
    pub limit: u64,
    /// How many more can be had now.
    pub remaining: u64,
}
