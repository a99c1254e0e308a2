//! Workers come, go and die under load, on two servers; so do a server and a primary of the store.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_core::queue::{Act, Failing, Member, Staff, Terms, Upkeep};
use hermod_core::{Micros, Place, QueueId, SpaceId, WorkerId};
use hermod_engine::Engine;
use hermod_tests::server::{Cluster, Hermod};
use hermod_tests::{Store, unique};
use serde_json::json;
use tokio::task::JoinSet;

use super::load::{Load, join};
use super::sticky::Worker;
use super::stream::Stream;
use super::{Caller, Live, SOON, shared};
use crate::outage::until;
use crate::wake;

const RECIPIENTS: u64 = 40;
/// The node time-out of 2 s, an election, and a machine that does much else.
const RESUMED: Duration = Duration::from_secs(40);

/// Works under this name, on whichever server answers, until told to stop.
async fn worker(load: Load, teams: [Caller; 2], queue: &'static str, name: String, mut at: usize) -> Result<()> {
    while !load.is_stopped() {
        let team = &teams[at % 2];
        at += 1;
        let registered = team.put(&format!("/v1/queues/{queue}/workers/{name}"), &json!({})).await;
        let Some(registered) = registered.ok().filter(|reply| reply.status == 200) else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let incarnation = registered.expect(200)?["incarnation"].clone();
        let body = json!({"worker": name, "incarnation": incarnation, "count": 5, "wait_ms": 200});
        while !load.is_stopped() && load.work_as(team, queue, &body).await?.is_some() {}
    }
    Ok(())
}

