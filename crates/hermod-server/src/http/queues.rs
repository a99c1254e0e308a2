//! queue: `/v1/queues`.

mod body;

use std::fmt;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermod_core::queue::{Overdue, Push, Queue, Secret};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Shell;
use super::page::{Page, cut};
use super::problem::Document;
use super::sent::{Id, Sent, answer, bad_query, catalog_once};
use crate::app::Caller;
use crate::code::{Code, Problem};
use body::QueueBody;

/// A queue. It can be sent back as it is: a masked secret stands for the stored one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueDocument<'a> {
    queue: &'a str,
    mode: &'a str,
    order: &'a str,
    lease: String,
    worker_ttl: String,
    idle_after: String,
    max_attempts: u32,
    backoff: BackoffDocument,
    on_exhausted: &'a str,
    on_failure: &'a str,
    overdue: OverdueDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up_per_second: Option<u32>,
    max_payload: u32,
    push: Option<PushDocument<'a>>,
    /// Why the webhook was switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled: Option<&'a str>,
    /// Grows with every change.
    version: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Backoff)]
pub(crate) struct BackoffDocument {
    first: String,
    factor: f64,
    max: String,
    jitter: f64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Overdue)]
pub(crate) enum OverdueDocument {
    Word(&'static str),
    Drop { drop_after: String },
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Push)]
pub(crate) enum PushDocument<'a> {
    Log(bool),
    Webhook(WebhookDocument<'a>),
}

#[derive(Serialize, ToSchema)]
#[schema(as = Webhook)]
pub(crate) struct WebhookDocument<'a> {
    url: &'a str,
    /// Masked, `whsec_…` and the last four characters; whole only in the answer to the request that had it made up.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// Instead of `secret` if there are two; masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<Vec<String>>,
    concurrency: u32,
    timeout: String,
}

impl fmt::Debug for WebhookDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookDocument").field("url", &self.url).finish_non_exhaustive()
    }
}

pub(super) fn span_text(span: hermod_core::Micros) -> String {
    humantime::format_duration(span.to_duration()).to_string()
}

impl<'a> QueueDocument<'a> {
    /// `secret` is shown as it is, all others masked.
    fn new(queue: &'a Queue, secret: Option<&Secret>) -> QueueDocument<'a> {
        let shown = |stored: &Secret| match secret {
            Some(secret) if secret == stored => secret.reveal().to_owned(),
            _ => stored.masked().reveal().to_owned(),
        };
        let push = queue.push.as_ref().map(|push| match push {
            Push::Log => PushDocument::Log(true),
            Push::Webhook(webhook) => {
                let is_one = webhook.secrets.len() == 1;
                PushDocument::Webhook(WebhookDocument {
                    url: &webhook.url,
                    secret: webhook.secrets.first().filter(|_| is_one).map(shown),
                    secrets: (!is_one).then(|| webhook.secrets.iter().map(shown).collect()),
                    concurrency: webhook.concurrency,
                    timeout: span_text(webhook.timeout),
                })
            }
        });
        let decimal = |permille: u32| f64::from(permille) / 1000.0;
        QueueDocument {
            queue: queue.id.as_str(),
            mode: queue.mode.as_str(),
            order: queue.order.as_str(),
            lease: span_text(queue.lease),
            worker_ttl: span_text(queue.worker_ttl),
            idle_after: span_text(queue.idle_after),
            max_attempts: queue.max_attempts,
            backoff: BackoffDocument {
                first: span_text(queue.backoff.first),
                factor: decimal(queue.backoff.factor_permille),
                max: span_text(queue.backoff.max),
                jitter: decimal(queue.backoff.jitter_permille),
            },
            on_exhausted: queue.on_exhausted.as_str(),
            on_failure: queue.on_failure.as_str(),
            overdue: match queue.overdue {
                Overdue::Deliver => OverdueDocument::Word("deliver"),
                Overdue::DropAfter(span) => OverdueDocument::Drop { drop_after: span_text(span) },
            },
            catch_up_per_second: queue.catch_up_per_second,
            max_payload: queue.max_payload,
            push,
            disabled: queue.disabled.as_deref(),
            version: queue.version,
        }
    }
}

/// A page of queues.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queues<'a> {
    items: Vec<QueueDocument<'a>>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

/// Lists the space's queues, by name.
#[utoipa::path(get, path = "/v1/queues", tag = "queue", params(Page),
    responses((status = 200, body = Queues<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Response, Problem> {
    let (limit, cursor) = Page::read(page)?;
    let (queues, next) = cut(shell.app.queues(&caller)?, limit, cursor.as_deref(), |queue| queue.id.as_str());
    Ok(answer(StatusCode::OK, &Queues { items: queues.iter().map(|queue| QueueDocument::new(queue, None)).collect(), next }))
}

/// Reads a queue.
#[utoipa::path(get, path = "/v1/queues/{queue}", tag = "queue", params(("queue" = String, Path)),
    responses((status = 200, body = QueueDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let queue = shell.app.queue(&caller, &id)?;
    Ok(answer(StatusCode::OK, &QueueDocument::new(&queue, None)))
}

/// Adds or replaces a queue; its deliveries stay, and as long as there are any, so do `mode` and `order`. A secret that was made up is shown in this answer only.
#[utoipa::path(put, path = "/v1/queues/{queue}", tag = "queue", request_body = QueueBody,
    params(("queue" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer, without a secret.")),
    responses((status = 200, body = QueueDocument<'_>, description = "Replaced."), (status = 201, body = QueueDocument<'_>, description = "Added."),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn put(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id, sent: Sent<QueueBody>) -> Result<Response, Problem> {
    if sent.value.queue.as_ref().is_some_and(|body| *body != id) {
        return Err(Problem::new(Code::InvalidField, "queue must be absent, or the same as in the path").in_field("queue"));
    }
    let once = sent.catalog_once(&caller, &format!("queues/put/{id}"))?;
    let saved = shell.app.put_queue(&caller, sent.value.draft(id)?, once.as_ref()).await?;
    let status = if saved.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &QueueDocument::new(&saved.value.queue, saved.value.secret.as_ref())))
}

/// What becomes of the deliveries of a queue that is deleted.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RemoveQuery {
    /// Whether they are cancelled first, except for those that somebody holds; if absent, a queue that has any stays.
    purge: bool,
}

/// Deletes a queue and its schedules. A queue that holds deliveries is not deleted: `queue_not_empty` tells how many.
#[utoipa::path(delete, path = "/v1/queues/{queue}", tag = "queue",
    params(("queue" = String, Path), RemoveQuery,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and path replays the answer.")),
    responses((status = 204, description = "Deleted."), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn remove(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(id): Id,
    query: Result<Query<RemoveQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|rejection| bad_query(&rejection, "purge", "purge, true or false"))?;
    let once = catalog_once(&caller, &headers, &format!("queues/delete/{id}"))?;
    shell.app.delete_queue(&caller, &id, query.purge, once.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
