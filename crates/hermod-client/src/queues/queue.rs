//! A queue as the server keeps it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::words::{OnExhausted, OnFailure, QueueMode, QueueOrder};

/// A queue: how its deliveries are handed out, and how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Queue {
    /// Its name.
    pub queue: String,
    /// Who may have a delivery.
    pub mode: QueueMode,
    /// What is kept in order.
    pub order: QueueOrder,
    /// How long a delivery is held by whoever claimed it.
    pub lease: String,
    /// How long a worker lives without a heartbeat.
    pub worker_ttl: String,
    /// How long a recipient of a sticky queue keeps its worker when there is nothing for it.
    pub idle_after: String,
    /// How often a delivery is tried.
    pub max_attempts: u32,
    /// The pauses between attempts.
    pub backoff: Backoff,
    /// What becomes of a delivery after its last attempt.
    pub on_exhausted: OnExhausted,
    /// What the recipient's next deliveries do while one waits to be tried again.
    pub on_failure: OnFailure,
    /// What becomes of deliveries that are late.
    pub overdue: Overdue,
    /// How many overdue deliveries go out each second; as fast as they are claimed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up_per_second: Option<u32>,
    /// The largest payload in bytes.
    pub max_payload: u32,
    /// How the server itself consumes it; absent if others claim.
    #[serde(default)]
    pub push: Option<Push>,
    /// Why the webhook was switched off, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<String>,
    /// Grows with every change.
    #[serde(default)]
    pub version: u64,
}

/// The pauses between attempts: `first`, then each `factor` times the last, up to `max`. In a draft
/// what is absent is the server's to choose; an answer has all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    /// The first pause: `1s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// By how much each pause is longer than the last; 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The longest pause: `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// Which share of a pause may be taken off it by chance; 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
}

/// What becomes of a delivery that is late.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overdue {
    /// It goes out, however late.
    #[default]
    Deliver,
    /// It is dropped if it is later than this: `1h`.
    DropAfter(String),
}

/// How the server itself consumes a queue: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Push {
    /// It prints each delivery.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// It sends each delivery there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

impl Push {
    /// Printed by the server.
    pub fn log() -> Push {
        Push { log: true, webhook: None }
    }

    /// Sent there by the server.
    pub fn webhook(webhook: Webhook) -> Push {
        Push { log: false, webhook: Some(webhook) }
    }
}

/// Where deliveries are sent, and how. In a draft what is absent is the server's to choose.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Webhook {
    /// An http or https address.
    pub url: String,
    /// What requests are signed with, `whsec_...`. In answers it is masked, unless this answer's request had it made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Instead of `secret`, while a new one takes the old one's place: the new one and the old one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// How many requests may be under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How long a request may take: `10s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

impl Webhook {
    /// To this address, with the secret that is stored, or a new one that the server makes up.
    pub fn new(url: impl Into<String>) -> Webhook {
        Webhook { url: url.into(), secret: None, secrets: Vec::new(), concurrency: None, timeout: None }
    }

    /// Signed with this.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Webhook {
        self.secret = Some(secret.into());
        self
    }

    /// The secret, if it is there as a whole and not as a mask.
    pub fn whole_secret(&self) -> Option<&str> {
        self.secret.as_deref().filter(|secret| !secret.contains('…'))
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("url", &self.url)
            .field("secret", &self.secret.as_ref().map(|_| "***"))
            .field("secrets", &self.secrets.len())
            .field("concurrency", &self.concurrency)
            .field("timeout", &self.timeout)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_reads_back_as_written_and_shows_no_secret() {
        let text = r#"{"queue":"mail","mode":"moon","order":"total","lease":"30s","worker_ttl":"15s","idle_after":"1day","max_attempts":5,"backoff":{"first":"1s","factor":2.5,"max":"10m","jitter":0.2},"on_exhausted":"dead","on_failure":"block","overdue":{"drop_after":"1h"},"max_payload":262144,"push":{"webhook":{"url":"https://h","secret":"whsec_s3cret","concurrency":8,"timeout":"10s"}},"version":1}"#;
        let queue: Queue = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&queue).unwrap(), text);
        assert!(!format!("{queue:?}").contains("s3cret"));
        assert_eq!(queue.mode, QueueMode::Other("moon".into()));
        let plain = text.replace(r#"{"drop_after":"1h"}"#, r#""deliver""#).replace("whsec_s3cret", "whsec_…cret");
        let queue: Queue = serde_json::from_str(&plain).unwrap();
        assert_eq!(queue.overdue, Overdue::Deliver);
        assert_eq!(queue.push.unwrap().webhook.unwrap().whole_secret(), None);
    }
}
