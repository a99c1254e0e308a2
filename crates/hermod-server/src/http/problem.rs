//! Errors as RFC 9457 problem documents.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::code::{Code, FieldFault, Problem};

/// A problem, as it is sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Document<'a> {
    /// Where the code is explained.
    #[serde(rename = "type")]
    kind: String,
    /// What it means, in one line.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// What is wrong, and what to do.
    detail: &'a str,
    /// The stable code.
    code: &'a str,
    /// The field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    /// All that is wrong, where more than one thing can be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    faults: Vec<FaultDocument<'a>>,
    /// Whether the same request may succeed later.
    retryable: bool,
    /// The request's id, as in the server's log.
    request_id: &'a str,
}

/// One fault of several.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fault)]
pub(crate) struct FaultDocument<'a> {
    /// The path of the field.
    #[schema(example = "plays.gamble.need[1].if")]
    field: &'a str,
    /// What is wrong with it, and what would be right.
    detail: &'a str,
}

impl<'a> From<&'a FieldFault> for FaultDocument<'a> {
    fn from(fault: &'a FieldFault) -> FaultDocument<'a> {
        FaultDocument { field: &fault.field, detail: &fault.detail }
    }
}

/// A problem within an answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Inline<'a> {
    /// What is wrong, and what to do.
    detail: &'a str,
    /// The stable code.
    code: &'a str,
    /// The field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    /// Whether the same may succeed later.
    retryable: bool,
}

impl<'a> Inline<'a> {
    pub(super) fn new(problem: &'a Problem) -> Inline<'a> {
        let (code, retryable) = (problem.code.text(), problem.code.is_retryable());
        Inline { detail: &problem.detail, code, field: problem.field.as_deref(), retryable }
    }
}

impl IntoResponse for Problem {
    /// The gate writes the document, because it knows the request's id.
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The whole answer.
pub(super) fn document(problem: &Problem, request_id: &HeaderValue) -> Response {
    let document = Document {
        kind: format!("/docs/errors#{}", problem.code),
        title: problem.code.title(),
        status: problem.code.status(),
        detail: &problem.detail,
        code: problem.code.text(),
        field: problem.field.as_deref(),
        faults: problem.faults.iter().map(FaultDocument::from).collect(),
        retryable: problem.code.is_retryable(),
        request_id: request_id.to_str().unwrap_or(""),
    };
    let body = serde_json::to_vec(&document).unwrap_or_default();
    let status = StatusCode::from_u16(problem.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response();
    let mut set = |name: HeaderName, value: &'static str| {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    };
    match problem.code {
        Code::Unauthorized => set(header::WWW_AUTHENTICATE, "Bearer"),
        code if code.is_retryable() => set(header::RETRY_AFTER, "1"),
        _ => {}
    }
    response
}
