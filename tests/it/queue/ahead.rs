//! Who waits claims a moment ahead, so that the lease is stored in time; and is answered on time, not before.
//!
//! What happens in that moment is seen from outside: a delivery that is leased though its time has not come. Where the
//! machine was too busy to act within it, there is another round.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use hermod_server::{Mode, Server};
use hermod_tests::{Store, unique};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::stream::Stream;
use super::{Caller, Live, epoch_ms, now_ms, payloads, shared, time};
use crate::http::site::config;

const LEASE_MS: u64 = 600_000;
const ROUNDS: u64 = 20;

/// One that may be attempted once would be dead if it had been.
async fn live(store: Store) -> Result<Live> {
    live_in(store, "shared").await
}

async fn live_in(store: Store, mode: &str) -> Result<Live> {
    let live = Live::start(&shared(store)?, &unique("ahead")).await?;
    live.team.queue("q", json!({"lease": "10m", "max_attempts": 1, "mode": mode})).await?;
    Ok(live)
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Of what was handed out: nothing early; whether its lease counts from its time.
fn is_on_time(delivery: &Value, now_us: u64) -> Result<bool> {
    let (due, until) = (epoch_ms(&delivery["due"])?, epoch_ms(&delivery["lease_until"])?);
    ensure!(now_us >= due * 1_000, "{} us early: {delivery}", due * 1_000 - now_us);
    ensure!(until >= due + LEASE_MS && delivery["attempt"] == 1, "{delivery}");
    Ok(until == due + LEASE_MS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_answered_on_time_and_never_early() -> Result<()> {
    const COUNT: u64 = 20;
    for store in Store::ALL {
        for query in [None, Some("credits=100&lease=10m"), Some("credits=100&lease=10m&worker=w1")] {
            let live = live_in(store, if query.is_some_and(|query| query.contains("worker")) { "sticky" } else { "shared" }).await?;
            let start = now_ms() + 200;
            for n in 0..COUNT {
                live.team.push("q", json!({"payload": n, "to": format!("r{n}"), "at": time(start + n * 40)})).await?;
            }
            let mut stream = match query {
                Some(query) => Some(Stream::events(&live, query).await?),
                None => None,
            };
            let (mut seen, mut exact) = (Vec::new(), 0);
            while seen.len() < 20 {
                let handed = match &mut stream {
                    Some(stream) => vec![stream.next().await?],
                    None => live.team.claim("q", json!({"wait_ms": 20_000, "count": 5})).await?,
                };
                let now = now_us();
                for delivery in &handed {
                    exact += u64::from(is_on_time(delivery, now)?);
                    live.team.ack("q", delivery).await?;
                }
                seen.extend(payloads(&handed));
            }
            // Those that a busy machine has let become overdue come in any order, as they lie in several partitions.
            seen.sort_by_key(Value::as_u64);
            assert_eq!(seen, (0..COUNT).map(|n| json!(n)).collect::<Vec<_>>(), "{store:?}");
            println!("{store:?}: {exact} of {COUNT} were held from their time on");
            ensure!(exact > 0, "{store:?}: none was claimed before its time");
            live.stop().await;
        }
    }
    Ok(())
}

/// Somebody waits for a delivery, which they have, and do not know yet: it is not due.
struct Moment {
    delivery: Value,
    due_ms: u64,
    waits: JoinHandle<Result<Vec<Value>>>,
}

impl Moment {
    /// None if it is over already.
    async fn catch(team: &Caller, payload: u64) -> Result<Option<Moment>> {
        let due_ms = now_ms() + 150;
        let delivery = team.push("q", json!({"payload": payload, "at": time(due_ms)})).await?;
        let consumer = team.clone();
        let waits = tokio::spawn(async move { consumer.claim("q", json!({"wait_ms": 20_000})).await });
        let path = format!("/v1/queues/q/deliveries/{}", delivery["id"].as_str().context("an id")?);
        while now_ms() < due_ms {
            if team.get(&path).await?.expect(200)?["state"] == "leased" && now_ms() + 10 < due_ms {
                return Ok(Some(Moment { delivery, due_ms, waits }));
            }
        }
        for held in waits.await?? {
            team.ack("q", &held).await?;
        }
        Ok(None)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_goes_away_before_its_time_costs_no_attempt() -> Result<()> {
    'stores: for store in Store::ALL {
        let live = live(store).await?;
        for round in 0..ROUNDS {
            let Some(moment) = Moment::catch(&live.team, round).await? else { continue };
            let cancelled = live.team.edit("q", &moment.delivery["id"], None).await?;
            moment.waits.abort();
            let next = live.team.claim("q", json!({"wait_ms": 1_000})).await?;
            let now = now_us();
            // Handed to somebody who was not there any more.
            let Some(delivery) = next.first() else { continue };
            assert_eq!((&delivery["id"], &delivery["attempt"]), (&moment.delivery["id"], &json!(1)), "{store:?}");
            is_on_time(delivery, now)?;
            assert_eq!(cancelled["outcome"], "leased", "it cannot be cancelled any more");
            assert_eq!(epoch_ms(&cancelled["lease_until"])?, moment.due_ms + LEASE_MS);
            live.team.ack("q", delivery).await?;
            live.stop().await;
            continue 'stores;
        }
        bail!("{store:?}: what somebody waited for who went away did not come back");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_before_its_time_costs_no_attempt() -> Result<()> {
    'stores: for store in Store::ALL {
        for round in 0..ROUNDS {
            let live = live(store).await?;
            let Some(moment) = Moment::catch(&live.team, round).await? else { continue };
            let key = live.team.key_text().map(str::to_owned);
            let folder = live.stop().await;
            // Who waited was told nothing, or the moment was over before the server stopped.
            if moment.waits.await?.is_ok_and(|handed| !handed.is_empty()) {
                continue;
            }
            let server = Server::start(hermod_server::Config { store: shared(store)?, ..config(&folder) }, Mode::default()).await?;
            let team = Caller::new(&server.url(), key.as_deref());
            let next = team.claim("q", json!({"wait_ms": 20_000})).await?;
            let now = now_us();
            assert_eq!(payloads(&next), [round], "{store:?}");
            is_on_time(&next[0], now)?;
            server.shutdown().await;
            continue 'stores;
        }
        bail!("{store:?}: the server never stopped in time");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_at_once_does_not_wait_for_what_is_held_back() -> Result<()> {
    'stores: for store in Store::ALL {
        let live = live(store).await?;
        for round in 0..ROUNDS {
            let Some(moment) = Moment::catch(&live.team, round).await? else { continue };
            live.team.push("q", json!({"payload": "at once"})).await?;
            let first = moment.waits.await??;
            let second = live.team.claim("q", json!({"wait_ms": 20_000})).await?;
            is_on_time(second.first().context("both come")?, now_us())?;
            for delivery in first.iter().chain(&second) {
                live.team.ack("q", delivery).await?;
            }
            if payloads(&first) == ["at once"] {
                assert_eq!(payloads(&second), [round], "{store:?}");
                live.stop().await;
                continue 'stores;
            }
        }
        bail!("{store:?}: nobody who is alone takes what is due at once while they wait for another");
    }
    Ok(())
}

/// What was claimed ahead counts when somebody is told of it, and its lateness is what they see: more than nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_is_counted_and_how_late_it_was() -> Result<()> {
    for store in Store::ALL {
        let live = live(store).await?;
        live.team.queue("counted", json!({"lease": "10m"})).await?;
        live.team.push("counted", json!({"payload": 1, "in": "100ms"})).await?;
        let handed = live.team.claim("counted", json!({"wait_ms": 20_000})).await?;
        live.team.ack("counted", handed.first().context("it comes")?).await?;
        let text = live.team.get("/metrics").await?.text();
        let value = |name: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).context("it is counted")?;
            Ok(line.parse()?)
        };
        assert_eq!(value(r#"hermod_queue_deliveries_total{queue="counted",outcome="handed"}"#)?, 1.0, "{store:?}");
        assert_eq!(value(r#"hermod_queue_lateness_seconds_count{queue="counted"}"#)?, 1.0, "{store:?}");
        ensure!(value(r#"hermod_queue_lateness_seconds_sum{queue="counted"}"#)? > 0.0, "{store:?}: nobody is told in no time");
        live.stop().await;
    }
    Ok(())
}

/// A pause after a failure is not cut short by who goes away before it is over, and the recipient's next one does not pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_keeps_its_pause_and_its_place() -> Result<()> {
    for store in Store::ALL {
        let live = live(store).await?;
        let mut is_seen = false;
        for round in 0..ROUNDS {
            let queue = &format!("q{round}");
            live.team.queue(queue, json!({"lease": "10m", "max_attempts": 9})).await?;
            let id = live.team.push(queue, json!({"payload": 1, "to": "ann"})).await?["id"].clone();
            live.team.push(queue, json!({"payload": 2, "to": "ann"})).await?;
            let failed = live.team.claim_one(queue).await?;
            let retry = live.team.settle(queue, "nack", &failed, json!({"delay": "150ms"})).await?;
            let not_before = epoch_ms(&retry["not_before"])?;
            let (consumer, named) = (live.team.clone(), queue.clone());
            let waits = tokio::spawn(async move { consumer.claim(&named, json!({"wait_ms": 20_000})).await });
            let path = format!("/v1/queues/{queue}/deliveries/{}", id.as_str().context("an id")?);
            while now_ms() < not_before && live.team.get(&path).await?.expect(200)?["state"] != "leased" {}
            waits.abort();
            let again = live.team.claim(queue, json!({"wait_ms": 1_000})).await?;
            let now = now_ms();
            let Some(again) = again.first() else { continue };
            assert_eq!((&again["payload"], &again["attempt"]), (&json!(1), &json!(2)), "{store:?}");
            ensure!(now >= not_before, "{store:?}: {} ms early", not_before - now);
            is_seen = true;
            break;
        }
        ensure!(is_seen, "{store:?}: it did not come back");
        live.stop().await;
    }
    Ok(())
}
