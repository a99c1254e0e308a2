//! Picks: `cargo xtask bench pick`.
//!
//! What a deck's size costs: ten messages beside ten thousand, on both engines, in turns. And beside the algorithm of the seed, on
//! the same Redis: its own sequence of single commands, one after the other on the caller's own connection; with its messages in memory, and as
//! it is, with its messages in a database that it asks with each pick.
//!
//! Hermod's side is what its server does for a request, without HTTP: planning, the call of the store, the answer.

mod seed;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_client::{Cap, Client, DeckDraft, MessageDraft};
use hermod_server::app::{App, Caller, PickAnswer, PickAsk};
use hermod_server::{Config, Mode, Server};
use hermod_tests::server;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::load::closed_loop;
use crate::ratio::{Measured, Rounds, median};
use seed::Seed;

const CALLERS: usize = 64;
/// Each caller has some of its own.
const SUBJECTS: usize = 256;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 7;
/// On the embedded engine a round is so long that what it leaves to be done later, folding its journal, is done within it; the rest
/// of that is done before the next, or it would count as that one's.
const LONG_ROUND: Duration = Duration::from_secs(8);
const LONG_ROUNDS: usize = 3;
const SETTLE: Duration = Duration::from_secs(2);
const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
/// The decks that the seed's algorithm is run on: how many messages, and how many of them are at their cap.
const SEED_DECKS: [(usize, usize); 4] = [(10, 0), (100, 0), (1_000, 0), (100, 50)];
const WANTED_COST: f64 = 1.5;
const WANTED: f64 = 10.0;
/// Tokens of each message a second: more than are ever taken, so that nothing is refused.
const TOKENS: u64 = 1_000_000;

pub(crate) async fn run() -> Result<()> {
    on_redis().await?;
    on_embedded().await?;
    beside_seed().await
}

/// One part of it; none if there is no such part.
pub(crate) async fn run_part(part: &str) -> Option<Result<()>> {
    Some(match part {
        "pick-redis" => on_redis().await,
        "pick-embedded" => on_embedded().await,
        "pick-seed" => beside_seed().await,
        _ => return None,
    })
}

async fn on_redis() -> Result<()> {
    let store = server::Redis::start()?;
    let picks = Picks::open(&store.url()).await?;
    cost("Redis", store.pid(), &picks, (ROUNDS, ROUND, Duration::ZERO)).await?;
    picks.server.shutdown().await;
    Ok(())
}

async fn on_embedded() -> Result<()> {
    let picks = Picks::open("embedded").await?;
    cost("embedded, durable", std::process::id(), &picks, (LONG_ROUNDS, LONG_ROUND, SETTLE)).await?;
    picks.server.shutdown().await;
    Ok(())
}

async fn beside_seed() -> Result<()> {
    let store = server::Redis::start()?;
    let picks = Picks::open(&store.url()).await?;
    for (size, capped) in SEED_DECKS {
        beside(&store, None, &picks, (size, capped)).await?;
    }
    let database = tokio::task::spawn_blocking(server::Postgres::start).await??;
    seed::prepare(&database.url()).await?;
    for (size, capped) in SEED_DECKS.into_iter().take(2) {
        beside(&store, Some(&database.url()), &picks, (size, capped)).await?;
    }
    picks.server.shutdown().await;
    Ok(())
}

/// What ten thousand messages cost beside ten, in so many rounds, each so long, with so much time after each.
async fn cost(name: &str, pid: u32, picks: &Picks, (rounds, span, settle): (usize, Duration, Duration)) -> Result<()> {
    let mut measured: Vec<Vec<Measured>> = vec![Vec::new(); SIZES.len()];
    for round in 0..=rounds {
        for (size, all) in SIZES.into_iter().zip(&mut measured) {
            let one = picks.measure(pid, &deck(size, 0), if round == 0 { Duration::from_secs(3) } else { span }).await?;
            if round > 0 {
                all.push(one);
            }
            tokio::time::sleep(settle).await;
        }
    }
    println!("\npicks, {name}: what a deck's size costs, {CALLERS} concurrent, {SUBJECTS} subjects");
    let of = |all: &[Measured], what: fn(&Measured) -> f64| median(all.iter().map(what).collect()).unwrap_or(0.0);
    for (size, all) in SIZES.into_iter().zip(&measured) {
        let (rate, p99, cpu) = (of(all, |m| m.per_second), of(all, |m| m.p99.as_secs_f64() * 1e3), of(all, |m| m.cpu_us));
        println!("  {size:>6} messages   {rate:>8.0}/s   p99 {p99:>7.3} ms   {cpu:>5.1} us of its CPU each");
    }
    let (small, large) = (measured.first().context("there are sizes")?, measured.last().context("there are sizes")?);
    let ratios = small.iter().zip(large).map(|(small, large)| small.per_second / large.per_second).collect();
    let ratio = median(ratios).context("there were rounds")?;
    let word = if ratio <= WANTED_COST { "reached" } else { "NOT reached" };
    println!("  10,000 messages cost {ratio:.2}x of 10, wanted at most {WANTED_COST}x: {word}");
    Ok(())
}

