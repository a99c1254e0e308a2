//! Refusals that are remembered: they cost the store nothing, and whatever ends them is seen.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use hermod_tests::server::Redis;
use hermod_tests::unique;
use serde_json::{Value, json};

use crate::http::site::{Ask, Caller, SOON};
use crate::outage::{refusals::scripts_run, until};
use crate::queue::Live;

const PICKS: &str = "/v1/decks/tips/picks";

async fn pick(team: &Caller, fields: Value) -> Result<Value> {
    team.post(PICKS, &fields).await?.expect(200)
}

async fn deck(team: &Caller, cap: Value) -> Result<()> {
    let reply = team.put("/v1/decks/tips", &json!({"subject_cap": cap})).await?;
    ensure!(matches!(reply.status, 200 | 201), "{}", reply.text());
    Ok(())
}

async fn message(team: &Caller, id: &str, fields: Value) -> Result<()> {
    let reply = team.put(&format!("/v1/decks/tips/messages/{id}"), &crate::queue::with(json!({"body": 1}), &fields)).await?;
    ensure!(matches!(reply.status, 200 | 201), "{}", reply.text());
    Ok(())
}

async fn profile(team: &Caller, fields: Value) -> Result<()> {
    team.put("/v1/subjects/ann", &fields).await?.expect(200).map(drop)
}

/// Picks, which must be allowed, as it was not before.
async fn freed(team: &Caller, what: &str) -> Result<Value> {
    let picked = pick(team, json!({"subject": "ann", "mode": "reserve", "ttl": "1h"})).await?;
    ensure!(picked["status"] == "picked", "{what}: {picked}");
    Ok(picked)
}

/// Asks until a refusal is known by heart; it must be for this reason.
async fn refused(team: &Caller, reason: &str) -> Result<Value> {
    let first = pick(team, json!({"subject": "ann"})).await?;
    ensure!(first["reason"] == reason, "not {reason}: {first}");
    for _ in 0..3 {
        assert_eq!(pick(team, json!({"subject": "ann"})).await?, first, "the same answer, and the same time to come again");
    }
    Ok(first)
}

async fn nack(team: &Caller, picked: &Value) -> Result<()> {
    team.post(&format!("/v1/picks/{}/nack", picked["pick"].as_str().context("a pick")?), &json!({})).await?.expect(200).map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_refused_picks_does_not_reach_the_store() -> Result<()> {
    let redis = Redis::start()?;
    let live = Live::start(&redis.url(), &unique("flood")).await?;
    deck(&live.team, json!({"tokens": 1, "per": "1day"})).await?;
    message(&live.team, "m", json!({})).await?;
    let began = Instant::now();
    freed(&live.team, "the first").await?;
    let refusal = refused(&live.team, "subject_cap").await?;
    let before = scripts_run(&redis)?;
    for _ in 0..300 {
        assert_eq!(pick(&live.team, json!({"subject": "ann"})).await?, refusal);
    }
    let run = scripts_run(&redis)? - before;
    // Others may share this store: nothing is remembered for longer than a second.
    let seconds = began.elapsed().as_secs();
    ensure!(run <= seconds, "300 refused picks in {seconds} s ran {run} scripts");
    ensure!(before >= 2, "the first ones are counted: {before}");
    live.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_frees_a_subject_is_seen_at_the_next_pick() -> Result<()> {
    let redis = Redis::shared()?.url();
    for store in ["embedded", &redis] {
        println!("on {store}");
        let live = Live::start(store, &unique("frees")).await?;
        let team = &live.team;
        let daily = json!({"tokens": 1, "per": "1day"});
        deck(team, daily.clone()).await?;
        refused(team, "no_messages").await?;
        message(team, "m", json!({"cap": daily})).await?;
        let picked = freed(team, "a message was added").await?;
        refused(team, "subject_cap").await?;
        nack(team, &picked).await?;
        freed(team, "it was given back").await?;
        refused(team, "subject_cap").await?;
        deck(team, Value::Null).await?;
        refused(team, "message_cap").await?;
        message(team, "m", json!({})).await?;
        freed(team, "the message has no cap any more").await?;
        profile(team, json!({"mute_until": "2200-01-01T00:00:00Z"})).await?;
        refused(team, "muted").await?;
        profile(team, json!({})).await?;
        freed(team, "it is muted no more").await?;
        message(team, "m", json!({"active": false})).await?;
        refused(team, "no_messages").await?;
        message(team, "own", json!({"to": {"subjects": ["ann"]}})).await?;
        freed(team, "a message of its own was added").await?;
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_retry_at_the_pick_is_allowed() -> Result<()> {
    let redis = Redis::shared()?.url();
    for store in ["embedded", &redis] {
        println!("on {store}");
        let live = Live::start(store, &unique("retry")).await?;
        let team = &live.team;
        // The cap lets the next one through after a while, longer than anything is remembered on Redis; and what is not settled ends.
        for (cap, ttl) in [(json!({"tokens": 1, "per": "1500ms"}), "1h"), (json!({"tokens": 1, "per": "1day"}), "700ms")] {
            team.delete("/v1/decks/tips").await?;
            deck(team, cap).await?;
            message(team, "m", json!({})).await?;
            let first = pick(team, json!({"subject": "ann", "mode": "reserve", "ttl": ttl})).await?;
            ensure!(first["status"] == "picked", "{first}");
            let refusal = refused(team, "subject_cap").await?;
            let retry_at = humantime::parse_rfc3339(refusal["retry_at"].as_str().context("a time")?)?;
            until(Duration::from_secs(10), "that time", async || SystemTime::now() >= retry_at).await?;
            let picked = pick(team, json!({"subject": "ann"})).await?;
            ensure!(picked["status"] == "picked", "with {ttl}: {picked} after {refusal}");
        }
        live.stop().await;
    }
    Ok(())
}

/// What another server on the same store gives back ends a refusal that is remembered here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_server_gives_back_is_seen_soon() -> Result<()> {
    let url = Redis::shared()?.url();
    let live = Live::start(&url, &unique("another")).await?;
    let (server, other) = live.beside(&url).await?;
    let team = &live.team;
    deck(team, json!({"tokens": 1, "per": "1day"})).await?;
    message(team, "m", json!({})).await?;
    let reserve = Ask::json("POST", PICKS, &json!({"subject": "ann", "mode": "reserve", "ttl": "1h"}));
    other.until(SOON, "the deck is seen there", &Ask::new("GET", "/v1/decks/tips/messages/m", ""), |reply| reply.status == 200)?;
    let is_picked = |reply: &crate::http::site::Reply| reply.expect(200).is_ok_and(|told| told["status"] == "picked");
    let picked = freed(team, "the first").await?;
    refused(team, "subject_cap").await?;
    nack(&other, &picked).await?;
    team.until(Duration::from_secs(5), "it is given back", &reserve, is_picked)?;
    profile(team, json!({"mute_until": "2200-01-01T00:00:00Z"})).await?;
    deck(team, Value::Null).await?;
    refused(team, "muted").await?;
    profile(&other, json!({})).await?;
    team.until(Duration::from_secs(5), "it is muted no more", &reserve, is_picked)?;
    server.shutdown().await;
    live.stop().await;
    Ok(())
}
