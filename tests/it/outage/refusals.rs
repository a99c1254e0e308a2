//! A flood of refused calls costs the store nothing, and what frees a caller is seen at once.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use hermod_tests::server::Redis;
use serde_json::{Value, json};

use super::served::Served;
use super::until;

/// A server on a Redis of its own.
async fn served() -> Result<(Served, Redis)> {
    let redis = Redis::start()?;
    let url = redis.url();
    Ok((Served::start(|config| config.store = url).await?, redis))
}

/// How many scripts this Redis has run.
pub(crate) fn scripts_run(redis: &Redis) -> Result<u64> {
    let report: String = redis.ask(&["INFO", "commandstats"])?;
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
    let is_script = |line: &&str| ["cmdstat_evalsha:", "cmdstat_eval:", "cmdstat_fcall:"].iter().any(|name| line.starts_with(name));
    Ok(report.lines().filter(is_script).filter_map(calls).sum())
}

async fn check(served: &Served) -> Result<Value> {
    let told = served.check("bot", "post").await?;
    ensure!(told.status == 200, "{told:?}");
    told.json()
}

/// Checks until one is refused, which must be the next after `allowed`.
async fn use_up(served: &Served, allowed: u64) -> Result<Value> {
    for n in 0..allowed {
        ensure!(check(served).await?["allowed"] == true, "only {n} of {allowed} are allowed");
    }
    let refused = check(served).await?;
    ensure!(refused["allowed"] == false, "{refused}");
    Ok(refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_refused_checks_does_not_reach_the_store() -> Result<()> {
    let (served, redis) = served().await?;
    served.put_rule("r", &json!({"action": "post", "limit": 2, "per": "1day"})).await?;
    let began = Instant::now();
    let refused = use_up(&served, 2).await?;
    let before = scripts_run(&redis)?;
    for _ in 0..300 {
        let mut again = check(&served).await?;
        // Time goes on.
        again["now"].clone_from(&refused["now"]);
        assert_eq!(again, refused, "the same answer, and the same time to come again");
    }
    let run = scripts_run(&redis)? - before;
    // Nothing is remembered for longer than a second.
    let seconds = began.elapsed().as_secs();
    ensure!(run <= seconds, "300 refused checks in {seconds} s ran {run} scripts");
    ensure!(before >= 3, "the first ones are counted: {before}");
    Ok(())
}

/// Checks of one request go to the store together, and each is answered for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_independent_checks_makes_few_calls_of_the_store() -> Result<()> {
    let (served, redis) = served().await?;
    served.put_rule("r", &json!({"action": "post", "limit": 1, "per": "1day"})).await?;
    ensure!(served.check("bot-7", "post").await?.is_allowed());
    let before = scripts_run(&redis)?;
    let checks: Vec<_> = (0..500).map(|n| json!({"subject": format!("bot-{n}"), "action": "post"})).collect();
    let told = served.post("/v1/limit/batch", &json!({"checks": checks})).await?.json()?;
    let run = scripts_run(&redis)? - before;
    let answers = told["answers"].as_array().context("answers")?;
    let refused: Vec<_> = (0..).zip(answers).filter(|(_, answer)| answer["allowed"] != true).map(|(n, _)| n).collect();
    assert_eq!((answers.len(), refused), (500, vec![7]));
    ensure!((1..=50).contains(&run), "500 checks ran {run} scripts");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_frees_a_caller_is_seen_at_the_next_check() -> Result<()> {
    let (served, _redis) = served().await?;
    let rule = |limit: u64| json!({"action": "post", "limit": limit, "per": "1day"});
    let bot = json!({"subject": "bot", "action": "post"});
    served.put_rule("r", &rule(2)).await?;
    use_up(&served, 2).await?;
    assert_eq!(served.post("/v1/limit/refund", &bot).await?.status, 200);
    use_up(&served, 1).await.context("after a refund")?;
    served.put_rule("r", &rule(4)).await?;
    use_up(&served, 2).await.context("after the rule was edited")?;
    assert_eq!(served.post("/v1/limit/reset", &bot).await?.status, 200);
    use_up(&served, 4).await.context("after a reset")?;
    served.put_rule("vip", &json!({"action": "post", "subject": "bot", "limit": 1, "per": "1day"})).await?;
    use_up(&served, 1).await.context("after a rule of its own was made")?;
    Ok(())
}

/// What one subject gives back under a rule for all frees another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_gives_back_is_seen_at_the_next_check() -> Result<()> {
    let (served, _redis) = served().await?;
    served.put_rule("all", &json!({"action": "post", "limit": 2, "per": "1day", "scope": "global"})).await?;
    for other in ["other-1", "other-2"] {
        ensure!(served.check(other, "post").await?.is_allowed());
    }
    for other in ["other-1", "other-2"] {
        use_up(&served, 0).await?;
        assert_eq!(served.post("/v1/limit/refund", &json!({"subject": other, "action": "post"})).await?.status, 200);
        use_up(&served, 1).await.with_context(|| format!("after {other} gave back"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_retry_at_the_check_is_allowed() -> Result<()> {
    let (served, _redis) = served().await?;
    for (algorithm, per) in [("sliding_log", "400ms"), ("sliding_window", "400ms"), ("token_bucket", "1300ms"), ("fixed_window", "700ms")] {
        served.put_rule(algorithm, &json!({"action": algorithm, "limit": 1, "per": per, "algorithm": algorithm})).await?;
        ensure!(served.check("bot", algorithm).await?.is_allowed());
        // A window may turn between two checks; then the next is refused.
        let mut refused = Value::Null;
        until(Duration::from_secs(10), "a refusal", async || {
            refused = served.check("bot", algorithm).await.and_then(|told| told.json()).unwrap_or_default();
            refused["allowed"] == false
        })
        .await?;
        let retry_at = humantime::parse_rfc3339(refused["retry_at"].as_str().context("a time")?)?;
        until(Duration::from_secs(10), "that time", async || SystemTime::now() >= retry_at).await?;
        ensure!(served.check("bot", algorithm).await?.is_allowed(), "{algorithm}: refused after {refused}");
    }
    Ok(())
}
