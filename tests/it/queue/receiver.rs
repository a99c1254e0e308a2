//! Where webhooks go: a small HTTP server that writes down what it gets and answers as it is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) at: Instant,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The number it carries.
    pub(super) fn number(&self) -> u64 {
        String::from_utf8_lossy(&self.body).parse().unwrap_or(u64::MAX)
    }
}

/// What it answers to a request: after how long, with which status and header.
pub(super) type Answer = (Duration, u16, Option<(&'static str, String)>);

type Answers = Arc<dyn Fn(&Seen, usize) -> Answer + Send + Sync>;

/// A running receiver. Dropped, its port is free again.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    answers: Answers,
    serving: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct Desk {
    seen: Arc<Mutex<Vec<Seen>>>,
    answers: Answers,
}

async fn answer(State(desk): State<Desk>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    let seen = Seen { path: parts.uri.path().to_owned(), headers: parts.headers, body, at: Instant::now() };
    let before = {
        let mut all = desk.seen.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(seen.clone());
        all.iter().filter(|one| one.path == seen.path).count() - 1
    };
    let (pause, status, header) = (desk.answers)(&seen, before);
    tokio::time::sleep(pause).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    match header {
        Some((name, value)) => (status, [(name, value)]).into_response(),
        None => status.into_response(),
    }
}

impl Receiver {
    /// Answers each request as `answers` says, given how many of the same path came before.
    pub(super) async fn start(answers: impl Fn(&Seen, usize) -> Answer + Send + Sync + 'static) -> Result<Receiver> {
        let address = SocketAddr::from(([127, 0, 0, 1], hermod_tests::server::free_port()?));
        let mut receiver = Receiver { address, seen: Arc::default(), answers: Arc::new(answers), serving: None };
        receiver.open().await?;
        Ok(receiver)
    }

    /// Listens, again.
    pub(super) async fn open(&mut self) -> Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        let desk = Desk { seen: Arc::clone(&self.seen), answers: Arc::clone(&self.answers) };
        let router = axum::Router::new().fallback(answer).with_state(desk);
        self.serving = Some(tokio::spawn(async move {
            let _served = axum::serve(listener, router).await;
        }));
        Ok(())
    }

    /// Where a queue finds it.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What came on this path, in order.
    pub(super) fn seen(&self, path: &str) -> Vec<Seen> {
        let all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|seen| seen.path == path).cloned().collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}
