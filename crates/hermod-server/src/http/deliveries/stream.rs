//! queue: `GET /v1/queues/{queue}/stream`: deliveries as they fall due, as server-sent events or over a WebSocket.
//!
//! Events are acknowledged by `POST .../ack` and so on; over a WebSocket also on the connection itself. Either way a
//! connection that closes gives back what it held.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Query, Request, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use hermod_catalog::Scope;
use hermod_core::Micros;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use utoipa::{IntoParams, ToSchema};

use super::claim::{SettledDocument, settled, worker_of};
use super::document::{DeliveryDocument, span};
use crate::app::{Caller, SettleAsk, StreamAsk, Taken};
use crate::code::{Code, Problem};
use crate::http::Shell;
use crate::http::problem::{Document, Inline};
use crate::http::sent::{Id, bad_query, parse};

/// A connection that says nothing says so, so that both sides notice when it is gone.
const ALIVE_EVERY: Duration = Duration::from_secs(5);
/// A message of a caller is at most so long.
const MESSAGE_MAX: usize = 64 << 10;

/// How many deliveries at once, and for how long.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StreamQuery {
    /// How many may be held at once; 1 if absent, 1,000 at most.
    credits: Option<u64>,
    /// For how long after the connection was last seen; as long as the queue says if absent.
    lease: Option<String>,
    /// Who listens, if the queue is sticky.
    worker: Option<String>,
    /// In which of its lives; if absent it registers first.
    incarnation: Option<u64>,
}

/// What a caller says over a WebSocket.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) struct Said {
    /// `ack`, `nack` or `extend`.
    act: String,
    id: String,
    token: u64,
    /// nack: how long until it can be claimed again.
    delay: Option<String>,
}

/// What the server says over a WebSocket.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Told<'a> {
    Delivery(DeliveryDocument<'a>),
    Settled(SettledDocument),
    Problem(Inline<'a>),
}

/// Deliveries as they fall due: `text/event-stream`, events named `delivery`; or a WebSocket, on which
/// `{"act": "ack", "id": ..., "token": ...}` finishes one. A connection that closes gives back what it held, at once.
#[utoipa::path(get, path = "/v1/queues/{queue}/stream", tag = "queue", params(("queue" = String, Path), StreamQuery),
    responses((status = 200, body = DeliveryDocument<'_>, content_type = "text/event-stream"),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn stream(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    query: Result<Query<StreamQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|rejection| bad_query(&rejection, "credits", "credits, lease, worker and incarnation"))?;
    let lease = query.lease.as_deref().map(|text| span("lease", text)).transpose()?;
    let worker = worker_of(query.worker.as_deref())?.map(|worker| (worker, query.incarnation));
    let ask = StreamAsk::new(query.credits, lease)?.by(worker);
    // Some ask for HTTP/2 this way, and may be answered without.
    let upgrade = request.headers().get(axum::http::header::UPGRADE);
    let is_socket = upgrade.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if !is_socket {
        let (taken, _) = shell.app.stream(&caller, &queue, ask).await?;
        return Ok(events(taken));
    }
    let (mut parts, _) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &shell).await;
    let upgrade =
        upgrade.map_err(|fault| Problem::new(Code::InvalidField, format!("This is no WebSocket: {fault}.")).in_field("Upgrade"))?;
    // Refused before the connection is another's.
    let (taken, asked_every) = shell.app.stream(&caller, &queue, ask).await?;
    let every = asked_every.map_or(ALIVE_EVERY, |every| every.min(ALIVE_EVERY));
    let talk = move |socket| converse(shell, caller, queue, taken, every, socket);
    Ok(upgrade.max_message_size(MESSAGE_MAX).on_upgrade(talk))
}

fn events(receive: mpsc::Receiver<Vec<Taken>>) -> Response {
    let events = futures_util::stream::unfold((receive, Vec::new().into_iter()), |(mut receive, mut rest)| async move {
        loop {
            if let Some(taken) = rest.next() {
                let event = event(&taken);
                return Some((Ok::<Event, Infallible>(event), (receive, rest)));
            }
            rest = receive.recv().await?.into_iter();
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)).into_response()
}

fn event(taken: &Taken) -> Event {
    let event = Event::default().event("delivery").id(taken.id.to_string());
    let text = DeliveryDocument::taken(taken).and_then(|document| serde_json::to_string(&document).ok());
    event.data(text.unwrap_or_default())
}

/// Both talk until one of them has gone.
async fn converse(
    shell: Arc<Shell>,
    caller: Caller,
    queue: String,
    mut taken: mpsc::Receiver<Vec<Taken>>,
    every: Duration,
    mut socket: WebSocket,
) {
    let mut alive = tokio::time::interval(every);
    // Who was not asked in time is not asked twice at once.
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_answered = true;
    loop {
        let told = tokio::select! {
            some = taken.recv() => match some {
                Some(some) => {
                    let mut sent = Ok(());
                    for one in &some {
                        if let Some(document) = DeliveryDocument::taken(one) {
                            sent = tell(&mut socket, &Told::Delivery(document), every).await;
                            if sent.is_err() {
                                break;
                            }
                        }
                    }
                    // It took all of it, and could not be heard meanwhile.
                    is_answered = true;
                    alive.reset();
                    sent
                }
                // The server ends.
                None => break,
            },
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => {
                    is_answered = true;
                    match settle(&shell, &caller, &queue, text.as_bytes()).await {
                        Ok(settled) => tell(&mut socket, &Told::Settled(settled), every).await,
                        Err(problem) => tell(&mut socket, &Told::Problem(Inline::new(&problem)), every).await,
                    }
                }
                Some(Ok(Message::Pong(_))) => {
                    is_answered = true;
                    Ok(())
                }
                Some(Ok(Message::Ping(_) | Message::Binary(_))) => Ok(()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            },
            _ = alive.tick() => {
                // Who has not answered since the last time is gone, though nobody said so.
                if !std::mem::replace(&mut is_answered, false) {
                    break;
                }
                send(&mut socket, Message::Ping(bytes::Bytes::new()), every).await
            }
        };
        if told.is_err() {
            break;
        }
    }
}

async fn tell(socket: &mut WebSocket, told: &Told<'_>, time: Duration) -> Result<(), axum::Error> {
    let text = serde_json::to_string(told).map_err(axum::Error::new)?;
    send(socket, Message::Text(text.into()), time).await
}

/// Who takes nothing for so long is gone, as who answers nothing is: while something is being sent nobody asks for an answer.
async fn send(socket: &mut WebSocket, message: Message, time: Duration) -> Result<(), axum::Error> {
    tokio::time::timeout(time, socket.send(message)).await.unwrap_or_else(|late| Err(axum::Error::new(late)))
}

async fn settle(shell: &Shell, caller: &Caller, queue: &str, text: &[u8]) -> Result<SettledDocument, Problem> {
    shell.app.need_still(caller, Scope::QueuesClaim)?;
    let said: Said = parse(text)?;
    let delay: Option<Micros> = said.delay.as_deref().map(|text| span("delay", text)).transpose()?;
    let ask = match said.act.as_str() {
        "ack" => SettleAsk::Ack,
        "nack" => SettleAsk::Nack(delay),
        "extend" => SettleAsk::Extend(None),
        _ => return Err(Problem::new(Code::InvalidField, "act must be ack, nack or extend.").in_field("act")),
    };
    settled(shell, caller, queue, ask, &said.id, said.token).await
}
