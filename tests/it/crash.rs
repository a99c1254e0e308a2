//! Nothing acknowledged is lost when the server is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_client::{Algorithm, CheckRequest, Client, Retry, RuleDraft};
use hermod_tests::server::Hermod;
use hermod_tests::until;

const KILLS: u64 = 20;
const WRITERS: u64 = 16;
/// Regains a token in nine hours: none comes back while the test runs.
const LIMIT: u64 = 1_000;
const BURST: u64 = 50_000;

/// `kill -9` under load, many times; after each, every acknowledged charge of a durable rule is there,
/// and none is there that nobody asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_charge_survives_kill_9() -> Result<()> {
    let mut hermod = Hermod::serve::<&str>([])?;
    let key = hermod.admin_key()?;
    let connect = |url: &str| Ok::<_, anyhow::Error>(Client::new(url)?.with_key(&key).with_retry(Retry::never()));
    let rule = RuleDraft::new("pay", LIMIT, "365days").algorithm(Algorithm::TokenBucket).burst(BURST);
    let rule = rule.id("paid").name("paid").durable(true);
    connect(hermod.url()?)?.rules().create(&rule).await?;

    let acknowledged = Arc::new(AtomicU64::new(0));
    let asked = Arc::new(AtomicU64::new(0));
    for round in 1..=KILLS {
        let client = connect(hermod.url()?)?;
        let before = acknowledged.load(Ordering::SeqCst);
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let (client, acknowledged, asked) = (client.clone(), Arc::clone(&acknowledged), Arc::clone(&asked));
                tokio::spawn(async move {
                    loop {
                        asked.fetch_add(1, Ordering::SeqCst);
                        let Ok(answer) = client.limit().check(&CheckRequest::new("bot-7", "pay")).await else { break };
                        assert!(answer.allowed, "the burst is used up");
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        // The kill falls into the middle of the load, at another place each time.
        let enough = before + 20 + round * 7;
        let load = {
            let acknowledged = Arc::clone(&acknowledged);
            tokio::task::spawn_blocking(move || {
                until(Duration::from_secs(20), "the load is under way", || acknowledged.load(Ordering::SeqCst) >= enough)
            })
        };
        load.await??;
        hermod.kill9()?;
        for writer in writers {
            writer.await.context("a writer panicked")?;
        }
        hermod.restart()?;
        let answer = connect(hermod.url()?)?.limit().check(&CheckRequest::new("bot-7", "pay")).await?;
        let used = BURST - answer.rules.first().context("the rule is still there")?.remaining - 1;
        let (acked, sent) = (acknowledged.fetch_add(1, Ordering::SeqCst), asked.fetch_add(1, Ordering::SeqCst));
        ensure!(used >= acked, "round {round}: {acked} charges were acknowledged, {used} are left after the kill");
        ensure!(used <= sent, "round {round}: {sent} charges were asked for, {used} are there");
    }
    println!("{} acknowledged charges, {KILLS} kills, none lost", acknowledged.load(Ordering::SeqCst));
    Ok(())
}

/// A clean stop forgets nothing, also of what need not be durable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_keeps_deferred_charges() -> Result<()> {
    let mut hermod = Hermod::serve::<&str>([])?;
    let client = Client::new(hermod.url()?)?.with_key(hermod.admin_key()?);
    client.rules().create(&RuleDraft::new("act", 5, "1day")).await?;
    client.limit().check(&CheckRequest::new("bot-7", "act").cost(3)).await?;
    let status = hermod.terminate()?;
    ensure!(status.success(), "a clean stop ends with {status}");
    hermod.restart()?;
    let answer = client.limit().check(&CheckRequest::new("bot-7", "act")).await?;
    ensure!(answer.rules.first().is_some_and(|rule| rule.remaining == 1), "{answer:?}");
    Ok(())
}

/// A second server on one folder is refused, and the first one does not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_on_one_folder_is_refused() -> Result<()> {
    let hermod = Hermod::serve::<&str>([])?;
    let data = hermod.folder().join("data");
    let mut second = Hermod::options("serve").args(["--listen", "127.0.0.1:0", "--data", &data.to_string_lossy()]).start()?;
    let status = second.wait(Duration::from_secs(20))?;
    ensure!(status.code() == Some(2), "ended with {status}");
    ensure!(second.lines().iter().any(|line| line.contains("in use by another hermod process")), "{:?}", second.lines());
    ensure!(Client::new(hermod.url()?)?.health().await.is_ok());
    Ok(())
}
