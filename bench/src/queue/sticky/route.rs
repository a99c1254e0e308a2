//! A message to its recipient's worker, claimed and acknowledged: beside the algorithm of the seed, on the same Redis.
//!
//! Each of the callers routes a message and waits until it was handled. Hermod's side is the operations of a server, and the caller does
//! what the worker that is woken does; the Redis engine puts those that come together into one call by itself. The embedded one, which is
//! durable and needs no Redis, is measured in the same rounds. The seed's side has an instance for each worker, which looks for messages
//! as they do. The callers have recipients of their own, as of one recipient only one delivery is handed out at a time. A claim may find
//! what another caller pushed for the same worker; then that one's finds nothing, and in the end all must have been acknowledged by somebody.
//!
//! Each time on a Redis of its own: with recipients that were assigned before, over and over, a thousand and ten thousand of them; and with
//! recipients as they come, each message to one that was never seen, so that each must be assigned. All sides begin with recipients that
//! are assigned and have nothing pending (Hermod's by a message to each, the seed's written as it would stand). Of those that come, Hermod
//! gets up to a hundred thousand, and the seed, whose lists are longer with each, far fewer: that is in its favour.
//!
//! And once with the seed's messages taken by who is told where they are. It has no such thing; what is left is what its nine commands cost.

use std::collections::HashMap;
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
use tokio::sync::{Mutex, oneshot};

use super::seed::{Instances, Seed, Turns};
use crate::load::{closed_loop, counted_loop};
use crate::queue::PAYLOAD_BYTES;
use crate::ratio::{Measured, Rounds};

const CALLERS: usize = 64;
/// How many recipients there are, where they are assigned before: of each caller.
const FEW_EACH: u64 = 16;
const MANY_EACH: u64 = 157;
/// Of those as they come: how many each caller addresses before, and in each round. In all there are 99,200 recipients.
const KNOWN_EACH: u64 = 782;
const NEW_EACH: u64 = 96;
/// The seed's, in each round.
const THEIR_NEW_EACH: u64 = 2;
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
    for (each, taken, wanted) in [(FEW_EACH, Taken::Looked, true), (MANY_EACH, Taken::Looked, true), (FEW_EACH, Taken::Told, false)] {
        let mut sides = Sides::open(taken).await?;
        sides.know(each).await?;
        for round in 0..=ROUNDS {
            let pace = Pace::Span(if round == 0 { Duration::from_secs(1) } else { ROUND });
            sides.round((pace, pace), round > 0, (Recipients::Same { each }, Recipients::Same { each })).await?;
        }
        let all = u64::try_from(CALLERS)? * each;
        sides.print(&format!("{all} recipients that are assigned, {}", taken.name()), wanted).await?;
    }
    let mut sides = Sides::open(Taken::Looked).await?;
    sides.know(KNOWN_EACH).await?;
    for round in 0..=ROUNDS {
        let from = |each| anyhow::Ok(Recipients::New { from: KNOWN_EACH + each * u64::try_from(round)? });
        let pace = (Pace::Steps(NEW_EACH), Pace::Steps(THEIR_NEW_EACH));
        sides.round(pace, round > 0, (from(NEW_EACH)?, from(THEIR_NEW_EACH)?)).await?;
    }
    let most = u64::try_from(CALLERS)? * (KNOWN_EACH + NEW_EACH * u64::try_from(ROUNDS + 1)?);
    sides.print(&format!("recipients as they come, {most} in the end, {}", Taken::Looked.name()), true).await
}

/// How the seed's messages are found.
#[derive(Clone, Copy, PartialEq)]
enum Taken {
    /// By its instances, who look.
    Looked,
    /// By who is told where they are.
    Told,
}

impl Taken {
    fn name(self) -> &'static str {
        match self {
            Taken::Looked => "whose messages the seed's instances look for",
            Taken::Told => "and who takes the seed's messages is told where they are",
        }
    }
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
    /// So many of each caller.
    Same { each: u64 },
    /// Each to another, from the how many'th of each caller on.
    New { from: u64 },
}

