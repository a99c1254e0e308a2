//! A connection to an address that the guard admits.
//!
//! This is the only place where push opens one. The guard judges the very address that is then connected
//! to, whether it was found under a name or stands in the URL.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Uri;
use tokio::net::TcpStream;
use tower::Service;

use super::guard::Guard;
use super::link::Link;
use super::resolve::Lookups;

/// How long one of several addresses may keep the next one waiting.
const CONNECT_EACH: Duration = Duration::from_secs(3);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoConnection {
    #[error("the guard does not admit any of its addresses")]
    NotAdmitted,
    #[error("the name could not be resolved")]
    NotFound,
    #[error("no connection in time")]
    TooSlow,
    #[error("no connection")]
    Failed(#[source] std::io::Error),
}

/// Opens connections, as hyper's client asks for them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector {
    guard: Arc<Guard>,
    lookups: Lookups,
}

impl Connector {
    pub(super) fn new(guard: Guard) -> Connector {
        Connector { guard: Arc::new(guard), lookups: Lookups::new() }
    }

    async fn connect(self, uri: Uri) -> Result<Link, NoConnection> {
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let addresses = self.addresses(uri.host().unwrap_or_default()).await?;
        let admitted = addresses.iter().filter(|ip| self.guard.admits(**ip));
        let mut fault = NoConnection::NotAdmitted;
        for ip in admitted {
            match tokio::time::timeout(CONNECT_EACH, TcpStream::connect(SocketAddr::new(*ip, port))).await {
                Ok(Ok(stream)) => {
                    let _set = stream.set_nodelay(true);
                    return Ok(Link::new(stream));
                }
                Ok(Err(error)) => fault = NoConnection::Failed(error),
                Err(_) => fault = NoConnection::TooSlow,
            }
        }
        Err(fault)
    }

    async fn addresses(&self, host: &str) -> Result<Arc<[IpAddr]>, NoConnection> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match bare.parse::<IpAddr>() {
            Ok(ip) => Ok(Arc::from([ip])),
            Err(_) => self.lookups.find(host).await.filter(|found| !found.is_empty()).ok_or(NoConnection::NotFound),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = Link;
    type Error = NoConnection;
    type Future = BoxFuture<'static, Result<Self::Response, NoConnection>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NoConnection>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.clone().connect(uri).boxed()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::push::Private;

    /// Connects to a listener on this machine under every name it has; tells which were let through.
    async fn reached(guard: Guard) -> Vec<&'static str> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut reached = Vec::new();
        for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let uri: Uri = format!("http://{host}:{port}/").parse().unwrap();
            match Connector::new(guard.clone()).call(uri).await {
                Ok(_) => reached.push(host),
                Err(fault) => assert!(matches!(fault, NoConnection::NotAdmitted), "{host}: {fault:?}"),
            }
        }
        reached
    }

    #[tokio::test]
    async fn an_address_is_judged_under_whatever_name_it_comes() {
        assert_eq!(reached(Guard::default()).await, [""; 0]);
        // Not even parsed as a URL first: the resolver reads the odd spellings, and the guard sees what it found.
        let loopback = Guard { allow_private: Private::loopback() };
        assert_eq!(reached(loopback).await, ["127.0.0.1", "localhost", "2130706433", "0x7f.1"]);
    }
}
