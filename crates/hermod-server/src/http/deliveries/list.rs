//! queue: `GET /v1/queues/{queue}/deliveries`, one of them, and `GET /v1/queues/{queue}/stats`.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use hermod_core::queue::{Filter, Page};
use hermod_core::{Invalid, Micros, Tag};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::document::DeliveryDocument;
use crate::app::{Caller, ListAsk};
use crate::code::{Code, Problem};
use crate::http::Shell;
use crate::http::problem::Document;
use crate::http::sent::{Id, Ids, answer, bad_query};
use crate::http::time::{Time, read_time};

/// Which deliveries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ListQuery {
    /// `waiting` (scheduled or ready; if absent), `leased` or `dead`.
    state: Option<String>,
    /// Those of this tag, whatever their state.
    tag: Option<String>,
    /// The one of this key.
    key: Option<String>,
    /// The recipient of that key.
    to: Option<String>,
    /// Those that wait and can be claimed from this time on.
    from: Option<String>,
    /// Those that wait and can be claimed before this time.
    until: Option<String>,
    /// How many; 100 if absent, 1,000 at most.
    limit: Option<u64>,
    /// Where the last page ended.
    cursor: Option<String>,
}

/// What stands for a page: the partition, then where in it.
pub(super) type Cursor = (u16, Option<Page>);

pub(super) fn write_cursor(cursor: Cursor) -> String {
    match cursor {
        (partition, None) => partition.to_string(),
        (partition, Some((at, number))) => format!("{partition}.{at}.{number}"),
    }
}

pub(super) fn read_cursor(text: &str) -> Result<Cursor, Problem> {
    let bad = || Problem::new(Code::InvalidField, "cursor is not one of ours.").in_field("cursor");
    let mut parts = text.split('.');
    let mut number = || parts.next().map(|part| part.parse::<u64>().map_err(|_| bad())).transpose();
    let partition = number()?.and_then(|n| u16::try_from(n).ok()).ok_or_else(bad)?;
    match (number()?, number()?, number()?) {
        (None, _, _) => Ok((partition, None)),
        (Some(at), Some(n), None) => Ok((partition, Some((Micros::new(at).ok_or_else(bad)?, n)))),
        _ => Err(bad()),
    }
}

/// Which deliveries are meant; each of these by itself.
pub(super) fn filter(state: Option<&str>, tag: Option<&str>, from: Option<&str>, until: Option<&str>) -> Result<Filter, Invalid> {
    if let Some(tag) = tag {
        if state.is_some() || from.is_some() || until.is_some() {
            return Err(Invalid::new("tag", "must not stand beside state, from or until"));
        }
        return Ok(Filter::Tag(Tag::new(tag).map_err(|fault| Invalid::new("tag", fault.reason))?));
    }
    let has_range = from.is_some() || until.is_some();
    match state.unwrap_or("waiting") {
        "waiting" => Ok(Filter::Waiting {
            from: from.map_or(Ok(Micros::ZERO), |text| read_time("from", text))?,
            until: until.map_or(Ok(Micros::MAX), |text| read_time("until", text))?,
        }),
        "leased" | "dead" if has_range => Err(Invalid::new("from", "and until are for those that wait")),
        "leased" => Ok(Filter::Held),
        "dead" => Ok(Filter::Dead),
        _ => Err(Invalid::new("state", "must be waiting, leased or dead")),
    }
}

/// A page of deliveries.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeliveryList)]
pub(crate) struct ListDocument<'a> {
    items: Vec<DeliveryDocument<'a>>,
    /// The cursor of the next page.
    next: Option<String>,
}

