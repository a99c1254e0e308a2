//! The clock of a server started with `--manual-clock`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hermod_catalog::Scope;
use hermod_core::{Invalid, Micros};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shell;
use super::problem::Document;
use super::sent::{Sent, answer};
use super::time::Time;
use crate::app::Caller;
use crate::code::Problem;

/// How far to move the clock.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClockBody {
    /// A duration.
    #[schema(example = "1h")]
    advance: String,
}

/// The server's time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Clock)]
pub(crate) struct ClockDocument {
    now: Time,
}

/// The server's time.
#[utoipa::path(get, path = "/v1/clock", tag = "clock", responses((status = 200, body = ClockDocument)))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, _caller: Caller) -> Response {
    answer(StatusCode::OK, &ClockDocument { now: Time(shell.app.now()) })
}

/// Moves the clock of a server that was started with `--manual-clock`.
#[utoipa::path(post, path = "/v1/clock", tag = "clock", request_body = ClockBody,
    responses((status = 200, body = ClockDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn advance(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<ClockBody>) -> Result<Response, Problem> {
    caller.need(Scope::Admin)?;
    let span = humantime::parse_duration(&sent.value.advance).ok().and_then(Micros::from_duration);
    let span = span.ok_or_else(|| Invalid::new("advance", "must be a duration such as 1h"))?;
    Ok(answer(StatusCode::OK, &ClockDocument { now: Time(shell.app.advance(span)?) }))
}
