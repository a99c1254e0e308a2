//! limit: `GET /v1/limit/gate/{action}/{subject}`, for proxies that ask before they pass a request on.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::headers;
use crate::app::{Caller, CheckAsk};
use crate::code::{Code, Problem};
use crate::http::Shell;
use crate::http::problem::Document;
use crate::http::sent::bad_query;

/// How much.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateQuery {
    /// How much it takes; 1 if absent.
    cost: Option<u64>,
}

/// A refusal at the gate.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QuotaExceeded)]
pub(crate) struct Refusal<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    /// The names of the policies that refused.
    #[serde(rename = "violated-policies")]
    violated_policies: Vec<&'a str>,
}

/// Charges like a check, and answers by status and headers alone: 204, or 429 with `Retry-After`.
#[utoipa::path(get, path = "/v1/limit/gate/{action}/{subject}", tag = "limit",
    params(("action" = String, Path, description = "Percent-encoded: tasks%2Fcreate."), ("subject" = String, Path), GateQuery),
    responses((status = 204, description = "Let it pass. RateLimit and RateLimit-Policy say what is left."),
        (status = 429, description = "Refused.", body = Refusal<'_>, content_type = "application/problem+json"),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json"),
        (status = "5XX", description = "No answer could be given; never because of a limit.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn gate(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    query: Result<Query<GateQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Path((action, subject)) =
        path.map_err(|_| Problem::new(Code::InvalidField, "action and subject must be UTF-8, percent-encoded").in_field("action"))?;
    let Query(query) = query.map_err(|rejection| bad_query(&rejection, "cost", "cost (a number)"))?;
    let ask = CheckAsk::new(&subject, &action, query.cost)?;
    let answer = shell.app.check(&caller, &ask, None).await?;
    let mut response = if answer.is_allowed() {
        StatusCode::NO_CONTENT.into_response()
    } else {
        let violated_policies = answer.said().filter(|said| said.is_refused && !said.is_shadow).map(|said| said.name).collect();
        let by = answer.bound_by().unwrap_or("a rule");
        let detail = match answer.is_never() {
            true => format!("The policy {by} does not admit this at any time."),
            false => format!("The policy {by} does not admit this yet; Retry-After says when."),
        };
        let refusal = Refusal {
            kind: "https://iana.org/assignments/http-problem-types#quota-exceeded",
            title: "Request cannot be satisfied as assigned quota has been exceeded",
            status: 429,
            detail,
            code: "quota_exceeded",
            violated_policies,
        };
        let body = serde_json::to_vec(&refusal).unwrap_or_default();
        (StatusCode::TOO_MANY_REQUESTS, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    };
    headers::write(&answer, response.headers_mut());
    headers::write_legacy(&shell, &answer, response.headers_mut());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
