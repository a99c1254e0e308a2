//! A message to its recipient's worker, claimed and acknowledged: beside the algorithm of the seed, on the same Redis.
//!
//! Each of the callers routes a message and then does what its worker does. Hermod's side is the operations of
//! a server; the Redis engine puts those that come together into one call by itself. The embedded one, which is durable
//! and needs no Redis, is measured in the same rounds. The callers have recipients of their own, as of
//! one recipient only one delivery is handed out at a time. A claim may find what another caller pushed for the same worker; then
//! that one's finds nothing, and in the end all must have been acknowledged by somebody.
//!
//! Twice, each time on a Redis of its own: with recipients that were assigned before, over and over; and with recipients as they come, each
//! message to one that was never seen, so that each must be assigned. For that both sides begin with as many that are assigned and have
//! nothing pending (Hermod's by a message to each, the seed's written as it would stand), and a round is as many messages on both sides, so that both
//! know as many recipients in every round that counts, up to a hundred thousand.

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
use crate::load::{closed_loop, counted_loop};
use crate::queue::PAYLOAD_BYTES;
use crate::ratio::{Measured, Rounds};

const CALLERS: usize = 64;
const RECIPIENTS: usize = 1_000;
/// Of those as they come: how many each caller addresses before, and in each round. In all there are 99,200 recipients.
const KNOWN_EACH: u64 = 782;
const NEW_EACH: u64 = 96;
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
    let mut sides = Sides::open().await?;
    for round in 0..=ROUNDS {
        // The first one assigns the recipients on both sides, and does not count.
        let span = if round == 0 { Duration::from_secs(1) } else { ROUND };
        sides.round(Pace::Span(span), round > 0, Recipients::Same).await?;
    }
    sides.print(&format!("{RECIPIENTS} recipients that are assigned")).await?;

    let mut sides = Sides::open().await?;
    sides.know().await?;
    for round in 0..=ROUNDS {
        let from = KNOWN_EACH + NEW_EACH * u64::try_from(round)?;
        sides.round(Pace::Steps(NEW_EACH), round > 0, Recipients::New { from }).await?;
    }
    let most = u64::try_from(CALLERS)? * (KNOWN_EACH + NEW_EACH * u64::try_from(ROUNDS + 1)?);
    sides.print(&format!("recipients as they come, {most} in the end")).await
}

/// How long a round is.
#[derive(Clone, Copy)]
enum Pace {
    Span(Duration),
    /// So many messages of each caller.
    Steps(u64),
}

/// To whom messages go.
#[derive(Clone, Copy)]
enum Recipients {
    Same,
    /// Each to another, from the how many'th of each caller on.
    New {
        from: u64,
    },
}

impl Recipients {
    /// The how many'th recipient a caller addresses: no two callers the same.
    fn name(self, caller: usize, count: u64) -> String {
        let number = match self {
            Recipients::Same => {
                let own = RECIPIENTS / CALLERS;
                caller * own + usize::try_from(count).unwrap_or(0) % own
            }
            Recipients::New { from } => usize::try_from(from + count).unwrap_or(0) * CALLERS + caller,
        };
        format!("did:key:z6Mk{number:05}")
    }
}

/// Hermod on Redis and embedded, and the seed on the same Redis.
struct Sides {
    store: server::Redis,
    hermod: Arc<Sticky>,
    embedded: Embedded,
    alone: Arc<Sticky>,
    seeds: Vec<Arc<Mutex<Seed>>>,
    rounds: Rounds,
    rounds_alone: Rounds,
    _folder: tempfile::TempDir,
}

impl Sides {
    async fn open() -> Result<Sides> {
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
        let (rounds, rounds_alone) = (Rounds::default(), Rounds::default());
        Ok(Sides { store, hermod, embedded, alone, seeds, rounds, rounds_alone, _folder: folder })
    }

