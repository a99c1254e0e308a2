//! Pushed twice, pushed anew, pushed too late; and many found by a tag.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{at, on_every_store, payloads, with};
use crate::http::site::Ask;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_kept_replaced_or_put_off() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({"lease": "10s"})).await?;
        let keyed = |payload: u64, fields: Value| with(json!({"payload": payload, "key": "k", "at": at(5_000)}), &fields);
        let first = team.push("q", keyed(1, json!({}))).await?;
        assert_eq!((&first["outcome"], &first["state"], &first["due"]), (&json!("added"), &json!("scheduled"), &json!(at(5_000))));
        let id = &first["id"];
        let outcome = async |payload, fields| -> Result<(Value, Value, Value)> {
            let pushed = team.push("q", keyed(payload, fields)).await?;
            Ok((pushed["id"].clone(), pushed["outcome"].clone(), pushed["due"].clone()))
        };
        assert_eq!(outcome(2, json!({"at": at(1)})).await?, (id.clone(), json!("kept"), json!(at(5_000))));
        let replaced = outcome(3, json!({"if_exists": "replace", "at": at(7_000)})).await?;
        assert_eq!(replaced, (id.clone(), json!("replaced"), json!(at(7_000))));
        // Put off, and never brought forward.
        for (asked, due) in [(6_000, 7_000), (9_000, 9_000)] {
            let debounced = outcome(4, json!({"if_exists": "debounce", "at": at(asked)})).await?;
            assert_eq!(debounced, (id.clone(), json!("replaced"), json!(at(due))));
        }
        // Another recipient's key is another key.
        let other = team.push("q", keyed(5, json!({"to": "ann", "at": at(20_000)}))).await?;
        ensure!(other["id"] != *id && other["outcome"] == "added", "{other}");
        site.at_ms(8_999);
        assert_eq!(team.claim("q", json!({"count": 9})).await?, Vec::<Value>::new());
        site.at_ms(9_000);
        let claimed = team.claim("q", json!({"count": 9})).await?;
        assert_eq!((payloads(&claimed), &claimed[0]["id"]), (vec![json!(4)], id));
        // While it is held it is not taken from its holder: a new one stands beside it.
        assert_eq!(outcome(6, json!({})).await?.1, "kept");
        let (beside, what, _) = outcome(7, json!({"if_exists": "replace", "at": at(9_000)})).await?;
        ensure!(what == "added" && beside != *id, "{what} {beside}");
        team.ack("q", &claimed[0]).await?;
        let claimed = team.claim("q", json!({"count": 9})).await?;
        assert_eq!((payloads(&claimed), &claimed[0]["id"]), (vec![json!(7)], &beside));
        team.ack("q", &claimed[0]).await?;
        // What is finished is known for three days.
        let again = team.push("q", keyed(8, json!({}))).await?;
        assert_eq!((&again["outcome"], &again["state"], &again["due"]), (&json!("finished"), &json!("done"), &Value::Null));
        site.at_ms(3 * 86_400_000 + 9_001);
        assert_eq!(outcome(9, json!({})).await?.1, "added");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotency_key_pushes_a_request_once() -> Result<()> {
    on_every_store(async |_, team| {
        team.queue("q", json!({})).await?;
        let list: Vec<Value> = (0..30).map(|n| json!({"payload": n, "to": format!("r{n}")})).collect();
        let ask = Ask::json("POST", "/v1/queues/q/deliveries", &json!(list)).once("once");
        let first = team.send(&ask).await?.expect(200)?;
        assert_eq!(team.send(&ask).await?.expect(200)?, first);
        assert_eq!(team.stats("q").await?["ready"], 30);
        let other = Ask::json("POST", "/v1/queues/q/deliveries", &json!({"payload": 1, "to": "r0"})).once("single");
        let pushed = team.send(&other).await?.expect(201)?;
        assert_eq!(team.send(&other).await?.expect(201)?, pushed);
        assert_eq!(team.stats("q").await?["ready"], 31);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_late_is_not_handed_out() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({"overdue": {"drop_after": "10s"}})).await?;
        team.push("q", json!({"payload": "late", "at": at(0), "to": "ann"})).await?;
        team.push("q", json!({"payload": "expires", "at": at(5_000), "expires_at": at(9_000), "to": "ann"})).await?;
        team.push("q", json!({"payload": "good", "at": at(5_000), "expires_at": at(10_001), "to": "ann"})).await?;
        site.at_ms(10_000);
        let claimed = team.claim("q", json!({"count": 9})).await?;
        assert_eq!(payloads(&claimed), ["good"], "one that is over does not hold up its recipient");
        team.ack("q", &claimed[0]).await?;
        let counts = team.stats("q").await?;
        assert_eq!([&counts["ready"], &counts["scheduled"], &counts["leased"], &counts["dead"]], [0, 0, 0, 0]);
        // One microsecond less, and it comes.
        team.push("q", json!({"payload": "in time", "at": at(1_000)})).await?;
        site.at_ms(10_999);
        assert_eq!(payloads(&team.claim("q", json!({})).await?), ["in time"]);
        Ok(())
    })
    .await
}

