//! queue: `PATCH` and `DELETE` of a delivery, and `POST /v1/queues/{queue}/{cancel,shift,redrive}` of many.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use hermod_core::Invalid;
use hermod_core::queue::{Change, Edited, Move};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::document::{due, payload, span};
use super::list::{filter, read_cursor, write_cursor};
use crate::app::{Bulk, Caller};
use crate::code::{Code, Problem};
use crate::http::Shell;
use crate::http::problem::Document;
use crate::http::sent::{Id, Ids, Sent, answer, once_of};
use crate::http::time::Time;

/// What to change of a delivery: its time, or what it carries.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PatchBody {
    /// When it is due.
    at: Option<String>,
    /// How long until it is due.
    #[serde(rename = "in")]
    within: Option<String>,
    /// What it carries: any JSON.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// What it carries, if that is not JSON: bytes in base64.
    base64: Option<String>,
    /// `ready`: a dead one is due again at once, as if it had never been attempted.
    state: Option<String>,
}

/// What became of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Edited)]
pub(crate) struct EditedDocument {
    /// `done`; `leased`: somebody holds it, until `lease_until`; `gone`: it was finished, cancelled, or never was; `dead`:
    /// it is, and this is for those that are not; `alive`: the other way round. Only `done` has changed something.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Time>,
}

impl EditedDocument {
    fn new(edited: Edited) -> EditedDocument {
        let (outcome, due, lease_until) = match edited {
            Edited::Gone => ("gone", None, None),
            Edited::Done { due } => ("done", Some(Time(due)), None),
            Edited::Leased { until } => ("leased", None, Some(Time(until))),
            Edited::Dead => ("dead", None, None),
            Edited::Alive => ("alive", None, None),
        };
        EditedDocument { outcome, due, lease_until }
    }
}

impl PatchBody {
    /// What it asks for.
    fn change(&self) -> Result<Change, Problem> {
        let payload = payload(self.payload.as_deref(), self.base64.as_deref())?;
        let time = due(self.at.as_deref(), self.within.as_deref())?.map(Move::To);
        let moved = match (self.state.as_deref(), time) {
            (None, time) => time,
            (Some("ready"), None) => Some(Move::Redrive),
            (Some("ready"), Some(_)) => return Err(Invalid::new("state", "must not stand beside at or in").into()),
            (Some(_), _) => return Err(Invalid::new("state", "can be set to ready, of a dead one").into()),
        };
        match (payload, moved) {
            (Some((is_json, payload)), moved) => Ok(Change::Rewrite { is_json, payload, moved }),
            (None, Some(moved)) => Ok(Change::Move(moved)),
            (None, None) => Err(Problem::new(Code::MissingField, "Say what to change: at, in, payload, base64 or state.").in_field("at")),
        }
    }
}

/// Changes a delivery that nobody holds.
#[utoipa::path(patch, path = "/v1/queues/{queue}/deliveries/{id}", tag = "queue", request_body = PatchBody,
    params(("queue" = String, Path), ("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = EditedDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn patch(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(queue, id): Ids,
    sent: Sent<PatchBody>,
) -> Result<Response, Problem> {
    let once = sent.once(&format!("queue/patch {id}"))?;
    let edited = shell.app.edit(&caller, &queue, &id, sent.value.change()?, once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &EditedDocument::new(edited)))
}

/// Cancels a delivery that nobody holds, or forgets a dead one.
#[utoipa::path(delete, path = "/v1/queues/{queue}/deliveries/{id}", tag = "queue",
    params(("queue" = String, Path), ("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = EditedDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn remove(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(queue, id): Ids,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let once = once_of(&headers, "queue/cancel", id.as_bytes())?;
    let edited = shell.app.edit(&caller, &queue, &id, Change::Cancel, once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &EditedDocument::new(edited)))
}

