//! Leases that all subjects share, alone and beside the subject's own.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::site::{Ask, Caller};
use super::{at_ms, on_every_store};

/// Three at once for all; two at once for each, if so wanted.
async fn rules(team: &Caller, has_own: bool) -> Result<()> {
    team.rule("all", "open", 3, "1m", json!({"algorithm": "concurrency", "scope": "global"})).await?;
    if has_own {
        team.rule("own", "open", 2, "1m", json!({"algorithm": "concurrency"})).await?;
    }
    Ok(())
}

fn ask(subject: &str, lease: &str) -> Value {
    json!({"subject": subject, "action": "open", "lease": lease})
}

async fn acquire(team: &Caller, subject: &str, lease: &str) -> Result<bool> {
    Ok(team.limit("acquire", ask(subject, lease)).await?["allowed"] == true)
}

async fn release(team: &Caller, subject: &str, lease: &str) -> Result<bool> {
    Ok(team.limit("release", json!({"subject": subject, "lease": lease})).await?["allowed"] == true)
}

/// How many more leases strangers can have under the rule for all.
async fn free(team: &Caller) -> Result<u64> {
    let mut taken = 0;
    while acquire(team, &format!("stranger-{taken}"), "x").await? {
        taken += 1;
    }
    for n in 0..taken {
        release(team, &format!("stranger-{n}"), "x").await?;
    }
    Ok(taken)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_share_the_places_and_one_id_of_two_subjects_is_two_leases() -> Result<()> {
    on_every_store(async |_, team| {
        rules(team, false).await?;
        assert!(acquire(team, "a", "one").await? && acquire(team, "b", "one").await? && acquire(team, "c", "one").await?);
        assert!(!acquire(team, "d", "one").await?, "three are taken");
        assert!(acquire(team, "a", "one").await?, "it is the same one");
        assert!(!release(team, "d", "one").await?, "nobody gives back another's");
        assert!(release(team, "b", "one").await?);
        assert!(acquire(team, "d", "one").await?);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_refused_by_the_own_rule_takes_no_place_of_all() -> Result<()> {
    on_every_store(async |site, team| {
        rules(team, true).await?;
        assert!(acquire(team, "a", "one").await? && acquire(team, "a", "two").await?);
        let refused = team.limit("acquire", ask("a", "three")).await?;
        assert_eq!((&refused["allowed"], &refused["bound_by"], at_ms(&refused["retry_at"])?), (&json!(false), &json!("own"), 60_000));
        assert_eq!(free(team).await?, 1);
        assert!(release(team, "a", "one").await?);
        assert_eq!(free(team).await?, 2, "given back under both");
        site.at_ms(30_000);
        let kept = team.limit("renew", json!({"subject": "a", "lease": "two"})).await?;
        assert_eq!((&kept["allowed"], at_ms(&kept["expires_at"])?), (&json!(true), 90_000));
        site.at_ms(89_999);
        assert_eq!(free(team).await?, 2, "kept under both");
        site.at_ms(90_000);
        assert_eq!(free(team).await?, 3);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_acquire_does_not_take_a_place_that_was_given_back() -> Result<()> {
    on_every_store(async |_, team| {
        rules(team, true).await?;
        let first = team.limit_once("acquire", ask("a", "one"), "k").await?;
        assert_eq!((&first["allowed"], &first["replayed"]), (&json!(true), &json!(false)));
        assert!(release(team, "a", "one").await?);
        let again = team.limit_once("acquire", ask("a", "one"), "k").await?;
        assert_eq!((&again["allowed"], &again["replayed"]), (&json!(true), &json!(true)), "what was answered then: {again}");
        assert_eq!(free(team).await?, 3, "a replay takes nothing");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_acquire_is_answered_as_then_though_all_places_are_taken() -> Result<()> {
    on_every_store(async |_, team| {
        rules(team, true).await?;
        team.limit_once("acquire", ask("a", "one"), "k").await?;
        assert!(release(team, "a", "one").await?);
        for n in 0..3 {
            assert!(acquire(team, &format!("stranger-{n}"), "x").await?);
        }
        let again = team.limit_once("acquire", ask("a", "one"), "k").await?;
        assert_eq!((&again["allowed"], &again["replayed"]), (&json!(true), &json!(true)), "what was answered then: {again}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_under_a_key_of_another_takes_and_frees_nothing() -> Result<()> {
    on_every_store(async |_, team| {
        rules(team, true).await?;
        team.limit_once("acquire", ask("a", "one"), "k").await?;
        let longer = json!({"subject": "a", "action": "open", "lease": "one", "ttl": "30s"});
        for (operation, body) in [("acquire", ask("a", "two")), ("acquire", longer), ("release", json!({"subject": "a", "lease": "one"}))] {
            let conflict = team.send(&Ask::json("POST", format!("/v1/limit/{operation}"), &body).once("k")).await?;
            conflict.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;
            assert_eq!(free(team).await?, 2, "after {operation} {body}: one is held still");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_release_is_answered_as_then() -> Result<()> {
    on_every_store(async |_, team| {
        rules(team, false).await?;
        assert!(acquire(team, "a", "one").await?);
        for replayed in [false, true] {
            let released = team.limit_once("release", json!({"subject": "a", "lease": "one"}), "k").await?;
            assert_eq!((&released["allowed"], &released["replayed"]), (&json!(true), &json!(replayed)), "{released}");
        }
        // Nor does it give back what was taken anew since.
        assert!(acquire(team, "a", "one").await?);
        team.limit_once("release", json!({"subject": "a", "lease": "one"}), "k").await?;
        assert_eq!(free(team).await?, 2, "a replay frees nothing");
        Ok(())
    })
    .await
}
