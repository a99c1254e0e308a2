//! Sticky queues: each recipient has its worker, while that lives.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_tests::{Store, unique};
use serde_json::{Value, json};

use super::{Live, SOON, held, on_every_store, payloads, shared};
use crate::http::site::{Ask, Caller};
use crate::outage::until;

/// A worker, and which of its lives this is.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) incarnation: Value,
}

impl Caller {
    /// Makes a sticky queue.
    pub(super) async fn sticky(&self, queue: &str, fields: Value) -> Result<()> {
        self.queue(queue, super::with(json!({"mode": "sticky", "lease": "10m", "max_attempts": 9}), &fields)).await.map(drop)
    }

    pub(super) async fn register(&self, queue: &str, name: &str) -> Result<Worker> {
        let registered = self.put(&format!("/v1/queues/{queue}/workers/{name}"), &json!({})).await?.expect(200)?;
        Ok(Worker { name: name.to_owned(), incarnation: registered["incarnation"].clone() })
    }

    /// Claims as a worker; what was handed out.
    pub(super) async fn claim_as(&self, queue: &str, worker: &Worker, fields: Value) -> Result<Vec<Value>> {
        let asked = super::with(json!({"worker": worker.name, "incarnation": worker.incarnation, "count": 100}), &fields);
        self.claim(queue, asked).await
    }

    pub(super) async fn heartbeat(&self, queue: &str, worker: &Worker) -> Result<u16> {
        let path = format!("/v1/queues/{queue}/workers/{}/heartbeat", worker.name);
        Ok(self.post(&path, &json!({"incarnation": worker.incarnation})).await?.status)
    }

    pub(super) async fn drain(&self, queue: &str, worker: &Worker) -> Result<Value> {
        self.post(&format!("/v1/queues/{queue}/workers/{}/drain", worker.name), &json!({})).await?.expect(200)
    }

    pub(super) async fn explain(&self, queue: &str, recipient: &str) -> Result<Value> {
        self.get(&format!("/v1/queues/{queue}/recipients/{recipient}")).await?.expect(200)
    }

    /// What is said of a worker.
    pub(super) async fn worker(&self, queue: &str, name: &str) -> Result<Value> {
        let list = self.get(&format!("/v1/queues/{queue}/workers")).await?.expect(200)?;
        let found = list["items"].as_array().context("a list")?.iter().find(|worker| worker["worker"] == name).cloned();
        Ok(found.unwrap_or_default())
    }

    /// Pushes one delivery to each recipient.
    pub(super) async fn push_to_each(&self, queue: &str, recipients: &[String], payload: u64) -> Result<()> {
        for to in recipients {
            self.push(queue, json!({"to": to, "payload": payload})).await?;
        }
        Ok(())
    }
}

pub(super) fn recipients(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("r{n}")).collect()
}

