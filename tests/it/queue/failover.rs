//! A Redis Cluster loses a primary in the middle of a load of two servers.
//!
//! Redis copies to replicas after it has answered. With `durability = memory` the last writes of a primary that dies may
//! be lost with it: a push, or the ack or the claim of a delivery, which then comes again. What holds all the same: tokens
//! only grow, nothing comes early or out of nothing, and service is back soon. With `replicas:1` an answer means
//! that the replica has it, and then everything holds.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hermod_server::Config;
use hermod_tests::server::Cluster;
use serde_json::json;

use super::load::{Load, join};
use super::{Live, SOON};
use crate::outage::until;

const RECIPIENTS: u64 = 60;
/// The node time-out of 2 s, an election, and a machine that does much else.
const RESUMED: Duration = Duration::from_secs(20);
/// So many recipients live in the partitions of every node.
const PROBES: u64 = 30;

async fn lose_a_primary(durability: &str) -> Result<()> {
    let mut cluster = Cluster::start()?;
    let start = async || {
        let (store, durability) = (cluster.url(), durability.to_owned());
        Live::start_with(|config| Config { store, durability, ..config }, "space").await
    };
    let servers = [start().await?, start().await?];
    for live in &servers {
        live.team.queue("q", json!({"lease": "2s", "max_attempts": 100})).await?;
    }
    let load = Load::default().patient();
    let mut all = load.start(&servers[0].team, "q", 3, 2, RECIPIENTS);
    let mut others = load.start(&servers[1].team, "q", 3, 2, RECIPIENTS);
    let under_way = async || load.pushed.load(Ordering::SeqCst) > 100 && load.acked.load(Ordering::SeqCst) > 50;
    until(SOON, "the load to be under way", under_way).await?;
    let (began, port) = (Instant::now(), cluster.kill_primary(0)?);
    if durability != "memory" {
        // Until its shard has a replica again, nothing there can be promised, and nothing is.
        cluster.settle()?;
        cluster.restart(port)?;
    }
    let back = Instant::now();
    // Deliveries to all sorts of recipients are taken again.
    let probe = Load::default();
    let team = &servers[0].team;
    let is_back = async || {
        while probe.pushed.load(Ordering::SeqCst) < PROBES {
            if !probe.push(team, "probe", PROBES, 0).await.unwrap_or(false) {
                return false;
            }
        }
        true
    };
    for live in &servers {
        live.team.queue("probe", json!({})).await?;
    }
    until(RESUMED, "service to resume", is_back).await?;
    println!("{durability}: killed, and back after {:?}, of that {:?} since all nodes were", began.elapsed(), back.elapsed());
    let acked = load.acked.load(Ordering::SeqCst);
    until(SOON, "the load to go on", async || load.acked.load(Ordering::SeqCst) > acked + 50).await?;
    load.stop();
    join(std::mem::take(&mut all)).await?;
    join(std::mem::take(&mut others)).await?;
    load.drain(&servers[1].team, "q").await?;
    let sum = if durability == "memory" { load.ledger.check_tokens()? } else { load.ledger.check_drained()? };
    println!("{durability}: {sum:?}, {} acknowledged and not delivered", load.ledger.unfinished());
    ensure!(team.stats("q").await?["dead"] == 0);
    for live in servers {
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_and_service_resumes_when_a_primary_dies() -> Result<()> {
    lose_a_primary("memory").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_replica_nothing_acknowledged_is_lost_when_a_primary_dies() -> Result<()> {
    lose_a_primary("replicas:1").await
}
