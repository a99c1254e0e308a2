//! What was tried against it, and must not work again.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::site::Caller;
use super::on_every_store;

async fn allowed(team: &Caller, verb: &str, body: Value) -> Result<bool> {
    let answer = team.limit(verb, body).await?;
    assert!(!answer["degraded"].as_bool().unwrap_or(false), "{answer}");
    Ok(answer["allowed"] == true)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_without_a_rule_do_not_disturb_those_beside_them() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("r", "act", 3, "1h", json!({})).await?;
        let check = |n: usize| match n % 10 {
            0 => json!({"subject": "bot", "action": "nothing-here", "key": format!("k{n}")}),
            _ => json!({"subject": "bot", "action": "act"}),
        };
        let answers = team.limit("batch", json!({"checks": (0..200).map(check).collect::<Vec<_>>()})).await?;
        let answers = answers["answers"].as_array().cloned().unwrap_or_default();
        let (under, without): (Vec<_>, Vec<_>) = answers.iter().enumerate().partition(|(n, _)| n % 10 != 0);
        assert_eq!(under.iter().filter(|(_, answer)| answer["allowed"] == true).count(), 3);
        assert!(without.iter().all(|(_, answer)| answer["allowed"] == true && answer["degraded"] == false), "{answers:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_that_all_share_does_not_switch_off_what_enforces() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("sg", "act", 1, "1h", json!({"scope": "global", "mode": "shadow"})).await?;
        team.rule("so", "act", 2, "1h", json!({})).await?;
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(allowed(team, "check", json!({"subject": "n", "action": "act"})).await?);
        }
        assert_eq!(seen, [true, true, false, false, false]);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_do_not_keep_a_window_full_that_all_share() -> Result<()> {
    on_every_store(async |site, team| {
        team.rule("all", "act", 10, "60s", json!({"scope": "global"})).await?;
        team.rule("own", "act", 1, "1day", json!({})).await?;
        for n in 0..9 {
            assert!(allowed(team, "check", json!({"subject": format!("u{n}"), "action": "act"})).await?);
        }
        for n in 1..=8 {
            site.at_ms(n * 45_000);
            assert!(!allowed(team, "check", json!({"subject": "u0", "action": "act"})).await?);
        }
        assert_eq!(team.left("new", "act", "all").await?, 10);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_acquire_frees_nothing_that_is_held() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("g", "x/*", 5, "1h", json!({"algorithm": "concurrency", "scope": "global"})).await?;
        team.rule("r", "x/b", 1, "1h", json!({"algorithm": "concurrency"})).await?;
        let ask = |action: &str, lease: &str| json!({"subject": "s", "action": action, "lease": lease});
        assert!(allowed(team, "acquire", ask("x/b", "L0")).await? && allowed(team, "acquire", ask("x/a", "L1")).await?);
        assert!(!allowed(team, "acquire", ask("x/b", "L1")).await?);
        assert!(allowed(team, "renew", json!({"subject": "s", "lease": "L1"})).await?, "it is still held");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_ends_under_all_its_rules_at_once() -> Result<()> {
    on_every_store(async |site, team| {
        team.rule("short", "act", 1, "10s", json!({"algorithm": "concurrency"})).await?;
        team.rule("long", "act", 5, "1h", json!({"algorithm": "concurrency", "scope": "global"})).await?;
        assert!(allowed(team, "acquire", json!({"subject": "s", "action": "act", "lease": "L"})).await?);
        site.at_ms(20_000);
        assert!(!allowed(team, "renew", json!({"subject": "s", "lease": "L"})).await?, "it ended after ten seconds");
        assert!(allowed(team, "acquire", json!({"subject": "s", "action": "act", "lease": "M"})).await?);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_of_two_subjects_is_two_keys_also_where_they_share_the_rule() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("g", "act", 10, "1h", json!({"scope": "global"})).await?;
        for subject in ["a", "b"] {
            let body = json!({"subject": subject, "action": "act"});
            let first = team.limit_once("check", body.clone(), "k1").await?;
            let again = team.limit_once("check", body, "k1").await?;
            assert_eq!((&first["replayed"], &again["replayed"]), (&json!(false), &json!(true)));
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_rules_than_one_step_can_test_are_refused_and_nothing_else_suffers() -> Result<()> {
    on_every_store(async |_, team| {
        for n in 0..201 {
            team.rule(&format!("rule-{n}"), "many", 5, "1h", json!({})).await?;
        }
        team.rule("few", "few", 5, "1h", json!({})).await?;
        team.post("/v1/limit/check", &json!({"subject": "a", "action": "many"})).await?.problem(422, "too_many_rules", None)?;
        assert!(allowed(team, "check", json!({"subject": "a", "action": "few"})).await?);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ban_leaves_what_all_share_as_it_is() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("all", "act", 2, "1day", json!({"scope": "global"})).await?;
        team.rule("ban", "act", 1, "1h", json!({"mode": "block", "subject": "mallory"})).await?;
        let ask = |subject: &str, cost: u64| json!({"subject": subject, "action": "act", "cost": cost});
        let forced = |subject: &str, cost: u64| json!({"subject": subject, "action": "act", "cost": cost, "force": true});
        // Four at most are counted, and a ban that gave back its three would leave one.
        assert!(allowed(team, "check", forced("bob", 4)).await?);
        assert!(!allowed(team, "check", forced("mallory", 3)).await?);
        team.limit("refund", ask("bob", 2)).await?;
        assert_eq!(team.left("new", "act", "all").await?, 0);
        Ok(())
    })
    .await
}
