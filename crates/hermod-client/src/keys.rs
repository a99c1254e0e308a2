//! The API keys: who may ask what, in which space.

use std::fmt;

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};
use crate::time::Time;

/// An API key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Key {
    /// Its identifier, which opens nothing.
    pub id: String,
    /// The space it belongs to.
    pub space: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: Time,
    /// The key itself. Only the answer that creates a key has it; nobody can read it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("space", &self.space)
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .field("created_at", &self.created_at)
            .field("secret", &self.secret.as_ref().map(|_| "***"))
            .finish()
    }
}

/// A key to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeyDraft {
    /// What people will call it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The space it belongs to; the asking key's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
}

impl KeyDraft {
    /// A key of this name with these scopes.
    pub fn new(name: impl Into<String>, scopes: impl IntoIterator<Item = Scope>) -> KeyDraft {
        KeyDraft { name: name.into(), scopes: scopes.into_iter().collect(), space: None }
    }

    /// For this space.
    #[must_use]
    pub fn space(mut self, space: impl Into<String>) -> KeyDraft {
        self.space = Some(space.into());
        self
    }
}

/// Something a key may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Scope {
    /// Everything in its space, keys included.
    Admin,
    /// Making spaces, and keys for them.
    Spaces,
    /// Reading rules.
    RulesRead,
    /// Changing rules.
    RulesWrite,
    /// Checking limits.
    LimitCheck,
    /// Reading queues.
    QueuesRead,
    /// Changing queues and what recurs in them.
    QueuesWrite,
    /// Putting deliveries into queues.
    QueuesPush,
    /// Claiming deliveries and finishing them.
    QueuesClaim,
    /// Reading decks and their messages.
    DecksRead,
    /// Changing decks and their messages.
    DecksWrite,
    /// Picking messages.
    DecksPick,
    /// Reading the definitions of realms and what their books say, and simulating plays.
    RealmsRead,
    /// Changing the definitions of realms.
    RealmsWrite,
    /// Playing in realms, and all else that moves something there.
    RealmsPlay,
    /// Reading events.
    EventsRead,
    /// One that this client does not know, by the server's name for it.
    Other(String),
}

impl Scope {
    /// The API's name for it.
    pub fn as_str(&self) -> &str {
        match self {
            Scope::Admin => "admin",
            Scope::Spaces => "spaces",
            Scope::RulesRead => "rules:read",
            Scope::RulesWrite => "rules:write",
            Scope::LimitCheck => "limit:check",
            Scope::QueuesRead => "queues:read",
            Scope::QueuesWrite => "queues:write",
            Scope::QueuesPush => "queues:push",
            Scope::QueuesClaim => "queues:claim",
            Scope::DecksRead => "decks:read",
            Scope::DecksWrite => "decks:write",
            Scope::DecksPick => "decks:pick",
            Scope::RealmsRead => "realms:read",
            Scope::RealmsWrite => "realms:write",
            Scope::RealmsPlay => "realms:play",
            Scope::EventsRead => "events:read",
            Scope::Other(text) => text,
        }
    }
}

impl From<String> for Scope {
    fn from(text: String) -> Scope {
        let known = [
            Scope::Admin,
            Scope::Spaces,
            Scope::RulesRead,
            Scope::RulesWrite,
            Scope::LimitCheck,
            Scope::QueuesRead,
            Scope::QueuesWrite,
            Scope::QueuesPush,
            Scope::QueuesClaim,
            Scope::DecksRead,
            Scope::DecksWrite,
            Scope::DecksPick,
            Scope::RealmsRead,
            Scope::RealmsWrite,
            Scope::RealmsPlay,
            Scope::EventsRead,
        ];
        known.into_iter().find(|scope| scope.as_str() == text).unwrap_or(Scope::Other(text))
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        scope.as_str().to_owned()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The verbs of `/v1/keys`.
#[derive(Clone, Debug)]
pub struct Keys<'a> {
    client: &'a Client,
    key: Option<String>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(client: &'a Client) -> Keys<'a> {
        Keys { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Keys<'a> {
        self.key = Some(key.into());
        self
    }

    /// One page of the keys, without their secrets.
    pub async fn list(&self, page: &PageRequest) -> Result<Page<Key>, ClientError> {
        self.client.page(&["v1", "keys"], page).await
    }

    /// Every key, page after page.
    pub async fn list_all(&self) -> Result<Vec<Key>, ClientError> {
        self.client.pages(&["v1", "keys"]).await
    }

    /// Makes a key. Its secret is in this answer and nowhere else; a replayed answer has none.
    pub async fn create(&self, key: &KeyDraft) -> Result<Key, ClientError> {
        self.client.write(Method::POST, &["v1", "keys"], self.key.as_deref(), key).await
    }

    /// Revokes a key.
    pub async fn delete(&self, id: &str) -> Result<(), ClientError> {
        self.client.remove(&["v1", "keys", id], self.key.as_deref()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let text = r#"{"id":"k","space":"default","name":"n","scopes":["rules:read","moon"],"created_at":"2026-02-03T04:05:06.789Z","secret":"hk_x"}"#;
        let key: Key = serde_json::from_str(text).unwrap();
        assert!(!format!("{key:?}").contains("hk_x"));
        assert_eq!(key.scopes, [Scope::RulesRead, Scope::Other("moon".into())]);
        assert_eq!(serde_json::to_string(&key).unwrap(), text);
    }
}