/// To whom deliveries were handed out.
pub(super) fn tos(deliveries: &[Value]) -> Vec<String> {
    let mut tos: Vec<String> = deliveries.iter().filter_map(|delivery| delivery["to"].as_str().map(str::to_owned)).collect();
    tos.sort_unstable();
    tos
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recipients_stay_with_their_worker_and_are_shared_out_in_turn() -> Result<()> {
    on_every_store(async |_, team| {
        // In one partition the turns are exact.
        team.sticky("q", json!({"order": "total"})).await?;
        let (one, other) = (team.register("q", "w1").await?, team.register("q", "w2").await?);
        let all = recipients(10);
        team.push_to_each("q", &all, 1).await?;
        let (first, second) = (team.claim_as("q", &one, json!({})).await?, team.claim_as("q", &other, json!({})).await?);
        ensure!(first.len() == 5 && second.len() == 5, "{} and {}", first.len(), second.len());
        let (mine, theirs) = (tos(&first), tos(&second));
        for delivery in first.iter().chain(&second) {
            team.ack("q", delivery).await?;
        }
        team.push_to_each("q", &all, 2).await?;
        assert_eq!(tos(&team.claim_as("q", &one, json!({})).await?), mine, "as before");
        assert_eq!(tos(&team.claim_as("q", &other, json!({})).await?), theirs);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_are_turns() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({"order": "total"})).await?;
        team.put("/v1/queues/q/workers/heavy", &json!({"weight": 3})).await?.expect(200)?;
        team.register("q", "light").await?;
        team.push_to_each("q", &recipients(40), 1).await?;
        let (heavy, light) = (team.worker("q", "heavy").await?, team.worker("q", "light").await?);
        assert_eq!((&heavy["recipients"], &light["recipients"], &heavy["weight"]), (&json!(30), &json!(10), &json!(3)));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_worker_is_not_stale() -> Result<()> {
    on_every_store(async |site, team| {
        team.sticky("q", json!({"worker_ttl": "15s"})).await?;
        let worker = team.register("q", "w1").await?;
        site.at_ms(14_999);
        team.push("q", json!({"to": "ann", "payload": 1})).await?;
        assert_eq!(payloads(&team.claim_as("q", &worker, json!({})).await?), [json!(1)], "to register is the first heartbeat");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_worker_is_not_stale() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("idle")).await?;
        let team = &live.team;
        team.sticky("q", json!({"worker_ttl": "1s"})).await?;
        let (beats, waits) = (team.register("q", "beats").await?, team.register("q", "waits").await?);
        let waiting = {
            let (team, waits) = (team.clone(), waits.clone());
            tokio::spawn(async move { team.claim_as("q", &waits, json!({"wait_ms": 4_000})).await })
        };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(3_500) {
            assert_eq!(team.heartbeat("q", &beats).await?, 200, "{store:?}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        for worker in ["beats", "waits"] {
            assert_eq!(team.worker("q", worker).await?["state"], "live", "{store:?}: {worker}");
        }
        assert_eq!(waiting.await??, Vec::<Value>::new());
        live.stop().await;
    }
    Ok(())
}

/// Nobody says anything more; within the time a worker has, and a second, another has what it had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lone_message_to_a_dead_worker_is_taken_over() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("lone")).await?;
        let team = &live.team;
        team.sticky("q", json!({"worker_ttl": "1s"})).await?;
        let dead = team.register("q", "dead").await?;
        team.push("q", json!({"to": "ann", "payload": "held"})).await?;
        team.push("q", json!({"to": "ann", "payload": "next"})).await?;
        team.push("q", json!({"to": "bob", "payload": "waits"})).await?;
        let taken = team.claim_as("q", &dead, json!({"count": 1})).await?;
        let silent_since = Instant::now();
        let alive = team.register("q", "alive").await?;
        let mut got = Vec::new();
        while got.len() < 2 {
            got.extend(team.claim_as("q", &alive, json!({"wait_ms": 5_000})).await?);
            ensure!(silent_since.elapsed() < SOON, "{store:?}: {got:?}");
        }
        let took = silent_since.elapsed();
        ensure!(took >= Duration::from_millis(900) && took < Duration::from_millis(2_500), "{store:?}: after {took:?}");
        assert_eq!(tos(&got), ["ann", "bob"]);
        let stale = team.settle("q", "ack", &taken[0], json!({})).await?;
        assert_eq!(stale["outcome"], "stale", "{store:?}");
        let explained = team.explain("q", "ann").await?;
        assert_eq!((&explained["worker"], &explained["changes"][0]["why"]), (&json!("alive"), &json!("silent")), "{explained}");
        assert_eq!(explained["pending"], 2);
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_routers_one_owner() -> Result<()> {
    for store in [Store::Redis, Store::Cluster] {
        let (url, space) = (shared(store)?, unique("routers"));
        let servers = [Live::start(&url, &space).await?, Live::start(&url, &space).await?];
        let [one, other] = &servers;
        one.team.sticky("q", json!({})).await?;
        other.team.sticky("q", json!({})).await?;
        let workers = [one.team.register("q", "w1").await?, other.team.register("q", "w2").await?];
        let all = recipients(40);
        // Both route to all of them at once.
        let (a, b) = tokio::join!(one.team.push_to_each("q", &all, 1), other.team.push_to_each("q", &all, 2));
        a?;
        b?;
        let mut owners = std::collections::BTreeMap::new();
        let mut finished = 0;
        while finished < 80 {
            for (worker, live) in workers.iter().zip(&servers) {
                for delivery in live.team.claim_as("q", worker, json!({"wait_ms": 100})).await? {
                    let to = delivery["to"].as_str().context("a recipient")?.to_owned();
                    let owner = owners.entry(to.clone()).or_insert_with(|| worker.name.clone());
                    ensure!(*owner == worker.name, "{store:?}: {to} has two owners");
                    live.team.ack("q", &delivery).await?;
                    finished += 1;
                }
            }
        }
        for live in servers {
            live.stop().await;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_equals_unfinished() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        let worker = team.register("q", "w1").await?;
        let all = recipients(7);
        for payload in 0..3 {
            team.push_to_each("q", &all, payload).await?;
        }
        let is = async |recipients: u64, pending: u64, in_flight: u64| -> Result<()> {
            let shown = team.worker("q", "w1").await?;
            assert_eq!(
                (&shown["recipients"], &shown["pending"], &shown["in_flight"]),
                (&json!(recipients), &json!(pending), &json!(in_flight))
            );
            Ok(())
        };
        is(7, 21, 0).await?;
        let taken = team.claim_as("q", &worker, json!({})).await?;
        is(7, 21, 7).await?;
        team.ack("q", &taken[0]).await?;
        is(7, 20, 6).await?;
        team.settle("q", "nack", &taken[1], json!({"delay": "1s"})).await?;
        is(7, 20, 5).await?;
        let to = taken[1]["to"].as_str().context("a recipient")?;
        let explained = team.explain("q", to).await?;
        assert_eq!((&explained["pending"], &explained["head"]["attempts"]), (&json!(3), &json!(1)), "{explained}");
        team.edit("q", &explained["head"]["id"], None).await?;
        is(7, 19, 5).await?;
        Ok(())
    })
    .await
}

/// Tokens only grow, also when a clock goes back, and are then ahead of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_in_flight_since_a_time_to_come() -> Result<()> {
    on_every_store(async |site, team| {
        team.sticky("q", json!({})).await?;
        let worker = team.register("q", "w1").await?;
        let claimed_at = async |ms: u64| -> Result<Value> {
            site.at_ms(ms);
            team.push("q", json!({"to": "ann", "payload": 1})).await?;
            let claimed = team.claim_as("q", &worker, json!({})).await?;
            let since = team.explain("q", "ann").await?["head"]["in_flight_since"].clone();
            team.ack("q", claimed.first().context("it is due")?).await?;
            Ok(since)
        };
        assert_eq!(claimed_at(5_000).await?, super::at(5_000));
        assert_eq!(claimed_at(3_000).await?, super::at(3_000));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zombie_ack_is_stale() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        let (zombie, heir) = (team.register("q", "zombie").await?, team.register("q", "heir").await?);
        let all = recipients(20);
        team.push_to_each("q", &all, 1).await?;
        let taken = team.claim_as("q", &zombie, json!({})).await?;
        ensure!(!taken.is_empty());
        team.delete("/v1/queues/q/workers/zombie").await?.expect(204)?;
        for verb in ["ack", "nack", "extend"] {
            assert_eq!(team.settle("q", verb, &taken[0], json!({})).await?["outcome"], "stale", "before the heir has looked: {verb}");
        }
        let claimed = team.post("/v1/queues/q/claim", &json!({"worker": "zombie", "incarnation": zombie.incarnation})).await?;
        claimed.problem(409, "worker_gone", Some("worker"))?;
        assert_eq!(team.heartbeat("q", &zombie).await?, 409);
        let inherited = team.claim_as("q", &heir, json!({})).await?;
        assert_eq!(tos(&inherited).len(), 20, "all of them are the heir's");
        assert_eq!(team.settle("q", "ack", &taken[0], json!({})).await?["outcome"], "stale");
        for delivery in &inherited {
            team.ack("q", delivery).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_redelivers_nothing() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        let leaving = team.register("q", "leaving").await?;
        let all = recipients(20);
        for payload in 0..3 {
            team.push_to_each("q", &all, payload).await?;
        }
        let in_hand = team.claim_as("q", &leaving, json!({"count": 8})).await?;
        ensure!(in_hand.len() == 8);
        let staying = team.register("q", "staying").await?;
        assert_eq!(team.drain("q", &leaving).await?["state"], "draining");
        let mut seen: Vec<(String, u64)> = Vec::new();
        let mut note = |delivery: &Value| {
            assert_eq!(delivery["attempt"], 1, "handed out once: {delivery}");
            seen.push((delivery["to"].as_str().unwrap_or_default().to_owned(), delivery["payload"].as_u64().unwrap_or(99)));
        };
        // Whom it holds nothing of have gone to the other; the others follow when it is done.
        let moved = team.claim_as("q", &staying, json!({})).await?;
        assert_eq!(moved.len(), 12);
        assert_eq!(team.claim_as("q", &leaving, json!({})).await?, Vec::<Value>::new(), "nothing new");
        for delivery in in_hand.iter().chain(&moved) {
            note(delivery);
            team.ack("q", delivery).await?;
        }
        assert_eq!(team.worker("q", "leaving").await?["recipients"], 0);
        loop {
            let claimed = team.claim_as("q", &staying, json!({})).await?;
            if claimed.is_empty() {
                break;
            }
            for delivery in &claimed {
                note(delivery);
                team.ack("q", delivery).await?;
            }
        }
        assert_eq!(seen.len(), 60);
        for to in &all {
            let order: Vec<u64> = seen.iter().filter(|(seen, _)| seen == to).map(|(_, payload)| *payload).collect();
            assert_eq!(order, [0, 1, 2], "{to}");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_worker_parks() -> Result<()> {
    on_every_store(async |site, team| {
        team.sticky("q", json!({})).await?;
        let all = recipients(30);
        team.push_to_each("q", &all, 1).await?;
        let list = team.get("/v1/queues/q/workers").await?.expect(200)?;
        assert_eq!((&list["items"], &list["parked"]), (&json!([]), &json!(30)));
        assert_eq!(team.explain("q", "r0").await?["state"], "parked");
        let metrics = site.admin.get("/metrics").await?.text();
        ensure!(metrics.lines().any(|line| line.starts_with("hermod_queue_parked{") && line.ends_with(" 30")), "{metrics}");
        let worker = team.register("q", "w1").await?;
        // They are moved beside the answer, in steps.
        let is_adopted = async || team.worker("q", "w1").await.is_ok_and(|worker| worker["recipients"] == 30);
        until(SOON, "all are adopted", is_adopted).await?;
        assert_eq!(team.claim_as("q", &worker, json!({})).await?.len(), 30);
        let explained = team.explain("q", "r0").await?;
        assert_eq!((&explained["state"], &explained["changes"][0]["why"]), (&json!("owned"), &json!("first")), "{explained}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_moves_nothing() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        let first = team.register("q", "first").await?;
        let all = recipients(20);
        team.push_to_each("q", &all, 1).await?;
        let second = team.register("q", "second").await?;
        assert_eq!(team.claim_as("q", &second, json!({})).await?, Vec::<Value>::new());
        assert_eq!(team.claim_as("q", &first, json!({})).await?.len(), 20);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_with_same_id_keeps_recipients() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        let before = team.register("q", "w1").await?;
        let all = recipients(20);
        team.push_to_each("q", &all, 1).await?;
        team.push_to_each("q", &all, 2).await?;
        let taken = team.claim_as("q", &before, json!({"count": 15})).await?;
        ensure!(taken.len() == 15);
        let other = team.register("q", "w2").await?;
        let after = team.register("q", "w1").await?;
        ensure!(after.incarnation.as_u64() > before.incarnation.as_u64());
        // What was not finished is handed out again at once, to the same worker's new life.
        let again = team.claim_as("q", &after, json!({"wait_ms": 5_000})).await?;
        assert_eq!(tos(&again), {
            let mut all = all.clone();
            all.sort_unstable();
            all
        });
        ensure!(again.iter().filter(|delivery| delivery["attempt"] == 2).count() == 15);
        ensure!(again.iter().all(|delivery| delivery["payload"] == 1), "in order");
        assert_eq!(team.claim_as("q", &other, json!({})).await?, Vec::<Value>::new(), "nothing is the other's");
        let old = team.post("/v1/queues/q/ack", &held(&taken[0])).await?.expect(200)?;
        assert_eq!(old["outcome"], "stale");
        let old = team.post("/v1/queues/q/claim", &json!({"worker": "w1", "incarnation": before.incarnation})).await?;
        assert_eq!(old.status, 409);
        Ok(())
    })
    .await
}

/// Two lives of one name: what the old one is told must not keep anything from the new one, and it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zombie_hides_nothing_from_its_successor() -> Result<()> {
    for store in Store::ALL {
        let live = Live::start(&shared(store)?, &unique("zombie")).await?;
        let team = &live.team;
        team.sticky("q", json!({})).await?;
        let old = team.register("q", "w1").await?;
        let waits = {
            let (team, old) = (team.clone(), old.clone());
            tokio::spawn(async move {
                let asked = json!({"worker": old.name, "incarnation": old.incarnation, "wait_ms": 30_000});
                team.post("/v1/queues/q/claim", &asked).await
            })
        };
        team.push("q", json!({"to": "bob", "payload": 0})).await?;
        waits.await??.expect(200)?;
        let waits = {
            let (team, old) = (team.clone(), old.clone());
            tokio::spawn(async move {
                let asked = json!({"worker": old.name, "incarnation": old.incarnation, "wait_ms": 30_000});
                team.post("/v1/queues/q/claim", &asked).await
            })
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        let new = team.register("q", "w1").await?;
        waits.await??.problem(409, "worker_gone", Some("worker"))?;
        ensure!(began.elapsed() < Duration::from_secs(10), "{store:?}: who waits is told at once");
        team.push("q", json!({"to": "ann", "payload": 1})).await?;
        let asked = json!({"worker": "w1", "incarnation": old.incarnation});
        team.post("/v1/queues/q/claim", &asked).await?.problem(409, "worker_gone", Some("worker"))?;
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let taken = team.claim_as("q", &new, json!({"wait_ms": 5_000})).await?;
            ensure!(!taken.is_empty(), "{store:?}: {seen:?}");
            seen.extend(tos(&taken));
        }
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_message_does_not_kill_the_next_worker() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({"max_attempts": 2})).await?;
        team.push("q", json!({"to": "ann", "payload": "poison"})).await?;
        team.push("q", json!({"to": "ann", "payload": "fine"})).await?;
        for victim in ["w1", "w2"] {
            let worker = team.register("q", victim).await?;
            let taken = team.claim_as("q", &worker, json!({"wait_ms": 5_000})).await?;
            assert_eq!(payloads(&taken), ["poison"], "{victim}");
            team.delete(&format!("/v1/queues/q/workers/{victim}")).await?.expect(204)?;
        }
        let third = team.register("q", "w3").await?;
        assert_eq!(payloads(&team.claim_as("q", &third, json!({"wait_ms": 5_000})).await?), ["fine"]);
        assert_eq!(payloads(&team.list("q", "state=dead").await?), ["poison"]);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_is_followed_from_the_next_delivery_on_while_the_worker_lives() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        let one = team.register("q", "w1").await?;
        team.push("q", json!({"to": "ann", "payload": 1})).await?;
        team.push("q", json!({"to": "ann", "payload": 2})).await?;
        let held = team.claim_as("q", &one, json!({})).await?;
        let two = team.register("q", "w2").await?;
        let pinned = team.put("/v1/queues/q/recipients/ann", &json!({"worker": "w2"})).await?.expect(200)?;
        assert_eq!((&pinned["worker"], &pinned["pinned_to"]), (&json!("w1"), &json!("w2")), "what is held is finished first");
        team.ack("q", &held[0]).await?;
        assert_eq!(payloads(&team.claim_as("q", &two, json!({})).await?), [json!(2)]);
        team.delete("/v1/queues/q/workers/w2").await?.expect(204)?;
        let taken = team.claim_as("q", &one, json!({"wait_ms": 5_000})).await?;
        assert_eq!(payloads(&taken), [json!(2)], "nobody waits for one who is gone");
        team.register("q", "w2").await?;
        team.ack("q", &taken[0]).await?;
        team.push("q", json!({"to": "ann", "payload": 3})).await?;
        let explained = team.explain("q", "ann").await?;
        assert_eq!((&explained["worker"], &explained["changes"][0]["why"]), (&json!("w2"), &json!("pinned")), "{explained}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_pins_one_recipient_and_no_other() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        let pin = |n: u64| Ask::json("PUT", format!("/v1/queues/q/recipients/r{n}"), &json!({"worker": "w1"})).once("key");
        team.send(&pin(0)).await?.expect(200)?;
        team.send(&pin(0)).await?.expect(200)?;
        let mut conflicts = 0;
        // Keys are known by partition, of which there are 64: some of these share that of the first.
        for n in 1..300 {
            let reply = team.send(&pin(n)).await?;
            if reply.status == 422 {
                conflicts += 1;
            } else {
                assert_eq!(reply.expect(200)?["pinned_to"], "w1");
                assert_eq!(team.explain("q", &format!("r{n}")).await?["pinned_to"], "w1", "r{n}");
            }
        }
        ensure!(conflicts > 0, "none shares its partition with the first");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_assignments_are_trimmed() -> Result<()> {
    on_every_store(async |site, team| {
        team.sticky("q", json!({"idle_after": "60s", "worker_ttl": "1h"})).await?;
        let worker = team.register("q", "w1").await?;
        team.push("q", json!({"to": "ann", "payload": 1})).await?;
        let taken = team.claim_as("q", &worker, json!({})).await?;
        team.ack("q", &taken[0]).await?;
        site.at_ms(59_000);
        team.register("q", "w1").await?;
        assert_eq!(team.explain("q", "ann").await?["worker"], "w1");
        site.at_ms(60_000);
        team.register("q", "w1").await?;
        assert_eq!(team.explain("q", "ann").await?, json!({"recipient": "ann", "state": "idle", "pending": 0, "changes": []}));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sticky_queue_needs_is_said() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        team.queue("plain", json!({})).await?;
        let refused = async |reply: crate::http::site::Reply, status: u16, code: &str, field: &str| -> Result<()> {
            reply.problem(status, code, Some(field)).map(drop)
        };
        refused(team.post("/v1/queues/q/deliveries", &json!({"payload": 1})).await?, 400, "missing_field", "to").await?;
        refused(team.post("/v1/queues/q/claim", &json!({})).await?, 400, "missing_field", "worker").await?;
        refused(team.post("/v1/queues/q/claim", &json!({"worker": "w1"})).await?, 400, "missing_field", "incarnation").await?;
        refused(team.post("/v1/queues/q/claim", &json!({"worker": "w1", "incarnation": 7})).await?, 409, "worker_gone", "worker").await?;
        refused(team.post("/v1/queues/q/claim", &json!({"worker": "a b", "incarnation": 7})).await?, 400, "invalid_field", "worker")
            .await?;
        refused(team.post("/v1/queues/plain/claim", &json!({"worker": "w1", "incarnation": 7})).await?, 400, "invalid_field", "worker")
            .await?;
        refused(team.put("/v1/queues/plain/workers/w1", &json!({})).await?, 400, "invalid_field", "queue").await?;
        refused(team.put("/v1/queues/q/workers/w1", &json!({"weight": 17})).await?, 400, "invalid_field", "weight").await?;
        refused(team.put("/v1/queues/q/workers/w1", &json!({"wait": 1})).await?, 400, "unknown_field", "wait").await?;
        refused(team.put("/v1/queues/q", &json!({"mode": "sticky", "push": {"log": true}})).await?, 400, "invalid_field", "push").await?;
        team.push("plain", json!({"to": "ann", "payload": 1})).await?;
        assert_eq!(team.explain("plain", "ann").await?["state"], "free");
        refused(team.delete("/v1/queues/q/workers/w1").await?, 409, "worker_gone", "worker").await?;
        refused(team.post("/v1/queues/q/workers/w1/heartbeat", &json!({"incarnation": 1})).await?, 409, "worker_gone", "worker").await?;
        Ok(())
    })
    .await
}
