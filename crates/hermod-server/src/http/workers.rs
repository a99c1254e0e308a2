//! queue: `/v1/queues/{queue}/workers` and `/v1/queues/{queue}/recipients/{recipient}`: who has whom, in a sticky queue.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hermod_core::Micros;
use hermod_core::queue::Standing;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Shell;
use super::problem::Document;
use super::queues::span_text;
use super::sent::{Id, Ids, Sent, SentOrNot, answer, bad_query};
use super::time::Time;
use crate::app::{Caller, Explanation, Registered};
use crate::code::{Code, Problem};

/// A worker to be registered.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WorkerBody {
    /// How many turns it has where others have one; 1 if absent, 16 at most.
    #[schema(minimum = 1, maximum = 16)]
    weight: Option<u64>,
}

/// Which of a worker's lives is meant.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IncarnationBody {
    /// As it was given out when the worker registered.
    incarnation: Option<u64>,
}

/// The same, as a query.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IncarnationQuery {
    /// As it was given out when the worker registered; whichever it is if absent.
    incarnation: Option<u64>,
}

/// A worker that is registered.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RegisteredWorker)]
pub(crate) struct RegisteredDocument {
    worker: String,
    /// Which of its lives this is: to be sent with every claim and heartbeat.
    incarnation: u64,
    /// `live` or `draining`.
    state: &'static str,
    /// When it is taken for gone if nothing is heard of it; not told when it drains, which is no heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Time>,
    /// How long that is. A third of it is a good interval between heartbeats.
    worker_ttl: String,
}

impl RegisteredDocument {
    fn new(registered: &Registered) -> RegisteredDocument {
        RegisteredDocument {
            worker: registered.worker.to_string(),
            incarnation: registered.incarnation,
            state: state(registered.standing),
            lease_until: registered.until.map(Time),
            worker_ttl: span_text(registered.ttl),
        }
    }
}

fn state(standing: Standing) -> &'static str {
    match standing {
        Standing::Live | Standing::Full => "live",
        Standing::Draining => "draining",
        Standing::Gone => "gone",
    }
}

