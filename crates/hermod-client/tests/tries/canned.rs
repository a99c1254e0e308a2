//! A server that gives prepared answers, one per connection, and notes what it was asked.
//!
//! It speaks just enough HTTP by hand that a test can also break the protocol: hang, or hang up.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What to do with one connection.
pub(crate) enum Canned {
    /// Answer with this status, these header lines and this body.
    Answer(u16, &'static str, &'static str),
    /// Answer with status 200 and this body, after so long.
    Late(Duration, &'static str),
    /// Read the request and never answer.
    Hang,
    /// Read the request and close.
    HangUp,
}

/// One request as it came in.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// The running server.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: mpsc::UnboundedReceiver<Asked>,
}

impl Server {
    /// Serves these answers in turn, then hangs up on everyone.
    pub(crate) async fn start(answers: Vec<Canned>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (note, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut answers = answers.into_iter();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answers.next().unwrap_or(Canned::HangUp), note.clone()));
            }
        });
        Server { url, asked }
    }

    /// All requests so far.
    pub(crate) fn asked(&mut self) -> Vec<Asked> {
        std::iter::from_fn(|| self.asked.try_recv().ok()).collect()
    }
}

async fn serve(mut stream: TcpStream, canned: Canned, note: mpsc::UnboundedSender<Asked>) {
    let Some(asked) = read_request(&mut stream).await else { return };
    note.send(asked).unwrap();
    match canned {
        Canned::Answer(status, headers, body) => answer(&mut stream, status, headers, body).await,
        Canned::Late(after, body) => {
            tokio::time::sleep(after).await;
            answer(&mut stream, 200, "", body).await;
        }
        Canned::Hang => tokio::time::sleep(Duration::from_secs(60)).await,
        Canned::HangUp => {}
    }
}

async fn answer(stream: &mut TcpStream, status: u16, headers: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
}

async fn read_request(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head_ends = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_ends].to_vec()).ok()?;
    let mut lines = head.lines();
    let line = lines.next()?.to_owned();
    let headers: Vec<_> = lines.filter_map(|l| l.split_once(": ")).map(|(n, v)| (n.to_lowercase(), v.to_owned())).collect();
    let length = headers.iter().find(|(n, _)| n == "content-length").map_or(0, |(_, v)| v.parse().unwrap());
    let mut body = bytes[head_ends + 4..].to_vec();
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Asked { at: Instant::now(), line, headers, body: String::from_utf8(body).ok()? })
}