/// Acknowledged is what is stored, and what is over would not be handed out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_free_again_when_what_it_names_is_over() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({"lease": "30s", "overdue": {"drop_after": "10s"}})).await?;
        let keyed = async |key: &str, payload: &str, fields: Value| -> Result<(Value, Value)> {
            let pushed = team.push("q", with(json!({"key": key, "payload": payload}), &fields)).await?;
            Ok((pushed["id"].clone(), pushed["outcome"].clone()))
        };
        let (held, _) = keyed("held", "held", json!({"expires_at": at(1_000), "to": "ann"})).await?;
        assert_eq!(team.claim_one("q").await?["id"], held);
        let mut before = Vec::new();
        for (key, fields) in [
            ("kept", json!({"expires_at": at(2_001)})),
            ("expires", json!({"expires_at": at(2_000)})),
            ("behind", json!({"expires_at": at(2_000), "to": "ann"})),
            ("replaced", json!({"expires_at": at(2_000), "to": "bob"})),
        ] {
            before.push(keyed(key, "first", fields).await?.0);
        }
        site.at_ms(2_000);
        assert_eq!(keyed("held", "second", json!({"to": "ann"})).await?, (held, json!("kept")), "somebody has it");
        assert_eq!(keyed("kept", "second", json!({})).await?, (before[0].clone(), json!("kept")));
        for (n, (key, fields)) in [
            ("expires", json!({"expires_at": at(90_000)})),
            ("behind", json!({"to": "ann"})),
            ("replaced", json!({"if_exists": "replace", "to": "bob"})),
        ]
        .into_iter()
        .enumerate()
        {
            let (id, outcome) = keyed(key, key, fields).await?;
            ensure!(outcome == "added" && id != before[n + 1], "{key}: {outcome}");
        }
        assert_eq!(team.stats("q").await?["ready"], 4, "those that were over are not there any more");
        site.at_ms(2_001);
        let mut claimed = payloads(&team.claim("q", json!({"count": 9})).await?);
        claimed.sort_by_key(Value::to_string);
        assert_eq!(claimed, ["expires", "replaced"], "ann's turn has not come");
        // So is one that is not handed out because it is too late.
        let (late, _) = keyed("late", "first", json!({})).await?;
        site.at_ms(12_000);
        assert_eq!(keyed("late", "second", json!({})).await?, (late.clone(), json!("kept")));
        site.at_ms(12_001);
        let (id, outcome) = keyed("late", "second", json!({})).await?;
        ensure!(outcome == "added" && id != late, "{outcome}");
        assert_eq!(payloads(&team.claim("q", json!({"count": 9})).await?), ["second"]);
        let metrics = team.get("/metrics").await?.text();
        ensure!(metrics.contains(r#"hermod_queue_deliveries_total{queue="q",outcome="expired"} 5"#), "each is counted once: {metrics}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_cancelled_and_shifted_by_tag_page_by_page() -> Result<()> {
    const COUNT: u64 = 2_500;
    on_every_store(async |site, team| {
        team.queue("q", json!({})).await?;
        let line = |n: u64| {
            let (tag, due) = (if n.is_multiple_of(5) { "odd" } else { "user:42" }, at(60_000 + n));
            format!("{}\n", json!({"payload": n, "to": format!("r{}", n % 50), "at": due, "tags": [tag, "all"]}))
        };
        team.push_lines("q", &(0..COUNT).map(line).collect::<String>()).await?;
        let in_pages = async |verb: &str, body: Value| -> Result<(u64, u64)> {
            let (mut done, mut pages, mut cursor) = (0, 0, Value::Null);
            loop {
                let body = if cursor.is_null() { body.clone() } else { with(body.clone(), &json!({"cursor": cursor})) };
                let page = team.post(&format!("/v1/queues/q/{verb}"), &body).await?.expect(200)?;
                let some = page["done"].as_u64().context("a number")?;
                ensure!(some <= 1_000 && page["leased"] == 0 && page["others"] == 0, "{page}");
                (done, pages, cursor) = (done + some, pages + 1, page["next"].clone());
                if cursor.is_null() {
                    return Ok((done, pages));
                }
            }
        };
        let (shifted, pages) = in_pages("shift", json!({"tag": "user:42", "by": "1h"})).await?;
        ensure!(shifted == 2_000 && pages >= 2, "{shifted} in {pages} pages");
        let minute = |n: u64| json!(n);
        let stats = team.get("/v1/queues/q/stats?minutes=63").await?.expect(200)?;
        let forecast = stats["forecast"].as_array().context("a list")?;
        assert_eq!((forecast.len(), &forecast[0], &forecast[1], &forecast[61]), (63, &minute(1), &minute(499), &minute(2_000)));
        assert_eq!((&stats["ready"], &stats["scheduled"], &stats["next_due"]), (&json!(0), &json!(COUNT), &json!(at(60_000))));
        let (shifted, _) = in_pages("shift", json!({"from": at(3_600_000), "by": "-1h"})).await?;
        ensure!(shifted == 2_000, "{shifted} were shifted back");
        let (cancelled, pages) = in_pages("cancel", json!({"tag": "user:42"})).await?;
        ensure!(cancelled == 2_000 && pages >= 2, "{cancelled} in {pages} pages");
        assert_eq!(team.list("q", "tag=user:42&limit=1").await?, Vec::<Value>::new());
        assert_eq!(team.list("q", "tag=all&limit=1000").await?.len(), 500);
        site.at_ms(70_000);
        let stats = team.stats("q").await?;
        assert_eq!((&stats["ready"], &stats["oldest_due"]), (&json!(500), &json!(at(60_000))));
        let claimed = team.claim("q", json!({"count": 100})).await?;
        // Every fifth is left, so that of fifty recipients ten have any.
        assert_eq!(payloads(&claimed), (0..10).map(|n| json!(n * 5)).collect::<Vec<_>>());
        let (cancelled, _) = in_pages("cancel", json!({"state": "waiting"})).await?;
        assert_eq!(cancelled, 490, "those that are held stay");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_show_each_delivery_once() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({})).await?;
        let lines: String = (0..250).map(|n| format!("{}\n", json!({"payload": n, "in": format!("{}s", 1 + n % 7)}))).collect();
        let mut pushed: Vec<Value> = team.push_lines("q", &lines).await?.into_iter().map(|one| one["id"].clone()).collect();
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = team.get(&format!("/v1/queues/q/deliveries?limit=30{cursor}")).await?.expect(200)?;
            let items = page["items"].as_array().context("a list")?;
            ensure!(items.len() <= 30 && items.iter().all(|item| item["state"] == "scheduled"), "{page}");
            seen.extend(items.iter().map(|item| item["id"].clone()));
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        seen.sort_by_key(Value::to_string);
        pushed.sort_by_key(Value::to_string);
        assert_eq!(seen, pushed);
        let early = team.list("q", &format!("until={}&limit=1000", at(3_000))).await?;
        assert_eq!(early.len(), 72, "those of the first two seconds");
        site.at_ms(1_000);
        assert_eq!(
            team.list("q", &format!("until={}&limit=1000", at(1_001))).await?.iter().filter(|one| one["state"] == "ready").count(),
            36
        );
        team.push("q", json!({"payload": 7, "key": "k", "to": "ann"})).await?;
        assert_eq!(team.list("q", "key=k&to=ann").await?.len(), 1);
        assert_eq!(team.list("q", "key=k").await?.len(), 0);
        Ok(())
    })
    .await
}

/// Whoever repeats a deletion has lost its answer; what has the name by now is another queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_is_repeated_takes_nothing_from_the_queue_that_came_after() -> Result<()> {
    on_every_store(async |_, team| {
        let delete = |key: &str| Ask::new("DELETE", "/v1/queues/q?purge=true", "").once(key);
        team.queue("q", json!({})).await?;
        team.push("q", json!({"payload": 1})).await?;
        assert_eq!(team.send(&delete("gone")).await?.status, 204);
        team.queue("q", json!({})).await?;
        team.push("q", json!({"payload": 2})).await?;
        assert_eq!(team.send(&delete("gone")).await?.status, 204);
        assert_eq!(payloads(&team.claim("q", json!({"count": 9})).await?), vec![json!(2)]);
        Ok(())
    })
    .await
}
