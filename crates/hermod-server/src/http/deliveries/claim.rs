//! queue: `POST /v1/queues/{queue}/{claim,ack,nack,extend}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hermod_core::WorkerId;
use hermod_core::queue::settle::Outcome;
use hermod_core::queue::{DeliveryId, Token};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::document::{DeliveryDocument, payload, span};
use crate::app::{Caller, ClaimAsk, SettleAsk};
use crate::code::{Code, Problem};
use crate::http::Shell;
use crate::http::problem::Document;
use crate::http::sent::{Id, Sent, answer};
use crate::http::time::Time;

/// So many deliveries are settled by one call.
const SETTLED_MAX: usize = 1_000;

/// How many, for how long, and how long to wait for the first.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ClaimBody {
    /// How many at most; 1 if absent, 1,000 at most.
    #[schema(example = 10)]
    count: Option<u64>,
    /// For how long; as long as the queue says if absent.
    #[schema(example = "30s")]
    lease: Option<String>,
    /// How long to wait if there is nothing; 60,000 at most.
    #[schema(example = 20_000)]
    wait_ms: Option<u64>,
    /// Who asks, if the queue is sticky.
    #[schema(example = "w1")]
    worker: Option<String>,
    /// In which of its lives, as it was told when it registered.
    incarnation: Option<u64>,
}

/// What was handed out, in order of time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claimed)]
pub(crate) struct ClaimedDocument<'a> {
    deliveries: Vec<DeliveryDocument<'a>>,
}

/// Hands out deliveries that are due; each is its holder's until `lease_until`.
#[utoipa::path(post, path = "/v1/queues/{queue}/claim", tag = "queue", request_body = ClaimBody, params(("queue" = String, Path)),
    responses((status = 200, body = ClaimedDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn claim(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    sent: Sent<ClaimBody>,
) -> Result<Response, Problem> {
    let lease = sent.value.lease.as_deref().map(|text| span("lease", text)).transpose()?;
    let worker = worker_of(sent.value.worker.as_deref())?;
    let missing = || Problem::new(Code::MissingField, "The field incarnation is needed beside worker.").in_field("incarnation");
    let worker = worker.map(|worker| sent.value.incarnation.ok_or_else(missing).map(|incarnation| (worker, incarnation))).transpose()?;
    let ask = ClaimAsk::new(sent.value.count, lease, sent.value.wait_ms)?.by(worker);
    let taken = shell.app.claim(&caller, &queue, &ask).await?;
    let deliveries = taken.iter().filter_map(DeliveryDocument::taken).collect();
    Ok(answer(StatusCode::OK, &ClaimedDocument { deliveries }))
}

/// The worker that is named.
pub(super) fn worker_of(name: Option<&str>) -> Result<Option<WorkerId>, Problem> {
    Ok(name.map(WorkerId::new).transpose()?)
}

/// A delivery, or several, by whoever holds them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleBody {
    id: Option<String>,
    token: Option<u64>,
    /// Several at once, 1,000 at most.
    deliveries: Option<Vec<HeldBody>>,
    /// nack: how long until it can be claimed again; as the queue's backoff says if absent.
    #[schema(example = "30s")]
    delay: Option<String>,
    /// ack of one: what is replied to whoever waits for it, any JSON.
    #[schema(value_type = Option<Object>)]
    reply: Option<Box<RawValue>>,
    /// The same, if that is not JSON: bytes in base64.
    reply_base64: Option<String>,
    /// extend: for how long from now; as long as the queue says if absent.
    #[schema(example = "1m")]
    lease: Option<String>,
}

/// A delivery and the token it was handed out with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldBody {
    id: String,
    token: u64,
}

impl SettleBody {
    fn held(&self) -> Result<Vec<(DeliveryId, Token)>, Problem> {
        let missing = |field: &str| Problem::new(Code::MissingField, format!("The field {field} is needed.")).in_field(field);
        let Some(several) = &self.deliveries else {
            let id = self.id.as_ref().ok_or_else(|| missing("id"))?;
            let token = self.token.ok_or_else(|| missing("token"))?;
            return Ok(vec![(id.parse()?, Token(token))]);
        };
        if self.id.is_some() || self.token.is_some() {
            return Err(Problem::new(Code::InvalidField, "deliveries must not stand beside id and token.").in_field("deliveries"));
        }
        if several.len() > SETTLED_MAX {
            return Err(Problem::new(Code::InvalidField, format!("deliveries are {SETTLED_MAX} at most.")).in_field("deliveries"));
        }
        let read = |held: &HeldBody| Ok((held.id.parse()?, Token(held.token)));
        several.iter().map(read).collect()
    }

    /// Neither field means anything here.
    fn only(&self, delay: bool, lease: bool) -> Result<(), Problem> {
        let is_ack = !delay && !lease;
        let fields = [
            ("delay", self.delay.is_some(), delay),
            ("lease", self.lease.is_some(), lease),
            ("reply", self.reply.is_some(), is_ack),
            ("reply_base64", self.reply_base64.is_some(), is_ack),
        ];
        for (field, is_there, is_known) in fields {
            if is_there && !is_known {
                return Err(Problem::new(Code::UnknownField, format!("{field} has no meaning here.")).in_field(field));
            }
        }
        Ok(())
    }
}

