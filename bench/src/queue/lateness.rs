//! How late deliveries are handed out while 1 M others wait for later.
//!
//! A steady flow falls due one to three seconds after it was pushed. Consumers wait for it, by long poll or on a
//! stream, and what counts is their clock: when a delivery has arrived, less when it was due. Both go on while their acks are under way:
//! where all consumers wait for the disk nobody waits for a delivery, and it would be that which is measured.
//!
//! On the embedded engine a lease is on disk before anybody is told. So what one fsync costs meanwhile is measured beside it: who claims
//! what is due already can not be faster, and one that takes longer than deliveries are claimed ahead makes them late. So is how late
//! the machine wakes threads that only sleep, as nobody can be told sooner than that: what fell due while it stood still, or right after it, is
//! counted with all the others, and the others are shown for themselves.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use hermod_tests::server::Redis;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use super::load::{Target, handed, lines};
use super::serve;
use super::wire::Wire;

const WAITING: usize = 1_000_000;
const FLOW: usize = 4_000;
const FLOW_EVERY: Duration = Duration::from_millis(5);
/// Each delivery is held for whoever waits for it up to 25 ms before its time, so 200 a second take five of those who poll; a few more
/// are there, or none would be waiting after a moment in which the machine stood still.
const CONSUMERS: usize = 8;
const LEASE_MS: i64 = 30_000;
/// So often an fsync is measured, and so much is written for it: about what a commit writes.
const FSYNC_EVERY: Duration = Duration::from_millis(20);
const FSYNC_BYTES: usize = 8 << 10;
/// What sleeps beside it, to see how late the machine itself wakes somebody: so long, and one for each core.
const SLEEP: Duration = Duration::from_millis(2);
const SLEEPERS: usize = 2;
/// A sleeper that is later than this was kept from waking.
const STILL_US: i64 = 2_000;
/// For so long after the machine stood still there is more to do than usual.
const AFTER_US: i64 = 5_000;

pub(super) async fn run() -> Result<()> {
    run_on("embedded", None, 5.0).await?;
    let store = Redis::start()?;
    run_on("redis", Some(&store.url()), 15.0).await
}

async fn run_on(name: &str, store: Option<&str>, wanted_ms: f64) -> Result<()> {
    let (_hermod, target) = serve(store)?;
    println!("\nlateness, {name}, {WAITING} wait for the coming hours, 200 a second fall due");
    target.make("jobs").await?;
    // Four parts, as one would need a lot of memory here.
    for part in 0..4 {
        let lines = lines(WAITING / 4, |n| format!("{}s", 1_800 + (n * 4 + part) * 7_919 % 20_000));
        target.push_lines("jobs", lines).await?;
    }
    for (way, is_stream) in [("long poll", false), ("stream", true)] {
        let is_over = Arc::new(AtomicBool::new(false));
        let disk = tokio::task::spawn_blocking({
            let is_over = Arc::clone(&is_over);
            move || fsyncs(&is_over)
        });
        let mut bare = JoinSet::new();
        for _ in 0..SLEEPERS {
            let is_over = Arc::clone(&is_over);
            bare.spawn_blocking(move || sleeps(&is_over));
        }
        let seen = flow(&target, is_stream).await;
        is_over.store(true, Ordering::Relaxed);
        let (seen, disk) = (seen?, disk.await??);
        let (mut slept, mut still) = (times([].iter())?, Vec::new());
        while let Some(one) = bare.join_next().await {
            let (woken, pauses) = one??;
            slept.add(woken)?;
            still.extend(pauses);
        }
        let undisturbed = seen.undisturbed(&still)?;
        let ms = |times: &Histogram<u64>, q: f64| Duration::from_micros(times.value_at_quantile(q)).as_secs_f64() * 1e3;
        let say = |who: &str, times: &Histogram<u64>| {
            let (p50, p99, max) = (ms(times, 0.5), ms(times, 0.99), ms(times, 1.0));
            println!("  {way:<10} {who:<28} p50 {p50:>6.2} ms   p99 {p99:>6.2} ms   max {max:>7.2} ms");
            p99
        };
        say("one fsync, meanwhile", &disk);
        say("a bare sleep, meanwhile", &slept);
        let p99 = say("by the consumer's clock", &seen.felt()?);
        let word = if p99 < wanted_ms && seen.early == 0 { "reached" } else { "NOT reached" };
        let many = seen.handed.len();
        println!("  {way:<10} {many} handed out, {} early; wanted p99 below {wanted_ms} ms and none early: {word}", seen.early);
        say("where it did not stand still", &undisturbed);
        println!("  {way:<10} {} of them", undisturbed.len());
    }
    Ok(())
}

