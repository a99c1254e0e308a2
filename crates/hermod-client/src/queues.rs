//! The queues: their definitions, what is in them, and what recurs.

mod claim;
mod delivery;
mod draft;
mod edit;
mod look;
mod push;
mod queue;
mod recipient;
mod relay;
mod reply;
mod schedule;
mod stream;
mod words;
mod workers;

use reqwest::Method;

use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};

pub use claim::{ClaimRequest, Held, SettledDelivery};
pub use delivery::{Claimed, Delivery, Due, NewDelivery};
pub use draft::QueueDraft;
pub use edit::{Bulk, BulkChange, Edited, Which};
pub use look::{DeliveryFilter, QueueStats};
pub use push::Pushed;
pub use queue::{Backoff, Overdue, Push, Queue, Webhook};
pub use recipient::{OwnerChange, Recipient, RecipientHead};
pub use relay::Relayed;
pub use schedule::{Schedule, ScheduleDraft, Schedules};
pub use stream::DeliveryStream;
pub use words::{
    DeliveryState, Dst, EditOutcome, HeldOutcome, IfExists, OnExhausted, OnFailure, OwnerReason, PushOutcome, QueueMode, QueueOrder,
    RecipientState, WorkerState,
};
pub use workers::{RegisteredWorker, Worker, Workers};

/// The verbs of `/v1/queues`: those of the queues themselves are here, those of their deliveries in a file for each.
///
/// ```no_run
/// # async fn example(client: hermod_client::Client) -> Result<(), hermod_client::ClientError> {
/// use std::time::Duration;
/// use hermod_client::{ClaimRequest, NewDelivery};
///
/// let queues = client.queues();
/// queues.push("mail", &NewDelivery::new("good morning").due(Duration::from_secs(90)).to("ann")).await?;
/// for delivery in queues.claim("mail", &ClaimRequest::new(10).wait(Duration::from_secs(20))).await? {
///     match delivery.payload::<String>() {
///         Ok(text) => {
///             println!("{text}");
///             queues.ack("mail", &delivery).await?;
///         }
///         Err(_) => drop(queues.nack("mail", &delivery, None).await?),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// In a sticky queue each recipient has a worker of its own, which registers before it claims:
///
/// ```no_run
/// # async fn example(client: hermod_client::Client) -> Result<(), hermod_client::ClientError> {
/// use std::time::Duration;
/// use hermod_client::ClaimRequest;
///
/// let queues = client.queues();
/// let mut me = queues.register("inbox", "w1", None).await?;
/// loop {
///     let request = ClaimRequest::new(10).wait(Duration::from_secs(20)).by(&me.worker, me.incarnation);
///     match queues.claim("inbox", &request).await {
///         Ok(claimed) => drop(queues.ack_all("inbox", &claimed).await?),
///         Err(fault) if fault.is_worker_gone() => me = queues.register("inbox", "w1", None).await?,
///         Err(fault) => return Err(fault),
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Queues<'a> {
    client: &'a Client,
    key: Option<String>,
}

impl<'a> Queues<'a> {
    pub(crate) fn new(client: &'a Client) -> Queues<'a> {
        Queues { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Queues<'a> {
        self.key = Some(key.into());
        self
    }

    /// One page of the queues.
    pub async fn list(&self, page: &PageRequest) -> Result<Page<Queue>, ClientError> {
        self.client.page(&["v1", "queues"], page).await
    }

    /// Every queue, page after page.
    pub async fn list_all(&self) -> Result<Vec<Queue>, ClientError> {
        self.client.pages(&["v1", "queues"]).await
    }

    /// One queue. Its secrets are masked.
    pub async fn get(&self, queue: &str) -> Result<Queue, ClientError> {
        self.client.read(&["v1", "queues", queue], &[]).await
    }

    /// Saves a queue under this name, new or in place of the old one; its deliveries stay. If the server
    /// makes up a webhook's secret it is in this answer and nowhere else; a replayed answer has its mask.
    pub async fn put(&self, queue: &str, draft: &QueueDraft) -> Result<Queue, ClientError> {
        self.client.write(Method::PUT, &["v1", "queues", queue], self.key.as_deref(), draft).await
    }

    /// Removes a queue and its schedules. One that holds deliveries is not removed.
    pub async fn delete(&self, queue: &str) -> Result<(), ClientError> {
        self.client.remove(&["v1", "queues", queue], self.key.as_deref()).await
    }

    /// Cancels all deliveries of a queue, then removes it and its schedules. While somebody holds one it is not removed.
    pub async fn purge(&self, queue: &str) -> Result<(), ClientError> {
        self.client.remove_by(&["v1", "queues", queue], &[("purge", "true")], self.key.as_deref()).await
    }

    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The caller's key for one request of several.
    fn part_key(&self, part: usize) -> Option<String> {
        self.key().map(|key| format!("{key}.{part}"))
    }

    /// What recurs in this queue.
    pub fn schedules(&self, queue: impl Into<String>) -> Schedules<'a> {
        Schedules::new(self.client, queue.into())
    }
}
