//! `FUNCTION FLUSH` on a running store: nobody notices. And what a call leaves to the next.

use std::time::Duration;

use anyhow::{Result, ensure};
use hermod_core::queue::push::Push;
use hermod_core::queue::{Delivery, Due, Failing, Terms};
use hermod_core::{Micros, Once, Outcome, QueueId, Recipient, SpaceId, key};
use hermod_engine::EngineError;
use hermod_tests::server::{Cluster, Redis};
use hermod_tests::until;

use super::charger::Charger;
use super::load::{Load, charge, subjects};

/// So often the functions are thrown away.
const FLUSHES: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn function_flush_is_not_noticed_on_a_single_node() -> Result<()> {
    let redis = Redis::start()?;
    flush_under_load(&redis.url(), &[redis.url()]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn function_flush_is_not_noticed_on_a_cluster() -> Result<()> {
    let cluster = Cluster::shared()?;
    let primaries: Vec<_> = cluster.primaries()?.into_iter().map(|port| format!("redis://127.0.0.1:{port}")).collect();
    flush_under_load(&cluster.url(), &primaries).await
}

async fn flush_under_load(url: &str, nodes: &[String]) -> Result<()> {
    // Charges that wait for replicas go another way than the others; here there may be none to wait for.
    let charger = Charger::open(url, |options| options.replicas = 1).await?;
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

/// What functions remember outlives a call, so one that fails half-way must leave nothing to the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_failed_leaves_nothing_to_the_next() -> Result<()> {
    let redis = Redis::start()?;
    let charger = Charger::open(&redis.url(), |_| {}).await?;
    let (engine, space) = (charger.engine(), SpaceId::default_space());
    let place = engine.partitions().place(&space, "ann");
    let terms = Terms { is_sticky: true, floor: 0 };
    let failing = Failing { max_attempts: 5, drops: false, drop_after: None };
    let push = |queue: &str, what: &str| {
        let mut delivery = Delivery::new(Due::In(Micros::ZERO), true, format!("\"{what}\""));
        delivery.to = Some(Recipient::new("ann")?);
        anyhow::Ok(Push::new(place.clone(), QueueId::new(queue)?, terms, failing, vec![delivery]))
    };
    // Nobody but us writes here; a key of another kind is what makes a command fail after others have run.
    let due = format!("{}due:*", key::queue(&place, &QueueId::new("broken")?).trim_end_matches('n'));
    redis.ask::<()>(&["SET", &due, "not a set"])?;
    for _ in 0..3 {
        for once in [None, Some(&Once::new("key", b"body")?)] {
            ensure!(engine.run(&push("broken", "lost")?, once).await.is_err(), "it did not fail");
        }
        engine.run(&push("whole", "kept")?, None).await?;
    }
    let dump = engine.dump(&space).await?;
    let of = |queue: &str| dump.iter().filter(|(name, _)| name.contains(&format!(":queue:{queue}:"))).collect::<Vec<_>>();
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let lost: Vec<_> = dump.iter().filter(|(_, value)| value.contains(&hex("lost"))).collect();
    ensure!(lost.is_empty() && of("broken").len() == 1, "what failed was written: {lost:?} {:?}", of("broken"));
    ensure!(!dump.keys().any(|name| name.contains(":once:")), "an answer that was never given is kept: {dump:?}");
    ensure!(dump.values().filter(|value| value.contains(&hex("kept"))).count() == 3, "{dump:?}");
    Ok(())
}

/// Many operations share a call, and one that fails must not take the others with it.
#[tokio::test]
async fn an_operation_that_fails_fails_alone() -> Result<()> {
    let redis = Redis::start()?;
    let charger = Charger::open(&redis.url(), |_| {}).await?;
    let (engine, space) = (charger.engine(), SpaceId::default_space());
    let failing = Failing { max_attempts: 5, drops: false, drop_after: None };
    let push = |queue: &str, what: &str| {
        let place = engine.partitions().place(&space, what);
        let delivery = Delivery::new(Due::In(Micros::ZERO), true, format!("\"{what}\""));
        anyhow::Ok(Push::new(place, QueueId::new(queue)?, Terms::default(), failing, vec![delivery]))
    };
    let broken = key::queue(&engine.partitions().place(&space, "broken"), &QueueId::new("broken")?);
    redis.ask::<()>(&["SET", &format!("{}due:*", broken.trim_end_matches('n')), "not a set"])?;
    // All are there before the first call is made, so they go together; every third has a key.
    let pushes: Vec<_> = (0..31).map(|n| if n % 10 == 5 { push("broken", "broken") } else { push("whole", &format!("d{n:02}")) }).collect();
    let run = pushes.into_iter().zip(0..).map(async |(push, n)| {
        let once = Once::new(&format!("key-{n}"), b"body")?;
        anyhow::Ok(engine.run(&push?, Some(&once).filter(|_| n % 3 == 0)).await)
    });
    for (ran, n) in futures_util::future::join_all(run).await.into_iter().zip(0..) {
        match ran? {
            Ok(ran) => ensure!(n % 10 != 5 && matches!(ran.outcome, Outcome::Done(_)), "{n}: {ran:?}"),
            Err(fault) => ensure!(n % 10 == 5 && matches!(fault, EngineError::Script(_)), "{n}: {fault:?}"),
        }
    }
    let dump = engine.dump(&space).await?;
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    for n in (0..31).filter(|n| n % 10 != 5) {
        let stored = dump.values().filter(|value| value.contains(&hex(&format!("\"d{n:02}\"")))).count();
        ensure!(stored == 1, "d{n:02} is stored {stored} times");
    }
    Ok(())
}
