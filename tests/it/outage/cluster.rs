//! A Redis Cluster that loses a primary, or whose slots move, under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_core::Outcome;
use hermod_engine::Durability;
use hermod_tests::server::Cluster;
use hermod_tests::unique;
use redis::FromRedisValue;

use super::charger::Charger;
use super::load::{Acknowledged, Charge, Load, charge, subjects, timely};
use super::{REQUEST_MAX, until};

/// A failover takes the node time-out of 2 s and an election; on a busy machine some more.
const FAILOVER: Duration = Duration::from_secs(10);

/// Asks the node on `port`.
pub(crate) fn ask<T: FromRedisValue>(port: u16, command: &[&str]) -> Result<T> {
    let mut connection = redis::Client::open(format!("redis://127.0.0.1:{port}"))?.get_connection()?;
    let (name, args) = command.split_first().context("a command has a name")?;
    redis::cmd(name).arg(args).query(&mut connection).with_context(|| format!("{} to {port}", command.join(" ")))
}

/// The port of each node.
pub(super) fn ports(cluster: &Cluster) -> Vec<u16> {
    cluster.node_urls().iter().filter_map(|url| url.rsplit(':').next()?.parse().ok()).collect()
}

/// The slot of a subject's counter.
fn slot(charger: &Charger, port: u16, subject: &str) -> Result<u16> {
    ask(port, &["CLUSTER", "KEYSLOT", &charger.key(subject)?])
}

/// The shard that a slot belongs to at first.
pub(super) fn shard(slot: u16) -> usize {
    [5460, 10922].iter().filter(|last| slot > **last).count()
}

