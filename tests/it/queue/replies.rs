//! Whoever pushed a delivery waits for what its holder replies.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_tests::server::Redis;
use hermod_tests::{Store, unique};
use serde_json::{Value, json};

use super::{Live, SOON, held, shared, with};
use crate::http::site::{Caller, Reply};
use crate::outage::until;

/// Asks, and waits in a task of its own.
fn ask(team: &Caller, fields: Value) -> tokio::task::JoinHandle<Result<Reply>> {
    let team = team.clone();
    tokio::spawn(async move { team.post("/v1/queues/q/deliveries", &fields).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_waits_for_its_workers_reply() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("reply")).await?;
        let team = &live.team;
        team.sticky("q", json!({})).await?;
        let worker = team.register("q", "w1").await?;
        for (reply, expected) in [
            (json!({"reply": {"sum": 3}}), json!({"reply": {"sum": 3}})),
            (json!({"reply_base64": "AAEC"}), json!({"reply_base64": "AAEC"})),
        ] {
            let asked = ask(team, json!({"to": "ann", "payload": [1, 2], "reply": {"timeout": "8s"}}));
            let taken = team.claim_as("q", &worker, json!({"wait_ms": 5_000})).await?;
            let acked = team.post("/v1/queues/q/ack", &with(held(&taken[0]), &reply)).await?.expect(200)?;
            assert_eq!(acked["outcome"], "done");
            let answer = tokio::time::timeout(SOON, asked).await???.expect(200)?;
            assert_eq!(answer, with(json!({"id": taken[0]["id"]}), &expected), "{store:?}");
        }
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_finds_its_caller_on_another_server() -> Result<()> {
    for store in [Store::Redis, Store::Cluster] {
        let (url, space) = (shared(store)?, unique("reply"));
        let (one, other) = (Live::start(&url, &space).await?, Live::start(&url, &space).await?);
        for live in [&one, &other] {
            live.team.queue("q", json!({})).await?;
        }
        let mut soonest = Duration::MAX;
        for n in 0..5 {
            let asked = ask(&one.team, json!({"payload": n, "reply": {"timeout": "8s"}}));
            let taken = other.team.claim("q", json!({"wait_ms": 5_000})).await?.pop().context("one")?;
            let replied = Instant::now();
            other.team.post("/v1/queues/q/ack", &with(held(&taken), &json!({"reply": n}))).await?.expect(200)?;
            assert_eq!(asked.await??.expect(200)?["reply"], n, "{store:?}");
            soonest = soonest.min(replied.elapsed());
        }
        ensure!(soonest < Duration::from_millis(400), "{store:?}: a signal is sooner than to look again: {soonest:?}");
        one.stop().await;
        other.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_reply_without_end() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("reply")).await?;
        let team = &live.team;
        team.queue("q", json!({})).await?;
        let began = Instant::now();
        let late = ask(team, json!({"payload": 1, "reply": {"timeout": "300ms"}})).await??;
        late.problem(504, "reply_timeout", None)?;
        ensure!(began.elapsed() < Duration::from_secs(5));
        // It is still there, and what is replied now is for nobody.
        let taken = team.claim_one("q").await?;
        let acked = team.post("/v1/queues/q/ack", &with(held(&taken), &json!({"reply": "late"}))).await?.expect(200)?;
        assert_eq!(acked["outcome"], "done", "{store:?}");
        // Who replies to one that nobody waits for is done as well.
        team.push("q", json!({"payload": 2})).await?;
        let taken = team.claim_one("q").await?;
        team.post("/v1/queues/q/ack", &with(held(&taken), &json!({"reply": "to whom"}))).await?.expect(200)?;
        for (body, field) in [
            (json!({"payload": 1, "reply": {"timeout": "1h"}}), "reply.timeout"),
            (json!({"payload": 1, "reply": {"timeout": "0s"}}), "reply.timeout"),
            (json!({"payload": 1, "reply": {"timeout": "soon"}}), "reply.timeout"),
        ] {
            team.post("/v1/queues/q/deliveries", &body).await?.problem(400, "invalid_field", Some(field))?;
        }
        let listed = team.post("/v1/queues/q/deliveries", &json!([{"payload": 1, "reply": {"timeout": "1s"}}])).await?.expect(200)?;
        assert_eq!(listed["items"][0]["problem"]["field"], "reply", "{listed}");
        assert_eq!(team.stats("q").await?["ready"], 0, "nothing was pushed");
        live.stop().await;
    }
    Ok(())
}

/// What was pushed is there, and will be replied to: who waits for that must not be told to ask again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_for_a_moment_costs_no_reply() -> Result<()> {
    let mut redis = Redis::start()?;
    let live = Live::start(&redis.url(), &unique("reply")).await?;
    live.team.queue("q", json!({})).await?;
    let asked = ask(&live.team, json!({"payload": 1, "reply": {"timeout": "9s"}}));
    let taken = live.team.claim("q", json!({"wait_ms": 5_000})).await?.pop().context("one")?;
    redis.pause()?;
    // Longer than a call may take.
    tokio::time::sleep(Duration::from_secs(3)).await;
    redis.resume()?;
    let reply = with(held(&taken), &json!({"reply": "late"}));
    let acked = async || live.team.post("/v1/queues/q/ack", &reply).await.is_ok_and(|acked| acked.status == 200);
    until(SOON, "the store to be back", acked).await?;
    assert_eq!(asked.await??.expect(200)?["reply"], "late");
    live.stop().await;
    Ok(())
}
