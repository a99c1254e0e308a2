//! Sends one delivery to one endpoint and says what became of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermod_core::Micros;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::http::Extensions;
use hyper::{Method, Request, Response, Version};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};

use super::connect::Connector;
use super::guard::Guard;
use super::lane::{Lanes, Went};
use super::link::Life;
use super::log::{Attempt, Log};
use super::{Endpoint, Parcel, Sent, answer, fault, signature, tls};

/// So much of an answer's body is read, for the connection's sake only: what is left unread closes it.
const ANSWER_MAX: usize = 1 << 10;
/// The largest head of an answer, in bytes.
const HEAD_MAX: usize = 16 << 10;
/// So many idle connections are kept to one host.
const IDLE_MAX: usize = 16;
/// How long an idle connection is kept. Shorter than what servers and balancers commonly allow.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends deliveries. Cheap to clone; needs a tokio runtime.
#[derive(Clone)]
pub struct Sender(Arc<Inner>);

struct Inner {
    client: Client<HttpsConnector<Connector>, Full<Bytes>>,
    lanes: Lanes,
    log: Log,
}

impl Sender {
    /// A sender that connects to what `guard` admits and trusts the certificates that the system trusts.
    pub fn new(guard: Guard) -> Sender {
        Sender::build(guard, tls::system())
    }

    /// Trusts `roots` beside what the system trusts. Fails if one of them is no certificate.
    pub fn with_roots(guard: Guard, roots: Vec<CertificateDer<'static>>) -> Result<Sender, rustls::Error> {
        Ok(Sender::build(guard, tls::trusting(roots)?))
    }

    fn build(guard: Guard, tls: ClientConfig) -> Sender {
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_max_buf_size(HEAD_MAX)
            .build(connector.wrap_connector(Connector::new(guard)));
        Sender(Arc::new(Inner { client, lanes: Lanes::default(), log: Log::default() }))
    }

    /// Sends `parcel` to `endpoint`. Answers within twice the endpoint's time-out, and while the parcel is held: at most one for
    /// a place among the exchanges that are under way, one for the exchange itself. Dropping it breaks it off.
    pub async fn send(&self, endpoint: &Endpoint, parcel: &Parcel<'_>) -> Sent {
        let ends = Instant::now() + parcel.held_for;
        // The exchange has all its time. Of what is left over, half is for whoever settles it.
        let patience = (parcel.held_for.saturating_sub(endpoint.timeout) / 2).min(endpoint.timeout);
        let place = match self.0.lanes.enter(endpoint, patience).await {
            Ok(place) => place,
            Err(held) => return held,
        };
        let began = Instant::now();
        let sent = self.exchange(endpoint, parcel, began, ends).await;
        place.leave(match &sent {
            // Whoever says that it is gone works as it should.
            Sent::Accepted { .. } | Sent::Gone | Sent::Held { .. } => Went::Well,
            Sent::Refused { retry_after, .. } => Went::Wrong { asked: *retry_after },
        });
        self.note(endpoint, parcel, &sent, began);
        sent
    }

    /// Until when nothing will be sent to `endpoint`, as it failed too often or asked for it; `None`: it is
    /// worth claiming deliveries for it.
    pub fn ready_at(&self, endpoint: &Endpoint) -> Option<Instant> {
        self.0.lanes.ready_at(endpoint, Instant::now())
    }

    /// How many deliveries are worth claiming for `endpoint` now; more would wait for a place.
    pub fn room(&self, endpoint: &Endpoint) -> usize {
        self.0.lanes.room(endpoint, Instant::now())
    }

    /// The last attempts at deliveries of a queue, newest first.
    pub fn attempts(&self, space: &str, queue: &str) -> Vec<Attempt> {
        self.0.log.of(space, queue)
    }

    /// Forgets the attempts of a queue that is gone.
    pub fn forget(&self, space: &str, queue: &str) {
        self.0.log.forget(space, queue);
    }