/// Beside the algorithm of the seed, where everybody was sent every message before.
async fn beside(store: &server::Redis, database: Option<&str>, picks: &Picks, (size, capped): (usize, usize)) -> Result<()> {
    let deck = deck(size, capped);
    let mut seeds = Vec::new();
    for caller in 0..CALLERS {
        let mut seed = Seed::open(&store.url(), database, size, capped).await?;
        for count in 0..own_subjects() {
            seed.fill(&subject(caller, count)).await?;
        }
        seeds.push(Arc::new(Mutex::new(seed)));
    }
    picks.fill(&deck, size).await?;
    let mut rounds = Rounds::default();
    for round in 0..=ROUNDS {
        let span = if round == 0 { Duration::from_secs(3) } else { ROUND };
        let ours = picks.measure(store.pid(), &deck, span).await?;
        let theirs = closed_loop(store.pid(), CALLERS, span, |caller| {
            let seed = seeds.get(caller).cloned().expect("each caller has one");
            move |count| {
                let seed = Arc::clone(&seed);
                async move { seed.lock().await.pick(&subject(caller, count)).await }
            }
        })
        .await?;
        if round > 0 {
            rounds.add(ours, theirs);
        }
    }
    let kept = if database.is_some() { "the seed's in PostgreSQL" } else { "the seed's in memory" };
    let title = format!("picks on Redis, {size} messages ({kept}), {capped} of them at their cap, all sent before, {CALLERS} concurrent");
    rounds.print(&title, "hermod pick", "the seed's commands, one at a time", WANTED)
}

/// The name of a deck of so many messages, so many of them with a cap that is reached at once.
fn deck(size: usize, capped: usize) -> String {
    format!("deck-{size}-{capped}")
}

/// How many subjects each caller has.
fn own_subjects() -> u64 {
    u64::try_from(SUBJECTS / CALLERS).unwrap_or(1)
}

/// The how many'th subject a caller asks for: no two callers the same.
fn subject(caller: usize, count: u64) -> String {
    format!("{caller}-user-{}", count % own_subjects())
}

/// A server in this process, with a deck of each size.
struct Picks {
    server: Server,
    app: App,
    caller: Caller,
    _folder: TempDir,
}

impl Picks {
    async fn open(store: &str) -> Result<Picks> {
        // Beside the build, not in a folder that may be in memory.
        let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().context("the build has a folder")?)?;
        let config =
            Config { listen: ([127, 0, 0, 1], 0).into(), data: folder.path().join("data"), store: store.to_owned(), ..Config::default() };
        let server = Server::start(config, Mode::default()).await?;
        let app = server.app().clone();
        let caller = app.caller(server.admin_key()).map_err(|problem| anyhow::anyhow!("{problem:?}"))?;
        let client = Client::new(&server.url())?.with_key(server.admin_key().context("the first start makes a key")?);
        for (size, capped) in SIZES.map(|size| (size, 0)).into_iter().chain(SEED_DECKS.into_iter().filter(|(_, capped)| *capped > 0)) {
            let deck = deck(size, capped);
            client.decks().put(&deck, &DeckDraft::new().subject_cap(None)).await?;
            let cap = |n: usize| if n < capped { Cap::new(1, "1h") } else { Cap::new(TOKENS, "1s") };
            let message = |n: usize| MessageDraft::new(json!({"text": "a tip of the day"})).id(format!("m{n}")).cap(cap(n));
            let messages: Vec<_> = (0..size).map(message).collect();
            for some in messages.chunks(1_000) {
                client.decks().messages(&deck).create_all(some).await?;
            }
        }
        Ok(Picks { server, app, caller, _folder: folder })
    }

    /// Everybody is sent every message.
    async fn fill(&self, deck: &str, size: usize) -> Result<()> {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (app, who, deck) = (self.app.clone(), self.caller.clone(), deck.to_owned());
            callers.spawn(async move {
                for count in 0..own_subjects() {
                    for _ in 0..size {
                        pick(&app, &who, &deck, &subject(caller, count)).await?;
                    }
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = callers.join_next().await {
            done??;
        }
        Ok(())
    }

    async fn measure(&self, pid: u32, deck: &str, span: Duration) -> Result<Measured> {
        closed_loop(pid, CALLERS, span, |caller| {
            let (app, who, deck) = (self.app.clone(), self.caller.clone(), deck.to_owned());
            move |count| {
                let (app, who, deck) = (app.clone(), who.clone(), deck.clone());
                async move { pick(&app, &who, &deck, &subject(caller, count)).await }
            }
        })
        .await
    }
}

async fn pick(app: &App, who: &Caller, deck: &str, subject: &str) -> Result<()> {
    let ask = PickAsk::new(deck, subject, false, None)?;
    let answer = app.pick(who, &ask, None).await.map_err(|problem| anyhow::anyhow!("{problem:?}"))?;
    ensure!(matches!(answer, PickAnswer::Picked(_)), "nothing was picked");
    Ok(())
}
