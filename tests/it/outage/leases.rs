//! Leases while the store is away: each rule says what is answered, and who holds one is not told an error by rules
//! that let things through.

use anyhow::{Context, Result, ensure};
use hermod_tests::server::Redis;
use serde_json::{Value, json};

use super::served::Served;
use super::{RECOVERY, until};

/// Two at once for a minute at most, of the subjects that are called after the policy.
fn rule(name: &str, policy: &str) -> Value {
    let (subject, action) = (format!("{name}:*"), "run");
    json!({"name": policy, "action": action, "subject": subject, "limit": 2, "per": "1m", "algorithm": "concurrency", "on_store_error": policy})
}

/// A server on a Redis of its own.
async fn served() -> Result<(Served, Redis)> {
    let redis = Redis::start()?;
    let url = redis.url();
    let served = Served::start(|config| config.store = url).await?;
    for policy in ["open", "closed", "local"] {
        served.put_rule(policy, &rule(policy, policy)).await?;
        served.put_rule(&format!("mixed-{policy}"), &rule("mixed", policy)).await?;
    }
    Ok((served, redis))
}

/// One subject and what it does with leases.
struct Holder<'a>(&'a Served, &'a str);

impl Holder<'_> {
    async fn ask(&self, operation: &str, lease: &str, more: Value) -> Result<Value> {
        let mut body = json!({"subject": self.1, "lease": lease});
        body.as_object_mut().into_iter().zip(more.as_object()).for_each(|(body, more)| body.extend(more.clone()));
        let told = self.0.post(&format!("/v1/limit/{operation}"), &body).await?;
        ensure!(told.status == 200, "{told:?}");
        told.json()
    }

    async fn acquire(&self, lease: &str) -> Result<Value> {
        self.ask("acquire", lease, json!({"action": "run", "ttl": "30s"})).await
    }

    async fn renew(&self, lease: &str) -> Result<Value> {
        self.ask("renew", lease, json!({})).await
    }

    async fn release(&self, lease: &str) -> Result<Value> {
        self.ask("release", lease, json!({})).await
    }

    /// None of the three is answered.
    async fn is_told_that_the_store_is_away(&self) -> Result<()> {
        let bodies = [("acquire", json!({"action": "run"})), ("renew", json!({})), ("release", json!({}))];
        for (operation, mut body) in bodies {
            (body["subject"], body["lease"]) = (json!(self.1), json!("before"));
            self.0.post(&format!("/v1/limit/{operation}"), &body).await?.expect_problem(503, "store_unavailable")?;
        }
        Ok(())
    }
}

/// Whether it is held, and whether the answer is degraded.
fn held(answer: &Value) -> (bool, bool) {
    (answer["allowed"] == true, answer["degraded"] == true)
}