impl Recipients {
    /// Whom a caller addresses the how many'th time: no two callers the same.
    fn name(self, caller: usize, count: u64) -> String {
        let number = match self {
            // At random, not in the order in which instances go through their lists.
            Recipients::Same { each } => usize::try_from(hermod_core::Seed::new(count).below(each)).unwrap_or(0) * CALLERS + caller,
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
    instances: Vec<(String, Seed)>,
    taken: Taken,
    rounds: Rounds,
    rounds_alone: Rounds,
    _folder: tempfile::TempDir,
}

impl Sides {
    async fn open(taken: Taken) -> Result<Sides> {
        let store = server::Redis::start()?;
        let engine = Redis::open(redis::Options::new(redis::Address::parse(&store.url())?)).await?;
        let hermod = Arc::new(Sticky::open(Engine::Redis(engine)).await?);
        // Beside the build, not in a folder that may be in memory.
        let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().context("the build has a folder")?)?;
        let embedded = Embedded::open(embedded::Options::new(folder.path()))?;
        let alone = Arc::new(Sticky::open(Engine::Embedded(embedded.clone())).await?);
        let names: Vec<String> = (0..WORKERS).map(worker_name).collect();
        let turns: Turns = Arc::new(names.iter().cloned().map(|uid| (uid, Mutex::new(()))).collect::<HashMap<_, _>>());
        let (mut seeds, mut instances) = (Vec::new(), Vec::new());
        for _ in 0..CALLERS {
            seeds.push(Arc::new(Mutex::new(Seed::open(&store.url(), Arc::clone(&turns)).await?)));
        }
        for uid in names {
            let mut seed = Seed::open(&store.url(), Arc::clone(&turns)).await?;
            seed.join(&uid).await?;
            instances.push((uid, seed));
        }
        let (rounds, rounds_alone) = (Rounds::default(), Rounds::default());
        Ok(Sides { store, hermod, embedded, alone, seeds, instances, taken, rounds, rounds_alone, _folder: folder })
    }

    /// All sides know so many recipients of each caller.
    async fn know(&mut self, each: u64) -> Result<()> {
        let first = Recipients::New { from: 0 };
        ours(self.store.pid(), &self.hermod, Pace::Steps(each), first).await?;
        ours(std::process::id(), &self.alone, Pace::Steps(each), first).await?;
        let names = (0..each).flat_map(|count| (0..CALLERS).map(move |caller| first.name(caller, count)));
        let workers: Vec<String> = (0..WORKERS).map(worker_name).collect();
        self.seeds.first().context("there are callers")?.lock().await.know(&workers, names).await
    }

    /// The pace and the recipients of Hermod's sides, and of the seed's.
    async fn round(&mut self, pace: (Pace, Pace), counts: bool, to: (Recipients, Recipients)) -> Result<()> {
        let on_redis = ours(self.store.pid(), &self.hermod, pace.0, to.0).await?;
        let theirs = self.theirs(pace.1, to.1).await?;
        let on_embedded = ours(std::process::id(), &self.alone, pace.0, to.0).await?;
        if counts {
            self.rounds.add(on_redis, theirs);
            self.rounds_alone.add(on_embedded, theirs);
        }
        Ok(())
    }

    async fn theirs(&self, pace: Pace, to: Recipients) -> Result<Measured> {
        let message = format!(r#"{{"payload":"{}"}}"#, "x".repeat(PAYLOAD_BYTES));
        let instances = Instances::start(if self.taken == Taken::Looked { &self.instances } else { &[] });
        let measured = paced(self.store.pid(), pace, |caller| {
            let (seed, message) = (self.seeds.get(caller).cloned().expect("each caller has one"), message.clone());
            let (waiting, taken) = (Arc::clone(&instances.waiting), self.taken);
            move |count| {
                let (seed, message, waiting) = (Arc::clone(&seed), message.clone(), Arc::clone(&waiting));
                async move {
                    let (to, mut seed) = (to.name(caller, count), seed.lock().await);
                    let handled = if taken == Taken::Looked {
                        let (waiter, handled) = oneshot::channel();
                        waiting.lock().expect("nobody fell over").insert(to.clone(), waiter);
                        seed.route(&to, &message).await?;
                        handled.await?
                    } else {
                        let uid = seed.route(&to, &message).await?;
                        seed.take(&uid, &to).await?.context("a message that was pushed is there")?
                    };
                    ensure!(handled == message, "another message was there");
                    Ok(())
                }
            }
        })
        .await?;
        instances.stop().await?;
        Ok(measured)
    }

    async fn print(self, what: &str, is_wanted: bool) -> Result<()> {
        self.embedded.close().await?;
        for (name, rounds) in [("Redis", self.rounds), ("embedded, durable", self.rounds_alone)] {
            let title = format!("sticky, {name}: route, claim and ack, {CALLERS} concurrent, {WORKERS} workers, {what}");
            rounds.print(&title, "hermod push + claim + settle", "the seed's commands, Redis", is_wanted.then_some(WANTED))?;
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
