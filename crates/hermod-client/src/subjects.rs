//! What is known of subjects: tags, attributes, time zone, quiet hours, mute.

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::decks::QuietHours;
use crate::error::ClientError;
use crate::limit::Attributes;
use crate::time::Time;

/// What is known of a subject. One nobody told anything of has an empty one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// What messages are addressed by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// What the `when` of messages asks for.
    #[serde(default)]
    pub attributes: Attributes,
    /// Of quiet hours and calendars; the deck's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// When nothing is sent; the deck's hours if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<QuietHours>,
    /// Until when nothing is sent at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mute_until: Option<Time>,
    /// Messages with one of these tags are not sent.
    #[serde(default)]
    pub opt_out: Vec<String>,
}

/// The verbs of `/v1/subjects`.
#[derive(Clone, Debug)]
pub struct Subjects<'a> {
    client: &'a Client,
    key: Option<String>,
}

impl<'a> Subjects<'a> {
    pub(crate) fn new(client: &'a Client) -> Subjects<'a> {
        Subjects { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Subjects<'a> {
        self.key = Some(key.into());
        self
    }

    /// What is known of a subject.
    pub async fn get(&self, subject: &str) -> Result<Profile, ClientError> {
        self.client.read(&["v1", "subjects", subject], &[]).await
    }

    /// Replaces what is known of a subject.
    pub async fn put(&self, subject: &str, profile: &Profile) -> Result<Profile, ClientError> {
        self.client.write(Method::PUT, &["v1", "subjects", subject], self.key.as_deref(), profile).await
    }

    /// Forgets what is known of a subject. What it was sent is not forgotten.
    pub async fn delete(&self, subject: &str) -> Result<(), ClientError> {
        self.client.remove(&["v1", "subjects", subject], self.key.as_deref()).await
    }
}
