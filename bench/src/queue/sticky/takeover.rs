//! A worker goes silent: how long until all whom it had have another, and how long the others' scripts are held up by it.
//!
//! A real server and 100,000 recipients with a delivery each, of some of which the silent worker holds it. The time runs from the last
//! heartbeat to the moment at which the server's own list of workers says that all recipients are with the others.
//! Redis notes every command that takes longer than a millisecond, by the clock on the wall: on a machine that is
//! shared, what was done by others meanwhile counts too.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_core::script::SCRIPTS;
use hermod_tests::server::Redis;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::queue::load::Target;
use crate::queue::serve;
use crate::queue::wire::Wire;

const RECIPIENTS: usize = 100_000;
const WORKERS: usize = 8;
const TTL: Duration = Duration::from_secs(2);
const WANTED: Duration = Duration::from_secs(4);
const BEAT_EVERY: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(60);
const NOTED_US: u64 = 1_000;
const SCRIPT_MAX_US: u64 = 5_000;

pub(super) async fn run() -> Result<()> {
    let noted = NOTED_US.to_string();
    let store = Redis::options().set("slowlog-log-slower-than", &noted).set("slowlog-max-len", "100000").start()?;
    run_on("redis", Some(&store)).await?;
    run_on("embedded", None).await
}

async fn run_on(name: &str, store: Option<&Redis>) -> Result<()> {
    println!("\nsticky takeover, {name}: one of {WORKERS} workers goes silent, {RECIPIENTS} recipients have something pending");
    let url = store.map(Redis::url);
    let (_hermod, target) = serve(url.as_deref())?;
    let mut team = Team::open(target).await?;
    team.ask("PUT", "", r#"{"mode":"sticky","worker_ttl":"2s","lease":"10m"}"#).await?;
    let mut beats = Vec::new();
    for worker in 0..WORKERS {
        beats.push(team.join(&format!("w{worker}")).await?);
    }
    let lines: String = (0..RECIPIENTS).map(|n| format!("{{\"to\":\"r{n}\",\"payload\":\"{}\"}}\n", "x".repeat(98))).collect();
    team.target.push_lines("sticky", lines.into_bytes()).await?;
    let silent = beats.remove(0);
    let before = team.look().await?;
    ensure!(before.values().sum::<u64>() == u64::try_from(RECIPIENTS)?, "not all are there: {before:?}");
    let had = before.get("w0").copied().unwrap_or(0);
    let claim = format!(r#"{{"worker":"w0","incarnation":{},"count":100}}"#, silent.incarnation);
    team.ask("POST", "/claim", &claim).await?;
    if let Some(store) = store {
        let _: String = store.ask(&["SLOWLOG", "RESET"])?;
        let _: String = store.ask(&["CONFIG", "RESETSTAT"])?;
    }
    silent.task.abort();
    let began = Instant::now();
    team.ask("POST", "/workers/w0/heartbeat", &silent.body()).await?;
    let mut first = None;
    let took = loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = team.look().await?;
        let left = now.get("w0").copied().unwrap_or(0) + now.get("").copied().unwrap_or(0);
        if left < had {
            first.get_or_insert(began.elapsed());
        }
        if left == 0 && now.values().sum::<u64>() == u64::try_from(RECIPIENTS)? {
            break began.elapsed();
        }
        ensure!(began.elapsed() < PATIENCE, "nobody has taken over: {now:?}");
    };
    let word = if took <= WANTED { "reached" } else { "NOT reached" };
    println!(
        "  {had} recipients moved; the first {:.2} s after the last heartbeat, the last {:.2} s, wanted {:.0} s (worker_ttl {:.0} s + 2 s): {word}",
        first.unwrap_or(took).as_secs_f64(),
        took.as_secs_f64(),
        WANTED.as_secs_f64(),
        TTL.as_secs_f64()
    );
    for beat in beats {
        ensure!(!beat.task.is_finished(), "a worker that lives was taken for gone");
        beat.task.abort();
    }
    store.map_or(Ok(()), say_slow)
}

/// Those who ask the server.
struct Team {
    target: Target,
    wire: Wire,
}

/// A worker that says that it lives, until it is told not to.
struct Beats {
    incarnation: u64,
    task: JoinHandle<Result<()>>,
}

impl Beats {
    fn body(&self) -> String {
        format!(r#"{{"incarnation":{}}}"#, self.incarnation)
    }
}

impl Team {
    async fn open(target: Target) -> Result<Team> {
        let wire = Wire::open(&target.address).await?;
        Ok(Team { target, wire })
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Value> {
        let request = self.target.json(method, &format!("/v1/queues/sticky{path}"), body);
        Ok(serde_json::from_slice(self.wire.ask(&request).await?)?)
    }

    async fn join(&mut self, worker: &str) -> Result<Beats> {
        let registered = self.ask("PUT", &format!("/workers/{worker}"), "{}").await?;
        let incarnation = registered.get("incarnation").and_then(Value::as_u64).context("a worker has an incarnation")?;
        let path = format!("/v1/queues/sticky/workers/{worker}/heartbeat");
        let request = self.target.json("POST", &path, &format!(r#"{{"incarnation":{incarnation}}}"#));
        let mut wire = Wire::open(&self.target.address).await?;
        let task = tokio::spawn(async move {
            loop {
                wire.ask(&request).await?;
                tokio::time::sleep(BEAT_EVERY).await;
            }
        });
        Ok(Beats { incarnation, task })
    }

    /// How many recipients each worker has; nobody has those that are parked.
    async fn look(&mut self) -> Result<BTreeMap<String, u64>> {
        let list = self.ask("GET", "/workers", "").await?;
        let count = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64).unwrap_or(0);
        let items = list.get("items").and_then(Value::as_array).context("there is a list")?;
        let named =
            items.iter().map(|item| (item.get("worker").and_then(Value::as_str).unwrap_or_default().to_owned(), count(item, "recipients")));
        Ok(named.chain([(String::new(), count(&list, "parked"))]).collect())
    }
}

/// What Redis noted: which, when, how long in microseconds, the command, by whom.
type Noted = (u64, u64, u64, Vec<Vec<u8>>, redis::Value, redis::Value);

/// How often and how long Redis was held up by one script, or by a command of one.
#[derive(Debug, Default)]
struct Slow {
    count: usize,
    over: usize,
    most_us: u64,
}

fn say_slow(store: &Redis) -> Result<()> {
    let names: BTreeMap<String, &str> = SCRIPTS.iter().map(|script| (script.function(), script.name)).collect();
    let noted: Vec<Noted> = store.ask(&["SLOWLOG", "GET", "-1"])?;
    let mut by: BTreeMap<String, Slow> = BTreeMap::new();
    for (_, _, us, words, _, _) in noted {
        let word = |n: usize| String::from_utf8_lossy(words.get(n).map(Vec::as_slice).unwrap_or_default());
        let slow = by.entry(names.get(&*word(1)).map_or_else(|| word(0).into_owned(), |name| (*name).to_owned())).or_default();
        (slow.count, slow.over) = (slow.count + 1, slow.over + usize::from(us > SCRIPT_MAX_US));
        slow.most_us = slow.most_us.max(us);
    }
    for (name, Slow { count, over, most_us }) in &by {
        println!("  {name:<16} {count:>4} longer than {NOTED_US} us, {over:>3} of them than {SCRIPT_MAX_US} us, the longest {most_us} us");
    }
    let most = by.values().map(|slow| slow.most_us).max().unwrap_or(0);
    let word = if most <= SCRIPT_MAX_US { "reached" } else { "NOT reached" };
    println!("  the longest of all {most} us, wanted at most {SCRIPT_MAX_US} us: {word}");
    let info: String = store.ask(&["INFO", "commandstats"])?;
    info.lines().filter(|line| line.starts_with("cmdstat_fcall:")).for_each(|line| println!("  {line}"));
    Ok(())
}
