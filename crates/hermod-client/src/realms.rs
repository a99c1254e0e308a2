//! The realms: economies that are defined as data, what is done in them, and what their books say.

mod answer;
mod board;
mod books;
mod commit;
mod enact;
mod follow;
mod play;

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};

pub use answer::{AlsoPlayed, RealmAnswer, RealmEvent, RealmOutlook, RealmSpread, RealmStatus, SimulateRequest};
pub use board::{BoardRequest, RealmBoard, RealmRank};
pub use books::{
    AssetSupply, HoldStatus, RealmAccount, RealmAudit, RealmCommit, RealmDraw, RealmEventPage, RealmEventsRequest, RealmHaving, RealmHold,
    RealmNumber, RealmStream, RealmSupply,
};
pub use commit::{CaptureRequest, CommitRequest, EffectMerge, HoldRequest, Overflow, RealmClaim, RealmCondition, RealmEffect, RealmLeg};
pub use follow::{RealmEventStream, RealmFollowed};
pub use play::{PlayRequest, RealmTerms};

/// The verbs of `/v1/realms`.
///
/// ```no_run
/// # async fn example(client: hermod_client::Client) -> Result<(), hermod_client::ClientError> {
/// let definition = serde_json::json!({
///     "assets": {"coin": {"kind": "currency", "board": true}},
///     "timers": {"daily": {"every": "24h"}},
///     "plays": {"daily": {"do": [
///         {"claim": {"timer": "daily"}},
///         {"move": {"from": "@mint", "to": "by", "asset": "coin", "qty": 32}},
///     ]}},
/// });
/// let saved = client.realms().put("guild", &definition).await?;
/// println!("version {}, changed: {:?}", saved.version, saved.changed);
///
/// let played = client.realms().play("guild", "daily", &hermod_client::PlayRequest::new("111")).await?;
/// match played.retry_at {
///     Some(at) => println!("not before {at}"),
///     None => println!("now {:?}", played.balance("111", "coin")),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Realms<'a> {
    client: &'a Client,
    key: Option<String>,
}

/// A realm, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmSummary {
    /// Its name.
    pub realm: String,
    /// Grows with every change of the definition.
    pub version: u64,
    /// Of the definition: the same for the same content.
    pub hash: String,
    /// For people.
    #[serde(default)]
    pub description: String,
    /// How many assets there are.
    pub assets: usize,
    /// How many plays there are.
    pub plays: usize,
}

/// A realm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Realm {
    /// Its name.
    pub realm: String,
    /// Grows with every change of the definition.
    pub version: u64,
    /// Of the definition: the same for the same content.
    pub hash: String,
    /// What it is made of.
    pub definition: Value,
}

/// A realm that was saved, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SavedRealm {
    /// Its name.
    pub realm: String,
    /// The same as before where nothing changed.
    pub version: u64,
    /// Of the definition: the same for the same content.
    pub hash: String,
    /// Whether there was none of this name.
    pub created: bool,
    /// The paths of what differs from before: `plays.gamble`.
    pub changed: Vec<String>,
    /// What it is made of, as the server shows it.
    pub definition: Value,
}

impl<'a> Realms<'a> {
    pub(crate) fn new(client: &'a Client) -> Realms<'a> {
        Realms { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Realms<'a> {
        self.key = Some(key.into());
        self
    }

    /// One page of the realms.
    pub async fn list(&self, page: &PageRequest) -> Result<Page<RealmSummary>, ClientError> {
        self.client.page(&["v1", "realms"], page).await
    }

    /// Every realm, page after page.
    pub async fn list_all(&self) -> Result<Vec<RealmSummary>, ClientError> {
        self.client.pages(&["v1", "realms"]).await
    }

    /// One realm with its definition.
    pub async fn get(&self, realm: &str) -> Result<Realm, ClientError> {
        self.client.read(&["v1", "realms", realm], &[]).await
    }

    /// Saves a definition under this name, new or in place of the old one as a whole. What is owned in the realm stays.
    pub async fn put(&self, realm: &str, definition: &Value) -> Result<SavedRealm, ClientError> {
        self.client.write(Method::PUT, &["v1", "realms", realm], self.key.as_deref(), definition).await
    }

    /// What [`Realms::put`] would answer. Nothing is changed.
    pub async fn dry_run(&self, realm: &str, definition: &Value) -> Result<SavedRealm, ClientError> {
        self.client.say_by(Method::PUT, &["v1", "realms", realm], &[("dry_run", "true")], definition).await
    }
}
