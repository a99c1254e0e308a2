//! A leaderboard of a million owners: the first ten, and the rank of anyone. One caller, so that it is the time of one answer.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hermod_core::Seed;
use hermod_tests::server;

use super::ROUNDS;
use super::town::Town;
use crate::load::closed_loop;
use crate::ratio::{Measured, median};

const OWNERS: u64 = 1_000_000;
const ROUND: Duration = Duration::from_secs(1);
const WANTED_MS: f64 = 1.0;

pub(super) async fn run() -> Result<()> {
    {
        let store = server::Redis::start()?;
        boards("Redis", &store.url(), store.pid()).await?;
    }
    boards("embedded", "embedded", std::process::id()).await
}

/// What an owner has: many have the same, and nobody nothing.
fn funds(owner: u64) -> i64 {
    1 + i64::try_from(Seed::new(owner).below(1_000_000)).expect("it is small")
}

async fn boards(name: &str, url: &str, pid: u32) -> Result<()> {
    let town = Town::open(url).await?;
    let began = Instant::now();
    town.people(OWNERS, funds).await?;
    let took = began.elapsed().as_secs_f64();
    let (mut top, mut rank) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let first = measure(&town, pid, |town, _| async move {
            let ranked = town.top(10).await?;
            ensure!(ranked.rows.len() == 10 && ranked.total == OWNERS, "it is not the first ten");
            Ok(())
        });
        let first = first.await?;
        let one = measure(&town, pid, |town, count| async move {
            let ranked = town.rank(Seed::new(count).below(OWNERS)).await?;
            ensure!(ranked.rank.is_some(), "everybody has a rank");
            Ok(())
        });
        let one = one.await?;
        if round > 0 {
            top.push(first);
            rank.push(one);
        }
    }
    town.close().await;
    println!("\nboard of 1,000,000 owners, {name}, one caller ({took:.0} s to give everybody something)");
    for (what, all) in [("the first ten", &top), ("the rank of an owner", &rank)] {
        let of = |what: fn(&Measured) -> f64| median(all.iter().map(what).collect()).unwrap_or(0.0);
        let (p50, p99) = (of(|m| m.p50.as_secs_f64() * 1e3), of(|m| m.p99.as_secs_f64() * 1e3));
        let word = if p99 <= WANTED_MS { "reached" } else { "NOT reached" };
        println!("  {what:<24} p50 {p50:>6.3} ms   p99 {p99:>6.3} ms   {:>5.1} us of its CPU each", of(|m| m.cpu_us));
        println!("  {:<24} wanted at most {WANTED_MS} ms at p99: {word}", "");
    }
    Ok(())
}

async fn measure<Fut>(town: &Town, pid: u32, step: fn(Town, u64) -> Fut) -> Result<Measured>
where
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    closed_loop(pid, 1, ROUND, |_| {
        let town = town.clone();
        move |count| step(town.clone(), count)
    })
    .await
}
