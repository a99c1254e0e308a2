//! One Redis that is late, killed, or does not answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hermod_engine::EngineError;
use hermod_tests::server::{Redis, free_port};
use serde_json::{Value, json};

use super::charger::{BURST, Charger};
use super::load::{Charge, Load, subjects};
use super::served::Served;
use super::{RECOVERY, REQUEST_MAX, until};

/// A rule that gives nothing back while a test runs.
fn rule() -> Value {
    json!({"action": "post", "limit": BURST, "per": "365days"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_starts_before_redis() -> Result<()> {
    let mut redis = Redis::start()?;
    redis.stop()?;
    let url = redis.url();
    let served = Served::start(|config| config.store = url).await?;
    served.put_rule("r", &rule()).await?;
    assert_eq!(served.get("/healthz").await?.status, 200);
    let ready = served.get("/readyz").await?;
    assert_eq!((ready.status, &ready.json()?["store"], &ready.json()?["catalog"]), (503, &json!("unavailable"), &json!("ok")));
    let told = served.check("bot", "post").await?;
    told.expect_problem(503, "store_unavailable")?;
    assert!(told.took < RECOVERY, "nobody waits for a store that is known to be away: {told:?}");
    // What has no rule needs no store.
    assert!(served.check("bot", "other").await?.is_allowed());

    redis.restart()?;
    until(RECOVERY, "the server to be ready", async || served.is_ready().await).await?;
    assert!(served.check("bot", "post").await?.is_allowed());
    assert_eq!(served.used("bot", "post", BURST).await?, 1);
    served.shutdown().await;
    Ok(())
}

/// Sentinels and clusters may be late too, and a cluster may have to be put together first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engine_opens_before_a_cluster_is_one() -> Result<()> {
    for url in [format!("redis-cluster://127.0.0.1:{}", free_port()?), format!("redis-sentinel://127.0.0.1:{}/mymaster", free_port()?)] {
        let early = Charger::open(&url, |_| {}).await?;
        ensure!(matches!(early.engine().ready(), Err(EngineError::Unavailable { .. })), "{url} is ready");
        ensure!(matches!(early.charge("bot").await, Err(EngineError::Unavailable { .. })), "{url} answers");
    }
    let node = Redis::options().set("cluster-enabled", "yes").start()?;
    let charger = Charger::open(&format!("redis-cluster://127.0.0.1:{}", node.port()), |_| {}).await?;
    ensure!(matches!(charger.charge("bot").await, Err(EngineError::Unavailable { .. })));
    node.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
    until(Duration::from_secs(10), "the cluster to be used", async || charger.charge("bot").await.is_ok()).await?;
    charger.engine().ready()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_stopped_and_restarted_mid_load() -> Result<()> {
    let mut redis = Redis::options().appendonly().set("appendfsync", "always").start()?;
    let url = redis.url();
    let served = Arc::new(Served::start(|config| config.store = url).await?);
    served.put_rule("r", &rule()).await?;
    let asked = Arc::clone(&served);
    // Two tasks for each of eight subjects.
    let load = Load::start(&[subjects("bot", 8), subjects("bot", 8)].concat(), move |subject| {
        let served = Arc::clone(&asked);
        async move {
            let told = served.check(&subject, "post").await.expect("the server itself is up");
            if told.status == 200 {
                assert!(told.is_allowed(), "{told:?}");
                return Charge::Acknowledged;
            }
            told.expect_problem(503, "store_unavailable").expect("the only problem there may be");
            Charge::Unknown
        }
    });
    for _ in 0..2 {
        load.until_answered(200, 5 * REQUEST_MAX).await?;
        redis.stop()?;
        load.until_unknown(50, 5 * REQUEST_MAX).await?;
        redis.restart()?;
        load.until_answered(1, RECOVERY).await?;
    }
    load.until_answered(200, 5 * REQUEST_MAX).await?;
    let unknown = load.unknown();
    load.until_answered(100, 5 * REQUEST_MAX).await?;
    ensure!(load.unknown() == unknown, "{} charges failed after all was well", load.unknown() - unknown);
    for (subject, account) in load.stop().await? {
        let used = served.used(&subject, "post", BURST).await?;
        ensure!(used >= account.acknowledged && used <= account.acknowledged + account.unknown, "{subject} has {used} used of {account:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_paused_and_resumed() -> Result<()> {
    let mut redis = Redis::start()?;
    let url = redis.url();
    let served = Arc::new(Served::start(|config| config.store = url).await?);
    served.put_rule("r", &rule()).await?;
    assert!(served.check("bot", "post").await?.is_allowed());

    redis.pause()?;
    let asked: Vec<_> = (0..16)
        .map(|_| {
            let served = Arc::clone(&served);
            tokio::spawn(async move { served.check("bot", "post").await })
        })
        .collect();
    for told in asked {
        let told = told.await??;
        told.expect_problem(503, "store_unavailable")?;
        ensure!(told.took < REQUEST_MAX, "{told:?}");
    }
    until(2 * REQUEST_MAX, "the loss to be noticed", async || !served.is_ready().await).await?;
    let began = Instant::now();
    served.check("bot", "post").await?.expect_problem(503, "store_unavailable")?;
    ensure!(began.elapsed() < Duration::from_millis(500), "nobody waits for a store that is known to be away: {:?}", began.elapsed());

    redis.resume()?;
    until(RECOVERY, "the server to be ready", async || served.is_ready().await).await?;
    assert!(served.check("bot", "post").await?.is_allowed());
    Ok(())
}
