//! Asking twice is safe: the same key and body is one effect and one answer.

use anyhow::{Context, Result, ensure};
use hermod_server::{Mode, Server};
use serde_json::{Value, json};

use super::site::{Ask, Caller, Reply, Site, config, rule};

/// Every write: what must be there before, the request, and the same with another meaning.
fn writes() -> Vec<(&'static str, Ask, Ask)> {
    let key = |name: &str| json!({"name": name, "scopes": ["limit:check"]});
    let check = |cost: u64| json!({"subject": "witness", "action": "watched", "cost": cost});
    vec![
        ("rule", Ask::json("POST", "/v1/rules", &rule("a", 1, "1s")), Ask::json("POST", "/v1/rules", &rule("b", 1, "1s"))),
        ("put", Ask::json("PUT", "/v1/rules/p", &rule("p", 1, "1s")), Ask::json("PUT", "/v1/rules/p", &rule("p", 2, "1s"))),
        ("path", Ask::json("PUT", "/v1/rules/q", &rule("q", 1, "1s")), Ask::json("PUT", "/v1/rules/z", &rule("q", 1, "1s"))),
        ("delete", Ask::new("DELETE", "/v1/rules/old", ""), Ask::new("DELETE", "/v1/rules/older", "")),
        ("queue", Ask::json("PUT", "/v1/queues/q", &json!({})), Ask::json("PUT", "/v1/queues/q", &json!({"lease": "1m"}))),
        ("deck", Ask::json("PUT", "/v1/decks/d", &json!({})), Ask::json("PUT", "/v1/decks/d", &json!({"history_max": 16}))),
        ("key", Ask::json("POST", "/v1/keys", &key("one")), Ask::json("POST", "/v1/keys", &key("two"))),
        ("space", Ask::json("POST", "/v1/spaces", &json!({"space": "s1"})), Ask::json("POST", "/v1/spaces", &json!({"space": "s2"}))),
        ("check", Ask::json("POST", "/v1/limit/check", &check(1)), Ask::json("POST", "/v1/limit/check", &check(2))),
        ("refund", Ask::json("POST", "/v1/limit/refund", &check(1)), Ask::json("POST", "/v1/limit/refund", &check(2))),
    ]
}

async fn prepare(admin: &Caller) -> Result<()> {
    admin.fill().await?;
    for id in ["old", "older"] {
        admin.put(&format!("/v1/rules/{id}"), &rule(id, 1, "1s")).await?.expect(201)?;
    }
    Ok(())
}

