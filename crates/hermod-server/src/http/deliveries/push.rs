//! queue: `POST /v1/queues/{queue}/deliveries`: one, a list, or lines of them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::StreamExt;
use hermod_core::Once;
use hermod_core::queue::{Delivery, Stored};
use serde::Serialize;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::document::DeliveryBody;
use super::reply::{RepliedDocument, push_and_wait};
use crate::app::{App, Caller, PushAnswer};
use crate::code::{Code, Problem};
use crate::http::Shell;
use crate::http::problem::{Document, Inline};
use crate::http::sent::{Id, Raw, answer, parse};
use crate::http::time::Time;

/// So many deliveries in a list.
const LIST_MAX: usize = 1_000;
/// So many lines are pushed together.
const LINES_MAX: usize = 1_000;
/// No further line is added beyond so many bytes: payloads may be large, and some lines are read while others are pushed.
const LINES_BYTES_MAX: usize = 1 << 20;
/// A line is at most so long: a payload in base64 and all else.
const LINE_MAX: usize = 512 << 10;

/// What became of a delivery that was pushed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Pushed)]
pub(crate) struct PushedDocument {
    id: String,
    /// `added`; of its key there was one: `kept`, `replaced`; or it was finished before: `finished`.
    outcome: &'static str,
    /// When it is due.
    due: Option<Time>,
    /// Whether its time has come.
    state: &'static str,
}

impl PushedDocument {
    pub(super) fn new(pushed: &PushAnswer) -> PushedDocument {
        PushedDocument {
            id: pushed.id.to_string(),
            outcome: match pushed.stored {
                Stored::Added => "added",
                Stored::Kept => "kept",
                Stored::Replaced => "replaced",
                Stored::Finished => "finished",
            },
            due: pushed.due.map(Time),
            state: match pushed.due {
                None => "done",
                Some(due) if due > pushed.now => "scheduled",
                Some(_) => "ready",
            },
        }
    }
}

/// One of several: what became of it, or why it was not taken.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = PushedOrProblem)]
pub(crate) enum One<'a> {
    Pushed(PushedDocument),
    Problem {
        /// Nothing was stored of this one.
        problem: Inline<'a>,
    },
}

impl<'a> One<'a> {
    fn new(pushed: &'a Result<PushAnswer, Problem>) -> One<'a> {
        match pushed {
            Ok(pushed) => One::Pushed(PushedDocument::new(pushed)),
            Err(problem) => One::Problem { problem: Inline::new(problem) },
        }
    }
}

/// What became of several.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PushedList)]
pub(crate) struct PushedList<'a> {
    /// In the order they came.
    items: Vec<One<'a>>,
}

/// Pushes a delivery, a list of up to 1,000, or, as `application/x-ndjson`, any number of lines, each answered by a line.
#[utoipa::path(post, path = "/v1/queues/{queue}/deliveries", tag = "queue", request_body = DeliveryBody<'_>,
    params(("queue" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 201, body = PushedDocument, description = "Of a list or of lines 200, and one for each."),
        (status = 200, body = RepliedDocument<'_>, description = "With reply: what the holder replied."),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn push(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    headers: HeaderMap,
    request: axum::extract::Request,
) -> Result<Response, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if kind.starts_with("application/x-ndjson") || kind.starts_with("application/jsonl") {
        return lines(&shell, caller, queue, &headers, request.into_body());
    }
    let raw = Raw::read(request, &shell).await?;
    let once = raw.once("queue/push")?;
    let text = raw.bytes.trim_ascii_start();
    if !text.starts_with(b"[") {
        let body = parse::<DeliveryBody<'_>>(&raw.bytes)?;
        let delivery = body.delivery()?;
        if let Some(reply) = &body.reply {
            return push_and_wait(&shell, &caller, &queue, delivery, reply, once.as_ref()).await;
        }
        let pushed = shell.app.push(&caller, &queue, vec![delivery], once.as_ref()).await?;
        let pushed = pushed.into_iter().next().ok_or_else(|| Problem::new(Code::Internal, "Nothing was pushed."))??;
        return Ok(answer(StatusCode::CREATED, &PushedDocument::new(&pushed)));
    }
    let bodies: Vec<&serde_json::value::RawValue> =
        serde_json::from_slice(&raw.bytes).map_err(|_| Problem::new(Code::InvalidJson, "The body is no list of JSON objects."))?;
    if bodies.len() > LIST_MAX {
        let many = format!("The list has {} deliveries; {LIST_MAX} are taken at once. Send lines as application/x-ndjson.", bodies.len());
        return Err(Problem::new(Code::BodyTooLarge, many));
    }
    let read = |body: &&serde_json::value::RawValue| read(body.get().as_bytes());
    let pushed = push_some(&shell.app, &caller, &queue, bodies.iter().map(read).collect(), once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &PushedList { items: pushed.iter().map(One::new).collect() }))
}

