//! The server's clock, where it stands still until told otherwise: `hermod dev --manual-clock`.

use std::time::Duration;

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
}

impl<'a> Clock<'a> {
    pub(crate) fn new(client: &'a Client) -> Clock<'a> {
        Clock { client }
    }

    /// What the clock shows.
    pub async fn get(&self) -> Result<ClockTime, ClientError> {
        self.client.read(&["v1", "clock"], &[]).await
    }

    /// Moves the clock forward. Tried again only if it cannot have moved.
    pub async fn advance(&self, by: Duration) -> Result<ClockTime, ClientError> {
        let body = Advance { advance: humantime::format_duration(by).to_string() };
        self.client.charge(&["v1", "clock"], None, false, &body).await
    }
}
