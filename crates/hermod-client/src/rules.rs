//! The rules: limits on actions.

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};

/// A limit on an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rule {
    /// Its identifier.
    pub id: String,
    /// The policy it belongs to. Rules of one name override each other, rules of different names add up.
    pub name: String,
    /// The action it limits.
    pub action: String,
    /// Whom it is for; everyone if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// How many tokens per period.
    pub limit: u64,
    /// The period: `30s`, `1h 30m`.
    pub per: String,
    /// How it is counted.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// The most that can be taken at once; `limit` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Whether an answer waits until the charge is on disk.
    #[serde(default)]
    pub durable: bool,
    /// Grows with every change.
    #[serde(default)]
    pub version: u64,
}

/// A rule to be saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RuleDraft {
    /// Its identifier; the server makes one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The policy it belongs to; `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The action it limits.
    pub action: String,
    /// Whom it is for; everyone if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// How many tokens per period.
    pub limit: u64,
    /// The period: `30s`, `5m`, or `second`, `minute`, `hour`, `day`.
    pub per: String,
    /// How it is counted.
    pub algorithm: Algorithm,
    /// The most that can be taken at once; `limit` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Whether an answer waits until the charge is on disk.
    pub durable: bool,
}

impl RuleDraft {
    /// `limit` times `action` in every `per`, for everyone.
    pub fn new(action: impl Into<String>, limit: u64, per: impl Into<String>) -> RuleDraft {
        RuleDraft {
            id: None,
            name: None,
            action: action.into(),
            subject: None,
            limit,
            per: per.into(),
            algorithm: Algorithm::default(),
            burst: None,
            durable: false,
        }
    }

    /// With this identifier.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> RuleDraft {
        self.id = Some(id.into());
        self
    }

    /// As part of this policy.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> RuleDraft {
        self.name = Some(name.into());
        self
    }

    /// For this subject only.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> RuleDraft {
        self.subject = Some(subject.into());
        self
    }

    /// Counted this way.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> RuleDraft {
        self.algorithm = algorithm;
        self
    }

    /// With at most this many at once.
    #[must_use]
    pub fn burst(mut self, burst: u64) -> RuleDraft {
        self.burst = Some(burst);
        self
    }

    /// With answers that wait until the charge is on disk.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> RuleDraft {
        self.durable = durable;
        self
    }
}

/// How a rule is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Algorithm {
    /// Tokens drip back evenly; up to `burst` at once.
    #[default]
    TokenBucket,
    /// One that this client does not know, by the server's name for it.
    Other(String),
}

impl From<String> for Algorithm {
    fn from(text: String) -> Algorithm {
        if text == "token_bucket" { Algorithm::TokenBucket } else { Algorithm::Other(text) }
    }
}

impl From<Algorithm> for String {
    fn from(algorithm: Algorithm) -> String {
        match algorithm {
            Algorithm::TokenBucket => "token_bucket".to_owned(),
            Algorithm::Other(text) => text,
        }
    }
}

/// The verbs of `/v1/rules`.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    client: &'a Client,
    key: Option<String>,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(client: &'a Client) -> Rules<'a> {
        Rules { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Rules<'a> {
        self.key = Some(key.into());
        self
    }

    /// One page of the rules.
    pub async fn list(&self, page: &PageRequest) -> Result<Page<Rule>, ClientError> {
        self.client.page(&["v1", "rules"], page).await
    }

    /// Every rule, page after page.
    pub async fn list_all(&self) -> Result<Vec<Rule>, ClientError> {
        self.client.pages(&["v1", "rules"]).await
    }

    /// One rule.
    pub async fn get(&self, id: &str) -> Result<Rule, ClientError> {
        self.client.read(&["v1", "rules", id], &[]).await
    }

    /// Saves a new rule.
    pub async fn create(&self, rule: &RuleDraft) -> Result<Rule, ClientError> {
        self.client.write(Method::POST, &["v1", "rules"], self.key.as_deref(), rule).await
    }

    /// Saves a rule under this identifier, new or in place of the old one. What is used stays used.
    pub async fn put(&self, id: &str, rule: &RuleDraft) -> Result<Rule, ClientError> {
        self.client.write(Method::PUT, &["v1", "rules", id], self.key.as_deref(), &rule.clone().id(id)).await
    }

    /// Removes a rule.
    pub async fn delete(&self, id: &str) -> Result<(), ClientError> {
        self.client.remove(&["v1", "rules", id], self.key.as_deref()).await
    }
}
