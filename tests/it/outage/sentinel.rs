//! A primary watched by sentinels, killed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use hermod_tests::server::Sentinel;
use serde_json::json;

use super::charger::BURST;
use super::load::{Charge, Load, subjects, timely};
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
    let asked = Arc::clone(&served);
    let load = Load::start(&subjects("bot", 8), move |subject| {
        let served = Arc::clone(&asked);
        async move {
            let told = timely(served.check(&subject, "post")).await.expect("the server itself is up");
            if told.is_allowed() {
                let durability = told.json().expect("an answer")["durability"].clone();
                return if durability == "replicas:1" { Charge::Acknowledged } else { Charge::Weak };
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
    for (subject, account) in load.stop().await? {
        let used = served.used(&subject, "post", BURST).await?;
        ensure!(account.acknowledged > 0 && used >= account.acknowledged, "{subject} has {used} used of {account:?}");
    }
    Ok(())
}
