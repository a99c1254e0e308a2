//! Accepts connections and serves them until told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// So many connections are held at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 10_000;
/// How long a connection may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// So often one of HTTP/2 is asked whether it is still there, and so long its answer may take.
const ALIVE_EVERY: Duration = Duration::from_secs(20);
/// The largest head of a request, in bytes.
const HEAD_MAX: usize = 64 << 10;

pub(super) async fn run(listener: TcpListener, tls: Option<TlsAcceptor>, router: Router, mut stop: watch::Receiver<bool>, drain: Duration) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEAD_MAX).pipeline_flush(true);
    server.http2().timer(TokioTimer::new()).max_header_list_size(u32::try_from(HEAD_MAX).unwrap_or(u32::MAX));
    server.http2().keep_alive_interval(ALIVE_EVERY).keep_alive_timeout(ALIVE_EVERY);
    loop {
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accept => accepted,
            () = stopped(&mut stop) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(fault) => {
                // Out of file descriptors, most likely: others will be freed.
                tracing::warn!(error = %fault, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _set = stream.set_nodelay(true);
        let (server, router, watcher, tls) = (server.clone(), router.clone(), graceful.watcher(), tls.clone());
        tokio::spawn(async move {
            let _place = place;
            match tls {
                None => serve(&server, stream, router, watcher).await,
                Some(tls) => match tokio::time::timeout(HEADER_TIMEOUT, tls.accept(stream)).await {
                    Ok(Ok(stream)) => serve(&server, stream, router, watcher).await,
                    Ok(Err(fault)) => tracing::debug!(error = %fault, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                },
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time and were given up");
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same as one that says so.
    let _said = stop.wait_for(|stop| *stop).await.is_ok();
}

async fn serve<S>(server: &auto::Builder<TokioExecutor>, stream: S, router: Router, watcher: hyper_util::server::graceful::Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let has_asked = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&has_asked);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        noted.store(true, Ordering::Relaxed);
        router.clone().oneshot(request)
    });
    let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), service);
    // Before it is known which HTTP is spoken no timer of the library runs.
    let silent = async {
        tokio::time::sleep(HEADER_TIMEOUT).await;
        if has_asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        // A caller that goes away is not our fault.
        served = watcher.watch(connection.into_owned()) => if let Err(fault) = served {
            tracing::debug!(error = %fault, "a connection ended early");
        },
        () = silent => tracing::debug!("a connection asked for nothing and is closed"),
    }
}
