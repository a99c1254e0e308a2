//! queue: `POST /v1/queues/{queue}/deliveries` with `reply`: the answer is what the holder replied.

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hermod_core::queue::{Delivery, Replied};
use hermod_core::{Micros, Once};
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;
use utoipa::ToSchema;

use super::document::ReplyBody;
use crate::app::Caller;
use crate::code::{Code, Problem};
use crate::http::Shell;
use crate::http::sent::answer;

/// What a request has for itself besides waiting.
const SPARE: Duration = Duration::from_secs(1);

/// What its holder replied to a delivery.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Replied)]
pub(crate) struct RepliedDocument<'a> {
    id: String,
    /// The reply, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    reply: Option<&'a RawValue>,
    /// The reply, if it is bytes: in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_base64: Option<String>,
}

/// Pushes a delivery and answers with what its holder replies.
pub(super) async fn push_and_wait(
    shell: &Shell,
    caller: &Caller,
    queue: &str,
    delivery: Delivery,
    reply: &ReplyBody<'_>,
    once: Option<&Once>,
) -> Result<Response, Problem> {
    let (timeout, longest) = (reply.timeout()?, shell.request_timeout.saturating_sub(SPARE));
    if timeout == Micros::ZERO || timeout.to_duration() > longest {
        let long = format!("reply.timeout must be more than 0 and at most {}.", humantime::format_duration(longest));
        return Err(Problem::new(Code::InvalidField, long).in_field("reply.timeout"));
    }
    let (pushed, replied): (_, Replied) = shell.app.push_and_wait(caller, queue, delivery, timeout, once).await?;
    let json = replied.is_json.then(|| serde_json::from_slice::<&RawValue>(&replied.reply).ok()).flatten();
    let reply_base64 = json.is_none().then(|| STANDARD.encode(&replied.reply));
    Ok(answer(StatusCode::OK, &RepliedDocument { id: pushed.id.to_string(), reply: json, reply_base64 }))
}
