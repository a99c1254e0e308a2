//! Each rule says what is answered while the store is away. A store that is away never looks like a refusal.

use anyhow::{Result, ensure};
use hermod_tests::server::Redis;
use serde_json::{Value, json};

use super::served::{Served, Told};
use super::{RECOVERY, until};

fn rule(action: &str, on_store_error: &str) -> Value {
    json!({"name": on_store_error, "action": action, "limit": 3, "per": "1day", "on_store_error": on_store_error})
}

/// A server with a rule for each policy, and its Redis.
async fn served() -> Result<(Served, Redis)> {
    let redis = Redis::start()?;
    let url = redis.url();
    let served = Served::start(|config| config.store = url).await?;
    for policy in ["open", "closed", "local"] {
        served.put_rule(policy, &rule(policy, policy)).await?;
    }
    served.put_rule("paid", &json!({"action": "paid", "limit": 3, "per": "1day", "durable": true})).await?;
    served.put_rule("mixed-closed", &rule("mixed", "closed")).await?;
    served.put_rule("mixed-open", &rule("mixed", "open")).await?;
    Ok((served, redis))
}

/// Whether it is allowed, and degraded.
fn answer(told: &Told) -> Result<(bool, bool)> {
    let body = told.json()?;
    ensure!(told.status == 200 && body["never"] == false, "{told:?}");
    Ok((body["allowed"] == true, body["degraded"] == true))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_down_is_not_429() -> Result<()> {
    let (served, mut redis) = served().await?;
    for action in ["open", "closed", "local", "paid"] {
        assert_eq!(answer(&served.check("bot", action).await?)?, (true, false), "{action}: all is well");
    }
    redis.stop()?;
    until(RECOVERY, "the loss to be noticed", async || !served.is_ready().await).await?;
    for n in 0..10 {
        assert_eq!(answer(&served.check("bot", "open").await?)?, (true, true), "open lets all through");
        for action in ["closed", "paid", "mixed"] {
            served.check("bot", action).await?.expect_problem(503, "store_unavailable")?;
            served.get(&format!("/v1/limit/gate/{action}/bot")).await?.expect_problem(503, "store_unavailable")?;
        }
        assert_eq!(answer(&served.check("bot", "local").await?)?, (n < 3, true), "the server's own limiter counts to three: {n}");
    }
    assert_eq!(served.get("/v1/limit/gate/local/bot").await?.status, 429, "this one was counted");
    assert_eq!(served.get("/v1/limit/gate/local/other").await?.status, 204);
    let refused = served.check("bot", "local").await?.json()?;
    ensure!(refused["bound_by"] == "local" && refused["retry_at"].is_string(), "a refusal by count says when: {refused}");
    assert_eq!(answer(&served.check("bot", "none").await?)?, (true, false), "where no rule is, no store is missed");
    assert_eq!(served.get("/v1/limit/gate/open/bot").await?.status, 204);

    redis.restart()?;
    until(RECOVERY, "the server to be ready", async || served.is_ready().await).await?;
    // This Redis keeps nothing, so whoever it answers has all of it again.
    for action in ["open", "closed", "local", "paid"] {
        for allowed in [true, true, true, false] {
            assert_eq!(answer(&served.check("bot", action).await?)?, (allowed, false), "{action}: the store counts again");
        }
    }
    served.shutdown().await;
    Ok(())
}

/// Only charges and leases are decided without the store: what would change it, or ask it, is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_the_store_says_so_while_it_is_away() -> Result<()> {
    let (served, mut redis) = served().await?;
    redis.stop()?;
    until(RECOVERY, "the loss to be noticed", async || !served.is_ready().await).await?;
    let open = json!({"subject": "bot", "action": "open"});
    for operation in ["refund", "reset"] {
        served.post(&format!("/v1/limit/{operation}"), &open).await?.expect_problem(503, "store_unavailable")?;
    }
    for fields in [json!({"peek": true}), json!({"force": true})] {
        let mut body = open.clone();
        body.as_object_mut().into_iter().zip(fields.as_object()).for_each(|(body, fields)| body.extend(fields.clone()));
        served.post("/v1/limit/check", &body).await?.expect_problem(503, "store_unavailable")?;
    }
    let batch = json!({"checks": [open, {"subject": "bot", "action": "closed"}, {"subject": "bot", "action": "none"}]});
    let told = served.post("/v1/limit/batch", &batch).await?.json()?;
    let answers = &told["answers"];
    assert_eq!((&answers[0]["allowed"], &answers[0]["degraded"]), (&json!(true), &json!(true)), "{told}");
    assert_eq!((&answers[1]["problem"]["code"], &answers[1]["problem"]["retryable"]), (&json!("store_unavailable"), &json!(true)));
    assert_eq!(answers[2]["allowed"], true);
    served.shutdown().await;
    Ok(())
}

/// While the store is away, somebody who needs none does not make the server forget what it counts in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_limiter_counts_until_the_store_is_back_and_no_shorter() -> Result<()> {
    let (served, mut redis) = served().await?;
    redis.stop()?;
    until(RECOVERY, "the loss to be noticed", async || !served.is_ready().await).await?;
    for n in 0..8 {
        assert_eq!(answer(&served.check("bot", "local").await?)?, (n < 3, true), "check {n}");
        assert_eq!(answer(&served.check("bot", "none").await?)?, (true, false));
    }
    served.shutdown().await;
    Ok(())
}
