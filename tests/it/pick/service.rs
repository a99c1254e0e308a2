//! Picks over HTTP, on every store: what whoever sends messages would notice.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use hermod_server::Config;
use hermod_tests::server::Redis;
use hermod_tests::{Store, unique};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::site::{Ask, Caller, Reply, Site};
use crate::queue::{Live, on_every_store, shared, with};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;

/// A deck without a cap, unless it says so, and its messages.
async fn deck(team: &Caller, fields: Value, messages: Value) -> Result<()> {
    let reply = team.put("/v1/decks/tips", &with(json!({"subject_cap": null}), &fields)).await?;
    ensure!(matches!(reply.status, 200 | 201), "{}", reply.text());
    if messages.as_array().is_some_and(|messages| !messages.is_empty()) {
        team.post("/v1/decks/tips/messages", &messages).await?.expect(201)?;
    }
    Ok(())
}

/// So many messages, `m0` and on, each with these fields.
fn messages(count: usize, fields: Value) -> Value {
    (0..count).map(|n| with(json!({"id": format!("m{n}"), "body": {"text": format!("tip {n}")}}), &fields)).collect()
}

impl Caller {
    async fn pick(&self, fields: Value) -> Result<Value> {
        self.post("/v1/decks/tips/picks", &fields).await?.expect(200)
    }

    /// The id of the message that a subject gets.
    async fn picked(&self, subject: &str) -> Result<String> {
        let picked = self.pick(json!({"subject": subject})).await?;
        picked["message"]["id"].as_str().map(str::to_owned).with_context(|| format!("{picked}"))
    }

    async fn settle_pick(&self, pick: &Value, verb: &str) -> Result<Value> {
        let path = format!("/v1/picks/{}/{verb}", pick["pick"].as_str().context("a pick")?);
        self.post(&path, &json!({})).await?.expect(200)
    }
}

