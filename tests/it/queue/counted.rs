//! What who watches a queue looks at: each thing is counted once, by whichever operation did it, on whichever server.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use hermod_tests::{Store, unique};
use serde_json::json;

use super::sticky::{recipients, tos};
use super::{Caller, Live, SOON, on_every_store, shared};
use crate::http::service::metrics;
use crate::outage::until;

/// The samples of several servers, added up.
async fn sums(teams: &[Caller]) -> Result<BTreeMap<String, f64>> {
    let mut sums = BTreeMap::new();
    for team in teams {
        for (series, value) in metrics(team).await?.1 {
            *sums.entry(series).or_default() += value;
        }
    }
    Ok(sums)
}

/// These series have these values.
fn ensure_counts(seen: &BTreeMap<String, f64>, wanted: &[(&str, f64)]) -> Result<()> {
    for (series, wanted) in wanted {
        let value = seen.get(*series).copied().unwrap_or(f64::NAN);
        ensure!((value - wanted).abs() < 0.5, "{series} is {value} and not {wanted}: {seen:#?}");
    }
    Ok(())
}

/// A worker dies that holds seven; one of them was attempted for the last time.
async fn takeover(store: Store) -> Result<()> {
    let (url, space) = (shared(store)?, unique("counted"));
    let live = Live::start(&url, &space).await?;
    let team = &live.team;
    let beside = if store == Store::Embedded { None } else { Some(live.beside(&url).await?) };
    let teams: Vec<Caller> = [team.clone()].into_iter().chain(beside.iter().map(|(_, team)| team.clone())).collect();
    team.sticky("q", json!({"worker_ttl": "2s"})).await?;
    let dead = team.register("q", "dead").await?;
    team.push_to_each("q", &recipients(6), 1).await?;
    team.push("q", json!({"to": "fragile", "payload": 1, "max_attempts": 1})).await?;
    let taken = team.claim_as("q", &dead, json!({})).await?;
    assert_eq!(taken.len(), 7, "{store:?}");
    let heir = team.register("q", "heir").await?;
    let mut got = Vec::new();
    while got.len() < 6 {
        got.extend(team.claim_as("q", &heir, json!({"wait_ms": 5_000})).await?);
    }
    assert_eq!(tos(&got), recipients(6), "{store:?}");
    let is_dead = async || team.stats("q").await.is_ok_and(|stats| stats["dead"] == 1);
    until(SOON, "the last attempt to be over", is_dead).await?;
    assert_eq!(team.settle("q", "ack", &taken[0], json!({})).await?["outcome"], "stale");
    let seen = sums(&teams).await?;
    ensure_counts(
        &seen,
        &[
            (r#"hermod_queue_takeovers_total{queue="q"}"#, 1.0),
            (r#"hermod_queue_moved_total{queue="q"}"#, 6.0),
            (r#"hermod_queue_deliveries_total{queue="q",outcome="handed"}"#, 7.0),
            (r#"hermod_queue_deliveries_total{queue="q",outcome="again"}"#, 6.0),
            (r#"hermod_queue_deliveries_total{queue="q",outcome="dead"}"#, 1.0),
            (r#"hermod_queue_stale_total{queue="q"}"#, 1.0),
        ],
    )?;
    // What the store holds is told by each server.
    let seen = metrics(team).await?.1;
    ensure_counts(
        &seen,
        &[
            (&format!(r#"hermod_queue_workers{{space="{space}",queue="q",state="live"}}"#), 1.0),
            (&format!(r#"hermod_queue_workers{{space="{space}",queue="q",state="draining"}}"#), 0.0),
            (&format!(r#"hermod_queue_depth{{space="{space}",queue="q",state="leased"}}"#), 6.0),
        ],
    )?;
    if let Some((server, _)) = beside {
        server.shutdown().await;
    }
    live.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_is_counted_once_and_whom_it_moved() -> Result<()> {
    let takeovers = Store::ALL.map(|store| async move { takeover(store).await.with_context(|| format!("on {store:?}")) });
    try_join_all(takeovers).await.map(drop)
}

/// Recipients move by other operations than those that look after workers, and are counted as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_moves_by_a_pin_an_ack_or_a_push_is_counted() -> Result<()> {
    on_every_store(async |site, team| {
        let moved = async |expected: f64| -> Result<()> {
            ensure_counts(&metrics(&site.admin).await?.1, &[(r#"hermod_queue_moved_total{queue="q"}"#, expected)])
        };
        // In one partition the turns are exact.
        team.sticky("q", json!({"order": "total"})).await?;
        let (one, other) = (team.register("q", "w1").await?, team.register("q", "w2").await?);
        let all = recipients(4);
        for payload in 0..2 {
            team.push_to_each("q", &all, payload).await?;
        }
        let (mine, theirs) = (team.claim_as("q", &one, json!({})).await?, team.claim_as("q", &other, json!({})).await?);
        assert_eq!((mine.len(), theirs.len()), (2, 2));
        moved(0.0).await.context("who had none before has not moved")?;
        // While they are held nobody moves; each goes to the other one with its ack.
        team.drain("q", &one).await?;
        for delivery in &mine {
            team.ack("q", delivery).await?;
        }
        moved(2.0).await?;
        // One that waits is pinned to another.
        let third = team.register("q", "w3").await?;
        team.push("q", json!({"to": "pinned", "payload": 1})).await?;
        let owner = team.explain("q", "pinned").await?["worker"].clone();
        let wanted = if owner == "w3" { &other } else { &third };
        let pinned = team.put("/v1/queues/q/recipients/pinned", &json!({"worker": wanted.name})).await?.expect(200)?;
        assert_eq!(pinned["worker"], wanted.name);
        moved(3.0).await?;
        // One for whom there is nothing moves when it is next addressed.
        let claimed = team.claim_as("q", wanted, json!({})).await?;
        for delivery in &claimed {
            team.ack("q", delivery).await?;
        }
        team.put("/v1/queues/q/recipients/pinned", &json!({"worker": null})).await?.expect(200)?;
        let moved_by_now = metrics(&site.admin).await?.1[r#"hermod_queue_moved_total{queue="q"}"#];
        team.drain("q", wanted).await?;
        let drained = metrics(&site.admin).await?.1[r#"hermod_queue_moved_total{queue="q"}"#];
        team.push("q", json!({"to": "pinned", "payload": 2})).await?;
        ensure!(drained >= moved_by_now);
        moved(drained + 1.0).await?;
        assert_eq!(team.explain("q", "pinned").await?["changes"][0]["why"], "drained");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_tried_again_dies_or_waits_is_counted() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({"lease": "1s", "max_attempts": 2})).await?;
        team.push("q", json!({"payload": 1, "to": "ann"})).await?;
        team.push("q", json!({"payload": 2, "to": "ann"})).await?;
        let first = team.claim_one("q").await?;
        site.at_ms(1_000);
        assert_eq!(team.settle("q", "nack", &first, json!({})).await?["outcome"], "stale");
        assert_eq!(team.claim_one("q").await?["attempt"], 2);
        site.at_ms(2_000);
        assert_eq!(team.claim_one("q").await?["payload"], 2, "the first is dead");
        team.push("q", json!({"payload": 3})).await?;
        site.at_ms(2_750);
        let seen = metrics(&site.admin).await?.1;
        ensure_counts(
            &seen,
            &[
                (r#"hermod_queue_deliveries_total{queue="q",outcome="handed"}"#, 2.0),
                (r#"hermod_queue_deliveries_total{queue="q",outcome="again"}"#, 1.0),
                (r#"hermod_queue_deliveries_total{queue="q",outcome="dead"}"#, 1.0),
                (r#"hermod_queue_stale_total{queue="q"}"#, 1.0),
            ],
        )?;
        let oldest = seen.iter().find(|(series, _)| series.starts_with("hermod_queue_oldest_seconds{")).context("it is told")?.1;
        ensure!((oldest - 0.75).abs() < 0.001, "{oldest}");
        Ok(())
    })
    .await
}
