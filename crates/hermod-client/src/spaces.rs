//! The spaces: isolated tenants.

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};
use crate::time::Time;

/// An isolated tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Space {
    /// Its name.
    pub space: String,
    /// When it was made.
    pub created_at: Time,
}

/// What a new space is made from.
#[derive(Serialize)]
struct SpaceDraft<'a> {
    space: &'a str,
}

/// The verbs of `/v1/spaces`.
#[derive(Clone, Debug)]
pub struct Spaces<'a> {
    client: &'a Client,
    key: Option<String>,
}

impl<'a> Spaces<'a> {
    pub(crate) fn new(client: &'a Client) -> Spaces<'a> {
        Spaces { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Spaces<'a> {
        self.key = Some(key.into());
        self
    }

    /// One page of the spaces.
    pub async fn list(&self, page: &PageRequest) -> Result<Page<Space>, ClientError> {
        self.client.page(&["v1", "spaces"], page).await
    }

    /// Every space, page after page.
    pub async fn list_all(&self) -> Result<Vec<Space>, ClientError> {
        self.client.pages(&["v1", "spaces"]).await
    }

    /// Makes a space.
    pub async fn create(&self, space: &str) -> Result<Space, ClientError> {
        self.client.write(Method::POST, &["v1", "spaces"], self.key.as_deref(), &SpaceDraft { space }).await
    }
}