fn advance(site: &Site, us: u64) {
    site.clock.advance(Micros::saturating(us));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_messages_come_once_then_the_one_sent_longest_ago() -> Result<()> {
    on_every_store(async |site, team| {
        deck(team, json!({}), messages(6, json!({}))).await?;
        let mut first = Vec::new();
        for _ in 0..6 {
            first.push(team.picked("ann").await?);
            advance(site, SECOND);
        }
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 6);
        for expected in &first {
            assert_eq!(team.picked("ann").await?, *expected);
        }
        // Another subject has its own history, and the same name in another space too.
        team.picked("ben").await?;
        let history = team.get("/v1/decks/tips/history/ann?limit=2").await?.expect(200)?;
        assert_eq!(
            (history["picks"].as_u64(), history["items"].as_array().map(Vec::len), &history["items"][0]["id"]),
            (Some(12), Some(2), &json!(first[5]))
        );
        let other = site.admin.space(&unique("other")).await?;
        other.post("/v1/decks/tips/picks", &json!({"subject": "ann"})).await?.problem(404, "deck_not_found", Some("deck"))?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subject_cap_holds_across_messages_and_none_says_why_and_when() -> Result<()> {
    on_every_store(async |site, team| {
        team.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
        assert_eq!(team.pick(json!({"subject": "ann"})).await?, json!({"status": "none", "reason": "no_messages", "retry_at": null}));
        deck(team, json!({"subject_cap": {"tokens": 1, "per": "10m"}}), messages(5, json!({}))).await?;
        team.picked("ann").await?;
        let none = json!({"status": "none", "reason": "subject_cap", "retry_at": "2017-07-14T02:50:00.000Z"});
        assert_eq!(team.pick(json!({"subject": "ann"})).await?, none);
        advance(site, 10 * MINUTE - 1);
        assert_eq!(team.pick(json!({"subject": "ann"})).await?, none, "one tick earlier");
        advance(site, 1);
        team.picked("ann").await?;
        // The message's own cap.
        deck(team, json!({}), json!([])).await?;
        for n in 0..5 {
            team.put(&format!("/v1/decks/tips/messages/m{n}"), &json!({"body": 1, "cap": {"tokens": 1, "per": "1h", "kind": "rolling"}}))
                .await?;
        }
        // What was sent before there was a cap was not counted.
        for _ in 0..5 {
            team.picked("ann").await?;
        }
        let none = team.pick(json!({"subject": "ann"})).await?;
        assert_eq!((&none["status"], &none["reason"]), (&json!("none"), &json!("message_cap")), "{none}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_send_is_refunded() -> Result<()> {
    on_every_store(async |site, team| {
        let cap = json!({"tokens": 1, "per": "1h"});
        deck(team, json!({"subject_cap": {"tokens": 1, "per": "10m"}}), messages(1, json!({"cap": cap}))).await?;
        let reserve = json!({"subject": "ann", "mode": "reserve", "ttl": "30s"});
        let picked = team.pick(reserve.clone()).await?;
        assert_eq!((&picked["status"], &picked["expires_at"]), (&json!("picked"), &json!("2017-07-14T02:40:30.000Z")));
        assert_eq!(team.pick(reserve.clone()).await?["reason"], "subject_cap");
        let nacked = team.settle_pick(&picked, "nack").await?;
        assert_eq!((&nacked["outcome"], &nacked["settled"]), (&json!("nacked"), &json!(true)));
        // Once: whoever settles again is told what became of it.
        let again = team.settle_pick(&picked, "ack").await?;
        assert_eq!((&again["outcome"], &again["settled"]), (&json!("nacked"), &json!(false)));
        // The same by itself, when it is not settled in time: until then it is refused, and says until when.
        let picked = team.pick(reserve.clone()).await?;
        ensure!(picked["status"] == "picked", "{picked}");
        assert_eq!(team.pick(reserve.clone()).await?["retry_at"], picked["expires_at"]);
        advance(site, 30 * SECOND);
        let history = team.get("/v1/decks/tips/history/ann").await?.expect(200)?;
        assert_eq!((&history["items"], &history["open"], &history["subject_cap_until"]), (&json!([]), &json!(0), &Value::Null));
        let last = team.pick(reserve.clone()).await?;
        ensure!(last["status"] == "picked", "{last}");
        assert_eq!(team.settle_pick(&picked, "ack").await?["outcome"], "expired");
        // What is acknowledged stays.
        assert_eq!(team.settle_pick(&last, "ack").await?["outcome"], "acked");
        advance(site, 30 * SECOND);
        assert_eq!(team.pick(reserve).await?["reason"], "subject_cap");
        let committed = json!({"pick": team.pick(json!({"subject": "ben"})).await?["pick"]});
        let path = format!("/v1/picks/{}/ack", committed["pick"].as_str().context("a pick")?);
        team.post(&path, &json!({})).await?.problem(404, "not_found", Some("id"))?;
        team.post("/v1/picks/pk_x/ack", &json!({})).await?.problem(400, "invalid_field", Some("id"))?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_with_same_key_is_same_pick() -> Result<()> {
    on_every_store(async |_, team| {
        deck(team, json!({"subject_cap": {"tokens": 1, "per": "10m"}}), messages(20, json!({}))).await?;
        let ask = |key: &str, body: &Value| Ask::json("POST", "/v1/decks/tips/picks", body).header("idempotency-key", key);
        let body = json!({"subject": "ann"});
        let first = team.send(&ask("k1", &body)).await?.expect(200)?;
        assert_eq!(first["replayed"], false);
        let mut again = team.send(&ask("k1", &body)).await?.expect(200)?;
        assert_eq!(again["replayed"], true);
        again["replayed"] = json!(false);
        assert_eq!(again, first);
        // Also when the message is gone.
        let path = format!("/v1/decks/tips/messages/{}", first["message"]["id"].as_str().context("an id")?);
        team.delete(&path).await?.expect(204)?;
        let again = team.send(&ask("k1", &body)).await?.expect(200)?;
        assert_eq!(
            (&again["pick"], &again["message"]["id"], &again["message"]["body"]),
            (&first["pick"], &first["message"]["id"], &Value::Null)
        );
        team.send(&ask("k1", &json!({"subject": "ann", "mode": "reserve"}))).await?.problem(
            422,
            "idempotency_conflict",
            Some("Idempotency-Key"),
        )?;
        // A refusal is not kept.
        assert_eq!(team.send(&ask("k2", &body)).await?.expect(200)?["reason"], "subject_cap");
        // Also when the whole deck was made anew: what was picked is settled by what it was picked as.
        team.delete("/v1/decks/tips").await?.expect(204)?;
        deck(team, json!({}), messages(20, json!({}))).await?;
        let again = team.send(&ask("k1", &body)).await?.expect(200)?;
        assert_eq!((&again["pick"], &again["replayed"]), (&first["pick"], &json!(true)));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deactivated_keeps_history_and_deleted_is_forgotten() -> Result<()> {
    on_every_store(async |_, team| {
        deck(team, json!({"strategy": "sequence"}), messages(3, json!({}))).await?;
        for expected in ["m0", "m1", "m2"] {
            assert_eq!(team.picked("ann").await?, expected);
        }
        let active =
            async |is_active: bool| team.put("/v1/decks/tips/messages/m0", &json!({"body": 1, "active": is_active})).await?.expect(200);
        active(false).await?;
        assert_eq!(team.picked("ann").await?, "m1");
        active(true).await?;
        assert_eq!(team.picked("ann").await?, "m0", "it goes on where it was");
        // What is deleted is forgotten by the next pick; what has its name after that is new.
        team.delete("/v1/decks/tips/messages/m0").await?.expect(204)?;
        assert_eq!(team.picked("ann").await?, "m2");
        let history = team.get("/v1/decks/tips/history/ann").await?.expect(200)?;
        let ids: Vec<&Value> = history["items"].as_array().into_iter().flatten().map(|item| &item["id"]).collect();
        assert_eq!(ids, ["m2", "m1"]);
        team.put("/v1/decks/tips/messages/m0", &json!({"body": 1})).await?.expect(201)?;
        assert_eq!(team.picked("ann").await?, "m0");
        // A deck that is made again has no history, and nothing is remembered of the one before.
        for cap in [Value::Null, json!({"tokens": 1, "per": "1h"})] {
            team.delete("/v1/decks/tips").await?.expect(204)?;
            deck(team, json!({"subject_cap": cap}), messages(1, json!({}))).await?;
            assert_eq!(team.get("/v1/decks/tips/history/ann").await?.expect(200)?["picks"], 0);
            assert_eq!(team.picked("ann").await?, "m0");
            team.pick(json!({"subject": "ann"})).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_ends_after_four_hundred_days() -> Result<()> {
    on_every_store(async |site, team| {
        deck(team, json!({}), messages(2, json!({}))).await?;
        for _ in 0..5 {
            team.picked("ann").await?;
        }
        advance(site, 400 * 24 * 60 * MINUTE);
        let both = BTreeSet::from([team.picked("ann").await?, team.picked("ann").await?]);
        assert_eq!(both.len(), 2);
        assert_eq!(team.get("/v1/decks/tips/history/ann").await?.expect(200)?["picks"], 2);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_says_when_and_what_it_wants() -> Result<()> {
    on_every_store(async |site, team| {
        let list = json!([
            {"id": "all", "body": 1, "tags": ["ads"]},
            {"id": "vip", "body": 2, "to": {"tags": ["vip"]}},
            {"id": "level", "body": 3, "when": "attributes.level >= 3"},
            {"id": "ann", "body": 4, "to": {"subjects": ["ann"]}},
            {"id": "alarm", "body": 5, "critical": true, "active": false},
        ]);
        deck(team, json!({"strategy": "sequence"}), list).await?;
        let explained = async |subject: &str| -> Result<BTreeMap<String, String>> {
            let told = team.pick(json!({"subject": subject, "dry_run": true, "explain": true})).await?;
            let items = told["candidates"].as_array().cloned().unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
            Ok(items.iter().map(|item| (text(&item["id"]), text(&item["verdict"]))).collect())
        };
        let expected = [("alarm", "inactive"), ("all", "allowed"), ("level", "when_is_false"), ("vip", "not_addressed")];
        assert_eq!(explained("ben").await?, expected.map(|(id, verdict)| (id.to_owned(), verdict.to_owned())).into());
        let profile = json!({"subject": "ann", "tags": ["vip"], "attributes": {"level": 3}, "timezone": "Europe/Berlin",
            "quiet": {"from": "06:00", "to": "07:30"}, "opt_out": ["ads"]});
        assert_eq!(team.put("/v1/subjects/ann", &profile).await?.expect(200)?, profile);
        assert_eq!(team.get("/v1/subjects/ann").await?.expect(200)?, profile);
        let expected = [("alarm", "inactive"), ("all", "opted_out"), ("ann", "allowed"), ("level", "allowed"), ("vip", "allowed")];
        assert_eq!(explained("ann").await?, expected.map(|(id, verdict)| (id.to_owned(), verdict.to_owned())).into());
        // 04:40 in Berlin; it is quiet from 06:00 on.
        assert_eq!(team.picked("ann").await?, "vip");
        advance(site, 80 * MINUTE);
        let quiet = json!({"status": "none", "reason": "quiet", "retry_at": "2017-07-14T05:30:00.000Z"});
        assert_eq!(team.pick(json!({"subject": "ann"})).await?, quiet);
        let alarm = json!({"body": 5, "critical": true});
        team.put("/v1/decks/tips/messages/alarm", &alarm).await?.expect(200)?;
        assert_eq!(team.picked("ann").await?, "alarm");
        team.delete("/v1/decks/tips/messages/alarm").await?.expect(204)?;
        let mut muted = profile.clone();
        muted["mute_until"] = json!("2017-07-14T06:00:00.000Z");
        team.put("/v1/subjects/ann", &muted).await?.expect(200)?;
        let none = team.pick(json!({"subject": "ann"})).await?;
        assert_eq!((&none["reason"], &none["retry_at"]), (&json!("muted"), &json!("2017-07-14T06:00:00.000Z")));
        // Forgotten, it is as everybody.
        team.delete("/v1/subjects/ann").await?.expect(204)?;
        team.delete("/v1/subjects/ann").await?.problem(404, "not_found", Some("subject"))?;
        assert_eq!(
            team.get("/v1/subjects/ann").await?.expect(200)?,
            json!({"subject": "ann", "tags": [], "attributes": {}, "opt_out": []})
        );
        assert_eq!(team.picked("ann").await?, "all");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_and_a_simulation_change_nothing() -> Result<()> {
    on_every_store(async |_, team| {
        deck(team, json!({"subject_cap": {"tokens": 1, "per": "10m"}, "strategy": "sequence"}), messages(3, json!({}))).await?;
        for _ in 0..2 {
            let dry = team.pick(json!({"subject": "ann", "dry_run": true})).await?;
            assert_eq!((&dry["status"], &dry["message"]["id"], dry.get("pick")), (&json!("picked"), &json!("m0"), None));
            let simulated = team.pick(json!({"subject": "ann", "simulate": 4})).await?;
            let at = |minutes: u64| format!("2017-07-14T{:02}:{:02}:00.000Z", (160 + minutes) / 60, (160 + minutes) % 60);
            let expected: Vec<Value> =
                [(0, "m0"), (10, "m1"), (20, "m2"), (30, "m0")].map(|(at_minute, id)| json!({"at": at(at_minute), "id": id})).into();
            assert_eq!(simulated["picks"], json!(expected));
        }
        assert_eq!(team.get("/v1/decks/tips/history/ann").await?.expect(200)?["picks"], 0);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_simulation_goes_on_where_messages_begin_and_end_and_says_why_there_are_no_more() -> Result<()> {
    on_every_store(async |_, team| {
        let at = |minutes: u64| format!("2017-07-14T{:02}:{:02}:00.000Z", (160 + minutes) / 60, (160 + minutes) % 60);
        let list = json!([{"id": "always", "body": 1, "ends_at": at(55)}, {"id": "ends", "body": 2, "ends_at": at(15)},
            {"id": "begins", "body": 3, "starts_at": at(35), "ends_at": at(55)}]);
        deck(team, json!({"subject_cap": {"tokens": 1, "per": "10m"}, "strategy": "sequence"}), list).await?;
        let simulated = team.pick(json!({"subject": "ann", "simulate": 20})).await?;
        let picks = [(0, "always"), (10, "ends"), (20, "always"), (30, "always"), (40, "begins"), (50, "always")];
        let picks = picks.map(|(minutes, id)| json!({"at": at(minutes), "id": id}));
        let expected = json!({"status": "simulated", "picks": picks, "reason": "subject_cap", "retry_at": null});
        assert_eq!(simulated, expected);
        let simulated = team.pick(json!({"subject": "ann", "simulate": 5})).await?;
        assert_eq!((simulated["picks"].as_array().map(Vec::len), simulated.get("reason")), (Some(5), None));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_named_and_changes_nothing() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    deck(team, json!({}), messages(1, json!({}))).await?;
    for (body, code, field) in [
        (json!({}), "missing_field", "subject"),
        (json!({"subject": ""}), "invalid_field", "subject"),
        (json!({"subject": "a", "mode": "later"}), "invalid_field", "mode"),
        (json!({"subject": "a", "ttl": "1m"}), "invalid_field", "ttl"),
        (json!({"subject": "a", "mode": "reserve", "ttl": "25h"}), "invalid_field", "ttl"),
        (json!({"subject": "a", "simulate": 0}), "invalid_field", "simulate"),
        (json!({"subject": "a", "simulate": 101}), "invalid_field", "simulate"),
        (json!({"subject": "a", "what": 1}), "unknown_field", "what"),
    ] {
        team.post("/v1/decks/tips/picks", &body).await?.problem(400, code, Some(field)).with_context(|| format!("{body}"))?;
    }
    for (body, code, field) in [
        (json!({"subject": "ben"}), "invalid_field", "subject"),
        (json!({"timezone": "Mars/Base"}), "invalid_field", "timezone"),
        (json!({"quiet": {"from": "22", "to": "08:00"}}), "invalid_field", "quiet.from"),
        (json!({"mute_until": "tomorrow"}), "invalid_field", "mute_until"),
        (json!({"opt_out": [""]}), "invalid_field", "opt_out"),
        (json!({"tags": vec!["a"; 257]}), "invalid_field", "tags"),
    ] {
        team.put("/v1/subjects/ann", &body).await?.problem(400, code, Some(field)).with_context(|| format!("{body}"))?;
    }
    team.get("/v1/decks/tips/history/a?limit=x").await?.problem(400, "invalid_field", Some("limit"))?;
    assert_eq!(team.get("/v1/decks/tips/history/a").await?.expect(200)?["picks"], 0);
    // A key that only reads does not pick.
    let (_, reader) = team.key("default", &["decks:read"]).await?;
    reader.post("/v1/decks/tips/picks", &json!({"subject": "a"})).await?.problem(403, "forbidden", None)?;
    reader.get("/v1/decks/tips/history/a").await?.expect(200)?;
    site.server.shutdown().await;
    Ok(())
}

/// Whatever is asked at once, on two servers: no message beyond its cap, no subject beyond its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_picks_never_send_one_message_twice_over_its_cap() -> Result<()> {
    for store in [Store::Embedded, Store::Redis, Store::Cluster] {
        let (url, space) = (shared(store)?, unique("picks"));
        let one = Live::start(&url, &space).await?;
        // Both have the same catalog.
        let other = match store {
            Store::Embedded => None,
            _ => Some(one.beside(&url).await?),
        };
        deck(
            &one.team,
            json!({"subject_cap": {"tokens": 50, "per": "1day", "kind": "rolling"}}),
            messages(30, json!({"cap": {"tokens": 2, "per": "1day"}})),
        )
        .await?;
        let teams = [Some(&one.team), other.as_ref().map(|(_, team)| team)].into_iter().flatten().cloned().collect::<Vec<_>>();
        if let Some(second) = teams.get(1) {
            let ask = Ask::json("POST", "/v1/decks/tips/picks", &json!({"subject": "nobody", "dry_run": true, "explain": true}));
            let is_seen =
                |reply: &Reply| reply.expect(200).is_ok_and(|told| told["candidates"].as_array().is_some_and(|all| all.len() == 30));
            second.until(crate::http::site::SOON, "all messages are seen by the second server", &ask, is_seen)?;
        }
        let mut clients = JoinSet::new();
        for client in 0..24 {
            let team = teams[client % teams.len()].clone();
            clients.spawn(async move {
                let mut got = Vec::new();
                for _ in 0..4 {
                    let picked = team.pick(json!({"subject": "ann"})).await?;
                    got.extend(picked["message"]["id"].as_str().map(str::to_owned));
                }
                anyhow::Ok(got)
            });
        }
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        while let Some(got) = clients.join_next().await {
            got??.into_iter().for_each(|id| *counts.entry(id).or_default() += 1);
        }
        // 60 could be sent by the messages' caps, 96 were asked for.
        assert_eq!(counts.values().sum::<u32>(), 50, "on {store:?}: {counts:?}");
        assert!(counts.values().all(|count| *count <= 2), "on {store:?}: {counts:?}");
        assert_eq!(counts.len(), 30, "on {store:?}: what was never sent goes first");
        if let Some((server, _)) = other {
            server.shutdown().await;
        }
        one.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_on_redis_is_kept_for_400_days_after_every_pick() -> Result<()> {
    const HOUR_MS: i64 = 3_600_000;
    let redis = Redis::start()?;
    let site = Site::start_with(|config| Config { store: redis.url(), ..config }).await?;
    deck(&site.admin, json!({}), messages(3, json!({}))).await?;
    let ann = json!({"subject": "ann"});
    site.admin.pick(ann.clone()).await?;
    let keys: Vec<String> = redis.ask(&["KEYS", "hm:*:pick:*"])?;
    let [key] = &keys[..] else { anyhow::bail!("one history: {keys:?}") };
    // Many on a day, then one a day and one a month; some are reserved, which is written in another way.
    for (number, hours) in [1, 10, 12, 1, 24, 25, 720, 720, 23, 720].into_iter().enumerate() {
        let ttl_ms: i64 = redis.ask(&["PTTL", key])?;
        ensure!(ttl_ms >= 400 * 24 * HOUR_MS, "{ttl_ms} ms are left after pick {number}");
        // Redis follows the system's clock, so for it the time passes like this.
        redis.ask::<i64>(&["PEXPIRE", key, &(ttl_ms - hours * HOUR_MS).to_string()])?;
        advance(&site, u64::try_from(hours)? * 60 * MINUTE);
        let mode = if number % 3 == 2 { "reserve" } else { "commit" };
        site.admin.pick(with(ann.clone(), &json!({"mode": mode}))).await?;
    }
    site.server.shutdown().await;
    Ok(())
}
