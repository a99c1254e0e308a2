//! A connection that is written to byte by byte, for what no well-behaved client does.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::site::{Reply, SOON};

pub(super) struct Wire {
    stream: TcpStream,
}

impl Wire {
    pub(super) async fn open(address: SocketAddr) -> Result<Wire> {
        Ok(Wire { stream: TcpStream::connect(address).await? })
    }

    /// A check whose body of `length` bytes is announced, and not yet sent.
    pub(super) async fn announce(address: SocketAddr, key: &str, length: usize) -> Result<Wire> {
        let mut wire = Wire::open(address).await?;
        wire.send(format!("{}Content-Length: {length}\r\n\r\n", head(key))).await?;
        Ok(wire)
    }

    /// A check whose body comes in pieces, none of which is sent yet.
    pub(super) async fn announce_pieces(address: SocketAddr, key: &str) -> Result<Wire> {
        let mut wire = Wire::open(address).await?;
        wire.send(format!("{}Transfer-Encoding: chunked\r\n\r\n", head(key))).await?;
        Ok(wire)
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.stream.write_all(bytes.as_ref()).await?)
    }

    /// One piece of a body that comes in pieces. An empty one ends it.
    pub(super) async fn send_piece(&mut self, piece: &[u8]) -> Result<()> {
        let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        self.send(framed).await
    }

    /// The next answer.
    pub(super) async fn answer(&mut self) -> Result<Reply> {
        tokio::time::timeout(SOON, self.read()).await.context("no answer in time")?
    }

    /// Reads until the other side closes it.
    pub(super) async fn until_closed(&mut self, within: Duration) -> Result<()> {
        let (mut bytes, stream) = (Vec::new(), &mut self.stream);
        // How it is closed does not matter.
        let _closed = tokio::time::timeout(within, stream.read_to_end(&mut bytes)).await.context("it is still open")?;
        Ok(())
    }

    /// Whether there is something to read.
    pub(super) async fn is_answered(&self) -> bool {
        tokio::time::timeout(Duration::from_millis(1), self.stream.peek(&mut [0; 1])).await.is_ok()
    }

    async fn read(&mut self) -> Result<Reply> {
        let mut bytes = Vec::new();
        let head_length = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            anyhow::ensure!(self.stream.read_buf(&mut bytes).await? > 0, "the connection ended in the head of the answer");
        };
        let head = String::from_utf8_lossy(&bytes[..head_length]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("a status line")?.parse()?;
        let mut headers = reqwest::header::HeaderMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            headers.append(reqwest::header::HeaderName::from_bytes(name.as_bytes())?, value.parse()?);
        }
        let mut reply = Reply { status, headers, body: bytes.split_off(head_length) };
        let length: usize = reply.header("content-length").parse()?;
        while reply.body.len() < length {
            anyhow::ensure!(self.stream.read_buf(&mut reply.body).await? > 0, "the connection ended in the body of the answer");
        }
        Ok(reply)
    }
}

fn head(key: &str) -> String {
    format!("POST /v1/limit/check HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n")
}

/// A body that asks for `cost` of what the witness has.
pub(super) fn body(cost: u64) -> String {
    Value::to_string(&serde_json::json!({"subject": "witness", "action": "watched", "cost": cost}))
}