/// Charges without an idempotency key, waiting for `replicas`.
fn load(charger: &Charger, subjects: &[String], replicas: u32) -> Load {
    let charger = charger.clone();
    Load::start(subjects, move |subject| {
        let charger = charger.clone();
        async move { charge(charger.charge(&subject), replicas).await }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_primary_killed_mid_load() -> Result<()> {
    lose_a_primary(|cluster| cluster.kill_primary(0), Cluster::restart).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_primary_paused_mid_load() -> Result<()> {
    let pause = |cluster: &mut Cluster| {
        let port = cluster.primaries()?[0];
        cluster.pause(port).map(|()| port)
    };
    lose_a_primary(pause, Cluster::resume).await
}

/// With `replicas:1` no acknowledged charge is lost, though the primary that had it is: its idempotency key is still known.
async fn lose_a_primary(
    lose: impl FnOnce(&mut Cluster) -> Result<u16>,
    restore: impl FnOnce(&mut Cluster, u16) -> Result<()>,
) -> Result<()> {
    let mut cluster = Cluster::start()?;
    let one = Charger::open(&cluster.url(), |options| options.replicas = 1).await?;
    let other = one.beside(&cluster.url(), |options| options.replicas = 1).await?;
    let (subjects, acknowledged) = (subjects("bot", 32), Acknowledged::default());
    let (engines, kept, turn) = ([one.durable(), other.durable()], acknowledged.clone(), Arc::new(AtomicUsize::new(0)));
    let load = Load::start(&subjects, move |subject| {
        let (key, kept) = (unique("key"), kept.clone());
        let charger = engines[turn.fetch_add(1, Ordering::Relaxed) % engines.len()].clone();
        async move {
            let charged = charge(charger.charge_once(&subject, Some(&key)), 1).await;
            if charged == Charge::Acknowledged {
                kept.add(subject, key);
            }
            charged
        }
    });
    load.until_answered(300, 5 * REQUEST_MAX).await?;
    let lost = lose(&mut cluster)?;
    load.until_unknown(5, 5 * REQUEST_MAX).await?;
    for charger in [&one, &other] {
        for subject in &subjects {
            until(FAILOVER, &format!("{subject} to be answered"), async || charger.charge(subject).await.is_ok()).await?;
        }
    }
    // Without its replica the shard answers all the same, and says that it is less durable.
    load.ensure_well().await?;
    restore(&mut cluster, lost)?;
    for subject in &subjects {
        let is_durable = async || matches!(other.durable().charge(subject).await, Ok(ran) if ran.durability == Durability::Replicas(1));
        until(FAILOVER, &format!("{subject} to be on a replica again"), is_durable).await?;
    }
    load.ensure_well().await?;
    let accounts = load.stop().await?;
    ensure!(accounts.values().all(|account| account.acknowledged > 0), "{accounts:?}");
    let is_known = move |subject: String, key: String| {
        let charger = one.clone();
        async move { Ok(matches!(charger.charge_once(&subject, Some(&key)).await?.outcome, Outcome::Replayed(_))) }
    };
    acknowledged.ensure_known(is_known).await
}

/// A cluster that has lost a part answers for the rest, though it be the part that says what the data was created with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_shard_does_not_stop_the_others() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let primaries = cluster.primaries()?;
    let everywhere = |name: &str, value: &str, ports: &[u16]| -> Result<()> {
        ports.iter().try_for_each(|port| ask::<()>(*port, &["CONFIG", "SET", name, value]))
    };
    let nodes = ports(&cluster);
    let replicas: Vec<u16> = nodes.iter().copied().filter(|port| !primaries.contains(port)).collect();
    everywhere("cluster-require-full-coverage", "no", &nodes)?;
    everywhere("cluster-replica-no-failover", "yes", &replicas)?;
    let charger = Charger::open(&cluster.url(), |_| {}).await?;
    let meta: u16 = ask(primaries[0], &["CLUSTER", "KEYSLOT", hermod_core::key::META])?;
    let lost_shard = shard(meta);
    let (mut lost, mut kept) = (Vec::new(), Vec::new());
    for subject in subjects("bot", 32) {
        let part = if shard(slot(&charger, primaries[0], &subject)?) == lost_shard { &mut lost } else { &mut kept };
        part.push(subject);
    }
    ensure!(lost.len() > 4 && kept.len() > 4, "{lost:?} {kept:?}");
    let on_lost = load(&charger, &lost, 0);
    let on_kept = load(&charger, &kept, 0);
    on_lost.until_answered(100, 5 * REQUEST_MAX).await?;
    cluster.pause(primaries[lost_shard])?;
    on_lost.until_unknown(4 * u64::try_from(lost.len())?, 5 * REQUEST_MAX).await?;
    on_kept.until_answered(500, 5 * REQUEST_MAX).await?;
    charger.engine().ready()?;

    everywhere("cluster-replica-no-failover", "no", &replicas)?;
    for subject in &lost {
        until(2 * FAILOVER, &format!("{subject} to be answered"), async || charger.charge(subject).await.is_ok()).await?;
    }
    on_lost.stop().await?;
    for (subject, account) in on_kept.stop().await? {
        ensure!(account.unknown == 0, "{subject} lives elsewhere and was not answered: {account:?}");
    }
    Ok(())
}

/// One slot goes from one primary to another, key by key, while it is in use: by the plain way, by the one that
/// waits for replicas, and with idempotency keys, where a script touches two keys that do not move together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_mid_load() -> Result<()> {
    let cluster = Cluster::start()?;
    let charger = Charger::open(&cluster.url(), |options| options.replicas = 1).await?;
    let primaries = cluster.primaries()?;
    let moving = slot(&charger, primaries[0], "bot-0")?;
    let mut all = subjects("bot", 2000).into_iter();
    let mut in_slot = |count: usize| -> Result<Vec<String>> {
        let mut found = Vec::new();
        while found.len() < count {
            let subject = all.next().context("the slot has enough subjects")?;
            if slot(&charger, primaries[0], &subject)? == moving {
                found.push(subject);
            }
        }
        Ok(found)
    };
    let (plain, waiting, keyed) = (in_slot(6)?, in_slot(3)?, in_slot(3)?);
    let plain = load(&charger, &plain, 0);
    let waiting = load(&charger.durable(), &waiting, 1);
    let once = charger.clone();
    let keyed = Load::start(&keyed, move |subject| {
        let charger = once.clone();
        async move {
            let key = unique("key");
            // The same key until there is an answer, as a careful caller would: no doubt is left.
            loop {
                match timely(charger.charge_once(&subject, Some(&key))).await {
                    Ok(_) => return Charge::Acknowledged,
                    Err(fault) => assert!(fault.is_retryable(), "{fault:?}"),
                }
            }
        }
    });
    let pass = async |count| -> Result<()> {
        plain.until_answered(count, 5 * REQUEST_MAX).await?;
        waiting.until_answered(count / 4, 5 * REQUEST_MAX).await
    };
    pass(100).await?;
    let from = shard(moving);
    let (source, target) = (primaries[from], primaries[(from + 1) % 3]);
    let number = moving.to_string();
    let (source_id, target_id): (String, String) = (ask(source, &["CLUSTER", "MYID"])?, ask(target, &["CLUSTER", "MYID"])?);
    ask::<()>(target, &["CLUSTER", "SETSLOT", &number, "IMPORTING", &source_id])?;
    ask::<()>(source, &["CLUSTER", "SETSLOT", &number, "MIGRATING", &target_id])?;
    pass(100).await?;
    // A third of the keys is there, two thirds are here.
    let keys: Vec<String> = ask(source, &["CLUSTER", "GETKEYSINSLOT", &number, "100000"])?;
    migrate(source, target, &keys[..keys.len() / 3])?;
    pass(100).await?;
    loop {
        let keys: Vec<String> = ask(source, &["CLUSTER", "GETKEYSINSLOT", &number, "100"])?;
        if keys.is_empty() {
            break;
        }
        migrate(source, target, &keys)?;
    }
    pass(50).await?;
    for port in [target, source, primaries[(from + 2) % 3]] {
        ask::<()>(port, &["CLUSTER", "SETSLOT", &number, "NODE", &target_id])?;
    }
    pass(100).await?;
    keyed.until_answered(20, 5 * REQUEST_MAX).await?;
    let refusals: Vec<String> = primaries.iter().map(|port| ask(*port, &["INFO", "errorstats"])).collect::<Result<_>>()?;
    for refusal in ["ASK", "MOVED", "TRYAGAIN"] {
        ensure!(refusals.iter().any(|seen| seen.contains(&format!("errorstat_{refusal}:"))), "no {refusal} was met: {refusals:?}");
    }
    for (name, load) in [("plain", plain), ("waiting", waiting), ("keyed", keyed)] {
        for (subject, account) in load.stop().await? {
            let used = charger.used(&subject).await?;
            let answered = account.acknowledged + account.weak;
            ensure!(used >= answered && used <= answered + account.unknown, "{name}: {subject} has {used} used of {account:?}");
            // A machine that stalls may leave some without an answer; one that a move leaves without would have hundreds.
            ensure!(account.unknown <= 20, "{name}: {subject} was not answered {} times", account.unknown);
        }
    }
    Ok(())
}

/// Moves keys from one node to another.
pub(crate) fn migrate(source: u16, target: u16, keys: &[String]) -> Result<()> {
    let port = target.to_string();
    let command: Vec<&str> =
        ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    ask(source, &command)
}