    /// All sides know the recipients before those that come.
    async fn know(&mut self) -> Result<()> {
        let first = Recipients::New { from: 0 };
        ours(self.store.pid(), &self.hermod, Pace::Steps(KNOWN_EACH), first).await?;
        ours(std::process::id(), &self.alone, Pace::Steps(KNOWN_EACH), first).await?;
        let names = (0..KNOWN_EACH).flat_map(|count| (0..CALLERS).map(move |caller| first.name(caller, count)));
        let workers: Vec<String> = (0..WORKERS).map(worker_name).collect();
        self.seeds.first().context("there are callers")?.lock().await.know(&workers, names).await
    }

    async fn round(&mut self, pace: Pace, counts: bool, to: Recipients) -> Result<()> {
        let on_redis = ours(self.store.pid(), &self.hermod, pace, to).await?;
        let theirs = theirs(&self.store, &self.seeds, pace, to).await?;
        let on_embedded = ours(std::process::id(), &self.alone, pace, to).await?;
        if counts {
            self.rounds.add(on_redis, theirs);
            self.rounds_alone.add(on_embedded, theirs);
        }
        Ok(())
    }

    async fn print(self, what: &str) -> Result<()> {
        self.embedded.close().await?;
        for (name, rounds) in [("Redis", self.rounds), ("embedded, durable", self.rounds_alone)] {
            let title = format!("sticky, {name}: route, claim and ack, {CALLERS} concurrent, {WORKERS} workers, {what}");
            rounds.print(&title, "hermod push + claim + settle", "the seed's commands, Redis", WANTED)?;
        }
        say_scripts(&self.store, self.hermod.acked.load(Ordering::Relaxed))
    }
}

fn worker_name(worker: usize) -> String {
    format!("worker-{worker}")
}

/// Does the step of each caller over and over.
async fn paced<F, Fut>(pid: u32, pace: Pace, make: impl Fn(usize) -> F) -> Result<Measured>
where
    F: FnMut(u64) -> Fut + Send + 'static,
    Fut: Future<Output = Result<()>> + Send,
{
    match pace {
        Pace::Span(span) => closed_loop(pid, CALLERS, span, make).await,
        Pace::Steps(steps) => counted_loop(pid, CALLERS, steps, make).await,
    }
}

async fn ours(pid: u32, hermod: &Arc<Sticky>, pace: Pace, to: Recipients) -> Result<Measured> {
    let measured = paced(pid, pace, |caller| {
        let hermod = Arc::clone(hermod);
        move |count| {
            let hermod = Arc::clone(&hermod);
            async move { hermod.route(&to.name(caller, count)).await }
        }
    })
    .await?;
    let (pushed, acked) = (hermod.pushed.load(Ordering::Relaxed), hermod.acked.load(Ordering::Relaxed));
    ensure!(pushed == acked, "{pushed} were pushed and {acked} acknowledged");
    Ok(measured)
}

async fn theirs(store: &server::Redis, seeds: &[Arc<Mutex<Seed>>], pace: Pace, to: Recipients) -> Result<Measured> {
    let message = format!(r#"{{"payload":"{}"}}"#, "x".repeat(PAYLOAD_BYTES));
    paced(store.pid(), pace, |caller| {
        let (seed, message) = (seeds.get(caller).cloned().expect("each caller has one"), message.clone());
        move |count| {
            let (seed, message) = (Arc::clone(&seed), message.clone());
            async move {
                let (to, mut seed) = (to.name(caller, count), seed.lock().await);
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
    let scripts = info.lines().find_map(|line| line.strip_prefix("cmdstat_fcall:")).context("scripts were run")?;
    println!("  hermod's scripts, for {routed} messages: {scripts}");
    Ok(())
}

async fn done<O: Operation>(engine: &Engine, operation: &O) -> Result<O::Answer> {
    match engine.run(operation, None).await?.outcome {
        Outcome::Done(answer) | Outcome::Replayed(answer) => Ok(answer),
        Outcome::Conflict => bail!("there is no key to conflict"),
    }
}
