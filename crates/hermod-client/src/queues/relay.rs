//! Relaying packed DIDComm messages to whom they are for.

use serde::{Deserialize, Serialize};

use super::Queues;
use super::push::Pushed;
use crate::error::ClientError;

/// What became of a message that was relayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Relayed {
    /// Its delivery.
    #[serde(flatten)]
    pub pushed: Pushed,
    /// To whom it goes: a DID; of a bare key its `did:key`.
    pub to: String,
}

impl Queues<'_> {
    /// Puts a packed DIDComm message into a queue, as it is, for the recipient it names. What is no such message is a
    /// [`ClientError::Problem`] whose field is the part that is missing or wrong.
    pub async fn relay(&self, queue: &str, message: impl Into<Vec<u8>>) -> Result<Relayed, ClientError> {
        self.client.write_as_is(&["v1", "queues", queue, "relay"], self.key(), message.into()).await
    }
}
