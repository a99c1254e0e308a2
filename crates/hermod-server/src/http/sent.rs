//! What a request brings: who sends it, its body, its idempotency key.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hermod_catalog::CatalogOnce;
use hermod_core::Once;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Shell;
use crate::app::Caller;
use crate::code::{Code, Problem};

static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

impl FromRequestParts<Arc<Shell>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shell: &Arc<Shell>) -> Result<Caller, Problem> {
        let Some(value) = parts.headers.get(header::AUTHORIZATION) else {
            check_origin(&parts.headers)?;
            return shell.app.caller(None);
        };
        let parts = value.to_str().ok().and_then(|text| text.split_once(' '));
        let presented = parts.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer")).map(|(_, key)| key.trim());
        let presented = presented.ok_or_else(|| Problem::new(Code::Unauthorized, "The Authorization header must read: Bearer hk_..."))?;
        shell.app.caller(Some(presented))
    }
}

/// A server that asks for no keys must not be used by pages of other sites in somebody's browser.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let host = origin.to_str().ok().and_then(|text| text.split_once("://")).map(|(_, host)| host);
    if host.is_some() && host == headers.get(header::HOST).and_then(|value| value.to_str().ok()) {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "A page of another site may not use this server without a key."))
}

/// The identifier in the path, as it was sent: whether it can be one is for others to say.
#[derive(Debug)]
pub(super) struct Id(pub(super) String);

impl FromRequestParts<Arc<Shell>> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shell: &Arc<Shell>) -> Result<Id, Problem> {
        let id = Path::<String>::from_request_parts(parts, shell).await;
        id.map(|Path(id)| Id(id)).map_err(|_| Problem::new(Code::InvalidField, "id must be UTF-8, percent-encoded").in_field("id"))
    }
}

/// The two identifiers in the path, the second within the first.
#[derive(Debug)]
pub(super) struct Ids(pub(super) String, pub(super) String);

impl FromRequestParts<Arc<Shell>> for Ids {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shell: &Arc<Shell>) -> Result<Ids, Problem> {
        let ids = Path::<(String, String)>::from_request_parts(parts, shell).await;
        ids.map(|Path((outer, inner))| Ids(outer, inner))
            .map_err(|_| Problem::new(Code::InvalidField, "what the path names must be UTF-8, percent-encoded").in_field("path"))
    }
}

/// What is wrong with a query that takes `known` only, of which `number` can be of a wrong kind.
pub(super) fn bad_query(rejection: &QueryRejection, number: &str, known: &str) -> Problem {
    let message = rejection.body_text();
    match message.split_once("unknown field `").and_then(|(_, rest)| rest.split_once('`')) {
        Some((name, _)) => Problem::new(Code::UnknownField, format!("The query takes {known} only.")).in_field(short(name)),
        None => Problem::new(Code::InvalidField, format!("The query takes {known}, each once.")).in_field(number),
    }
}

/// A body as it came, and the idempotency key it came with.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) bytes: Bytes,
    key: Option<HeaderValue>,
}

impl Raw {
    /// Reads a body to its end, unless that is too far.
    pub(super) async fn read(request: Request, shell: &Shell) -> Result<Raw, Problem> {
        let too_large = || Problem::new(Code::BodyTooLarge, format!("The body may have {} bytes at most.", shell.body_max));
        let stated = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
        if stated.is_some_and(|length| length > shell.body_max) {
            return Err(too_large());
        }
        let key = request.headers().get(&IDEMPOTENCY_KEY).cloned();
        let bytes = to_bytes(request.into_body(), shell.body_max).await.map_err(|fault| {
            let mut cause: Option<&dyn std::error::Error> = Some(&fault);
            while let Some(error) = cause {
                if error.to_string().contains("length limit") {
                    return too_large();
                }
                cause = error.source();
            }
            Problem::new(Code::InvalidJson, "The body broke off before its end.")
        })?;
        Ok(Raw { bytes, key })
    }

    /// The idempotency key of an engine operation, bound to this body.
    pub(super) fn once(&self, operation: &str) -> Result<Option<Once>, Problem> {
        once(self.key.as_ref(), operation, &self.bytes)
    }

    /// The idempotency key of a catalog write, bound to this body.
    pub(super) fn catalog_once(&self, caller: &Caller, operation: &str) -> Result<Option<CatalogOnce>, Problem> {
        Ok(self.once(operation)?.map(|once| catalog(caller, &once)))
    }
}

/// A JSON body, the bytes it came as, and the idempotency key it came with.
#[derive(Debug)]
pub(super) struct Sent<T> {
    pub(super) value: T,
    raw: Raw,
}

impl<T: DeserializeOwned> FromRequest<Arc<Shell>> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shell: &Arc<Shell>) -> Result<Sent<T>, Problem> {
        let raw = Raw::read(request, shell).await?;
        Ok(Sent { value: parse(&raw.bytes)?, raw })
    }
}

/// A body all of which may be absent, also as a whole.
pub(super) struct SentOrNot<T>(pub(super) T);

