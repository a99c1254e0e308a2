//! A check in front of a service: a tower layer, placed next to a route.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use axum::{Router, extract::Request, routing::post};
//! use hermod_client::Client;
//! use hermod_client::layer::{OnError, RateLimit};
//!
//! # async fn create_task() {}
//! # fn example() -> Result<Router, hermod_client::ClientError> {
//! let client = Client::new("http://127.0.0.1:7700")?.with_key("hk_...");
//! let limit = RateLimit::action("tasks/create")
//!     .subject(|request: &Request| Some(request.headers().get("x-user")?.to_str().ok()?.to_owned()))
//!     .on_error(OnError::Local { limit: 5, per: Duration::from_secs(60) })
//!     .with(client);
//! let app = Router::new().route("/tasks", post(create_task).layer(limit));
//! # Ok(app)
//! # }
//! ```
//!
//! | what happened | what becomes of the request |
//! |---|---|
//! | it has no subject | passes, nobody is asked |
//! | allowed | passes, after the wait that a queue asks for; the response gets `RateLimit` and `RateLimit-Policy` |
//! | refused | 429 as `application/problem+json` with `violated-policies`, the same headers and `Retry-After` |
//! | its subject, cost or attributes are not acceptable | 400 |
//! | a rule has `on_store_error: closed`, and the server's store is away | 503, whatever [`OnError`] says |
//! | no answer could be had | by [`OnError`]; never 429 because of that |
//!
//! A check is asked for once and must be answered within a second ([`RateLimit::timeout`]): who waits
//! for it is somebody's request. After five failures in a row nobody is asked for a second, then one
//! request is sent ahead; while that fails, too, the pauses double up to half a minute. Answers about one request alone
//! are no failures: what is not acceptable, a rule that is closed, and a store that is full (507), which is met by
//! [`OnError`] each time.
//!
//! Clones of a layer share what they know of failures, so make one for each route and clone it.

mod answer;
mod breaker;
mod local;
mod rate_limit;
mod service;

use std::future::Future;
use std::time::Duration;

use crate::client::Client;
use crate::error::ClientError;
use crate::limit::{CheckRequest, Checked};
use crate::retry::Retry;

pub use rate_limit::{Action, RateLimit, RateLimitLayer};
pub use service::RateLimited;

/// Who answers checks: a server through a [`Client`], or an engine in the same process.
pub trait Limiter: Clone + Send + Sync + 'static {
    /// Answers a check. An error means that there is no answer; a refusal is one.
    fn check(&self, request: CheckRequest) -> impl Future<Output = Result<Checked, ClientError>> + Send;
}

impl Limiter for Client {
    /// Asks once, whatever the client's own policy for tries: the layer's is [`OnError`].
    async fn check(&self, request: CheckRequest) -> Result<Checked, ClientError> {
        self.clone().with_retry(Retry::never()).limit().check(&request).await
    }
}

/// What becomes of a request when no answer could be had.
///
/// A rule's own word goes before it: if one that applies has `on_store_error: closed` and the server says that its store
/// is away (`store_unavailable`), the request is answered with 503 also under [`OnError::Open`] and [`OnError::Local`].
/// If the server itself does not answer, or not in time, nobody knows the rules, and this decides alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// It passes, with [`Degraded`] among its extensions.
    #[default]
    Open,
    /// It is answered with 503.
    Closed,
    /// A limiter within the layer takes over until there are answers again, a token bucket for each
    /// subject. What it lets pass has [`Degraded`] among its extensions. It knows nothing of what was
    /// charged before or elsewhere, and is forgotten once it is not needed.
    Local {
        /// How many per period, and how many at once; at least 1.
        limit: u64,
        /// The period.
        per: Duration,
    },
}

/// Among a request's extensions: it was let pass without all that should have been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Degraded;
