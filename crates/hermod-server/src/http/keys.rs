//! admin: `/v1/keys`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermod_catalog::ApiKey;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shell;
use super::problem::Document;
use super::sent::{Id, Sent, answer, catalog_once};
use super::time::Time;
use crate::app::Caller;
use crate::code::Problem;

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyBody {
    /// What it is for.
    #[schema(example = "mail bot")]
    name: String,
    /// What it may do: admin, spaces, rules:read, rules:write, limit:check, queues:read, queues:write,
    /// queues:push, queues:claim, decks:read, decks:write, decks:pick, realms:read, realms:write,
    /// realms:play, events:read.
    #[schema(example = json!(["limit:check"]))]
    scopes: Vec<String>,
    /// Which space it acts in; the caller's if absent. Another one needs the scope spaces.
    space: Option<String>,
}

/// A key. The secret is there once, when it is made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub(crate) struct KeyDocument<'a> {
    id: &'a str,
    space: &'a str,
    name: &'a str,
    scopes: Vec<String>,
    created_at: Time,
    /// Only in the first answer to the request that made it; it is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    secret: Option<Option<&'a str>>,
}

impl<'a> KeyDocument<'a> {
    fn new(key: &'a ApiKey, secret: Option<Option<&'a str>>) -> KeyDocument<'a> {
        KeyDocument {
            id: &key.id,
            space: key.space.as_str(),
            name: &key.name,
            scopes: key.scopes.iter().map(ToString::to_string).collect(),
            created_at: Time(key.created_at),
            secret,
        }
    }
}

/// The keys of a space.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Keys<'a> {
    items: Vec<KeyDocument<'a>>,
    next: Option<&'a str>,
}

/// Lists the keys of the caller's space, without their secrets.
#[utoipa::path(get, path = "/v1/keys", tag = "admin",
    responses((status = 200, body = Keys<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(State(shell): State<Arc<Shell>>, caller: Caller) -> Result<Response, Problem> {
    let keys = shell.app.keys(&caller).await?;
    Ok(answer(StatusCode::OK, &Keys { items: keys.iter().map(|key| KeyDocument::new(key, None)).collect(), next: None }))
}

/// Makes a key and shows its secret, once. A replay of the request does not show it again.
#[utoipa::path(post, path = "/v1/keys", tag = "admin", request_body = KeyBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer, without the secret.")),
    responses((status = 201, body = KeyDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn create(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<KeyBody>) -> Result<Response, Problem> {
    let once = sent.catalog_once(&caller, "keys/create")?;
    let body = &sent.value;
    let saved = shell.app.create_key(&caller, &body.name, &body.scopes, body.space.as_deref(), once.as_ref()).await?;
    Ok(answer(StatusCode::CREATED, &KeyDocument::new(&saved.value.key, Some(saved.value.secret.as_deref()))))
}

/// Deletes a key.
#[utoipa::path(delete, path = "/v1/keys/{id}", tag = "admin",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and path replays the answer.")),
    responses((status = 204, description = "Deleted."), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn remove(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id, headers: HeaderMap) -> Result<Response, Problem> {
    let once = catalog_once(&caller, &headers, &format!("keys/delete/{id}"))?;
    shell.app.delete_key(&caller, &id, once.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
