//! What is sent to a queue: lists and lines of deliveries, claims and acknowledgements.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::PAYLOAD_BYTES;
use super::wire::Wire;

/// A server, and who asks.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: String,
    key: String,
}

impl Target {
    pub(super) fn new(url: &str, key: &str) -> Target {
        Target { address: url.rsplit('/').next().unwrap_or_default().to_owned(), key: key.to_owned() }
    }

    /// The head of a request, before its body.
    pub(super) fn head(&self, method: &str, path: &str, kind: &str, length: usize) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n\r\n",
            self.key
        )
    }

    pub(super) fn json(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let mut request = self.head(method, path, "application/json", body.len());
        request.push_str(body);
        request.into_bytes()
    }

    /// Makes a queue with the defaults.
    pub(super) async fn make(&self, queue: &str) -> Result<()> {
        let request = self.json("PUT", &format!("/v1/queues/{queue}"), "{}");
        Wire::open(&self.address).await?.ask(&request).await?;
        Ok(())
    }

    /// Sends lists of 1,000 over so many connections; how many deliveries a second.
    pub(super) async fn push_lists(&self, queue: &str, lists: usize, connections: usize, within: &str) -> Result<f64> {
        let list: Vec<String> = (0..1_000).map(|_| delivery(within)).collect();
        let request = Arc::new(self.json("POST", &format!("/v1/queues/{queue}/deliveries"), &format!("[{}]", list.join(","))));
        let left = Arc::new(AtomicUsize::new(lists));
        let mut set = JoinSet::new();
        let began = Instant::now();
        for _ in 0..connections {
            let (address, request, left) = (self.address.clone(), Arc::clone(&request), Arc::clone(&left));
            set.spawn(async move {
                let mut wire = Wire::open(&address).await?;
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    let answer = wire.ask(&request).await?;
                    ensure!(count(answer, b"\"added\"") == 1_000, "not all were added: {}", String::from_utf8_lossy(answer));
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = set.join_next().await {
            done??;
        }
        Ok(super::float(lists * 1_000) / began.elapsed().as_secs_f64())
    }

    /// Sends lines over one connection; how many deliveries a second.
    pub(super) async fn push_lines(&self, queue: &str, lines: Vec<u8>) -> Result<f64> {
        let wanted = lines.iter().filter(|byte| **byte == b'\n').count();
        let head = self.head("POST", &format!("/v1/queues/{queue}/deliveries"), "application/x-ndjson", lines.len());
        let wire = Wire::open(&self.address).await?;
        let (mut answered, mut added) = (0, 0);
        let began = Instant::now();
        let take = |piece: &[u8]| {
            answered += piece.iter().filter(|byte| **byte == b'\n').count();
            added += count(piece, b"\"added\"");
        };
        wire.stream(head.into_bytes(), lines, take).await?;
        let took = began.elapsed();
        ensure!(answered == wanted && added == wanted, "{wanted} lines, {answered} answers, {added} of them added");
        Ok(super::float(wanted) / took.as_secs_f64())
    }

    /// Claims and acknowledges, so many at a time over so many connections, until all are done; how many a second.
    pub(super) async fn drain(&self, queue: &str, all: usize, connections: usize, at_once: usize) -> Result<f64> {
        let ask = format!(r#"{{"count":{at_once}}}"#);
        let claim = Arc::new(self.json("POST", &format!("/v1/queues/{queue}/claim"), &ask));
        let done = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        let began = Instant::now();
        for _ in 0..connections {
            let (target, claim, done, queue) = (self.clone(), Arc::clone(&claim), Arc::clone(&done), queue.to_owned());
            set.spawn(async move {
                let mut wire = Wire::open(&target.address).await?;
                while done.load(Ordering::Relaxed) < all {
                    ensure!(began.elapsed() < Duration::from_secs(120), "deliveries are missing");
                    let acks = acks(wire.ask(&claim).await?)?;
                    let Some((count, body)) = acks else {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        continue;
                    };
                    let answer = wire.ask(&target.json("POST", &format!("/v1/queues/{queue}/ack"), &body)).await?;
                    ensure!(self::count(answer, b"\"done\"") == count, "not done: {}", String::from_utf8_lossy(answer));
                    done.fetch_add(count, Ordering::Relaxed);
                }
                anyhow::Ok(())
            });
        }
        while let Some(joined) = set.join_next().await {
            joined??;
        }
        ensure!(done.load(Ordering::Relaxed) == all, "more were handed out than pushed");
        Ok(super::float(all) / began.elapsed().as_secs_f64())
    }
}

/// A delivery due after this, with 100 bytes of JSON.
pub(super) fn delivery(within: &str) -> String {
    format!(r#"{{"in":"{within}","payload":"{}"}}"#, "x".repeat(PAYLOAD_BYTES - 2))
}

/// Lines of deliveries; of the how many'th `within` says when it is due.
pub(super) fn lines(count: usize, within: impl Fn(usize) -> String) -> Vec<u8> {
    let mut out = String::with_capacity(count * (PAYLOAD_BYTES + 40));
    for n in 0..count {
        out.push_str(&delivery(&within(n)));
        out.push('\n');
    }
    out.into_bytes()
}

/// How often this stands there.
fn count(text: &[u8], wanted: &[u8]) -> usize {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.matches(std::str::from_utf8(wanted).unwrap_or_default()).count()
}

/// What one that was handed out is settled with: its id and its token.
pub(super) fn handed(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(r#"{"id":""#).skip(1).filter_map(|rest| {
        let (id, rest) = rest.split_once('"')?;
        let rest = rest.strip_prefix(r#","token":"#)?;
        Some((id, rest.split_once(',')?.0))
    })
}

/// Acknowledges all of a claim's answer: how many, and the body that does.
fn acks(answer: &[u8]) -> Result<Option<(usize, String)>> {
    let (mut body, mut count) = (String::from(r#"{"deliveries":["#), 0);
    for (id, token) in handed(std::str::from_utf8(answer)?) {
        let comma = if count > 0 { "," } else { "" };
        write!(body, r#"{comma}{{"id":"{id}","token":{token}}}"#)?;
        count += 1;
    }
    body.push_str("]}");
    Ok((count > 0).then_some((count, body)))
}
