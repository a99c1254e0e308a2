//! Several servers on one Redis: no delivery has two holders, and whoever waits hears of what others pushed.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_core::queue::DeliveryId;
use hermod_core::{Partitions, Place, QueueId, SpaceId, key};
use hermod_tests::server::{Cluster, Hermod, Redis};
use hermod_tests::{Store, unique};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::load::{Load, join};
use super::{Caller, Live, SOON, payloads, shared};
use crate::outage::cluster::ask;
use crate::outage::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holder_under_parallel_claims() -> Result<()> {
    const COUNT: u64 = 600;
    for store in [Store::Redis, Store::Cluster] {
        let (url, space) = (shared(store)?, unique("holder"));
        let servers = [Live::start(&url, &space).await?, Live::start(&url, &space).await?];
        for live in &servers {
            live.team.queue("q", json!({"lease": "5m"})).await?;
        }
        let load = Load::default();
        let mut claimers = JoinSet::new();
        for claimer in 0..12_u64 {
            let (load, team) = (load.clone(), servers[usize::from(claimer % 2 == 1)].team.clone());
            claimers.spawn(async move {
                // They are there before there is anything; most wait for it, some ask and ask.
                while load.acked.load(Ordering::SeqCst) < COUNT {
                    load.work(&team, "q", 1 + claimer, if claimer < 10 { 100 } else { 0 }).await?.context("an answer")?;
                }
                Ok(())
            });
        }
        for n in 0..COUNT {
            ensure!(load.push(&servers[usize::from(n % 3 == 0)].team, "q", 300, n % 5 * 10).await?);
        }
        join(claimers).await?;
        let sum = load.ledger.check_drained()?;
        ensure!(sum.handed == COUNT && sum.repeated == 0, "{store:?}: {sum:?}");
        for live in servers {
            live.stop().await;
        }
    }
    Ok(())
}

/// Who does not wait finds what another server pushed as well as who does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_does_not_wait_sees_what_another_server_pushed() -> Result<()> {
    for store in [Store::Redis, Store::Cluster] {
        let (url, space) = (shared(store)?, unique("beside"));
        let (one, other) = (Live::start(&url, &space).await?, Live::start(&url, &space).await?);
        for live in [&one, &other] {
            live.team.queue("q", json!({})).await?;
        }
        assert_eq!(one.team.claim("q", json!({})).await?, Vec::<Value>::new());
        for n in 0..5 {
            other.team.push("q", json!({"payload": n, "to": format!("r{n}")})).await?;
            let mut claimed = Vec::new();
            let is_there = async || {
                claimed = one.team.claim("q", json!({})).await.unwrap_or_default();
                !claimed.is_empty()
            };
            until(Duration::from_secs(2), "another server's delivery", is_there).await?;
            assert_eq!(payloads(&claimed), [n]);
            // Given back by the other server, it can be had here again.
            assert_eq!(other.team.settle("q", "nack", &claimed[0], json!({"delay": "0s"})).await?["outcome"], "retry");
            let is_back = async || match one.team.claim("q", json!({})).await.unwrap_or_default().first() {
                Some(again) => other.team.ack("q", again).await.is_ok(),
                None => false,
            };
            until(Duration::from_secs(2), "what another server gave back", is_back).await?;
        }
        one.stop().await;
        other.stop().await;
    }
    Ok(())
}

/// Wake-ups go by publish and subscribe, which forgets. Whoever waits gets the delivery all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_wake_up_heals() -> Result<()> {
    let redis = Redis::start()?;
    let (one, other) = (Live::start(&redis.url(), "space").await?, Live::start(&redis.url(), "space").await?);
    for live in [&one, &other] {
        live.team.queue("q", json!({})).await?;
    }
    let mut slowest = Duration::ZERO;
    for n in 0..6 {
        let team = one.team.clone();
        let waiting = tokio::spawn(async move { team.claim("q", json!({"wait_ms": 20_000})).await });
        let is_heard = async || redis.ask::<Vec<String>>(&["PUBSUB", "SHARDCHANNELS"]).is_ok_and(|all| all.len() >= 64);
        until(SOON, "somebody to wait", is_heard).await?;
        // The signal goes to a connection that is no more.
        redis.ask::<u64>(&["CLIENT", "KILL", "TYPE", "pubsub"])?;
        let began = Instant::now();
        other.team.push("q", json!({"payload": n, "to": format!("r{n}")})).await?;
        let claimed = waiting.await??;
        slowest = slowest.max(began.elapsed());
        assert_eq!(payloads(&claimed), [n]);
        one.team.ack("q", &claimed[0]).await?;
    }
    println!("without its signal a delivery was had after {slowest:?} at most");
    ensure!(slowest < Duration::from_millis(2_500), "{slowest:?}");
    one.stop().await;
    other.stop().await;
    Ok(())
}