/// What became of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Settled)]
pub(crate) struct SettledDocument {
    id: String,
    /// `done`; `stale`: the token is not that of its holder, and nothing was changed; `extended`; `retry`; `dead`;
    /// `dropped`.
    outcome: &'static str,
    /// Until when it is held; from when on it can be claimed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<Time>,
}

impl SettledDocument {
    fn new(id: DeliveryId, outcome: Outcome, is_extended: bool) -> SettledDocument {
        let (word, lease_until, not_before) = match outcome {
            Outcome::Stale => ("stale", None, None),
            Outcome::Done => ("done", None, None),
            Outcome::Until(until) if is_extended => ("extended", Some(Time::passed(until)), None),
            Outcome::Until(at) => ("retry", None, Some(Time(at))),
            Outcome::Dead => ("dead", None, None),
            Outcome::Dropped => ("dropped", None, None),
        };
        SettledDocument { id: id.to_string(), outcome: word, lease_until, not_before }
    }
}

/// What became of several.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettledList)]
pub(crate) struct SettledList {
    items: Vec<SettledDocument>,
}

async fn settle(shell: &Shell, caller: &Caller, queue: &str, sent: &Sent<SettleBody>, ask: SettleAsk) -> Result<Response, Problem> {
    let word = match ask {
        SettleAsk::Ack => "queue/ack",
        SettleAsk::Nack(_) => "queue/nack",
        SettleAsk::Extend(_) => "queue/extend",
        SettleAsk::GiveBack => "queue/give-back",
        SettleAsk::Return => "queue/return",
    };
    let (held, once) = (sent.value.held()?, sent.once(word)?);
    let outcomes = shell.app.settle(caller, queue, ask, &held, once.as_ref()).await?;
    let is_extended = matches!(ask, SettleAsk::Extend(_));
    let mut items: Vec<_> = held.iter().zip(outcomes).map(|((id, _), outcome)| SettledDocument::new(*id, outcome, is_extended)).collect();
    match (sent.value.deliveries.is_none(), items.pop()) {
        (true, Some(only)) => Ok(answer(StatusCode::OK, &only)),
        (_, last) => {
            items.extend(last);
            Ok(answer(StatusCode::OK, &SettledList { items }))
        }
    }
}

/// Settles one delivery, wherever that was said.
pub(super) async fn settled(
    shell: &Shell,
    caller: &Caller,
    queue: &str,
    ask: SettleAsk,
    id: &str,
    token: u64,
) -> Result<SettledDocument, Problem> {
    let id: DeliveryId = id.parse()?;
    let outcomes = shell.app.settle(caller, queue, ask, &[(id, Token(token))], None).await?;
    let outcome = outcomes.into_iter().next().unwrap_or(Outcome::Stale);
    Ok(SettledDocument::new(id, outcome, matches!(ask, SettleAsk::Extend(_))))
}

/// Finishes deliveries.
#[utoipa::path(post, path = "/v1/queues/{queue}/ack", tag = "queue", request_body = SettleBody,
    params(("queue" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = SettledDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn ack(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    sent: Sent<SettleBody>,
) -> Result<Response, Problem> {
    sent.value.only(false, false)?;
    let reply = payload(sent.value.reply.as_deref(), sent.value.reply_base64.as_deref())?;
    if let Some(reply) = reply {
        let held = sent.value.held()?;
        let [only] = *held else {
            return Err(Problem::new(Code::InvalidField, "reply is to one delivery.").in_field("reply"));
        };
        let outcome = shell.app.ack_with(&caller, &queue, only, reply, sent.once("queue/ack")?.as_ref()).await?;
        return Ok(answer(StatusCode::OK, &SettledDocument::new(only.0, outcome, false)));
    }
    settle(&shell, &caller, &queue, &sent, SettleAsk::Ack).await
}

/// Gives deliveries back that failed: they are attempted again later, or are dead.
#[utoipa::path(post, path = "/v1/queues/{queue}/nack", tag = "queue", request_body = SettleBody,
    params(("queue" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = SettledDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn nack(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    sent: Sent<SettleBody>,
) -> Result<Response, Problem> {
    sent.value.only(true, false)?;
    let delay = sent.value.delay.as_deref().map(|text| span("delay", text)).transpose()?;
    settle(&shell, &caller, &queue, &sent, SettleAsk::Nack(delay)).await
}

/// Keeps deliveries for longer.
#[utoipa::path(post, path = "/v1/queues/{queue}/extend", tag = "queue", request_body = SettleBody,
    params(("queue" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = SettledDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn extend(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    sent: Sent<SettleBody>,
) -> Result<Response, Problem> {
    sent.value.only(false, true)?;
    let lease = sent.value.lease.as_deref().map(|text| span("lease", text)).transpose()?;
    // The same bounds as when it was claimed.
    let lease = ClaimAsk::new(None, lease, None)?.lease;
    settle(&shell, &caller, &queue, &sent, SettleAsk::Extend(lease)).await
}
