//! What a pick costs the store, and who gets what where many ask at once.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use hermod_core::pick::{Candidate, Plan, Take, Taken};
use hermod_core::{DeckId, MessageId, Micros, Outcome, SpaceId, Subject};
use hermod_tests::server::Redis;
use hermod_tests::{EngineLane, Store, unique};
use serde_json::{Value, json};

use crate::http::site::Ask;
use crate::queue::Live;

/// All commands that Redis has done, those within scripts included, and the bytes it was sent.
fn spent(redis: &Redis) -> Result<(u64, u64)> {
    let stats: String = redis.ask(&["INFO", "commandstats"])?;
    let calls = stats.lines().filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok());
    let bytes = redis.field(&["INFO", "stats"], "total_net_input_bytes")?.parse()?;
    Ok((calls.sum(), bytes))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_messages_cost_like_ten() -> Result<()> {
    const PICKS: u64 = 200;
    let redis = Redis::start()?;
    let live = Live::start(&redis.url(), &unique("cost")).await?;
    let mut costs = Vec::new();
    for many in [10_u64, 10_000] {
        let deck = format!("/v1/decks/d{many}");
        live.team.put(&deck, &json!({"subject_cap": null})).await?.expect(201)?;
        let messages: Vec<Value> =
            (0..many).map(|n| json!({"id": format!("m{n}"), "body": n, "cap": {"tokens": 1_000, "per": "1s"}})).collect();
        for some in messages.chunks(1_000) {
            live.team.post(&format!("{deck}/messages"), &json!(some)).await?.expect(201)?;
        }
        let pick = async |subject: &str| {
            let picked = live.team.post(&format!("{deck}/picks"), &json!({"subject": subject})).await?.expect(200)?;
            ensure!(picked["status"] == "picked", "{picked}");
            Ok(())
        };
        pick("ann").await?;
        let (calls, bytes) = spent(&redis)?;
        for _ in 0..PICKS {
            pick("ann").await?;
        }
        let (calls_then, bytes_then) = spent(&redis)?;
        costs.push(((calls_then - calls) / PICKS, (bytes_then - bytes) / PICKS));
    }
    let [(few, few_bytes), (many, many_bytes)] = costs[..] else { anyhow::bail!("two decks") };
    println!("commands and bytes of a pick: {costs:?}");
    ensure!(many <= few + 1 && many_bytes * 2 <= few_bytes * 3, "{costs:?}");
    live.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_clients_with_one_stale_plan_pick_different_messages() -> Result<()> {
    for store in Store::ALL {
        let lane = EngineLane::open_in(store, SpaceId::new(unique("stale"))?).await?;
        let candidate = |ordinal: u32| Ok(Candidate { ordinal, id: MessageId::new(format!("m{ordinal}"))?, seq: 0, meter: 0 });
        let candidates = (0..24).map(candidate).collect::<Result<Vec<_>>>()?;
        let plan = std::sync::Arc::new(Plan { until: Micros::MAX, candidates, ..Plan::default() });
        let place = lane.engine().partitions().place(lane.space(), "ann");
        let take = Take::plan(place, Subject::new("ann")?, DeckId::new("tips")?, 1, plan);
        let asked = futures_util::future::join_all((0..24).map(|_| lane.engine().run(&take, None))).await;
        let mut got = BTreeSet::new();
        for ran in asked {
            let Outcome::Done(Taken::Picked(picked)) = ran?.outcome else { anyhow::bail!("nothing was picked") };
            got.insert(picked.ordinal);
        }
        assert_eq!(got.len(), 24, "on {store:?}");
        let last = lane.engine().run(&take, None).await?.outcome;
        let Outcome::Done(Taken::Again(recalled)) = last else { anyhow::bail!("{last:?}") };
        assert_eq!(recalled.history.seq, 24);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn picks_are_counted_by_deck_and_what_became_of_them() -> Result<()> {
    let live = Live::start("embedded", &unique("count")).await?;
    live.team.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
    live.team.post("/v1/decks/tips/messages", &json!({"body": 1})).await?.expect(201)?;
    let pick = async || live.team.post("/v1/decks/tips/picks", &json!({"subject": "ann", "mode": "reserve"})).await?.expect(200);
    let picked = pick().await?;
    pick().await?;
    pick().await?;
    // What is replayed was counted before.
    let ask = Ask::json("POST", "/v1/decks/tips/picks", &json!({"subject": "ben"})).header("idempotency-key", "k");
    for _ in 0..3 {
        live.team.send(&ask).await?.expect(200)?;
    }
    live.team.post(&format!("/v1/picks/{}/nack", picked["pick"].as_str().context("a pick")?), &json!({})).await?.expect(200)?;
    let metrics = live.team.get("/metrics").await?.text();
    for (outcome, count) in [("picked", 2), ("subject_cap", 2), ("nacked", 1)] {
        let line = format!("hermod_picks_total{{deck=\"tips\",outcome=\"{outcome}\"}} {count}");
        ensure!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
    ensure!(!metrics.contains("ann"), "no label carries a subject");
    live.stop().await;
    Ok(())
}
