//! The server's clock, where it stands still until told otherwise: `hermod dev --manual-clock`.

use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::ClientError;
use crate::time::Time;

/// What the clock shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClockTime {
    /// The server's time.
    pub now: Time,
}

/// How far the clock is to go.
#[derive(Serialize)]
struct Advance {
    advance: String,
}

/// The verbs of `/v1/clock`.
#[derive(Clone, Debug)]
pub struct Clock<'a> {
    client: &'a Client,
    key: Option<String>,
}

impl<'a> Clock<'a> {
    pub(crate) fn new(client: &'a Client) -> Clock<'a> {
        Clock { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Clock<'a> {
        self.key = Some(key.into());
        self
    }

    /// What the clock shows.
    pub async fn get(&self) -> Result<ClockTime, ClientError> {
        self.client.read(&["v1", "clock"], &[]).await
    }

    /// Moves the clock forward.
    pub async fn advance(&self, by: Duration) -> Result<ClockTime, ClientError> {
        let body = Advance { advance: humantime::format_duration(by).to_string() };
        self.client.write(Method::POST, &["v1", "clock"], self.key.as_deref(), &body).await
    }
}