/// Which deliveries, and for `shift` by how much.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BulkBody {
    /// Those of this tag.
    tag: Option<String>,
    /// `waiting` (if absent) or `dead`.
    state: Option<String>,
    /// Those that wait and can be claimed from this time on.
    from: Option<String>,
    /// Those that wait and can be claimed before this time.
    until: Option<String>,
    /// shift: later by this; with a minus before it, earlier.
    #[schema(example = "1h")]
    by: Option<String>,
    /// Where the last call ended.
    cursor: Option<String>,
}

/// What a change of many has done: up to a thousand a call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Bulk)]
pub(crate) struct BulkDocument {
    /// So many were changed.
    done: u64,
    /// So many are held by somebody, and are as they were.
    leased: u64,
    /// So many had gone meanwhile, or are of another state.
    others: u64,
    /// The cursor of the next call; null: that was all.
    next: Option<String>,
}

async fn bulk(
    shell: &Shell,
    caller: &Caller,
    queue: &str,
    sent: &Sent<BulkBody>,
    state: Option<&str>,
    change: Change,
) -> Result<Response, Problem> {
    let body = &sent.value;
    let once = sent.once(&format!("queue/bulk {change:?}"))?;
    let once = once.as_ref();
    // Nobody empties a queue by leaving out a field.
    if body.tag.is_none() && state.is_none() && body.from.is_none() && body.until.is_none() {
        let which = "Say which: tag, state, from or until; {\"state\": \"waiting\"} means all that wait.";
        return Err(Problem::new(Code::MissingField, which).in_field("tag"));
    }
    let filter = filter(state, body.tag.as_deref(), body.from.as_deref(), body.until.as_deref())?;
    let after = body.cursor.as_deref().map(read_cursor).transpose()?;
    let Bulk { done, leased, others, next } = shell.app.edit_all(caller, queue, filter, change, after, once).await?;
    Ok(answer(StatusCode::OK, &BulkDocument { done, leased, others, next: next.map(write_cursor) }))
}

fn no_span(body: &BulkBody) -> Result<(), Problem> {
    if body.by.is_some() {
        return Err(Problem::new(Code::UnknownField, "by has no meaning here.").in_field("by"));
    }
    Ok(())
}

/// Cancels deliveries by tag, state or time.
#[utoipa::path(post, path = "/v1/queues/{queue}/cancel", tag = "queue", request_body = BulkBody,
    params(("queue" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = BulkDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn cancel(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    sent: Sent<BulkBody>,
) -> Result<Response, Problem> {
    no_span(&sent.value)?;
    bulk(&shell, &caller, &queue, &sent, sent.value.state.as_deref(), Change::Cancel).await
}

/// Moves deliveries in time, by tag or time.
#[utoipa::path(post, path = "/v1/queues/{queue}/shift", tag = "queue", request_body = BulkBody,
    params(("queue" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = BulkDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn shift(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    sent: Sent<BulkBody>,
) -> Result<Response, Problem> {
    let by = sent.value.by.as_deref().ok_or_else(|| Problem::new(Code::MissingField, "The field by is needed.").in_field("by"))?;
    let moved = match by.strip_prefix('-') {
        Some(earlier) => Move::Earlier(span("by", earlier)?),
        None => Move::Later(span("by", by)?),
    };
    bulk(&shell, &caller, &queue, &sent, sent.value.state.as_deref(), Change::Move(moved)).await
}

/// Makes dead deliveries due again at once, as if they had never been attempted.
#[utoipa::path(post, path = "/v1/queues/{queue}/redrive", tag = "queue", request_body = BulkBody,
    params(("queue" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = BulkDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn redrive(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    sent: Sent<BulkBody>,
) -> Result<Response, Problem> {
    no_span(&sent.value)?;
    let state = sent.value.tag.is_none().then_some("dead");
    if sent.value.state.as_deref().is_some_and(|state| state != "dead") {
        return Err(Invalid::new("state", "can only be dead here").into());
    }
    bulk(&shell, &caller, &queue, &sent, state, Change::Move(Move::Redrive)).await
}
