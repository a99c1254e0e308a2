//! realm: `GET /v1/realms/{realm}/odds`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hermod_core::realm::{Definition, Realm};
use hermod_core::{Micros, RealmId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::plays::{OutlookDocument, outlook};
use super::problem::Document;
use super::sent::{Id, answer};
use super::{Shell, deep};
use crate::app::{Caller, Odds, odds};
use crate::code::{Code, Problem};

/// What a realm gives.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmOdds)]
pub(crate) struct OddsDocument {
    /// Of each table how likely each asset is, in percent; the rest is nothing.
    #[schema(value_type = Object)]
    tables: BTreeMap<String, BTreeMap<String, f64>>,
    /// What each play that draws comes to, tried with its `sample` by somebody who has plenty of everything.
    #[schema(value_type = Object)]
    plays: BTreeMap<String, OutlookDocument>,
    /// Plays that may draw and could not be tried: what to do about it.
    #[schema(value_type = Object, example = json!({"gamble": "give a sample"}))]
    unknown: BTreeMap<String, String>,
}

fn document(odds: &Odds) -> OddsDocument {
    let drops =
        |drops: &BTreeMap<Arc<str>, u32>| drops.iter().map(|(asset, part)| (asset.to_string(), f64::from(*part) / 10_000.0)).collect();
    let tables = odds.tables.iter().map(|(name, table)| (name.to_string(), drops(table)));
    let plays = odds.plays.iter().map(|(play, one)| (play.to_string(), outlook(one))).collect();
    let unknown = odds.unknown.iter().map(|(play, what)| (play.to_string(), what.clone())).collect();
    OddsDocument { tables: tables.collect(), plays, unknown }
}

/// The odds of a definition that need not be saved: for files.
pub fn realm_odds(realm: &str, text: &[u8]) -> Result<Value, Problem> {
    let definition: Arc<Definition> = Arc::new(deep::parse(text)?);
    let realm = Arc::new(Realm::new(RealmId::new(realm)?, definition, 0, [0; 32])?);
    let document = document(&odds(&realm, Micros::ZERO));
    serde_json::to_value(document).map_err(|fault| Problem::new(Code::Internal, "The odds could not be written.").caused_by(&fault))
}

/// How likely what is, and what the plays that draw are worth.
#[utoipa::path(get, path = "/v1/realms/{realm}/odds", tag = "realm", params(("realm" = String, Path, description = "The realm.")),
    responses((status = 200, body = OddsDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let realm = shell.app.realm(&caller, &id)?.realm;
    let now = shell.app.clock.now();
    // It computes for some milliseconds without a pause.
    let odds = tokio::task::spawn_blocking(move || odds(&realm, now)).await;
    let odds = odds.map_err(|fault| Problem::new(Code::Internal, "The odds could not be computed.").caused_by(&fault))?;
    Ok(answer(StatusCode::OK, &document(&odds)))
}
