//! HTTP/1.1 by hand: requests that were made before, answers read to their end and otherwise left alone.

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

/// One connection.
pub(super) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// How an answer says where it ends.
enum Size {
    Known(usize),
    Chunks,
}

impl Wire {
    pub(super) async fn open(address: &str) -> Result<Wire> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, buffer: Vec::with_capacity(1 << 16) })
    }

    /// Asks and returns the body of the answer, which must say 2xx and how long it is.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server hung up");
            let Some((at, size)) = head(&self.buffer)? else { continue };
            let Size::Known(length) = size else { bail!("the answer has no length") };
            while self.buffer.len() < at + length {
                ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server hung up");
            }
            return Ok(self.buffer.get(at..at + length).unwrap_or_default());
        }
    }

    /// Sends a long body while its answer comes; gives every piece of the answer to `take`.
    pub(super) async fn stream(self, request: Vec<u8>, body: Vec<u8>, take: impl FnMut(&[u8])) -> Result<()> {
        let (read, mut write) = self.stream.into_split();
        let sends = tokio::spawn(async move {
            write.write_all(&request).await?;
            write.write_all(&body).await?;
            // Kept open, as the server would take its end for the caller's.
            anyhow::Ok(write)
        });
        Pieces::new(read).all(take).await?;
        drop(sends.await??);
        Ok(())
    }

    /// Sends a request whose answer does not end; its pieces as they come.
    pub(super) async fn listen(mut self, request: &[u8]) -> Result<(Pieces, tokio::net::tcp::OwnedWriteHalf)> {
        self.stream.write_all(request).await?;
        let (read, write) = self.stream.into_split();
        Ok((Pieces::new(read), write))
    }
}

/// The pieces of an answer in chunks.
pub(super) struct Pieces {
    read: OwnedReadHalf,
    buffer: Vec<u8>,
    at: usize,
    is_open: bool,
}

impl Pieces {
    fn new(read: OwnedReadHalf) -> Pieces {
        Pieces { read, buffer: Vec::with_capacity(1 << 16), at: 0, is_open: false }
    }

    async fn all(mut self, mut take: impl FnMut(&[u8])) -> Result<()> {
        while let Some(piece) = self.next().await? {
            take(piece);
        }
        Ok(())
    }

    async fn more(&mut self) -> Result<()> {
        ensure!(self.read.read_buf(&mut self.buffer).await? > 0, "the server hung up");
        Ok(())
    }

    /// The next piece, or none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>> {
        while !self.is_open {
            match head(&self.buffer)? {
                None => self.more().await?,
                Some((_, Size::Known(_))) => bail!("the answer does not come in chunks"),
                Some((at, Size::Chunks)) => (self.at, self.is_open) = (at, true),
            }
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        loop {
            let line = self.buffer.windows(2).position(|pair| pair == b"\r\n");
            let Some(end) = line else {
                self.more().await?;
                continue;
            };
            let size = std::str::from_utf8(self.buffer.get(..end).unwrap_or_default())?;
            let size = usize::from_str_radix(size.trim(), 16).context("a chunk has a size")?;
            while self.buffer.len() < end + 2 + size + 2 {
                self.more().await?;
            }
            self.at = end + 2 + size + 2;
            let piece = self.buffer.get(end + 2..end + 2 + size).unwrap_or_default();
            return Ok((size > 0).then_some(piece));
        }
    }
}

/// Where the body begins and how long it is, once the head is there.
fn head(buffer: &[u8]) -> Result<Option<(usize, Size)>> {
    let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(buffer.get(..end).unwrap_or_default())?;
    ensure!(head.starts_with("HTTP/1.1 2"), "not answered: {}", String::from_utf8_lossy(buffer));
    let field = |name: &str| {
        head.lines()
            .find_map(|line| line.split_once(':').filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()))
    };
    let size = match field("content-length") {
        Some(length) => Size::Known(length.parse()?),
        None if field("transfer-encoding") == Some("chunked") => Size::Chunks,
        None => bail!("the answer does not say where it ends"),
    };
    Ok(Some((end + 4, size)))
}
