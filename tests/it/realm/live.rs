//! The events of a realm, followed as they happen.

use anyhow::{Context, Result};
use hermod_client::{Client, RealmEventStream, RealmEventsRequest, RealmFollowed, RealmStream};
use serde_json::{Value, json};

use super::play::{apply_ajo, done};
use crate::http::site::{Ask, Caller, SOON};
use crate::queue::on_every_store;

/// The id and the type of the next event, which must come.
async fn next(stream: &mut RealmEventStream) -> Result<(String, String)> {
    match tokio::time::timeout(SOON, stream.next()).await.context("nothing came")?? {
        Some(RealmFollowed::Event(event)) => Ok((event.id, event.kind)),
        other => anyhow::bail!("{other:?}"),
    }
}

/// The ids and types of all events, as pages tell them.
async fn all(team: &Caller, query: &str) -> Result<Vec<(String, String)>> {
    let page = team.get(&format!("/v1/realms/ajo/events?limit=200{query}")).await?.expect(200)?;
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    Ok(page["items"].as_array().context("items")?.iter().map(|event| (text(event, "id"), text(event, "type"))).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_a_realm_sees_each_event_once_and_in_order() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 100).await?;
        let client = Client::new(&site.server.url())?.with_key(team.key_text().context("a key")?);
        let realms = client.realms();
        let pay = async |key: &str| done(&team.play("pay", "111", key, json!({"to": "222", "amount": 1})).await?);
        let (mut whole, mut live) =
            (realms.follow("ajo", &RealmEventsRequest::default()).await?, realms.follow("ajo", &RealmEventsRequest::now()).await?);
        assert_eq!(next(&mut whole).await?, ("1-0".to_owned(), "commit".to_owned()));
        pay("p1").await?;
        for stream in [&mut whole, &mut live] {
            assert_eq!(next(stream).await?, ("2-0".to_owned(), "payer".to_owned()));
        }
        // It breaks off between the two events of one commit, and more happens meanwhile.
        let last = whole.last_id().context("where it was")?.to_owned();
        drop(whole);
        for number in 2..30 {
            pay(&format!("p{number}")).await?;
        }
        // What was played before, and what only sets something aside, changes nothing.
        pay("p2").await?;
        let leg = json!({"from": "222", "to": "111", "asset": "ajo", "qty": 1});
        done(&team.ask("holds", &json!({"key": "h", "legs": [leg], "in": "60s"})).await?)?;
        pay("p30").await?;
        let mut again = realms.resume("ajo", &RealmEventsRequest::default(), Some(&last)).await?;
        let all = all(team, "").await?;
        assert_eq!(all.len(), 61, "{all:?}");
        for expected in &all[2..] {
            assert_eq!((&next(&mut again).await?, &next(&mut live).await?), (expected, expected));
        }
        // A page goes on after an event, too; and one stream has changes of items only.
        assert_eq!(self::all(team, "&after=2-0").await?, all[2..]);
        assert_eq!(self::all(team, "&after=now").await?, []);
        let mut items = realms.follow("ajo", &RealmEventsRequest::default().stream(RealmStream::Inventory)).await?;
        team.mint("111", "herb", 3).await?;
        let herbs = next(&mut items).await?;
        assert_eq!((herbs.1.as_str(), &next(&mut live).await?), ("commit", &herbs));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_there_cannot_be_is_named() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        for (query, field) in
            [("after=x", "after"), ("after=1-", "after"), ("after=-1", "after"), ("limit=0", "limit"), ("stream=x", "stream")]
        {
            team.get(&format!("/v1/realms/ajo/events?{query}")).await?.problem(400, "invalid_field", Some(field))?;
        }
        let ask = |path: &str| Ask::new("GET", path, "").header("accept", "text/event-stream").header("last-event-id", "x");
        team.send(&ask("/v1/realms/ajo/events")).await?.problem(400, "invalid_field", Some("Last-Event-ID"))?;
        let nowhere = Ask::new("GET", "/v1/realms/nope/events", "").header("accept", "text/event-stream");
        team.send(&nowhere).await?.problem(404, "realm_not_found", None)?;
        Ok(())
    })
    .await
}
