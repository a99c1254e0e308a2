//! What was acknowledged is there, once, after whatever was killed: a server on Redis, and Redis itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use hermod_tests::server::{Hermod, Redis};
use hermod_tests::until;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::play::apply_ajo;
use crate::http::site::{Caller, SOON};
use crate::queue::Live;

const PLAYERS: u64 = 64;
const OWNERS: u64 = 3;

/// What was asked for, and what it was answered with.
#[derive(Clone, Debug)]
struct Played {
    play: &'static str,
    by: String,
    key: String,
    args: Value,
    told: Value,
}

type Plays = Arc<Mutex<Vec<Played>>>;

/// One turn of a player: what, by whom, with what.
fn turn(player: u64, turn: u64) -> (&'static str, String, Value) {
    let owner = |n: u64| (n % OWNERS + 1).to_string();
    let (by, to) = (owner(player + turn), owner(player + turn + 1));
    match (player + turn) % 4 {
        0 => ("gamble", by, json!({"amount": 1 + turn % 5})),
        1 => ("trade", by, json!({"to": to, "item": "bone", "qty": 1})),
        2 => ("craft", by, json!({"item": "gear"})),
        _ => ("pay", by, json!({"to": to, "amount": 1 + turn % 3})),
    }
}

async fn stock(team: &Caller) -> Result<()> {
    apply_ajo(team)?;
    for owner in 1..=OWNERS {
        team.mint(&owner.to_string(), "ajo", 100_000).await?;
        team.mint(&owner.to_string(), "bone", 100).await?;
    }
    Ok(())
}

/// Each acknowledged play is answered as before, and stands in the ledger once, and the books add up.
async fn all_are_there(team: &Caller, played: &[Played]) -> Result<()> {
    let mut again = JoinSet::new();
    for chunk in played.chunks(played.len().div_ceil(8).max(1)) {
        let (team, chunk) = (team.clone(), chunk.to_vec());
        again.spawn(async move {
            for one in chunk {
                let told = team.play(one.play, &one.by, &one.key, one.args.clone()).await?;
                ensure!(told["replayed"] == true, "{} is not known any more: {told}", one.key);
                let same = ["status", "seq", "code", "draws", "balances"].into_iter().all(|field| told[field] == one.told[field]);
                ensure!(same, "{} was {}, and is {told}", one.key, one.told);
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = again.join_next().await {
        ended??;
    }
    let ledger = team.ledger().await?;
    let by_key: BTreeMap<_, _> = ledger.iter().map(|commit| (commit["key"].as_str().unwrap_or_default(), &commit["seq"])).collect();
    ensure!(by_key.len() == ledger.len(), "a key is there twice");
    for one in played.iter().filter(|one| one.told["status"] == "done") {
        ensure!(by_key.get(one.key.as_str()) == Some(&&one.told["seq"]), "{} is not in the ledger as {}", one.key, one.told["seq"]);
    }
    team.audited().await.map(drop)
}

async fn until_played(played: &Plays, enough: usize) -> Result<()> {
    let played = Arc::clone(played);
    tokio::task::spawn_blocking(move || until(SOON, "the load is under way", || played.lock().unwrap().len() >= enough)).await?
}

/// A server is killed while 64 play on three owners; what it had acknowledged the next one knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_on_redis_that_is_killed_has_lost_nothing() -> Result<()> {
    let redis = Redis::start()?;
    let mut hermod = Hermod::serve(["--store", &redis.url()])?;
    let key = hermod.admin_key()?;
    stock(&Caller::new(hermod.url()?, Some(&key))).await?;
    let played = Plays::default();
    for round in 0..3 {
        let team = Caller::new(hermod.url()?, Some(&key));
        let mut players = JoinSet::new();
        for player in 0..PLAYERS {
            let (team, played) = (team.clone(), Arc::clone(&played));
            players.spawn(async move {
                for number in 0_u64.. {
                    let (play, by, args) = turn(player, number);
                    let key = format!("{round}-{player}-{number}");
                    let Ok(told) = team.play(play, &by, &key, args.clone()).await else { break };
                    played.lock().unwrap().push(Played { play, by, key, args, told });
                }
            });
        }
        let before = played.lock().unwrap().len();
        until_played(&played, before + 150).await?;
        hermod.kill9()?;
        players.join_all().await;
        hermod.restart()?;
        let acknowledged = played.lock().unwrap().clone();
        all_are_there(&Caller::new(hermod.url()?, Some(&key)), &acknowledged).await.with_context(|| format!("after kill {round}"))?;
    }
    println!("{} acknowledged plays, 3 kills, none lost", played.lock().unwrap().len());
    Ok(())
}

/// Redis itself is killed while 64 play. Who gets no answer asks again, under the same key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_has_lost_nothing() -> Result<()> {
    let mut redis = Redis::options().appendonly().set("appendfsync", "always").start()?;
    let live = Live::start(&redis.url(), "killed").await?;
    let team = &live.team;
    stock(team).await?;
    let (played, stop) = (Plays::default(), Arc::new(AtomicBool::new(false)));
    let mut players = JoinSet::new();
    for player in 0..PLAYERS {
        let (team, played, stop) = (team.clone(), Arc::clone(&played), Arc::clone(&stop));
        players.spawn(async move {
            for number in 0_u64.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let (play, by, args) = turn(player, number);
                let key = format!("{player}-{number}");
                let body = json!({"by": by, "key": key, "args": args});
                let began = std::time::Instant::now();
                let told = loop {
                    let reply = team.post(&format!("/v1/realms/ajo/plays/{play}"), &body).await?;
                    if reply.status == 200 {
                        break reply.expect(200)?;
                    }
                    ensure!(reply.status == 503 && began.elapsed() < SOON, "{}: {}", reply.status, reply.text());
                };
                played.lock().unwrap().push(Played { play, by, key, args, told });
            }
            anyhow::Ok(())
        });
    }
    for _ in 0..2 {
        let before = played.lock().unwrap().len();
        until_played(&played, before + 150).await?;
        redis.stop()?;
        redis.restart()?;
    }
    let before = played.lock().unwrap().len();
    until_played(&played, before + 150).await?;
    stop.store(true, Ordering::SeqCst);
    players.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let acknowledged = played.lock().unwrap().clone();
    all_are_there(team, &acknowledged).await?;
    println!("{} acknowledged plays, 2 kills of Redis, none lost", acknowledged.len());
    live.stop().await;
    Ok(())
}
