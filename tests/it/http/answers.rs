//! An answer says why, and when to ask again; a refusal is one.

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use serde_json::{Value, json};

use super::site::{Site, rule};

/// The microseconds of a time that is written as promised: RFC 3339, UTC, milliseconds.
fn time(value: &Value) -> Result<Micros> {
    let text = value.as_str().with_context(|| format!("{value} is no time"))?;
    let form: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    ensure!(form == "0000-00-00T00:00:00.000Z", "{text}");
    let since = humantime::parse_rfc3339(text)?.duration_since(std::time::UNIX_EPOCH)?;
    Micros::from_duration(since).context("a time of ours")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_an_answer_that_says_when_to_ask_again() -> Result<()> {
    // Seven a minute drip back at no whole millisecond, and no ring of 32 has a whole millisecond of 7 s.
    let buckets = ["token_bucket", "leaky_bucket"].into_iter().flat_map(|name| [(name, 3, "30s"), (name, 7, "1m"), (name, 1, "1h")]);
    let windows = ["sliding_window", "sliding_log", "fixed_window"].into_iter().flat_map(|name| [(name, 3, "30s"), (name, 1_000, "7s")]);
    for (algorithm, limit, per) in buckets.chain(windows) {
        let site = Site::start().await?;
        let body = json!({"action": "act", "limit": limit, "per": per, "algorithm": algorithm});
        site.admin.put("/v1/rules/r", &body).await?.expect(201)?;
        assert_eq!(site.admin.check("bot", "act", limit).await?["allowed"], true);
        let refused = site.admin.check("bot", "act", 1).await?;
        assert_eq!((&refused["allowed"], &refused["never"], &refused["bound_by"]), (&json!(false), &json!(false), &json!("default")));
        assert_eq!(refused["durability"], Value::Null, "nothing was charged");
        assert_eq!(refused["rules"][0]["retry_at"], refused["retry_at"]);
        let retry_at = time(&refused["retry_at"])?;
        ensure!(time(&refused["rules"][0]["reset_at"])? >= retry_at, "{refused}");
        site.clock.set(Micros::saturating(retry_at.get() - 1_000));
        assert_eq!(
            site.admin.check("bot", "act", 1).await?["retry_at"],
            refused["retry_at"],
            "{limit} per {per}, {algorithm}: it is too early"
        );
        site.clock.set(retry_at);
        let allowed = site.admin.check("bot", "act", 1).await?;
        assert_eq!((&allowed["allowed"], &allowed["retry_at"]), (&json!(true), &Value::Null), "{limit} per {per}, {algorithm}: {allowed}");
        site.server.shutdown().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_rules_that_refuse_the_later_one_says_when() -> Result<()> {
    let site = Site::start().await?;
    for (name, limit, per) in [("burst", 1, "1s"), ("daily", 2, "1day")] {
        let body = json!({"name": name, "action": "act", "limit": limit, "per": per, "algorithm": "sliding_log"});
        site.admin.put(&format!("/v1/rules/{name}"), &body).await?.expect(201)?;
    }
    let first = site.admin.check("bot", "act", 1).await?;
    let left: Vec<_> = first["rules"].as_array().context("a list")?.iter().map(|rule| (&rule["name"], &rule["remaining"])).collect();
    assert_eq!(left, [(&json!("burst"), &json!(0)), (&json!("daily"), &json!(1))]);
    assert_eq!(site.admin.check("bot", "act", 1).await?["bound_by"], "burst");
    site.at_ms(1_000);
    assert_eq!(site.admin.check("bot", "act", 1).await?["allowed"], true);
    let refused = site.admin.check("bot", "act", 1).await?;
    assert_eq!(refused["bound_by"], "daily");
    assert_eq!(refused["retry_at"], refused["rules"][1]["retry_at"]);
    ensure!(time(&refused["retry_at"])? > time(&refused["rules"][0]["retry_at"])?, "{refused}");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_fit_is_told_so_and_not_to_wait() -> Result<()> {
    let site = Site::start().await?;
    let body = json!({"action": "act", "limit": 100, "per": "1s", "algorithm": "token_bucket", "burst": 3});
    site.admin.put("/v1/rules/r", &body).await?.expect(201)?;
    let never = site.admin.check("bot", "act", 4).await?;
    assert_eq!((&never["allowed"], &never["never"], &never["retry_at"]), (&json!(false), &json!(true), &Value::Null));
    assert_eq!((&never["bound_by"], &never["rules"][0]["burst"]), (&json!("default"), &json!(3)), "it says what would fit");
    assert_eq!(site.admin.check("bot", "act", 3).await?["allowed"], true, "and nothing was charged");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_rule_is_everything_is_allowed() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put("/v1/rules/r", &rule("act", 1, "1h")).await?.expect(201)?;
    let answer = site.admin.check("bot", "act/other", (1 << 53) - 1).await?;
    let expected = json!({"allowed": true, "never": false, "rules": [], "bound_by": null, "retry_at": null, "delay_ms": 0,
        "now": answer["now"], "durability": null, "degraded": false, "replayed": false});
    assert_eq!(answer, expected);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_rule_counts_at_the_next_check_and_forgets_nothing() -> Result<()> {
    let site = Site::start().await?;
    let left = async || Ok::<_, anyhow::Error>(site.admin.check("bot", "act", 1).await?["rules"][0]["remaining"].clone());
    site.admin.put("/v1/rules/r", &rule("act", 3, "1day")).await?.expect(201)?;
    assert_eq!(left().await?, 2);
    assert_eq!(site.admin.put("/v1/rules/r", &rule("act", 10, "1day")).await?.expect(200)?["version"], 2);
    assert_eq!(left().await?, 8, "ten, of which two are used");
    site.admin.put("/v1/rules/r", &rule("act", 2, "1day")).await?.expect(200)?;
    assert_eq!(site.admin.check("bot", "act", 1).await?["allowed"], false, "two, and both are used");
    site.admin.delete("/v1/rules/r").await?.expect(204)?;
    assert_eq!(site.admin.check("bot", "act", 1).await?["rules"], json!([]));
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subjects_own_rule_is_the_one_that_counts_for_it() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put("/v1/rules/all", &rule("act", 1, "1day")).await?.expect(201)?;
    assert_eq!(site.admin.check("vip", "act", 1).await?["rules"][0]["id"], "all");
    assert_eq!(site.admin.check("vip", "act", 1).await?["allowed"], false);
    let own = json!({"action": "act", "subject": "vip", "limit": 5, "per": "1day"});
    site.admin.put("/v1/rules/own", &own).await?.expect(201)?;
    let answer = site.admin.check("vip", "act", 1).await?;
    let rules = answer["rules"].as_array().context("a list")?;
    assert_eq!(rules.len(), 1, "it takes the other's place: {answer}");
    assert_eq!((&rules[0]["id"], &rules[0]["remaining"]), (&json!("own"), &json!(4)));
    assert_eq!(site.admin.check("bot", "act", 1).await?["rules"][0]["id"], "all", "nobody else has it");
    site.admin.delete("/v1/rules/own").await?.expect(204)?;
    assert_eq!(site.admin.check("vip", "act", 1).await?["rules"][0]["id"], "all", "and it is gone at once");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_states_what_its_charge_survives() -> Result<()> {
    let site = Site::start().await?;
    let body = |name: &str, durable: bool| json!({"name": name, "action": name, "limit": 1, "per": "1day", "durable": durable});
    for (name, durable, stated) in [("paid", true, "disk"), ("free", false, "deferred")] {
        let saved = site.admin.put(&format!("/v1/rules/{name}"), &body(name, durable)).await?.expect(201)?;
        assert_eq!(saved["durable"], durable);
        assert_eq!(site.admin.check("bot", name, 1).await?["durability"], stated);
        assert_eq!(site.admin.check("bot", name, 1).await?["durability"], Value::Null, "a refusal charges nothing");
    }
    // One paid rule is enough: the charge is one.
    let both = json!({"name": "both", "action": "free", "limit": 9, "per": "1day", "durable": true});
    site.admin.put("/v1/rules/both", &both).await?.expect(201)?;
    assert_eq!(site.admin.check("other", "free", 1).await?["durability"], "disk");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_read_back_as_they_were_written() -> Result<()> {
    let site = Site::start().await?;
    let body = json!({"id": "r-1.x_Y", "name": "daily", "action": "mail/send Ünïcode", "subject": "bot \"7\"", "limit": 3, "per": "90s",
        "algorithm": "leaky_bucket", "burst": 6, "queue": 2, "when": "cost < 9", "scope": "subject", "mode": "shadow", "durable": true,
        "on_store_error": "local", "on_expiry": "refund"});
    let mut expected = body.clone();
    expected["version"] = json!(1);
    expected["per"] = json!("1m 30s");
    assert_eq!(site.admin.post("/v1/rules", &body).await?.expect(201)?, expected);
    assert_eq!(site.admin.get("/v1/rules/r-1.x_Y").await?.expect(200)?, expected);
    let least = site.admin.post("/v1/rules", &rule("x", 4, "day")).await?.expect(201)?;
    ensure!(least["id"].as_str().is_some_and(|id| id.starts_with("rl_")), "{least}");
    let defaults = json!({"id": least["id"], "name": "default", "action": "x", "subject": null, "limit": 4, "per": "1day",
        "algorithm": "sliding_window", "scope": "subject", "mode": "enforce", "durable": false, "on_store_error": "open", "version": 1});
    assert_eq!(least, defaults);
    let mut again = least.clone();
    again["version"] = json!(2);
    let path = format!("/v1/rules/{}", least["id"].as_str().context("a text")?);
    assert_eq!(site.admin.put(&path, &least).await?.expect(200)?, again, "what was read can be sent back");
    let paid = json!({"action": "y", "limit": 4, "per": "month@UTC", "algorithm": "fixed_window", "durable": true});
    let paid = site.admin.post("/v1/rules", &paid).await?.expect(201)?;
    assert_eq!((&paid["on_store_error"], &paid["per"]), (&json!("closed"), &json!("month@UTC")), "what is paid for is not given away");
    let gcra = json!({"action": "z", "limit": 4, "per": "1s", "algorithm": "gcra"});
    let gcra = site.admin.post("/v1/rules", &gcra).await?.expect(201)?;
    assert_eq!((&gcra["algorithm"], &gcra["burst"]), (&json!("token_bucket"), &json!(4)), "a bucket holds its limit");
    let key = site.admin.post("/v1/keys", &json!({"name": "Bot №7", "scopes": ["rules:read"]})).await?.expect(201)?;
    assert_eq!((&key["name"], &key["space"]), (&json!("Bot №7"), &json!("default")));
    time(&key["created_at"])?;
    time(&site.admin.post("/v1/spaces", &json!({"space": "s"})).await?.expect(201)?["created_at"])?;
    site.at_ms(90_000);
    let now = site.admin.get("/v1/clock").await?.expect(200)?;
    assert_eq!(time(&now["now"])?, site.clock.now());
    let later = site.admin.post("/v1/clock", &json!({"advance": "1h 1ms"})).await?.expect(200)?;
    assert_eq!(time(&later["now"])?.get(), time(&now["now"])?.get() + 3_600_001_000);
    site.server.shutdown().await;
    Ok(())
}
