//! A webhook receiver that misbehaves on request. It speaks HTTP by hand, because a library would not let it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// What it does with a request.
#[derive(Clone)]
pub(crate) enum Act {
    /// Answers with these bytes and keeps the connection.
    Answer(String),
    /// Sends these bytes, perhaps too few, and closes.
    Close(String),
    /// Never answers.
    Hang,
    /// Sends these bytes and then a byte from time to time, without end.
    Drip(String),
    /// Sends these bytes, and then these others as fast as they are taken, without end.
    Flood(String, String),
    /// Answers 200 once a permit is there.
    Gate(Arc<Semaphore>),
}

pub(crate) fn ok() -> Act {
    status(200, "")
}

/// An answer with a status and further header lines, each ending in `\r\n`.
pub(crate) fn status(status: u16, headers: &str) -> Act {
    Act::Answer(format!("HTTP/1.1 {status} X\r\n{headers}content-length: 0\r\n\r\n"))
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The request line.
    pub(crate) line: String,
    headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What has happened so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) requests: Vec<Received>,
    pub(crate) connections: usize,
    /// Connections that the sender has closed.
    pub(crate) closed: usize,
    /// Requests that are being worked on.
    pub(crate) now: usize,
    /// The most of them there ever were.
    pub(crate) most: usize,
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: watch::Receiver<Seen>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// A receiver that does the same each time.
    pub(crate) async fn always(act: Act) -> Receiver {
        Receiver::start(move |_| act.clone(), None).await
    }

    /// A receiver that does what `acts` says to the n-th request, from 0.
    pub(crate) async fn start(acts: impl Fn(usize) -> Act + Send + Sync + 'static, tls: Option<TlsAcceptor>) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (told, seen) = watch::channel(Seen::default());
        let (acts, told) = (Arc::new(acts), Arc::new(told));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acts, told, tls) = (Arc::clone(&acts), Arc::clone(&told), tls.clone());
                told.send_modify(|seen| seen.connections += 1);
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &*acts, &told).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &*acts, &told).await;
                            }
                        }
                    }
                });
            }
        });
        Receiver { address, seen, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?key=1", self.address)
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until something has happened; fails the test if it does not.
    pub(crate) async fn until(&self, what: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = self.seen.clone();
        let waited = tokio::time::timeout(Duration::from_secs(20), seen.wait_for(|seen| what(seen))).await;
        waited.expect("it happens in time").expect("the receiver runs").clone()
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, acts: &(dyn Fn(usize) -> Act + Send + Sync), told: &watch::Sender<Seen>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let mut n = 0;
        told.send_modify(|seen| {
            n = seen.requests.len();
            seen.requests.push(request);
            seen.now += 1;
            seen.most = seen.most.max(seen.now);
        });
        let goes_on = act(&mut stream, acts(n), told).await;
        if !goes_on {
            return;
        }
    }
    told.send_modify(|seen| seen.closed += 1);
}

/// Does it; says whether the connection can be used again.
async fn act(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), act: Act, told: &watch::Sender<Seen>) -> bool {
    let done = || told.send_modify(|seen| seen.now -= 1);
    match act {
        Act::Answer(text) => {
            // Before the answer: once it is out, the sender may begin the next exchange.
            done();
            return stream.write_all(text.as_bytes()).await.is_ok();
        }
        Act::Gate(gate) => {
            gate.acquire().await.unwrap().forget();
            done();
            return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.is_ok();
        }
        Act::Close(text) => {
            let _sent = stream.write_all(text.as_bytes()).await;
            let _shut = stream.shutdown().await;
        }
        Act::Hang => {
            let _until_closed = stream.read(&mut [0]).await;
        }
        Act::Drip(text) => {
            let mut sent = stream.write_all(text.as_bytes()).await;
            while sent.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
                sent = stream.write_all(b"x").await;
            }
        }
        Act::Flood(text, more) => {
            let mut sent = stream.write_all(text.as_bytes()).await;
            while sent.is_ok() {
                sent = stream.write_all(more.as_bytes()).await;
            }
        }
    }
    told.send_modify(|seen| {
        seen.now -= 1;
        seen.closed += 1;
    });
    false
}

async fn read(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Received> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|length| *length > 0)?;
    let mut headers = HashMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        match header.trim_end().split_once(':') {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Received { line: line.trim_end().to_owned(), headers, body })
}
