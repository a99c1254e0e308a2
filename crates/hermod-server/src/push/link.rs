//! A connection that remembers whether it was ever answered on.
//!
//! A receiver may close an idle connection at the moment it is used again. That is nobody's failure, and is
//! told from a receiver that breaks off only by this: something was answered here before.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What is known of a connection. It comes with every answer and every error.
#[derive(Clone, Debug, Default)]
pub(super) struct Life(Arc<AtomicBool>);

impl Life {
    /// An answer came on it.
    pub(super) fn answered(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether one ever did.
    pub(super) fn was_answered(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A TCP connection and its life.
#[derive(Debug)]
pub(super) struct Link {
    stream: TokioIo<TcpStream>,
    life: Life,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> Link {
        Link { stream: TokioIo::new(stream), life: Life::default() }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TokioIo<TcpStream>> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.life.clone())
    }
}

impl Read for Link {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buffer)
    }
}

impl Write for Link {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, bytes)
    }
}
