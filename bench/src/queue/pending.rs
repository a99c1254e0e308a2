//! What 1 M deliveries that wait cost: memory on both engines, and a restart of the embedded one.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hermod_tests::server::Redis;

use super::load::{Target, lines};
use super::wire::Wire;
use super::{PAYLOAD_BYTES, float, median, serve};

const WAITING: usize = 1_000_000;
const STARTS: usize = 3;
const START_WANTED: f64 = 3.0;
const BYTES_WANTED: f64 = 320.0;

async fn fill(target: &Target) -> Result<()> {
    target.make("jobs").await?;
    for part in 0..4 {
        target.push_lines("jobs", lines(WAITING / 4, |n| format!("{}s", 1_800 + (n * 4 + part) * 7_919 % 20_000))).await?;
    }
    Ok(())
}

fn rss_bytes(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("a process has memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}

fn used_memory(store: &Redis) -> Result<f64> {
    let info: String = store.ask(&["INFO", "memory"])?;
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).context("Redis says what it uses")?;
    Ok(line.trim().parse()?)
}

pub(super) async fn run() -> Result<()> {
    println!("\n{WAITING} deliveries of {PAYLOAD_BYTES} bytes that wait");
    let store = Redis::start()?;
    let (hermod, target) = serve(Some(&store.url()))?;
    let before = used_memory(&store)?;
    fill(&target).await?;
    let each = (used_memory(&store)? - before) / float(WAITING);
    let word = if each <= BYTES_WANTED { "reached" } else { "NOT reached" };
    println!("  Redis: {each:.0} bytes each, wanted at most {BYTES_WANTED:.0}: {word}");
    drop((hermod, store));
    embedded().await
}

async fn embedded() -> Result<()> {
    let (mut hermod, target) = serve(None)?;
    let before = rss_bytes(hermod.pid())?;
    fill(&target).await?;
    println!("  embedded: {:.0} bytes of resident memory each after filling", (rss_bytes(hermod.pid())? - before) / float(WAITING));
    let mut starts = Vec::new();
    for start in 0..STARTS {
        if start == 1 {
            hermod.terminate()?;
        }
        hermod.kill9()?;
        let began = Instant::now();
        let ready = tokio::spawn(until_ready(target.clone()));
        tokio::task::block_in_place(|| hermod.restart())?;
        starts.push((ready.await?? - began).as_secs_f64());
        println!(
            "  embedded: ready {:.2} s after its process was started, {:.0} bytes of resident memory each",
            starts.last().copied().unwrap_or_default(),
            (rss_bytes(hermod.pid())? - before) / float(WAITING)
        );
    }
    let start = median(&starts);
    let word = if start < START_WANTED { "reached" } else { "NOT reached" };
    println!("  embedded: start {start:.2} s, wanted below {START_WANTED:.0} s: {word}");
    Ok(())
}

/// When the server says that it is ready.
async fn until_ready(target: Target) -> Result<Instant> {
    let request = target.head("GET", "/readyz", "application/json", 0);
    loop {
        if let Ok(mut wire) = Wire::open(&target.address).await
            && wire.ask(request.as_bytes()).await.is_ok()
        {
            return Ok(Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