/// Works until nothing is left.
async fn drain(load: &Load, team: &Caller, queue: &str) -> Result<()> {
    let last = team.register(queue, "last").await?;
    let body = json!({"worker": "last", "incarnation": last.incarnation, "count": 200, "wait_ms": 100});
    let began = Instant::now();
    loop {
        load.work_as(team, queue, &body).await?.context("an answer")?;
        let stats = team.stats(queue).await?;
        let left: u64 = ["ready", "scheduled", "leased"].iter().filter_map(|name| stats[name].as_u64()).sum();
        if left == 0 {
            return Ok(());
        }
        ensure!(began.elapsed() < RESUMED, "{left} are left: {stats}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_out_of_order_when_a_primary_and_a_server_die() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let url = cluster.url();
    let serve = || Hermod::serve(["--store", &url, "--durability", "replicas:1"]);
    let (mut killed, staying) = (serve()?, serve()?);
    let team = |hermod: &Hermod| -> Result<Caller> { Ok(Caller::new(hermod.url()?, Some(&hermod.admin_key()?))) };
    let teams = [team(&killed)?, team(&staying)?];
    for team in &teams {
        team.sticky("q", json!({"worker_ttl": "2s", "lease": "5s", "max_attempts": 100})).await?;
    }
    let load = Load::default().patient();
    let mut all = JoinSet::new();
    for n in 0..4_usize {
        all.spawn(worker(load.clone(), teams.clone(), "q", format!("w{n}"), n));
    }
    let mut pushers = load.start(&teams[1], "q", 3, 0, RECIPIENTS);
    let under_way = async || load.acked.load(Ordering::SeqCst) > 100;
    until(SOON, "the load to be under way", under_way).await?;
    killed.kill9()?;
    let port = cluster.kill_primary(0)?;
    cluster.settle()?;
    cluster.restart(port)?;
    let acked = load.acked.load(Ordering::SeqCst);
    until(RESUMED, "the load to go on", async || load.acked.load(Ordering::SeqCst) > acked + 100).await?;
    load.stop();
    join(std::mem::take(&mut pushers)).await?;
    join(std::mem::take(&mut all)).await?;
    drain(&load, &teams[1], "q").await?;
    let sum = load.ledger.check_drained()?;
    println!("{sum:?}");
    ensure!(teams[1].stats("q").await?["dead"] == 0);
    Ok(())
}

/// One after the other drains, leaves and comes back, as in a rollout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_all_workers_redelivers_nothing() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("rolling")).await?;
        let team = &live.team;
        team.sticky("q", json!({})).await?;
        let load = Load::default();
        let mut pushers = load.start(team, "q", 2, 0, RECIPIENTS);
        let mut all = JoinSet::new();
        for n in 0..3_u64 {
            let (load, team) = (load.clone(), team.clone());
            all.spawn(async move {
                let name = format!("w{n}");
                for round in 0..4_u64 {
                    let worker = team.register("q", &name).await?;
                    let body = json!({"worker": name, "incarnation": worker.incarnation, "count": 3, "wait_ms": 50});
                    // Not all at once.
                    let until = Instant::now() + Duration::from_millis(300 + 200 * ((n + round) % 3));
                    while Instant::now() < until {
                        load.work_as(&team, "q", &body).await?.context("it is registered")?;
                    }
                    team.drain("q", &worker).await?;
                    // It holds nothing, as it acks whatever it claims before it goes on.
                    while load.work_as(&team, "q", &body).await?.context("it is registered")? > 0 {}
                    team.delete(&format!("/v1/queues/q/workers/{name}")).await?.expect(204)?;
                }
                Ok(())
            });
        }
        join(all).await?;
        load.stop();
        join(std::mem::take(&mut pushers)).await?;
        drain(&load, team, "q").await?;
        let sum = load.ledger.check_drained()?;
        ensure!(sum.repeated == 0 && sum.finished > 100, "{store:?}: {sum:?}");
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_stream_is_noticed_within_two_seconds() -> Result<()> {
    for store in Store::ALL {
        for is_socket in [false, true] {
            let live = Live::start(&shared(store)?, &unique("closed")).await?;
            let team = &live.team;
            team.sticky("q", json!({"worker_ttl": "1h"})).await?;
            let open = async |query: &str| match is_socket {
                true => Stream::socket(&live, query).await,
                false => Stream::events(&live, query).await,
            };
            let mut stream = open("worker=dies&credits=1").await?;
            team.push("q", json!({"to": "ann", "payload": 1})).await?;
            let held = stream.next().await?;
            let heir = team.register("q", "heir").await?;
            let closed = Instant::now();
            drop(stream);
            let taken = team.claim_as("q", &heir, json!({"wait_ms": 10_000})).await?;
            let took = closed.elapsed();
            ensure!(taken.len() == 1 && taken[0]["attempt"] == 2, "{store:?}: {taken:?}");
            ensure!(took < Duration::from_secs(2), "{store:?}: after {took:?}");
            assert_eq!(team.settle("q", "ack", &held, json!({})).await?["outcome"], "stale");
            let explained = team.explain("q", "ann").await?;
            assert_eq!(explained["changes"][0]["why"], "closed", "{explained}");
            live.stop().await;
        }
    }
    Ok(())
}

/// Who comes back within the second keeps its recipients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_opened_again_keeps_its_recipients() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("again")).await?;
        let team = &live.team;
        team.sticky("q", json!({"worker_ttl": "1h"})).await?;
        let worker = team.register("q", "w1").await?;
        let query = format!("worker=w1&incarnation={}", worker.incarnation);
        let mut stream = Stream::events(&live, &query).await?;
        team.push("q", json!({"to": "ann", "payload": 1})).await?;
        stream.next().await?;
        team.register("q", "other").await?;
        drop(stream);
        let mut stream = Stream::events(&live, &query).await?;
        assert_eq!(stream.next().await?["payload"], 1);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(team.explain("q", "ann").await?["worker"], "w1", "{store:?}");
        live.stop().await;
    }
    Ok(())
}

