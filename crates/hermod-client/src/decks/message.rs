//! Messages of a deck.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::deck::Cap;
use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};
use crate::time::Time;

/// Something to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// Its name within the deck.
    pub id: String,
    /// What is said.
    pub body: Value,
    /// Whom it is for.
    #[serde(default)]
    pub to: To,
    /// It is only for subjects of which this CEL expression is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How likely it is beside others.
    pub weight: u32,
    /// What goes first, where the deck goes by priority.
    pub priority: i32,
    /// Whether it is sent at all.
    pub active: bool,
    /// From when on it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Time>,
    /// From when on it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Time>,
    /// How often one subject gets it; no bound of its own if absent.
    #[serde(default)]
    pub cap: Option<Cap>,
    /// What a subject can opt out of.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Passes quiet hours and mute, and counts all the same.
    #[serde(default)]
    pub critical: bool,
    /// Its number in the deck, in the order they were made.
    #[serde(default)]
    pub ordinal: u32,
    /// Grows with every change.
    #[serde(default)]
    pub version: u64,
}

/// Whom a message is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum To {
    /// All subjects.
    #[default]
    Everyone,
    /// These.
    Subjects(Vec<String>),
    /// Those that have one of these tags.
    Tags(Vec<String>),
}

impl To {
    /// These subjects.
    pub fn subjects<S: Into<String>>(subjects: impl IntoIterator<Item = S>) -> To {
        To::Subjects(subjects.into_iter().map(Into::into).collect())
    }

    /// Those that have one of these tags.
    pub fn tags<S: Into<String>>(tags: impl IntoIterator<Item = S>) -> To {
        To::Tags(tags.into_iter().map(Into::into).collect())
    }
}

/// A message to be saved. What is absent is the server's to choose.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MessageDraft {
    /// Its name within the deck; the server makes one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What is said.
    pub body: Value,
    /// Whom it is for; everyone if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<To>,
    /// It is only for subjects of which this CEL expression is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How likely it is beside others; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// What goes first, where the deck goes by priority; 0 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether it is sent at all. What is not active keeps having been sent to those who got it.
    pub active: bool,
    /// From when on it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Time>,
    /// From when on it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Time>,
    /// How often one subject gets it; no bound of its own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Cap>,
    /// What a subject can opt out of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Passes quiet hours and mute, and counts all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub critical: bool,
}

impl MessageDraft {
    /// Says this, to everyone.
    pub fn new(body: impl Into<Value>) -> MessageDraft {
        MessageDraft {
            id: None,
            body: body.into(),
            to: None,
            when: None,
            weight: None,
            priority: None,
            active: true,
            starts_at: None,
            ends_at: None,
            cap: None,
            tags: Vec::new(),
            critical: false,
        }
    }

    /// With this identifier.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> MessageDraft {
        self.id = Some(id.into());
        self
    }

    /// To these only.
    #[must_use]
    pub fn to(mut self, to: To) -> MessageDraft {
        self.to = Some(to);
        self
    }

    /// So often to one subject.
    #[must_use]
    pub fn cap(mut self, cap: Cap) -> MessageDraft {
        self.cap = Some(cap);
        self
    }
}

impl From<&Message> for MessageDraft {
    fn from(message: &Message) -> MessageDraft {
        MessageDraft {
            id: Some(message.id.clone()),
            body: message.body.clone(),
            to: Some(message.to.clone()),
            when: message.when.clone(),
            weight: Some(message.weight),
            priority: Some(message.priority),
            active: message.active,
            starts_at: message.starts_at,
            ends_at: message.ends_at,
            cap: message.cap.clone(),
            tags: message.tags.clone(),
            critical: message.critical,
        }
    }
}

/// The verbs of `/v1/decks/{deck}/messages`.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    client: &'a Client,
    deck: String,
    key: Option<String>,
}

impl<'a> Messages<'a> {
    pub(super) fn new(client: &'a Client, deck: String) -> Messages<'a> {
        Messages { client, deck, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Messages<'a> {
        self.key = Some(key.into());
        self
    }

    /// One page of the deck's messages.
    pub async fn list(&self, page: &PageRequest) -> Result<Page<Message>, ClientError> {
        self.client.page(&["v1", "decks", &self.deck, "messages"], page).await
    }

    /// Every message of the deck, page after page.
    pub async fn list_all(&self) -> Result<Vec<Message>, ClientError> {
        self.client.pages(&["v1", "decks", &self.deck, "messages"]).await
    }

    /// One message.
    pub async fn get(&self, id: &str) -> Result<Message, ClientError> {
        self.client.read(&["v1", "decks", &self.deck, "messages", id], &[]).await
    }

    /// Saves a new message.
    pub async fn create(&self, message: &MessageDraft) -> Result<Message, ClientError> {
        self.client.write(Method::POST, &["v1", "decks", &self.deck, "messages"], self.key.as_deref(), message).await
    }

    /// Saves new messages, all or none, 1,000 at most.
    pub async fn create_all(&self, messages: &[MessageDraft]) -> Result<Vec<Message>, ClientError> {
        let saved: Page<Message> =
            self.client.write(Method::POST, &["v1", "decks", &self.deck, "messages"], self.key.as_deref(), &messages).await?;
        Ok(saved.items)
    }

    /// Saves a message under this identifier, new or in place of the old one. Who got it keeps having got it.
    pub async fn put(&self, id: &str, message: &MessageDraft) -> Result<Message, ClientError> {
        let path = ["v1", "decks", &self.deck, "messages", id];
        self.client.write(Method::PUT, &path, self.key.as_deref(), &message.clone().id(id)).await
    }

    /// Removes a message. It is forgotten who got it.
    pub async fn delete(&self, id: &str) -> Result<(), ClientError> {
        self.client.remove(&["v1", "decks", &self.deck, "messages", id], self.key.as_deref()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_as_written() {
        for to in [r#""everyone""#, r#"{"subjects":["ann"]}"#, r#"{"tags":["vip"]}"#] {
            let text = format!(
                r#"{{"id":"m","body":{{"n":[1,null]}},"to":{to},"when":"true","weight":2,"priority":-1,"active":false,"starts_at":"2026-02-03T04:05:06.789Z","cap":null,"tags":[],"critical":true,"ordinal":7,"version":3}}"#
            );
            let message: Message = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&message).unwrap(), text);
        }
        assert_eq!(serde_json::to_string(&MessageDraft::new("hi")).unwrap(), r#"{"body":"hi","active":true}"#);
    }
}
