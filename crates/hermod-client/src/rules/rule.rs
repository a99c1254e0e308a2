//! A rule as the server keeps it.

use serde::{Deserialize, Serialize};

use super::words::{Algorithm, OnExpiry, OnStoreError, RuleMode, RuleScope};

/// A limit on an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rule {
    /// Its identifier.
    pub id: String,
    /// The policy it belongs to. Of one name the most specific rule applies, rules of different names all apply.
    pub name: String,
    /// The actions it limits: exact, or a glob such as `tasks/*`.
    pub action: String,
    /// Whom it is for: exact, or a glob such as `vip:*`; everyone if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The CEL expression that must be true for it to apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How many per period; for concurrency, how many at once.
    pub limit: u64,
    /// The period: `30s`, `1h 30m`, `day@Europe/Berlin`; for concurrency, the longest lease.
    pub per: String,
    /// How it is counted.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// The most that can be taken at once from a bucket; absent where it is counted otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// How many beyond the burst of a leaky bucket are let in to wait their turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u64>,
    /// Whether a sliding window is estimated from two counters: up to twice the limit in the worst case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approximate: bool,
    /// What one counter is for.
    #[serde(default)]
    pub scope: RuleScope,
    /// Whether it refuses.
    #[serde(default)]
    pub mode: RuleMode,
    /// Whether an answer waits until the charge is on disk.
    #[serde(default)]
    pub durable: bool,
    /// What the server answers while its store cannot be reached.
    #[serde(default)]
    pub on_store_error: OnStoreError,
    /// What becomes of an estimate that was reserved and never settled.
    #[serde(default)]
    pub on_expiry: OnExpiry,
    /// Grows with every change.
    #[serde(default)]
    pub version: u64,
}
