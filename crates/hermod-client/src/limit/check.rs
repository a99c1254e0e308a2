//! A check and its answer.

use serde::{Deserialize, Serialize};

use super::durability::Durability;
use crate::time::Time;

/// What a caller tells of a call besides subject, action and cost, for the conditions of rules.
pub type Attributes = serde_json::Map<String, serde_json::Value>;

/// A question: may `subject` do `action` now?
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckRequest {
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
    /// Charge also what does not fit, up to as much again as the limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Have every rule shown that was considered, and why it does not apply.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
}

impl CheckRequest {
    /// At a cost of 1.
    pub fn new(subject: impl Into<String>, action: impl Into<String>) -> CheckRequest {
        CheckRequest {
            subject: subject.into(),
            action: action.into(),
            cost: 1,
            attributes: Attributes::new(),
            peek: false,
            force: false,
            explain: false,
        }
    }

    /// At this cost.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> CheckRequest {
        self.cost = cost;
        self
    }

    /// With one more attribute for the rules' conditions.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<serde_json::Value>) -> CheckRequest {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// With these attributes, and no others.
    #[must_use]
    pub fn attributes(mut self, attributes: Attributes) -> CheckRequest {
        self.attributes = attributes;
        self
    }

    /// Without charging anything.
    #[must_use]
    pub fn peek(mut self) -> CheckRequest {
        self.peek = true;
        self
    }

    /// Charging also what does not fit, up to as much again as the limit. Not together with `peek`.
    #[must_use]
    pub fn force(mut self) -> CheckRequest {
        self.force = true;
        self
    }

    /// With every rule in the answer that was considered.
    #[must_use]
    pub fn explain(mut self) -> CheckRequest {
        self.explain = true;
        self
    }
}

/// The answer. A refusal took nothing from any rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checked {
    /// Whether the subject may; if so, every rule was charged.
    pub allowed: bool,
    /// Whether waiting will not help: a rule forbids it, or could never hold the cost.
    #[serde(default)]
    pub never: bool,
    /// Every rule that applied; none means that nothing limits this action.
    pub rules: Vec<Ruled>,
    /// The name of the rule that refused.
    #[serde(default)]
    pub bound_by: Option<String>,
    /// When the same question will be allowed, if nobody else asks meanwhile.
    #[serde(default)]
    pub retry_at: Option<Time>,
    /// How many milliseconds to wait before acting, where a rule lets in what must queue.
    #[serde(default)]
    pub delay_ms: u64,
    /// How safe the charge was when the answer was sent; absent if nothing was charged.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// Whether the answer was given without all that should have been asked, by the rules' failure policy.
    #[serde(default)]
    pub degraded: bool,
    /// Whether this is an earlier answer to the same idempotency key.
    #[serde(default)]
    pub replayed: bool,
    /// The time of the answer by the server's clock, if it was told. The other times are by the same clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Time>,
    /// Every rule that was considered, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<Vec<Considered>>,
}

impl Checked {
    /// An answer, for those who give one: allowed or refused, and what each rule said.
    pub fn new(allowed: bool, rules: Vec<Ruled>) -> Checked {
        Checked { allowed, rules, ..Checked::default() }
    }
}

/// One rule's part in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ruled {
    /// The rule's identifier.
    pub id: String,
    /// The policy it belongs to.
    pub name: String,
    /// How many per period.
    pub limit: u64,
    /// The most that can be taken at once.
    pub burst: u64,
    /// The usual length of the period, in milliseconds; 0 if the server did not say.
    #[serde(default)]
    pub window_ms: u64,
    /// How many are left now.
    pub remaining: u64,
    /// When all are back.
    pub reset_at: Time,
    /// When this rule will admit the same question; absent if it did, or never will.
    #[serde(default)]
    pub retry_at: Option<Time>,
    /// Whether it refused; if it only reports, whether it would have.
    #[serde(default)]
    pub refused: bool,
    /// Whether it only reports.
    #[serde(default)]
    pub shadow: bool,
}

impl Ruled {
    /// A rule's part, for those who give an answer: nothing left of `limit`, until `reset_at`.
    pub fn new(id: impl Into<String>, name: impl Into<String>, limit: u64, reset_at: Time) -> Ruled {
        let (id, name) = (id.into(), name.into());
        Ruled { id, name, limit, burst: limit, window_ms: 0, remaining: 0, reset_at, retry_at: None, refused: false, shadow: false }
    }
}

/// A rule that was considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Considered {
    /// The rule's identifier.
    pub id: String,
    /// The policy it belongs to.
    pub name: String,
    /// Whether it applies.
    pub applies: bool,
    /// Why, or why not.
    pub why: String,
}
