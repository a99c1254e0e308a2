//! So many at once: leases that are taken, kept, given back, and end by themselves.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::site::{Ask, Caller};
use super::{at_ms, on_every_store};

/// A rule of two at once, for a minute at most.
async fn two_at_once(team: &Caller) -> Result<()> {
    team.rule("browsers", "open", 2, "1m", json!({"algorithm": "concurrency"})).await?;
    Ok(())
}

async fn acquire(team: &Caller, lease: &str, ttl: &str) -> Result<Value> {
    team.limit("acquire", json!({"subject": "agent", "action": "open", "lease": lease, "ttl": ttl})).await
}

async fn release(team: &Caller, lease: &str) -> Result<Value> {
    team.limit("release", json!({"subject": "agent", "lease": lease})).await
}

/// Whether it is held, and how many more can be had.
fn held(answer: &Value) -> (Option<bool>, Option<u64>) {
    (answer["allowed"].as_bool(), answer["rules"][0]["remaining"].as_u64())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_lease_id_twice_is_one_lease() -> Result<()> {
    on_every_store(async |site, team| {
        two_at_once(team).await?;
        assert_eq!(held(&acquire(team, "one", "10s").await?), (Some(true), Some(1)));
        site.at_ms(5_000);
        let again = acquire(team, "one", "10s").await?;
        assert_eq!((held(&again), at_ms(&again["expires_at"])?), ((Some(true), Some(1)), 15_000), "taken anew, and still one");
        assert_eq!(held(&acquire(team, "two", "10s").await?), (Some(true), Some(0)));
        assert_eq!(held(&acquire(team, "one", "10s").await?).0, Some(true), "who has one is not refused it");
        assert_eq!(release(team, "one").await?["allowed"], true);
        assert_eq!(held(&acquire(team, "three", "10s").await?), (Some(true), Some(0)), "one release gave all of it back");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_than_the_limit_at_once_and_retry_at_is_the_earliest_end() -> Result<()> {
    on_every_store(async |site, team| {
        two_at_once(team).await?;
        let first = acquire(team, "one", "40s").await?;
        assert_eq!((&first["lease"], at_ms(&first["expires_at"])?), (&json!("one"), 40_000));
        assert_eq!((&first["rules"][0]["id"], &first["rules"][0]["limit"]), (&json!("browsers"), &json!(2)));
        acquire(team, "two", "20s").await?;
        site.at_ms(1_000);
        let refused = acquire(team, "three", "10s").await?;
        assert_eq!((held(&refused), &refused["bound_by"]), ((Some(false), Some(0)), &json!("browsers")));
        assert_eq!((at_ms(&refused["retry_at"])?, &refused["expires_at"]), (20_000, &Value::Null));
        site.at_ms(19_999);
        assert_eq!(acquire(team, "three", "10s").await?["retry_at"], refused["retry_at"]);
        site.at_ms(20_000);
        assert_eq!(held(&acquire(team, "three", "10s").await?), (Some(true), Some(0)), "what has ended is free");
        let other = team.limit("acquire", json!({"subject": "other", "action": "open"})).await?;
        assert_eq!((held(&other), at_ms(&other["expires_at"])?), ((Some(true), Some(1)), 80_000), "as long as the rule allows");
        let long = team.limit("acquire", json!({"subject": "other", "action": "open", "ttl": "10days"})).await?;
        assert_eq!(at_ms(&long["expires_at"])?, 80_000, "and no longer");
        ensure!(other["lease"] != long["lease"], "ids that are made up differ");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_frees_its_own_and_nobody_elses() -> Result<()> {
    on_every_store(async |_, team| {
        two_at_once(team).await?;
        acquire(team, "one", "10s").await?;
        acquire(team, "two", "10s").await?;
        let unknown = release(team, "three").await?;
        assert_eq!((&unknown["allowed"], &unknown["lease"]), (&json!(false), &json!("three")));
        // Another's lease of the same id is another lease.
        let theirs = team.limit("release", json!({"subject": "other", "lease": "one"})).await?;
        assert_eq!(theirs["allowed"], false);
        assert_eq!(held(&acquire(team, "three", "10s").await?), (Some(false), Some(0)), "nothing was freed");
        assert_eq!(release(team, "one").await?["allowed"], true);
        assert_eq!(release(team, "one").await?["allowed"], false, "it is gone already");
        assert_eq!(held(&acquire(team, "three", "10s").await?), (Some(true), Some(0)));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_lease_is_kept_and_one_that_is_not_ends() -> Result<()> {
    on_every_store(async |site, team| {
        two_at_once(team).await?;
        let renew =
            async |lease: &str, ttl: Option<&str>| team.limit("renew", json!({"subject": "agent", "lease": lease, "ttl": ttl})).await;
        acquire(team, "kept", "10s").await?;
        acquire(team, "left", "10s").await?;
        site.at_ms(9_000);
        let kept = renew("kept", None).await?;
        assert_eq!((&kept["allowed"], at_ms(&kept["expires_at"])?), (&json!(true), 19_000), "as long again as it was taken for");
        site.at_ms(10_000);
        assert_eq!(renew("left", None).await?["allowed"], false, "too late");
        assert_eq!(held(&acquire(team, "new", "30s").await?), (Some(true), Some(0)));
        assert_eq!(at_ms(&renew("kept", Some("45s")).await?["expires_at"])?, 55_000);
        assert_eq!(at_ms(&renew("kept", Some("1day")).await?["expires_at"])?, 70_000, "no longer than the rule allows");
        site.at_ms(69_999);
        assert_eq!(renew("kept", None).await?["allowed"], true);
        assert_eq!(renew("none", None).await?["allowed"], false);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_request_gives_the_same_lease() -> Result<()> {
    on_every_store(async |site, team| {
        two_at_once(team).await?;
        let body = || json!({"subject": "agent", "action": "open", "ttl": "30s"});
        let first = team.limit_once("acquire", body(), "k").await?;
        let lease = first["lease"].as_str().context("an id is made up")?.to_owned();
        site.at_ms(1_000);
        for _ in 0..3 {
            let again = team.limit_once("acquire", body(), "k").await?;
            assert_eq!((&again["lease"], &again["replayed"], &again["expires_at"]), (&json!(lease), &json!(true), &first["expires_at"]));
        }
        let second = team.limit_once("acquire", body(), "k2").await?;
        ensure!(second["lease"] != first["lease"] && held(&second) == (Some(true), Some(0)), "another key, another lease: {second}");
        let conflict = Ask::json("POST", "/v1/limit/acquire", &json!({"subject": "agent", "action": "open", "ttl": "31s"})).once("k");
        team.send(&conflict).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;

        // A refusal is not kept: with the same key it may be had later.
        assert_eq!(team.limit_once("acquire", body(), "k3").await?["allowed"], false);
        for replayed in [false, true] {
            let released = team.limit_once("release", json!({"subject": "agent", "lease": lease}), "r").await?;
            assert_eq!((&released["allowed"], &released["replayed"]), (&json!(true), &json!(replayed)));
        }
        assert_eq!(team.limit_once("acquire", body(), "k3").await?["allowed"], true);
        Ok(())
    })
    .await
}

/// Leases and charges are counted apart, and without a rule there is no end to either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_no_matter_of_checks() -> Result<()> {
    on_every_store(async |_, team| {
        two_at_once(team).await?;
        team.rule("rate", "open", 1, "1day", json!({})).await?;
        for _ in 0..2 {
            let taken = team.limit("acquire", json!({"subject": "agent", "action": "open"})).await?;
            let rules: Vec<_> = taken["rules"].as_array().into_iter().flatten().map(|rule| &rule["id"]).collect();
            assert_eq!((&taken["allowed"], rules), (&json!(true), vec![&json!("browsers")]));
        }
        let checked = team.check("agent", "open", 1).await?;
        assert_eq!((&checked["allowed"], checked["rules"].as_array().map(Vec::len)), (&json!(true), Some(1)), "{checked}");
        for _ in 0..5 {
            let free = team.limit("acquire", json!({"subject": "agent", "action": "walk"})).await?;
            assert_eq!((&free["allowed"], &free["rules"]), (&json!(true), &json!([])));
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_banned_gets_no_lease() -> Result<()> {
    on_every_store(async |_, team| {
        let ban = json!({"algorithm": "concurrency", "mode": "block", "subject": "bad:*", "name": "browsers"});
        two_at_once(team).await?;
        team.rule("ban", "open", 2, "1m", ban).await?;
        let refused = team.limit("acquire", json!({"subject": "bad:7", "action": "open"})).await?;
        assert_eq!((&refused["allowed"], &refused["bound_by"]), (&json!(false), &json!("browsers")), "{refused}");
        assert_eq!(team.limit("acquire", json!({"subject": "good", "action": "open"})).await?["allowed"], true);
        Ok(())
    })
    .await
}