/// A signal may be lost though every connection stands: it is never sent, as the server that pushes may not send any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_up_that_is_never_sent_heals() -> Result<()> {
    let redis = Redis::start()?;
    redis.ask::<()>(&["ACL", "SETUSER", "mute", "on", ">pw", "~*", "&*", "+@all"])?;
    let mute = format!("redis://mute:pw@127.0.0.1:{}", redis.port());
    let (one, other) = (Live::start(&redis.url(), "space").await?, Live::start(&mute, "space").await?);
    for live in [&one, &other] {
        live.team.queue("q", json!({})).await?;
        live.team.sticky("sticky", json!({})).await?;
    }
    redis.ask::<()>(&["ACL", "SETUSER", "mute", "-spublish", "-publish"])?;
    let worker = one.team.register("sticky", "w1").await?;
    let by_worker = json!({"worker": worker.name, "incarnation": worker.incarnation});
    let listens = || redis.ask::<String>(&["CLIENT", "LIST", "TYPE", "pubsub"]);
    let ids = |clients: &str| clients.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect::<Vec<_>>();
    let mut slowest = Duration::ZERO;
    for (n, (queue, asks)) in (0..).zip([("q", json!({})), ("sticky", by_worker)].into_iter().cycle().take(4)) {
        let (team, body) = (one.team.clone(), super::with(asks, &json!({"wait_ms": 20_000})));
        let waiting = tokio::spawn(async move { team.claim(queue, body).await });
        let channel = format!("*:queue:{queue}:wake");
        let is_heard = async || redis.ask::<Vec<String>>(&["PUBSUB", "SHARDCHANNELS", &channel]).is_ok_and(|all| all.len() >= 64);
        until(SOON, "somebody to wait", is_heard).await?;
        let before = ids(&listens()?);
        let began = Instant::now();
        let path = format!("/v1/queues/{queue}/deliveries");
        // What is stored is stored, whatever the answer is.
        let _answer = other.team.post(&path, &json!({"payload": n, "to": format!("r{n}")})).await?;
        let claimed = waiting.await??;
        slowest = slowest.max(began.elapsed());
        assert_eq!(payloads(&claimed), [n]);
        assert_eq!(ids(&listens()?), before, "no connection was lost");
        one.team.ack(queue, &claimed[0]).await?;
    }
    println!("without its signal a delivery was had after {slowest:?} at most");
    ensure!(slowest < Duration::from_millis(2_500), "{slowest:?}");
    one.stop().await;
    other.stop().await;
    Ok(())
}

/// Whoever waits sleeps: an hour of waiting costs no more than a moment of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_takes_no_time_of_the_processor() -> Result<()> {
    let hermod = Hermod::serve::<&str>([])?;
    let admin = Caller::new(hermod.url()?, Some(&hermod.admin_key()?));
    admin.queue("q", json!({})).await?;
    // Nor does a schedule whose runs the queue does not take.
    admin.queue("small", json!({})).await?;
    let too_long = json!({"cron": "* * * * * *", "payload": "longer than the queue takes"});
    admin.put("/v1/queues/small/schedules/s", &too_long).await?.expect(201)?;
    admin.queue("small", json!({"max_payload": 16})).await?;
    // Hundredths of a second, of the user and of the system.
    let used = || -> Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", hermod.pid()))?;
        let after = stat.rsplit_once(") ").context("a name in brackets")?.1;
        after.split(' ').skip(11).take(2).map(|ticks| Ok(ticks.parse::<u64>()?)).sum()
    };
    let before = used()?;
    let waits = (0..4).map(|_| admin.claim("q", json!({"wait_ms": 4_000})));
    for claimed in futures_util::future::join_all(waits).await {
        assert_eq!(claimed?, Vec::<Value>::new());
    }
    let used = used()? - before;
    println!("four who waited 4 s took {used}0 ms of the processor");
    ensure!(used < 100, "{used}0 ms");
    Ok(())
}

/// A waiter is told on time, on every store, and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_has_it_when_it_is_due() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("wait")).await?;
        live.team.queue("q", json!({})).await?;
        let load = Load::default();
        for n in 0..10 {
            ensure!(load.push(&live.team, "q", 10, 50 + n * 20).await?);
        }
        let began = Instant::now();
        while load.ledger.unfinished() > 0 {
            load.work(&live.team, "q", 1, 20_000).await?;
        }
        load.ledger.check_drained()?;
        println!("{store:?}: the last of 230 ms was had after {:?}", began.elapsed());
        ensure!(began.elapsed() < Duration::from_secs(2), "{store:?}: {:?}", began.elapsed());
        live.stop().await;
    }
    Ok(())
}

/// As when a shard is gone: what the others have is handed out meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_fails_does_not_keep_back_what_others_have() -> Result<()> {
    const MANY: usize = 40;
    let (cluster, space) = (Cluster::shared()?, unique("partly"));
    let live = Live::start(&cluster.url(), &space).await?;
    live.team.queue("q", json!({})).await?;
    let mut used = HashSet::new();
    for n in 0..MANY {
        let pushed = live.team.push("q", json!({"payload": n, "to": format!("r{n}")})).await?;
        let id: DeliveryId = pushed["id"].as_str().context("an id")?.parse()?;
        used.insert(id.partition);
    }
    let free = (0..Partitions::DEFAULT.count()).find(|partition| !used.contains(partition)).context("one has nothing")?;
    let book = key::queue(&Place { space: SpaceId::new(&space)?, partition: free }, &QueueId::new("q")?);
    let broken = format!("{}due:*", book.trim_end_matches('n'));
    // Whoever has the slot takes it.
    let broke = cluster.primaries()?.into_iter().any(|port| ask::<()>(port, &["SET", &broken, "not a set"]).is_ok());
    ensure!(broke, "nobody has {broken}");
    let (began, mut had) = (Instant::now(), 0);
    while had < MANY {
        let claimed = live.team.post("/v1/queues/q/claim", &json!({"count": 100, "wait_ms": 500})).await?;
        had += claimed.expect(200)?["deliveries"].as_array().context("a list")?.len();
        ensure!(began.elapsed() < SOON, "{had} of {MANY}");
    }
    live.stop().await;
    Ok(())
}
