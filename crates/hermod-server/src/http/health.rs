//! Is it alive, is it ready, what does it count?

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::Shell;
use super::sent::answer;
use crate::telemetry::Depths;

/// Whether the process and its backends answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok` or `unavailable`.
    status: &'static str,
    /// The state store.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<&'static str>,
    /// The catalog's database. Checks go on without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog: Option<&'static str>,
}

fn word(ok: bool) -> &'static str {
    if ok { "ok" } else { "unavailable" }
}

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "admin", responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> Response {
    answer(StatusCode::OK, &Health { status: "ok", store: None, catalog: None })
}

/// The store and the catalog answer.
#[utoipa::path(get, path = "/readyz", tag = "admin", responses((status = 200, body = Health), (status = 503, body = Health)))]
pub(crate) async fn readyz(State(shell): State<Arc<Shell>>) -> Response {
    let (store, catalog) = shell.app.readiness();
    let is_ready = store.is_ok() && catalog;
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, &Health { status: word(is_ready), store: Some(word(store.is_ok())), catalog: Some(word(catalog)) })
}

/// Counters for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "admin", responses((status = 200, description = "Prometheus text format.", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(shell): State<Arc<Shell>>) -> Response {
    let app = &shell.app;
    let (store, catalog) = app.readiness();
    let depths = Depths::new();
    if store.is_ok() {
        app.measure_queues(&depths).await;
    }
    let text = app.metrics.render(store.is_ok(), catalog, &app.engine, &depths);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// There is no console yet; the documentation is the front page.
pub(crate) async fn index() -> Response {
    Redirect::temporary("/docs/").into_response()
}
