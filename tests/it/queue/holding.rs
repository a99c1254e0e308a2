//! What becomes of deliveries when their queue is deleted or changed: nothing is lost without being told.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{SOON, on_every_store};
use crate::outage::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_holds_deliveries_is_not_deleted() -> Result<()> {
    on_every_store(async |_, team| {
        team.queue("q", json!({"max_attempts": 1, "lease": "1h"})).await?;
        for (to, within) in [("ann", "0s"), ("bob", "0s"), ("eve", "0s"), ("dan", "1h")] {
            team.push("q", json!({"payload": 1, "to": to, "in": within})).await?;
        }
        let held = team.claim("q", json!({"count": 2})).await?;
        team.settle("q", "nack", &held[0], json!({})).await?;
        let told = team.delete("/v1/queues/q").await?.problem(409, "queue_not_empty", None)?;
        let detail = told["detail"].as_str().unwrap_or_default();
        ensure!(detail.contains("4 deliveries (1 ready, 1 scheduled, 1 leased, 1 dead)") && detail.contains("purge=true"), "{detail}");
        team.delete("/v1/queues/q?purge=perhaps").await?.problem(400, "invalid_field", Some("purge"))?;
        team.delete("/v1/queues/q?empty=true").await?.problem(400, "unknown_field", Some("empty"))?;
        assert_eq!(team.stats("q").await?["scheduled"], 1, "nothing is cancelled by a mistake");

        // What somebody holds is theirs; all else goes.
        let told = team.delete("/v1/queues/q?purge=true").await?.problem(409, "queue_not_empty", None)?;
        let detail = told["detail"].as_str().unwrap_or_default();
        ensure!(detail.contains("1 delivery (1 leased)") && !detail.contains("dead"), "{detail}");
        team.ack("q", &held[1]).await?;
        team.delete("/v1/queues/q").await?.expect(204)?;
        team.queue("q", json!({})).await?;
        let stats = team.stats("q").await?;
        assert_eq!((&stats["ready"], &stats["scheduled"], &stats["dead"]), (&json!(0), &json!(0), &json!(0)), "a new one is empty");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_takes_as_many_steps_as_it_needs() -> Result<()> {
    on_every_store(async |_, team| {
        team.queue("q", json!({})).await?;
        let lines: String = (0..2_500).map(|n| format!("{{\"payload\":{n},\"to\":\"r{}\",\"in\":\"1h\"}}\n", n % 100)).collect();
        assert_eq!(team.push_lines("q", &lines).await?.len(), 2_500);
        team.delete("/v1/queues/q?purge=true").await?.expect(204)?;
        team.get("/v1/queues/q").await?.problem(404, "not_found", None)?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_go_with_their_queue_and_so_does_what_they_made_for_later() -> Result<()> {
    on_every_store(async |_, team| {
        team.queue("q", json!({"lease": "1h"})).await?;
        team.put("/v1/queues/q/schedules/daily", &json!({"cron": "@daily"})).await?.expect(201)?;
        until(SOON, "the next run", async || team.stats("q").await.is_ok_and(|stats| stats["scheduled"] == 1)).await?;
        team.push("q", json!({"payload": 1})).await?;
        let held = team.claim_one("q").await?;
        let told = team.delete("/v1/queues/q?purge=true").await?.problem(409, "queue_not_empty", None)?;
        ensure!(told["detail"].as_str().is_some_and(|detail| detail.contains("1 delivery (1 leased)")), "{told}");
        assert_eq!(team.stats("q").await?["scheduled"], 1, "the queue stays, and no run is missed");
        team.ack("q", &held).await?;
        team.delete("/v1/queues/q").await?.expect(204)?;
        team.queue("q", json!({})).await?;
        assert_eq!(team.stats("q").await?["scheduled"], 0);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_a_queue_stays_where_it_is() -> Result<()> {
    on_every_store(async |_, team| {
        team.queue("q", json!({})).await?;
        team.queue("q", json!({"order": "total"})).await?;
        let pushed = team.push("q", json!({"payload": 1, "in": "1h"})).await?;
        for (change, field) in [(json!({}), "order"), (json!({"order": "total", "mode": "sticky"}), "mode")] {
            let told = team.put("/v1/queues/q", &change).await?.problem(409, "queue_not_empty", Some(field))?;
            ensure!(told["detail"].as_str().is_some_and(|detail| detail.contains("1 delivery (1 scheduled)")), "{told}");
        }
        team.queue("q", json!({"order": "total", "lease": "1m"})).await?;
        team.edit("q", &pushed["id"], None).await?;
        assert_eq!(team.queue("q", json!({})).await?["order"], "recipient", "of an empty one all can be changed");
        Ok(())
    })
    .await
}
