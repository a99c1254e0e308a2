//! limit: `POST /v1/limit/{check,refund,reset,batch}`; leases, reservations and the gate have files of their own.

mod gate;
mod headers;
mod lease;
mod reserve;

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::future::join_all;
use hermod_catalog::Scope;
use hermod_core::Once;
use hermod_core::limit::{Act, Attributes, Considered, Meter, Why};
use hermod_engine::Durability;
use serde::{Deserialize, Serialize, Serializer};
use utoipa::{IntoParams, ToSchema};

use super::Shell;
use super::problem::{Document, Inline};
use super::sent::{Sent, answer, bad_query};
use super::time::Time;
use crate::app::{Caller, CheckAnswer, CheckAsk, Said};
use crate::code::{Code, Problem};

pub(crate) use gate::{__path_gate, gate};
pub(super) use lease::span;
pub(crate) use lease::{__path_acquire, __path_release, __path_renew, acquire, release, renew};
pub(crate) use reserve::{__path_cancel, __path_commit, __path_reserve, cancel, commit, reserve};

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
    /// How much it takes; 1 if absent.
    #[schema(minimum = 1, example = 1)]
    cost: Option<u64>,
    /// What else the rules' conditions may look at.
    #[serde(default)]
    #[schema(value_type = Object)]
    attributes: Attributes,
    /// Only look: nothing is charged.
    #[serde(default)]
    peek: bool,
    /// The same as `peek`.
    #[serde(default)]
    dry_run: bool,
    /// Charge also what does not fit, up to as much again as the limit.
    #[serde(default)]
    force: bool,
    /// Show every rule that was considered, and why it does not apply.
    #[serde(default)]
    explain: bool,
}

impl CheckBody {
    pub(crate) fn ask(&self) -> Result<CheckAsk, Problem> {
        let mut ask = CheckAsk::new(&self.subject, &self.action, self.cost)?;
        ask.act = match (self.peek || self.dry_run, self.force) {
            (true, true) => {
                return Err(Problem::new(Code::InvalidField, "force must not stand beside peek or dry_run.").in_field("force"));
            }
            (true, false) => Act::Peek,
            (false, true) => Act::Force,
            (false, false) => Act::Check,
        };
        ask = ask.with(&self.attributes)?;
        Ok(ask)
    }
}

/// Whether it may, why not, and when.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CheckAnswer)]
pub(crate) struct CheckDocument<'a> {
    /// Whether every rule admitted it. If so, every rule was charged; if not, none was.
    allowed: bool,
    /// Whether it never will be: a rule forbids it, or could never hold the cost.
    never: bool,
    /// What each matching rule said.
    rules: Vec<RuledDocument<'a>>,
    /// The name of the rule that refused.
    bound_by: Option<&'a str>,
    /// When all rules would admit it.
    retry_at: Option<Time>,
    /// How long to wait before acting, where a rule lets in what must queue.
    delay_ms: u64,
    /// The time of the answer, by the clock that counted.
    now: Time,
    /// What the charge survives; null if nothing was charged.
    #[serde(serialize_with = "durability")]
    #[schema(value_type = Option<String>, example = "deferred")]
    durability: Option<Durability>,
    /// Answered without all that should have been asked: the subject's own rules could not be read, or
    /// the store could not be reached and the rules say to answer all the same.
    degraded: bool,
    /// The same answer was given before, for the same idempotency key.
    replayed: bool,
    /// Every rule that was considered, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Vec<ConsideredDocument>>,
}

/// What one rule said.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ruled)]
pub(crate) struct RuledDocument<'a> {
    /// The rule.
    id: &'a str,
    /// Its policy.
    name: &'a str,
    /// How many per period.
    limit: u64,
    /// The most at once.
    burst: u64,
    /// The usual length of its period.
    window_ms: u64,
    /// How many are left after this answer.
    remaining: u64,
    /// When everything is back.
    reset_at: Time,
    /// When this rule would admit it; null if it did, or never will.
    retry_at: Option<Time>,
    /// Whether it refused; if it only reports, whether it would have.
    refused: bool,
    /// It only reports.
    shadow: bool,
}

/// A rule that was considered.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Considered)]
pub(crate) struct ConsideredDocument {
    id: String,
    name: String,
    /// Whether it applies.
    applies: bool,
    /// Why, or why not.
    why: String,
}

const MATCHES: &str = "its action, subject and condition match";

