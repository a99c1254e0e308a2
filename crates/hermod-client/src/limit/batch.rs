//! Many independent checks in one request.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::check::{Attributes, CheckRequest, Checked};

/// One of many checks. It can be peeked, but neither forced nor explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchCheck {
    /// Who acts.
    pub subject: String,
    /// What it does.
    pub action: String,
    /// How much that takes.
    pub cost: u64,
    /// What else the rules' conditions may look at.
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// Only look: nothing is charged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub peek: bool,
    /// An idempotency key of this check alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl BatchCheck {
    /// At a cost of 1.
    pub fn new(subject: impl Into<String>, action: impl Into<String>) -> BatchCheck {
        let CheckRequest { subject, action, cost, attributes, peek, .. } = CheckRequest::new(subject, action);
        BatchCheck { subject, action, cost, attributes, peek, key: None }
    }

    /// At this cost.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> BatchCheck {
        self.cost = cost;
        self
    }

    /// With these attributes for the rules' conditions.
    #[must_use]
    pub fn attributes(mut self, attributes: Attributes) -> BatchCheck {
        self.attributes = attributes;
        self
    }

    /// Without charging anything.
    #[must_use]
    pub fn peek(mut self) -> BatchCheck {
        self.peek = true;
        self
    }

    /// Charged once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> BatchCheck {
        self.key = Some(key.into());
        self
    }

    /// Whether making it twice changes nothing more than making it once.
    pub(super) fn is_repeatable(&self) -> bool {
        self.peek || self.key.is_some()
    }
}

/// Why one check, or one delivery, of many has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BatchProblem {
    /// What happened, and what to do.
    #[serde(default)]
    pub detail: String,
    /// The stable code of the problem, for programs.
    pub code: String,
    /// The field that was at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Whether the same may succeed later.
    #[serde(default)]
    pub retryable: bool,
}

impl fmt::Display for BatchProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)
    }
}

impl std::error::Error for BatchProblem {}

/// The request's document.
#[derive(Serialize)]
pub(super) struct Batch<'a> {
    pub(super) checks: &'a [BatchCheck],
}

/// The answer's document.
#[derive(Deserialize)]
pub(super) struct Answers {
    pub(super) answers: Vec<Answer>,
}

/// One answer of many.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Problem { problem: BatchProblem },
    Checked(Box<Checked>),
}

impl From<Answer> for Result<Checked, BatchProblem> {
    fn from(answer: Answer) -> Result<Checked, BatchProblem> {
        match answer {
            Answer::Checked(checked) => Ok(*checked),
            Answer::Problem { problem } => Err(problem),
        }
    }
}
