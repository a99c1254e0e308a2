//! Nothing acknowledged is lost or done twice when the server is killed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, ensure};
use hermod_tests::server::Hermod;
use hermod_tests::until;
use serde_json::json;

use super::load::{Load, join};
use crate::http::site::Caller;

const KILLS: u64 = 50;
const PUSHERS: u64 = 6;
const WORKERS: u64 = 4;
const RECIPIENTS: u64 = 40;

/// `kill -9` under load, many times: every acknowledged push is delivered in the end, what was acked never comes
/// again, tokens grow, recipients have theirs one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_survive_kill_9() -> Result<()> {
    let mut hermod = Hermod::serve::<&str>([])?;
    let key = hermod.admin_key()?;
    let team = Caller::new(hermod.url()?, Some(&key));
    // Whoever dies holding something gives it back soon, and nothing dies of that.
    team.queue("q", json!({"lease": "500ms", "max_attempts": 100})).await?;
    let mut load = Load::default();
    for round in 1..=KILLS {
        load = load.again();
        let (pushed, acked) = (load.pushed.load(Ordering::SeqCst), load.acked.load(Ordering::SeqCst));
        let all = load.start(&team, "q", PUSHERS, WORKERS, RECIPIENTS);
        // The kill falls into the middle of the load, at another place each time.
        let (pushed, acked) = (pushed + 10 + round % 7 * 5, acked + 5 + round % 5 * 5);
        let enough = || load.pushed.load(Ordering::SeqCst) >= pushed && load.acked.load(Ordering::SeqCst) >= acked;
        tokio::task::block_in_place(|| until(Duration::from_secs(20), "the load to be under way", enough))?;
        hermod.kill9()?;
        load.stop();
        join(all).await?;
        hermod.restart()?;
    }
    load.again().drain(&team, "q").await?;
    let sum = load.ledger.check_drained()?;
    println!("{KILLS} kills: {sum:?}");
    ensure!(sum.finished >= KILLS * 5 && team.stats("q").await?["dead"] == 0);
    Ok(())
}
