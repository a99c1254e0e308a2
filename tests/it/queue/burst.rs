//! Very many at once.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_tests::{Store, unique};
use serde_json::json;
use tokio::task::JoinSet;

use super::load::{Load, join};
use super::{Live, epoch_ms, now_ms, shared, time};

const COUNT: u64 = 100_000;
const RECIPIENTS: u64 = 2_000;
const CLAIMERS: u64 = 4;
const BATCH: u64 = 200;

/// 100,000 that are due in the same second are delivered once each, of every recipient in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_due_in_one_second() -> Result<()> {
    for store in [Store::Embedded, Store::Redis] {
        let live = Live::start(&shared(store)?, &unique("burst")).await?;
        let team = &live.team;
        team.queue("q", json!({"lease": "5m"})).await?;
        let load = Load::default();
        let (start, began) = (now_ms(), Instant::now());
        for first in (0..COUNT).step_by(10_000) {
            let mut lines = String::new();
            for n in first..first + 10_000 {
                let to = format!("r{}", n % RECIPIENTS);
                load.ledger.pushing(n, Some(&to));
                // Not in the order of their times, but all in one second.
                writeln!(lines, r#"{{"payload": {n}, "to": "{to}", "at": "{}"}}"#, time(start + n * 7_919 % 1_000))?;
            }
            let pushed = team.push_lines("q", &lines).await?;
            ensure!(pushed.len() == 10_000, "{} answers", pushed.len());
            for (n, one) in (first..).zip(&pushed) {
                load.ledger.pushed(n, one["id"].as_str().with_context(|| one.to_string())?, epoch_ms(&one["due"])?);
            }
        }
        let (pushing, began) = (began.elapsed(), Instant::now());
        let mut claimers = JoinSet::new();
        for _ in 0..CLAIMERS {
            let (load, team) = (load.clone(), team.clone());
            claimers.spawn(async move {
                while load.acked.load(Ordering::SeqCst) < COUNT {
                    load.work(&team, "q", BATCH, 100).await?.context("an answer")?;
                }
                Ok(())
            });
        }
        join(claimers).await?;
        let working = began.elapsed();
        let sum = load.ledger.check_drained()?;
        ensure!(sum.handed == COUNT && sum.finished == COUNT, "{sum:?}");
        let rate = |span: Duration| u128::from(COUNT) * 1_000 / span.as_millis().max(1);
        println!("{store:?}: {} pushed a second, {} claimed and acked a second", rate(pushing), rate(working));
        live.stop().await;
    }
    Ok(())
}
