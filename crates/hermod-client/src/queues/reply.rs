//! Asking through a queue: whoever pushes waits for what the holder replies.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Queues;
use super::claim::{Held, SettledDelivery};
use super::delivery::NewDelivery;
use crate::error::ClientError;

#[derive(Serialize)]
struct Asked<'a, P> {
    #[serde(flatten)]
    delivery: &'a NewDelivery<P>,
    reply: Wanted,
}

#[derive(Serialize)]
struct Wanted {
    timeout: String,
}

#[derive(Deserialize)]
struct Answered<R> {
    reply: R,
}

#[derive(Serialize)]
struct Replying<'a, R> {
    #[serde(flatten)]
    held: &'a Held,
    reply: &'a R,
}

impl Queues<'_> {
    /// Puts a delivery into a queue and waits so long for what its holder replies, in JSON.
    ///
    /// It is not tried again after a lost answer. With [`Queues::idempotency_key`] it can be asked for again, with the
    /// same timeout: nothing is pushed twice, and the answer is what was replied meanwhile. If nobody replies in time the
    /// error's code is `reply_timeout`; the delivery stays.
    pub async fn ask<P: Serialize, R: DeserializeOwned>(
        &self,
        queue: &str,
        delivery: &NewDelivery<P>,
        timeout: Duration,
    ) -> Result<R, ClientError> {
        let reply = Wanted { timeout: format!("{}ms", timeout.as_millis()) };
        let path = ["v1", "queues", queue, "deliveries"];
        let answered: Answered<R> = self.client.wait_for(&path, self.key(), timeout, &Asked { delivery, reply }).await?;
        Ok(answered.reply)
    }

    /// Finishes a delivery with a reply to whoever asked.
    pub async fn reply<R: Serialize>(&self, queue: &str, held: impl Into<Held>, reply: &R) -> Result<SettledDelivery, ClientError> {
        let held = held.into();
        // A token that was used up changes nothing.
        self.client.charge(&["v1", "queues", queue, "ack"], self.key(), true, &Replying { held: &held, reply }).await
    }
}
