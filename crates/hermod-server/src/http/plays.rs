//! realm: `POST /v1/realms/{realm}/plays/{play}`, `simulate`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hermod_core::realm::args::{Raw, is_owner};
use hermod_core::{Invalid, RealmId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Shell;
use super::enacted::{Keyed, RealmDocument, told};
use super::problem::Document;
use super::sent::{Id, Ids, Sent, answer};
use crate::app::{Caller, Outlook, SimulateAsk};
use crate::code::Problem;

/// A play, and what it is given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlayBody {
    /// Who plays.
    #[schema(example = "111")]
    by: String,
    /// What the play is given, by name.
    #[serde(default)]
    #[schema(value_type = Object)]
    args: BTreeMap<String, Value>,
    #[serde(flatten)]
    keyed: Keyed,
    /// Shows what moved, too.
    #[serde(default)]
    explain: bool,
}

/// A play to try.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimulateBody {
    /// The play.
    #[schema(example = "gamble")]
    play: String,
    /// Who plays.
    #[schema(example = "111")]
    by: String,
    /// What it is given.
    #[serde(default)]
    #[schema(value_type = Object)]
    args: BTreeMap<String, Value>,
    /// How often, 100,000 at most; 10,000 if absent.
    n: Option<u64>,
}

fn raw(value: &Value) -> Raw {
    match value {
        Value::Number(number) => number.as_i64().map_or_else(|| Raw::Text(number.to_string().into()), Raw::Int),
        Value::String(text) => Raw::Text(text.as_str().into()),
        Value::Null => Raw::Other("null"),
        Value::Bool(_) => Raw::Other("true or false"),
        Value::Array(_) => Raw::Other("a list"),
        Value::Object(_) => Raw::Other("an object"),
    }
}

fn raws(args: &BTreeMap<String, Value>) -> BTreeMap<Arc<str>, Raw> {
    args.iter().map(|(name, value)| (name.as_str().into(), raw(value))).collect()
}

/// Plays, in one atomic step: all of it is done, or it is refused and nothing is.
#[utoipa::path(post, path = "/v1/realms/{realm}/plays/{play}", tag = "realm", request_body = PlayBody,
    params(("realm" = String, Path, description = "The realm."), ("play" = String, Path, description = "The play."),
        ("Idempotency-Key" = Option<String>, Header, description = "Instead of `key` in the body.")),
    responses((status = 200, description = "What was done, or why it was refused; both are answers.", body = RealmDocument),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "5XX", description = "No answer could be given.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn play(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(realm, play): Ids,
    sent: Sent<PlayBody>,
) -> Result<Response, Problem> {
    let body = &sent.value;
    let ask = body.keyed.ask(&realm, &body.by, &format!("plays {play}"), &sent)?;
    let done = shell.app.play(&caller, &ask, &play, raws(&body.args)).await?;
    told(&shell, &caller, &ask, &done, body.explain)
}

/// What a play comes to over many runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutlookDocument {
    /// How often it was run, each time with what is now.
    runs: u64,
    /// How often it was done.
    done: u64,
    /// How often it was refused, by the reason.
    #[schema(value_type = Object)]
    refused: BTreeMap<String, u64>,
    /// What the player gains or loses, by asset.
    #[schema(value_type = Object)]
    gains: BTreeMap<String, SpreadDocument>,
}

/// How a gain is spread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SpreadDocument {
    /// On average.
    mean: f64,
    /// The least.
    min: i64,
    /// Half of the runs gain no more than this.
    p50: i64,
    /// Nine of ten.
    p90: i64,
    /// 99 of a hundred.
    p99: i64,
    /// The most.
    max: i64,
}

/// To the hundredth: an average is told to people.
fn mean(sum: i128, runs: u64) -> f64 {
    let hundredths = sum * 100 / i128::from(runs.max(1));
    let (sign, hundredths) = (if hundredths < 0 { "-" } else { "" }, hundredths.unsigned_abs());
    format!("{sign}{}.{:02}", hundredths / 100, hundredths % 100).parse().unwrap_or(0.0)
}

pub(super) fn outlook(outlook: &Outlook) -> OutlookDocument {
    let runs = outlook.runs;
    let gains = outlook.gains.iter().map(|(asset, spread)| {
        let document = SpreadDocument {
            mean: mean(spread.sum, runs),
            min: spread.counts.first_key_value().map_or(0, |(value, _)| *value),
            p50: spread.percentile(50, runs),
            p90: spread.percentile(90, runs),
            p99: spread.percentile(99, runs),
            max: spread.counts.last_key_value().map_or(0, |(value, _)| *value),
        };
        (asset.to_string(), document)
    });
    let refused: BTreeMap<_, _> = outlook.refused.iter().map(|(code, many)| (code.to_string(), *many)).collect();
    OutlookDocument { runs, done: runs - refused.values().sum::<u64>(), refused, gains: gains.collect() }
}

/// Runs a play many times on a copy of what is now, and tells what it comes to. Nothing is changed.
#[utoipa::path(post, path = "/v1/realms/{realm}/simulate", tag = "realm", request_body = SimulateBody,
    params(("realm" = String, Path, description = "The realm.")),
    responses((status = 200, body = OutlookDocument),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn simulate(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(realm): Id,
    sent: Sent<SimulateBody>,
) -> Result<Response, Problem> {
    let body = sent.value;
    if !is_owner(&body.by) {
        return Err(Invalid::new("by", "must be an owner").into());
    }
    let ask = SimulateAsk { play: body.play, by: body.by.into(), args: raws(&body.args), n: body.n.unwrap_or(10_000) };
    let result = shell.app.simulate(&caller, &RealmId::new(realm)?, &ask).await?;
    Ok(answer(StatusCode::OK, &outlook(&result)))
}
