//! A message to its recipient's worker, claimed and acknowledged: beside the algorithm of the seed, on the same Redis.
//!
//! Each of the callers routes a message and then does what its worker does. Hermod's side is the operations of
//! a server; the Redis engine puts those that come together into one call by itself. The embedded one, which is durable
//! and needs no Redis, is measured in the same rounds. The callers have recipients of their own, as of
//! one recipient only one delivery is handed out at a time. A claim may find what another caller pushed for the same worker; then
//! that one's finds nothing, and in the end all must have been acknowledged by somebody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hermod_core::queue::push::Push;
use hermod_core::queue::settle::Outcome as Settlement;
use hermod_core::queue::{Act, Claim, Delivery, Due, Failing, Member, Settle, SettleAct, Staff, Terms, Upkeep};
use hermod_core::{Micros, Operation, Outcome, Place, QueueId, Recipient, SpaceId, WorkerId};
use hermod_engine::{Embedded, Engine, Redis, embedded, redis};
use hermod_tests::server;
use tokio::sync::Mutex;

use super::seed::Seed;
use crate::load::closed_loop;
use crate::queue::PAYLOAD_BYTES;
use crate::ratio::{Measured, Rounds};

const CALLERS: usize = 64;
const RECIPIENTS: usize = 1_000;
const WORKERS: usize = 8;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 7;
const WANTED: f64 = 20.0;
/// A claim takes whatever is there for its worker.
const AT_ONCE: usize = 100;
const HOUR: Micros = Micros::saturating(3_600_000_000);
const TERMS: Terms = Terms { is_sticky: true, floor: 0 };
const FAILING: Failing = Failing { max_attempts: 5, drops: false, drop_after: None };
const UPKEEP: Upkeep = Upkeep { ttl: HOUR, idle_after: HOUR, failing: FAILING };

pub(super) async fn run() -> Result<()> {
    let store = server::Redis::start()?;
    let engine = Redis::open(redis::Options::new(redis::Address::parse(&store.url())?)).await?;
    let hermod = Arc::new(Sticky::open(Engine::Redis(engine)).await?);
    // Beside the build, not in a folder that may be in memory.
    let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().context("the build has a folder")?)?;
    let embedded = Embedded::open(embedded::Options::new(folder.path()))?;
    let alone = Arc::new(Sticky::open(Engine::Embedded(embedded.clone())).await?);
    let mut seeds = Vec::new();
    for _ in 0..CALLERS {
        seeds.push(Arc::new(Mutex::new(Seed::open(&store.url()).await?)));
    }
    for worker in 0..WORKERS {
        seeds.first().context("there are callers")?.lock().await.join(&worker_name(worker)).await?;
    }
    let (mut rounds, mut rounds_alone) = (Rounds::default(), Rounds::default());
    for round in 0..=ROUNDS {
        // The first one assigns the recipients on both sides, and does not count.
        let span = if round == 0 { Duration::from_secs(1) } else { ROUND };
        let on_redis = ours(store.pid(), &hermod, span).await?;
        let theirs = theirs(&store, &seeds, span).await?;
        let on_embedded = ours(std::process::id(), &alone, span).await?;
        if round > 0 {
            rounds.add(on_redis, theirs);
            rounds_alone.add(on_embedded, theirs);
        }
    }
    embedded.close().await?;
    for (name, rounds) in [("Redis", rounds), ("embedded, durable", rounds_alone)] {
        let title = format!("sticky, {name}: route, claim and ack, {CALLERS} concurrent, {RECIPIENTS} recipients, {WORKERS} workers");
        rounds.print(&title, "hermod push + claim + settle", "the seed's nine commands, Redis", WANTED)?;
    }
    say_scripts(&store, hermod.acked.load(Ordering::Relaxed))
}

fn worker_name(worker: usize) -> String {
    format!("worker-{worker}")
}

/// The how many'th recipient a caller addresses: no two callers the same.
fn recipient(caller: usize, count: u64) -> String {
    let own = RECIPIENTS / CALLERS;
    let turn = usize::try_from(count).unwrap_or(0) % own;
    format!("did:key:z6Mk{:05}", caller * own + turn)
}

