//! The service in front of another: asks, then passes the request on or answers itself.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tokio::time::{sleep, timeout};
use tower_service::Service;

use super::breaker::Breaker;
use super::local::Local;
use super::rate_limit::RateLimit;
use super::{Degraded, Limiter, OnError, answer};
use crate::error::{ClientError, Problem};
use crate::limit::{CheckRequest, Checked};

/// What all clones of a layer share.
pub(super) struct Shared<B, L> {
    pub(super) asks: RateLimit<B>,
    pub(super) limiter: L,
    pub(super) breaker: Breaker,
    /// Takes over while there are no answers, if that is the policy.
    pub(super) local: Option<Local>,
}

/// What is known of a request after asking.
enum Known {
    /// The answer, of the limiter or of the one that took over.
    Answer(Checked),
    /// The question itself was not acceptable.
    Unacceptable(Box<Problem>),
    /// A rule says that nothing passes without the store, which is away; to be asked again after this.
    Closed(Duration),
    /// Nothing: there was no answer.
    Nothing,
}

impl<B, L: Limiter> Shared<B, L> {
    async fn ask(&self, check: CheckRequest) -> Known {
        let taken = self.local.as_ref().map(|local| (local, check.subject.clone(), check.cost));
        if let Some(attempt) = self.breaker.attempt() {
            let answer = timeout(self.asks.timeout, self.limiter.check(check)).await.unwrap_or(Err(ClientError::Timeout));
            let known = match answer {
                Ok(checked) => Some(Known::Answer(checked)),
                Err(ClientError::Problem(problem)) => told(problem),
                Err(_) => None,
            };
            if known.is_some() {
                attempt.succeeded();
            } else {
                attempt.failed();
            }
            if let Some(known) = known.filter(|known| !matches!(known, Known::Nothing)) {
                // A limiter that answers without its store knows less than what was counted here.
                if let (Some((local, subject, _)), Known::Answer(Checked { degraded: false, .. })) = (&taken, &known) {
                    local.hand_back(subject);
                }
                return known;
            }
        }
        taken.map_or(Known::Nothing, |(local, subject, cost)| Known::Answer(local.check(&subject, cost)))
    }
}

/// What a problem tells of one request; nothing if it is a failure. What does must not count as one: one caller could
/// end the limits of all.
fn told(problem: Box<Problem>) -> Option<Known> {
    match (problem.status, problem.code.as_str()) {
        (400 | 413 | 422, _) => Some(Known::Unacceptable(problem)),
        // A check is told so only if a rule has `on_store_error: closed`; without one there is an answer.
        (_, "store_unavailable") => Some(Known::Closed(problem.retry_after.unwrap_or_default())),
        // There is no room for this subject; those that are known still have answers.
        (_, "store_full") => Some(Known::Nothing),
        _ => None,
    }
}

/// A service whose requests are checked first.
pub struct RateLimited<S, B, L> {
    inner: S,
    shared: Arc<Shared<B, L>>,
}

impl<S, B, L> RateLimited<S, B, L> {
    pub(super) fn new(inner: S, shared: Arc<Shared<B, L>>) -> RateLimited<S, B, L> {
        RateLimited { inner, shared }
    }
}

impl<S, B, L, A> Service<Request<B>> for RateLimited<S, B, L>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    A: From<Vec<u8>> + Send,
    L: Limiter,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The one that was made ready is the one to be called; the clone is made ready for the next.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let shared = Arc::clone(&self.shared);
        let question = shared.asks.question(&request);
        Box::pin(async move {
            let Some(question) = question else { return inner.call(request).await };
            let checked = match shared.ask(question).await {
                Known::Answer(checked) if checked.allowed => checked,
                Known::Answer(checked) => return Ok(answer::refused(&checked)),
                Known::Unacceptable(problem) => return Ok(answer::unacceptable(&problem)),
                Known::Closed(pause) => return Ok(answer::closed(pause)),
                Known::Nothing if shared.asks.on_error == OnError::Closed => return Ok(answer::closed(shared.breaker.pause())),
                Known::Nothing => {
                    request.extensions_mut().insert(Degraded);
                    return inner.call(request).await;
                }
            };
            if checked.degraded {
                request.extensions_mut().insert(Degraded);
            }
            if checked.delay_ms > 0 {
                sleep(Duration::from_millis(checked.delay_ms)).await;
            }
            let mut response = inner.call(request).await?;
            answer::write(&checked, response.headers_mut());
            Ok(response)
        })
    }
}

impl<S: Clone, B, L> Clone for RateLimited<S, B, L> {
    fn clone(&self) -> RateLimited<S, B, L> {
        RateLimited { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S: fmt::Debug, B, L> fmt::Debug for RateLimited<S, B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimited").field("inner", &self.inner).field("asks", &self.shared.asks).finish_non_exhaustive()
    }
}
