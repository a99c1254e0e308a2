//! The `RateLimit` and `RateLimit-Policy` fields (draft-ietf-httpapi-ratelimit-headers), and `Retry-After`.

use std::fmt::Write;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use hermod_core::Micros;

use crate::app::CheckAnswer;

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static LIMIT: HeaderName = HeaderName::from_static("ratelimit");

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