/// A busy stream of an old life is told, too: it would wait for room until its leases are renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_stream_ends_when_another_registers_under_its_name() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("full")).await?;
        let team = &live.team;
        team.sticky("q", json!({"worker_ttl": "1h"})).await?;
        let mut stream = Stream::events(&live, "worker=w1&credits=1").await?;
        team.push("q", json!({"to": "ann", "payload": 1})).await?;
        stream.next().await?;
        team.register("q", "w1").await?;
        let ended = tokio::time::timeout(Duration::from_secs(5), stream.ends()).await;
        ensure!(ended.is_ok(), "{store:?}: the old life is not told");
        live.stop().await;
    }
    Ok(())
}

/// Who is there and does not answer is as silent as who is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mute_socket_is_noticed_within_the_time_of_a_worker() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("mute")).await?;
        let team = &live.team;
        team.sticky("q", json!({"worker_ttl": "2s"})).await?;
        let mut mute = Stream::socket(&live, "worker=mute&credits=1").await?;
        team.push("q", json!({"to": "ann", "payload": 1})).await?;
        // Nothing is read from here on, so no ping is answered.
        mute.next().await?;
        let silent_since = Instant::now();
        let heir = team.register("q", "heir").await?;
        let taken = team.claim_as("q", &heir, json!({"wait_ms": 10_000})).await?;
        ensure!(taken.len() == 1, "{store:?}");
        ensure!(silent_since.elapsed() < Duration::from_millis(3_500), "{store:?}: after {:?}", silent_since.elapsed());
        live.stop().await;
    }
    Ok(())
}

/// Tells every partition but the one where all workers are looked for that this one lives for `ttl` from now on.
async fn renew_elsewhere(engine: &Engine, space: &SpaceId, worker: &Worker, ttl: Duration) -> Result<()> {
    let queue = QueueId::new("q")?;
    let home = engine.partitions().place(space, &format!("queue {queue}")).partition;
    let failing = Failing { max_attempts: 5, drops: false, drop_after: None };
    let upkeep = Upkeep { ttl: Micros::from_duration(ttl).context("a time")?, idle_after: Micros::MAX, failing };
    let member =
        Member { worker: WorkerId::new(&worker.name)?, incarnation: worker.incarnation.as_u64().context("a number")?, age: Micros::ZERO };
    for partition in (0..engine.partitions().count()).filter(|partition| *partition != home) {
        let place = Place { space: space.clone(), partition };
        let terms = Terms { is_sticky: true, floor: 0 };
        engine.run(&Staff::new(place, queue.clone(), terms, Act::Renew, upkeep, vec![member.clone()]), None).await?;
    }
    Ok(())
}

