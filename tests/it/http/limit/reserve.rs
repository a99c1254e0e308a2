//! An estimate is charged at once, and settled once to what was really used.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::super::site::{Ask, Caller, Site};
use super::{at_ms, on_every_store};

/// A hundred a day for each.
async fn tokens(team: &Caller, fields: Value) -> Result<()> {
    team.rule("tokens", "llm", 100, "1day", fields).await?;
    Ok(())
}

async fn reserve(team: &Caller, cost: u64, ttl: &str) -> Result<Value> {
    team.limit("reserve", json!({"subject": "agent", "action": "llm", "cost": cost, "ttl": ttl})).await
}

fn id(reserved: &Value) -> Result<&str> {
    reserved["reservation"].as_str().with_context(|| format!("no reservation in {reserved}"))
}

async fn commit(team: &Caller, reserved: &Value, actual: u64) -> Result<Value> {
    team.limit("commit", json!({"reservation": id(reserved)?, "actual": actual})).await
}

async fn cancel(team: &Caller, reserved: &Value) -> Result<Value> {
    team.limit("cancel", json!({"reservation": id(reserved)?})).await
}

/// What became of it: the word, what was estimated, what is charged.
fn outcome(settled: &Value) -> (Option<&str>, Option<u64>, Option<u64>) {
    (settled["outcome"].as_str(), settled["estimate"].as_u64(), settled["charged"].as_u64())
}

fn told(word: &str, estimate: u64, charged: u64) -> (Option<&str>, Option<u64>, Option<u64>) {
    (Some(word), Some(estimate), Some(charged))
}

