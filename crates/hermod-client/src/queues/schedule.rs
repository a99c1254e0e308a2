//! Deliveries that recur.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words::Dst;
use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};
use crate::time::Time;

/// A delivery that recurs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// The queue it goes to.
    pub queue: String,
    /// Its name within the queue.
    pub name: String,
    /// When it is due, as a cron expression.
    pub cron: String,
    /// The time zone in which that is meant.
    pub zone: String,
    /// What becomes of a run that is left out when clocks go forward.
    #[serde(default)]
    pub dst: Dst,
    /// What is delivered.
    #[serde(default)]
    pub payload: Value,
    /// The recipient, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// By which its deliveries are found.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Whether it runs.
    pub enabled: bool,
    /// Grows with every change.
    #[serde(default)]
    pub version: u64,
    /// The next runs; none if it is not enabled.
    #[serde(default)]
    pub next: Vec<Time>,
}

/// A schedule to be saved. What is absent is the server's to choose.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScheduleDraft {
    /// When it is due: a cron expression of five fields, or six with seconds first, or `@daily` and the like.
    pub cron: String,
    /// The time zone, of the IANA database; UTC if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What becomes of a run that is left out when clocks go forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<Dst>,
    /// What is delivered.
    pub payload: Value,
    /// The recipient, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// By which its deliveries are found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether it runs.
    pub enabled: bool,
}

impl ScheduleDraft {
    /// Delivers `payload` at these times, in UTC.
    pub fn new(cron: impl Into<String>, payload: Value) -> ScheduleDraft {
        ScheduleDraft { cron: cron.into(), zone: None, dst: None, payload, to: None, tags: Vec::new(), enabled: true }
    }

    /// In this time zone.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> ScheduleDraft {
        self.zone = Some(zone.into());
        self
    }

    /// To this recipient.
    #[must_use]
    pub fn to(mut self, to: impl Into<String>) -> ScheduleDraft {
        self.to = Some(to.into());
        self
    }
}

/// The verbs of `/v1/queues/{queue}/schedules`.
#[derive(Clone, Debug)]
pub struct Schedules<'a> {
    client: &'a Client,
    queue: String,
    key: Option<String>,
}

impl<'a> Schedules<'a> {
    pub(super) fn new(client: &'a Client, queue: String) -> Schedules<'a> {
        Schedules { client, queue, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Schedules<'a> {
        self.key = Some(key.into());
        self
    }

    /// One page of the queue's schedules.
    pub async fn list(&self, page: &PageRequest) -> Result<Page<Schedule>, ClientError> {
        self.client.page(&["v1", "queues", &self.queue, "schedules"], page).await
    }

    /// Every schedule of the queue, page after page.
    pub async fn list_all(&self) -> Result<Vec<Schedule>, ClientError> {
        self.client.pages(&["v1", "queues", &self.queue, "schedules"]).await
    }

    /// One schedule.
    pub async fn get(&self, name: &str) -> Result<Schedule, ClientError> {
        self.client.read(&["v1", "queues", &self.queue, "schedules", name], &[]).await
    }

    /// Saves a schedule under this name, new or in place of the old one.
    pub async fn put(&self, name: &str, schedule: &ScheduleDraft) -> Result<Schedule, ClientError> {
        self.client.write(Method::PUT, &["v1", "queues", &self.queue, "schedules", name], self.key.as_deref(), schedule).await
    }

    /// Removes a schedule. Deliveries it has made stay.
    pub async fn delete(&self, name: &str) -> Result<(), ClientError> {
        self.client.remove(&["v1", "queues", &self.queue, "schedules", name], self.key.as_deref()).await
    }
}