impl ConsideredDocument {
    fn new(considered: &Considered) -> ConsideredDocument {
        let (applies, why) = match &considered.why {
            Why::Applies if matches!(considered.rule.meter, Meter::Window(_)) => {
                (true, format!("{MATCHES}; as a fixed window, it admits up to twice its limit around the turn of its period"))
            }
            Why::Applies => (true, MATCHES.to_owned()),
            Why::Overridden { by } => (false, format!("the more specific rule {by} has the same name")),
            Why::WhenFalse => (false, "its condition is not true".to_owned()),
        };
        ConsideredDocument { id: considered.rule.id.to_string(), name: considered.rule.name.to_string(), applies, why }
    }
}

pub(super) fn durability<S: Serializer>(value: &Option<Durability>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_none(),
        Some(Durability::Deferred) => serializer.serialize_str("deferred"),
        Some(Durability::Disk) => serializer.serialize_str("disk"),
        Some(Durability::Memory) => serializer.serialize_str("memory"),
        Some(Durability::Replicas(n)) => serializer.collect_str(&format_args!("replicas:{n}")),
    }
}

impl<'a> CheckDocument<'a> {
    pub(crate) fn new(answer: &'a CheckAnswer) -> CheckDocument<'a> {
        let ruled = |said: Said<'a>| RuledDocument {
            id: said.id,
            name: said.name,
            limit: said.limit,
            burst: said.burst,
            window_ms: said.window.get().div_ceil(1000),
            remaining: said.left,
            reset_at: Time(said.reset_at),
            retry_at: said.retry_at.map(Time),
            refused: said.is_refused,
            shadow: said.is_shadow,
        };
        let is_allowed = answer.is_allowed();
        CheckDocument {
            allowed: is_allowed,
            never: !is_allowed && answer.is_never(),
            rules: answer.said().map(ruled).collect(),
            bound_by: if is_allowed { None } else { answer.bound_by() },
            retry_at: if is_allowed { None } else { answer.retry_at().map(Time) },
            delay_ms: answer.delay().get().div_ceil(1000),
            now: Time::passed(answer.now()),
            durability: answer.durability,
            degraded: answer.is_degraded,
            replayed: answer.is_replayed,
            explain: None,
        }
    }
}

/// Takes `cost` from every matching rule, or from none.
#[utoipa::path(post, path = "/v1/limit/check", tag = "limit", request_body = CheckBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer of an allowed check.")),
    responses((status = 200, description = "Allowed or refused; a refusal is an answer.", body = CheckDocument<'_>),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "5XX", description = "No answer could be given.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn check(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<CheckBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/check")?;
    let ask = sent.value.ask()?;
    let checked = shell.app.check(&caller, &ask, once.as_ref()).await?;
    let mut document = CheckDocument::new(&checked);
    if sent.value.explain {
        let considered = shell.app.considered(&caller, &ask).await?;
        document.explain = Some(considered.iter().map(ConsideredDocument::new).collect());
    }
    let mut response = answer(StatusCode::OK, &document);
    headers::write_legacy(&shell, &checked, response.headers_mut());
    Ok(response)
}

/// What is to be given back or forgotten.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GiveBackBody {
    /// Who.
    #[schema(example = "bot-7")]
    subject: String,
    /// What.
    #[schema(example = "tasks/create")]
    action: String,
    /// How much; 1 if absent. Not for reset.
    #[schema(minimum = 1, example = 1)]
    cost: Option<u64>,
    /// What the rules' conditions looked at.
    #[serde(default)]
    #[schema(value_type = Object)]
    attributes: Attributes,
}

/// Gives back to every matching rule; never below nothing used.
#[utoipa::path(post, path = "/v1/limit/refund", tag = "limit", request_body = GiveBackBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = CheckDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn refund(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<GiveBackBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/refund")?;
    let mut ask = CheckAsk::new(&sent.value.subject, &sent.value.action, sent.value.cost)?;
    ask.act = Act::Refund;
    let ask = ask.with(&sent.value.attributes)?;
    let checked = shell.app.check(&caller, &ask, once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &CheckDocument::new(&checked)))
}

/// How much was forgotten.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Forgotten {
    /// Counters that still meant something.
    forgotten: u64,
}

