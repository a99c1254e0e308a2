//! The `RateLimit` and `RateLimit-Policy` fields (draft-ietf-httpapi-ratelimit-headers), and `Retry-After`; where the
//! setting `legacy_headers` is on, also the older `X-RateLimit-*`.

use std::fmt::Write;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use hermod_core::Micros;

use crate::app::CheckAnswer;
use crate::http::Shell;

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static LIMIT: HeaderName = HeaderName::from_static("ratelimit");

static OLD_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
static OLD_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
static OLD_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Whole seconds, rounded up.
fn seconds(span: Micros) -> u64 {
    span.get().div_ceil(1_000_000)
}

/// What the rules say, as response headers: the policies with quota and window, the state with what
/// remains and when it is reset, and on a refusal when to come again.
pub(super) fn write(answer: &CheckAnswer, headers: &mut HeaderMap) {
    let (mut policy, mut limit) = (String::new(), String::new());
    for said in answer.said().filter(|said| !said.is_shadow) {
        let gap = if policy.is_empty() { "" } else { ", " };
        // Names hold letters, digits, '_', '-' and '.' only: a quoted string needs no escapes. Writing to a string cannot fail.
        let _policy = write!(policy, "{gap}\"{}\";q={};w={}", said.name, said.limit, seconds(said.window).max(1));
        let reset = seconds(said.reset_at.since(answer.now()));
        let _limit = write!(limit, "{gap}\"{}\";r={};t={reset}", said.name, said.left);
    }
    for (name, value) in [(&POLICY, policy), (&LIMIT, limit)] {
        if let Some(value) = HeaderValue::from_str(&value).ok().filter(|value| !value.is_empty()) {
            headers.insert(name.clone(), value);
        }
    }
    if let Some(at) = answer.retry_at() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(at.since(answer.now())).max(1)));
    }
}

/// The older fields, which have room for one rule: the one that refused, else the one with the least left. `Reset` is
/// when everything is back, in seconds since 1970.
pub(super) fn write_legacy(shell: &Shell, answer: &CheckAnswer, headers: &mut HeaderMap) {
    if !shell.legacy_headers {
        return;
    }
    let bound_by = if answer.is_allowed() { None } else { answer.bound_by() };
    let told = answer.said().filter(|said| !said.is_shadow && bound_by.is_none_or(|name| name == said.name));
    let Some(said) = told.min_by_key(|said| (said.left, std::cmp::Reverse(said.reset_at))) else { return };
    // The most at once is what the rest is a part of.
    for (name, value) in [(&OLD_LIMIT, said.burst), (&OLD_REMAINING, said.left), (&OLD_RESET, seconds(said.reset_at))] {
        headers.insert(name.clone(), HeaderValue::from(value));
    }
}
