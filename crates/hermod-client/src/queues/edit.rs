//! Changing deliveries that nobody holds, one or many.

use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize};

use super::Queues;
use super::delivery::Due;
use super::words::EditOutcome;
use crate::error::ClientError;
use crate::time::{Time, exact, span};

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edited {
    /// Whether it was made.
    pub outcome: EditOutcome,
    /// When the delivery is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Time>,
    /// Until when somebody holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Time>,
}

/// A change, as it is sent.
#[derive(Default, Serialize)]
struct Patch<P> {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "exact")]
    at: Option<Time>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none", serialize_with = "span")]
    within: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

/// Which deliveries a change of many is for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Which {
    /// All that wait.
    Waiting,
    /// Those that wait and can be claimed from the first time on and before the second, where they are given.
    Between(Option<Time>, Option<Time>),
    /// Those of this tag, whatever their state.
    Tag(String),
    /// All that are dead.
    Dead,
}

/// What is done to each of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BulkChange {
    /// They are forgotten.
    Cancel,
    /// They are due so much later.
    Later(Duration),
    /// They are due so much earlier.
    Earlier(Duration),
    /// Dead ones are due at once, as if they had never been attempted.
    Redrive,
}

/// What a change of many has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Bulk {
    /// So many were changed.
    pub done: u64,
    /// So many are held by somebody, and are as they were.
    pub leased: u64,
    /// So many had gone meanwhile, or are of another state.
    pub others: u64,
    /// Where the next call goes on; absent: that was all.
    #[serde(default)]
    pub next: Option<String>,
}

/// The request of a change of many.
#[derive(Default, Serialize)]
struct BulkBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

impl Queues<'_> {
    /// Cancels a delivery that nobody holds, or forgets a dead one.
    pub async fn cancel(&self, queue: &str, id: &str) -> Result<Edited, ClientError> {
        self.client.remove_with(&["v1", "queues", queue, "deliveries", id], self.key()).await
    }

    /// Gives a delivery another time.
    pub async fn reschedule(&self, queue: &str, id: &str, due: impl Into<Due>) -> Result<Edited, ClientError> {
        let (at, within) = match due.into() {
            Due::At(at) => (Some(at), None),
            Due::In(span) => (None, Some(span)),
        };
        self.patch(queue, id, &Patch::<()> { at, within, ..Patch::default() }).await
    }

    /// Gives a delivery another payload.
    pub async fn rewrite<P: Serialize>(&self, queue: &str, id: &str, payload: &P) -> Result<Edited, ClientError> {
        self.patch(queue, id, &Patch { at: None, within: None, payload: Some(payload), state: None }).await
    }

    /// Makes a dead delivery due at once, as if it had never been attempted.
    pub async fn redrive(&self, queue: &str, id: &str) -> Result<Edited, ClientError> {
        self.patch(queue, id, &Patch::<()> { state: Some("ready"), ..Patch::default() }).await
    }

    async fn patch<P: Serialize>(&self, queue: &str, id: &str, patch: &Patch<P>) -> Result<Edited, ClientError> {
        self.client.write(Method::PATCH, &["v1", "queues", queue, "deliveries", id], self.key(), patch).await
    }

    /// Cancels all of these, call after call.
    pub async fn cancel_all(&self, queue: &str, which: &Which) -> Result<Bulk, ClientError> {
        self.change_all(queue, BulkChange::Cancel, which).await
    }

    /// Puts all of these off by so much, call after call; [`Queues::change_all`] can also bring them forward.
    pub async fn shift_all(&self, queue: &str, which: &Which, by: Duration) -> Result<Bulk, ClientError> {
        self.change_all(queue, BulkChange::Later(by), which).await
    }

    /// Makes all dead ones of these due at once, call after call.
    pub async fn redrive_all(&self, queue: &str, which: &Which) -> Result<Bulk, ClientError> {
        self.change_all(queue, BulkChange::Redrive, which).await
    }

    /// Changes all of these, call after call.
    ///
    /// An error leaves those of earlier calls changed; with [`Queues::idempotency_key`] the whole can be asked for again,
    /// and no time is changed twice. If others have come or gone since, a call may not be the one it was: it is refused
    /// as `idempotency_conflict` then.
    pub async fn change_all(&self, queue: &str, change: BulkChange, which: &Which) -> Result<Bulk, ClientError> {
        let (mut sum, mut part) = (Bulk::default(), 0);
        loop {
            // Numbered, not named by the cursor: one that has moved meanwhile must not make a new key of an old call.
            let key = self.part_key(part);
            let some = self.change_by(queue, change, which, sum.next.as_deref(), key.as_deref()).await?;
            part += 1;
            (sum.done, sum.leased, sum.others) = (sum.done + some.done, sum.leased + some.leased, sum.others + some.others);
            // A cursor that is repeated would never end.
            if some.next.is_none() || some.next == sum.next {
                return Ok(Bulk { next: None, ..sum });
            }
            sum.next = some.next;
        }
    }

    /// Changes up to a thousand of these, from where the last call ended: for who wants to see how it goes on. Tried
    /// again after a lost answer, except for changes of time without an idempotency key, which would be made twice. A key
    /// is for one such call: the next cursor needs another.
    pub async fn change_some(&self, queue: &str, change: BulkChange, which: &Which, cursor: Option<&str>) -> Result<Bulk, ClientError> {
        self.change_by(queue, change, which, cursor, self.key()).await
    }

    async fn change_by(
        &self,
        queue: &str,
        change: BulkChange,
        which: &Which,
        cursor: Option<&str>,
        key: Option<&str>,
    ) -> Result<Bulk, ClientError> {
        let (verb, by) = match change {
            BulkChange::Cancel => ("cancel", None),
            BulkChange::Later(by) => ("shift", Some(humantime::format_duration(by).to_string())),
            BulkChange::Earlier(by) => ("shift", Some(format!("-{}", humantime::format_duration(by)))),
            BulkChange::Redrive => ("redrive", None),
        };
        let is_repeatable = by.is_none();
        let mut body = BulkBody { by, cursor, ..BulkBody::default() };
        match which {
            Which::Waiting => body.state = Some("waiting"),
            Which::Between(from, until) => (body.state, body.from, body.until) = (Some("waiting"), *from, *until),
            Which::Tag(tag) => body.tag = Some(tag),
            Which::Dead => body.state = Some("dead"),
        }
        self.client.charge(&["v1", "queues", queue, verb], key, is_repeatable, &body).await
    }
}
