//! Beside BullMQ, on the same Redis: bulk adding of delayed jobs, and working off what is due.
//!
//! BullMQ is fetched by name into a temporary folder. Where that cannot be done there is no ratio.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use hermod_tests::server::Redis;
use tempfile::TempDir;

use super::{PAYLOAD_BYTES, float, median, say_ratio, serve};
use crate::cpu::spent_us;

const ROUNDS: usize = 5;
const ADDED: usize = 50_000;
const WORKED: usize = 20_000;
const LANES: usize = 4;
const CONCURRENCY: usize = 100;
const AT_ONCE: usize = 200;
const WANTED: f64 = 5.0;

/// BullMQ in a Node.js process, killed when it goes out of scope.
struct BullMq {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    version: String,
    _folder: TempDir,
}

impl BullMq {
    fn start(port: u16) -> Result<BullMq> {
        let folder = tempfile::tempdir()?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "bullmq", "ioredis"]).current_dir(&folder);
        let npm = npm.stdout(Stdio::null()).stderr(Stdio::piped()).output().context("npm cannot be run")?;
        ensure!(npm.status.success(), "npm could not install bullmq: {}", String::from_utf8_lossy(&npm.stderr));
        std::fs::write(folder.path().join("bench.js"), include_str!("bullmq.js"))?;
        let about: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.path().join("node_modules/bullmq/package.json"))?)?;
        let version = about.get("version").and_then(|version| version.as_str()).unwrap_or("?").to_owned();
        let mut node = Command::new("node");
        node.args(["bench.js", &port.to_string(), &PAYLOAD_BYTES.to_string()]).current_dir(&folder);
        let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("node cannot be run")?;
        let input = child.stdin.take().context("its input is piped")?;
        let output = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut bullmq = BullMq { child, input, output, version, _folder: folder };
        ensure!(bullmq.line()? == "ready", "BullMQ does not start");
        Ok(bullmq)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "BullMQ ended");
        Ok(line.trim().to_owned())
    }

    /// Jobs a second.
    fn ask(&mut self, verb: &str, queue: &str, count: usize, many: usize) -> Result<f64> {
        writeln!(self.input, "{verb} {queue} {count} {many}")?;
        let ms: f64 = self.line()?.parse()?;
        Ok(float(count) / ms * 1e3)
    }
}

impl Drop for BullMq {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// What one side did, and what it cost Redis.
#[derive(Default)]
struct Side {
    per_second: Vec<f64>,
    redis_us: Vec<f64>,
}

impl Side {
    fn print(&self, name: &str) {
        println!("  {name:<44} {:>8.0}/s   {:>5.1} us of Redis each", median(&self.per_second), median(&self.redis_us));
    }
}

pub(super) async fn run() -> Result<()> {
    let store = Redis::start()?;
    let mut rival = match BullMq::start(store.port()) {
        Ok(rival) => Some(rival),
        Err(fault) => {
            println!("\nBullMQ is not there, so there is no ratio: {fault:#}");
            None
        }
    };
    let (hermod, target) = serve(Some(&store.url()))?;
    let [mut our_add, mut our_work, mut their_add, mut their_work] = [(); 4].map(|()| Side::default());
    for round in 0..=ROUNDS {
        let (delayed, due) = (format!("delayed-{round}"), format!("due-{round}"));
        target.make(&delayed).await?;
        target.make(&due).await?;
        target.push_lists(&due, WORKED / 1_000, LANES, "0s").await?;
        let before = spent_us(store.pid())?;
        let rate = target.push_lists(&delayed, ADDED / 1_000, LANES, "1h").await?;
        let between = spent_us(store.pid())?;
        let worked = target.drain(&due, WORKED, LANES, AT_ONCE).await?;
        let after = spent_us(store.pid())?;
        if round > 0 {
            our_add.per_second.push(rate);
            our_add.redis_us.push((between - before) / float(ADDED));
            our_work.per_second.push(worked);
            our_work.redis_us.push((after - between) / float(WORKED));
        }
        let Some(rival) = &mut rival else { continue };
        let (rate, worked, spent) = tokio::task::block_in_place(|| {
            let before = spent_us(store.pid())?;
            let rate = rival.ask("add", &delayed, ADDED, LANES)?;
            let spent = spent_us(store.pid())? - before;
            anyhow::Ok((rate, rival.ask("work", &due, WORKED, CONCURRENCY)?, spent))
        })?;
        if round > 0 {
            their_add.per_second.push(rate);
            their_add.redis_us.push(spent / float(ADDED));
            their_work.per_second.push(worked);
        }
    }
    drop(hermod);
    let version = rival.as_ref().map_or("absent", |rival| rival.version.as_str());
    println!("\nbeside BullMQ {version} on one Redis, payloads of {PAYLOAD_BYTES} bytes, {ROUNDS} rounds in turns");
    our_add.print("hermod, lists of 1000 over 4 connections");
    if rival.is_some() {
        their_add.print("BullMQ addBulk of 1000, 4 at a time");
    }
    our_work.print("hermod, claim 200 + ack 200, 4 connections");
    let Some(_) = rival else { return Ok(()) };
    println!("  {:<44} {:>8.0}/s", "BullMQ worker, concurrency 100", median(&their_work.per_second));
    let ratios = |ours: &Side, theirs: &Side| ours.per_second.iter().zip(&theirs.per_second).map(|(o, t)| o / t).collect();
    say_ratio("bulk add", ratios(&our_add, &their_add), WANTED);
    say_ratio("claim and ack", ratios(&our_work, &their_work), WANTED);
    Ok(())
}