async fn left(team: &Caller) -> Result<u64> {
    team.left("agent", "llm", "tokens").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_estimate_is_charged_at_once_and_settled_once() -> Result<()> {
    on_every_store(async |site, team| {
        for algorithm in ["sliding_window", "sliding_log", "fixed_window", "token_bucket", "leaky_bucket"] {
            team.limit("reset", json!({"subject": "agent", "action": "llm"})).await?;
            tokens(team, json!({"algorithm": algorithm})).await?;
            let reserved = reserve(team, 60, "10s").await?;
            assert_eq!((&reserved["allowed"], &reserved["rules"][0]["remaining"]), (&json!(true), &json!(40)), "{reserved}");
            ensure!(id(&reserved)?.starts_with("rs_") && at_ms(&reserved["expires_at"])? == 10_000, "{reserved}");
            let settled = commit(team, &reserved, 25).await?;
            assert_eq!((outcome(&settled), &settled["on_expiry"]), (told("settled", 60, 25), &Value::Null), "{algorithm}");
            ensure!(settled["durability"].is_string() && settled["replayed"] == false, "{settled}");
            assert_eq!(left(team).await?, 75);
            // Again, also to something else: nothing changes, and what it was settled to is told.
            for again in [commit(team, &reserved, 25).await?, commit(team, &reserved, 99).await?, cancel(team, &reserved).await?] {
                assert_eq!((outcome(&again), &again["durability"]), (told("already", 60, 25), &Value::Null));
            }
            let as_estimated = reserve(team, 5, "10s").await?;
            let settled = team.limit("commit", json!({"reservation": id(&as_estimated)?})).await?;
            assert_eq!((outcome(&settled), left(team).await?), (told("settled", 5, 5), 70));
            let cancelled = cancel(team, &reserve(team, 70, "10s").await?).await?;
            assert_eq!((outcome(&cancelled), left(team).await?), (told("settled", 70, 0), 70));
        }
        site.at_ms(3_600_000 + 10_001);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_used_beyond_the_estimate_is_charged_also_where_it_does_not_fit() -> Result<()> {
    on_every_store(async |_, team| {
        tokens(team, json!({})).await?;
        let reserved = reserve(team, 60, "1m").await?;
        assert_eq!((outcome(&commit(team, &reserved, 90).await?), left(team).await?), (told("settled", 60, 90), 10));
        let reserved = reserve(team, 10, "1m").await?;
        assert_eq!(outcome(&commit(team, &reserved, 1_000).await?), told("settled", 10, 1_000));
        assert_eq!(left(team).await?, 0);
        ensure!(reserve(team, 1, "1m").await?["allowed"] == false, "what was forced counts");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_reserves_and_charges_nothing() -> Result<()> {
    on_every_store(async |_, team| {
        tokens(team, json!({})).await?;
        team.rule("burst", "llm", 50, "1s", json!({"algorithm": "token_bucket", "burst": 80})).await?;
        for cost in [81, 101] {
            let refused = reserve(team, cost, "1m").await?;
            assert_eq!((&refused["allowed"], &refused["never"]), (&json!(false), &json!(true)));
            assert_eq!((&refused["reservation"], &refused["expires_at"]), (&Value::Null, &Value::Null));
        }
        reserve(team, 60, "1m").await?;
        let refused = reserve(team, 30, "1m").await?;
        assert_eq!((&refused["bound_by"], &refused["reservation"]), (&json!("burst"), &Value::Null));
        assert_eq!(left(team).await?, 40, "the other rule was not charged");
        // Where no rule limits it, it is admitted, and can be settled all the same.
        let free = team.limit("reserve", json!({"subject": "agent", "action": "free", "cost": 7})).await?;
        assert_eq!((&free["rules"], at_ms(&free["expires_at"])?), (&json!([]), 300_000), "five minutes if it does not say");
        assert_eq!(outcome(&commit(team, &free, 9).await?), told("settled", 7, 9));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expires_is_kept_or_given_back_as_its_rule_says() -> Result<()> {
    on_every_store(async |site, team| {
        tokens(team, json!({"on_expiry": "refund"})).await?;
        team.rule("kept", "llm", 100, "1day", json!({"on_expiry": "keep"})).await?;
        let kept = async || team.left("agent", "llm", "kept").await;
        let (first, second) = (reserve(team, 60, "10s").await?, reserve(team, 30, "20s").await?);
        site.at_ms(9_999);
        assert_eq!((left(team).await?, kept().await?), (10, 10));
        site.at_ms(10_000);
        assert_eq!((left(team).await?, kept().await?), (70, 10), "given back before the next check is answered, where the rule says so");
        let late = commit(team, &first, 5).await?;
        assert_eq!((outcome(&late), &late["on_expiry"]), (told("expired", 60, 0), &json!("refund")), "a late commit does not act twice");
        assert_eq!((left(team).await?, kept().await?), (70, 10));
        // Without a check in between, the commit itself finds it expired.
        site.at_ms(20_000);
        assert_eq!(outcome(&commit(team, &second, 5).await?), told("expired", 30, 0));
        assert_eq!(outcome(&cancel(team, &second).await?), told("expired", 30, 0));
        assert_eq!((left(team).await?, kept().await?), (100, 10));
        // Nobody comes for long: it is given back all the same.
        reserve(team, 10, "10s").await?;
        site.at_ms(20_000 + 5 * 3_600_000);
        assert_eq!((left(team).await?, kept().await?), (100, 0));
        team.rule("tokens", "llm", 100, "1day", json!({})).await?;
        team.limit("reset", json!({"subject": "agent", "action": "llm"})).await?;
        let reserved = reserve(team, 60, "10s").await?;
        site.at_ms(20_000 + 6 * 3_600_000);
        assert_eq!(left(team).await?, 40);
        let late = commit(team, &reserved, 5).await?;
        assert_eq!((outcome(&late), &late["on_expiry"], &late["durability"]), (told("expired", 60, 60), &json!("keep"), &Value::Null));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_given_back_that_came_back_by_itself() -> Result<()> {
    on_every_store(async |site, team| {
        for (algorithm, per) in [("fixed_window", "10s"), ("fixed_window", "hour@UTC"), ("token_bucket", "10s"), ("sliding_log", "10s")] {
            let turn = if per == "10s" { 10_000 } else { 3_600_000 };
            // Each begins an hour or more after the last one, at the turn of a window.
            let start = (site.clock.now().get() / 1_000 / 3_600_000 + 1) * 3_600_000 - hermod_tests::lane::START.get() / 1_000;
            site.at_ms(start + turn - 1_000);
            tokens(team, json!({"algorithm": algorithm})).await?;
            team.rule("tokens", "llm", 100, per, json!({"algorithm": algorithm})).await?;
            let reserved = reserve(team, 60, "2h").await?;
            site.at_ms(start + 2 * turn - 1);
            team.check("agent", "llm", 70).await?;
            let before = left(team).await?;
            assert_eq!(outcome(&cancel(team, &reserved).await?), told("settled", 60, 0));
            assert_eq!(left(team).await?, before, "{algorithm} per {per}: others' charges were given back");
        }
        // Of a bucket that drips back, what has not yet.
        team.rule("drip", "drip", 10, "10s", json!({"algorithm": "token_bucket"})).await?;
        let reserved = team.limit("reserve", json!({"subject": "agent", "action": "drip", "cost": 10})).await?;
        site.at_ms(site.clock.now().since(hermod_tests::lane::START).get() / 1_000 + 4_000);
        team.check("agent", "drip", 4).await?;
        cancel(team, &reserved).await?;
        assert_eq!(team.left("agent", "drip", "drip").await?, 6, "as if it had never been");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_all_subjects_share_is_settled_too_and_once() -> Result<()> {
    on_every_store(async |site, team| {
        tokens(team, json!({"on_expiry": "refund"})).await?;
        team.rule("all", "llm", 150, "1day", json!({"scope": "global", "on_expiry": "refund"})).await?;
        let all = async || team.left("other", "llm", "all").await;
        let reserved = reserve(team, 60, "10s").await?;
        assert_eq!((left(team).await?, all().await?), (40, 90));
        let refused = reserve(team, 41, "10s").await?;
        assert_eq!(
            (&refused["bound_by"], all().await?),
            (&json!("tokens"), 90),
            "what all share is not charged where the subject's own refuse"
        );
        for _ in 0..3 {
            commit(team, &reserved, 10).await?;
            assert_eq!((left(team).await?, all().await?), (90, 140));
        }
        let more = reserve(team, 10, "10s").await?;
        commit(team, &more, 30).await?;
        assert_eq!((left(team).await?, all().await?), (60, 110));
        reserve(team, 60, "10s").await?;
        assert_eq!(all().await?, 50);
        site.at_ms(10_000);
        assert_eq!(all().await?, 50, "others' checks do not find what expired");
        assert_eq!((left(team).await?, all().await?), (60, 110), "the subject's own do");
        // With a key: nothing that all share is charged again.
        let body = json!({"subject": "agent", "action": "llm", "cost": 20});
        let first = team.limit_once("reserve", body.clone(), "k").await?;
        let again = team.limit_once("reserve", body, "k").await?;
        assert_eq!((&again["reservation"], &again["expires_at"]), (&first["reservation"], &first["expires_at"]));
        assert_eq!((left(team).await?, all().await?), (40, 90));
        // Under no rule of its own.
        team.rule("only", "shared", 10, "1day", json!({"scope": "global"})).await?;
        let reserved = team.limit("reserve", json!({"subject": "agent", "action": "shared", "cost": 10})).await?;
        assert_eq!(team.left("other", "shared", "only").await?, 0);
        assert_eq!(outcome(&commit(team, &reserved, 3).await?), told("settled", 10, 3));
        assert_eq!(team.left("other", "shared", "only").await?, 7);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_replays_a_reservation_and_its_settlement() -> Result<()> {
    on_every_store(async |_, team| {
        tokens(team, json!({})).await?;
        let body = json!({"subject": "agent", "action": "llm", "cost": 60});
        let first = team.limit_once("reserve", body.clone(), "k1").await?;
        let again = team.limit_once("reserve", body.clone(), "k1").await?;
        assert_eq!(
            (&again["replayed"], &again["reservation"], &again["expires_at"]),
            (&json!(true), &first["reservation"], &first["expires_at"])
        );
        assert_eq!(left(team).await?, 40, "charged once");
        let settle = json!({"reservation": id(&first)?, "actual": 10});
        let settled = team.limit_once("commit", settle.clone(), "k2").await?;
        let replayed = team.limit_once("commit", settle.clone(), "k2").await?;
        assert_eq!((outcome(&settled), outcome(&replayed)), (told("settled", 60, 10), told("settled", 60, 10)));
        assert_eq!((&settled["replayed"], &replayed["replayed"], left(team).await?), (&json!(false), &json!(true), 90));
        let other = Ask::json("POST", "/v1/limit/commit", &json!({"reservation": id(&first)?, "actual": 11})).once("k2");
        team.send(&other).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;
        let other = Ask::json("POST", "/v1/limit/cancel", &json!({"reservation": id(&first)?})).once("k1");
        team.send(&other).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_worth_nothing_elsewhere_and_is_forgotten_in_time() -> Result<()> {
    on_every_store(async |site, team| {
        tokens(team, json!({})).await?;
        let reserved = reserve(team, 60, "10s").await?;
        let body = json!({"reservation": id(&reserved)?});
        for verb in ["commit", "cancel"] {
            let path = format!("/v1/limit/{verb}");
            site.admin.post(&path, &body).await?.problem(404, "not_found", Some("reservation"))?;
            let unknown = json!({"reservation": "rs_00000000000000000000000000000007_YWdlbnQ"});
            team.post(&path, &unknown).await?.problem(404, "not_found", Some("reservation"))?;
            for bad in ["", "rs_", "ls_00000000000000000000000000000007_YWdlbnQ", &format!("{}=", id(&reserved)?), &"r".repeat(5_000)] {
                team.post(&path, &json!({"reservation": bad})).await?.problem(400, "invalid_field", Some("reservation"))?;
            }
        }
        assert_eq!(left(team).await?, 40, "nobody else has settled it");
        assert_eq!(outcome(&cancel(team, &reserved).await?), told("settled", 60, 0));
        site.at_ms(10_000 + 3_600_000 - 1);
        assert_eq!(outcome(&cancel(team, &reserved).await?), told("already", 60, 0));
        site.at_ms(10_000 + 3_600_000);
        team.post("/v1/limit/cancel", &body).await?.problem(404, "not_found", Some("reservation"))?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_at_once_settle_it_once() -> Result<()> {
    on_every_store(async |_, team| {
        tokens(team, json!({"algorithm": "fixed_window"})).await?;
        team.rule("all", "llm", 1_000, "1day", json!({"scope": "global"})).await?;
        for round in 0..3_u64 {
            let reserved = reserve(team, 20, "1m").await?;
            let mut calls = JoinSet::new();
            for n in 0..64_u64 {
                let (team, reserved) = (team.clone(), reserved.clone());
                calls
                    .spawn(async move { if n % 4 == 0 { cancel(&team, &reserved).await } else { commit(&team, &reserved, n % 30).await } });
            }
            let answers = calls.join_all().await.into_iter().collect::<Result<Vec<Value>>>()?;
            let done: Vec<&Value> = answers.iter().filter(|answer| answer["outcome"] == "settled").collect();
            let [done] = done.as_slice() else { anyhow::bail!("{} calls settled it", done.len()) };
            ensure!(answers.iter().all(|answer| answer["charged"] == done["charged"]), "all are told the same: {answers:?}");
            let charged = done["charged"].as_u64().context("a number")?;
            assert_eq!((left(team).await?, team.left("other", "llm", "all").await?), (100 - charged, 1_000 - charged), "round {round}");
            team.limit("refund", json!({"subject": "agent", "action": "llm", "cost": charged.max(1)})).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_has_so_many_open_reservations_and_no_more() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.rule("tokens", "llm", 1_000_000, "1day", json!({"durable": true})).await?;
    team.rule("all", "llm", 1_000_000, "1day", json!({"scope": "global"})).await?;
    let first = reserve(team, 1, "1m").await?;
    for _ in 0..37 {
        let mut calls = JoinSet::new();
        for _ in 0..27 {
            let team = team.clone();
            calls.spawn(async move { reserve(&team, 1, "1m").await });
        }
        calls.join_all().await.into_iter().collect::<Result<Vec<Value>>>()?;
    }
    let body = json!({"subject": "agent", "action": "llm", "cost": 1});
    team.post("/v1/limit/reserve", &body).await?.problem(409, "too_many_reservations", None)?;
    assert_eq!((left(team).await?, team.left("agent", "llm", "all").await?), (999_000, 999_000), "neither was charged");
    assert_eq!(team.limit("reserve", json!({"subject": "other", "action": "llm", "cost": 1})).await?["allowed"], true);
    let settled = cancel(team, &first).await?;
    assert_eq!((outcome(&settled), &settled["durability"]), (told("settled", 1, 0), &json!("disk")), "as durable as the charge");
    reserve(team, 1, "1m").await?;
    site.at_ms(60_000);
    reserve(team, 1, "1m").await?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_reserved_or_settled_names_its_field() -> Result<()> {
    let site = Site::start().await?;
    let body = |fields: Value| {
        let mut body = json!({"subject": "agent", "action": "llm", "cost": 1});
        body.as_object_mut().into_iter().zip(fields.as_object()).for_each(|(body, fields)| body.extend(fields.clone()));
        body
    };
    for (fields, code, field) in [
        (json!({"cost": 0}), "invalid_field", "cost"),
        (json!({"cost": -1}), "invalid_field", "cost"),
        (json!({"ttl": "0s"}), "invalid_field", "ttl"),
        (json!({"ttl": "24h 1us"}), "invalid_field", "ttl"),
        (json!({"ttl": "soon"}), "invalid_field", "ttl"),
        (json!({"ttl": 5}), "invalid_field", "ttl"),
        (json!({"subject": ""}), "invalid_field", "subject"),
        (json!({"peek": true}), "unknown_field", "peek"),
    ] {
        site.admin.post("/v1/limit/reserve", &body(fields)).await?.problem(400, code, Some(field))?;
    }
    let path = "/v1/limit/reserve";
    site.admin.post(path, &json!({"subject": "agent", "action": "llm"})).await?.problem(400, "missing_field", Some("cost"))?;
    assert_eq!(site.admin.post(path, &body(json!({"ttl": "24h"}))).await?.status, 200);
    let reserved = site.admin.post(path, &body(json!({}))).await?.expect(200)?;
    for (actual, field) in [(json!(-1), "actual"), (json!(1_u64 << 53), "actual"), (json!("1"), "actual")] {
        let body = json!({"reservation": id(&reserved)?, "actual": actual});
        site.admin.post("/v1/limit/commit", &body).await?.problem(400, "invalid_field", Some(field))?;
    }
    let body = json!({"reservation": id(&reserved)?, "actual": 0});
    site.admin.post("/v1/limit/cancel", &body).await?.problem(400, "unknown_field", Some("actual"))?;
    site.server.shutdown().await;
    Ok(())
}
