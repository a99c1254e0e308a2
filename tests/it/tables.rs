//! The tables, on every lane.

use anyhow::{Result, ensure};
use hermod_tests::{Lane, table};

const LIMIT: &str = include_str!("../tables/limit.txt");

/// Every test of every table on {model, embedded, redis, cluster} x {engine, HTTP}.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_tables_agree_on_every_lane() -> Result<()> {
    let tests = table::parse(LIMIT)?;
    assert!(tests.len() >= 25, "the table has shrunk to {} tests", tests.len());
    for (name, mut lane) in Lane::all().await? {
        let mut failed = Vec::new();
        for test in &tests {
            if let Err(fault) = test.run(&mut lane).await {
                failed.push(format!("{fault:#}"));
            }
        }
        lane.close().await?;
        ensure!(failed.is_empty(), "on {name}:\n{}", failed.join("\n"));
        println!("{name}: {} tests", tests.len());
    }
    Ok(())
}

/// A table that is wrong is noticed, on every lane: the runner itself can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_table_fails_on_every_lane() -> Result<()> {
    for wrong in ["allowed left 1", "denied retry 10s", "never", "replayed left 2", "conflict", "allowed other left 2"] {
        let text = format!("test wrong\nrule r 3 per 30s\nat 0s check a -> {wrong}\n");
        let tests = table::parse(&text)?;
        for (name, mut lane) in Lane::all().await? {
            assert!(tests[0].run(&mut lane).await.is_err(), "{wrong:?} passed on {name}");
            lane.close().await?;
        }
    }
    Ok(())
}
