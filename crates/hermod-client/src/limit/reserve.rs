//! Reservations: an estimate that is charged now and settled later.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::{Attributes, Checked};
use super::durability::Durability;
use crate::rules::OnExpiry;
use crate::time::{Time, span};
use crate::word::words;

/// An estimate to be charged now and settled later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReserveRequest {
    /// Who acts.
    pub subject: String,
    /// What it does.
    pub action: String,
    /// How much that will take, by estimate.
    pub cost: u64,
    /// What else the rules' conditions may look at.
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// How long it may be settled, a day at most; five minutes if absent.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "span")]
    pub ttl: Option<Duration>,
}

impl ReserveRequest {
    /// An estimate that may be settled within five minutes.
    pub fn new(subject: impl Into<String>, action: impl Into<String>, cost: u64) -> ReserveRequest {
        ReserveRequest { subject: subject.into(), action: action.into(), cost, attributes: Attributes::new(), ttl: None }
    }

    /// That may be settled within this time.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> ReserveRequest {
        self.ttl = Some(ttl);
        self
    }

    /// With these attributes for the rules' conditions.
    #[must_use]
    pub fn attributes(mut self, attributes: Attributes) -> ReserveRequest {
        self.attributes = attributes;
        self
    }
}

/// What an estimate is answered with. A refusal took nothing from any rule, and there is nothing to settle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reserved {
    /// As a check is answered.
    #[serde(flatten)]
    pub checked: Checked,
    /// The reservation's id; absent if none was made.
    #[serde(default)]
    pub reservation: Option<String>,
    /// When it expires.
    #[serde(default)]
    pub expires_at: Option<Time>,
}

words! {
    /// How a reservation is settled.
    SettleOutcome {
        /// By this call.
        #[default]
        Settled = "settled",
        /// By an earlier call; this one changed nothing.
        Already = "already",
        /// It had expired.
        Expired = "expired",
    }
}

/// What became of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settled {
    /// How it is settled.
    pub outcome: SettleOutcome,
    /// Its id.
    pub reservation: String,
    /// What was charged first.
    pub estimate: u64,
    /// What it was settled to. Of one that expired, the estimate or nothing.
    pub charged: u64,
    /// What became of one that expired.
    #[serde(default)]
    pub on_expiry: Option<OnExpiry>,
    /// The time of the answer, by the clock that counted.
    #[serde(default)]
    pub now: Option<Time>,
    /// How safe the change was when the answer was sent; absent if nothing was changed.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// Whether this is an earlier answer to the same idempotency key.
    #[serde(default)]
    pub replayed: bool,
}

/// A reservation and what was really used.
#[derive(Serialize)]
pub(super) struct Settle<'a> {
    pub(super) reservation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) actual: Option<u64>,
}
