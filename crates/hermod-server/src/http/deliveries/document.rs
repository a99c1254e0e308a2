//! Deliveries as they are sent.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hermod_core::queue::delivery::read_body;
use hermod_core::queue::{Delivery, DeliveryId, Due, IfExists, Shown, Status};
use hermod_core::{Invalid, Micros, Recipient, Tag};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::app::Taken;
use crate::http::time::{Time, read_time};

/// A delivery to be pushed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDelivery)]
pub(crate) struct DeliveryBody<'a> {
    /// What it carries: any JSON.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
    /// What it carries, if that is not JSON: bytes in base64.
    base64: Option<Cow<'a, str>>,
    /// When it is due; at once if neither this nor `in` is there. The past means at once.
    #[schema(example = "2026-01-31T09:00:00Z")]
    at: Option<Cow<'a, str>>,
    /// How long until it is due.
    #[serde(rename = "in", borrow)]
    #[schema(example = "90s")]
    within: Option<Cow<'a, str>>,
    /// Its recipient: those of one recipient are handed out in order, one at a time.
    #[schema(example = "user-7")]
    to: Option<String>,
    /// What it is known by to you: while one of this key is not finished, and three days longer, it is pushed once.
    key: Option<String>,
    /// What becomes of one of this key that waits: `keep` (if absent), `replace`, `debounce`.
    if_exists: Option<String>,
    /// What it can be found by; ten at most.
    #[serde(default)]
    tags: Vec<String>,
    /// How often it may be attempted, if not as often as the queue says.
    max_attempts: Option<u64>,
    /// Not to be handed out from then on.
    expires_at: Option<String>,
    /// The answer waits for what the holder replies when it is done. For one delivery, not for a list.
    pub(super) reply: Option<ReplyBody<'a>>,
}

/// How long to wait for a reply.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplyBody<'a> {
    /// Less than a request may take.
    #[schema(example = "5s")]
    #[serde(borrow)]
    timeout: Cow<'a, str>,
}

impl ReplyBody<'_> {
    pub(super) fn timeout(&self) -> Result<Micros, Invalid> {
        span("reply.timeout", &self.timeout)
    }
}

/// Reads a span as `90s`, `1h 30m`.
pub(crate) fn span(field: &'static str, text: &str) -> Result<Micros, Invalid> {
    let span = humantime::parse_duration(text).ok().and_then(Micros::from_duration);
    span.ok_or_else(|| Invalid::new(field, "must be a duration such as \"90s\" or \"1h 30m\""))
}

/// Reads when something is due from either field.
pub(crate) fn due(at: Option<&str>, within: Option<&str>) -> Result<Option<Due>, Invalid> {
    match (at, within) {
        (Some(_), Some(_)) => Err(Invalid::new("in", "must not stand beside at")),
        (Some(at), None) => read_time("at", at).map(|at| Some(Due::At(at))),
        (None, Some(within)) => span("in", within).map(|span| Some(Due::In(span))),
        (None, None) => Ok(None),
    }
}

/// Reads what is carried from either field.
pub(crate) fn payload(json: Option<&RawValue>, bytes: Option<&str>) -> Result<Option<(bool, Vec<u8>)>, Invalid> {
    match (json, bytes) {
        (Some(_), Some(_)) => Err(Invalid::new("base64", "must not stand beside payload")),
        (Some(json), None) => Ok(Some((true, json.get().as_bytes().to_vec()))),
        (None, Some(bytes)) => {
            let bytes = STANDARD.decode(bytes).map_err(|_| Invalid::new("base64", "is not base64"))?;
            Ok(Some((false, bytes)))
        }
        (None, None) => Ok(None),
    }
}

impl DeliveryBody<'_> {
    pub(super) fn delivery(&self) -> Result<Delivery, Invalid> {
        let due = due(self.at.as_deref(), self.within.as_deref())?.unwrap_or(Due::In(Micros::ZERO));
        let (is_json, payload) = payload(self.payload, self.base64.as_deref())?.unwrap_or((true, b"null".to_vec()));
        let mut delivery = Delivery::new(due, is_json, payload);
        delivery.to = self.to.as_ref().map(Recipient::new).transpose()?;
        delivery.key = self.key.clone();
        delivery.if_exists = match self.if_exists.as_deref() {
            None | Some("keep") => IfExists::Keep,
            Some("replace") => IfExists::Replace,
            Some("debounce") => IfExists::Debounce,
            Some(_) => return Err(Invalid::new("if_exists", "must be keep, replace or debounce")),
        };
        delivery.tags = self.tags.iter().map(Tag::new).collect::<Result<_, _>>()?;
        delivery.max_attempts = self.max_attempts.map(|max| u16::try_from(max).unwrap_or(u16::MAX));
        delivery.expires_at = self.expires_at.as_deref().map(|text| read_time("expires_at", text)).transpose()?;
        delivery.check()?;
        Ok(delivery)
    }
}

/// What is known of a delivery, and what it carries.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub(crate) struct DeliveryDocument<'a> {
    #[schema(example = "dl_00c1kz8x0p4e2m7q")]
    id: String,
    /// `scheduled`, `ready`, `leased` or `dead`.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// With this it is finished, given back or kept for longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    /// The how many'th attempt this is; how many there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u16>,
    /// When it was to be delivered.
    due: Time,
    /// When it can be claimed, if that is not when it is due: after an attempt that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_since: Option<Time>,
    #[serde(skip_serializing_if = "str::is_empty")]
    to: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl<'a> DeliveryDocument<'a> {
    fn new(id: DeliveryId, body: &'a [u8]) -> Option<DeliveryDocument<'a>> {
        let (meta, payload) = read_body(body)?;
        let json = if meta.is_json { serde_json::from_slice(payload).ok() } else { None };
        Some(DeliveryDocument {
            id: id.to_string(),
            state: None,
            token: None,
            attempt: None,
            attempts: None,
            due: Time(meta.due),
            not_before: None,
            lease_until: None,
            dead_since: None,
            to: meta.to,
            key: meta.key,
            tags: meta.tags,
            max_attempts: meta.max_attempts,
            expires_at: meta.expires_at.map(Time),
            base64: json.is_none().then(|| STANDARD.encode(payload)),
            payload: json,
        })
    }

    /// One that was handed out.
    pub(crate) fn taken(taken: &'a Taken) -> Option<DeliveryDocument<'a>> {
        let handed = &taken.handed;
        let document = DeliveryDocument::new(taken.id, &handed.body)?;
        Some(DeliveryDocument {
            token: Some(handed.token.0),
            attempt: Some(handed.attempt),
            // Rounded down: who believes it must not hold it for too long.
            lease_until: Some(Time::passed(handed.until)),
            ..document
        })
    }

    /// One that is looked at.
    pub(crate) fn shown(id: DeliveryId, shown: &'a Shown) -> Option<DeliveryDocument<'a>> {
        let document = DeliveryDocument::new(id, &shown.body)?;
        let due = document.due.0;
        let waits = matches!(shown.status, Status::Scheduled | Status::Ready);
        Some(DeliveryDocument {
            state: Some(match shown.status {
                Status::Scheduled => "scheduled",
                Status::Ready => "ready",
                Status::Leased => "leased",
                Status::Dead => "dead",
            }),
            attempts: Some(shown.attempts),
            not_before: (waits && shown.at != due).then_some(Time(shown.at)),
            lease_until: (shown.status == Status::Leased).then_some(Time::passed(shown.until)),
            dead_since: (shown.status == Status::Dead).then_some(Time::passed(shown.until)),
            ..document
        })
    }
}