/// A page of deliveries: partition by partition, within one by their time.
#[utoipa::path(get, path = "/v1/queues/{queue}/deliveries", tag = "queue", params(("queue" = String, Path), ListQuery),
    responses((status = 200, body = ListDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let known = "state, tag, key, to, from, until, limit and cursor";
    let Query(query) = query.map_err(|rejection| bad_query(&rejection, "limit", known))?;
    if let Some(key) = &query.key {
        let found = shell.app.delivery_of_key(&caller, &queue, key, query.to.as_deref().unwrap_or("")).await?;
        let items = found.iter().filter_map(|(id, shown)| DeliveryDocument::shown(*id, shown)).collect();
        return Ok(answer(StatusCode::OK, &ListDocument { items, next: None }));
    }
    let limit = query.limit.unwrap_or(100);
    if limit == 0 || limit > 1_000 {
        return Err(Invalid::new("limit", "must be between 1 and 1000").into());
    }
    let ask = ListAsk {
        filter: filter(query.state.as_deref(), query.tag.as_deref(), query.from.as_deref(), query.until.as_deref())?,
        after: query.cursor.as_deref().map(read_cursor).transpose()?,
        limit: usize::try_from(limit).unwrap_or(1_000),
    };
    let listing = shell.app.deliveries(&caller, &queue, &ask).await?;
    let items = listing.items.iter().filter_map(|(id, shown)| DeliveryDocument::shown(*id, shown)).collect();
    Ok(answer(StatusCode::OK, &ListDocument { items, next: listing.next.map(write_cursor) }))
}

/// One delivery.
#[utoipa::path(get, path = "/v1/queues/{queue}/deliveries/{id}", tag = "queue", params(("queue" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = DeliveryDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, caller: Caller, Ids(queue, id): Ids) -> Result<Response, Problem> {
    let (id, shown) = shell.app.delivery(&caller, &queue, &id).await?;
    let document = DeliveryDocument::shown(id, &shown);
    Ok(answer(StatusCode::OK, &document.ok_or_else(|| Problem::new(Code::Internal, "It cannot be read."))?))
}

/// What was tried last, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptList<'a> {
    items: Vec<AttemptDocument<'a>>,
}

/// One attempt to send a delivery to the queue's webhook.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptDocument<'a> {
    id: &'a str,
    /// The how many'th it was.
    attempt: u32,
    at: Time,
    /// What the receiver answered.
    status: Option<u16>,
    /// Why it was not taken.
    why: Option<&'a str>,
    took_ms: u64,
}

/// What this server last tried to send to the queue's webhook; the last hundred.
#[utoipa::path(get, path = "/v1/queues/{queue}/attempts", tag = "queue", params(("queue" = String, Path)),
    responses((status = 200, body = AttemptList<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn attempts(State(shell): State<Arc<Shell>>, caller: Caller, Id(queue): Id) -> Result<Response, Problem> {
    let attempts = shell.app.attempts(&caller, &queue).await?;
    let items = attempts.iter().map(|one| AttemptDocument {
        id: &one.id,
        attempt: one.attempt,
        at: Time::passed(one.at),
        status: one.status,
        why: one.why.as_deref(),
        took_ms: one.took_ms,
    });
    Ok(answer(StatusCode::OK, &AttemptList { items: items.collect() }))
}

/// How far to look ahead.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StatsQuery {
    /// Minutes of the forecast; 10 if absent, 120 at most.
    minutes: Option<u64>,
}

/// What there is in a queue.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueueStats)]
pub(crate) struct StatsDocument {
    /// Their time has come.
    ready: u64,
    /// Their time has not come.
    scheduled: u64,
    leased: u64,
    dead: u64,
    /// Since when the one that waits longest has been due.
    oldest_due: Option<Time>,
    /// When a delivery can be claimed next.
    next_due: Option<Time>,
    /// How many fall due in each of the minutes to come.
    forecast: Vec<u64>,
    now: Time,
}

/// How many deliveries there are, and when they fall due.
#[utoipa::path(get, path = "/v1/queues/{queue}/stats", tag = "queue", params(("queue" = String, Path), StatsQuery),
    responses((status = 200, body = StatsDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn stats(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    query: Result<Query<StatsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|rejection| bad_query(&rejection, "minutes", "minutes"))?;
    let minutes = query.minutes.unwrap_or(10);
    if minutes > 120 {
        return Err(Invalid::new("minutes", "must be at most 120").into());
    }
    let step = Micros::saturating(60_000_000);
    let counts = shell.app.queue_counts(&caller, &queue, step, usize::try_from(minutes).unwrap_or(0)).await?;
    Ok(answer(
        StatusCode::OK,
        &StatsDocument {
            ready: counts.ready,
            scheduled: counts.scheduled,
            leased: counts.leased,
            dead: counts.dead,
            oldest_due: counts.oldest.map(Time::passed),
            next_due: counts.next.map(Time),
            forecast: counts.forecast,
            now: Time::passed(counts.now),
        },
    ))
}