/// Forgets what a subject has used under the rules that match. Counters that all subjects share stay.
#[utoipa::path(post, path = "/v1/limit/reset", tag = "limit", request_body = GiveBackBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = Forgotten), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn reset(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<GiveBackBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/reset")?;
    if sent.value.cost.is_some() {
        return Err(Problem::new(Code::InvalidField, "cost has no meaning here: everything is forgotten.").in_field("cost"));
    }
    let ask = CheckAsk::new(&sent.value.subject, &sent.value.action, None)?.with(&sent.value.attributes)?;
    let forgotten = shell.app.reset(&caller, &ask, once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &Forgotten { forgotten }))
}

/// Many independent checks.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// At most 1,000.
    checks: Vec<BatchCheck>,
}

/// One of many checks.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchCheck {
    /// Who.
    subject: String,
    /// What.
    action: String,
    /// How much it takes; 1 if absent.
    cost: Option<u64>,
    /// What else the rules' conditions may look at.
    #[serde(default)]
    #[schema(value_type = Object)]
    attributes: Attributes,
    /// Only look.
    #[serde(default)]
    peek: bool,
    /// An idempotency key of this check.
    key: Option<String>,
}

/// The most checks in one request.
const BATCH_MAX: usize = 1_000;

/// One answer for each check, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchDocument<'a> {
    answers: Vec<BatchAnswer<'a>>,
}

/// What became of one check.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BatchAnswer<'a> {
    /// An answer.
    Checked(CheckDocument<'a>),
    /// No answer could be given to this one.
    Problem {
        /// Why.
        problem: Inline<'a>,
    },
}

impl<'a> BatchAnswer<'a> {
    fn new(answer: &'a Result<CheckAnswer, Problem>) -> BatchAnswer<'a> {
        match answer {
            Ok(answer) => BatchAnswer::Checked(CheckDocument::new(answer)),
            Err(problem) => BatchAnswer::Problem { problem: Inline::new(problem) },
        }
    }
}

/// Makes many independent checks: each is charged or refused by itself.
#[utoipa::path(post, path = "/v1/limit/batch", tag = "limit", request_body = BatchBody,
    responses((status = 200, body = BatchDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn batch(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<BatchBody>) -> Result<Response, Problem> {
    caller.need(Scope::LimitCheck)?;
    let checks = &sent.value.checks;
    if checks.is_empty() || checks.len() > BATCH_MAX {
        return Err(Problem::new(Code::InvalidField, format!("checks must hold 1 to {BATCH_MAX} checks.")).in_field("checks"));
    }
    let one = async |check: &BatchCheck| {
        let mut ask = CheckAsk::new(&check.subject, &check.action, check.cost)?;
        ask.act = if check.peek { Act::Peek } else { Act::Check };
        ask = ask.with(&check.attributes)?;
        let body = format!("limit/batch\n{:?}", (&ask.subject, &ask.action, ask.cost, &ask.attributes, check.peek));
        let once = check.key.as_deref().map(|key| Once::new(key, body.as_bytes())).transpose();
        let once = once.map_err(|fault| Problem::new(Code::InvalidField, format!("key {}", fault.reason)).in_field("key"))?;
        shell.app.check(&caller, &ask, once.as_ref()).await
    };
    let answers = join_all(checks.iter().map(one)).await;
    let document = BatchDocument { answers: answers.iter().map(BatchAnswer::new).collect() };
    Ok(answer(StatusCode::OK, &document))
}

/// How many.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Most {
    /// How many, 1-100; 10 if absent.
    limit: Option<usize>,
}

/// Who is refused most.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusedDocument {
    items: Vec<RefusedSubject>,
}

/// A subject that is refused often.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusedSubject {
    subject: String,
    /// How often since this server was started; perhaps too high, never too low.
    refused: u64,
}

/// The subjects that this server refused most, about: a bounded sketch.
#[utoipa::path(get, path = "/v1/limit/refused", tag = "limit", params(Most),
    responses((status = 200, body = RefusedDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn refused(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    most: Result<Query<Most>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Query(most) = most.map_err(|rejection| bad_query(&rejection, "limit", "limit (a number)"))?;
    let most = most.limit.unwrap_or(10);
    if !(1..=100).contains(&most) {
        return Err(Problem::new(Code::InvalidField, "limit must be between 1 and 100").in_field("limit"));
    }
    let items = shell.app.refused(&caller, most)?;
    let items = items.into_iter().map(|(subject, refused)| RefusedSubject { subject, refused }).collect();
    Ok(answer(StatusCode::OK, &RefusedDocument { items }))
}
