//! Whether the server lives, and whether it can answer.
//!
//! "Not ready" is an answer, not an error: both calls ask once and give back what the server said.

use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::ClientError;

/// How the server is. Each word is `ok` or says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Health {
    /// The server as a whole.
    pub status: String,
    /// The engine's store.
    #[serde(default)]
    pub store: Option<String>,
    /// The catalog of definitions.
    #[serde(default)]
    pub catalog: Option<String>,
}

impl Health {
    /// Whether all is well.
    pub fn is_ok(&self) -> bool {
        self.status == "ok"
    }
}

impl Client {
    /// Whether the process lives.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.probe(&["healthz"]).await
    }

    /// Whether it can answer: its store and its catalog are there.
    pub async fn ready(&self) -> Result<Health, ClientError> {
        self.probe(&["readyz"]).await
    }
}
