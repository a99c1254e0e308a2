//! Giving back and forgetting.

use serde::{Deserialize, Serialize};

use super::check::Attributes;

/// What is to be given back: what `subject` was charged for `action`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefundRequest {
    /// Who acted.
    pub subject: String,
    /// What it did.
    pub action: String,
    /// How much is given back.
    pub cost: u64,
    /// What the rules' conditions looked at when it was charged.
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

impl RefundRequest {
    /// A cost of 1.
    pub fn new(subject: impl Into<String>, action: impl Into<String>) -> RefundRequest {
        RefundRequest { subject: subject.into(), action: action.into(), cost: 1, attributes: Attributes::new() }
    }

    /// This much.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> RefundRequest {
        self.cost = cost;
        self
    }

    /// With the attributes it was charged with.
    #[must_use]
    pub fn attributes(mut self, attributes: Attributes) -> RefundRequest {
        self.attributes = attributes;
        self
    }
}

/// What is to be forgotten: all that `subject` has used of `action`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ResetRequest {
    /// Who acted.
    pub subject: String,
    /// What it did.
    pub action: String,
    /// What the rules' conditions looked at when it was charged.
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

impl ResetRequest {
    /// Under every rule that matches.
    pub fn new(subject: impl Into<String>, action: impl Into<String>) -> ResetRequest {
        ResetRequest { subject: subject.into(), action: action.into(), attributes: Attributes::new() }
    }

    /// With the attributes it was charged with.
    #[must_use]
    pub fn attributes(mut self, attributes: Attributes) -> ResetRequest {
        self.attributes = attributes;
        self
    }
}

/// How much was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Forgotten {
    /// Counters that still meant something.
    pub forgotten: u64,
}