impl<T: DeserializeOwned + Default> FromRequest<Arc<Shell>> for SentOrNot<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shell: &Arc<Shell>) -> Result<SentOrNot<T>, Problem> {
        let raw = Raw::read(request, shell).await?;
        if raw.bytes.is_empty() { Ok(SentOrNot(T::default())) } else { parse(&raw.bytes).map(SentOrNot) }
    }
}

impl<T> Sent<T> {
    /// The body as it came.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.raw.bytes
    }

    /// The idempotency key of an engine operation, bound to this body.
    pub(super) fn once(&self, operation: &str) -> Result<Option<Once>, Problem> {
        self.raw.once(operation)
    }

    /// The idempotency key of a catalog write, bound to this body.
    pub(super) fn catalog_once(&self, caller: &Caller, operation: &str) -> Result<Option<CatalogOnce>, Problem> {
        self.raw.catalog_once(caller, operation)
    }
}

/// The idempotency key of an engine operation, bound to this.
pub(super) fn once_of(headers: &HeaderMap, operation: &str, about: &[u8]) -> Result<Option<Once>, Problem> {
    once(headers.get(&IDEMPOTENCY_KEY), operation, about)
}

/// The idempotency key of a catalog write without a body.
pub(super) fn catalog_once(caller: &Caller, headers: &HeaderMap, operation: &str) -> Result<Option<CatalogOnce>, Problem> {
    Ok(once(headers.get(&IDEMPOTENCY_KEY), operation, b"")?.map(|once| catalog(caller, &once)))
}

fn catalog(caller: &Caller, once: &Once) -> CatalogOnce {
    CatalogOnce { space: caller.space.clone(), key: once.key().to_owned(), fingerprint: once.fingerprint() }
}

fn once(key: Option<&HeaderValue>, operation: &str, body: &[u8]) -> Result<Option<Once>, Problem> {
    let Some(key) = key else { return Ok(None) };
    let text = key
        .to_str()
        .map_err(|_| Problem::new(Code::InvalidField, "Idempotency-Key must be printable ASCII.").in_field("Idempotency-Key"))?;
    Ok(Some(Once::new(text, &[operation.as_bytes(), b"\n", body].concat())?))
}

/// Reads a body. Only one that does not parse pays for finding out where.
pub(super) fn parse<'a, T: Deserialize<'a>>(raw: &'a [u8]) -> Result<T, Problem> {
    // Serde would take a list for an object whose names were left out.
    if raw.trim_ascii_start().starts_with(b"[") {
        return Err(no_object());
    }
    serde_json::from_slice(raw).map_err(|fault| explain::<T>(raw, &fault))
}

pub(super) fn no_object() -> Problem {
    Problem::new(Code::InvalidJson, "The body must be a JSON object.")
}

pub(super) fn explain<'a, T: Deserialize<'a>>(raw: &'a [u8], fault: &serde_json::Error) -> Problem {
    let message = fault.to_string();
    let message = message.split(" at line ").next().unwrap_or("");
    let is_too_large = message == "number out of range";
    if !fault.is_data() && !is_too_large {
        let what = if raw.trim_ascii().is_empty() {
            "The body is empty; a JSON object is needed.".to_owned()
        } else {
            format!("The body is not valid JSON: line {}, column {}.", fault.line(), fault.column())
        };
        return Problem::new(Code::InvalidJson, what);
    }
    let quoted = short(message.split('`').nth(1).unwrap_or(""));
    for (opening, code, what) in [
        ("unknown field", Code::UnknownField, format!("There is no field {quoted} here.")),
        ("missing field", Code::MissingField, format!("The field {quoted} is needed.")),
        ("duplicate field", Code::InvalidField, format!("The field {quoted} is there twice.")),
    ] {
        if message.starts_with(opening) {
            return Problem::new(code, what).in_field(quoted);
        }
    }
    let mut reader = serde_json::Deserializer::from_slice(raw);
    let path = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(located) => located.path().to_string(),
        Ok(_) => String::new(),
    };
    if path.is_empty() || path == "." {
        return no_object();
    }
    let what = if is_too_large { "a smaller number" } else { wanted(message) };
    Problem::new(Code::InvalidField, format!("{path} must be {what}.")).in_field(path)
}

/// What serde expected, without Rust's names of types and without the value, which may be long.
fn wanted(message: &str) -> &str {
    match message.rsplit_once(", expected ").map_or("", |(_, wanted)| wanted) {
        "u64" | "u32" => "a whole number of at least 0",
        "i64" | "i32" => "a whole number",
        "a string" | "a borrowed string" => "a string",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a JSON number" => "a number",
        "\"deliver\" or an object with drop_after" => "\"deliver\" or an object with drop_after",
        "\"everyone\" or an object with subjects or tags" => "\"everyone\" or an object with subjects or tags",
        _ => "of another kind",
    }
}

/// A name the caller made up, short enough to be said back.
fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

/// A JSON answer.
pub(super) fn answer<T: Serialize>(status: axum::http::StatusCode, value: &T) -> Response {
    // Room for most answers, so that it need not grow.
    let mut body = Vec::with_capacity(768);
    match serde_json::to_writer(&mut body, value) {
        Ok(()) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(fault) => {
            tracing::error!(error = %fault, "an answer could not be written as JSON");
            Problem::new(Code::Internal, "The answer could not be written.").into_response()
        }
    }
}
