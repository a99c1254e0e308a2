//! What becomes of every candidate of a pick, and until when: for people who ask why.

use std::collections::BTreeMap;

use anyhow::Result;
use hermod_core::Micros;
use serde_json::{Value, json};

use crate::http::site::{Caller, Site};
use crate::queue::{on_every_store, with};

const MESSAGES: &str = "/v1/decks/tips/messages";

async fn explained(team: &Caller, subject: &str) -> Result<Value> {
    let ask = json!({"subject": subject, "dry_run": true, "explain": true});
    team.post("/v1/decks/tips/picks", &ask).await?.expect(200)
}

/// `verdict until last-sent` of every message, in the minutes of the hours after midnight.
async fn verdicts(team: &Caller, subject: &str) -> Result<BTreeMap<String, String>> {
    let told = explained(team, subject).await?;
    let time = |value: &Value| value.as_str().map_or("-".to_owned(), |text| text[11..16].to_owned());
    let line = |one: &Value| format!("{} {} {}", one["verdict"].as_str().unwrap_or(""), time(&one["until"]), time(&one["last_sent_at"]));
    let items = told["candidates"].as_array().into_iter().flatten();
    Ok(items.map(|one| (one["id"].as_str().unwrap_or("").to_owned(), line(one))).collect())
}

fn lines(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(id, line)| ((*id).to_owned(), (*line).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_tells_every_verdict_until_when_and_when_it_was_sent_last() -> Result<()> {
    on_every_store(async |site, team| {
        let deck = json!({"strategy": "sequence", "subject_cap": null});
        team.put("/v1/decks/tips", &deck).await?.expect(201)?;
        let list = json!([
            {"id": "capped", "body": 1, "cap": {"tokens": 1, "per": "1h", "kind": "rolling"}},
            {"id": "free", "body": 2},
            {"id": "alarm", "body": 3, "critical": true},
            {"id": "off", "body": 4, "active": false},
            {"id": "later", "body": 5, "starts_at": "2017-07-14T03:00:00Z"},
            {"id": "over", "body": 6, "ends_at": "2017-07-14T02:40:00Z"},
            {"id": "vip", "body": 7, "to": {"tags": ["vip"]}},
            {"id": "level", "body": 8, "when": "attributes.level >= 3"},
            {"id": "ads", "body": 9, "tags": ["ads"]},
            {"id": "own", "body": 10, "to": {"subjects": ["ann"]}, "active": false},
        ]);
        team.post(MESSAGES, &list).await?.expect(201)?;
        let profile = json!({"attributes": {"level": 2}, "opt_out": ["ads"]});
        team.put("/v1/subjects/ann", &profile).await?.expect(200)?;
        let pick = async |expected: &str| -> Result<()> {
            let picked = team.post("/v1/decks/tips/picks", &json!({"subject": "ann"})).await?.expect(200)?;
            assert_eq!(picked["message"]["id"], expected);
            Ok(())
        };
        pick("capped").await?;
        site.clock.advance(Micros::saturating(60_000_000));
        pick("free").await?;
        let rest = [
            ("off", "inactive - -"),
            ("own", "inactive - -"),
            ("later", "not_started 03:00 -"),
            ("over", "ended - -"),
            ("vip", "not_addressed - -"),
            ("level", "when_is_false - -"),
            ("ads", "opted_out - -"),
        ];
        let all = |first: [(&str, &str); 3]| lines(&[&first[..], &rest[..]].concat());
        let expected = [("capped", "message_cap 03:40 02:40"), ("free", "allowed - 02:41"), ("alarm", "allowed - -")];
        assert_eq!(verdicts(team, "ann").await?, all(expected));
        // The message's own cap is told before that of the subject.
        team.put("/v1/decks/tips", &with(deck, &json!({"subject_cap": {"tokens": 1, "per": "10m"}}))).await?.expect(200)?;
        pick("alarm").await?;
        let expected = [("capped", "message_cap 03:40 02:40"), ("free", "subject_cap 02:51 02:41"), ("alarm", "subject_cap 02:51 02:41")];
        assert_eq!(verdicts(team, "ann").await?, all(expected));
        // What is critical passes quiet hours and mute.
        for (fields, hushed) in [
            (json!({"quiet": {"from": "02:30", "to": "04:00"}}), "quiet 04:00"),
            (json!({"quiet": {"from": "02:30", "to": "04:00"}, "mute_until": "2017-07-14T03:30:00Z"}), "muted 03:30"),
        ] {
            team.put("/v1/subjects/ann", &with(profile.clone(), &fields)).await?.expect(200)?;
            let (capped, free) = (format!("{hushed} 02:40"), format!("{hushed} 02:41"));
            let expected = [("capped", capped.as_str()), ("free", &free), ("alarm", "subject_cap 02:51 02:41")];
            assert_eq!(verdicts(team, "ann").await?, all(expected));
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_tells_of_what_names_the_subject_first_and_how_many_it_left_out() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
    let shared: Vec<Value> = (0..1_000).map(|n| json!({"id": format!("m{n}"), "body": n})).collect();
    team.post(MESSAGES, &json!(shared)).await?.expect(201)?;
    let told = explained(team, "ann").await?;
    assert_eq!((told["candidates"].as_array().map(Vec::len), told.get("left_out")), (Some(1_000), None));
    team.post(MESSAGES, &json!([{"id": "own", "body": 1, "to": {"subjects": ["ann"]}}, {"id": "last", "body": 2}])).await?.expect(201)?;
    let told = explained(team, "ann").await?;
    let (first, second) = (&told["candidates"][0]["id"], &told["candidates"][1]["id"]);
    assert_eq!((first, second, &told["left_out"]), (&json!("own"), &json!("m0"), &json!(2)));
    assert_eq!(told["candidates"].as_array().map(Vec::len), Some(1_000));
    assert_eq!(explained(team, "ben").await?["left_out"], 1);
    site.server.shutdown().await;
    Ok(())
}
