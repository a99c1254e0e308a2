//! A queue to be saved.

use serde::Serialize;

use super::queue::{Backoff, Overdue, Push, Queue};
use super::words::{OnExhausted, OnFailure, QueueMode, QueueOrder};

/// A queue to be saved. What is absent is the server's to choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueDraft {
    /// Who may have a delivery; any consumer if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<QueueMode>,
    /// What is kept in order; the deliveries of each recipient if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<QueueOrder>,
    /// How long a delivery is held by whoever claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// How long a worker lives without a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_ttl: Option<String>,
    /// How long a recipient of a sticky queue keeps its worker when there is nothing for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_after: Option<String>,
    /// How often a delivery is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The pauses between attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// What becomes of a delivery after its last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<OnExhausted>,
    /// What the recipient's next deliveries do while one waits to be tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// What becomes of deliveries that are late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue: Option<Overdue>,
    /// How many overdue deliveries go out each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_per_second: Option<u32>,
    /// The largest payload in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_payload: Option<u32>,
    /// How the server itself consumes it; others claim if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
    /// Why the webhook is to be switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<String>,
}

impl QueueDraft {
    /// A queue with all the defaults.
    pub fn new() -> QueueDraft {
        QueueDraft::default()
    }

    /// In this mode.
    #[must_use]
    pub fn mode(mut self, mode: QueueMode) -> QueueDraft {
        self.mode = Some(mode);
        self
    }

    /// With this kept in order.
    #[must_use]
    pub fn order(mut self, order: QueueOrder) -> QueueDraft {
        self.order = Some(order);
        self
    }

    /// With this lease: `30s`.
    #[must_use]
    pub fn lease(mut self, lease: impl Into<String>) -> QueueDraft {
        self.lease = Some(lease.into());
        self
    }

    /// With workers that live this long without a heartbeat: `15s`.
    #[must_use]
    pub fn worker_ttl(mut self, worker_ttl: impl Into<String>) -> QueueDraft {
        self.worker_ttl = Some(worker_ttl.into());
        self
    }

    /// With so many attempts.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> QueueDraft {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// With these pauses between attempts.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> QueueDraft {
        self.backoff = Some(backoff);
        self
    }

    /// Consumed by the server itself.
    #[must_use]
    pub fn push(mut self, push: Push) -> QueueDraft {
        self.push = Some(push);
        self
    }
}

impl From<Queue> for QueueDraft {
    /// The same queue, to be changed and sent back. Masked secrets stand for those that are stored.
    fn from(queue: Queue) -> QueueDraft {
        QueueDraft {
            mode: Some(queue.mode),
            order: Some(queue.order),
            lease: Some(queue.lease),
            worker_ttl: Some(queue.worker_ttl),
            idle_after: Some(queue.idle_after),
            max_attempts: Some(queue.max_attempts),
            backoff: Some(queue.backoff),
            on_exhausted: Some(queue.on_exhausted),
            on_failure: Some(queue.on_failure),
            overdue: Some(queue.overdue),
            catch_up_per_second: queue.catch_up_per_second,
            max_payload: Some(queue.max_payload),
            push: queue.push,
            disabled: queue.disabled,
        }
    }
}
