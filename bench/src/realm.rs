//! Realms: `cargo xtask bench realm`.
//!
//! A payment (`pay` of `examples/ajo/ajo.yaml`, each under a new key) beside the same transfer in PostgreSQL on the same disk, and beside
//! a script written by hand for it on the same Redis; half of all payments with one owner beside payments among all; and what a
//! leaderboard of a million owners takes.
//!
//! Hermod's side is what its server does for a request, without HTTP: planning, the call of the store, the answer.

mod board;
mod postgres;
mod script;
mod town;

use std::time::Duration;

use anyhow::Result;
use hermod_tests::server;

use crate::load::closed_loop;
use crate::ratio::{Measured, Rounds};
use postgres::{Postgres, Way};
use script::{Kind, Script};
use town::{Town, beside_the_build};

const CALLERS: usize = 64;
const OWNERS: u64 = 10_000;
/// What everybody has: more than is ever paid.
const FUNDS: i64 = 1_000_000_000;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 7;
const WANTED_POSTGRES: f64 = 10.0;
const WANTED_SCRIPT: f64 = 0.6;
const WANTED_HOT: f64 = 0.8;

pub(crate) async fn run() -> Result<()> {
    beside_postgres().await?;
    beside_script().await?;
    hot().await?;
    board::run().await
}

/// One part of it; none if there is no such part.
pub(crate) async fn run_part(part: &str) -> Option<Result<()>> {
    Some(match part {
        "realm-postgres" => beside_postgres().await,
        "realm-redis" => beside_script().await,
        "realm-hot" => hot().await,
        "realm-board" => board::run().await,
        _ => return None,
    })
}

/// The first round warms up and does not count.
fn span(round: usize) -> Duration {
    if round == 0 { Duration::from_secs(1) } else { ROUND }
}

/// Who pays whom.
#[derive(Clone, Copy)]
enum Crowd {
    /// Anyone anyone else.
    Uniform,
    /// Every other payment is from or to the first owner.
    Hot,
}

impl Crowd {
    /// Who pays whom in the how many'th payment.
    fn pair(self, number: u64) -> (u64, u64) {
        let seed = hermod_core::Seed::new(number);
        let from = seed.below(OWNERS);
        let to = (from + 1 + seed.child(1).below(OWNERS - 1)) % OWNERS;
        let other = 1 + from % (OWNERS - 1);
        match (self, number % 4) {
            (Crowd::Hot, 0) => (0, other),
            (Crowd::Hot, 2) => (other, 0),
            _ => (from, to),
        }
    }
}

/// Payments in a town, from all callers at once.
async fn pay(town: &Town, pid: u32, crowd: Crowd, span: Duration) -> Result<Measured> {
    closed_loop(pid, CALLERS, span, |_| {
        let town = town.clone();
        move |_| {
            let town = town.clone();
            async move { town.pay(crowd).await }
        }
    })
    .await
}

async fn beside_postgres() -> Result<()> {
    let town = Town::open("embedded").await?;
    town.people(OWNERS, |_| FUNDS).await?;
    let rival = Postgres::open(&beside_the_build()?, CALLERS).await?;
    let mut ways = [(Way::Transaction, Vec::new()), (Way::Statement, Vec::new())];
    let mut ours = Vec::new();
    for round in 0..=ROUNDS {
        let span = span(round);
        let one = pay(&town, std::process::id(), Crowd::Uniform, span).await?;
        if round > 0 {
            ours.push(one);
        }
        for (way, all) in &mut ways {
            let one = rival.measure(*way, span).await?;
            if round > 0 {
                all.push(one);
            }
        }
    }
    rival.check().await?;
    for (way, theirs) in &ways {
        let mut rounds = Rounds::default();
        ours.iter().zip(theirs).for_each(|(ours, theirs)| rounds.add(*ours, *theirs));
        let (what, wanted) = match way {
            Way::Transaction => ("a transaction of two rows", Some(WANTED_POSTGRES)),
            // Who gives up steps that he can look at between can have it in one.
            Way::Statement => ("all in one statement", None),
        };
        let title = format!("pay, embedded and durable, {CALLERS} callers, {OWNERS} owners; PostgreSQL on the same disk, {what}");
        rounds.print(&title, "hermod play pay", way.name(), wanted)?;
    }
    town.close().await;
    Ok(())
}

async fn beside_script() -> Result<()> {
    let store = server::Redis::start()?;
    let town = Town::open(&store.url()).await?;
    town.people(OWNERS, |_| FUNDS).await?;
    let script = Script::open(&store.url()).await?;
    let mut sides = [(Kind::Plain, Rounds::default()), (Kind::Once, Rounds::default())];
    for round in 0..=ROUNDS {
        let ours = pay(&town, store.pid(), Crowd::Uniform, span(round)).await?;
        for (kind, rounds) in &mut sides {
            let kind = *kind;
            let theirs = closed_loop(store.pid(), CALLERS, span(round), |_| {
                let script = script.clone();
                move |_| {
                    let script = script.clone();
                    async move { script.pay(kind).await }
                }
            })
            .await?;
            if round > 0 {
                rounds.add(ours, theirs);
            }
        }
    }
    town.close().await;
    let title = format!("pay on Redis, {CALLERS} callers, {OWNERS} owners");
    for (kind, rounds) in &sides {
        rounds.print(&title, "hermod play pay", kind.name(), WANTED_SCRIPT)?;
    }
    println!(
        "  the scripts have no number or record of a commit, no holds, no bound but zero, and count in doubles; the first may pay twice"
    );
    Ok(())
}

async fn hot() -> Result<()> {
    let store = server::Redis::start()?;
    for (name, url, pid) in [("Redis", store.url(), store.pid()), ("embedded, durable", "embedded".to_owned(), std::process::id())] {
        let town = Town::open(&url).await?;
        town.people(OWNERS, |_| FUNDS).await?;
        let mut rounds = Rounds::default();
        for round in 0..=ROUNDS {
            let hot = pay(&town, pid, Crowd::Hot, span(round)).await?;
            let uniform = pay(&town, pid, Crowd::Uniform, span(round)).await?;
            if round > 0 {
                rounds.add(hot, uniform);
            }
        }
        town.close().await;
        let title = format!("pay, {name}, {CALLERS} callers: half of all with one owner");
        rounds.print(&title, "half with one of 10,000 owners", "among all of them alike", WANTED_HOT)?;
    }
    Ok(())
}
