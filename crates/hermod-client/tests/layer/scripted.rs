//! A limiter that does as it is told, and a service that says what reached it.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hermod_client::layer::{Degraded, Limiter, RateLimitLayer};
use hermod_client::{CheckRequest, Checked, ClientError, Ruled, Time};
use tokio::sync::watch;
use tower::{Layer, ServiceExt, service_fn};

/// What the limiter does with a check.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// Allows it, to be acted on after this many milliseconds.
    Allow { delay_ms: u64 },
    /// Fails.
    Fail,
    /// Says nothing, ever.
    Hang,
    /// Gives the server's problem document.
    Problem(&'static str),
}

/// A limiter that can be told what to do, and counts how often it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    does: Arc<watch::Sender<Does>>,
    calls: Arc<AtomicUsize>,
}

impl Scripted {
    pub(crate) fn new(does: Does) -> Scripted {
        Scripted { does: Arc::new(watch::Sender::new(does)), calls: Arc::default() }
    }

    pub(crate) fn now(&self, does: Does) {
        self.does.send_replace(does);
    }

    /// How often it was asked since the last time.
    pub(crate) fn calls(&self) -> usize {
        self.calls.swap(0, Ordering::SeqCst)
    }
}

impl Limiter for Scripted {
    async fn check(&self, _request: CheckRequest) -> Result<Checked, ClientError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let does = self.does.borrow().clone();
        match does {
            Does::Allow { delay_ms } => {
                let mut checked = Checked::new(true, vec![Ruled::new("r1", "burst", 3, Time::from(SystemTime::now()))]);
                checked.delay_ms = delay_ms;
                Ok(checked)
            }
            Does::Fail => Err(ClientError::Unreachable("the line is cut".into())),
            Does::Hang => pending().await,
            Does::Problem(text) => Err(ClientError::Problem(Box::new(serde_json::from_str(text).unwrap()))),
        }
    }
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends a request of this user through the layer, to a service that says whether it came degraded.
pub(crate) async fn send<L: Limiter>(layer: &RateLimitLayer<Body, L>, user: Option<&str>) -> Seen {
    let inner = service_fn(async |request: Request| {
        let text = if request.extensions().get::<Degraded>().is_some() { "passed degraded" } else { "passed" };
        Ok::<_, Infallible>(Response::new(Body::from(text)))
    });
    let mut request = Request::new(Body::empty());
    if let Some(user) = user {
        request.headers_mut().insert("x-user", user.parse().unwrap());
    }
    let response = layer.layer(inner).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    Seen { status: parts.status.as_u16(), headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}
