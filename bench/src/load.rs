//! A closed loop of workers, and an HTTP client that costs as little as possible.
//!
//! The client shares two cores with what it measures. It sends bytes that were made before and looks
//! at no more of the answer than its length, so that most of the time goes to the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::cpu::spent_us;
use crate::ratio::Measured;

/// Runs `workers` loops for `span`; each does its step over and over. `pid` is who answers.
pub(crate) async fn closed_loop<F, Fut>(pid: u32, workers: usize, span: Duration, make: impl Fn(usize) -> F) -> Result<Measured>
where
    F: FnMut(u64) -> Fut + Send + 'static,
    Fut: Future<Output = Result<()>> + Send,
{
    measure(pid, workers, |worker| {
        let mut step = make(worker);
        async move {
            let mut clock = Clock::new(span)?;
            while clock.goes_on() {
                let asked = Instant::now();
                step(clock.count()).await?;
                clock.record(asked)?;
            }
            Ok(clock.times)
        }
    })
    .await
}

/// Runs `workers` loops; each does its step so many times. `pid` is who answers.
pub(crate) async fn counted_loop<F, Fut>(pid: u32, workers: usize, steps: u64, make: impl Fn(usize) -> F) -> Result<Measured>
where
    F: FnMut(u64) -> Fut + Send + 'static,
    Fut: Future<Output = Result<()>> + Send,
{
    measure(pid, workers, |worker| {
        let mut step = make(worker);
        async move {
            let mut clock = Clock::new(Duration::ZERO)?;
            while clock.count() < steps {
                let asked = Instant::now();
                step(clock.count()).await?;
                clock.record(asked)?;
            }
            Ok(clock.times)
        }
    })
    .await
}

/// Sends requests over `connections`, on each one after the other, for `span`.
pub(crate) async fn http_loop(pid: u32, address: String, requests: Vec<Vec<u8>>, connections: usize, span: Duration) -> Result<Measured> {
    let requests = Arc::new(requests);
    measure(pid, connections, |worker| {
        let (address, requests) = (address.clone(), Arc::clone(&requests));
        async move {
            let mut connection = Connection::open(&address).await?;
            let mut clock = Clock::new(span)?;
            let mut turn = worker * 37;
            while clock.goes_on() {
                let request = requests.get(turn % requests.len()).context("there is a request")?;
                let asked = Instant::now();
                connection.ask(request).await?;
                clock.record(asked)?;
                turn += 1;
            }
            Ok(clock.times)
        }
    })
    .await
}

/// Runs all workers and adds up what they measured.
async fn measure<Fut>(pid: u32, workers: usize, work: impl Fn(usize) -> Fut) -> Result<Measured>
where
    Fut: Future<Output = Result<Histogram<u64>>> + Send + 'static,
{
    let (began, spent) = (Instant::now(), spent_us(pid)?);
    let mut set = JoinSet::new();
    for worker in 0..workers {
        set.spawn(work(worker));
    }
    let mut all = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 2)?;
    while let Some(times) = set.join_next().await {
        all.add(times??)?;
    }
    let took = began.elapsed().as_secs_f64();
    let count = f64::from(u32::try_from(all.len())?);
    let at = |q: f64| Duration::from_nanos(all.value_at_quantile(q));
    let cpu_us = (spent_us(pid)? - spent) / count;
    Ok(Measured { per_second: count / took, p50: at(0.5), p99: at(0.99), cpu_us })
}

/// One worker's end and its times.
struct Clock {
    ends: Instant,
    times: Histogram<u64>,
}

impl Clock {
    fn new(span: Duration) -> Result<Clock> {
        Ok(Clock { ends: Instant::now() + span, times: Histogram::new_with_bounds(1, 60_000_000_000, 2)? })
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.ends
    }

    fn count(&self) -> u64 {
        self.times.len()
    }

    fn record(&mut self, asked: Instant) -> Result<()> {
        self.times.saturating_record(u64::try_from(asked.elapsed().as_nanos())?);
        Ok(())
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(4096) })
    }

    async fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server hung up");
            if let Some(length) = whole_length(&self.buffer)?
                && self.buffer.len() >= length
            {
                return Ok(());
            }
        }
    }
}

/// How long the answer is, once its head is there.
fn whole_length(buffer: &[u8]) -> Result<Option<usize>> {
    let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(buffer.get(..end).unwrap_or_default())?;
    ensure!(head.starts_with("HTTP/1.1 200"), "not answered: {}", String::from_utf8_lossy(buffer));
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Ok(Some(end + 4 + length.context("the answer has a length")?))
}
