//! events: `GET /v1/events`: what changed, as a page or as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};

use super::Shell;
use super::problem::Document;
use super::sent::{answer, bad_query};
use super::time::Time;
use crate::app::{Caller, EventAnswer, EventsAsk, EventsTold};
use crate::code::{Code, Problem};

/// A connection that says nothing says so, so that both sides notice when it is gone.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// Which events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EventsQuery {
    /// What follows this: the `id` of an event, or the `next` of a page; `now`: only what is to come. From the oldest that is
    /// kept if absent.
    after: Option<String>,
    /// Only of this type: `message.picked`, `message.acked`, `message.nacked` or `message.expired`.
    #[serde(rename = "type")]
    #[param(rename = "type")]
    kind: Option<String>,
    /// Only about this subject.
    subject: Option<String>,
    /// How many, 1-1000; 100 if absent.
    limit: Option<u64>,
}

/// The record of a change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventDocument<'a> {
    /// To go on after it: `?after=`, or `Last-Event-ID`.
    id: &'a str,
    /// What happened.
    #[serde(rename = "type")]
    #[schema(example = "message.picked")]
    kind: &'static str,
    /// When.
    time: Time,
    /// To whom.
    #[schema(example = "user-7")]
    subject: &'a str,
    /// Of which deck.
    #[schema(example = "tips")]
    deck: &'a str,
    /// Which message; null if it was deleted, or is for others by now.
    #[schema(example = "welcome")]
    message: Option<&'a str>,
    /// Which pick.
    pick: String,
}

/// Events in the order of their times.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EventPage)]
pub(crate) struct EventsDocument<'a> {
    /// The events.
    items: Vec<EventDocument<'a>>,
    /// Where the next page begins; always there, as more will happen.
    next: &'a str,
    /// Events after the place that was asked for are not kept any more; the oldest there are come instead.
    gap: bool,
    /// There is more to be read at once.
    more: bool,
}

fn document(told: &EventAnswer) -> EventDocument<'_> {
    let event = &told.event;
    EventDocument {
        id: &told.id,
        kind: event.kind.as_str(),
        time: Time::passed(event.at),
        subject: event.pick.subject.as_str(),
        deck: event.pick.deck.as_str(),
        message: told.message.as_ref().map(|message| message.as_str()),
        pick: event.pick.to_string(),
    }
}

/// What changed, in the order of time: a page; or, with `Accept: text/event-stream`, followed live, each event named by its
/// type. The newest 10,000 of every partition are kept.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    params(EventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "Where a stream broke off: as `after`, and before it.")),
    responses((status = 200, description = "Events, and where to go on.", content((EventsDocument<'_> = "application/json"),
            (EventDocument<'_> = "text/event-stream"))),
        (status = "4XX", description = "The request is not acceptable.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "5XX", description = "No answer could be given.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn events(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    query: Result<Query<EventsQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|rejection| bad_query(&rejection, "limit", "after, type, subject and limit (a number)"))?;
    let is_stream = is_stream(&headers);
    let seen = if is_stream { last_event_id(&headers)? } else { None };
    let ask = EventsAsk::new(query.after.as_deref(), seen, query.limit)?.only(query.kind.as_deref(), query.subject.as_deref())?;
    if is_stream {
        return Ok(stream(shell.app.follow_events(&caller, ask).await?));
    }
    let page = shell.app.events(&caller, &ask).await?;
    let items = page.items.iter().map(document).collect();
    Ok(answer(StatusCode::OK, &EventsDocument { items, next: &page.next, gap: page.gap, more: page.more }))
}

/// Whether they are to be followed live.
pub(super) fn is_stream(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|accept| accept.to_str().is_ok_and(|text| text.contains("text/event-stream")))
}

/// Where a stream broke off.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let seen = headers.get("last-event-id").filter(|seen| !seen.is_empty()).map(|seen| seen.to_str()).transpose();
    seen.map_err(|_| Problem::new(Code::InvalidField, "Last-Event-ID is none that was ever given out.").in_field("Last-Event-ID"))
}

fn stream(receive: mpsc::Receiver<EventsTold>) -> Response {
    let told = futures_util::stream::unfold(receive, |mut receive| async move { Some((receive.recv().await?, receive)) });
    let events = told.flat_map(|told| {
        let events: Vec<Event> = match told {
            EventsTold::Events(events) => events.iter().map(event).collect(),
            EventsTold::Gap(at) => vec![Event::default().event("gap").id(at).data("{}")],
            // Without data nothing is dispatched, but a reader that comes back does so from here.
            EventsTold::At(at) => vec![Event::default().id(at)],
        };
        futures_util::stream::iter(events.into_iter().map(Ok::<Event, Infallible>))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)).into_response()
}

fn event(told: &EventAnswer) -> Event {
    let data = serde_json::to_string(&document(told)).unwrap_or_default();
    Event::default().event(told.event.kind.as_str()).id(&told.id).data(data)
}
