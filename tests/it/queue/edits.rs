//! Changed as asked, or not at all; and many, asked for twice.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{at, on_every_store, with};
use crate::http::site::{Ask, Caller};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_is_changed_with_its_time_or_not_at_all() -> Result<()> {
    on_every_store(async |site, team| {
        team.queue("q", json!({"max_attempts": 1})).await?;
        let shown = async |id: &Value| -> Result<(Value, Value)> {
            let path = format!("/v1/queues/q/deliveries/{}", id.as_str().context("an id")?);
            let one = team.get(&path).await?.expect(200)?;
            Ok((one["payload"].clone(), one["due"].clone()))
        };
        let dead = team.push("q", json!({"payload": "old"})).await?["id"].clone();
        let claimed = team.claim_one("q").await?;
        assert_eq!(team.settle("q", "nack", &claimed, json!({})).await?["outcome"], "dead");
        let live = team.push("q", json!({"payload": "old", "in": "1h"})).await?["id"].clone();
        for (id, change, outcome, due) in [
            (&dead, json!({"payload": "new", "in": "1h"}), "dead", at(0)),
            (&dead, json!({"base64": "AAEC", "at": at(5_000)}), "dead", at(0)),
            (&live, json!({"payload": "new", "state": "ready"}), "alive", at(3_600_000)),
        ] {
            assert_eq!(team.edit("q", id, Some(change)).await?, json!({"outcome": outcome}));
            assert_eq!(shown(id).await?, (json!("old"), json!(due)), "only done has changed something");
        }
        let path = format!("/v1/queues/q/deliveries/{}", live.as_str().context("an id")?);
        let ask = Ask::json("PATCH", path, &json!({"payload": "new", "in": "2h"})).once("k");
        let done = team.send(&ask).await?.expect(200)?;
        assert_eq!(done, json!({"outcome": "done", "due": at(7_200_000)}));
        site.at_ms(1_000);
        assert_eq!(team.send(&ask).await?.expect(200)?, done, "asked twice, it is done once");
        assert_eq!(shown(&live).await?, (json!("new"), json!(at(7_200_000))));
        let done = team.edit("q", &dead, Some(json!({"payload": "new", "state": "ready"}))).await?;
        assert_eq!(done, json!({"outcome": "done", "due": at(1_000)}));
        let claimed = team.claim_one("q").await?;
        assert_eq!((&claimed["id"], &claimed["payload"], &claimed["attempt"]), (&dead, &json!("new"), &json!(1)));
        Ok(())
    })
    .await
}

/// Changes all of a tag, page by page, each under a key of its own. The first answer is lost, and asked for again.
async fn in_pages(team: &Caller, verb: &str, fields: Value) -> Result<()> {
    let (mut body, path) = (with(json!({"tag": "t"}), &fields), format!("/v1/queues/q/{verb}"));
    team.send(&Ask::json("POST", &path, &body).once(&format!("{verb}0"))).await?.expect(200)?;
    for page in 0..10 {
        let answer = team.send(&Ask::json("POST", &path, &body).once(&format!("{verb}{page}"))).await?.expect(200)?;
        if answer["next"].is_null() {
            return Ok(());
        }
        body = with(body, &json!({"cursor": answer["next"]}));
    }
    anyhow::bail!("there is no end of pages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_are_changed_again_under_one_key_are_all_changed_once() -> Result<()> {
    const COUNT: usize = 1_500;
    on_every_store(async |_, team| {
        team.queue("q", json!({"order": "total"})).await?;
        let lines = format!("{}\n", json!({"payload": 1, "at": at(60_000), "tags": ["t"]})).repeat(COUNT);
        team.push_lines("q", &lines).await?;
        in_pages(team, "shift", json!({"by": "1h"})).await?;
        let stats = team.get("/v1/queues/q/stats?minutes=63").await?.expect(200)?;
        ensure!(stats["scheduled"] == COUNT && stats["next_due"] == at(3_660_000), "{stats}");
        assert_eq!(team.list("q", &format!("from={}", at(3_660_001))).await?, Vec::<Value>::new(), "none is shifted twice");
        in_pages(team, "cancel", json!({})).await?;
        assert_eq!(team.list("q", "tag=t&limit=1000").await?.len(), 0, "none is passed over");
        Ok(())
    })
    .await
}
