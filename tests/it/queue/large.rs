//! Payloads that are large: an answer of the store is bounded, and nobody's order suffers from it.

use anyhow::{Result, ensure};
use hermod_core::queue::push::Push;
use hermod_core::queue::{Claim, Claimed, Delivery, Due, Failing, Terms};
use hermod_core::{Micros, Outcome, Place, QueueId, SpaceId};
use hermod_tests::history::{Draws, Dumps};
use hermod_tests::{EngineLane, Store, unique};
use serde_json::json;

use super::on_every_store;

const FAILING: Failing = Failing { max_attempts: 5, drops: false, drop_after: None };
const SIZE: usize = 200_000;

/// The first byte of each tells which it is.
fn payload(n: u8) -> Vec<u8> {
    let mut payload = vec![b'x'; SIZE];
    payload[0] = b'0' + n;
    payload
}

async fn claim(lane: &EngineLane, place: &Place, queue: &QueueId) -> Result<Claimed> {
    let claim = Claim::new(place.clone(), queue.clone(), Terms::default(), 10, Micros::saturating(60_000_000), FAILING);
    match lane.engine().run(&claim, None).await?.outcome {
        Outcome::Done(claimed) => Ok(claimed),
        _ => anyhow::bail!("no key was given"),
    }
}

/// A mebibyte and what takes it over that is handed out in one step, the rest in the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_large_ones_come_in_two_steps_on_every_engine() -> Result<()> {
    let (space, queue) = (SpaceId::new(unique("large"))?, QueueId::new("q")?);
    let place = Place { space: space.clone(), partition: 7 };
    let mut lanes = Vec::new();
    for store in Store::ALL {
        let lane = EngineLane::open_in(store, space.clone()).await?;
        for some in [0..5, 5..10] {
            let deliveries = some.map(|n| Delivery::new(Due::In(Micros::ZERO), false, payload(n))).collect();
            lane.engine().run(&Push::new(place.clone(), queue.clone(), Terms::default(), FAILING, deliveries), None).await?;
        }
        let mut seen = Vec::new();
        for (count, has_more) in [(6, true), (4, false), (0, false)] {
            let claimed = claim(&lane, &place, &queue).await?;
            assert_eq!((claimed.handed.len(), claimed.next.is_some()), (count, has_more), "{store:?}");
            seen.extend(claimed.handed.iter().filter_map(|handed| handed.body.get(handed.body.len() - SIZE).copied()));
        }
        assert_eq!(seen, (b'0'..=b'9').collect::<Vec<_>>(), "{store:?}: in order");
        lanes.push(lane);
    }
    let state = Dumps::default().compare(&lanes, &mut Draws::new(1), Micros::ZERO).await?;
    ensure!(state.len() > 20, "ten bodies, and what was tried: {}", state.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_for_ten_large_ones_has_them_in_order() -> Result<()> {
    on_every_store(async |_, team| {
        team.queue("q", json!({"order": "total"})).await?;
        for n in 0..10 {
            team.push("q", json!({"payload": format!("{n}{}", "x".repeat(SIZE))})).await?;
        }
        let claimed = team.claim("q", json!({"count": 10})).await?;
        let firsts: String = claimed.iter().filter_map(|one| one["payload"].as_str()?.chars().next()).collect();
        assert_eq!(firsts, "0123456789");
        Ok(())
    })
    .await
}
