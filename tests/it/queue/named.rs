//! What well-known queues got wrong once, and this one must not.

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use hermod_tests::lane::START;
use hermod_tests::server::{Hermod, Redis};
use serde_json::{Value, json};

use super::{at, epoch_ms, now_ms, on_every_store, payloads, time, with};
use crate::http::site::Caller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_thousand_in_one_millisecond_keep_order() -> Result<()> {
    const COUNT: u64 = 6_000;
    on_every_store(async |site, team| {
        team.queue("q", json!({"order": "total", "lease": "1h"})).await?;
        let lines: String = (0..COUNT).map(|n| format!("{{\"payload\": {n}, \"at\": \"{}\"}}\n", at(1_000))).collect();
        let pushed = team.push_lines("q", &lines).await?;
        ensure!(pushed.len() == 6_000 && pushed.iter().all(|one| one["outcome"] == "added" && one["due"] == at(1_000)));
        assert_eq!(team.claim("q", json!({"count": 1_000})).await?, Vec::<Value>::new(), "before its time");
        site.at_ms(1_000);
        let mut seen = Vec::new();
        loop {
            let claimed = team.claim("q", json!({"count": 1_000})).await?;
            if claimed.is_empty() {
                break;
            }
            seen.extend(claimed.iter().filter_map(|delivery| delivery["payload"].as_u64()));
        }
        assert_eq!(seen, (0..COUNT).collect::<Vec<_>>());
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_early() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({})).await?;
        team.push("q", json!({"payload": "at", "at": at(1_000)})).await?;
        team.push("q", json!({"payload": "in", "in": "2s"})).await?;
        for (before_us, word) in [(1_000_000, "at"), (2_000_000, "in")] {
            site.clock.set(START.plus(Micros::saturating(before_us - 1)));
            assert_eq!(team.claim("q", json!({"count": 10})).await?, Vec::<Value>::new(), "a microsecond before its time");
            assert_eq!(team.claim("q", json!({"count": 10, "wait_ms": 50})).await?, Vec::<Value>::new());
            site.clock.set(START.plus(Micros::saturating(before_us)));
            let claimed = team.claim("q", json!({"count": 10})).await?;
            assert_eq!(payloads(&claimed), [word]);
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_token_never_acts() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({"lease": "10s", "max_attempts": 9})).await?;
        let id = team.push("q", json!({"payload": 1, "to": "ann"})).await?["id"].clone();
        let first = team.claim_one("q").await?;
        let mut guessed = first.clone();
        guessed["token"] = json!(first["token"].as_u64().context("a token")? + 1);
        site.at_ms(9_999);
        let stale = async |delivery: &Value| -> Result<()> {
            for verb in ["ack", "nack", "extend"] {
                assert_eq!(team.settle("q", verb, delivery, json!({})).await?, json!({"id": id, "outcome": "stale"}), "{verb}");
            }
            Ok(())
        };
        stale(&guessed).await?;
        // A lease that has ended is nobody's, though nobody has claimed it yet.
        site.at_ms(10_000);
        stale(&first).await?;
        let second = team.claim_one("q").await?;
        ensure!(second["token"].as_u64() > first["token"].as_u64() && second["attempt"] == 2, "{first} {second}");
        stale(&first).await?;
        let shown = team.get(&format!("/v1/queues/q/deliveries/{}", id.as_str().context("an id")?)).await?.expect(200)?;
        assert_eq!((&shown["state"], &shown["lease_until"]), (&json!("leased"), &second["lease_until"]), "nothing was changed");
        let several = json!({"deliveries": [super::held(&first), super::held(&second), super::held(&second)]});
        let acked = team.post("/v1/queues/q/ack", &several).await?.expect(200)?;
        let outcomes: Vec<_> = acked["items"].as_array().context("a list")?.iter().map(|item| item["outcome"].clone()).collect();
        assert_eq!(outcomes, ["stale", "done", "stale"]);
        stale(&second).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_holder_gives_back_original_place() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("total", json!({"order": "total", "lease": "10s"})).await?;
        team.queue("q", json!({"lease": "10s"})).await?;
        for queue in ["total", "q"] {
            for n in 0..4 {
                let to = if queue == "q" { json!({"to": "ann"}) } else { json!({}) };
                team.push(queue, with(json!({"payload": n, "at": at(n)}), &to)).await?;
            }
        }
        site.at_ms(5);
        assert_eq!(payloads(&team.claim("total", json!({"count": 2})).await?), [0, 1]);
        assert_eq!(payloads(&team.claim("q", json!({"count": 9})).await?), [0], "of one recipient one at a time");
        // Their holders are gone. What comes later does not pass.
        site.at_ms(10_004);
        assert_eq!(team.claim("q", json!({"count": 9})).await?, Vec::<Value>::new());
        site.at_ms(10_005);
        let again = team.claim("total", json!({"count": 9})).await?;
        assert_eq!(payloads(&again), [0, 1, 2, 3]);
        assert_eq!(again.iter().map(|one| one["attempt"].clone()).collect::<Vec<_>>(), [2, 2, 1, 1]);
        for n in 0..4 {
            let claimed = team.claim("q", json!({"count": 9})).await?;
            assert_eq!(payloads(&claimed), [n]);
            team.ack("q", &claimed[0]).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_while_leased_says_so() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({"lease": "10s"})).await?;
        let id = team.push("q", json!({"payload": 1, "tags": ["t"]})).await?["id"].clone();
        let claimed = team.claim_one("q").await?;
        let leased = json!({"outcome": "leased", "lease_until": at(10_000)});
        assert_eq!(team.edit("q", &id, None).await?, leased);
        for change in [json!({"in": "1h"}), json!({"at": at(0)}), json!({"payload": 2})] {
            assert_eq!(team.edit("q", &id, Some(change)).await?, leased);
        }
        let bulk = team.post("/v1/queues/q/cancel", &json!({"tag": "t"})).await?.expect(200)?;
        assert_eq!(bulk, json!({"done": 0, "leased": 1, "others": 0, "next": null}));
        team.ack("q", &claimed).await?;
        assert_eq!(team.edit("q", &id, None).await?, json!({"outcome": "gone"}), "it was done");
        assert_eq!(team.edit("q", &id, Some(json!({"in": "1h"}))).await?, json!({"outcome": "gone"}));
        // Where the holder is gone it can be cancelled, and then nobody gets it.
        let id = team.push("q", json!({"payload": 2})).await?["id"].clone();
        team.claim_one("q").await?;
        site.at_ms(10_000);
        assert_eq!(team.edit("q", &id, None).await?["outcome"], "done");
        assert_eq!(team.claim("q", json!({})).await?, Vec::<Value>::new());
        assert_eq!(team.edit("q", &id, None).await?, json!({"outcome": "gone"}));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recipient_order_survives_retry() -> Result<()> {
    on_every_store(async |site, team| {
        for on_failure in ["block", "skip"] {
            site.at_ms(0);
            let queue = &format!("q-{on_failure}");
            team.queue(queue, json!({"on_failure": on_failure, "backoff": {"first": "10s", "jitter": 0}})).await?;
            for n in 1..=3 {
                team.push(queue, json!({"payload": n, "to": "ann"})).await?;
            }
            team.push(queue, json!({"payload": "bob", "to": "bob"})).await?;
            let mut claimed = team.claim(queue, json!({"count": 9})).await?;
            claimed.sort_by_key(|one| one["to"].to_string());
            assert_eq!(payloads(&claimed), [json!(1), json!("bob")]);
            let failed = team.settle(queue, "nack", &claimed[0], json!({})).await?;
            assert_eq!((&failed["outcome"], &failed["not_before"]), (&json!("retry"), &json!(at(10_000))));
            let next = team.claim(queue, json!({"count": 9})).await?;
            let order = if on_failure == "block" {
                assert_eq!(next, Vec::<Value>::new(), "ann waits for the one that failed, and bob has his");
                site.at_ms(10_000);
                [1, 2, 3]
            } else {
                assert_eq!(payloads(&next), [2], "the next passes");
                site.at_ms(10_000);
                assert_eq!(team.claim(queue, json!({"count": 9})).await?, Vec::<Value>::new(), "still one at a time");
                team.ack(queue, &next[0]).await?;
                [3, 1, 0]
            };
            for expected in order.into_iter().filter(|n| *n > 0) {
                let claimed = team.claim(queue, json!({"count": 9})).await?;
                assert_eq!(payloads(&claimed), [expected], "{on_failure}");
                team.ack(queue, &claimed[0]).await?;
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_message_does_not_kill_the_next_worker() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({"max_attempts": 3, "lease": "10s", "backoff": {"first": "1s", "jitter": 0}})).await?;
        let id = team.push("q", json!({"payload": {"poison": true}, "to": "ann", "tags": ["t"]})).await?["id"].clone();
        team.push("q", json!({"payload": "good", "to": "ann"})).await?;
        // Two workers die of it; the third says that it cannot.
        for (attempt, now_ms) in [(1, 0), (2, 10_000), (3, 20_000)] {
            site.at_ms(now_ms);
            let claimed = team.claim_one("q").await?;
            assert_eq!((&claimed["id"], &claimed["attempt"]), (&id, &json!(attempt)));
            if attempt == 3 {
                assert_eq!(team.settle("q", "nack", &claimed, json!({})).await?["outcome"], "dead");
            }
        }
        let good = team.claim_one("q").await?;
        assert_eq!((&good["payload"], &good["attempt"]), (&json!("good"), &json!(1)));
        team.ack("q", &good).await?;
        let dead = team.list("q", "state=dead").await?;
        assert_eq!(
            (&dead[0]["id"], &dead[0]["state"], &dead[0]["attempts"], &dead[0]["dead_since"]),
            (&id, &json!("dead"), &json!(3), &json!(at(20_000)))
        );
        assert_eq!((dead.len(), &team.stats("q").await?["dead"]), (1, &json!(1)));
        assert_eq!(team.edit("q", &id, Some(json!({"in": "1h"}))).await?, json!({"outcome": "dead"}));
        assert_eq!(team.edit("q", &id, Some(json!({"payload": {"poison": false}, "state": "ready"}))).await?["outcome"], "done");
        assert_eq!(team.edit("q", &id, Some(json!({"state": "ready"}))).await?, json!({"outcome": "alive"}));
        let cured = team.claim_one("q").await?;
        assert_eq!((&cured["id"], &cured["attempt"], &cured["payload"]), (&id, &json!(1), &json!({"poison": false})));
        // Dies by itself this time, and is brought back with all others.
        for now_ms in [30_000, 40_000, 50_000] {
            site.at_ms(now_ms);
            team.claim("q", json!({})).await?;
        }
        assert_eq!(team.stats("q").await?["dead"], 1);
        assert_eq!(team.post("/v1/queues/q/redrive", &json!({})).await?.expect(200)?["done"], 1);
        let last = team.claim_one("q").await?;
        assert_eq!((&last["id"], &last["attempt"]), (&id, &json!(1)));
        team.ack("q", &last).await?;
        assert_eq!(team.list("q", "tag=t").await?, Vec::<Value>::new());
        Ok(())
    })
    .await
}

/// Deliveries of different recipients lie in different places. Whoever takes one at a time has the earliest of all, and whoever takes several
/// has them in the order of their times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_merged_over_all_places() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({})).await?;
        for n in 0..40 {
            let due = n * 7 % 40;
            team.push("q", json!({"payload": due, "to": format!("r{n}"), "at": at(due)})).await?;
        }
        site.at_ms(100);
        for n in 0..10 {
            assert_eq!(payloads(&team.claim("q", json!({"count": 1})).await?), [n]);
        }
        assert_eq!(payloads(&team.claim("q", json!({"count": 100})).await?), (10..40).map(|n| json!(n)).collect::<Vec<_>>());
        Ok(())
    })
    .await
}