async fn ours(pid: u32, hermod: &Arc<Sticky>, span: Duration) -> Result<Measured> {
    let measured = closed_loop(pid, CALLERS, span, |caller| {
        let hermod = Arc::clone(hermod);
        move |count| {
            let hermod = Arc::clone(&hermod);
            async move { hermod.route(&recipient(caller, count)).await }
        }
    })
    .await?;
    let (pushed, acked) = (hermod.pushed.load(Ordering::Relaxed), hermod.acked.load(Ordering::Relaxed));
    ensure!(pushed == acked, "{pushed} were pushed and {acked} acknowledged");
    Ok(measured)
}

async fn theirs(store: &server::Redis, seeds: &[Arc<Mutex<Seed>>], span: Duration) -> Result<Measured> {
    let message = format!(r#"{{"payload":"{}"}}"#, "x".repeat(PAYLOAD_BYTES));
    closed_loop(store.pid(), CALLERS, span, |caller| {
        let (seed, message) = (seeds.get(caller).cloned().expect("each caller has one"), message.clone());
        move |count| {
            let (seed, message) = (Arc::clone(&seed), message.clone());
            async move {
                let (to, mut seed) = (recipient(caller, count), seed.lock().await);
                let uid = seed.route(&to, &message).await?;
                ensure!(seed.take(&uid, &to).await? == message, "another message was there");
                Ok(())
            }
        }
    })
    .await
}

/// A sticky queue, and its workers.
struct Sticky {
    engine: Engine,
    space: SpaceId,
    queue: QueueId,
    incarnation: u64,
    pushed: AtomicUsize,
    acked: AtomicUsize,
}

impl Sticky {
    async fn open(engine: Engine) -> Result<Sticky> {
        let (space, queue, incarnation) = (SpaceId::default_space(), QueueId::new("sticky")?, 7);
        for partition in 0..engine.partitions().count() {
            for worker in 0..WORKERS {
                let member = Member { worker: WorkerId::new(worker_name(worker))?, incarnation, age: Micros::ZERO };
                let place = Place { space: space.clone(), partition };
                let join = Act::Join { weight: 1 };
                done(&engine, &Staff::new(place, queue.clone(), TERMS, join, UPKEEP, vec![member])).await?;
            }
        }
        let (pushed, acked) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Sticky { engine, space, queue, incarnation, pushed, acked })
    }

    /// Pushes a message; its worker, and no other, claims and acknowledges it.
    async fn route(&self, to: &str) -> Result<()> {
        let place = self.engine.partitions().place(&self.space, to);
        let mut delivery = Delivery::new(Due::In(Micros::ZERO), true, format!("\"{}\"", "x".repeat(PAYLOAD_BYTES - 2)));
        delivery.to = Some(Recipient::new(to)?);
        let pushed = done(&self.engine, &Push::new(place.clone(), self.queue.clone(), TERMS, FAILING, vec![delivery])).await?;
        self.pushed.fetch_add(1, Ordering::Relaxed);
        // Nobody is woken for what stands behind another delivery: whoever claims that one finds both, or is woken for it by its end.
        let mut woken = pushed.woken;
        while let Some((worker, _)) = woken.pop() {
            let claim = Claim::new(place.clone(), self.queue.clone(), TERMS, AT_ONCE, HOUR, FAILING);
            let claimed = done(&self.engine, &claim.by(WorkerId::new(&worker)?, self.incarnation)).await?;
            let held: Vec<_> = claimed.handed.iter().map(|handed| (handed.number, handed.token)).collect();
            if held.is_empty() {
                continue;
            }
            let settle = Settle::new(place.clone(), self.queue.clone(), TERMS, SettleAct::Ack, &FAILING, held);
            let settled = done(&self.engine, &settle).await?;
            ensure!(settled.outcomes.iter().all(|outcome| *outcome == Settlement::Done), "not done: {:?}", settled.outcomes);
            self.acked.fetch_add(settled.outcomes.len(), Ordering::Relaxed);
            woken.extend(settled.woken);
        }
        Ok(())
    }
}

/// What scripts cost Redis: how many calls of its commands they make, and how long they take with them.
fn say_scripts(store: &server::Redis, routed: usize) -> Result<()> {
    let info: String = store.ask(&["INFO", "commandstats"])?;
    let scripts = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).context("scripts were run")?;
    println!("  hermod's scripts, for {routed} messages: {scripts}");
    Ok(())
}

async fn done<O: Operation>(engine: &Engine, operation: &O) -> Result<O::Answer> {
    match engine.run(operation, None).await?.outcome {
        Outcome::Done(answer) | Outcome::Replayed(answer) => Ok(answer),
        Outcome::Conflict => bail!("there is no key to conflict"),
    }
}
