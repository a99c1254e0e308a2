//! A rule to be saved.

use serde::Serialize;

use super::words::{Algorithm, OnExpiry, OnStoreError, RuleMode, RuleScope};

/// A rule to be saved. What is absent is the server's to choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RuleDraft {
    /// Its identifier; the server makes one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The policy it belongs to; `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The actions it limits: exact, or a glob such as `tasks/*`.
    pub action: String,
    /// Whom it is for: exact, or a glob such as `vip:*`; everyone if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// A CEL expression over `subject`, `action`, `cost` and `attributes` that must be true for it to apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How many per period; for concurrency, how many at once.
    pub limit: u64,
    /// The period: `30s`, `5m`, or `second`, `minute`, `hour`, `day`, or a calendar window such as
    /// `day@Europe/Berlin`; for concurrency, the longest lease.
    pub per: String,
    /// How it is counted; a sliding window if absent, or a fixed one where the period is of the calendar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// The most that can be taken at once from a bucket; `limit` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// How many beyond the burst of a leaky bucket are let in to wait their turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<u64>,
    /// Whether to estimate a sliding window from two counters: up to twice the limit in the worst case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub approximate: bool,
    /// What one counter is for; each subject if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
    /// Whether it refuses; it does if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RuleMode>,
    /// Whether an answer waits until the charge is on disk.
    pub durable: bool,
    /// What the server answers while its store cannot be reached; `closed` for a durable rule if
    /// absent, `open` for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_store_error: Option<OnStoreError>,
    /// What becomes of an estimate that was reserved and never settled; it stays charged if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
}

impl RuleDraft {
    /// `limit` times `action` in every `per`, for everyone.
    pub fn new(action: impl Into<String>, limit: u64, per: impl Into<String>) -> RuleDraft {
        RuleDraft {
            id: None,
            name: None,
            action: action.into(),
            subject: None,
            when: None,
            limit,
            per: per.into(),
            algorithm: None,
            burst: None,
            queue: None,
            approximate: false,
            scope: None,
            mode: None,
            durable: false,
            on_store_error: None,
            on_expiry: None,
        }
    }

    /// With this identifier.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> RuleDraft {
        self.id = Some(id.into());
        self
    }

    /// As part of this policy.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> RuleDraft {
        self.name = Some(name.into());
        self
    }

    /// For this subject only, or for those that match this glob.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> RuleDraft {
        self.subject = Some(subject.into());
        self
    }

    /// Only where this CEL expression is true.
    #[must_use]
    pub fn when(mut self, when: impl Into<String>) -> RuleDraft {
        self.when = Some(when.into());
        self
    }

    /// Counted this way.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> RuleDraft {
        self.algorithm = Some(algorithm);
        self
    }

    /// With at most this many at once; for buckets.
    #[must_use]
    pub fn burst(mut self, burst: u64) -> RuleDraft {
        self.burst = Some(burst);
        self
    }

    /// With this many beyond the burst let in to wait; for a leaky bucket.
    #[must_use]
    pub fn queue(mut self, queue: u64) -> RuleDraft {
        self.queue = Some(queue);
        self
    }

    /// Estimated from two counters; for a sliding window.
    #[must_use]
    pub fn approximate(mut self, approximate: bool) -> RuleDraft {
        self.approximate = approximate;
        self
    }

    /// With a counter for each of these.
    #[must_use]
    pub fn scope(mut self, scope: RuleScope) -> RuleDraft {
        self.scope = Some(scope);
        self
    }

    /// In this mode.
    #[must_use]
    pub fn mode(mut self, mode: RuleMode) -> RuleDraft {
        self.mode = Some(mode);
        self
    }

    /// With answers that wait until the charge is on disk.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> RuleDraft {
        self.durable = durable;
        self
    }

    /// With this answer while the server's store cannot be reached.
    #[must_use]
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> RuleDraft {
        self.on_store_error = Some(on_store_error);
        self
    }

    /// With this for an estimate that was reserved and never settled.
    #[must_use]
    pub fn on_expiry(mut self, on_expiry: OnExpiry) -> RuleDraft {
        self.on_expiry = Some(on_expiry);
        self
    }
}