fn read(text: &[u8]) -> Result<Delivery, Problem> {
    let body = parse::<DeliveryBody<'_>>(text)?;
    if body.reply.is_some() {
        return Err(Problem::new(Code::InvalidField, "reply is for one delivery, not for one of several.").in_field("reply"));
    }
    Ok(body.delivery()?)
}

/// Pushes those that could be read; what became of each, in order.
async fn push_some(
    app: &App,
    caller: &Caller,
    queue: &str,
    read: Vec<Result<Delivery, Problem>>,
    once: Option<&Once>,
) -> Result<Vec<Result<PushAnswer, Problem>>, Problem> {
    let mut good = Vec::with_capacity(read.len());
    let mut kept: Vec<Option<Problem>> = Vec::with_capacity(read.len());
    for one in read {
        match one {
            Ok(delivery) => {
                good.push(delivery);
                kept.push(None);
            }
            Err(problem) => kept.push(Some(problem)),
        }
    }
    let mut pushed = app.push(caller, queue, good, once).await?.into_iter();
    let lost = || Err(Problem::new(Code::Internal, "What became of it is not known."));
    Ok(kept.into_iter().map(|problem| problem.map_or_else(|| pushed.next().unwrap_or_else(lost), Err)).collect())
}

/// Reads lines as they come, pushes them by the thousand or the megabyte, and answers each with a line. While some are pushed, the
/// next are read.
fn lines(shell: &Arc<Shell>, caller: Caller, queue: String, headers: &HeaderMap, body: Body) -> Result<Response, Problem> {
    caller.need(hermod_catalog::Scope::QueuesPush)?;
    let key = crate::http::sent::once_of(headers, "queue/push", b"")?.map(|once| once.key().to_owned());
    let (send, receive) = mpsc::channel::<Result<Bytes, std::convert::Infallible>>(4);
    let (hand_over, mut batches) = mpsc::channel(1);
    tokio::spawn(read_lines(body, Lines { batch: Batch::default(), keyed: key.is_some(), hand_over }));
    let mut pushing = Pushing { shell: Arc::clone(shell), caller, queue, key, part: 0, send };
    tokio::spawn(async move {
        while let Some(batch) = batches.recv().await {
            if !pushing.push(batch).await {
                return;
            }
        }
    });
    let receive = futures_util::stream::unfold(receive, |mut receive| async move { receive.recv().await.map(|item| (item, receive)) });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(receive)).into_response())
}

fn too_long() -> Problem {
    Problem::new(Code::BodyTooLarge, format!("A line may have {LINE_MAX} bytes at most; what follows was not read."))
}

/// Reads lines to the end of the body, or for as long as anybody takes them.
async fn read_lines(body: Body, mut lines: Lines) {
    let (mut body, mut rest) = (body.into_data_stream(), BytesMut::new());
    while let Some(chunk) = body.next().await {
        // Of a caller who breaks off the thousands count that were whole.
        let Ok(chunk) = chunk else { return };
        rest.extend_from_slice(&chunk);
        let mut taken = 0;
        while let Some(end) = rest.get(taken..).and_then(|rest| memchr::memchr(b'\n', rest)) {
            let line = rest.get(taken..=taken + end).unwrap_or_default();
            taken += end + 1;
            if !lines.add(line).await {
                return;
            }
        }
        rest.advance(taken);
        if rest.len() > LINE_MAX {
            lines.batch.read.push(Err(too_long()));
            let _sent = lines.hand_over().await;
            return;
        }
    }
    let _sent = lines.add(&rest).await && lines.hand_over().await;
}

