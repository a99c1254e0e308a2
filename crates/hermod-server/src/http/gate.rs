//! What every request passes: an id, a deadline, and a place among those under way.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower::{Layer, Service};
use tracing::instrument::Instrumented;
use tracing::{Instrument, Span};

use super::Shell;
use super::linger::lingering;
use crate::app::WAIT_MAX;
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

    /// The caller's own id if it is fit to be logged, else a new one.
    fn request_id(&self, request: &Request) -> HeaderValue {
        let given = request.headers().get(&REQUEST_ID);
        let is_fit = |id: &&HeaderValue| id.len() <= 128 && !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic);
        given.filter(is_fit).cloned().unwrap_or_else(|| {
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            let mut rest = self.origin.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let id: [u8; 16] = std::array::from_fn(|_| {
                rest = rest.rotate_left(4);
                let digit = u8::try_from(rest & 15).unwrap_or(0);
                if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
            });
            HeaderValue::from_bytes(&id).unwrap_or(HeaderValue::from_static("unnumbered"))
        })
    }
}

/// Who waits for deliveries is no load: no place is taken, and the wait comes on top of the time-out.
const PATIENT: &str = "/v1/queues/{queue}/claim";
/// What reads a whole ledger takes as long as that is.
const LONG: &str = "/v1/realms/{realm}/audit";
const LONG_MAX: Duration = Duration::from_secs(600);

/// A place among the requests under way; given back when dropped.
struct Place {
    shell: Arc<Shell>,
    /// There was none left.
    is_beyond: bool,
    /// None was taken.
    is_patient: bool,
    /// It may take longer by this much.
    longer: Duration,
}

impl Place {
    fn take(shell: Arc<Shell>, route: &str) -> Place {
        let is_patient = route == PATIENT;
        let longer = match route {
            PATIENT => WAIT_MAX,
            LONG => LONG_MAX,
            _ => Duration::ZERO,
        };
        let before = if is_patient { 0 } else { shell.gate.in_flight.fetch_add(1, Ordering::Relaxed) };
        let is_beyond = before >= shell.gate.in_flight_max;
        Place { shell, is_beyond, is_patient, longer }
    }

    /// How long a request may take.
    fn timeout(&self) -> Duration {
        self.shell.request_timeout + self.longer
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_patient {
            self.shell.gate.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The layer. Written out, because every request passes it: nothing is boxed, and a deadline is set
/// only for what is not answered at once.
#[derive(Clone)]
pub(crate) struct GateLayer(pub(crate) Arc<Shell>);

impl<S> Layer<S> for GateLayer {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { shell: Arc::clone(&self.0), inner }
    }
}

/// A service behind the gate.
#[derive(Clone)]
pub(crate) struct Gated<S> {
    shell: Arc<Shell>,
    inner: S,
}

impl<S> Service<Request> for Gated<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Passing<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Passing<S::Future> {
        let began = Instant::now();
        let id = self.shell.gate.request_id(&request);
        let request = request.map(lingering);
        let route = request.extensions().get::<MatchedPath>().cloned();
        let name = route.as_ref().map_or("", MatchedPath::as_str);
        let place = Place::take(Arc::clone(&self.shell), name);
        // Whoever asks whether the server lives must not be told that it is busy.
        let future = if place.is_beyond && name.starts_with("/v1") {
            None
        } else {
            let span = if tracing::enabled!(target: "hermod::request", tracing::Level::DEBUG) {
                tracing::debug_span!(target: "hermod::request", "request", id = text(&id), method = %request.method(), route = name)
            } else {
                Span::none()
            };
            Some(self.inner.call(request).instrument(span))
        };
        Passing { future, deadline: None, place, id, route, began }
    }
}

pin_project! {
    /// A request on its way through the gate.
    pub(crate) struct Passing<F> {
        // None: it was turned away.
        #[pin]
        future: Option<Instrumented<F>>,
        #[pin]
        deadline: Option<Sleep>,
        place: Place,
        id: HeaderValue,
        route: Option<MatchedPath>,
        began: Instant,
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for Passing<F> {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Response, Infallible>> {
        let mut this = self.project();
        let answered = match this.future.as_pin_mut().map(|future| future.poll(context)) {
            None => Problem::new(Code::Overloaded, "Too many requests are under way; ask again in a second.").into_response(),
            Some(Poll::Ready(Ok(response))) => response,
            Some(Poll::Pending) => {
                if this.deadline.is_none() {
                    let ends = tokio::time::Instant::from_std(*this.began + this.place.timeout());
                    this.deadline.set(Some(tokio::time::sleep_until(ends)));
                }
                let Some(deadline) = this.deadline.as_pin_mut() else { return Poll::Pending };
                ready!(deadline.poll(context));
                Problem::new(Code::Timeout, "The request took too long and was given up; whether it took effect is unknown.")
                    .into_response()
            }
        };
        let route = this.route.as_ref().map_or("", MatchedPath::as_str);
        Poll::Ready(Ok(finish(&this.place.shell, answered, route, this.id, *this.began)))
    }
}

/// Counts the answer, makes a document of a problem, and puts the id on it.
fn finish(shell: &Shell, mut response: Response, route: &str, id: &HeaderValue, began: Instant) -> Response {
    let status = response.status().as_u16();
    shell.app.metrics.answered(route, status, began.elapsed());
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        // Who is turned away by the thousand is counted, not logged.
        if status >= 500 && problem.code != Code::Overloaded {
            let cause = problem.cause.as_deref().unwrap_or("");
            tracing::warn!(target: "hermod::request", id = text(id), route, status, code = problem.code.text(), cause, "not answered");
        }
        response = super::problem::document(&problem, id);
    }
    tracing::debug!(target: "hermod::request", id = text(id), route, status, "answered");
    response.headers_mut().insert(REQUEST_ID.clone(), id.clone());
    response
}

fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or("")
}
