//! The recipients of sticky queues: which worker has them, since when, and why.

use std::fmt;

use reqwest::Method;
use serde::{Deserialize, Serialize};

use super::Queues;
use super::words::{OwnerReason, RecipientState, WorkerState};
use crate::error::ClientError;
use crate::time::Time;

/// What is known of a recipient. It can be printed: in words, on a few lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recipient {
    /// Its name.
    pub recipient: String,
    /// Whether it has a worker.
    pub state: RecipientState,
    /// Which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How that one stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_state: Option<WorkerState>,
    /// When that one is taken for gone if nothing is heard of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_lease_until: Option<Time>,
    /// Whom it is to have while that worker lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_to: Option<String>,
    /// Grows with every change of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// How many deliveries are not finished.
    #[serde(default)]
    pub pending: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<RecipientHead>,
    /// The last changes of its worker, the newest first.
    #[serde(default)]
    pub changes: Vec<OwnerChange>,
}

/// A recipient's first delivery, for which its others wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecipientHead {
    /// Its id.
    pub id: String,
    /// How often it was attempted.
    #[serde(default)]
    pub attempts: u32,
    /// From when on it can be claimed.
    pub not_before: Time,
    /// Since when it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_since: Option<Time>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Time>,
}

/// A change of a recipient's worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OwnerChange {
    /// When.
    pub at: Time,
    /// Why.
    pub why: OwnerReason,
    /// To whom; absent: to nobody, it was parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

impl Recipient {
    /// Why its worker was changed: the newest change if `nth` is 0.
    fn reason(&self, nth: usize) -> Option<(&OwnerChange, String)> {
        let change = self.changes.get(nth)?;
        // The oldest that is remembered does not tell who was before.
        let before = self.changes.get(nth + 1).and_then(|change| change.worker.as_deref()).unwrap_or("its worker");
        let why = match &change.why {
            OwnerReason::First => "it had none before".to_owned(),
            OwnerReason::Adopted => "it was parked, and a worker came".to_owned(),
            OwnerReason::Silent => format!("{before} was not heard of for too long"),
            OwnerReason::Closed => format!("{before} closed its stream and did not come back"),
            OwnerReason::Left => format!("{before} left"),
            OwnerReason::Drained => format!("{before} drains"),
            OwnerReason::Pinned => "it was pinned".to_owned(),
            OwnerReason::Gone => format!("{before} was gone"),
            OwnerReason::Other(word) => word.clone(),
        };
        Some((change, why))
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, worker) = (&self.recipient, self.worker.as_deref());
        match (&self.state, worker) {
            (RecipientState::Free, _) => write!(f, "{name} is free: its queue is shared, and any consumer has any delivery")?,
            (RecipientState::Idle, None) => write!(f, "{name} is idle: there is nothing for it")?,
            (RecipientState::Idle, Some(worker)) => write!(f, "{name} is idle: there is nothing for it; its worker is {worker}")?,
            (RecipientState::Parked, _) => write!(f, "{name} is parked: it waits for a worker")?,
            (RecipientState::Owned, Some(worker)) => write!(f, "{name} is owned by {worker}")?,
            (other, _) => write!(f, "{name} is {other}")?,
        }
        if let Some((change, why)) = self.reason(0) {
            write!(f, ", since {}: {why}", change.at)?;
        }
        if let Some((worker, state)) = worker.zip(self.worker_state.as_ref()) {
            write!(f, "\n{worker} is {state}")?;
            if let Some(until) = self.worker_lease_until {
                write!(f, "; its lease ends at {until} if nothing is heard of it")?;
            }
        }
        if let Some(pinned) = &self.pinned_to {
            write!(f, "\npinned to {pinned}, while that worker lives")?;
        }
        if let Some(head) = &self.head {
            write!(f, "\nnot finished: {}; the first is {}", self.pending, head.id)?;
            match (head.in_flight_since, head.lease_until) {
                (Some(since), Some(until)) => write!(f, ", held since {since} until {until}, attempt {}", head.attempts)?,
                _ => write!(f, ", to be claimed from {} on, attempted {} times", head.not_before, head.attempts)?,
            }
        }
        for nth in 0..self.changes.len() {
            let (lead, Some((change, why))) = (if nth == 0 { "changes:\n  " } else { "  " }, self.reason(nth)) else { continue };
            write!(f, "\n{lead}{}  to {}: {why}", change.at, change.worker.as_deref().unwrap_or("nobody"))?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Pin<'a> {
    worker: Option<&'a str>,
}

impl Queues<'_> {
    /// Explains a recipient: who has it, since when and why, and what it waits for.
    pub async fn explain(&self, queue: &str, recipient: &str) -> Result<Recipient, ClientError> {
        self.client.read(&["v1", "queues", queue, "recipients", recipient], &[]).await
    }

    /// Pins a recipient to a worker, which has it from its next delivery on and while it lives; or to none.
    pub async fn pin(&self, queue: &str, recipient: &str, worker: Option<&str>) -> Result<Recipient, ClientError> {
        self.client.write(Method::PUT, &["v1", "queues", queue, "recipients", recipient], self.key(), &Pin { worker }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipient_is_told_in_words() {
        let owned = r#"{"recipient":"ann","state":"owned","worker":"w2","worker_state":"live","worker_lease_until":"2026-02-03T04:05:30.000Z",
            "pinned_to":"w1","pending":2,"head":{"id":"dl_1","attempts":2,"not_before":"2026-02-03T04:05:06.000Z",
            "in_flight_since":"2026-02-03T04:05:07.000Z","lease_until":"2026-02-03T04:05:37.000Z"},
            "changes":[{"at":"2026-02-03T04:05:06.000Z","why":"silent","worker":"w2"},{"at":"2026-02-03T04:00:00.000Z","why":"left","worker":"w1"}]}"#;
        let told = "\
ann is owned by w2, since 2026-02-03T04:05:06.000Z: w1 was not heard of for too long
w2 is live; its lease ends at 2026-02-03T04:05:30.000Z if nothing is heard of it
pinned to w1, while that worker lives
not finished: 2; the first is dl_1, held since 2026-02-03T04:05:07.000Z until 2026-02-03T04:05:37.000Z, attempt 2
changes:
  2026-02-03T04:05:06.000Z  to w2: w1 was not heard of for too long
  2026-02-03T04:00:00.000Z  to w1: its worker left";
        let parked = r#"{"recipient":"ann","state":"parked","pending":1,"head":{"id":"dl_1","attempts":0,"not_before":"2026-02-03T04:05:06.000Z"},
            "changes":[{"at":"2026-02-03T04:05:06.000Z","why":"closed"}]}"#;
        let waits = "\
ann is parked: it waits for a worker, since 2026-02-03T04:05:06.000Z: its worker closed its stream and did not come back
not finished: 1; the first is dl_1, to be claimed from 2026-02-03T04:05:06.000Z on, attempted 0 times
changes:
  2026-02-03T04:05:06.000Z  to nobody: its worker closed its stream and did not come back";
        let idle = r#"{"recipient":"ann","state":"idle","pending":0,"changes":[]}"#;
        for (text, told) in [(owned, told), (parked, waits), (idle, "ann is idle: there is nothing for it")] {
            let recipient: Recipient = serde_json::from_str(text).unwrap();
            assert_eq!(recipient.to_string(), told);
        }
    }
}
