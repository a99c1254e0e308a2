//! Taking deliveries out of a queue, and saying what became of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Queues;
use super::delivery::Claimed;
use super::words::HeldOutcome;
use crate::error::ClientError;
use crate::time::{Time, span};

/// So many are settled by one request.
const SETTLED_MAX: usize = 1_000;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// How many at most; 1 to 1,000.
    pub count: u32,
    /// For how long; as long as the queue says if absent.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "span")]
    pub lease: Option<Duration>,
    /// How long to wait if there is nothing; a minute at most.
    #[serde(rename = "wait_ms", serialize_with = "millis", skip_serializing_if = "Duration::is_zero")]
    pub wait: Duration,
    /// Who asks, if the queue is sticky.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// In which of its lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u64>,
}

impl ClaimRequest {
    /// So many, without waiting.
    pub fn new(count: u32) -> ClaimRequest {
        ClaimRequest { count, lease: None, wait: Duration::ZERO, worker: None, incarnation: None }
    }

    /// For this long.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> ClaimRequest {
        self.lease = Some(lease);
        self
    }

    /// Waiting for the first up to this long.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> ClaimRequest {
        self.wait = wait;
        self
    }

    /// By this worker of a sticky queue, in this one of its lives.
    #[must_use]
    pub fn by(mut self, worker: impl Into<String>, incarnation: u64) -> ClaimRequest {
        (self.worker, self.incarnation) = (Some(worker.into()), Some(incarnation));
        self
    }
}

fn millis<S: serde::Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// A delivery and the token it was handed out with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The delivery's id.
    pub id: String,
    /// The token.
    pub token: u64,
}

impl Held {
    /// This delivery, under this token.
    pub fn new(id: impl Into<String>, token: u64) -> Held {
        Held { id: id.into(), token }
    }
}

impl From<&Claimed> for Held {
    fn from(claimed: &Claimed) -> Held {
        Held::new(&claimed.id, claimed.token)
    }
}

impl From<&Held> for Held {
    fn from(held: &Held) -> Held {
        held.clone()
    }
}

/// What became of a delivery that was held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SettledDelivery {
    /// Its id.
    pub id: String,
    /// What became of it.
    pub outcome: HeldOutcome,
    /// Until when it is held, of one that was extended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Time>,
    /// From when on it can be claimed again, of one that was given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
}

#[derive(Deserialize)]
struct Handed {
    deliveries: Vec<Claimed>,
}

#[derive(Serialize)]
struct Settle<'a> {
    deliveries: &'a [Held],
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "span")]
    delay: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "span")]
    lease: Option<Duration>,
}

#[derive(Deserialize)]
struct Settled {
    items: Vec<SettledDelivery>,
}

impl Queues<'_> {
    /// Hands out deliveries that are due, in order of their time; waits for the first if that is asked for.
    ///
    /// It is not tried again after a lost answer: what was handed out with it comes back when its lease ends, or at once
    /// if the server noticed that nobody was there.
    pub async fn claim(&self, queue: &str, request: &ClaimRequest) -> Result<Vec<Claimed>, ClientError> {
        let handed: Handed = self.client.wait_for(&["v1", "queues", queue, "claim"], None, request.wait, request).await?;
        Ok(handed.deliveries)
    }

    /// Finishes a delivery. After a lost answer and a second try it may say `stale`, though it is finished.
    pub async fn ack(&self, queue: &str, held: impl Into<Held>) -> Result<SettledDelivery, ClientError> {
        self.settle_one(queue, "ack", held.into(), None, None).await
    }

    /// Finishes many; what became of each, in their order.
    pub async fn ack_all<H: Into<Held>>(
        &self,
        queue: &str,
        held: impl IntoIterator<Item = H>,
    ) -> Result<Vec<SettledDelivery>, ClientError> {
        self.settle(queue, "ack", held, None, None).await
    }

    /// Gives a delivery back that failed, to be tried again after this, or as the queue's backoff says.
    pub async fn nack(&self, queue: &str, held: impl Into<Held>, delay: Option<Duration>) -> Result<SettledDelivery, ClientError> {
        self.settle_one(queue, "nack", held.into(), delay, None).await
    }

    /// Gives many back; what became of each, in their order.
    pub async fn nack_all<H: Into<Held>>(
        &self,
        queue: &str,
        held: impl IntoIterator<Item = H>,
        delay: Option<Duration>,
    ) -> Result<Vec<SettledDelivery>, ClientError> {
        self.settle(queue, "nack", held, delay, None).await
    }

    /// Keeps a delivery for this long from now, or for as long as the queue says.
    pub async fn extend(&self, queue: &str, held: impl Into<Held>, lease: Option<Duration>) -> Result<SettledDelivery, ClientError> {
        self.settle_one(queue, "extend", held.into(), None, lease).await
    }

    /// Keeps many; what became of each, in their order.
    pub async fn extend_all<H: Into<Held>>(
        &self,
        queue: &str,
        held: impl IntoIterator<Item = H>,
        lease: Option<Duration>,
    ) -> Result<Vec<SettledDelivery>, ClientError> {
        self.settle(queue, "extend", held, None, lease).await
    }

    async fn settle_one(
        &self,
        queue: &str,
        verb: &str,
        held: Held,
        delay: Option<Duration>,
        lease: Option<Duration>,
    ) -> Result<SettledDelivery, ClientError> {
        let settled = self.settle(queue, verb, [held], delay, lease).await?;
        let none = || ClientError::BadAnswer { status: 200, detail: "no answer to one delivery".to_owned(), retry_after: None };
        settled.into_iter().next().ok_or_else(none)
    }

    /// Repeated without a key: a token that was used up changes nothing.
    async fn settle<H: Into<Held>>(
        &self,
        queue: &str,
        verb: &str,
        held: impl IntoIterator<Item = H>,
        delay: Option<Duration>,
        lease: Option<Duration>,
    ) -> Result<Vec<SettledDelivery>, ClientError> {
        let held: Vec<Held> = held.into_iter().map(Into::into).collect();
        let mut settled = Vec::with_capacity(held.len());
        for (part, deliveries) in held.chunks(SETTLED_MAX).enumerate() {
            let (key, body) = (self.part_key(part), Settle { deliveries, delay, lease });
            let some: Settled = self.client.charge(&["v1", "queues", queue, verb], key.as_deref(), true, &body).await?;
            settled.extend(some.items);
        }
        Ok(settled)
    }
}
