//! A primary watched by sentinels, killed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hermod_tests::server::Sentinel;
use hermod_tests::unique;
use serde_json::json;

use super::charger::BURST;
use super::load::{Acknowledged, Charge, Load, subjects, timely};
use super::served::Served;
use super::{RECOVERY, REQUEST_MAX, until};

/// The sentinels need some seconds to agree; on a busy machine some more.
const FAILOVER: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_failover_is_survived() -> Result<()> {
    let mut sentinel = Sentinel::start()?;
    let url = sentinel.url();
    let served = Arc::new(Served::start(|config| (config.store, config.durability) = (url, "replicas:1".to_owned())).await?);
    served.put_rule("r", &json!({"action": "post", "limit": BURST, "per": "365days", "durable": true})).await?;
    let (asked, acknowledged) = (Arc::clone(&served), Acknowledged::default());
    let kept = acknowledged.clone();
    let load = Load::start(&subjects("bot", 8), move |subject| {
        let (served, kept) = (Arc::clone(&asked), kept.clone());
        async move {
            let key = unique("key");
            let told = timely(served.check_once(&subject, "post", &key)).await.expect("the server itself is up");
            if told.is_allowed() {
                if told.json().expect("an answer")["durability"] != "replicas:1" {
                    return Charge::Weak;
                }
                kept.add(subject, key);
                return Charge::Acknowledged;
            }
            told.expect_problem(503, "store_unavailable").expect("the only problem there may be");
            Charge::Unknown
        }
    });
    load.until_answered(100, 5 * REQUEST_MAX).await?;
    let killed = sentinel.kill_primary()?;
    until(RECOVERY, "the loss to be noticed", async || !served.is_ready().await).await?;
    until(FAILOVER, "the failover", async || sentinel.primary().is_ok_and(|port| port != killed)).await?;
    until(2 * RECOVERY, "the server to be ready", async || served.is_ready().await).await?;
    load.ensure_well().await?;
    load.stop().await?;
    sentinel.restart(killed)?;
    let is_known = move |subject: String, key: String| {
        let served = Arc::clone(&served);
        async move { Ok(served.check_once(&subject, "post", &key).await?.json()?["replayed"] == true) }
    };
    acknowledged.ensure_known(is_known).await
}
