//! The rules: limits on actions.

mod draft;
mod rule;
mod words;

use reqwest::Method;

use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};

pub use draft::RuleDraft;
pub use rule::Rule;
pub use words::{Algorithm, OnExpiry, OnStoreError, RuleMode, RuleScope};

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
