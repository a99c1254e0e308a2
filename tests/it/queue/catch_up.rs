//! What is overdue goes out at the rate that the queue has, over all servers, in order.

use anyhow::{Context, Result};
use hermod_server::Config;
use hermod_tests::{Store, unique};
use serde_json::{Value, json};

use super::{at, held, shared};
use crate::http::site::{Caller, Site};

const COUNT: u64 = 1_000;
const RATE: u64 = 200;
/// By then all of it has been due for long.
const LATE_MS: u64 = 3_600_000;

/// Takes all that these servers give out now, one after the other; the numbers in order. What they have given is their share for now once each
/// of them says so.
async fn drain(teams: &[Caller]) -> Result<Vec<u64>> {
    let (mut seen, mut silent) = (Vec::new(), 0);
    for team in teams.iter().cycle() {
        // More than there is, and less.
        let claimed = team.claim("q", json!({"count": if seen.len() % 2 == 0 { 70 } else { 1_000 }})).await?;
        silent = if claimed.is_empty() { silent + 1 } else { 0 };
        for delivery in &claimed {
            seen.push(delivery["payload"].as_u64().context("a number")?);
        }
        if !claimed.is_empty() {
            let all: Vec<Value> = claimed.iter().map(held).collect();
            team.post("/v1/queues/q/ack", &json!({"deliveries": all})).await?.expect(200)?;
        }
        if silent == teams.len() {
            break;
        }
    }
    Ok(seen)
}

async fn catch_up(sites: &[Site], teams: &[Caller]) -> Result<()> {
    for team in teams {
        team.queue("q", json!({"order": "total", "lease": "10h", "catch_up_per_second": RATE})).await?;
    }
    let lines: String = (0..COUNT).map(|n| format!("{{\"payload\": {n}, \"at\": \"{}\"}}\n", at(n / 3))).collect();
    let team = &teams[0];
    assert_eq!(team.push_lines("q", &lines).await?.len(), 1_000);
    let mut seen = Vec::new();
    for (ms, share) in [(0, RATE), (500, RATE / 2), (505, 1), (1_505, RATE), (60_000, RATE), (61_000, RATE)] {
        sites.iter().for_each(|site| site.at_ms(LATE_MS + ms));
        let some = drain(teams).await?;
        assert_eq!(u64::try_from(some.len())?, share, "after {ms} ms");
        seen.extend(some);
        let left = team.stats("q").await?;
        assert_eq!((&left["ready"], &left["leased"]), (&json!(1_000 - seen.len()), &json!(0)), "what its share is not stays");
    }
    // What is not overdue is not held back, though the last of what was takes its time.
    sites.iter().for_each(|site| site.at_ms(LATE_MS + 70_000));
    seen.extend(drain(teams).await?);
    assert_eq!(seen, (0..COUNT).collect::<Vec<_>>(), "in order");
    let now: String = (0..500).map(|n| format!("{{\"payload\": {n}}}\n")).collect();
    team.push_lines("q", &now).await?;
    assert_eq!(team.claim("q", json!({"count": 1_000})).await?.len(), 500, "what has just come due has no rate");
    assert_eq!(team.claim("q", json!({"count": 1})).await?, Vec::<Value>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_overdue_goes_out_at_its_rate_and_in_order() -> Result<()> {
    // On Redis by two servers.
    for (store, servers) in [(Store::Embedded, 1), (Store::Redis, 2)] {
        let (url, space) = (shared(store)?, unique("catchup"));
        let (mut sites, mut teams) = (Vec::new(), Vec::new());
        for _ in 0..servers {
            let url = url.clone();
            let site = Site::start_with(|config| Config { store: url, ..config }).await?;
            teams.push(site.admin.space(&space).await?);
            sites.push(site);
        }
        catch_up(&sites, &teams).await.with_context(|| format!("on {store:?}"))?;
        for site in sites {
            site.server.shutdown().await;
        }
    }
    Ok(())
}
