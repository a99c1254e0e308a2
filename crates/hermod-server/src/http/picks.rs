//! pick: `POST /v1/decks/{deck}/picks`, `POST /v1/picks/{id}/{ack,nack}`, `GET /v1/decks/{deck}/history/{subject}`.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use hermod_core::pick::Refusal;
use hermod_core::{DeckId, Micros, Subject};
use hermod_engine::Durability;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Shell;
use super::limit::{durability, span};
use super::problem::Document;
use super::sent::{Id, Ids, Sent, answer, bad_query, once_of};
use super::time::Time;
use crate::app::{Caller, HistoryAnswer, Looked, PickAnswer, PickAsk, PickSettled, PickedAnswer};
use crate::code::{Code, Problem};

/// So many picks are simulated at most.
const SIMULATE_MAX: u64 = 100;

/// Which message should this subject get next?
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PickBody {
    /// For whom.
    #[schema(example = "user-7")]
    subject: String,
    /// `commit`: it counts as sent at once. `reserve`: `ack` keeps it, `nack` or its end gives it back.
    #[serde(default)]
    #[schema(example = "commit")]
    mode: Option<String>,
    /// How long it is reserved, 24h at most; 1m if absent.
    #[schema(example = "1m")]
    ttl: Option<String>,
    /// Says what would be picked, and changes nothing.
    #[serde(default)]
    dry_run: bool,
    /// Lists what becomes of every candidate.
    #[serde(default)]
    explain: bool,
    /// Says what the next so many picks would be, and when, and changes nothing; 100 at most.
    simulate: Option<u64>,
}

/// A message that was picked, or why there is none.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = PickAnswer)]
pub(crate) struct PickDocument<'a> {
    /// `picked`, `none`, or `simulated`.
    #[schema(example = "picked")]
    status: &'static str,
    /// The pick's id, to settle it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pick: Option<&'a str>,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<PickedMessage<'a>>,
    /// When it was picked.
    #[serde(skip_serializing_if = "Option::is_none")]
    picked_at: Option<Time>,
    /// When it is given back, unless it is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    /// Why nothing was picked: `no_messages`, `message_cap`, `subject_cap`, `quiet`, `muted` or `unsettled`. Of a simulation: why there
    /// are no more picks, if there are fewer than were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "subject_cap")]
    reason: Option<&'static str>,
    /// When something will be allowed, if nothing changes; null: at no time that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    retry_at: Option<Option<Time>>,
    /// What the change survives.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "durability")]
    #[schema(value_type = Option<String>)]
    durability: Option<Durability>,
    /// The same answer was given before, for the same idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
    /// What became of every candidate: those that name the subject, then the others in the order of the deck; the first thousand.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<Vec<LookedDocument<'a>>>,
    /// How many candidates are not listed, as there are more than a thousand.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<usize>,
    /// The next picks, each at its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    picks: Option<Vec<SimulatedDocument<'a>>>,
}

/// The message of a pick.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PickedMessage<'a> {
    /// Its id.
    #[schema(example = "welcome")]
    id: &'a str,
    /// What it says; null if it was deleted since.
    #[schema(value_type = Object)]
    body: Option<&'a RawValue>,
    /// What a subject can opt out of.
    #[schema(value_type = Vec<String>)]
    tags: Vec<&'a str>,
}

/// What became of one candidate.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LookedDocument<'a> {
    /// The message's id.
    id: &'a str,
    /// `allowed`, `inactive`, `not_started`, `ended`, `not_addressed`, `when_is_false`, `opted_out`, `quiet`, `muted`,
    /// `message_cap` or `subject_cap`.
    #[schema(example = "message_cap")]
    verdict: &'static str,
    /// When that may change by itself.
    until: Option<Time>,
    /// When the subject got it last, if that is known.
    last_sent_at: Option<Time>,
}

/// One pick of a simulation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SimulatedDocument<'a> {
    /// When.
    at: Time,
    /// The message's id.
    id: &'a str,
}

