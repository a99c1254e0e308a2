//! limit: `POST /v1/limit/{acquire,renew,release}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hermod_core::limit::Attributes;
use hermod_core::{Action, Invalid, Micros, Subject};
use hermod_engine::Durability;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::durability;
use crate::app::{Caller, LeaseAnswer, LeaseAsk, LeaseSaid};
use crate::code::Problem;
use crate::http::Shell;
use crate::http::problem::Document;
use crate::http::sent::{Sent, answer};
use crate::http::time::Time;

/// A lease to be taken.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireBody {
    /// Who.
    #[schema(example = "agent-7")]
    subject: String,
    /// What.
    #[schema(example = "browser/open")]
    action: String,
    /// Its id. Taking one twice with the same id is one lease. One is made up if absent.
    lease: Option<String>,
    /// For how long; as long as the rule allows if absent.
    #[schema(example = "30s")]
    ttl: Option<String>,
    /// What else the rules' conditions may look at.
    #[serde(default)]
    #[schema(value_type = Object)]
    attributes: Attributes,
}

/// A lease that is held.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseBody {
    /// Who.
    subject: String,
    /// Its id.
    lease: String,
    /// For how long from now; as long as it was taken for if absent. Not for release.
    ttl: Option<String>,
}

/// What became of a lease.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LeaseAnswer)]
pub(crate) struct LeaseDocument<'a> {
    /// Whether it is held; after a release, whether it was.
    allowed: bool,
    /// Its id.
    lease: &'a str,
    /// When it ends by itself.
    expires_at: Option<Time>,
    /// Every rule it counts under.
    rules: Vec<LeaseRule<'a>>,
    /// The name of the rule that refused.
    bound_by: Option<&'a str>,
    /// When one could be had, if nobody else takes it meanwhile.
    retry_at: Option<Time>,
    /// The time of the answer, by the clock that counted.
    now: Time,
    #[serde(serialize_with = "durability")]
    #[schema(value_type = Option<String>)]
    durability: Option<Durability>,
    /// Answered without all that should have been asked: the subject's own rules could not be read, or
    /// the store could not be reached and the rules say to answer all the same.
    degraded: bool,
    /// The same answer was given before, for the same idempotency key.
    replayed: bool,
}

/// One rule a lease counts under.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeaseRule<'a> {
    id: &'a str,
    name: &'a str,
    /// How many at once.
    limit: u64,
    /// How many more can be had now.
    remaining: u64,
}

impl<'a> LeaseDocument<'a> {
    fn new(answer: &'a LeaseAnswer) -> LeaseDocument<'a> {
        let rule = |said: &'a LeaseSaid| LeaseRule { id: &said.id, name: &said.name, limit: said.limit, remaining: said.left };
        LeaseDocument {
            allowed: answer.is_held,
            lease: &answer.lease,
            expires_at: answer.until.map(Time),
            rules: answer.rules.iter().map(rule).collect(),
            bound_by: answer.bound_by.as_deref(),
            retry_at: answer.retry_at.map(Time),
            now: Time::passed(answer.now),
            durability: answer.durability,
            degraded: answer.is_degraded,
            replayed: answer.is_replayed,
        }
    }
}

pub(in crate::http) fn span(text: Option<&str>) -> Result<Option<Micros>, Invalid> {
    let Some(text) = text else { return Ok(None) };
    let span = humantime::parse_duration(text).ok().and_then(Micros::from_duration).filter(|span| *span > Micros::ZERO);
    span.map(Some).ok_or_else(|| Invalid::new("ttl", "must be a duration such as \"30s\" or \"5m\""))
}

/// Takes a lease under every rule of algorithm `concurrency` that matches, or under none.
#[utoipa::path(post, path = "/v1/limit/acquire", tag = "limit", request_body = AcquireBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = LeaseDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn acquire(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<AcquireBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/acquire")?;
    let body = &sent.value;
    let ask = LeaseAsk {
        subject: Subject::new(&body.subject)?,
        action: Action::new(&body.action)?,
        lease: body.lease.clone(),
        ttl: span(body.ttl.as_deref())?,
        attributes: body.attributes.clone(),
    };
    let leased = shell.app.acquire(&caller, &ask, once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &LeaseDocument::new(&leased)))
}

/// Keeps a lease for longer.
#[utoipa::path(post, path = "/v1/limit/renew", tag = "limit", request_body = LeaseBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = LeaseDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn renew(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<LeaseBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/renew")?;
    let ttl = span(sent.value.ttl.as_deref())?;
    let subject = Subject::new(&sent.value.subject)?;
    let leased = shell.app.keep_lease(&caller, &subject, &sent.value.lease, Some(ttl), once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &LeaseDocument::new(&leased)))
}

/// Gives a lease back.
#[utoipa::path(post, path = "/v1/limit/release", tag = "limit", request_body = LeaseBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = LeaseDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn release(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<LeaseBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/release")?;
    if sent.value.ttl.is_some() {
        return Err(Invalid::new("ttl", "has no meaning where a lease is given back").into());
    }
    let subject = Subject::new(&sent.value.subject)?;
    let leased = shell.app.keep_lease(&caller, &subject, &sent.value.lease, None, once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &LeaseDocument::new(&leased)))
}
