//! Deliveries as they fall due, over one connection: server-sent events.

use super::Queues;
use super::delivery::Claimed;
use crate::error::ClientError;
use crate::sse::Sse;

/// Deliveries as they fall due. Dropped, it gives back what it holds, at once.
#[derive(Debug)]
pub struct DeliveryStream {
    events: Sse,
}

impl Queues<'_> {
    /// Opens a stream on which up to `credits` deliveries are held at once: each must be acked or nacked before another one
    /// comes in its place. They are held for as long as the stream is.
    pub async fn stream(&self, queue: &str, credits: u32) -> Result<DeliveryStream, ClientError> {
        self.open(queue, vec![("credits", credits.to_string())]).await
    }

    /// The same by a worker of a sticky queue, which lives for as long as the stream is open. Without an incarnation it
    /// registers first. The stream ends if another registers under its name.
    pub async fn stream_by(
        &self,
        queue: &str,
        credits: u32,
        worker: &str,
        incarnation: Option<u64>,
    ) -> Result<DeliveryStream, ClientError> {
        let mut query = vec![("credits", credits.to_string()), ("worker", worker.to_owned())];
        query.extend(incarnation.map(|incarnation| ("incarnation", incarnation.to_string())));
        self.open(queue, query).await
    }

    async fn open(&self, queue: &str, query: Vec<(&str, String)>) -> Result<DeliveryStream, ClientError> {
        let response = self.client.stream(&["v1", "queues", queue, "stream"], &query, None).await?;
        Ok(DeliveryStream { events: Sse::new(response) })
    }
}

impl DeliveryStream {
    /// The next delivery; none when the server ends the stream. Giving it up half way loses nothing. After an error
    /// the stream is over: open another one.
    pub async fn next(&mut self) -> Result<Option<Claimed>, ClientError> {
        while let Some(event) = self.events.next().await? {
            if event.name == "delivery" {
                return event.json().map(Some);
            }
        }
        Ok(None)
    }
}
