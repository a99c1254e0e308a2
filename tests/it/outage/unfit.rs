//! Stores that answer, and cannot be used as they are.

use std::time::Duration;

use anyhow::{Result, ensure};
use hermod_core::queue::push::Push;
use hermod_core::queue::{Claim, Delivery, Due, Failing, Settle, SettleAct, Terms};
use hermod_core::{Micros, Once, Outcome, Partitions, QueueId, SpaceId};
use hermod_engine::EngineError;
use hermod_tests::server::Redis;
use serde_json::json;

use super::charger::{BURST, Charger};
use super::served::Served;
use super::{RECOVERY, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_evicts_is_refused_with_the_command_that_helps() -> Result<()> {
    let redis = Redis::options().maxmemory("100mb", "allkeys-lru").start()?;
    let url = redis.url();
    let Err(fault) = Served::start(|config| config.store = url).await else { anyhow::bail!("it started") };
    let text = format!("{fault:#}");
    ensure!(text.contains("allkeys-lru") && text.contains("CONFIG SET maxmemory-policy noeviction"), "{text}");
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])?;
    let url = redis.url();
    let served = Served::start(|config| config.store = url).await?;
    ensure!(served.is_ready().await);
    Ok(())
}

/// A policy that is wrong after a restart only is not overlooked either: better no answer than one from state that is being deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_comes_back_evicting_is_not_used() -> Result<()> {
    let mut redis = Redis::options().maxmemory("100mb", "volatile-ttl").start()?;
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])?;
    let charger = Charger::open(&redis.url(), |_| {}).await?;
    charger.charge("bot").await?;
    redis.restart()?;
    let why = async || charger.engine().ready().map_or_else(|fault| fault.to_string(), |()| String::new());
    until(2 * RECOVERY, "the policy to be noticed", async || why().await.contains("CONFIG SET maxmemory-policy noeviction")).await?;
    ensure!(matches!(charger.charge("bot").await, Err(EngineError::Unavailable { .. })));
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])?;
    until(RECOVERY, "the store to be used again", async || charger.charge("bot").await.is_ok()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_of_partitions_is_refused_with_the_one_that_is_right() -> Result<()> {
    let redis = Redis::start()?;
    Charger::open(&redis.url(), |_| {}).await?;
    let (ours, theirs) = (Partitions::new(32).expect("a fit number"), Partitions::DEFAULT.count());
    let Err(fault) = Charger::open(&redis.url(), |options| options.partitions = ours).await else { anyhow::bail!("it opened") };
    let text = format!("{fault:#}");
    ensure!(text.contains(&format!("partitions {theirs}")) && text.contains("32"), "{text}");
    Ok(())
}

/// Its records stand elsewhere: they would be read as something they are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_version_wrote_is_refused_and_left_alone() -> Result<()> {
    let redis = Redis::start()?;
    Charger::open(&redis.url(), |_| {}).await?;
    let format: u32 = redis.ask::<String>(&["HGET", "hm:meta", "format"])?.parse()?;
    redis.ask::<i64>(&["HSET", "hm:meta", "format", &(format - 1).to_string()])?;
    let Err(fault) = Charger::open(&redis.url(), |_| {}).await else { anyhow::bail!("it opened") };
    let text = format!("{fault:#}");
    ensure!(text.contains(&format!("format {}", format - 1)) && text.contains("the version of hermod that wrote it"), "{text}");
    ensure!(redis.ask::<String>(&["HGET", "hm:meta", "format"])? == (format - 1).to_string());
    Ok(())
}

/// Waiting would not help, so nobody is left to find out why nothing is ever ready.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_wrong_or_missing_is_told_at_once() -> Result<()> {
    let redis = Redis::start()?;
    let (port, mut admin) = (redis.port(), redis.connection()?);
    redis::cmd("ACL").arg("SETUSER").arg(&["weak", "on", ">geheim", "~*", "+@all", "-function", "-fcall"]).query::<()>(&mut admin)?;
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("geheim").query::<()>(&mut admin)?;
    for login in ["", ":geheimer@", "weak:geheim@", "nobody:geheim@"] {
        let Err(fault) = Charger::open(&format!("redis://{login}127.0.0.1:{port}"), |_| {}).await else { anyhow::bail!("{login} opened") };
        let text = format!("{fault:#}");
        ensure!(text.contains("password") && !text.contains("geheim"), "{text}");
    }
    let charger = Charger::open(&format!("redis://:geheim@127.0.0.1:{port}"), |_| {}).await?;
    charger.charge("bot").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_says_so_and_changes_nothing() -> Result<()> {
    let redis = Redis::start()?;
    let url = redis.url();
    let set = |config: &mut hermod_server::Config| config.store = url;
    let served = Served::start(set.clone()).await?;
    served.put_rule("r", &json!({"action": "post", "limit": BURST, "per": "365days"})).await?;
    assert!(served.check("old", "post").await?.is_allowed());
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"])?;
    let before: Vec<String> = redis.ask(&["KEYS", "*"])?;
    for subject in ["old", "new"] {
        served.check(subject, "post").await?.expect_problem(507, "store_full")?;
    }
    assert_eq!(redis.ask::<Vec<String>>(&["KEYS", "*"])?.len(), before.len());

    // A server that starts now says the same; a full store is not one that cannot be reached.
    let later = Served::start(set).await?;
    later.put_rule("r", &json!({"action": "post", "limit": BURST, "per": "365days"})).await?;
    later.check("old", "post").await?.expect_problem(507, "store_full")?;

    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"])?;
    assert_eq!(served.used("old", "post", BURST).await?, 1);
    for served in [served, later] {
        until(Duration::from_secs(1), "room to be used", async || served.check("new", "post").await.is_ok_and(|told| told.is_allowed()))
            .await?;
    }
    Ok(())
}

/// Whoever takes deliveries out makes room, so a full store must let them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_hands_out_what_is_in_it() -> Result<()> {
    let redis = Redis::start()?;
    let charger = Charger::open(&redis.url(), |_| {}).await?;
    let engine = charger.engine();
    let (queue, place) = (QueueId::new("q")?, engine.partitions().place(&SpaceId::default_space(), "q"));
    let failing = Failing { max_attempts: 5, drops: false, drop_after: None };
    let delivery = Delivery::new(Due::In(Micros::ZERO), true, "1");
    let push = Push::new(place.clone(), queue.clone(), Terms::default(), failing, vec![delivery]);
    engine.run(&push, None).await?;
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"])?;
    let refused = engine.run(&push, None).await;
    ensure!(matches!(refused, Err(EngineError::Full)), "{refused:?}");
    let claim = Claim::new(place.clone(), queue.clone(), Terms::default(), 5, Micros::saturating(60_000_000), failing);
    let Outcome::Done(claimed) = engine.run(&claim, None).await?.outcome else { anyhow::bail!("not claimed") };
    let held: Vec<_> = claimed.handed.iter().map(|handed| (handed.number, handed.token)).collect();
    assert_eq!(held.len(), 1);
    let ack = Settle::new(place, queue, Terms::default(), SettleAct::Ack, &failing, held);
    let acked = engine.run(&ack, Some(&Once::new("key", b"body")?)).await?;
    ensure!(matches!(acked.outcome, Outcome::Done(_)), "{acked:?}");
    Ok(())
}
