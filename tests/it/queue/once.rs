//! Asking twice under one key is safe, also for what is pushed, claimed and settled, on every store.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Caller, held, on_every_store, with};
use crate::http::site::Ask;

/// Asks, asks again, and asks for something else under the same key; what was answered.
async fn asked_again(team: &Caller, key: &str, path: &str, body: &Value, other: &Value) -> Result<Value> {
    let ask = |body: &Value| Ask::json("POST", format!("/v1/queues/q/{path}"), body).once(key);
    let first = team.send(&ask(body)).await?;
    ensure!(matches!(first.status, 200 | 201), "{path}: {}", first.text());
    for _ in 0..2 {
        let again = team.send(&ask(body)).await?;
        assert_eq!((again.status, again.text()), (first.status, first.text()), "{path} is replayed");
    }
    let refused = team.send(&ask(other)).await?;
    if body.is_array() {
        // Of several each is answered in its place.
        let refused = refused.expect(200)?;
        assert_eq!(refused["items"][0]["problem"]["code"], "idempotency_conflict", "{refused}");
    } else {
        refused.problem(422, "idempotency_conflict", Some("Idempotency-Key")).context(path.to_owned())?;
    }
    first.expect(first.status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pushed_and_settled_under_a_key_is_done_once() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({"lease": "10s", "max_attempts": 9})).await?;
        let to_ann = |payload: u64| json!({"payload": payload, "to": "ann"});
        let pushed = asked_again(team, "push", "deliveries", &to_ann(1), &to_ann(2)).await?;
        assert_eq!(pushed["outcome"], "added");
        assert_eq!(team.stats("q").await?["ready"], 1, "it is there once");
        let list = asked_again(team, "list", "deliveries", &json!([to_ann(3), to_ann(4)]), &json!([to_ann(3)])).await?;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
        assert_eq!(team.list("q", "").await?.len(), 3);

        let first = team.claim_one("q").await?;
        site.at_ms(4_000);
        let extended = asked_again(team, "extend", "extend", &held(&first), &with(held(&first), &json!({"lease": "1m"}))).await?;
        assert_eq!(extended["outcome"], "extended");
        site.at_ms(5_000);
        let nack = |delay: &str| with(held(&first), &json!({"delay": delay}));
        // A replay tells what was told then, though the lease is over by now.
        let retry = asked_again(team, "nack", "nack", &nack("1s"), &nack("2s")).await?;
        assert_eq!(retry["outcome"], "retry");
        assert_eq!(team.settle("q", "nack", &first, json!({})).await?["outcome"], "stale", "without the key it is another request");
        site.at_ms(6_000);
        let second = team.claim_one("q").await?;
        assert_eq!((&second["id"], &second["attempt"]), (&pushed["id"], &json!(2)), "it failed once");
        let acked = asked_again(team, "ack", "ack", &held(&second), &held(&first)).await?;
        assert_eq!(acked["outcome"], "done");
        assert_eq!(team.list("q", "").await?.len(), 2);
        // What a key stands for in one call it does not in another.
        let other = Ask::json("POST", "/v1/queues/q/nack", &held(&second)).once("ack");
        team.send(&other).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;
        Ok(())
    })
    .await
}
