//! Who runs a server sees which policies and rules refuse, and whom.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::service::metrics;
use super::super::site::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_are_counted_by_rule_and_outcome() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.rule("burst", "act", 2, "1day", json!({})).await?;
    team.rule("watch", "act", 1, "1day", json!({"mode": "shadow"})).await?;
    for subject in ["a", "b"] {
        for _ in 0..3 {
            team.check(subject, "act", 1).await?;
        }
        // None of these is a decision.
        team.limit("check", json!({"subject": subject, "action": "act", "peek": true})).await?;
        team.limit("refund", json!({"subject": subject, "action": "act"})).await?;
    }
    let (text, seen) = metrics(team).await?;
    for (policy, outcome, count) in
        [("burst", "allowed", 4.0), ("burst", "refused", 2.0), ("watch", "allowed", 2.0), ("watch", "would_refuse", 4.0)]
    {
        let series = series(policy, policy, outcome);
        ensure!(seen.get(&series).is_some_and(|found| (found - count).abs() < 0.5), "{series} is not {count}:\n{text}");
    }
    let refused = seen.get(&series("watch", "watch", "refused"));
    ensure!(refused.is_some_and(|count| *count == 0.0), "a shadow refuses nobody:\n{text}");
    site.server.shutdown().await;
    Ok(())
}

fn series(policy: &str, rule: &str, outcome: &str) -> String {
    format!(r#"hermod_limit_decisions_total{{policy="{policy}",rule="{rule}",outcome="{outcome}"}}"#)
}

/// Rules without a name are told apart; those of one subject are not, as their ids tell whose they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_of_one_policy_are_counted_each_but_for_those_of_one_subject() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    let unnamed = json!({"name": "default"});
    team.rule("reads", "read", 5, "1day", unnamed.clone()).await?;
    team.rule("writes", "write", 5, "1day", unnamed).await?;
    team.rule("some-reads", "read", 5, "1day", json!({"name": "default", "subject": "vip:*"})).await?;
    for subject in ["ann", "bob"] {
        let own = json!({"name": "default", "subject": subject});
        team.rule(&format!("own-of-{subject}"), "read", 1, "1day", own).await?;
    }
    for (subject, action, times) in [("x", "read", 2), ("x", "write", 1), ("vip:7", "read", 3), ("ann", "read", 2), ("bob", "read", 3)] {
        for _ in 0..times {
            team.check(subject, action, 1).await?;
        }
    }
    let replayed = json!({"subject": "ann", "action": "read", "cost": 1});
    team.limit("reset", json!({"subject": "ann", "action": "read"})).await?;
    for _ in 0..2 {
        team.limit_once("check", replayed.clone(), "k").await?;
    }
    let (text, seen) = metrics(team).await?;
    for (rule, outcome, count) in [
        ("reads", "allowed", 2.0),
        ("writes", "allowed", 1.0),
        ("some-reads", "allowed", 3.0),
        ("own", "allowed", 4.0),
        ("own", "refused", 3.0),
    ] {
        let series = series("default", rule, outcome);
        ensure!(seen.get(&series).is_some_and(|found| (found - count).abs() < 0.5), "{series} is not {count}:\n{text}");
    }
    ensure!(!text.contains("own-of-"), "{text}");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_refused_a_lease_is_counted_like_who_is_refused_a_check() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.rule("browsers", "open", 2, "1m", json!({"algorithm": "concurrency"})).await?;
    team.rule("ban", "open", 1, "1m", json!({"mode": "block", "subject": "bad:*", "name": "browsers"})).await?;
    for n in 0..5 {
        team.limit("acquire", json!({"subject": "agent", "action": "open", "lease": format!("l{n}")})).await?;
    }
    team.limit("acquire", json!({"subject": "bad:7", "action": "open"})).await?;
    // Neither is a decision.
    for operation in ["renew", "release"] {
        team.limit(operation, json!({"subject": "agent", "lease": "l0"})).await?;
    }
    let (text, seen) = metrics(team).await?;
    for (series, count) in [
        (series("browsers", "browsers", "allowed"), 2.0),
        (series("browsers", "browsers", "refused"), 3.0),
        (series("browsers", "ban", "refused"), 1.0),
        (r#"hermod_limit_checks_total{outcome="allowed"}"#.to_owned(), 2.0),
        (r#"hermod_limit_checks_total{outcome="refused"}"#.to_owned(), 4.0),
    ] {
        ensure!(seen.get(&series).is_some_and(|found| (found - count).abs() < 0.5), "{series} is not {count}:\n{text}");
    }
    let most = team.get("/v1/limit/refused").await?.expect(200)?["items"].clone();
    assert_eq!(most, json!([{"subject": "agent", "refused": 3}, {"subject": "bad:7", "refused": 1}]));
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_most_refused_subjects_of_a_space_are_named_to_it_alone() -> Result<()> {
    let site = Site::start().await?;
    let (red, blue) = (site.admin.space("red").await?, site.admin.space("blue").await?);
    for team in [&red, &blue] {
        team.rule("r", "act", 1, "1day", json!({})).await?;
    }
    for (team, subject, checks) in [(&red, "often", 6), (&red, "seldom", 3), (&red, "never", 1), (&blue, "theirs", 9)] {
        for _ in 0..checks {
            team.check(subject, "act", 1).await?;
        }
    }
    // Looking and being let through count as nothing.
    red.limit("check", json!({"subject": "never", "action": "act", "peek": true})).await?;
    red.check("never", "free", 1).await?;
    let most =
        async |query: &str| Ok::<_, anyhow::Error>(red.get(&format!("/v1/limit/refused{query}")).await?.expect(200)?["items"].clone());
    let item = |subject: &str, refused: u64| json!({"subject": subject, "refused": refused});
    assert_eq!(most("").await?, json!([item("often", 5), item("seldom", 2)]));
    assert_eq!(most("?limit=1").await?, json!([item("often", 5)]));
    assert_eq!(blue.get("/v1/limit/refused").await?.expect(200)?["items"], json!([item("theirs", 8)]));
    assert_eq!(site.admin.get("/v1/limit/refused").await?.expect(200)?["items"], Value::Array(Vec::new()));
    site.server.shutdown().await;
    Ok(())
}
