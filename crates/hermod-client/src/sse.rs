//! Reads server-sent events.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::Response;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::call::transport;
use crate::error::ClientError;

/// The server says every five seconds that it is there; who says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// An event is at most so long: a payload in base64 and all else, with room to spare.
const EVENT_MAX: usize = 2 << 20;

/// An open stream.
#[derive(Debug)]
pub(crate) struct Sse {
    response: Response,
    lines: Lines,
}

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// What kind.
    pub(crate) name: String,
    /// Where to go on; empty: it does not say.
    pub(crate) id: String,
    /// What it is about; empty if it only says where to go on.
    pub(crate) data: Vec<u8>,
}

impl SseEvent {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.data).map_err(|fault| bad(fault.to_string()))
    }
}

impl Sse {
    pub(crate) fn new(response: Response) -> Sse {
        Sse { response, lines: Lines::default() }
    }

    /// The next event; none when the server ends the stream. Giving it up half way loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        loop {
            if let Some(event) = self.lines.ready.pop_front() {
                return Ok(Some(event));
            }
            let chunk = timeout(SILENCE_MAX, self.response.chunk()).await.map_err(|_| ClientError::Timeout)?;
            match chunk.map_err(transport)? {
                None => return Ok(None),
                Some(chunk) if self.lines.read(&chunk) => {}
                Some(_) => return Err(bad(format!("an event has more than {EVENT_MAX} bytes"))),
            }
        }
    }
}

fn bad(detail: String) -> ClientError {
    ClientError::BadAnswer { status: 200, detail, retry_after: None }
}

/// What came so far.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    event: SseEvent,
    /// Events that are complete.
    ready: VecDeque<SseEvent>,
}

impl Lines {
    /// Takes what came; whether it is within bounds.
    fn read(&mut self, chunk: &[u8]) -> bool {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() + self.event.data.len() > EVENT_MAX {
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
            let event = std::mem::take(&mut self.event);
            if !event.data.is_empty() || !event.id.is_empty() {
                self.ready.push_back(event);
            }
            return;
        }
        let value = |name: &[u8]| line.strip_prefix(name).map(|value| value.strip_prefix(b" ").unwrap_or(value));
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        if let Some(name) = value(b"event:") {
            self.event.name = text(name);
        } else if let Some(id) = value(b"id:") {
            self.event.id = text(id);
        } else if let Some(data) = value(b"data:") {
            if !self.event.data.is_empty() {
                self.event.data.push(b'\n');
            }
            self.event.data.extend_from_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b":\n\nevent: delivery\nid: dl_1\ndata: {\"a\":\ndata: 1}\n\nid: x\n\nevent: none\n\nevent:delivery\r\ndata:2\r\n\r\n";

    #[test]
    fn events_are_read_however_they_are_cut() {
        for size in 1..TEXT.len() {
            let mut lines = Lines::default();
            assert!(TEXT.chunks(size).all(|chunk| lines.read(chunk)));
            let event = |name: &str, id: &str, data: &str| SseEvent { name: name.into(), id: id.into(), data: data.into() };
            let expected = [event("delivery", "dl_1", "{\"a\":\n1}"), event("", "x", ""), event("delivery", "", "2")];
            assert_eq!(lines.ready, expected, "cut by {size}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut lines = Lines::default();
        assert!(lines.read(&vec![b'x'; EVENT_MAX]) && !lines.read(b"x"));
    }
}
