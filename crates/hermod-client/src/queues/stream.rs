//! Deliveries as they fall due, over one connection: server-sent events.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::Response;
use tokio::time::timeout;

use super::Queues;
use super::delivery::Claimed;
use crate::call::transport;
use crate::error::ClientError;

/// The server says every five seconds that it is there; who says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// An event is at most so long: a payload in base64 and all else, with room to spare.
const EVENT_MAX: usize = 2 << 20;

/// Deliveries as they fall due. Dropped, it gives back what it holds, at once.
#[derive(Debug)]
pub struct DeliveryStream {
    response: Response,
    events: Events,
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
        let response = self.client.events(&["v1", "queues", queue, "stream"], &query).await?;
        Ok(DeliveryStream { response, events: Events::default() })
    }
}

impl DeliveryStream {
    /// The next delivery; none when the server ends the stream. Giving it up half way loses nothing. After an error
    /// the stream is over: open another one.
    pub async fn next(&mut self) -> Result<Option<Claimed>, ClientError> {
        loop {
            if let Some(data) = self.events.ready.pop_front() {
                let bad = |fault: serde_json::Error| ClientError::BadAnswer { status: 200, detail: fault.to_string(), retry_after: None };
                return serde_json::from_slice(&data).map(Some).map_err(bad);
            }
            let chunk = timeout(SILENCE_MAX, self.response.chunk()).await.map_err(|_| ClientError::Timeout)?;
            match chunk.map_err(transport)? {
                None => return Ok(None),
                Some(chunk) if self.events.read(&chunk) => {}
                Some(_) => {
                    let detail = format!("an event has more than {EVENT_MAX} bytes");
                    return Err(ClientError::BadAnswer { status: 200, detail, retry_after: None });
                }
            }
        }
    }
}

/// Reads server-sent events; of them only those named `delivery` are kept.
#[derive(Debug, Default)]
struct Events {
    line: Vec<u8>,
    is_delivery: bool,
    data: Vec<u8>,
    /// The data of events that are complete.
    ready: VecDeque<Vec<u8>>,
}

impl Events {
    /// Takes what came; whether it is within bounds.
    fn read(&mut self, chunk: &[u8]) -> bool {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() + self.data.len() > EVENT_MAX {
                return false;
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.end_line(line.trim_ascii_end());
            }
        }
        true
    }

    fn end_line(&mut self, line: &[u8]) {
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            if std::mem::take(&mut self.is_delivery) && !data.is_empty() {
                self.ready.push_back(data);
            }
            return;
        }
        let value = |name: &[u8]| line.strip_prefix(name).map(|value| value.strip_prefix(b" ").unwrap_or(value));
        if let Some(name) = value(b"event:") {
            self.is_delivery = name == b"delivery";
        } else if let Some(data) = value(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b":\n\nevent: delivery\nid: dl_1\ndata: {\"a\":\ndata: 1}\n\nevent: news\ndata: no\n\nevent:delivery\r\ndata:2\r\n\r\n";

    #[test]
    fn events_are_read_however_they_are_cut() {
        for size in 1..TEXT.len() {
            let mut events = Events::default();
            assert!(TEXT.chunks(size).all(|chunk| events.read(chunk)));
            let ready: Vec<_> = events.ready.iter().map(|data| String::from_utf8_lossy(data).into_owned()).collect();
            assert_eq!(ready, ["{\"a\":\n1}", "2"], "cut by {size}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut events = Events::default();
        assert!(events.read(&vec![b'x'; EVENT_MAX]) && !events.read(b"x"));
    }
}
