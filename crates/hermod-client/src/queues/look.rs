//! Looking at deliveries, and counting them.

use serde::{Deserialize, Serialize};

use super::Queues;
use super::delivery::Delivery;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};
use crate::time::Time;

/// Which deliveries are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryFilter {
    /// Those that wait, scheduled or ready.
    #[default]
    Waiting,
    /// Those that wait and can be claimed from the first time on and before the second, where they are given.
    Between(Option<Time>, Option<Time>),
    /// Those that somebody holds.
    Leased,
    /// Those that are dead.
    Dead,
    /// Those of this tag, whatever their state.
    Tag(String),
    /// The one of this key, and of this recipient if it has one.
    Key(String, Option<String>),
}

impl DeliveryFilter {
    fn query(&self) -> Vec<(&'static str, String)> {
        let times = |from: Option<Time>, until: Option<Time>| {
            [("from", from), ("until", until)].into_iter().filter_map(|(name, time)| Some((name, time?.to_string()))).collect()
        };
        match self {
            DeliveryFilter::Waiting => Vec::new(),
            DeliveryFilter::Between(from, until) => times(*from, *until),
            DeliveryFilter::Leased => vec![("state", "leased".to_owned())],
            DeliveryFilter::Dead => vec![("state", "dead".to_owned())],
            DeliveryFilter::Tag(tag) => vec![("tag", tag.clone())],
            DeliveryFilter::Key(key, to) => {
                let to = to.iter().map(|to| ("to", to.clone()));
                std::iter::once(("key", key.clone())).chain(to).collect()
            }
        }
    }
}

/// What there is in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueStats {
    /// Their time has come.
    pub ready: u64,
    /// Their time has not come.
    pub scheduled: u64,
    /// Somebody holds them.
    pub leased: u64,
    /// They failed for good, and are kept.
    pub dead: u64,
    /// Since when the one that waits longest has been due.
    #[serde(default)]
    pub oldest_due: Option<Time>,
    /// When a delivery can be claimed next.
    #[serde(default)]
    pub next_due: Option<Time>,
    /// How many fall due in each of the minutes to come.
    #[serde(default)]
    pub forecast: Vec<u64>,
    /// The time of the answer.
    #[serde(default)]
    pub now: Option<Time>,
}

impl Queues<'_> {
    /// One delivery that is not finished.
    pub async fn delivery(&self, queue: &str, id: &str) -> Result<Delivery, ClientError> {
        self.client.read(&["v1", "queues", queue, "deliveries", id], &[]).await
    }

    /// One page of deliveries: partition by partition, within one by their time.
    pub async fn deliveries(&self, queue: &str, filter: &DeliveryFilter, page: &PageRequest) -> Result<Page<Delivery>, ClientError> {
        let mut query = filter.query();
        query.extend(page.query());
        self.client.read(&["v1", "queues", queue, "deliveries"], &query).await
    }

    /// How many deliveries there are, and when they fall due.
    pub async fn stats(&self, queue: &str) -> Result<QueueStats, ClientError> {
        self.client.read(&["v1", "queues", queue, "stats"], &[]).await
    }
}
