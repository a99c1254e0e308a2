//! Who runs a server sees which policies refuse, and whom.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::service::metrics;
use super::super::site::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_are_counted_by_policy_and_outcome() -> Result<()> {
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
        let series = format!(r#"hermod_limit_decisions_total{{policy="{policy}",outcome="{outcome}"}}"#);
        ensure!(seen.get(&series).is_some_and(|found| (found - count).abs() < 0.5), "{series} is not {count}:\n{text}");
    }
    let refused = seen.get(r#"hermod_limit_decisions_total{policy="watch",outcome="refused"}"#);
    ensure!(refused.is_some_and(|count| *count == 0.0), "a shadow refuses nobody:\n{text}");
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
