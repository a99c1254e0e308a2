//! Besides a check: only look, charge all the same, give back, forget.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::site::{Ask, Site};
use super::{at_ms, on_every_store};

fn bot(fields: Value) -> Value {
    let mut body = json!({"subject": "bot", "action": "act"});
    body.as_object_mut().into_iter().zip(fields.as_object()).for_each(|(body, fields)| body.extend(fields.clone()));
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_looks_is_told_all_and_charged_nothing() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("r", "act", 3, "1day", json!({})).await?;
        team.check("bot", "act", 1).await?;
        for word in ["peek", "dry_run"] {
            for _ in 0..5 {
                let seen = team.limit("check", bot(json!({word: true, "cost": 2}))).await?;
                assert_eq!((&seen["allowed"], &seen["rules"][0]["remaining"]), (&json!(true), &json!(2)), "{word}: {seen}");
            }
            let refused = team.limit("check", bot(json!({word: true, "cost": 3}))).await?;
            assert_eq!((&refused["allowed"], &refused["bound_by"]), (&json!(false), &json!("r")), "{word}");
            assert_eq!(refused["rules"][0]["retry_at"], refused["retry_at"]);
            // A look under a key keeps nothing: the same key may charge afterwards.
            team.limit_once("check", bot(json!({word: true})), word).await?;
        }
        assert_eq!(team.check("bot", "act", 1).await?["rules"][0]["remaining"], 1, "only the checks were charged");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn force_charges_what_does_not_fit_up_to_as_much_again() -> Result<()> {
    on_every_store(async |site, team| {
        team.rule("r", "act", 3, "30s", json!({"algorithm": "token_bucket"})).await?;
        team.check("bot", "act", 3).await?;
        let forced = team.limit("check", bot(json!({"force": true}))).await?;
        assert_eq!((&forced["allowed"], &forced["rules"][0]["remaining"], &forced["retry_at"]), (&json!(true), &json!(0), &Value::Null));
        let refused = team.check("bot", "act", 1).await?;
        assert_eq!(at_ms(&refused["retry_at"])?, 20_000, "one token too many must come back as well: {refused}");
        // However much is forced, everybody is back after twice the burst.
        team.limit("check", bot(json!({"force": true, "cost": 1_000_000}))).await?;
        let refused = team.check("bot", "act", 1).await?;
        assert_eq!(at_ms(&refused["retry_at"])?, 40_000, "{refused}");
        site.at_ms(40_000);
        assert_eq!(team.check("bot", "act", 1).await?["allowed"], true);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_can_be_taken_again_and_no_more() -> Result<()> {
    on_every_store(async |_, team| {
        for algorithm in ["sliding_window", "sliding_log", "fixed_window", "token_bucket", "leaky_bucket"] {
            team.rule("r", "act", 3, "1day", json!({"algorithm": algorithm})).await?;
            let body = |cost: u64| json!({"subject": algorithm, "action": "act", "cost": cost});
            team.limit("check", body(3)).await?;
            assert_eq!(team.limit("check", body(1)).await?["allowed"], false, "{algorithm}");
            let refunded = team.limit("refund", body(2)).await?;
            assert_eq!((&refunded["allowed"], &refunded["rules"][0]["remaining"]), (&json!(true), &json!(2)), "{algorithm}: {refunded}");
            assert_eq!(team.limit("check", body(2)).await?["allowed"], true, "{algorithm}");
            assert_eq!(team.limit("check", body(1)).await?["allowed"], false, "{algorithm}");
            // Giving back more than was taken leaves nothing used, and nothing saved up.
            assert_eq!(team.limit("refund", body(1_000)).await?["rules"][0]["remaining"], 3, "{algorithm}");
            assert_eq!(team.limit("check", body(4)).await?["never"], true, "{algorithm}");
            assert_eq!(team.limit("check", body(3)).await?["allowed"], true, "{algorithm}");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_under_a_key_is_one() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("r", "act", 5, "1day", json!({})).await?;
        team.check("bot", "act", 5).await?;
        for replayed in [false, true, true] {
            let refunded = team.limit_once("refund", bot(json!({"cost": 2})), "k").await?;
            assert_eq!((&refunded["replayed"], &refunded["rules"][0]["remaining"]), (&json!(replayed), &json!(2)));
        }
        assert_eq!(team.left("bot", "act", "r").await?, 2);
        let other = Ask::json("POST", "/v1/limit/refund", &bot(json!({"cost": 3}))).once("k");
        team.send(&other).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;
        assert_eq!(team.left("bot", "act", "r").await?, 2);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_forgets_what_one_subject_used_and_nobody_elses() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("burst", "act", 2, "1h", json!({})).await?;
        team.rule("daily", "act", 5, "1day", json!({"algorithm": "token_bucket"})).await?;
        team.rule("all", "act", 9, "1day", json!({"scope": "global"})).await?;
        for subject in ["bot", "other"] {
            team.check(subject, "act", 2).await?;
        }
        assert_eq!(team.limit("reset", bot(json!({}))).await?, json!({"forgotten": 2}));
        assert_eq!(team.limit("reset", bot(json!({}))).await?, json!({"forgotten": 0}), "there is nothing left to forget");
        assert_eq!((team.left("bot", "act", "burst").await?, team.left("bot", "act", "daily").await?), (2, 5));
        assert_eq!((team.left("other", "act", "burst").await?, team.left("other", "act", "daily").await?), (0, 3));
        assert_eq!(team.left("bot", "act", "all").await?, 5, "what all share stays used");
        assert_eq!(team.limit("reset", json!({"subject": "bot", "action": "free"})).await?, json!({"forgotten": 0}));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_reset_does_not_forget_what_came_after() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("r", "act", 5, "1day", json!({})).await?;
        team.check("bot", "act", 2).await?;
        assert_eq!(team.limit_once("reset", bot(json!({})), "k").await?, json!({"forgotten": 1}));
        team.check("bot", "act", 3).await?;
        assert_eq!(team.limit_once("reset", bot(json!({})), "k").await?, json!({"forgotten": 1}), "what was answered then");
        assert_eq!(team.left("bot", "act", "r").await?, 2);
        Ok(())
    })
    .await
}

/// A shadow counts and tells, and never refuses; a ban always does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_by_shadow_is_allowed_and_a_ban_is_for_ever() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.rule("watch", "act", 2, "1day", json!({"mode": "shadow"})).await?;
    for left in [1, 0, 0] {
        let answer = team.check("bot", "act", 1).await?;
        let rule = &answer["rules"][0];
        assert_eq!((&answer["allowed"], &rule["shadow"], &rule["remaining"]), (&json!(true), &json!(true), &json!(left)), "{answer}");
    }
    let over = team.check("bot", "act", 1).await?;
    assert!(over["rules"][0]["retry_at"].is_string() && over["retry_at"].is_null() && over["bound_by"].is_null(), "{over}");
    team.rule("ban", "act", 1, "1day", json!({"mode": "block", "subject": "bad:*"})).await?;
    let banned = team.check("bad:7", "act", 1).await?;
    assert_eq!((&banned["allowed"], &banned["never"], &banned["bound_by"]), (&json!(false), &json!(true), &json!("ban")), "{banned}");
    assert_eq!(team.check("good", "act", 1).await?["allowed"], true);
    site.server.shutdown().await;
    Ok(())
}

/// The seed's leaky bucket: what does not fit yet is let in and told how long to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_let_in_to_wait_is_told_for_how_long() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("r", "act", 1, "1s", json!({"algorithm": "leaky_bucket", "queue": 2})).await?;
        for delay in [0, 1_000, 2_000] {
            let answer = team.check("bot", "act", 1).await?;
            assert_eq!((&answer["allowed"], &answer["delay_ms"]), (&json!(true), &json!(delay)), "{answer}");
        }
        let refused = team.check("bot", "act", 1).await?;
        assert_eq!((&refused["allowed"], &refused["delay_ms"], at_ms(&refused["retry_at"])?), (&json!(false), &json!(0), 1_000));
        Ok(())
    })
    .await
}
