//! limit: `/v1/rules`.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermod_core::limit::{Algorithm, OnExpiry, Rule};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shell;
use super::page::{Page, fetched, to_fetch};
use super::problem::Document;
use super::sent::{Id, Sent, answer, catalog_once};
use crate::app::{Caller, RuleDraft};
use crate::code::{Code, Problem};

/// A limit on an action, to be saved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleBody {
    /// Made up if absent. With `PUT`, the path's.
    id: Option<String>,
    /// The policy. Of one name the most specific rule applies, rules of different names all apply.
    #[schema(example = "burst")]
    name: Option<String>,
    /// Which actions: exact, or a glob such as `tasks/*`.
    #[schema(example = "tasks/create")]
    action: String,
    /// Whom: exact, or a glob such as `vip:*`; everyone if absent.
    subject: Option<String>,
    /// Applies only where this CEL expression over subject, action, cost and attributes is true.
    #[schema(example = "attributes.plan == 'free'")]
    when: Option<String>,
    /// How many per period; for concurrency, how many at once.
    #[schema(minimum = 1, example = 3)]
    #[serde(alias = "requests_per_unit")]
    limit: u64,
    /// The period: a duration, or second, minute, hour, day, or a calendar window such as
    /// `day@Europe/Berlin`. For concurrency, the longest lease.
    #[schema(example = "10s")]
    #[serde(alias = "unit")]
    per: String,
    /// sliding_window (the default), sliding_log, fixed_window, token_bucket (or gcra), leaky_bucket, concurrency.
    #[schema(example = "token_bucket")]
    algorithm: Option<String>,
    /// The most at once from a bucket; `limit` if absent.
    #[schema(minimum = 1)]
    burst: Option<u64>,
    /// How many beyond the burst of a leaky_bucket are let in to wait their turn.
    queue: Option<u64>,
    /// For sliding_window: two counters instead of a ring; up to twice the limit in the worst case.
    #[serde(default)]
    approximate: bool,
    /// subject (the default): a counter each; global: one for all.
    scope: Option<String>,
    /// enforce (the default), shadow: count and report only, block: always refuse.
    mode: Option<String>,
    /// Whether an answer waits until the charge is on disk.
    #[serde(default)]
    durable: bool,
    /// open, closed or local: what to answer while the store cannot be reached. Of a durable rule
    /// closed if absent, of others open.
    on_store_error: Option<String>,
    /// keep or refund: what becomes of an estimate that was reserved and never settled; keep if absent.
    on_expiry: Option<String>,
    /// Numbered by the server. It may stand here, so that what was read can be sent back.
    #[serde(rename = "version")]
    _version: Option<u64>,
}

impl RuleBody {
    fn draft(&self, id: Option<String>) -> RuleDraft {
        RuleDraft {
            id,
            name: self.name.clone(),
            action: self.action.clone(),
            subject: self.subject.clone(),
            when: self.when.clone(),
            limit: self.limit,
            per: self.per.clone(),
            algorithm: self.algorithm.clone(),
            burst: self.burst,
            queue: self.queue,
            approximate: self.approximate,
            scope: self.scope.clone(),
            mode: self.mode.clone(),
            durable: self.durable,
            on_store_error: self.on_store_error.clone(),
            on_expiry: self.on_expiry.clone(),
        }
    }
}

/// A rule. What does not apply to its algorithm is left out, so that it can be sent back as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Rule)]
pub(crate) struct RuleDocument<'a> {
    id: &'a str,
    name: &'a str,
    action: &'a str,
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<&'a str>,
    limit: u64,
    per: String,
    algorithm: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    approximate: bool,
    scope: &'a str,
    mode: &'a str,
    durable: bool,
    on_store_error: &'a str,
    /// Left out where it is `keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_expiry: Option<&'a str>,
    /// Grows with every change.
    version: u64,
}

impl<'a> RuleDocument<'a> {
    fn new(rule: &'a Rule) -> RuleDocument<'a> {
        let is_bucket = matches!(rule.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
        RuleDocument {
            id: rule.id.as_str(),
            name: rule.name.as_str(),
            action: rule.action.as_str(),
            subject: rule.subject.as_ref().map(|s| s.as_str()),
            when: rule.when.as_ref().map(|when| when.as_str()),
            limit: rule.limit,
            per: rule.per.to_string(),
            algorithm: rule.algorithm.as_str(),
            burst: is_bucket.then(|| rule.burst.unwrap_or(rule.limit)),
            queue: rule.queue,
            approximate: rule.approximate,
            scope: rule.scope.as_str(),
            mode: rule.mode.as_str(),
            durable: rule.durable,
            on_store_error: rule.on_store_error().as_str(),
            on_expiry: Some(rule.on_expiry).filter(|policy| *policy != OnExpiry::default()).map(OnExpiry::as_str),
            version: rule.version,
        }
    }
}

/// A page of rules.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Rules<'a> {
    items: Vec<RuleDocument<'a>>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

/// Lists the space's rules, by id.
#[utoipa::path(get, path = "/v1/rules", tag = "limit", params(Page),
    responses((status = 200, body = Rules<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    page: Result<Query<Page>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let (limit, cursor) = Page::read(page)?;
    let mut rules = shell.app.rules(&caller, cursor.as_deref(), to_fetch(limit)).await?;
    let next = fetched(&mut rules, limit, |rule| rule.id.as_str());
    Ok(answer(StatusCode::OK, &Rules { items: rules.iter().map(RuleDocument::new).collect(), next }))
}

/// Adds a rule.
#[utoipa::path(post, path = "/v1/rules", tag = "limit", request_body = RuleBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 201, body = RuleDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn create(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<RuleBody>) -> Result<Response, Problem> {
    let once = sent.catalog_once(&caller, "rules/create")?;
    let saved = shell.app.create_rule(&caller, sent.value.draft(sent.value.id.clone()), once.as_ref()).await?;
    Ok(answer(StatusCode::CREATED, &RuleDocument::new(&saved.value)))
}

/// Reads a rule.
#[utoipa::path(get, path = "/v1/rules/{id}", tag = "limit", params(("id" = String, Path)),
    responses((status = 200, body = RuleDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let rule = shell.app.rule(&caller, &id).await?;
    Ok(answer(StatusCode::OK, &RuleDocument::new(&rule)))
}

/// Adds or replaces a rule. What is used under it stays used.
#[utoipa::path(put, path = "/v1/rules/{id}", tag = "limit", request_body = RuleBody,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = RuleDocument<'_>, description = "Replaced."), (status = 201, body = RuleDocument<'_>, description = "Added."),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn put(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id, sent: Sent<RuleBody>) -> Result<Response, Problem> {
    if sent.value.id.as_ref().is_some_and(|body| *body != id) {
        return Err(Problem::new(Code::InvalidField, "id must be absent, or the same as in the path").in_field("id"));
    }
    let once = sent.catalog_once(&caller, &format!("rules/put/{id}"))?;
    let saved = shell.app.put_rule(&caller, sent.value.draft(Some(id)), once.as_ref()).await?;
    let status = if saved.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &RuleDocument::new(&saved.value)))
}

/// Deletes a rule.
#[utoipa::path(delete, path = "/v1/rules/{id}", tag = "limit",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and path replays the answer.")),
    responses((status = 204, description = "Deleted."), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn remove(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id, headers: HeaderMap) -> Result<Response, Problem> {
    let once = catalog_once(&caller, &headers, &format!("rules/delete/{id}"))?;
    shell.app.delete_rule(&caller, &id, once.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
