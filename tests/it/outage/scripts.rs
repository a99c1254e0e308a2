//! `FUNCTION FLUSH` on a running store: nobody notices.

use std::time::Duration;

use anyhow::{Result, ensure};
use hermod_tests::server::{Cluster, Redis};
use hermod_tests::until;

use super::charger::Charger;
use super::load::{Load, charge, subjects};

/// So often the functions are thrown away.
const FLUSHES: u64 = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn function_flush_is_not_noticed_on_a_single_node() -> Result<()> {
    let redis = Redis::start()?;
    flush_under_load(&redis.url(), &[redis.url()]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn function_flush_is_not_noticed_on_a_cluster() -> Result<()> {
    let cluster = Cluster::shared()?;
    flush_under_load(&cluster.url(), &cluster.node_urls()).await
}

async fn flush_under_load(url: &str, nodes: &[String]) -> Result<()> {
    // Charges that wait for replicas go another way than the others; here there may be none to wait for.
    let charger = Charger::open(url, |options| {
        options.replicas = 1;
        options.timeout = Duration::from_millis(500);
    })
    .await?;
    let (memory, durable) = (charger.clone(), charger.durable());
    let load = Load::start(&subjects("memory", 8), move |subject| {
        let charger = memory.clone();
        async move { charge(charger.charge(&subject), 0).await }
    });
    let waiting = Load::start(&subjects("durable", 1), move |subject| {
        let charger = durable.clone();
        async move { charge(charger.charge(&subject), 1).await }
    });
    let mut connections = Vec::new();
    for node in nodes {
        connections.push(redis::Client::open(node.as_str())?.get_connection()?);
    }
    for _ in 0..FLUSHES {
        let (before, waited) = (load.answered(), waiting.answered());
        for connection in &mut connections {
            redis::cmd("FUNCTION").arg("FLUSH").query::<()>(connection)?;
        }
        until(Duration::from_secs(10), "answers after a flush", || load.answered() >= before + 8 && waiting.answered() > waited)?;
    }
    for load in [load, waiting] {
        for (subject, account) in load.stop().await? {
            ensure!(account.unknown == 0, "{subject} noticed: {account:?}");
            let used = charger.used(&subject).await?;
            ensure!(used == account.acknowledged + account.weak, "{subject} has {used} used of {account:?}");
        }
    }
    Ok(())
}