/// Registers a worker: its first heartbeat, and the end of whoever had this name. It keeps the recipients it had; what was
/// held and not finished is handed out again at once.
#[utoipa::path(put, path = "/v1/queues/{queue}/workers/{worker}", tag = "queue", request_body = WorkerBody,
    params(("queue" = String, Path), ("worker" = String, Path)),
    responses((status = 200, body = RegisteredDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn register(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(queue, worker): Ids,
    sent: SentOrNot<WorkerBody>,
) -> Result<Response, Problem> {
    let registered = shell.app.register(&caller, &queue, &worker, sent.0.weight).await?;
    Ok(answer(StatusCode::OK, &RegisteredDocument::new(&registered)))
}

/// A worker lives. Claims that wait and open streams say so by themselves.
#[utoipa::path(post, path = "/v1/queues/{queue}/workers/{worker}/heartbeat", tag = "queue", request_body = IncarnationBody,
    params(("queue" = String, Path), ("worker" = String, Path)),
    responses((status = 200, body = RegisteredDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn heartbeat(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(queue, worker): Ids,
    sent: Sent<IncarnationBody>,
) -> Result<Response, Problem> {
    let missing = || Problem::new(Code::MissingField, "The field incarnation is needed.").in_field("incarnation");
    let incarnation = sent.value.incarnation.ok_or_else(missing)?;
    let registered = shell.app.heartbeat(&caller, &queue, &worker, incarnation).await?;
    Ok(answer(StatusCode::OK, &RegisteredDocument::new(&registered)))
}

/// A worker takes on nobody new. What it holds it finishes; its recipients go to others as soon as it holds nothing of theirs.
#[utoipa::path(post, path = "/v1/queues/{queue}/workers/{worker}/drain", tag = "queue", request_body = IncarnationBody,
    params(("queue" = String, Path), ("worker" = String, Path)),
    responses((status = 200, body = RegisteredDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn drain(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(queue, worker): Ids,
    sent: SentOrNot<IncarnationBody>,
) -> Result<Response, Problem> {
    let registered = shell.app.drain(&caller, &queue, &worker, sent.0.incarnation).await?;
    Ok(answer(StatusCode::OK, &RegisteredDocument::new(&registered)))
}

/// A worker is gone: what it held, and whom it had, go to others at once.
#[utoipa::path(delete, path = "/v1/queues/{queue}/workers/{worker}", tag = "queue",
    params(("queue" = String, Path), ("worker" = String, Path), IncarnationQuery),
    responses((status = 204), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn leave(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(queue, worker): Ids,
    query: Result<Query<IncarnationQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|rejection| bad_query(&rejection, "incarnation", "incarnation"))?;
    shell.app.leave(&caller, &queue, &worker, query.incarnation).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A worker, and how much it has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Worker)]
pub(crate) struct WorkerDocument {
    worker: String,
    incarnation: u64,
    /// `live`; `draining`; `gone`: what it had is being moved.
    state: &'static str,
    /// Why it is gone: `silent`, `closed` or `left`.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    lease_until: Time,
    weight: u8,
    /// How many recipients it has for whom there is something.
    recipients: u64,
    /// How many deliveries those have that are not finished.
    pending: u64,
    /// How many of them it holds.
    in_flight: u64,
}

/// The workers of a queue.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkerList)]
pub(crate) struct WorkerList {
    items: Vec<WorkerDocument>,
    /// How many recipients wait for a worker.
    parked: u64,
    /// The time of the answer.
    now: Time,
}

/// Who works on a sticky queue, and how much each has.
#[utoipa::path(get, path = "/v1/queues/{queue}/workers", tag = "queue", params(("queue" = String, Path)),
    responses((status = 200, body = WorkerList), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(State(shell): State<Arc<Shell>>, caller: Caller, Id(queue): Id) -> Result<Response, Problem> {
    let answered = shell.app.workers(&caller, &queue).await?;
    let items = answered.workers.iter().map(|(working, pending)| WorkerDocument {
        worker: working.worker.to_string(),
        incarnation: working.incarnation,
        state: state(working.standing),
        why: working.gone.map(|why| why.as_str()),
        lease_until: Time(working.until),
        weight: working.weight,
        recipients: working.waiting + working.in_flight,
        pending: *pending,
        in_flight: working.in_flight,
    });
    Ok(answer(StatusCode::OK, &WorkerList { items: items.collect(), parked: answered.parked, now: Time(answered.now) }))
}

/// Whom a recipient is to have.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinBody {
    /// This worker, from its next delivery on and while it lives; null: any.
    worker: Option<String>,
}

/// A change of a recipient's worker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangeDocument {
    at: Time,
    /// `first`; `silent`, `closed`, `left`, `drained`: what became of the one before; `pinned`; `adopted`: it was parked; `gone`: the
    /// one before was gone when it was next addressed.
    why: &'static str,
    /// To whom; absent: to nobody, it was parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
}

/// A recipient's first delivery.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeadDocument {
    id: String,
    attempts: u16,
    /// When it can be claimed, or could be.
    not_before: Time,
    /// Since when it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight_since: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Time>,
}

/// What is known of a recipient.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recipient)]
pub(crate) struct RecipientDocument {
    recipient: String,
    /// `owned`; `parked`: there is something for it and no worker; `idle`: there is nothing for it; `free`: the queue is shared.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// How that one stands: `live`, `draining`, or `gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_lease_until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned_to: Option<String>,
    /// Grows with every change of the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    /// How many deliveries are not finished.
    pending: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<HeadDocument>,
    /// The last changes of its worker, the newest first.
    changes: Vec<ChangeDocument>,
}

impl RecipientDocument {
    fn new(recipient: String, explanation: &Explanation) -> RecipientDocument {
        let explained = &explanation.explained;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let binding = explained.binding.as_ref();
        let worker = binding.and_then(|binding| some(binding.owner()));
        let head = explained.head.zip(explanation.head).map(|(head, id)| {
            let is_held = head.until > Micros::ZERO;
            HeadDocument {
                id: id.to_string(),
                attempts: head.attempts,
                not_before: Time(head.at),
                // The token is the time at which it was given out, or later if numbers were that far already.
                in_flight_since: is_held.then(|| Time(Micros::saturating(head.token.0).min(explained.now))),
                lease_until: is_held.then_some(Time(head.until)),
            }
        });
        RecipientDocument {
            recipient,
            state: match (&worker, explained.length) {
                (_, 0) => "idle",
                _ if !explanation.is_sticky => "free",
                (Some(_), _) => "owned",
                (None, _) => "parked",
            },
            worker_state: worker.as_ref().map(|_| explained.worker.map_or("gone", |(standing, _, _)| state(standing))),
            worker_lease_until: explained.worker.map(|(_, _, until)| Time(until)),
            worker,
            pinned_to: binding.and_then(|binding| some(&binding.pin)),
            epoch: binding.map(|binding| binding.epoch).filter(|epoch| *epoch > 0),
            pending: explained.length,
            head,
            changes: binding.map(|binding| binding.changes.iter().map(change).collect()).unwrap_or_default(),
        }
    }
}

fn change((at, why, worker): &(Micros, hermod_core::queue::Why, Box<str>)) -> ChangeDocument {
    ChangeDocument { at: Time(*at), why: why.as_str(), worker: (!worker.is_empty()).then(|| worker.to_string()) }
}

/// Explains a recipient: who has it, since when and why, what it waits for.
#[utoipa::path(get, path = "/v1/queues/{queue}/recipients/{recipient}", tag = "queue",
    params(("queue" = String, Path), ("recipient" = String, Path)),
    responses((status = 200, body = RecipientDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn explain(State(shell): State<Arc<Shell>>, caller: Caller, Ids(queue, recipient): Ids) -> Result<Response, Problem> {
    let explanation = shell.app.explain_recipient(&caller, &queue, &recipient).await?;
    Ok(answer(StatusCode::OK, &RecipientDocument::new(recipient, &explanation)))
}

/// Pins a recipient to a worker, which has it from its next delivery on and while it lives; or to none.
#[utoipa::path(put, path = "/v1/queues/{queue}/recipients/{recipient}", tag = "queue", request_body = PinBody,
    params(("queue" = String, Path), ("recipient" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = RecipientDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn pin(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(queue, recipient): Ids,
    sent: Sent<PinBody>,
) -> Result<Response, Problem> {
    let once = sent.once(&format!("queue/pin {recipient}"))?;
    let explanation = shell.app.pin(&caller, &queue, &recipient, sent.value.worker.as_deref(), once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &RecipientDocument::new(recipient, &explanation)))
}
