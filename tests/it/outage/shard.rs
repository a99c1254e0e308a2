//! One shard of a Cluster is away with its copy: what is on the others is served as ever.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hermod_core::{Partitions, SpaceId, key};
use hermod_tests::server::Cluster;
use serde_json::json;

use super::cluster::{ask, ports, shard};
use super::served::Served;
use super::{REQUEST_MAX, until};

/// A Cluster that serves what it has, and a server on it.
async fn start() -> Result<(Cluster, Served)> {
    let cluster = Cluster::start()?;
    for port in ports(&cluster) {
        ask::<()>(port, &["CONFIG", "SET", "cluster-require-full-coverage", "no"])?;
    }
    let url = cluster.url();
    Ok((cluster, Served::start(|config| config.store = url).await?))
}

/// The first shard stops, and does not even say that it is gone.
fn stop_first(cluster: &mut Cluster) -> Result<()> {
    let ports = ports(cluster);
    [ports[0], ports[3]].into_iter().try_for_each(|port| cluster.pause(port))
}

/// So many names of homes that are on the first shard, or that are not.
fn names(cluster: &Cluster, is_first: bool, many: usize) -> Result<Vec<String>> {
    let (port, space, mut names) = (cluster.primaries()?[0], SpaceId::new("default")?, Vec::new());
    for name in (0..1_000).map(|n| format!("n{n}")) {
        let slot = ask(port, &["CLUSTER", "KEYSLOT", &key::limit(&Partitions::DEFAULT.place(&space, &name), &name)])?;
        if (shard(slot) == 0) == is_first {
            names.push(name);
        }
        if names.len() == many {
            return Ok(names);
        }
    }
    anyhow::bail!("all are on one shard")
}

/// Who is answered does not make the server forget what it counts for those who are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_limiter_counts_for_those_of_the_lost_shard() -> Result<()> {
    let (mut cluster, served) = start().await?;
    let rule = json!({"action": "act", "limit": 3, "per": "1day", "on_store_error": "local"});
    served.put_rule("local", &rule).await?;
    let (gone, there) = (names(&cluster, true, 1)?, names(&cluster, false, 1)?);
    stop_first(&mut cluster)?;
    for n in 0..5 {
        for (name, is_degraded) in [(&gone[0], true), (&there[0], false)] {
            let told = served.check(name, "act").await?;
            let body = told.json()?;
            ensure!(told.status == 200 && body["allowed"] == (n < 3) && body["degraded"] == is_degraded, "check {n} of {name}: {told:?}");
        }
    }
    served.shutdown().await;
    Ok(())
}

/// What is scheduled in a realm is not late because others cannot be looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_scheduled_elsewhere_is_punctual() -> Result<()> {
    let (mut cluster, served) = start().await?;
    let (gone, there) = (names(&cluster, true, 6)?, names(&cluster, false, 1)?);
    let realm = json!({"assets": {"coin": {}}, "counters": {"ran": {}}, "plays": {
        "later": {"do": [{"schedule": {"play": "ran", "in": 1}}]},
        "ran": {"internal": true, "do": [{"counter": {"name": "ran", "add": 1}}]},
    }});
    for name in gone.iter().chain(&there) {
        served.put(&format!("/v1/realms/{name}"), &realm).await?;
    }
    stop_first(&mut cluster)?;
    let realm = format!("/v1/realms/{}", there[0]);
    // Long enough for what hangs to be in the way.
    tokio::time::sleep(REQUEST_MAX).await;
    let began = Instant::now();
    let told = served.post(&format!("{realm}/plays/later"), &json!({"by": "ann", "key": "k"})).await?;
    ensure!(told.status == 200, "{told:?}");
    let ran = async || {
        let told = served.get(&format!("{realm}/accounts/ann")).await.and_then(|told| told.json());
        told.is_ok_and(|told| told["counters"]["ran"]["value"] == 1)
    };
    until(REQUEST_MAX, "what was scheduled to run", ran).await?;
    ensure!(began.elapsed() >= Duration::from_secs(1), "too early");
    served.shutdown().await;
    Ok(())
}
