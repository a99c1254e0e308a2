//! The workers of sticky queues: they come, go, and say that they live.

use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize};

use super::Queues;
use super::words::{OwnerReason, WorkerState};
use crate::error::ClientError;
use crate::time::Time;

/// A worker that is registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegisteredWorker {
    /// Its name.
    pub worker: String,
    /// Which of its lives this is: to be sent with every claim and heartbeat.
    pub incarnation: u64,
    /// How it stands.
    pub state: WorkerState,
    /// When it is taken for gone if nothing is heard of it.
    #[serde(default)]
    pub lease_until: Option<Time>,
    /// How long that is: `15s`.
    pub worker_ttl: String,
}

impl RegisteredWorker {
    /// How often it should say that it lives, where it neither waits for a claim nor listens: three times within its lease.
    pub fn heartbeat_every(&self) -> Duration {
        // A span that a newer server writes in another way is taken for a short one.
        humantime::parse_duration(&self.worker_ttl).unwrap_or(Duration::from_secs(1)) / 3
    }
}

/// A worker, and how much it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Worker {
    /// Its name.
    pub worker: String,
    /// Which of its lives this is.
    pub incarnation: u64,
    /// How it stands. One that is gone is listed until what it had is moved.
    pub state: WorkerState,
    /// Why it is gone, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<OwnerReason>,
    /// When it is taken for gone if nothing is heard of it.
    pub lease_until: Time,
    /// How many turns it has where others have one.
    #[serde(default)]
    pub weight: u32,
    /// How many recipients it has for whom there is something.
    #[serde(default)]
    pub recipients: u64,
    /// How many deliveries those have that are not finished.
    #[serde(default)]
    pub pending: u64,
    /// How many of them it holds.
    #[serde(default)]
    pub in_flight: u64,
}

/// The workers of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Workers {
    /// By name.
    pub items: Vec<Worker>,
    /// How many recipients wait for a worker.
    #[serde(default)]
    pub parked: u64,
    /// The time of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Time>,
}

#[derive(Serialize)]
struct Weighed {
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
}

#[derive(Serialize)]
struct Life {
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<u64>,
}

/// Repeated without a key: of two registrations the later one counts, and all else is the same when it is said twice.
impl Queues<'_> {
    /// Registers a worker of a sticky queue: its first heartbeat, and the end of whoever had this name. It keeps the
    /// recipients it had; what was held and not finished is handed out again at once. `weight` is how many turns it has where
    /// others have one, 1 if absent.
    pub async fn register(&self, queue: &str, worker: &str, weight: Option<u32>) -> Result<RegisteredWorker, ClientError> {
        self.client.say(Method::PUT, &["v1", "queues", queue, "workers", worker], &Weighed { weight }).await
    }

    /// Says that a worker lives. Claims that wait and open streams say so by themselves. If it is gone, that is an error which
    /// [`ClientError::is_worker_gone`] knows: it must register again.
    pub async fn heartbeat(&self, queue: &str, worker: &str, incarnation: u64) -> Result<RegisteredWorker, ClientError> {
        let life = Life { incarnation: Some(incarnation) };
        self.client.say(Method::POST, &["v1", "queues", queue, "workers", worker, "heartbeat"], &life).await
    }

    /// Gives a worker nobody new. What it holds it finishes; its recipients go to others as soon as it holds nothing of theirs.
    /// Without an incarnation it is whichever life it has.
    pub async fn drain(&self, queue: &str, worker: &str, incarnation: Option<u64>) -> Result<RegisteredWorker, ClientError> {
        self.client.say(Method::POST, &["v1", "queues", queue, "workers", worker, "drain"], &Life { incarnation }).await
    }

    /// Says that a worker is gone: what it held, and whom it had, go to others at once. After a lost answer and a second try
    /// it may say that the worker is gone, though it was this that made it so.
    pub async fn leave(&self, queue: &str, worker: &str, incarnation: Option<u64>) -> Result<(), ClientError> {
        let query: Vec<_> = incarnation.iter().map(|incarnation| ("incarnation", incarnation.to_string())).collect();
        self.client.withdraw(&["v1", "queues", queue, "workers", worker], &query).await
    }

    /// Who works on a sticky queue, and how much each has.
    pub async fn workers(&self, queue: &str) -> Result<Workers, ClientError> {
        self.client.read(&["v1", "queues", queue, "workers"], &[]).await
    }
}
