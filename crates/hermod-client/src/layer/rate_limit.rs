//! What is asked about a request, and the layer that asks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use tower_layer::Layer;

use super::breaker::Breaker;
use super::local::Local;
use super::service::{RateLimited, Shared};
use super::{Limiter, OnError};
use crate::limit::{Attributes, CheckRequest};

/// How long a check may take.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Something to be read from a request.
type Read<B, T> = Arc<dyn Fn(&Request<B>) -> T + Send + Sync>;

/// A limit on requests: what is asked about each, and what if nobody answers.
///
/// It begins with [`RateLimit::action`] and [`Action::subject`], and becomes a layer by [`RateLimit::with`].
pub struct RateLimit<B> {
    action: String,
    subject: Read<B, Option<String>>,
    cost: Option<Read<B, u64>>,
    attributes: Option<Read<B, Attributes>>,
    pub(super) on_error: OnError,
    pub(super) timeout: Duration,
}

impl RateLimit<()> {
    /// Limits this action.
    pub fn action(action: impl Into<String>) -> Action {
        Action { action: action.into() }
    }
}

/// An action to be limited, of somebody who is still to be told.
#[derive(Clone, Debug)]
pub struct Action {
    action: String,
}

impl Action {
    /// Who acts. A request that has no subject passes, and nobody is asked.
    pub fn subject<B, F>(self, subject: F) -> RateLimit<B>
    where
        F: Fn(&Request<B>) -> Option<String> + Send + Sync + 'static,
    {
        RateLimit {
            action: self.action,
            subject: Arc::new(subject),
            cost: None,
            attributes: None,
            on_error: OnError::default(),
            timeout: TIMEOUT,
        }
    }
}

impl<B> RateLimit<B> {
    /// How much a request takes; 1 by default.
    #[must_use]
    pub fn cost<F>(mut self, cost: F) -> RateLimit<B>
    where
        F: Fn(&Request<B>) -> u64 + Send + Sync + 'static,
    {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// What else the rules' conditions may look at.
    #[must_use]
    pub fn attributes<F>(mut self, attributes: F) -> RateLimit<B>
    where
        F: Fn(&Request<B>) -> Attributes + Send + Sync + 'static,
    {
        self.attributes = Some(Arc::new(attributes));
        self
    }

    /// What becomes of a request when no answer could be had; it passes by default.
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> RateLimit<B> {
        self.on_error = on_error;
        self
    }

    /// How long a check may take; a second by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> RateLimit<B> {
        self.timeout = timeout;
        self
    }

    /// The layer that asks this limiter.
    pub fn with<L: Limiter>(self, limiter: L) -> RateLimitLayer<B, L> {
        let local = match self.on_error {
            OnError::Local { limit, per } => Some(Local::new(limit, per)),
            OnError::Open | OnError::Closed => None,
        };
        RateLimitLayer { shared: Arc::new(Shared { asks: self, limiter, breaker: Breaker::default(), local }) }
    }

    /// The question about a request; none if it has no subject.
    pub(super) fn question(&self, request: &Request<B>) -> Option<CheckRequest> {
        let mut check = CheckRequest::new((self.subject)(request)?, &self.action);
        if let Some(cost) = &self.cost {
            check.cost = cost(request);
        }
        if let Some(attributes) = &self.attributes {
            check.attributes = attributes(request);
        }
        Some(check)
    }
}

impl<B> Clone for RateLimit<B> {
    fn clone(&self) -> RateLimit<B> {
        RateLimit {
            action: self.action.clone(),
            subject: Arc::clone(&self.subject),
            cost: self.cost.clone(),
            attributes: self.attributes.clone(),
            on_error: self.on_error.clone(),
            timeout: self.timeout,
        }
    }
}

impl<B> fmt::Debug for RateLimit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("action", &self.action)
            .field("on_error", &self.on_error)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// A [`RateLimit`] with somebody to ask. Clones share what they know of failures.
pub struct RateLimitLayer<B, L> {
    shared: Arc<Shared<B, L>>,
}

impl<S, B, L: Limiter> Layer<S> for RateLimitLayer<B, L> {
    type Service = RateLimited<S, B, L>;

    fn layer(&self, inner: S) -> RateLimited<S, B, L> {
        RateLimited::new(inner, Arc::clone(&self.shared))
    }
}

impl<B, L> Clone for RateLimitLayer<B, L> {
    fn clone(&self) -> RateLimitLayer<B, L> {
        RateLimitLayer { shared: Arc::clone(&self.shared) }
    }
}

impl<B, L> fmt::Debug for RateLimitLayer<B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("asks", &self.shared.asks).finish_non_exhaustive()
    }
}
