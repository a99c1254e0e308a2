//! Two spaces on one server know nothing of each other.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::site::{Ask, Site, rule};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_rule_and_subject_count_apart_in_each_space() -> Result<()> {
    let site = Site::start().await?;
    let (red, blue) = (site.admin.space("red").await?, site.admin.space("blue").await?);
    for (caller, limit) in [(&red, 2), (&blue, 3)] {
        caller.put("/v1/rules/r", &rule("act", limit, "1day")).await?.expect(201)?;
    }
    for left in [1, 0] {
        assert_eq!(red.check("bot", "act", 1).await?["rules"][0]["remaining"], left);
    }
    assert_eq!(red.check("bot", "act", 1).await?["allowed"], false);
    assert_eq!(blue.check("bot", "act", 1).await?["rules"][0]["remaining"], 2, "nothing of it is used here");
    assert_eq!(site.admin.check("bot", "act", 1).await?["rules"], json!([]), "and there is no rule in the first space");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_sees_edits_or_deletes_what_another_space_has() -> Result<()> {
    let site = Site::start().await?;
    let (red, blue) = (site.admin.space("red").await?, site.admin.space("blue").await?);
    let vip = json!({"action": "act", "subject": "vip", "limit": 9, "per": "1day"});
    for caller in [&red, &blue] {
        caller.put("/v1/rules/r", &rule("act", 2, "1day")).await?.expect(201)?;
        caller.put("/v1/rules/vip", &vip).await?.expect(201)?;
    }
    blue.put("/v1/rules/blue", &rule("other", 1, "1day")).await?.expect(201)?;
    let (blue_key, worker) = blue.key("blue", &["limit:check"]).await?;
    assert_eq!(worker.check("vip", "act", 1).await?["rules"][0]["remaining"], 8);
    let before = (blue.get("/v1/rules").await?.expect(200)?, blue.get("/v1/keys").await?.expect(200)?);

    red.get("/v1/rules/blue").await?.problem(404, "not_found", None)?;
    red.delete("/v1/rules/blue").await?.problem(404, "not_found", None)?;
    red.delete(&format!("/v1/keys/{blue_key}")).await?.problem(404, "not_found", None)?;
    red.put("/v1/rules/r", &rule("act", 1_000, "1day")).await?.expect(200)?;
    red.delete("/v1/rules/r").await?.expect(204)?;
    red.delete("/v1/rules/vip").await?.expect(204)?;
    red.put("/v1/rules/blue", &rule("other", 1_000, "1day")).await?.expect(201)?;
    let seen = (red.get("/v1/rules").await?.expect(200)?, red.get("/v1/keys").await?.expect(200)?);
    ensure!(seen.0["items"].as_array().is_some_and(|rules| rules.len() == 1), "{}", seen.0);
    ensure!(seen.1["items"].as_array().is_some_and(|keys| keys.len() == 1 && keys[0]["space"] == "red"), "{}", seen.1);

    let after = (blue.get("/v1/rules").await?.expect(200)?, blue.get("/v1/keys").await?.expect(200)?);
    assert_eq!(after, before);
    assert_eq!(worker.check("vip", "act", 1).await?["rules"][0]["remaining"], 7, "rule, key and counter are what they were");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_of_one_space_is_nobody_in_another() -> Result<()> {
    let site = Site::start().await?;
    let red = site.admin.space("red").await?;
    let key_for = |space: &str| json!({"name": "n", "scopes": ["limit:check"], "space": space});
    // Whether a space exists is not said either.
    for space in ["default", "nowhere"] {
        red.post("/v1/keys", &key_for(space)).await?.problem(403, "forbidden", None)?;
    }
    red.get("/v1/spaces").await?.problem(403, "forbidden", None)?;
    red.post("/v1/spaces", &json!({"space": "green"})).await?.problem(403, "forbidden", None)?;
    assert_eq!(red.post("/v1/keys", &key_for("red")).await?.expect(201)?["space"], "red");
    let spaces = site.admin.get("/v1/spaces").await?.expect(200)?;
    let names: Vec<&str> = spaces["items"].as_array().context("a list")?.iter().filter_map(|space| space["space"].as_str()).collect();
    assert_eq!(names, ["default", "red"]);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotency_key_of_one_space_is_free_in_another() -> Result<()> {
    let site = Site::start().await?;
    let (red, blue) = (site.admin.space("red").await?, site.admin.space("blue").await?);
    let (small, large) = (rule("act", 1, "1day"), rule("act", 2, "1day"));
    red.send(&Ask::json("PUT", "/v1/rules/r", &small).once("k")).await?.expect(201)?;
    blue.send(&Ask::json("PUT", "/v1/rules/r", &large).once("k")).await?.expect(201)?;
    let check = |cost: u64| Ask::json("POST", "/v1/limit/check", &json!({"subject": "bot", "action": "act", "cost": cost})).once("c");
    assert_eq!(red.send(&check(1)).await?.expect(200)?["replayed"], false);
    let other = blue.send(&check(2)).await?.expect(200)?;
    assert_eq!((&other["replayed"], &other["allowed"]), (&json!(false), &json!(true)));
    site.server.shutdown().await;
    Ok(())
}
