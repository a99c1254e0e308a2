//! Who asks why is told which rules were looked at, and why they do not count.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::site::Site;

/// What is said of the rule `id`.
fn of<'a>(answer: &'a Value, id: &str) -> Result<(bool, &'a str)> {
    let listed = answer["explain"].as_array().with_context(|| format!("nothing is explained: {answer}"))?;
    let rule = listed.iter().find(|rule| rule["id"] == id).with_context(|| format!("{id} is not in {answer}"))?;
    Ok((rule["applies"].as_bool().context("a word")?, rule["why"].as_str().context("a reason")?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_that_was_considered_is_named_with_its_reason() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.rule("all", "tasks/*", 5, "1day", json!({"name": "daily"})).await?;
    team.rule("vip", "tasks/*", 50, "1day", json!({"name": "daily", "subject": "vip:*"})).await?;
    team.rule("free", "tasks/create", 1, "1h", json!({"when": "attributes.plan == 'free'"})).await?;
    team.rule("other", "mail/send", 1, "1h", json!({})).await?;
    team.rule("theirs", "tasks/*", 1, "1h", json!({"subject": "bot"})).await?;
    let ask = |plan: &str, peek: bool| json!({"subject": "vip:7", "action": "tasks/create", "attributes": {"plan": plan}, "explain": true, "peek": peek});

    let paid = team.limit("check", ask("paid", false)).await?;
    ensure!(of(&paid, "vip")?.0, "{paid}");
    let (applies, why) = of(&paid, "all")?;
    ensure!(!applies && why.contains("vip"), "it names the rule that stands in its place: {why}");
    let (applies, why) = of(&paid, "free")?;
    ensure!(!applies && why.contains("condition"), "{why}");
    assert_eq!(paid["explain"].as_array().map(Vec::len), Some(3), "rules for others are none of its business: {paid}");
    let counted: Vec<_> = paid["rules"].as_array().into_iter().flatten().map(|rule| &rule["id"]).collect();
    assert_eq!(counted, [&json!("vip")]);
    assert_eq!(team.left("vip:7", "tasks/create", "vip").await?, 49, "and it was charged once");

    let free = team.limit("check", ask("free", true)).await?;
    ensure!(of(&free, "free")?.0, "{free}");
    let (_, why) = of(&free, "free")?;
    ensure!(!why.contains("twice"), "a sliding window never admits more: {why}");
    let plain = team.check("vip:7", "tasks/create", 1).await?;
    ensure!(plain.get("explain").is_none(), "only who asks is told: {plain}");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fixed_window_is_said_to_admit_twice_its_limit_around_its_turn() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.rule("hourly", "act", 2, "1h", json!({"algorithm": "fixed_window"})).await?;
    team.rule("daily", "act", 9, "day@Europe/Berlin", json!({})).await?;
    team.rule("banned", "act", 9, "1h", json!({"algorithm": "fixed_window", "mode": "block", "subject": "bad:*"})).await?;
    let answer = team.limit("check", json!({"subject": "bad:7", "action": "act", "explain": true})).await?;
    for (rule, is_said) in [("hourly", true), ("daily", true), ("banned", false)] {
        let (applies, why) = of(&answer, rule)?;
        ensure!(applies && why.contains("twice its limit") == is_said, "{rule}: {why}");
    }
    site.server.shutdown().await;
    Ok(())
}