/// Lines that are pushed together.
#[derive(Default)]
struct Batch {
    read: Vec<Result<Delivery, Problem>>,
    /// How long these lines were.
    bytes: usize,
    /// The lines as they came, if there is a key: what must be the same next time.
    text: Vec<u8>,
}

/// Lines that were read.
struct Lines {
    batch: Batch,
    keyed: bool,
    hand_over: mpsc::Sender<Batch>,
}

impl Lines {
    /// Takes a line; whether anybody still listens.
    async fn add(&mut self, line: &[u8]) -> bool {
        if line.trim_ascii().is_empty() {
            return true;
        }
        if self.keyed {
            self.batch.text.extend_from_slice(line);
        }
        self.batch.bytes += line.len();
        self.batch.read.push(if line.len() > LINE_MAX { Err(too_long()) } else { read(line) });
        // Where they are parted depends on nothing but the lines: sent again under the same key, the parts are the same.
        let has_room = self.batch.read.len() < LINES_MAX && self.batch.bytes < LINES_BYTES_MAX;
        has_room || self.hand_over().await
    }

    async fn hand_over(&mut self) -> bool {
        let batch = std::mem::take(&mut self.batch);
        batch.read.is_empty() || self.hand_over.send(batch).await.is_ok()
    }
}

/// Lines on their way.
struct Pushing {
    shell: Arc<Shell>,
    caller: Caller,
    queue: String,
    key: Option<String>,
    part: usize,
    send: mpsc::Sender<Result<Bytes, std::convert::Infallible>>,
}

impl Pushing {
    /// Pushes lines and answers them; whether anybody still listens.
    async fn push(&mut self, Batch { read, text, .. }: Batch) -> bool {
        let count = read.len();
        // Parts of a part: a thousand lines may go to several partitions in several steps.
        let once = self.key.as_deref().and_then(|key| Once::new(key, &text).ok()).map(|once| once.part(self.part));
        self.part += 1;
        let pushed = push_some(&self.shell.app, &self.caller, &self.queue, read, once.as_ref()).await;
        let pushed = pushed.unwrap_or_else(|problem| vec![Err(problem); count]);
        let mut text = Vec::with_capacity(count * 96);
        for one in &pushed {
            if serde_json::to_writer(&mut text, &One::new(one)).is_ok() {
                text.push(b'\n');
            }
        }
        text.is_empty() || self.send.send(Ok(text.into())).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermod_core::Micros;

    #[test]
    fn a_push_says_what_became_of_it() {
        let id = hermod_core::queue::DeliveryId { partition: 1, number: 2 };
        let at = |n| Some(Micros::saturating(n));
        let answer = |stored, due| {
            let pushed = PushedDocument::new(&PushAnswer { id, stored, due, now: Micros::saturating(5_000) });
            (pushed.outcome, pushed.state)
        };
        assert_eq!(answer(Stored::Added, at(5_000)), ("added", "ready"));
        assert_eq!(answer(Stored::Replaced, at(6_000)), ("replaced", "scheduled"));
        assert_eq!(answer(Stored::Finished, None), ("finished", "done"));
    }

    #[tokio::test]
    async fn lines_are_handed_over_by_the_thousand_or_by_their_bytes() {
        let handed = async |line: &str, count: usize| {
            let (hand_over, mut batches) = mpsc::channel(8);
            let mut lines = Lines { batch: Batch::default(), keyed: true, hand_over };
            for _ in 0..count {
                assert!(lines.add(line.as_bytes()).await);
            }
            assert!(lines.hand_over().await);
            drop(lines);
            let mut sizes = Vec::new();
            while let Some(Batch { read, text, .. }) = batches.recv().await {
                assert_eq!(text.len(), read.len() * line.len());
                sizes.push(read.len());
            }
            sizes
        };
        assert_eq!(handed("{\"payload\":1}\n", 2_001).await, [1_000, 1_000, 1]);
        let large = format!("{{\"payload\":\"{}\"}}\n", "x".repeat(300 << 10));
        assert_eq!(handed(&large, 10).await, [4, 4, 2], "a megabyte is enough");
    }
}