    /// The whole exchange, within the endpoint's time-out from when it `began`, and until it `ends` at the latest.
    async fn exchange(&self, endpoint: &Endpoint, parcel: &Parcel<'_>, began: Instant, ends: Instant) -> Sent {
        let request = match request(endpoint, parcel) {
            Ok(request) => request,
            Err(why) => return refused(None, why),
        };
        let (deadline, limit) = (ends.min(began + endpoint.timeout), humantime::format_duration(endpoint.timeout));
        let answer = match timeout_at(deadline, self.answer(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => return refused(None, why),
            Err(_) => return refused(None, format!("no answer within {limit}")),
        };
        let sent = answer::read(&answer, parcel.at.plus(elapsed(began)));
        let Sent::Accepted { status } = sent else { return sent };
        // A receiver that breaks off its answer may not have done what it says it has.
        match timeout_at(deadline, drain(answer.into_body())).await {
            Ok(Ok(())) => sent,
            Ok(Err(error)) => refused(Some(status), fault::why(&error)),
            Err(_) => refused(Some(status), format!("the answer did not end within {limit}")),
        }
    }

    /// Status and headers of the answer. A kept connection that turns out to be closed is no failure: the
    /// request goes out again on the next one, under the same id. A new connection that breaks off is one.
    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, &'static str> {
        loop {
            match self.0.client.request(request.clone()).await {
                Ok(answer) => {
                    answer.extensions().get::<Life>().inspect(|life| life.answered());
                    return Ok(answer);
                }
                Err(error) => {
                    let why = fault::why(&error);
                    if why != fault::BROKE_OFF || !was_answered(&error) {
                        return Err(why);
                    }
                }
            }
        }
    }

    fn note(&self, endpoint: &Endpoint, parcel: &Parcel<'_>, sent: &Sent, began: Instant) {
        let (status, why) = match sent {
            Sent::Accepted { status } => (Some(*status), None),
            Sent::Refused { status, why, .. } => (*status, Some(why.clone())),
            Sent::Gone => (Some(410), Some("answered 410 Gone".to_owned())),
            Sent::Held { .. } => return,
        };
        let took_ms = elapsed(began).get() / 1_000;
        let (id, queue, attempt) = (parcel.id, parcel.queue, parcel.attempt);
        let (origin, reason) = (endpoint.url.origin(), why.as_deref());
        tracing::debug!(target: "hermod::push", id, queue, attempt, origin, status, why = reason, took_ms, "pushed");
        let noted = Attempt { id: id.to_owned(), attempt, at: parcel.at, status, why, took_ms };
        self.0.log.add(&endpoint.space, queue, noted);
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

fn request(endpoint: &Endpoint, parcel: &Parcel<'_>) -> Result<Request<Full<Bytes>>, &'static str> {
    if endpoint.secrets.is_empty() {
        return Err("the endpoint has no secret to sign with");
    }
    let at_s = parcel.at.get() / 1_000_000;
    let signed = signature::sign(&endpoint.secrets, parcel.id, at_s, parcel.body);
    let kind = if parcel.is_json { "application/json" } else { "application/octet-stream" };
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_11)
        .uri(endpoint.url.uri())
        .header(USER_AGENT, concat!("Hermod/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, kind)
        .header("webhook-id", parcel.id)
        .header("webhook-timestamp", HeaderValue::from(at_s))
        .header("webhook-signature", signed);
    request.body(Full::new(Bytes::copy_from_slice(parcel.body))).map_err(|_| "the delivery's id cannot be sent in a header")
}

/// Reads the body to its end, or as much of it as is read.
async fn drain(mut body: Incoming) -> Result<(), hyper::Error> {
    let mut left = ANSWER_MAX;
    while let Some(frame) = body.frame().await {
        let length = frame?.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => break,
        }
    }
    Ok(())
}

/// Whether something was answered before on the connection that failed.
fn was_answered(error: &legacy::Error) -> bool {
    let mut extras = Extensions::new();
    if let Some(connected) = error.connect_info() {
        connected.get_extras(&mut extras);
    }
    extras.get::<Life>().is_some_and(Life::was_answered)
}

fn refused(status: Option<u16>, why: impl Into<String>) -> Sent {
    Sent::Refused { status, why: why.into(), retry_after: None }
}

fn elapsed(began: Instant) -> Micros {
    Micros::from_duration(began.elapsed()).unwrap_or(Micros::MAX)
}
