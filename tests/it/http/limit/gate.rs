//! The gate answers a proxy by status and headers alone.

use anyhow::{Result, ensure};
use hermod_server::Config;
use serde_json::{Value, json};

use super::super::site::{Reply, Site};

fn rate_headers(reply: &Reply) -> (&str, &str, &str) {
    (reply.header("ratelimit-policy"), reply.header("ratelimit"), reply.header("retry-after"))
}

/// The refusal, as the draft on RateLimit headers has it.
fn refusal(reply: &Reply, violated: &[&str]) -> Result<()> {
    ensure!(reply.status == 429 && reply.header("content-type") == "application/problem+json", "{} {}", reply.status, reply.text());
    let document: Value = serde_json::from_slice(&reply.body)?;
    assert_eq!(document["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!((&document["status"], &document["violated-policies"]), (&json!(429), &json!(violated)));
    ensure!(document["title"].is_string() && document["detail"].is_string(), "{document}");
    ensure!(reply.header("cache-control") == "no-store", "a cached refusal would outlive its reason");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_lets_pass_with_headers_and_refuses_with_when_to_come_again() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.rule("burst", "tasks/create", 10, "1s", json!({"algorithm": "token_bucket"})).await?;
    team.rule("daily", "tasks/create", 250, "1day", json!({"algorithm": "token_bucket"})).await?;
    team.rule("silent", "tasks/create", 1, "1day", json!({"mode": "shadow"})).await?;
    let policy = r#""burst";q=10;w=1, "daily";q=250;w=86400"#;
    let gate = |query: &str| format!("/v1/limit/gate/tasks%2Fcreate/user%2F7%20%C3%A9{query}");

    let passed = team.get(&gate("")).await?;
    ensure!(passed.status == 204 && passed.body.is_empty(), "{} {}", passed.status, passed.text());
    assert_eq!(rate_headers(&passed), (policy, r#""burst";r=9;t=1, "daily";r=249;t=346"#, ""));
    assert_eq!(passed.header("cache-control"), "no-store", "a cached answer would let pass uncounted");
    assert_eq!(team.left("user/7 é", "tasks/create", "daily").await?, 249, "it is the same counter as that of a check");

    let passed = team.get(&gate("?cost=9")).await?;
    assert_eq!((passed.status, rate_headers(&passed)), (204, (policy, r#""burst";r=0;t=1, "daily";r=240;t=3456"#, "")));
    let refused = team.get(&gate("")).await?;
    refusal(&refused, &["burst"])?;
    assert_eq!(rate_headers(&refused), (policy, r#""burst";r=0;t=1, "daily";r=240;t=3456"#, "1"), "a tenth of a second is one");

    let other = team.get("/v1/limit/gate/tasks%2Fcreate/other").await?;
    assert_eq!((other.status, other.header("ratelimit")), (204, r#""burst";r=9;t=1, "daily";r=249;t=346"#));
    let free = team.get("/v1/limit/gate/free/other").await?;
    assert_eq!((free.status, rate_headers(&free)), (204, ("", "", "")), "where no rule is there is nothing to say");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_is_in_whole_seconds_rounded_up() -> Result<()> {
    let site = Site::start().await?;
    for (action, per, after) in [("a", "1ms", "1"), ("b", "1s", "1"), ("c", "1001ms", "2"), ("d", "1m", "60"), ("e", "90500ms", "91")] {
        site.admin.rule(action, action, 1, per, json!({"algorithm": "sliding_log"})).await?;
        let path = format!("/v1/limit/gate/{action}/bot");
        assert_eq!(site.admin.get(&path).await?.status, 204);
        let refused = site.admin.get(&path).await?;
        refusal(&refused, &[action])?;
        assert_eq!(refused.header("retry-after"), after, "{per}");
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_policies_that_refuse_are_named_and_what_never_passes_is_not_told_to_wait() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    for (name, limit) in [("one", 1), ("three", 3), ("two", 2)] {
        team.rule(name, "act", limit, "1h", json!({})).await?;
    }
    assert_eq!(team.get("/v1/limit/gate/act/bot").await?.status, 204);
    refusal(&team.get("/v1/limit/gate/act/bot").await?, &["one"])?;
    let never = team.get("/v1/limit/gate/act/bot?cost=3").await?;
    refusal(&never, &["one", "three", "two"])?;
    assert_eq!(never.header("retry-after"), "", "it would come in vain");
    team.rule("ban", "act", 1, "1h", json!({"mode": "block", "subject": "bad"})).await?;
    let banned = team.get("/v1/limit/gate/act/bad").await?;
    refusal(&banned, &["ban"])?;
    assert_eq!(banned.header("retry-after"), "");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_headers_are_sent_where_the_setting_is_on() -> Result<()> {
    fn old(reply: &Reply) -> (&str, &str, &str) {
        (reply.header("x-ratelimit-limit"), reply.header("x-ratelimit-remaining"), reply.header("x-ratelimit-reset"))
    }
    for is_on in [false, true] {
        let site = Site::start_with(|config| Config { legacy_headers: is_on, ..config }).await?;
        let team = &site.admin;
        team.rule("burst", "act", 3, "10s", json!({"algorithm": "fixed_window"})).await?;
        team.rule("daily", "act", 100, "1day", json!({"algorithm": "fixed_window"})).await?;
        team.rule("silent", "act", 1, "1day", json!({"mode": "shadow"})).await?;
        let when = |headers: (&'static str, &'static str, &'static str)| if is_on { headers } else { ("", "", "") };
        let passed = team.get("/v1/limit/gate/act/bot?cost=2").await?;
        assert_eq!((passed.status, old(&passed)), (204, when(("3", "1", "1500000010"))), "of the rule with the least left");
        let refused = team.get("/v1/limit/gate/act/bot?cost=2").await?;
        assert_eq!((refused.status, old(&refused)), (429, when(("3", "1", "1500000010"))), "of the rule that refused");
        let body = json!({"subject": "bot", "action": "act"});
        let checked = team.post("/v1/limit/check", &body).await?;
        assert_eq!((checked.status, old(&checked)), (200, when(("3", "0", "1500000010"))));
        let never = team.post("/v1/limit/check", &json!({"subject": "other", "action": "act", "cost": 101})).await?;
        assert_eq!(old(&never), when(("3", "3", "1500000000")), "and so is a refusal of a check");
        let free = team.get("/v1/limit/gate/free/bot").await?;
        assert_eq!((free.status, old(&free)), (204, ("", "", "")), "where no rule is there is nothing to say");
        site.server.shutdown().await;
    }
    Ok(())
}
