//! Many tasks, two servers, one store: never one more than the limit.

use std::sync::Arc;

use anyhow::{Result, ensure};
use hermod_tests::server::{Cluster, Redis};
use hermod_tests::unique;
use serde_json::json;

use super::served::Served;

const TASKS: usize = 64;
const CHECKS_EACH: usize = 5;
const LIMIT: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_checks_never_overshoot() -> Result<()> {
    for url in [Redis::shared()?.url(), Cluster::shared()?.url()] {
        let folder = tempfile::tempdir()?;
        let catalog = format!("sqlite:{}/catalog.db", folder.path().display());
        let set = |config: &mut hermod_server::Config| (config.store, config.catalog) = (url.clone(), catalog.clone());
        let id = unique("overshoot");
        let first = Served::start(set).await?;
        first.put_rule(&id, &json!({"action": "post", "limit": LIMIT, "per": "1h"})).await?;
        // It starts after the rule is there, so it knows it from its first moment.
        let servers = [Arc::new(first), Arc::new(Served::start(set).await?)];
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| {
                let served = Arc::clone(&servers[n % servers.len()]);
                tokio::spawn(async move {
                    let mut allowed = 0;
                    for _ in 0..CHECKS_EACH {
                        let told = served.check("bot", "post").await?;
                        ensure!(told.status == 200, "{told:?}");
                        allowed += usize::from(told.is_allowed());
                    }
                    Ok(allowed)
                })
            })
            .collect();
        let mut allowed = 0;
        for task in tasks {
            allowed += task.await??;
        }
        ensure!(allowed == LIMIT, "{allowed} of {} checks were allowed on {url}", TASKS * CHECKS_EACH);
    }
    Ok(())
}
