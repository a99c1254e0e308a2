//! `durability: replicas:1` states what was reached, and never waits for longer than an answer may take.

use std::time::Instant;

use anyhow::{Result, ensure};
use hermod_core::Outcome;
use hermod_engine::Durability;
use hermod_tests::server::Redis;
use serde_json::json;

use super::REQUEST_MAX;
use super::charger::Charger;
use super::served::Served;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durability_states_what_was_reached() -> Result<()> {
    let primary = Redis::start()?;
    let mut replica = Redis::options().replica_of(primary.port()).start()?;
    let url = primary.url();
    let served = Served::start(|config| (config.store, config.durability) = (url, "replicas:1".to_owned())).await?;
    served.put_rule("paid", &json!({"action": "paid", "limit": 1000, "per": "1h", "durable": true})).await?;
    served.put_rule("free", &json!({"action": "free", "limit": 1000, "per": "1h"})).await?;
    let durability = async |action: &str| -> Result<String> {
        let told = served.check("bot", action).await?;
        ensure!(told.is_allowed() && told.took < REQUEST_MAX, "{told:?}");
        Ok(told.json()?["durability"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(durability("paid").await?, "replicas:1");
    assert_eq!(durability("free").await?, "memory");
    for harm in [Redis::stop, Redis::pause] {
        harm(&mut replica)?;
        assert_eq!(durability("paid").await?, "memory");
        assert_eq!(durability("free").await?, "memory");
        replica.restart()?;
        assert_eq!(durability("paid").await?, "replicas:1");
    }
    Ok(())
}

/// Waiting for a replica that is gone holds up nobody else, and makes no error of a charge that was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_wait_for_a_lost_replica_no_longer_than_one() -> Result<()> {
    let primary = Redis::start()?;
    let mut replica = Redis::options().replica_of(primary.port()).start()?;
    let charger = Charger::open(&primary.url(), |options| options.replicas = 1).await?;
    let durable = charger.durable();
    assert_eq!(durable.charge("bot").await?.durability, Durability::Replicas(1));
    replica.stop()?;
    let began = Instant::now();
    let waiting: Vec<_> = (0..32)
        .map(|n| {
            let durable = durable.clone();
            tokio::spawn(async move { durable.charge(&format!("bot-{n}")).await })
        })
        .collect();
    for charged in waiting {
        assert_eq!(charged.await??.durability, Durability::Memory);
    }
    ensure!(began.elapsed() < REQUEST_MAX, "{:?}", began.elapsed());
    Ok(())
}

/// Whoever repeats a request asks about a charge that another connection made; that one is what must be on the replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_claims_no_more_than_was_reached() -> Result<()> {
    let primary = Redis::start()?;
    let mut replica = Redis::options().replica_of(primary.port()).start()?;
    let one = Charger::open(&primary.url(), |options| options.replicas = 1).await?.durable();
    let other = one.beside(&primary.url(), |options| options.replicas = 1).await?;
    assert_eq!(one.charge_once("bot", Some("first")).await?.durability, Durability::Replicas(1));
    replica.pause()?;
    assert_eq!(one.charge_once("bot", Some("second")).await?.durability, Durability::Memory);
    let replayed = other.charge_once("bot", Some("second")).await?;
    ensure!(matches!(replayed.outcome, Outcome::Replayed(_)), "{replayed:?}");
    assert_eq!(replayed.durability, Durability::Memory);
    replica.resume()?;
    assert_eq!(other.charge_once("bot", Some("second")).await?.durability, Durability::Replicas(1));
    assert_eq!(one.used("bot").await?, 2);
    Ok(())
}
