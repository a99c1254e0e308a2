//! queue: `/v1/queues/{queue}/schedules`.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermod_core::queue::Schedule;
use hermod_core::{Invalid, Micros};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Shell;
use super::page::{Page, cut};
use super::problem::Document;
use super::sent::{Id, Ids, Sent, answer, catalog_once};
use super::time::Time;
use crate::app::{Caller, ScheduleDraft};
use crate::code::{Code, Problem};

/// How many of the next runs an answer shows.
const SHOWN: usize = 3;

/// A delivery that recurs, to be saved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleBody {
    /// The path's, if it is there.
    queue: Option<String>,
    /// The path's, if it is there.
    name: Option<String>,
    /// When: minutes, hours, days of the month, months, days of the week; with seconds first if there
    /// are six fields; or @yearly, @monthly, @weekly, @daily, @hourly.
    #[schema(example = "30 2 * * MON-FRI")]
    cron: String,
    /// The time zone, of the IANA database; UTC if absent.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
    /// What becomes of a run that is left out when clocks go forward. shift (the default): it runs right
    /// after; skip: it does not.
    dst: Option<String>,
    /// What is delivered: any JSON of up to 65536 bytes; null if absent.
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// The recipient.
    to: Option<String>,
    /// By which its deliveries are found: up to 9 of up to 128 bytes.
    #[serde(default)]
    tags: Vec<String>,
    /// Whether it runs; it does if absent.
    enabled: Option<bool>,
    /// Numbered by the server. It may stand here, so that what was read can be sent back.
    #[serde(rename = "version")]
    _version: Option<u64>,
    /// Computed by the server. It may stand here, so that what was read can be sent back.
    #[serde(rename = "next")]
    #[schema(value_type = Option<Value>)]
    _next: Option<IgnoredAny>,
}

impl ScheduleBody {
    fn draft(&self, queue: String, name: String) -> Result<ScheduleDraft, Invalid> {
        let payload = self.payload.as_ref().map_or("null", |payload| payload.get());
        // Kept as it was written, but nothing that others could not read.
        if serde_json::from_str::<Value>(payload).is_err() {
            return Err(Invalid::new("payload", "is nested too deeply"));
        }
        Ok(ScheduleDraft {
            queue,
            name,
            cron: self.cron.clone(),
            zone: self.zone.clone(),
            dst: self.dst.clone(),
            payload: payload.to_owned(),
            to: self.to.clone(),
            tags: self.tags.clone(),
            enabled: self.enabled.unwrap_or(true),
        })
    }
}

/// A delivery that recurs. It can be sent back as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleDocument<'a> {
    queue: &'a str,
    name: &'a str,
    cron: &'a str,
    zone: &'a str,
    dst: &'a str,
    #[schema(value_type = Value)]
    payload: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    tags: Vec<&'a str>,
    enabled: bool,
    /// Grows with every change.
    version: u64,
    /// The next three runs; none if it is not enabled.
    next: Vec<Time>,
}

impl<'a> ScheduleDocument<'a> {
    fn new(schedule: &'a Schedule, now: Micros) -> Result<ScheduleDocument<'a>, Problem> {
        let payload = serde_json::from_str(&schedule.payload);
        let shown = if schedule.enabled { SHOWN } else { 0 };
        Ok(ScheduleDocument {
            queue: schedule.queue.as_str(),
            name: schedule.name.as_str(),
            cron: schedule.cron.expression(),
            zone: schedule.cron.zone(),
            dst: schedule.cron.dst().as_str(),
            payload: payload.map_err(|fault| Problem::new(Code::Internal, "A stored payload is not JSON.").caused_by(&fault))?,
            to: schedule.to.as_ref().map(|to| to.as_str()),
            tags: schedule.tags.iter().map(|tag| tag.as_str()).collect(),
            enabled: schedule.enabled,
            version: schedule.version,
            next: schedule.cron.runs_after(now).take(shown).map(Time).collect(),
        })
    }
}

/// A page of schedules.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Schedules<'a> {
    items: Vec<ScheduleDocument<'a>>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

/// Lists a queue's schedules, by name.
#[utoipa::path(get, path = "/v1/queues/{queue}/schedules", tag = "queue", params(("queue" = String, Path), Page),
    responses((status = 200, body = Schedules<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Response, Problem> {
    let (limit, cursor) = Page::read(page)?;
    let (schedules, next) = cut(shell.app.schedules(&caller, &queue)?, limit, cursor.as_deref(), |schedule| schedule.name.as_str());
    let now = shell.app.now();
    let items = schedules.iter().map(|schedule| ScheduleDocument::new(schedule, now)).collect::<Result<_, _>>()?;
    Ok(answer(StatusCode::OK, &Schedules { items, next }))
}

/// Reads a schedule.
#[utoipa::path(get, path = "/v1/queues/{queue}/schedules/{name}", tag = "queue", params(("queue" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = ScheduleDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, caller: Caller, Ids(queue, name): Ids) -> Result<Response, Problem> {
    let schedule = shell.app.schedule(&caller, &queue, &name)?;
    Ok(answer(StatusCode::OK, &ScheduleDocument::new(&schedule, shell.app.now())?))
}

/// Adds or replaces a schedule.
#[utoipa::path(put, path = "/v1/queues/{queue}/schedules/{name}", tag = "queue", request_body = ScheduleBody,
    params(("queue" = String, Path), ("name" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = ScheduleDocument<'_>, description = "Replaced."), (status = 201, body = ScheduleDocument<'_>, description = "Added."),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn put(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(queue, name): Ids,
    sent: Sent<ScheduleBody>,
) -> Result<Response, Problem> {
    for (field, body, path) in [("queue", &sent.value.queue, &queue), ("name", &sent.value.name, &name)] {
        if body.as_ref().is_some_and(|body| body != path) {
            let what = format!("{field} must be absent, or the same as in the path");
            return Err(Problem::new(Code::InvalidField, what).in_field(field));
        }
    }
    let once = sent.catalog_once(&caller, &format!("schedules/put/{queue}/{name}"))?;
    let saved = shell.app.put_schedule(&caller, sent.value.draft(queue, name)?, once.as_ref()).await?;
    let status = if saved.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &ScheduleDocument::new(&saved.value, shell.app.now())?))
}

/// Deletes a schedule, and its runs to come. Those whose time has come stay.
#[utoipa::path(delete, path = "/v1/queues/{queue}/schedules/{name}", tag = "queue",
    params(("queue" = String, Path), ("name" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and path replays the answer.")),
    responses((status = 204, description = "Deleted."), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn remove(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(queue, name): Ids,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let once = catalog_once(&caller, &headers, &format!("schedules/delete/{queue}/{name}"))?;
    shell.app.delete_schedule(&caller, &queue, &name, once.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
