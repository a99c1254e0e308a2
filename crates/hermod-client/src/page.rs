//! Lists come in pages.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::ClientError;

/// Which page of a list; the first one of the server's usual size by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageRequest {
    /// At most this many items.
    pub limit: Option<u32>,
    /// Where to go on: the `next` of the page before.
    pub cursor: Option<String>,
}

impl PageRequest {
    /// At most this many items.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> PageRequest {
        self.limit = Some(limit);
        self
    }

    /// The page that follows the one whose `next` this is.
    #[must_use]
    pub fn cursor(mut self, cursor: impl Into<String>) -> PageRequest {
        self.cursor = Some(cursor.into());
        self
    }

    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        let cursor = self.cursor.clone().map(|cursor| ("cursor", cursor));
        limit.into_iter().chain(cursor).collect()
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// The cursor of the next page; absent on the last one.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A list that fits on one page.
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next: None }
    }
}

impl Client {
    /// One page of the list at `path`.
    pub(crate) async fn page<T: DeserializeOwned>(&self, path: &[&str], request: &PageRequest) -> Result<Page<T>, ClientError> {
        self.read(path, &request.query()).await
    }

    /// Every item of the list at `path`.
    pub(crate) async fn pages<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Vec<T>, ClientError> {
        let mut request = PageRequest::default();
        let mut all = Vec::new();
        loop {
            let page: Page<T> = self.page(path, &request).await?;
            // An empty page or a repeated cursor would never end.
            let ends = page.next.is_none() || page.items.is_empty() || page.next == request.cursor;
            all.extend(page.items);
            if ends {
                return Ok(all);
            }
            request.cursor = page.next;
        }
    }
}
