//! A sticky queue that is gone takes along who worked on it, and who had whom.

use anyhow::{Context, Result, ensure};
use hermod_core::queue::push::Push;
use hermod_core::queue::{Act, Claim, Delivery, Due, Failing, Forget, Member, Roll, Settle, SettleAct, Staff, Terms, Upkeep};
use hermod_core::{Micros, Operation, Outcome, Place, QueueId, Recipient, SpaceId, WorkerId};
use hermod_tests::history::{Draws, Dumps};
use hermod_tests::{EngineLane, Store, unique};
use serde_json::json;

use super::sticky::recipients;
use super::{SOON, on_every_store};
use crate::outage::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sticky_queue_made_again_has_no_workers_of_the_one_before() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        let (before, _) = (team.register("q", "w1").await?, team.register("q", "w2").await?);
        let all = recipients(30);
        team.push_to_each("q", &all, 1).await?;
        let claimed = team.claim_as("q", &before, json!({})).await?;
        for delivery in &claimed {
            team.ack("q", delivery).await?;
        }
        team.put("/v1/queues/q/recipients/pinned", &json!({"worker": "w1"})).await?.expect(200)?;
        // What the other one has was never claimed.
        team.delete("/v1/queues/q?purge=true").await?.expect(204)?;
        team.sticky("q", json!({})).await?;
        let list = team.get("/v1/queues/q/workers").await?.expect(200)?;
        assert_eq!((&list["items"], &list["parked"]), (&json!([]), &json!(0)));
        for to in ["r0", "r1", "pinned"] {
            assert_eq!(team.explain("q", to).await?, json!({"recipient": to, "state": "idle", "pending": 0, "changes": []}));
        }
        assert_eq!(team.heartbeat("q", &before).await?, 409, "it must register again");
        team.push("q", json!({"to": "r0", "payload": "anew"})).await?;
        assert_eq!(team.explain("q", "r0").await?["state"], "parked");
        let worker = team.register("q", "w3").await?;
        let mut got = Vec::new();
        let has = async || {
            got.extend(team.claim_as("q", &worker, json!({"wait_ms": 1_000})).await.unwrap_or_default());
            !got.is_empty()
        };
        until(SOON, "the new worker to have it", has).await?;
        assert_eq!(got[0]["payload"], "anew");
        let explained = team.explain("q", "r0").await?;
        assert_eq!((&explained["worker"], &explained["changes"].as_array().map(Vec::len)), (&json!("w3"), &Some(1)), "{explained}");
        if let Some(old) = claimed.first() {
            assert_eq!(team.settle("q", "ack", old, json!({})).await?["outcome"], "stale");
        }
        let stats = team.stats("q").await?;
        assert_eq!([&stats["leased"], &stats["ready"], &stats["dead"]], [1, 0, 0], "nothing else is there");
        Ok(())
    })
    .await
}

const FAILING: Failing = Failing { max_attempts: 5, drops: false, drop_after: None };
const HOUR: Micros = Micros::saturating(3_600_000_000);
const STICKY: Terms = Terms { is_sticky: true, floor: 0 };

async fn run<O: Operation>(lane: &EngineLane, op: &O) -> Result<O::Answer> {
    match lane.engine().run(op, None).await?.outcome {
        Outcome::Done(answer) => Ok(answer),
        _ => anyhow::bail!("no key was given"),
    }
}

/// Gives `count` recipients to a worker, and lets it finish what there is for them.
async fn fill(lane: &EngineLane, place: &Place, queue: &QueueId, count: usize) -> Result<()> {
    let worker = WorkerId::new("w1")?;
    let member = Member { worker: worker.clone(), incarnation: 0, age: Micros::ZERO };
    let upkeep = Upkeep { ttl: HOUR, idle_after: HOUR, failing: FAILING };
    let staffed = run(lane, &Staff::new(place.clone(), queue.clone(), STICKY, Act::Join { weight: 3 }, upkeep, vec![member])).await?;
    let incarnation = staffed.members.first().context("an answer")?.1;
    for from in (0..count).step_by(200) {
        let delivery = |n: usize| -> Result<Delivery> {
            let mut delivery = Delivery::new(Due::In(Micros::ZERO), true, "1");
            delivery.to = Some(Recipient::new(format!("r{n}"))?);
            Ok(delivery)
        };
        let some = (from..from + 200).map(delivery).collect::<Result<Vec<_>>>()?;
        run(lane, &Push::new(place.clone(), queue.clone(), STICKY, FAILING, some)).await?;
        let claim = Claim::new(place.clone(), queue.clone(), STICKY, 200, HOUR, FAILING).by(worker.clone(), incarnation);
        let held = run(lane, &claim).await?.handed.iter().map(|handed| (handed.number, handed.token)).collect();
        run(lane, &Settle::new(place.clone(), queue.clone(), STICKY, SettleAct::Ack, &FAILING, held)).await?;
    }
    Ok(())
}

/// How many steps it takes until all is forgotten.
async fn forget(lane: &EngineLane, place: &Place, queue: &QueueId) -> Result<usize> {
    let (first, mut steps) = (Forget::new(place.clone(), queue.clone()), 1);
    let mut forgotten = run(lane, &first).await?;
    while forgotten.next > 0 {
        steps += 1;
        forgotten = run(lane, &first.clone().from(forgotten.next)).await?;
    }
    Ok(steps)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_great_many_are_forgotten_in_steps_and_none_where_there_is_something() -> Result<()> {
    let (space, queue) = (SpaceId::new(unique("forget"))?, QueueId::new("q")?);
    let place = Place { space: space.clone(), partition: 3 };
    let mut lanes = Vec::new();
    for store in Store::ALL {
        lanes.push(EngineLane::open_in(store, space.clone()).await?);
    }
    let roll = Roll::new(place.clone(), queue.clone());
    for lane in &mut lanes {
        fill(lane, &place, &queue, 1_000).await?;
        let mut delivery = Delivery::new(Due::In(HOUR), true, "1");
        delivery.to = Some(Recipient::new("last")?);
        let pushed = run(lane, &Push::new(place.clone(), queue.clone(), STICKY, FAILING, vec![delivery])).await?;
        assert_eq!((forget(lane, &place, &queue).await?, run(lane, &roll).await?.workers.len()), (1, 1), "something is there");
        let number = pushed.stored.first().context("it is there")?.1;
        let cancel = hermod_core::queue::Edit::new(place.clone(), queue.clone(), STICKY, hermod_core::queue::Change::Cancel, vec![number]);
        run(lane, &cancel).await?;
        let steps = forget(lane, &place, &queue).await?;
        ensure!((4..=12).contains(&steps), "{steps} steps");
        ensure!(run(lane, &roll).await?.workers.is_empty());
        lane.reopen().await?;
        ensure!(run(lane, &roll).await?.workers.is_empty());
    }
    let left = Dumps::default().compare(&lanes, &mut Draws::new(1), Micros::ZERO).await?;
    ensure!(left.keys().all(|key| key.ends_with(":n") || key.ends_with(":turn")), "{left:?}");
    Ok(())
}
