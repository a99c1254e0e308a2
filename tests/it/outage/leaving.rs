//! Who asks may leave in the middle of an answer that takes several steps.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_core::{Partitions, Place, SpaceId, key};
use hermod_tests::server::Cluster;
use serde_json::{Value, json};

use super::cluster::{ask, shard};
use super::served::Served;
use super::{RECOVERY, until};

/// Somebody whose counters are on another shard than those that all share, and the port of that shard.
fn stranger(cluster: &Cluster) -> Result<(String, u16)> {
    let ports = cluster.primaries()?;
    let home = |name: &str| -> Result<usize> {
        let place: Place = Partitions::DEFAULT.place(&SpaceId::new("default")?, name);
        Ok(shard(ask(ports[0], &["CLUSTER", "KEYSLOT", &key::limit(&place, name)])?))
    };
    let all = home("")?;
    for n in 0..100 {
        let name = format!("bot-{n}");
        let own = home(&name)?;
        if own != all {
            return Ok((name, ports[own]));
        }
    }
    anyhow::bail!("all are on one shard")
}

/// The shard of the subject is slow, and who asked does not wait for it: it refuses in the end, and what was taken
/// from all is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_takes_nothing_from_all() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let url = cluster.url();
    let served = Served::start(|config| config.store = url).await?;
    for (id, limit, scope) in [("own", 1, "subject"), ("all", 2, "global")] {
        served.put_rule(id, &json!({"name": id, "action": "act", "limit": limit, "per": "1h", "scope": scope})).await?;
        let lease = json!({"name": id, "action": "open", "limit": limit, "per": "1h", "scope": scope, "algorithm": "concurrency"});
        served.put_rule(&format!("{id}-open"), &lease).await?;
    }
    let (bot, port) = stranger(&cluster)?;
    let of = |action: &str, lease: &str| json!({"subject": bot, "action": action, "lease": lease});
    ensure!(served.post("/v1/limit/acquire", &of("open", "one")).await?.is_allowed());
    ensure!(served.check(&bot, "act").await?.is_allowed());

    cluster.pause(port)?;
    let (second, checked) = (of("open", "two"), json!({"subject": bot, "action": "act"}));
    let leaving = async |path: &str, body: &Value| tokio::time::timeout(Duration::from_millis(300), served.post(path, body)).await;
    let left = tokio::join!(leaving("/v1/limit/acquire", &second), leaving("/v1/limit/check", &checked));
    cluster.resume(port)?;
    ensure!(left.0.is_err() && left.1.is_err(), "they were answered: {left:?}");

    let free = async |other: &str| -> Result<bool> {
        let told = served.post("/v1/limit/acquire", &json!({"subject": other, "action": "open", "lease": other})).await?;
        Ok(told.is_allowed())
    };
    until(RECOVERY, "the lease to be given back", async || free("other").await.unwrap_or(false)).await?;
    ensure!(!free("third").await?, "two are taken");
    let peek = json!({"subject": "other", "action": "act", "peek": true});
    until(RECOVERY, "the charge to be given back", async || {
        let told = served.post("/v1/limit/check", &peek).await.and_then(|told| told.json());
        told.is_ok_and(|told| {
            told["rules"].as_array().is_some_and(|rules| rules.iter().any(|rule| rule["id"] == "all" && rule["remaining"] == 1))
        })
    })
    .await
    .context("of two, one was charged and stays so")?;
    served.shutdown().await;
    Ok(())
}