/// What became of a pick.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PickSettled)]
pub(crate) struct SettledDocument<'a> {
    /// `acked`, `nacked` or `expired`.
    #[schema(example = "acked")]
    outcome: &'static str,
    /// The pick's id.
    pick: &'a str,
    /// This call settled it; else it was before, and nothing was changed.
    settled: bool,
    /// The time of the answer.
    now: Time,
    /// What the change survives; null if nothing was changed.
    #[serde(serialize_with = "durability")]
    #[schema(value_type = Option<String>)]
    durability: Option<Durability>,
    /// The same answer was given before, for the same idempotency key.
    replayed: bool,
}

/// What a subject was sent of a deck.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PickHistory)]
pub(crate) struct HistoryDocument<'a> {
    /// How many picks there were.
    picks: u64,
    /// What was sent, newest first: every message once, at the time of its last pick.
    items: Vec<SentDocument<'a>>,
    /// How many messages were sent so long ago that no more is known of it.
    older: usize,
    /// How many picks are not settled yet.
    open: usize,
    /// When the subject's cap allows the next one; null: now.
    subject_cap_until: Option<Time>,
}

/// One message that was sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SentDocument<'a> {
    /// The message's id; null if it was deleted, or is for others by now.
    id: Option<&'a str>,
    /// When it was picked last.
    sent_at: Time,
}

/// How many to list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    limit: Option<usize>,
}

fn lease(body: &PickBody) -> Result<(bool, Option<Micros>), Problem> {
    let reserve = match body.mode.as_deref() {
        None | Some("commit") => false,
        Some("reserve") => true,
        Some(_) => return Err(Problem::new(Code::InvalidField, "mode must be one of: commit reserve").in_field("mode")),
    };
    Ok((reserve, span(body.ttl.as_deref())?))
}

fn picked<'a>(picked: &'a PickedAnswer) -> Result<PickDocument<'a>, Problem> {
    let body = picked.body.as_ref().map(|message| serde_json::from_str::<&RawValue>(&message.body)).transpose();
    let body = body.map_err(|fault| Problem::new(Code::Internal, "A stored message is damaged.").caused_by(&fault))?;
    let tags = picked.body.iter().flat_map(|message| &message.tags).map(|tag| tag.as_str()).collect();
    Ok(PickDocument {
        status: "picked",
        pick: picked.id.as_deref(),
        message: Some(PickedMessage { id: picked.message.as_str(), body, tags }),
        picked_at: Some(Time::passed(picked.now)),
        expires_at: picked.expires_at.map(Time),
        durability: picked.durability,
        replayed: picked.durability.map(|_| picked.is_replayed),
        ..PickDocument::default()
    })
}

/// The same with why nothing was picked, or no more.
fn refused(document: PickDocument<'_>, refusal: Option<Refusal>) -> PickDocument<'_> {
    PickDocument {
        reason: refusal.map(|refusal| refusal.reason.as_str()),
        retry_at: refusal.map(|refusal| refusal.retry_at.map(Time)),
        ..document
    }
}

fn looked(looked: &Looked) -> LookedDocument<'_> {
    LookedDocument {
        id: looked.message.id.as_str(),
        verdict: looked.verdict.as_str(),
        until: looked.verdict.until().filter(|until| *until < Micros::MAX).map(Time),
        last_sent_at: looked.sent_at.map(Time::passed),
    }
}

