//! Beside beanstalkd: putting, and reserving and deleting, over one connection on which commands do not wait for each other.
//!
//! beanstalkd keeps jobs in memory, or also in a log that it fsyncs every 50 ms unless it is told otherwise; what it
//! answers meanwhile may be lost. Hermod's embedded engine answers when a delivery is on disk.

use std::net::TcpStream as Probe;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_tests::server::{Process, Program, free_port};
use hermod_tests::until;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::load::lines;
use super::{PAYLOAD_BYTES, float, median, say_ratio, serve};

const ROUNDS: usize = 5;
const JOBS: usize = 100_000;
/// So many are reserved before the first is deleted.
const AT_ONCE: usize = 200;
const WANTED: f64 = 1.0;

struct Beanstalkd {
    address: String,
    _process: Process,
    _folder: TempDir,
}

impl Beanstalkd {
    fn start(is_logged: bool) -> Result<Beanstalkd> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let log = folder.path().join("log");
        std::fs::create_dir(&log)?;
        let mut program = Program::new("beanstalkd", folder.path())?.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
        if is_logged {
            program = program.arg("-b").arg(&log);
        }
        let process = program.start()?;
        let address = format!("127.0.0.1:{port}");
        until(Duration::from_secs(20), "beanstalkd to listen", || Probe::connect(&address).is_ok())?;
        Ok(Beanstalkd { address, _process: process, _folder: folder })
    }

    async fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Puts jobs; how many a second.
    async fn put(&self, jobs: usize) -> Result<f64> {
        let (read, mut write) = self.connect().await?.into_split();
        let job = format!("put 1024 0 60 {PAYLOAD_BYTES}\r\n{}\r\n", "x".repeat(PAYLOAD_BYTES));
        let all = job.repeat(jobs).into_bytes();
        let began = Instant::now();
        let sends = tokio::spawn(async move { write.write_all(&all).await.map(|()| write) });
        let mut read = BufReader::with_capacity(1 << 16, read);
        let mut line = Vec::new();
        for _ in 0..jobs {
            line.clear();
            read.read_until(b'\n', &mut line).await?;
            ensure!(line.starts_with(b"INSERTED"), "not put: {}", String::from_utf8_lossy(&line));
        }
        let took = began.elapsed();
        drop(sends.await??);
        Ok(float(jobs) / took.as_secs_f64())
    }

    /// Reserves and deletes jobs; how many a second.
    async fn drain(&self, jobs: usize) -> Result<f64> {
        let (read, mut write) = self.connect().await?.into_split();
        let mut read = BufReader::with_capacity(1 << 16, read);
        let reserve = "reserve\r\n".repeat(AT_ONCE);
        let (mut line, mut job) = (Vec::new(), vec![0; PAYLOAD_BYTES + 2]);
        let mut deleted = 0;
        let began = Instant::now();
        let mut asked = reserve.clone().into_bytes();
        let mut deletes = 0;
        while deleted < jobs {
            write.write_all(&asked).await?;
            asked.clear();
            for _ in 0..deletes {
                line.clear();
                read.read_until(b'\n', &mut line).await?;
                ensure!(line.starts_with(b"DELETED"), "not deleted: {}", String::from_utf8_lossy(&line));
            }
            deleted += deletes;
            let more = jobs.saturating_sub(deleted).min(AT_ONCE);
            for _ in 0..more {
                line.clear();
                read.read_until(b'\n', &mut line).await?;
                let id = line.strip_prefix(b"RESERVED ").and_then(|rest| rest.split(|byte| *byte == b' ').next());
                asked.extend_from_slice(b"delete ");
                asked.extend_from_slice(id.with_context(|| format!("not reserved: {}", String::from_utf8_lossy(&line)))?);
                asked.extend_from_slice(b"\r\n");
                read.read_exact(&mut job).await?;
            }
            deletes = more;
            if deleted + deletes < jobs {
                asked.extend_from_slice(reserve.as_bytes());
            }
        }
        Ok(float(jobs) / began.elapsed().as_secs_f64())
    }
}

pub(super) async fn run() -> Result<()> {
    let rivals = match Beanstalkd::start(false).and_then(|memory| Ok([("in memory", memory), ("-b", Beanstalkd::start(true)?)])) {
        Ok(rivals) => rivals,
        Err(fault) => {
            println!("\nbeanstalkd is not there, so there is no ratio: {fault:#}");
            return Ok(());
        }
    };
    let (_hermod, target) = serve(None)?;
    let (mut put, mut drained) = (Vec::new(), Vec::new());
    let mut theirs: [(Vec<f64>, Vec<f64>); 2] = Default::default();
    for round in 0..=ROUNDS {
        let queue = format!("jobs-{round}");
        target.make(&queue).await?;
        let ours = (target.push_lines(&queue, lines(JOBS, |_| "0s".to_owned())).await?, target.drain(&queue, JOBS, 2, 1_000).await?);
        if round > 0 {
            put.push(ours.0);
            drained.push(ours.1);
        }
        for ((_, rival), rates) in rivals.iter().zip(&mut theirs) {
            let (rival_put, rival_drained) = (rival.put(JOBS).await?, rival.drain(JOBS).await?);
            if round > 0 {
                rates.0.push(rival_put);
                rates.1.push(rival_drained);
            }
        }
    }
    println!(
        "\nbeside beanstalkd, {JOBS} jobs of {PAYLOAD_BYTES} bytes, {ROUNDS} rounds in turns; hermod embedded, on disk before it answers"
    );
    println!("  {:<52} {:>8.0}/s", "hermod, lines over one connection", median(&put));
    println!("  {:<52} {:>8.0}/s", "hermod, claim 1000 + ack 1000, 2 connections", median(&drained));
    for ((name, _), (rival_put, rival_drained)) in rivals.iter().zip(&theirs) {
        println!("  {:<52} {:>8.0}/s", format!("beanstalkd {name}, put, pipelined"), median(rival_put));
        println!("  {:<52} {:>8.0}/s", format!("beanstalkd {name}, reserve + delete, pipelined"), median(rival_drained));
        let ratios = |ours: &[f64], theirs: &[f64]| ours.iter().zip(theirs).map(|(o, t)| o / t).collect();
        say_ratio(&format!("put beside {name}"), ratios(&put, rival_put), WANTED);
        say_ratio(&format!("reserve and delete beside {name}"), ratios(&drained, rival_drained), WANTED);
    }
    Ok(())
}