/// Partitions are told of a worker one after the other, so its time ends in some of them later than where it is looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_are_moved_also_where_the_silent_worker_s_time_ends_later() -> Result<()> {
    const MANY: u64 = 5_000;
    let (url, space) = (shared(Store::Redis)?, unique("later"));
    let live = Live::start(&url, &space).await?;
    let team = &live.team;
    team.sticky("q", json!({"worker_ttl": "3s"})).await?;
    let silent = team.register("q", "silent").await?;
    let lines: String = (0..MANY).map(|n| format!("{{\"to\":\"r{n}\",\"payload\":1}}\n")).collect();
    team.push_lines("q", &lines).await?;
    let heir = team.register("q", "heir").await?;
    renew_elsewhere(&wake::open(&url).await?, &SpaceId::new(&space)?, &silent, Duration::from_millis(3_500)).await?;
    let told = Instant::now();
    loop {
        ensure!(team.heartbeat("q", &heir).await? == 200, "one who lives was taken for gone");
        let workers = team.get("/v1/queues/q/workers").await?.expect(200)?;
        let items = workers["items"].as_array().context("a list")?;
        if items.iter().any(|item| item["worker"] == "heir" && item["recipients"] == MANY) {
            break;
        }
        ensure!(told.elapsed() < Duration::from_secs(3 + 5), "not all have moved: {workers}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    live.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_has_a_stream_on_another_server_is_not_gone() -> Result<()> {
    let url = shared(Store::Redis)?;
    let live = Live::start(&url, &unique("elsewhere")).await?;
    live.team.sticky("q", json!({"worker_ttl": "1h"})).await?;
    let (other, beside) = live.beside(&url).await?;
    let worker = live.team.register("q", "both").await?;
    let query = format!("worker=both&incarnation={}&credits=1", worker.incarnation);
    let mut stays = Stream::events_at(&other, &beside, &query).await?;
    for round in 0..4_u64 {
        let closes = Stream::events(&live, &query).await?;
        // The one that stays is told of at other times than the one that goes.
        tokio::time::sleep(Duration::from_millis(100 + 700 * round)).await;
        drop(closes);
        tokio::time::sleep(Duration::from_secs(2)).await;
        ensure!(live.team.heartbeat("q", &worker).await? == 200, "it was taken for gone in round {round}");
    }
    beside.push("q", json!({"to": "ann", "payload": 1})).await?;
    ensure!(stays.next().await?["attempt"] == 1);
    other.shutdown().await;
    live.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_told_that_the_worker_left() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("left")).await?;
        let team = &live.team;
        team.sticky("q", json!({})).await?;
        let worker = team.register("q", "leaves").await?;
        let (waiting, body) = (team.clone(), json!({"worker": "leaves", "incarnation": worker.incarnation, "wait_ms": 20_000}));
        let claim = tokio::spawn(async move { waiting.post("/v1/queues/q/claim", &body).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        let left = Instant::now();
        team.delete("/v1/queues/q/workers/leaves").await?.expect(204)?;
        claim.await??.problem(409, "worker_gone", Some("worker"))?;
        ensure!(left.elapsed() < Duration::from_secs(3), "{store:?}: after {:?}", left.elapsed());
        live.stop().await;
    }
    Ok(())
}

/// So much is under way to it that the next does not fit, and nobody would ever ask whether it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_takes_nothing_is_noticed_within_the_time_of_a_worker() -> Result<()> {
    let live = Live::start("embedded", &unique("stuck")).await?;
    let team = &live.team;
    team.sticky("q", json!({"worker_ttl": "3s"})).await?;
    let _stuck = Stream::socket(&live, "worker=stuck&credits=1000").await?;
    let large = "x".repeat(250_000);
    for n in 0..100 {
        team.push("q", json!({"to": format!("r{n}"), "payload": large})).await?;
    }
    let heir = team.register("q", "heir").await?;
    let began = Instant::now();
    let mut taken = 0;
    while taken < 100 {
        taken += team.claim_as("q", &heir, json!({"count": 10, "wait_ms": 500})).await?.len();
        ensure!(began.elapsed() < Duration::from_secs(10), "{taken} of 100 have moved");
    }
    live.stop().await;
    Ok(())
}

/// Who reads slowly, and says what became of each, is there, though it reads the question whether it is long after that was asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_reads_slowly_is_not_taken_for_gone() -> Result<()> {
    let live = Live::start("embedded", &unique("slow")).await?;
    let team = &live.team;
    team.sticky("q", json!({"worker_ttl": "3s"})).await?;
    let large = "x".repeat(250_000);
    for n in 0..60 {
        team.push("q", json!({"to": format!("r{n}"), "payload": large})).await?;
    }
    let mut slow = Stream::socket(&live, "worker=slow&credits=60").await?;
    let mut taken = 0;
    while taken < 60 {
        let told = tokio::time::timeout(SOON, slow.told()).await??.with_context(|| format!("it was cut off after {taken}"))?;
        let one = &told["delivery"];
        if one.is_object() {
            taken += 1;
            ensure!(one["attempt"] == 1, "{taken}: attempt {}", one["attempt"]);
            slow.write(&json!({"act": "ack", "id": one["id"], "token": one["token"]})).await?;
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    }
    live.stop().await;
    Ok(())
}