/// From when to when.
type Span = (i64, i64);

/// How late the deliveries of a flow were.
#[derive(Default)]
struct Seen {
    /// Each from when it was due to when it was there.
    handed: Vec<Span>,
    early: usize,
}

impl Seen {
    /// Takes in what was handed out at `now`; what is to be acknowledged.
    fn take(&mut self, text: &str, now: i64) -> Result<Vec<String>> {
        let mut acks = Vec::new();
        for ((id, token), rest) in handed(text).zip(text.split(r#"{"id":""#).skip(1)) {
            let due = time_us(rest, r#""due":""#)?;
            let leased = time_us(rest, r#""lease_until":""#)? - LEASE_MS * 1_000;
            if leased < due || now < due {
                self.early += 1;
            }
            self.handed.push((due, now));
            acks.push(format!(r#"{{"id":"{id}","token":{token}}}"#));
        }
        Ok(acks)
    }

    fn add(&mut self, other: Seen) {
        self.handed.extend(other.handed);
        self.early += other.early;
    }

    fn felt(&self) -> Result<Histogram<u64>> {
        times(self.handed.iter())
    }

    /// Those on whose way the machine did not stand still.
    fn undisturbed(&self, still: &[Span]) -> Result<Histogram<u64>> {
        let is_apart = |due: i64, now: i64| still.iter().all(|(from, till)| now < *from || till + AFTER_US < due);
        times(self.handed.iter().filter(|(due, now)| is_apart(*due, *now)))
    }
}

fn times<'a>(spans: impl Iterator<Item = &'a Span>) -> Result<Histogram<u64>> {
    let mut times = Histogram::new_with_bounds(1, 60_000_000, 3)?;
    spans.for_each(|(from, till)| times.saturating_record(u64::try_from(till - from).unwrap_or(0)));
    Ok(times)
}

/// What an fsync costs, over and over, in a file whose room is there already.
fn fsyncs(is_over: &AtomicBool) -> Result<Histogram<u64>> {
    let (file, room) = (tempfile::tempfile()?, vec![1; FSYNC_BYTES]);
    let mut times = Histogram::new_with_bounds(1, 60_000_000, 3)?;
    file.write_all_at(&room, 0)?;
    file.sync_all()?;
    while !is_over.load(Ordering::Relaxed) {
        file.write_all_at(&room, 0)?;
        let began = Instant::now();
        file.sync_all()?;
        times.saturating_record(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        std::thread::sleep(FSYNC_EVERY);
    }
    Ok(times)
}

/// How late a thread is woken that does nothing but sleep, and when it was kept from waking.
fn sleeps(is_over: &AtomicBool) -> Result<(Histogram<u64>, Vec<Span>)> {
    let (mut times, mut still) = (Histogram::new_with_bounds(1, 60_000_000, 3)?, Vec::new());
    let sleep = i64::try_from(SLEEP.as_micros())?;
    while !is_over.load(Ordering::Relaxed) {
        let wake = now_us()? + sleep;
        std::thread::sleep(SLEEP);
        let woken = now_us()?;
        times.saturating_record(u64::try_from(woken - wake).unwrap_or(0));
        if woken - wake > STILL_US {
            still.push((wake, woken));
        }
    }
    Ok((times, still))
}

fn now_us() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?)
}

/// The time that stands behind this name.
fn time_us(text: &str, name: &str) -> Result<i64> {
    let (_, rest) = text.split_once(name).context("a delivery has its times")?;
    let time: jiff::Timestamp = rest.split_once('"').context("a text ends")?.0.parse()?;
    Ok(time.as_microsecond())
}

async fn flow(target: &Target, is_stream: bool) -> Result<Seen> {
    let left = Arc::new(AtomicUsize::new(FLOW));
    let mut consumers = JoinSet::new();
    for _ in 0..CONSUMERS {
        let (target, left) = (target.clone(), Arc::clone(&left));
        if is_stream {
            consumers.spawn(async move { listen(&target, &left).await });
        } else {
            consumers.spawn(async move { poll(&target, &left).await });
        }
    }
    let mut wire = Wire::open(&target.address).await?;
    let mut ticks = tokio::time::interval(FLOW_EVERY);
    for n in 0..FLOW {
        ticks.tick().await;
        let ahead = i64::try_from(1_000 + n * 7_919 % 2_000)?;
        let at = jiff::Timestamp::from_millisecond(now_us()? / 1_000 + ahead)?;
        let body = format!(r#"{{"at":"{at}","payload":"{}"}}"#, "x".repeat(98));
        wire.ask(&target.json("POST", "/v1/queues/jobs/deliveries", &body)).await?;
    }
    let mut seen = Seen::default();
    while let Some(one) = consumers.join_next().await {
        seen.add(one??);
    }
    Ok(seen)
}

/// Asks for the next and waits for it, over and over.
async fn poll(target: &Target, left: &AtomicUsize) -> Result<Seen> {
    let claim = target.json("POST", "/v1/queues/jobs/claim", r#"{"count":10,"lease":"30s","wait_ms":1000}"#);
    let (send, receive) = unbounded_channel();
    let ask = async {
        let (mut wire, mut seen) = (Wire::open(&target.address).await?, Seen::default());
        while left.load(Ordering::Relaxed) > 0 {
            let answer = wire.ask(&claim).await?;
            let now = now_us()?;
            send.send(seen.take(std::str::from_utf8(answer)?, now)?)?;
        }
        drop(send);
        anyhow::Ok(seen)
    };
    let (seen, ()) = tokio::try_join!(ask, acknowledge(target, receive, left))?;
    Ok(seen)
}

/// Listens to a stream.
async fn listen(target: &Target, left: &AtomicUsize) -> Result<Seen> {
    let request = target.head("GET", "/v1/queues/jobs/stream?credits=100&lease=30s", "application/json", 0);
    let (mut pieces, _open) = Wire::open(&target.address).await?.listen(request.as_bytes()).await?;
    let (send, receive) = unbounded_channel();
    let read = async {
        let mut seen = Seen::default();
        while left.load(Ordering::Relaxed) > 0 {
            let Ok(piece) = tokio::time::timeout(Duration::from_millis(500), pieces.next()).await else { continue };
            let Some(piece) = piece? else { break };
            let now = now_us()?;
            send.send(seen.take(std::str::from_utf8(piece)?, now)?)?;
        }
        drop(send);
        anyhow::Ok(seen)
    };
    let (seen, ()) = tokio::try_join!(read, acknowledge(target, receive, left))?;
    Ok(seen)
}

/// Acknowledges what was handed out, on a connection of its own.
async fn acknowledge(target: &Target, mut handed: UnboundedReceiver<Vec<String>>, left: &AtomicUsize) -> Result<()> {
    let mut wire = Wire::open(&target.address).await?;
    while let Some(acks) = handed.recv().await {
        ack(target, &mut wire, &acks, left).await?;
    }
    Ok(())
}

async fn ack(target: &Target, wire: &mut Wire, acks: &[String], left: &AtomicUsize) -> Result<()> {
    if acks.is_empty() {
        return Ok(());
    }
    let body = format!(r#"{{"deliveries":[{}]}}"#, acks.join(","));
    wire.ask(&target.json("POST", "/v1/queues/jobs/ack", &body)).await?;
    left.fetch_sub(acks.len(), Ordering::Relaxed);
    Ok(())
}
