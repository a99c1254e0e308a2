//! One Redis that is late, killed, or does not answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use hermod_engine::EngineError;
use hermod_tests::server::{Redis, free_port};
use hermod_tests::unique;
use serde_json::{Value, json};

use super::charger::{BURST, Charger};
use super::load::{Charge, Load, PACE, subjects};
use super::served::{Served, Told};
use super::{RECOVERY, REQUEST_MAX, until};

/// Nobody waits for a store that is known to be away.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A rule that gives nothing back while a test runs, and lets nothing through that it cannot count.
fn rule() -> Value {
    json!({"action": "post", "limit": BURST, "per": "365days", "algorithm": "token_bucket", "on_store_error": "closed"})
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
    ensure!(told.took < AT_ONCE, "{told:?}");
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

/// What was acknowledged is there afterwards; of what was not, nobody knows. Callers who ask again with the same
/// idempotency key until they are answered are charged exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_stopped_and_restarted_mid_load() -> Result<()> {
    let mut redis = Redis::options().appendonly().set("appendfsync", "always").start()?;
    let url = redis.url();
    let served = Arc::new(Served::start(|config| config.store = url).await?);
    served.put_rule("r", &rule()).await?;
    let asked = Arc::clone(&served);
    // Two tasks for each subject.
    let load = Load::start(&[subjects("bot", 6), subjects("bot", 6)].concat(), move |subject| {
        let served = Arc::clone(&asked);
        async move { told(&served.check(&subject, "post").await) }
    });
    let asked = Arc::clone(&served);
    let careful = Load::start(&[subjects("agent", 3), subjects("agent", 3)].concat(), move |subject| {
        let served = Arc::clone(&asked);
        async move {
            let key = unique("key");
            while told(&served.check_once(&subject, "post", &key).await) == Charge::Unknown {
                tokio::time::sleep(PACE).await;
            }
            Charge::Acknowledged
        }
    });
    for _ in 0..2 {
        load.until_answered(200, 5 * REQUEST_MAX).await?;
        redis.stop()?;
        load.until_unknown(50, 5 * REQUEST_MAX).await?;
        redis.restart()?;
        load.until_answered(1, RECOVERY).await?;
    }
    load.ensure_well().await?;
    for (subject, account) in load.stop().await?.into_iter().chain(careful.stop().await?) {
        let used = served.used(&subject, "post", BURST).await?;
        ensure!(used >= account.acknowledged && used <= account.acknowledged + account.unknown, "{subject} has {used} used of {account:?}");
    }
    Ok(())
}

/// Panics unless it is allowed, or the one problem there may be.
fn told(told: &Result<Told>) -> Charge {
    let told = told.as_ref().expect("the server itself is up");
    assert!(told.took < REQUEST_MAX, "{told:?}");
    if told.is_allowed() {
        return Charge::Acknowledged;
    }
    told.expect_problem(503, "store_unavailable").expect("the only problem there may be");
    Charge::Unknown
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
    let told = served.check("bot", "post").await?;
    told.expect_problem(503, "store_unavailable")?;
    ensure!(told.took < AT_ONCE, "{told:?}");

    redis.resume()?;
    until(RECOVERY, "the server to be ready", async || served.is_ready().await).await?;
    assert!(served.check("bot", "post").await?.is_allowed());
    Ok(())
}

/// A node that became a replica takes no writes: it is not used until it is a primary again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_demoted_and_promoted() -> Result<()> {
    let (redis, other) = (Redis::start()?, Redis::start()?);
    let charger = Charger::open(&redis.url(), |_| {}).await?;
    charger.charge("bot").await?;
    Charger::open(&other.url(), |_| {}).await?;
    redis.ask::<()>(&["REPLICAOF", "127.0.0.1", &other.port().to_string()])?;
    until(RECOVERY, "the loss to be noticed", async || charger.engine().ready().is_err()).await?;
    let copied = async || redis.field(&["INFO", "replication"], "master_link_status").is_ok_and(|status| status == "up");
    until(5 * RECOVERY, "the copy", copied).await?;
    for _ in 0..100 {
        let fault = charger.charge("bot").await.expect_err("a replica");
        ensure!(matches!(fault, EngineError::Unavailable { .. }), "{fault:?}");
        ensure!(charger.engine().ready().is_err(), "a replica is called ready");
        tokio::time::sleep(PACE).await;
    }
    redis.ask::<()>(&["REPLICAOF", "NO", "ONE"])?;
    until(RECOVERY, "the primary to be used", async || charger.charge("bot").await.is_ok()).await
}
