//! limit: `POST /v1/limit/{reserve,commit,cancel}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hermod_core::limit::Attributes;
use hermod_engine::Durability;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lease::span;
use super::{CheckDocument, durability, headers};
use crate::app::{Caller, CheckAsk, SettleAnswer, SettleOutcome};
use crate::code::Problem;
use crate::http::Shell;
use crate::http::problem::Document;
use crate::http::sent::{Sent, answer};
use crate::http::time::Time;

/// An estimate to be charged now and settled later.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveBody {
    /// Who.
    #[schema(example = "agent-7")]
    subject: String,
    /// What.
    #[schema(example = "llm/tokens")]
    action: String,
    /// How much it will take, by estimate.
    #[schema(minimum = 1, example = 1500)]
    cost: u64,
    /// What else the rules' conditions may look at.
    #[serde(default)]
    #[schema(value_type = Object)]
    attributes: Attributes,
    /// How long it may be settled, 24h at most; 5m if absent.
    #[schema(example = "5m")]
    ttl: Option<String>,
}

/// A check's answer, and the reservation that was made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReserveAnswer)]
pub(crate) struct ReserveDocument<'a> {
    #[serde(flatten)]
    checked: CheckDocument<'a>,
    /// Its id, to commit or cancel it by; null if none was made.
    reservation: Option<&'a str>,
    /// When it expires, and the rules' `on_expiry` decides.
    expires_at: Option<Time>,
}

/// What was really used.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitBody {
    /// The reservation's id.
    #[schema(example = "rs_00000000000000000000000000000007_Ym90LTc")]
    reservation: String,
    /// How much it took; as much as was estimated if absent.
    #[schema(minimum = 0, example = 1210)]
    actual: Option<u64>,
}

/// A reservation of which nothing was used.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelBody {
    /// The reservation's id.
    #[schema(example = "rs_00000000000000000000000000000007_Ym90LTc")]
    reservation: String,
}

/// What became of a reservation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettleAnswer)]
pub(crate) struct SettleDocument<'a> {
    /// `settled`: by this call. `already`: by an earlier one, and this call changed nothing. `expired`: it had
    /// expired before, and this call changed nothing beyond that.
    #[schema(example = "settled")]
    outcome: &'static str,
    /// Its id.
    reservation: &'a str,
    /// What was charged first.
    estimate: u64,
    /// What it was settled to. Of one that expired, the estimate or nothing.
    charged: u64,
    /// Of one that expired what became of it: `refund` where at least one rule says so, else `keep`.
    on_expiry: Option<&'static str>,
    /// The time of the answer, by the clock that counted.
    now: Time,
    /// What the change survives; null if nothing was changed.
    #[serde(serialize_with = "durability")]
    #[schema(value_type = Option<String>)]
    durability: Option<Durability>,
    /// The same answer was given before, for the same idempotency key.
    replayed: bool,
}

impl<'a> SettleDocument<'a> {
    fn new(reservation: &'a str, settled: &SettleAnswer) -> SettleDocument<'a> {
        let (outcome, on_expiry) = match settled.outcome {
            SettleOutcome::Settled => ("settled", None),
            SettleOutcome::Already => ("already", None),
            SettleOutcome::Expired(policy) => ("expired", Some(policy.as_str())),
        };
        SettleDocument {
            outcome,
            reservation,
            estimate: settled.estimate,
            charged: settled.charged,
            on_expiry,
            now: Time::passed(settled.now),
            durability: settled.durability,
            replayed: settled.is_replayed,
        }
    }
}

/// Charges an estimate as a check does; if it is admitted, it can be settled to what was really used.
#[utoipa::path(post, path = "/v1/limit/reserve", tag = "limit", request_body = ReserveBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer of an estimate that was admitted.")),
    responses((status = 200, description = "Admitted or refused; a refusal is an answer.", body = ReserveDocument<'_>),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "5XX", description = "No answer could be given.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn reserve(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<ReserveBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/reserve")?;
    let body = &sent.value;
    let ask = CheckAsk::new(&body.subject, &body.action, Some(body.cost))?.with(&body.attributes)?;
    let ttl = span(body.ttl.as_deref())?;
    let reserved = shell.app.reserve(&caller, &ask, ttl, once.as_ref()).await?;
    let (reservation, expires_at) = reserved.reservation.as_ref().map(|(id, at)| (id.as_str(), Time(*at))).unzip();
    let document = ReserveDocument { checked: CheckDocument::new(&reserved.checked), reservation, expires_at };
    let mut response = answer(StatusCode::OK, &document);
    headers::write_legacy(&shell, &reserved.checked, response.headers_mut());
    Ok(response)
}

/// Settles a reservation to what was really used: the difference is given back, or charged also where it does not
/// fit. Once: settling it again changes nothing, and says what it was settled to.
#[utoipa::path(post, path = "/v1/limit/commit", tag = "limit", request_body = CommitBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = SettleDocument<'_>),
        (status = 404, description = "There is no such reservation, or it is forgotten.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn commit(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<CommitBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/commit")?;
    let settled = shell.app.commit(&caller, &sent.value.reservation, sent.value.actual, once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &SettleDocument::new(&sent.value.reservation, &settled)))
}

/// Settles a reservation to nothing: the estimate is given back.
#[utoipa::path(post, path = "/v1/limit/cancel", tag = "limit", request_body = CancelBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = SettleDocument<'_>),
        (status = 404, description = "There is no such reservation, or it is forgotten.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn cancel(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<CancelBody>) -> Result<Response, Problem> {
    let once = sent.once("limit/cancel")?;
    let settled = shell.app.commit(&caller, &sent.value.reservation, Some(0), once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &SettleDocument::new(&sent.value.reservation, &settled)))
}
