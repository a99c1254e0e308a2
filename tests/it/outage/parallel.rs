//! Many tasks, two servers, one store: never one more than the limit, and never one less.

use std::sync::Arc;

use anyhow::{Result, ensure};
use hermod_tests::server::{Cluster, Redis};
use hermod_tests::unique;
use serde_json::{Value, json};

use super::served::Served;

const TASKS: usize = 64;
const CHECKS_EACH: usize = 3;
const LIMIT: usize = 50;

/// Two servers on one store and one catalog, with these rules. Their ids are unique, as the space is shared.
async fn two_on(url: &str, rules: &[Value]) -> Result<([Arc<Served>; 2], tempfile::TempDir)> {
    let folder = tempfile::tempdir()?;
    let catalog = format!("sqlite:{}/catalog.db", folder.path().display());
    let set = |config: &mut hermod_server::Config| (config.store, config.catalog) = (url.to_owned(), catalog.clone());
    let first = Served::start(set).await?;
    for rule in rules {
        first.put_rule(&unique("overshoot"), rule).await?;
    }
    // It starts after the rules are there, so it knows them from its first moment.
    Ok(([Arc::new(first), Arc::new(Served::start(set).await?)], folder))
}

/// How many of all that is asked at once is allowed.
async fn allowed(servers: &[Arc<Served>; 2], path: &'static str, body: impl Fn(usize) -> Value) -> Result<usize> {
    let tasks: Vec<_> = (0..TASKS)
        .map(|n| {
            let served = Arc::clone(&servers[n % servers.len()]);
            let bodies: Vec<Value> = (0..CHECKS_EACH).map(|round| body(n * CHECKS_EACH + round)).collect();
            tokio::spawn(async move {
                let mut allowed = 0;
                for body in bodies {
                    let told = served.post(path, &body).await?;
                    ensure!(told.status == 200, "{told:?}");
                    allowed += usize::from(told.is_allowed());
                }
                Ok(allowed)
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await??;
    }
    Ok(sum)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_checks_never_overshoot() -> Result<()> {
    let rule = |action: &str, algorithm: &str| json!({"action": action, "limit": LIMIT, "per": "365days", "algorithm": algorithm});
    let mut rules: Vec<Value> =
        ["sliding_window", "sliding_log", "fixed_window", "token_bucket", "leaky_bucket"].map(|name| rule(name, name)).into();
    let more = [("approximate", "sliding_window", "approximate", json!(true)), ("global", "sliding_window", "scope", json!("global"))];
    for (action, algorithm, field, value) in more {
        let mut rule = rule(action, algorithm);
        rule[field] = value;
        rules.push(rule);
    }
    for url in [Redis::shared()?.url(), Cluster::shared()?.url()] {
        let (servers, _folder) = two_on(&url, &rules).await?;
        for rule in &rules {
            let action = &rule["action"];
            // Who shares one counter need not be one.
            let subject = |n: usize| if action == "global" { format!("bot-{n}") } else { "bot".to_owned() };
            let allowed = allowed(&servers, "/v1/limit/check", |n| json!({"subject": subject(n), "action": action})).await?;
            ensure!(allowed == LIMIT, "{action}: {allowed} of {} checks were allowed on {url}", TASKS * CHECKS_EACH);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_leases_never_overshoot() -> Result<()> {
    let rules = [json!({"action": "open", "limit": LIMIT, "per": "1h", "algorithm": "concurrency"})];
    for url in [Redis::shared()?.url(), Cluster::shared()?.url()] {
        let (servers, _folder) = two_on(&url, &rules).await?;
        let held =
            allowed(&servers, "/v1/limit/acquire", |n| json!({"subject": "bot", "action": "open", "lease": format!("l{n}")})).await?;
        ensure!(held == LIMIT, "{held} leases are held at once on {url}");
        // With one id all of them are one.
        let same = allowed(&servers, "/v1/limit/acquire", |_| json!({"subject": "other", "action": "open", "lease": "one"})).await?;
        ensure!(same == TASKS * CHECKS_EACH, "{same} of one lease on {url}");
    }
    Ok(())
}
