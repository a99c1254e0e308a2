//! Lets a caller finish sending what nobody wants to read any more.
//!
//! Many answers are known before the body is read: the key is wrong, the body too large, the server
//! busy. If the connection were closed at once, the caller, who is still writing, would meet a broken
//! pipe and never learn why. So what is left of the body is read and thrown away, while the answer is
//! already on its way; within bounds, as a caller could go on forever.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;

/// A body that is no longer than this arrives whole, whether it is read or not.
const SHORT: u64 = 16 << 10;
/// So much is thrown away at most.
const BYTES_MAX: usize = 64 << 20;
/// For so long at most.
const TIME_MAX: Duration = Duration::from_secs(2);

/// The same body, read to its end if not by whom it is for.
pub(super) fn lingering(body: Body) -> Body {
    // A short one fits into the sockets' buffers: it can be left unread, and need not be wrapped.
    let is_short = body.size_hint().upper().is_some_and(|length| length <= SHORT);
    if is_short { body } else { Body::new(Lingering { rest: Some(body) }) }
}

#[derive(Debug)]
struct Lingering {
    /// None when it has come to its end.
    rest: Option<Body>,
}

impl HttpBody for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(rest).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.rest = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.rest.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take().filter(|rest| !rest.is_end_stream())
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(tokio::time::timeout(TIME_MAX, throw_away(rest)));
        }
    }
}

async fn throw_away(mut body: Body) {
    let mut left = BYTES_MAX;
    while let Some(Ok(frame)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}
