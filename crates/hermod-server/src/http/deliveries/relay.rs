//! queue: `POST /v1/queues/{queue}/relay`: a packed DIDComm message, for whom it names.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::push::PushedDocument;
use crate::app::{Caller, RelayAnswer};
use crate::code::{Code, Problem};
use crate::http::Shell;
use crate::http::problem::Document;
use crate::http::sent::{Id, Raw, answer};

/// What became of a message that was relayed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Relayed)]
pub(crate) struct RelayedDocument<'a> {
    #[serde(flatten)]
    pushed: PushedDocument,
    /// To whom it goes: the DID it names, or the `did:key` of a bare key.
    #[schema(example = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp")]
    to: &'a str,
}

impl<'a> RelayedDocument<'a> {
    fn new(relayed: &'a RelayAnswer) -> RelayedDocument<'a> {
        RelayedDocument { pushed: PushedDocument::new(&relayed.pushed), to: relayed.to.as_str() }
    }
}

/// Relays a packed DIDComm message, of version 1 or 2: it is pushed as it came, to the recipient it names.
///
/// What kind it is tells the message itself; a Content-Type is not needed.
#[utoipa::path(post, path = "/v1/queues/{queue}/relay", tag = "queue",
    request_body(description = "The message as it was packed.", content(
        (Object = "application/didcomm-envelope-enc"), (Object = "application/ssi-agent-wire"),
        (Object = "application/didcomm-encrypted+json"), (Object = "application/json"))),
    params(("queue" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 201, body = RelayedDocument<'_>),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn relay(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(queue): Id,
    request: axum::extract::Request,
) -> Result<Response, Problem> {
    let raw = Raw::read(request, &shell).await?;
    let once = raw.once("queue/relay")?;
    let envelope = std::str::from_utf8(&raw.bytes).map_err(|_| Problem::new(Code::InvalidJson, "The body is not UTF-8."))?;
    let relayed = shell.app.relay(&caller, &queue, envelope, once.as_ref()).await?;
    Ok(answer(StatusCode::CREATED, &RelayedDocument::new(&relayed)))
}