/// Picks the next message for a subject, in one atomic step; if there is none, says why and until when.
#[utoipa::path(post, path = "/v1/decks/{deck}/picks", tag = "pick", request_body = PickBody,
    params(("deck" = String, Path, description = "The deck's id."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the same pick.")),
    responses((status = 200, description = "A message, or why there is none; that is an answer.", body = PickDocument<'_>),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "5XX", description = "No answer could be given.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn pick(State(shell): State<Arc<Shell>>, caller: Caller, Id(deck): Id, sent: Sent<PickBody>) -> Result<Response, Problem> {
    let once = sent.once(&format!("picks {deck}"))?;
    let body = &sent.value;
    let (reserve, ttl) = lease(body)?;
    let ask = PickAsk::new(&deck, &body.subject, reserve, ttl)?;
    if let Some(count) = body.simulate {
        if count == 0 || count > SIMULATE_MAX {
            return Err(Problem::new(Code::InvalidField, format!("simulate must be between 1 and {SIMULATE_MAX}")).in_field("simulate"));
        }
        let simulated = shell.app.pick_simulated(&caller, &ask, count).await?;
        let picks = simulated.picks.iter().map(|(at, message)| SimulatedDocument { at: Time::passed(*at), id: message.id.as_str() });
        let document = PickDocument { status: "simulated", picks: Some(picks.collect()), ..PickDocument::default() };
        return Ok(answer(StatusCode::OK, &refused(document, simulated.end)));
    }
    let candidates = match body.explain {
        true => Some(shell.app.pick_candidates(&caller, &ask.deck, &ask.subject).await?),
        false => None,
    };
    let done = match body.dry_run {
        true => shell.app.pick_dry(&caller, &ask).await?,
        false => shell.app.pick(&caller, &ask, once.as_ref()).await?,
    };
    let mut document = match &done {
        PickAnswer::Picked(answer) => picked(answer)?,
        PickAnswer::None { refusal, .. } => refused(PickDocument { status: "none", ..PickDocument::default() }, Some(*refusal)),
    };
    document.candidates = candidates.as_ref().map(|candidates| candidates.told.iter().map(looked).collect());
    document.left_out = candidates.as_ref().map(|candidates| candidates.left_out).filter(|left_out| *left_out > 0);
    Ok(answer(StatusCode::OK, &document))
}

fn settled(id: &str, settled: &PickSettled) -> Response {
    let outcome = settled.fate.as_str();
    let (now, replayed) = (Time::passed(settled.now), settled.is_replayed);
    answer(StatusCode::OK, &SettledDocument { outcome, pick: id, settled: settled.is_done, now, durability: settled.durability, replayed })
}

/// Keeps a reserved pick: the message was sent. Once: settling it again changes nothing, and says what became of it.
#[utoipa::path(post, path = "/v1/picks/{id}/ack", tag = "pick",
    params(("id" = String, Path, description = "The pick's id."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key replays the answer.")),
    responses((status = 200, body = SettledDocument<'_>),
        (status = 404, description = "There is no such pick to settle.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn ack(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id, headers: HeaderMap) -> Result<Response, Problem> {
    let once = once_of(&headers, "picks/ack", id.as_bytes())?;
    Ok(settled(&id, &shell.app.settle_pick(&caller, &id, true, once.as_ref()).await?))
}

/// Gives a reserved pick back: the message was not sent. Caps and last-sent are as if it had not been picked.
#[utoipa::path(post, path = "/v1/picks/{id}/nack", tag = "pick",
    params(("id" = String, Path, description = "The pick's id."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key replays the answer.")),
    responses((status = 200, body = SettledDocument<'_>),
        (status = 404, description = "There is no such pick to settle.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn nack(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id, headers: HeaderMap) -> Result<Response, Problem> {
    let once = once_of(&headers, "picks/nack", id.as_bytes())?;
    Ok(settled(&id, &shell.app.settle_pick(&caller, &id, false, once.as_ref()).await?))
}

/// What a subject was sent of a deck, newest first.
#[utoipa::path(get, path = "/v1/decks/{deck}/history/{subject}", tag = "pick",
    params(("deck" = String, Path, description = "The deck's id."), ("subject" = String, Path, description = "Whose."),
        ("limit" = Option<usize>, Query, description = "At most so many; 100 if absent, 1,000 at most.")),
    responses((status = 200, body = HistoryDocument<'_>),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn history(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(deck, subject): Ids,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|fault| bad_query(&fault, "limit", "limit"))?;
    let limit = query.limit.unwrap_or(100).clamp(1, 1_000);
    let (deck, subject) = (DeckId::new(deck)?, Subject::new(subject)?);
    let HistoryAnswer { picks, sent, older, open, subject_cap_until } = shell.app.pick_history(&caller, &deck, &subject, limit).await?;
    let items = sent
        .iter()
        .map(|(message, at)| SentDocument { id: message.as_ref().map(|message| message.id.as_str()), sent_at: Time::passed(*at) });
    let document = HistoryDocument { picks, items: items.collect(), older, open, subject_cap_until: subject_cap_until.map(Time) };
    Ok(answer(StatusCode::OK, &document))
}