/// Stopped and killed: what fell due meanwhile comes in order, what did not comes in its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overdue_after_restart_in_order() -> Result<()> {
    let redis = Redis::start()?;
    for store in ["embedded", &redis.url()] {
        overdue_after_restart(store).await.with_context(|| format!("on {store}"))?;
    }
    Ok(())
}

async fn overdue_after_restart(store: &str) -> Result<()> {
    let mut hermod = Hermod::serve(["--store", store])?;
    let admin = Caller::new(hermod.url()?, Some(&hermod.admin_key()?));
    admin.queue("q", json!({"order": "total"})).await?;
    let start = now_ms();
    // Not in the order of their times; every third pair has one time.
    let due = |n: u64| start + (n * 7 % 20) / 2 * 10;
    for n in 0..20 {
        admin.push("q", json!({"payload": n, "at": time(due(n))})).await?;
    }
    let later = admin.push("q", json!({"payload": "later", "in": "1h"})).await?;
    let held = admin.claim("q", json!({"wait_ms": 5_000, "lease": "1h"})).await?;
    let mut expected: Vec<u64> = (0..20).collect();
    expected.sort_by_key(|n| (due(*n), *n));
    assert_eq!(payloads(&held), [expected[0]]);
    for is_killed in [false, true] {
        if is_killed {
            hermod.kill9()?;
        } else {
            ensure!(hermod.terminate()?.success());
        }
        hermod_tests::until(super::SOON, "all to be overdue", || now_ms() > start + 200)?;
        hermod.restart()?;
        let claimed = admin.claim("q", json!({"count": 10, "wait_ms": 5_000, "lease": "1h"})).await?;
        let expected = if is_killed { &expected[11..] } else { &expected[1..11] };
        assert_eq!(payloads(&claimed), expected.iter().map(|n| json!(n)).collect::<Vec<_>>());
    }
    // A lease survives as well: it is still held, and by whom.
    let leased = admin.edit("q", &held[0]["id"], None).await?;
    ensure!(leased["outcome"] == "leased" && epoch_ms(&leased["lease_until"])? > start, "{leased}");
    admin.ack("q", &held[0]).await?;
    let waiting = admin.list("q", "").await?;
    assert_eq!((waiting.len(), &waiting[0]["id"], &waiting[0]["due"]), (1, &later["id"], &later["due"]));
    Ok(())
}
