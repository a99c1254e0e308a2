//! What a caller sees of a check: headers on every answer, and problem documents.
//!
//! The same fields as the server's own gate sends (draft-ietf-httpapi-ratelimit-headers).

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::error::Problem;
use crate::limit::Checked;
use crate::time::Time;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A problem document.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    violated_policies: Option<Vec<&'a str>>,
}

/// Says what the rules said: the policies with quota and window, and what remains until when. Added
/// to what is there, because layers may stand behind one another and the fields are lists.
pub(super) fn write(checked: &Checked, headers: &mut HeaderMap) {
    let now = now_of(checked);
    let (mut policy, mut limit) = (String::new(), String::new());
    for rule in checked.rules.iter().filter(|rule| !rule.shadow) {
        let gap = if policy.is_empty() { "" } else { ", " };
        let window = rule.window_ms.div_ceil(1000).max(1);
        // The server admits no name that would need escapes. Writing to a string cannot fail.
        let _policy = write!(policy, "{gap}\"{}\";q={};w={window}", rule.name, rule.limit);
        let _limit = write!(limit, "{gap}\"{}\";r={};t={}", rule.name, rule.remaining, seconds_until(rule.reset_at, now));
    }
    for (name, value) in [(POLICY, policy), (LIMIT, limit)] {
        if let Some(value) = HeaderValue::from_str(&value).ok().filter(|value| !value.is_empty()) {
            headers.append(name, value);
        }
    }
}

/// A refusal.
pub(super) fn refused<B: From<Vec<u8>>>(checked: &Checked) -> Response<B> {
    let bound_by = checked.bound_by.as_deref();
    // A rule that never admits it has no time to retry; then it is the one that is named.
    let is_violated = |name: &str, is_denied: bool| is_denied || bound_by == Some(name);
    let rules = checked.rules.iter().filter(|rule| !rule.shadow && is_violated(&rule.name, rule.retry_at.is_some()));
    let by = bound_by.unwrap_or("a rule");
    let detail = match checked.never {
        true => format!("The policy {by} does not admit this at any time."),
        false => format!("The policy {by} does not admit this yet; Retry-After says when."),
    };
    let mut response = problem(&Document {
        kind: "https://iana.org/assignments/http-problem-types#quota-exceeded",
        title: "Request cannot be satisfied as assigned quota has been exceeded",
        status: StatusCode::TOO_MANY_REQUESTS.as_u16(),
        detail: &detail,
        code: "quota_exceeded",
        field: None,
        violated_policies: Some(rules.map(|rule| rule.name.as_str()).collect()),
    });
    write(checked, response.headers_mut());
    if let Some(at) = checked.retry_at {
        let wait = seconds_until(at, now_of(checked)).max(1);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait));
    }
    response
}

/// No answer could be had, and nothing passes without one.
pub(super) fn closed<B: From<Vec<u8>>>(pause: Duration) -> Response<B> {
    let mut response = problem(&Document {
        kind: "about:blank",
        title: "Service Unavailable",
        status: StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        detail: "Whether this is within its limits cannot be told at the moment. Ask again a little later.",
        code: "limit_unavailable",
        field: None,
        violated_policies: None,
    });
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds(pause).max(1)));
    response
}

/// The limiter does not take this request's subject, cost or attributes.
pub(super) fn unacceptable<B: From<Vec<u8>>>(fault: &Problem) -> Response<B> {
    problem(&Document {
        kind: "about:blank",
        title: "Bad Request",
        status: StatusCode::BAD_REQUEST.as_u16(),
        detail: &fault.detail,
        code: &fault.code,
        field: fault.field.as_deref(),
        violated_policies: None,
    })
}

fn problem<B: From<Vec<u8>>>(document: &Document<'_>) -> Response<B> {
    // Texts and numbers only: this is always JSON.
    let mut response = Response::new(B::from(serde_json::to_vec(document).unwrap_or_default()));
    *response.status_mut() = StatusCode::from_u16(document.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
    response
}

/// The answer's own time if it was told: two machines' clocks need not agree.
fn now_of(checked: &Checked) -> SystemTime {
    checked.now.map_or_else(SystemTime::now, Time::to_system_time)
}

fn seconds_until(at: Time, now: SystemTime) -> u64 {
    seconds(at.to_system_time().duration_since(now).unwrap_or_default())
}

/// Whole seconds, rounded up.
fn seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}