/// What a replay gives: the same, but for a secret, and for saying that it is one.
fn as_replayed(first: &Reply) -> Result<Value> {
    let mut body = first.expect(first.status)?;
    if body.get("secret").is_some() {
        body["secret"] = Value::Null;
    }
    if body.get("replayed").is_some() {
        body["replayed"] = json!(true);
    }
    Ok(body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_is_answered_again_and_done_once() -> Result<()> {
    let site = Site::start().await?;
    prepare(&site.admin).await?;
    for (name, ask, other) in writes() {
        let first = site.admin.send(&ask.clone().once(name)).await?;
        ensure!(matches!(first.status, 200 | 201 | 204), "{name}: {}", first.text());
        let state = site.admin.state().await?;
        for _ in 0..2 {
            let again = site.admin.send(&ask.clone().once(name)).await?;
            assert_eq!(again.expect(first.status)?, as_replayed(&first)?, "{name}");
        }
        let conflict = site.admin.send(&other.clone().once(name)).await?;
        conflict.problem(422, "idempotency_conflict", Some("Idempotency-Key")).context(name)?;
        assert_eq!(site.admin.state().await?, state, "{name} was done once");
        // With another key it is another request.
        let done = site.admin.send(&other.clone().once(&format!("{name}-other"))).await?;
        ensure!(matches!(done.status, 200 | 201 | 204 | 409), "{name}: {}", done.text());
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_used_for_one_kind_of_request_is_refused_for_another() -> Result<()> {
    let site = Site::start().await?;
    prepare(&site.admin).await?;
    site.admin.send(&Ask::json("POST", "/v1/rules", &rule("a", 1, "1s")).once("k")).await?.expect(201)?;
    let state = site.admin.state().await?;
    for ask in [
        Ask::json("PUT", "/v1/rules/x", &rule("a", 1, "1s")),
        Ask::new("DELETE", "/v1/rules/old", ""),
        Ask::json("POST", "/v1/keys", &json!({"name": "n", "scopes": ["admin"]})),
    ] {
        site.admin.send(&ask.once("k")).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;
    }
    assert_eq!(site.admin.state().await?, state);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_at_once_with_one_key_are_one() -> Result<()> {
    let site = Site::start().await?;
    prepare(&site.admin).await?;
    for (name, ask, _) in writes() {
        let before = site.admin.state().await?;
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let (admin, ask) = (site.admin.clone(), ask.clone().once(name));
                tokio::spawn(async move { admin.send(&ask).await })
            })
            .collect();
        let mut replies = Vec::new();
        for task in tasks {
            replies.push(task.await??);
        }
        let expected = as_replayed(&replies[0])?;
        let mut firsts = 0;
        for reply in &replies {
            assert_eq!(as_replayed(reply)?, expected, "{name}: all get the same answer");
            let body = reply.expect(replies[0].status)?;
            firsts += usize::from(body["secret"].is_string() || body["replayed"] == false);
        }
        assert_eq!(firsts, usize::from(matches!(name, "key" | "check" | "refund")), "{name}: at most one is the first");
        let after = site.admin.state().await?;
        let count = |state: &Value| -> Option<i64> {
            let lists = ["rules", "queues", "decks", "keys", "spaces"].iter().map(|list| state[list]["items"].as_array().map(Vec::len));
            i64::try_from(lists.sum::<Option<usize>>()?).ok()?.checked_sub(state["left"].as_i64()?)
        };
        let changed = count(&after).zip(count(&before)).map(|(after, before)| after - before);
        assert_eq!(changed, Some(if matches!(name, "delete" | "refund") { -1 } else { 1 }), "{name} was done once");
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_does_not_bring_back_what_was_deleted_meanwhile() -> Result<()> {
    let site = Site::start().await?;
    let create = Ask::json("POST", "/v1/rules", &rule("a", 1, "1s")).once("create");
    let made = site.admin.send(&create).await?.expect(201)?;
    let id = made["id"].as_str().context("an id")?;
    site.admin.delete(&format!("/v1/rules/{id}")).await?.expect(204)?;
    assert_eq!(site.admin.send(&create).await?.expect(201)?, made, "what was answered then");
    site.admin.get(&format!("/v1/rules/{id}")).await?.problem(404, "not_found", None)?;
    // Nor does it delete again what was made anew.
    let delete = Ask::new("DELETE", "/v1/rules/x", "").once("delete");
    for _ in 0..2 {
        site.admin.put("/v1/rules/x", &rule("x", 1, "1s")).await?.expect(201)?;
        site.admin.send(&delete).await?.expect(204)?;
    }
    site.admin.get("/v1/rules/x").await?.expect(200)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_check_is_not_kept_and_may_be_asked_again_with_its_key() -> Result<()> {
    let site = Site::start().await?;
    let body = json!({"action": "act", "limit": 1, "per": "10s", "algorithm": "sliding_log"});
    site.admin.put("/v1/rules/r", &body).await?.expect(201)?;
    site.admin.check("bot", "act", 1).await?;
    let ask = Ask::json("POST", "/v1/limit/check", &json!({"subject": "bot", "action": "act"})).once("later");
    assert_eq!(site.admin.send(&ask).await?.expect(200)?["allowed"], false);
    site.at_ms(10_000);
    let allowed = site.admin.send(&ask).await?.expect(200)?;
    assert_eq!((&allowed["allowed"], &allowed["replayed"]), (&json!(true), &json!(false)));
    let replayed = site.admin.send(&ask).await?.expect(200)?;
    assert_eq!((&replayed["allowed"], &replayed["replayed"]), (&json!(true), &json!(true)));
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_still_knows_what_it_answered() -> Result<()> {
    let Site { server, admin, folder, .. } = Site::start().await?;
    prepare(&admin).await?;
    let key = server.admin_key().context("a first key")?.to_owned();
    let mut answered = Vec::new();
    for (name, ask, _) in writes() {
        answered.push((name, ask.clone(), admin.send(&ask.once(name)).await?));
    }
    server.shutdown().await;
    let server = Server::start(config(&folder), Mode { manual_clock: true, ..Mode::default() }).await?;
    server.app().manual_clock().context("a manual clock")?.set(hermod_tests::lane::START);
    let admin = Caller::new(&server.url(), Some(&key));
    for (name, ask, first) in answered {
        assert_eq!(admin.send(&ask.once(name)).await?.expect(first.status)?, as_replayed(&first)?, "{name}");
    }
    server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_check_tells_of_the_rules_of_then() -> Result<()> {
    let site = Site::start().await?;
    let named = |name: &str, limit: u64| json!({"name": name, "action": "act", "limit": limit, "per": "1day"});
    let ask = Ask::json("POST", "/v1/limit/check", &json!({"subject": "bot", "action": "act"})).once("k");
    site.admin.put("/v1/rules/m", &named("m", 5)).await?.expect(201)?;
    let first = site.admin.send(&ask).await?;
    site.admin.put("/v1/rules/a", &named("a", 100)).await?.expect(201)?;
    assert_eq!(site.admin.send(&ask).await?.expect(200)?, as_replayed(&first)?, "with a rule more");
    site.admin.delete("/v1/rules/m").await?.expect(204)?;
    site.admin.delete("/v1/rules/a").await?.expect(204)?;
    assert_eq!(site.admin.send(&ask).await?.expect(200)?, as_replayed(&first)?, "with no rule any more");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_does_not_make_api_keys_in_two_spaces() -> Result<()> {
    let site = Site::start().await?;
    site.admin.space("red").await?;
    let ask = |space: &str| Ask::json("POST", "/v1/keys", &json!({"name": "n", "scopes": ["admin"], "space": space})).once("k");
    site.admin.send(&ask("red")).await?.expect(201)?;
    site.admin.send(&ask("default")).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;
    site.server.shutdown().await;
    Ok(())
}
