//! limit: `POST /v1/limit/check`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hermod_engine::Durability;
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use super::Shell;
use super::problem::Document;
use super::sent::{Sent, answer};
use super::time::Time;
use crate::app::{Caller, CheckAnswer, CheckAsk, Said};
use crate::code::Problem;

/// May this subject do this now?
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckBody {
    /// Who: a user, an agent, an IP. 1-256 bytes.
    #[schema(example = "bot-7")]
    subject: String,
    /// What. 1-256 bytes.
    #[schema(example = "tasks/create")]
    action: String,
    /// How many tokens it takes; 1 if absent.
    #[schema(minimum = 1, example = 1)]
    cost: Option<u64>,
}

/// Whether it may, why not, and when.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CheckAnswer)]
pub(crate) struct CheckDocument<'a> {
    /// Whether every rule admitted it. If so, every rule was charged; if not, none was.
    allowed: bool,
    /// Whether it never will be: the cost is above a rule's burst.
    never: bool,
    /// What each matching rule said.
    rules: Vec<RuledDocument<'a>>,
    /// The name of the rule that refused.
    bound_by: Option<&'a str>,
    /// When all rules would admit it.
    retry_at: Option<Time>,
    /// What the charge survives; null if nothing was charged.
    #[serde(serialize_with = "durability")]
    #[schema(value_type = Option<String>, example = "deferred")]
    durability: Option<Durability>,
    /// The subject's own rules could not be read; only everyone's were applied.
    degraded: bool,
    /// The same answer was given before, for the same idempotency key.
    replayed: bool,
}

/// What one rule said.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ruled)]
pub(crate) struct RuledDocument<'a> {
    /// The rule.
    id: &'a str,
    /// Its policy.
    name: &'a str,
    /// Tokens regained per period.
    limit: u64,
    /// The most at once.
    burst: u64,
    /// Tokens left after this answer.
    remaining: u64,
    /// When all of the burst is back.
    reset_at: Time,
    /// When this rule would admit it; null if it did, or never will.
    retry_at: Option<Time>,
}

fn durability<S: Serializer>(value: &Option<Durability>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_none(),
        Some(Durability::Deferred) => serializer.serialize_str("deferred"),
        Some(Durability::Disk) => serializer.serialize_str("disk"),
        Some(Durability::Memory) => serializer.serialize_str("memory"),
        Some(Durability::Replicas(n)) => serializer.collect_str(&format_args!("replicas:{n}")),
    }
}

impl<'a> CheckDocument<'a> {
    fn new(answer: &'a CheckAnswer) -> CheckDocument<'a> {
        let ruled = |said: Said<'a>| RuledDocument {
            id: said.id,
            name: said.name,
            limit: said.limit,
            burst: said.burst,
            remaining: said.left,
            reset_at: Time(said.reset_at),
            retry_at: said.retry_at.map(Time),
        };
        CheckDocument {
            allowed: answer.is_allowed(),
            never: answer.is_never(),
            rules: answer.ruled().map(ruled).collect(),
            bound_by: answer.bound_by(),
            retry_at: answer.retry_at().map(Time),
            durability: answer.durability,
            degraded: answer.is_degraded,
            replayed: answer.is_replayed,
        }
    }
}

/// Takes `cost` tokens from every matching rule, or from none.
#[utoipa::path(post, path = "/v1/limit/check", tag = "limit", request_body = CheckBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer of an allowed check.")),
    responses((status = 200, description = "Allowed or refused; a refusal is an answer.", body = CheckDocument<'_>),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "5XX", description = "No answer could be given.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn check(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<CheckBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/check")?;
    let body = &sent.value;
    let ask = CheckAsk::new(&body.subject, &body.action, body.cost)?;
    let checked = shell.app.check(&caller, ask, once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &CheckDocument::new(&checked)))
}