/// For how long it is held.
fn seconds_left(answer: &Value) -> Result<u64> {
    let time = |field: &str| Ok::<_, anyhow::Error>(humantime::parse_rfc3339(answer[field].as_str().context("a time")?)?);
    Ok(time("expires_at")?.duration_since(time("now")?)?.as_secs())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_follow_the_policy_of_their_rules() -> Result<()> {
    let (served, mut redis) = served().await?;
    let [open, closed, local, mixed] = ["open:1", "closed:1", "local:1", "mixed:1"].map(|subject| Holder(&served, subject));
    for holder in [&open, &closed, &local, &mixed] {
        assert_eq!(held(&holder.acquire("before").await?), (true, false), "all is well for {}", holder.1);
    }
    let mut own = rule("open", "closed");
    own["subject"] = json!("open:paid");
    served.put_rule("paid", &own).await?;
    redis.stop()?;
    until(RECOVERY, "the loss to be noticed", async || !served.is_ready().await).await?;

    Holder(&served, "open:paid").is_told_that_the_store_is_away().await.context("it has a rule of its own")?;
    closed.is_told_that_the_store_is_away().await?;
    mixed.is_told_that_the_store_is_away().await.context("one closed rule is enough")?;
    for n in 0..5 {
        let taken = open.acquire(&format!("l{n}")).await?;
        assert_eq!((held(&taken), seconds_left(&taken)?), ((true, true), 30), "open lets all through, for as long as they asked");
    }
    let long = open.ask("acquire", "long", json!({"action": "run", "ttl": "1h"})).await?;
    assert_eq!(seconds_left(&long)?, 60, "and no longer than the rule allows");
    for holder in [&open, &local] {
        let kept = holder.renew("before").await?;
        assert_eq!((held(&kept), seconds_left(&kept)?), ((true, true), 60), "who held one goes on: {kept}");
        let kept = holder.ask("renew", "before", json!({"ttl": "10s"})).await?;
        assert_eq!((held(&kept), seconds_left(&kept)?), ((true, true), 10), "{kept}");
        assert_eq!(held(&holder.release("before").await?), (true, true));
    }
    assert_eq!(held(&Holder(&served, "free").acquire("x").await?), (true, false), "where no rule is, no store is missed");

    redis.restart()?;
    until(RECOVERY, "the server to be ready", async || served.is_ready().await).await?;
    assert_eq!(held(&open.renew("l0").await?), (false, false), "the store knows nothing of it");
    for (lease, is_held) in [("l0", true), ("l1", true), ("l2", false)] {
        assert_eq!(held(&open.acquire(lease).await?), (is_held, false), "the store counts again: {lease}");
    }
    assert_eq!(held(&open.release("l0").await?), (true, false));
    served.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_limiter_holds_leases_until_the_store_is_back() -> Result<()> {
    let (served, mut redis) = served().await?;
    let all = json!({"name": "all", "action": "run", "limit": 3, "per": "20s", "algorithm": "concurrency", "scope": "global", "on_store_error": "local"});
    served.put_rule("all", &all).await?;
    let [bot, other] = ["local:bot", "local:other"].map(|subject| Holder(&served, subject));
    redis.stop()?;
    until(RECOVERY, "the loss to be noticed", async || !served.is_ready().await).await?;

    let first = bot.acquire("one").await?;
    assert_eq!((held(&first), seconds_left(&first)?), ((true, true), 20), "as long as both rules allow: {first}");
    assert_eq!(held(&bot.acquire("one").await?), (true, true), "the same id is the same lease");
    assert_eq!(held(&bot.acquire("two").await?), (true, true));
    let refused = bot.acquire("three").await?;
    assert_eq!((held(&refused), &refused["bound_by"]), ((false, true), &json!("local")), "{refused}");
    ensure!(refused["retry_at"].is_string() && refused["expires_at"].is_null(), "a refusal by count says when: {refused}");
    assert_eq!(held(&bot.renew("three").await?), (false, true), "it was refused");
    assert_eq!(held(&bot.renew("four").await?), (true, true), "this one may have been taken before the store was lost");
    assert_eq!(held(&other.acquire("one").await?), (true, true));
    let refused = other.acquire("two").await?;
    assert_eq!((held(&refused), &refused["bound_by"]), ((false, true), &json!("all")), "three at once for all: {refused}");

    assert_eq!(held(&bot.renew("one").await?), (true, true));
    assert_eq!(held(&bot.release("two").await?), (true, true));
    assert_eq!(held(&bot.release("two").await?), (false, true), "this one was taken here, and given back");
    assert_eq!(held(&bot.renew("two").await?), (false, true));
    assert_eq!(held(&other.acquire("two").await?), (true, true), "what is given back is free");

    redis.restart()?;
    until(RECOVERY, "the server to be ready", async || served.is_ready().await).await?;
    assert_eq!(held(&bot.renew("one").await?), (false, false), "the store knows nothing of it");
    assert_eq!(held(&bot.acquire("one").await?), (true, false), "so it is taken again");
    for lease in ["one", "two"] {
        assert_eq!(held(&other.acquire(lease).await?), (true, false), "what was counted here is forgotten");
    }
    served.shutdown().await;
    Ok(())
}
