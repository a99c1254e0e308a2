//! `durability: replicas:1` states what was reached, and never waits for longer than an answer may take.

use std::time::Instant;

use anyhow::{Result, ensure};
use hermod_core::queue::claim::Failing;
use hermod_core::queue::push::{Push, Stored};
use hermod_core::queue::{Claim, Delivery, Due, Settle, SettleAct, Terms};
use hermod_core::{Micros, Outcome, QueueId, SpaceId};
use hermod_engine::Durability;
use hermod_engine::redis::{Address, Options};
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

/// What was found is what is asked about, and another connection may have written it: from Redis 7.2 on only what a connection
/// wrote itself is waited for, so finding it writes it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_finds_another_writes_what_it_found() -> Result<()> {
    let store = Redis::start()?;
    let engine = hermod_engine::Redis::open(Options::new(Address::parse(&store.url())?)).await?;
    let (place, queue) = (engine.partitions().place(&SpaceId::default_space(), ""), QueueId::new("q")?);
    let failing = Failing { max_attempts: 3, drops: false, drop_after: None };
    let changes = || -> Result<u64> { Ok(store.field(&["INFO", "persistence"], "rdb_changes_since_last_save")?.parse()?) };
    let push = async || -> Result<(Stored, u64)> {
        let one = Delivery { key: Some("k".into()), ..Delivery::new(Due::In(Micros::ZERO), true, "1") };
        let before = changes()?;
        let ran = engine.run(&Push::new(place.clone(), queue.clone(), Terms::default(), failing, vec![one]), None).await?;
        let Outcome::Done(pushed) = ran.outcome else { anyhow::bail!("not done") };
        Ok((pushed.stored[0].0, changes()? - before))
    };
    assert_eq!(push().await?.0, Stored::Added);
    let (kept, written) = push().await?;
    ensure!(kept == Stored::Kept && written > 0, "{kept:?}, {written} changes");
    let claim = Claim::new(place.clone(), queue.clone(), Terms::default(), 1, Micros::saturating(60_000_000), failing);
    let Outcome::Done(claimed) = engine.run(&claim, None).await?.outcome else { anyhow::bail!("not done") };
    let held = claimed.handed.iter().map(|handed| (handed.number, handed.token)).collect();
    let ack = Settle::new(place.clone(), queue.clone(), Terms::default(), SettleAct::Ack, &failing, held);
    engine.run(&ack, None).await?;
    let (finished, written) = push().await?;
    ensure!(finished == Stored::Finished && written > 0, "{finished:?}, {written} changes");
    Ok(())
}
