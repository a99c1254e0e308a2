//! What every request passes: an id, a deadline, and a place among those under way.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use super::Shell;
use super::linger::lingering;
use crate::code::{Code, Problem};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Counts requests under way and numbers them.
#[derive(Debug)]
pub(crate) struct Gate {
    in_flight: AtomicUsize,
    in_flight_max: usize,
    /// Differs from process to process, so that ids of several servers do not meet in one log.
    origin: u64,
    count: AtomicU64,
}

impl Gate {
    pub(crate) fn new(in_flight_max: usize) -> Gate {
        Gate {
            in_flight: AtomicUsize::new(0),
            in_flight_max,
            origin: RandomState::new().hash_one(std::process::id()),
            count: AtomicU64::new(0),
        }
    }

    fn enter(&self) -> Option<Place<'_>> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let place = Place(self);
        (before < self.in_flight_max).then_some(place)
    }

    /// The caller's own id if it is fit to be logged, else a new one.
    fn request_id(&self, request: &Request) -> HeaderValue {
        let given = request.headers().get(&REQUEST_ID);
        let is_fit = |id: &&HeaderValue| id.len() <= 128 && !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic);
        given.filter(is_fit).cloned().unwrap_or_else(|| {
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            let id = format!("{:016x}", self.origin.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("unnumbered"))
        })
    }
}

/// A place among the requests under way; given back when dropped.
struct Place<'a>(&'a Gate);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The layer.
pub(crate) async fn pass(State(shell): State<Arc<Shell>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = shell.gate.request_id(&request);
    let request = request.map(lingering);
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("", MatchedPath::as_str);
    // Whoever asks whether the server lives must not be told that it is busy.
    let place = shell.gate.enter();
    let mut response = if place.is_none() && route.starts_with("/v1") {
        Problem::new(Code::Overloaded, "Too many requests are under way; ask again in a second.").into_response()
    } else if tracing::enabled!(target: "hermod::request", tracing::Level::DEBUG) {
        let span = tracing::debug_span!(target: "hermod::request", "request", id = text(&id), method = %request.method(), route);
        run(&shell, request, next).instrument(span).await
    } else {
        run(&shell, request, next).await
    };
    let status = response.status().as_u16();
    shell.app.metrics.answered(route, status, began.elapsed());
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        // Who is turned away by the thousand is counted, not logged.
        if status >= 500 && problem.code != Code::Overloaded {
            let cause = problem.cause.as_deref().unwrap_or("");
            tracing::warn!(target: "hermod::request", id = text(&id), route, status, code = problem.code.text(), cause, "not answered");
        }
        response = super::problem::document(&problem, &id);
    }
    tracing::debug!(target: "hermod::request", id = text(&id), route, status, "answered");
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    response
}

async fn run(shell: &Shell, request: Request, next: Next) -> Response {
    match tokio::time::timeout(shell.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            Problem::new(Code::Timeout, "The request took too long and was given up; whether it took effect is unknown.").into_response()
        }
    }
}

fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or("")
}
