//! realm: `/v1/realms`, the definitions.

mod schema;

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use hermod_catalog::{RealmView, SavedRealm};
use hermod_core::RealmId;
use hermod_core::realm::{Definition, Realm};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::Shell;
use super::decks::shown;
use super::deep;
use super::page::{Page, cut};
use super::problem::Document;
use super::sent::{Id, Raw, answer, bad_query};
use crate::app::Caller;
use crate::code::Problem;
use schema::DefinitionSchema;

/// A realm, as it is listed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmSummary)]
pub(crate) struct Summary<'a> {
    realm: &'a str,
    /// Grows with every change of the definition.
    version: u64,
    /// The SHA-256 of the definition, in hex: the same for the same content.
    hash: &'a str,
    description: &'a str,
    /// How many assets there are.
    assets: usize,
    /// How many plays there are.
    plays: usize,
}

impl<'a> Summary<'a> {
    fn new(view: &'a RealmView) -> Summary<'a> {
        let Realm { id, version, definition, .. } = &*view.realm;
        Summary {
            realm: id.as_str(),
            version: *version,
            hash: &view.hash,
            description: &definition.description,
            assets: definition.assets.len(),
            plays: definition.plays.len(),
        }
    }
}

/// A page of realms.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Realms<'a> {
    items: Vec<Summary<'a>>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

/// A realm.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Realm)]
pub(crate) struct RealmDocument<'a> {
    realm: &'a str,
    /// Grows with every change of the definition.
    version: u64,
    /// The SHA-256 of the definition, in hex: the same for the same content.
    hash: &'a str,
    #[schema(value_type = DefinitionSchema)]
    definition: &'a Definition,
}

/// A realm that was saved, or would be.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SavedRealm)]
pub(crate) struct SavedDocument<'a> {
    realm: &'a str,
    /// The same as before where nothing changed.
    version: u64,
    /// The SHA-256 of the definition, in hex: the same for the same content.
    hash: &'a str,
    /// Whether there was none of this name.
    created: bool,
    /// The paths of what differs from before.
    #[schema(example = json!(["assets.bone", "plays.gamble"]))]
    changed: &'a [String],
    #[schema(value_type = DefinitionSchema)]
    definition: &'a Definition,
}

impl<'a> SavedDocument<'a> {
    fn new(saved: &'a SavedRealm, created: bool) -> SavedDocument<'a> {
        let SavedRealm { realm, version, hash, definition, changed } = saved;
        SavedDocument { realm: realm.as_str(), version: *version, hash, created, changed, definition }
    }
}

/// How a definition is sent.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutQuery {
    /// Check it and say what would change, and change nothing.
    dry_run: Option<bool>,
}

/// Checks a definition as `PUT` does, but for what is settled by the one that is stored, and gives it as it would be shown: for
/// files, which are checked before anything of them is sent.
pub fn check_realm(realm: &str, text: &[u8]) -> Result<Value, Problem> {
    let definition: Arc<Definition> = Arc::new(deep::parse(text)?);
    Realm::new(RealmId::new(realm)?, Arc::clone(&definition), 0, [0; 32])?;
    shown(&*definition)
}

/// Lists the space's realms, by name.
#[utoipa::path(get, path = "/v1/realms", tag = "realm", params(Page),
    responses((status = 200, body = Realms<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Response, Problem> {
    let (limit, cursor) = Page::read(page)?;
    let (realms, next) = cut(shell.app.realms(&caller)?, limit, cursor.as_deref(), |view| view.realm.id.as_str());
    Ok(answer(StatusCode::OK, &Realms { items: realms.iter().map(Summary::new).collect(), next }))
}

/// Reads a realm's definition.
#[utoipa::path(get, path = "/v1/realms/{realm}", tag = "realm", params(("realm" = String, Path)),
    responses((status = 200, body = RealmDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let view = shell.app.realm(&caller, &id)?;
    let Realm { id, version, definition, .. } = &*view.realm;
    Ok(answer(StatusCode::OK, &RealmDocument { realm: id.as_str(), version: *version, hash: &view.hash, definition }))
}

/// Adds a realm, or changes its definition as a whole. What is owned there stays; so no asset can be left out, and its kind and
/// whether it has a board are settled. The same definition again changes nothing.
#[utoipa::path(put, path = "/v1/realms/{realm}", tag = "realm", request_body = DefinitionSchema,
    params(("realm" = String, Path), PutQuery,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = SavedDocument<'_>, description = "Changed, or it would be."),
        (status = 201, body = SavedDocument<'_>, description = "Added."),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn put(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(id): Id,
    query: Result<Query<PutQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let Query(PutQuery { dry_run }) = query.map_err(|rejection| bad_query(&rejection, "dry_run", "dry_run (true or false)"))?;
    let dry_run = dry_run.unwrap_or(false);
    let raw = Raw::read(request, &shell).await?;
    let once = raw.catalog_once(&caller, &format!("realms/put/{id}"))?;
    let saved = shell.app.put_realm(&caller, &id, deep::parse(&raw.bytes)?, dry_run, once.as_ref()).await?;
    let status = if saved.created && !dry_run { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &SavedDocument::new(&saved.value, saved.created)))
}
