//! May this subject do this now?

use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::ClientError;
use crate::time::Time;

/// A question: may `subject` do `action` now?
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckRequest {
    /// Who acts.
    pub subject: String,
    /// What it does.
    pub action: String,
    /// How many tokens that takes.
    pub cost: u64,
}

impl CheckRequest {
    /// At a cost of 1.
    pub fn new(subject: impl Into<String>, action: impl Into<String>) -> CheckRequest {
        CheckRequest { subject: subject.into(), action: action.into(), cost: 1 }
    }

    /// At this cost.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> CheckRequest {
        self.cost = cost;
        self
    }
}

/// The answer. A refusal took nothing from any rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checked {
    /// Whether the subject may; if so, the tokens are taken.
    pub allowed: bool,
    /// Whether waiting will not help: the cost is above what a rule can ever hold.
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
    /// How safe the charge was when the answer was sent; absent if nothing was charged.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// Whether the answer was given without the store, by the rules' failure policy.
    #[serde(default)]
    pub degraded: bool,
    /// Whether this is an earlier answer to the same idempotency key.
    #[serde(default)]
    pub replayed: bool,
}

/// One rule's part in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ruled {
    /// The rule's identifier.
    pub id: String,
    /// The policy it belongs to.
    pub name: String,
    /// How many tokens per period.
    pub limit: u64,
    /// The most that can be taken at once.
    pub burst: u64,
    /// How many are left now.
    pub remaining: u64,
    /// When all are back.
    pub reset_at: Time,
    /// When this rule will admit the same question; absent if it did.
    #[serde(default)]
    pub retry_at: Option<Time>,
}

/// How safe a charge was when its answer was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Durability {
    /// It will be on disk within a second.
    Deferred,
    /// It is on disk.
    Disk,
    /// It is in the store's memory.
    Memory,
    /// It is in the memory of this many replicas, too.
    Replicas(u32),
    /// A degree that this client does not know, by the server's name for it.
    Other(String),
}

impl From<String> for Durability {
    fn from(text: String) -> Durability {
        match text.as_str() {
            "deferred" => Durability::Deferred,
            "disk" => Durability::Disk,
            "memory" => Durability::Memory,
            other => match other.strip_prefix("replicas:").and_then(|n| n.parse().ok()) {
                Some(replicas) => Durability::Replicas(replicas),
                None => Durability::Other(text),
            },
        }
    }
}

impl From<Durability> for String {
    fn from(durability: Durability) -> String {
        match durability {
            Durability::Deferred => "deferred".to_owned(),
            Durability::Disk => "disk".to_owned(),
            Durability::Memory => "memory".to_owned(),
            Durability::Replicas(replicas) => format!("replicas:{replicas}"),
            Durability::Other(text) => text,
        }
    }
}

/// The verbs of `/v1/limit`.
#[derive(Clone, Debug)]
pub struct Limit<'a> {
    client: &'a Client,
    key: Option<String>,
}

impl<'a> Limit<'a> {
    pub(crate) fn new(client: &'a Client) -> Limit<'a> {
        Limit { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Limit<'a> {
        self.key = Some(key.into());
        self
    }

    /// Takes the tokens if every rule admits it, else none.
    ///
    /// Unlike other writes it sends no idempotency key unless one is given: the server keeps an answer
    /// for three days, which is long for a rate limit. Without a key it is tried again only if the
    /// request cannot have taken effect.
    pub async fn check(&self, request: &CheckRequest) -> Result<Checked, ClientError> {
        self.client.charge(&["v1", "limit", "check"], self.key.as_deref(), request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_reads_back_as_written() {
        for text in ["deferred", "disk", "memory", "replicas:2", "replicas:many", "moon"] {
            assert_eq!(String::from(Durability::from(text.to_owned())), text);
        }
        assert_eq!(Durability::from("replicas:2".to_owned()), Durability::Replicas(2));
    }
}
