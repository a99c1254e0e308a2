//! admin: `/v1/spaces`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hermod_catalog::Space;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shell;
use super::problem::Document;
use super::sent::{Sent, answer};
use super::time::Time;
use crate::app::Caller;
use crate::code::Problem;

/// A space to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpaceBody {
    /// Its name: 1-64 letters, digits, `_`, `-`, `.`.
    #[schema(example = "team-1")]
    space: String,
}

/// A space.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Space)]
pub(crate) struct SpaceDocument<'a> {
    space: &'a str,
    created_at: Time,
}

impl<'a> SpaceDocument<'a> {
    fn new(space: &'a Space) -> SpaceDocument<'a> {
        SpaceDocument { space: space.id.as_str(), created_at: Time(space.created_at) }
    }
}

/// All spaces.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Spaces<'a> {
    items: Vec<SpaceDocument<'a>>,
    next: Option<&'a str>,
}

/// Lists all spaces.
#[utoipa::path(get, path = "/v1/spaces", tag = "admin",
    responses((status = 200, body = Spaces<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(State(shell): State<Arc<Shell>>, caller: Caller) -> Result<Response, Problem> {
    let spaces = shell.app.spaces(&caller).await?;
    Ok(answer(StatusCode::OK, &Spaces { items: spaces.iter().map(SpaceDocument::new).collect(), next: None }))
}

/// Makes a space.
#[utoipa::path(post, path = "/v1/spaces", tag = "admin", request_body = SpaceBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 201, body = SpaceDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn create(State(shell): State<Arc<Shell>>, caller: Caller, sent: Sent<SpaceBody>) -> Result<Response, Problem> {
    let once = sent.catalog_once(&caller, "spaces/create")?;
    let saved = shell.app.create_space(&caller, &sent.value.space, once.as_ref()).await?;
    Ok(answer(StatusCode::CREATED, &SpaceDocument::new(&saved.value)))
}
