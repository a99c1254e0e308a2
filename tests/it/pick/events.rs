//! Events over HTTP, on every store: every change leaves one, and whoever reads them misses none.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use hermod_client::{Client, EventStream, EventType, EventsRequest, Followed};
use hermod_core::event::{KEEP, ReadEvents, TRIM};
use hermod_core::pick::{Candidate, Plan, Take, Taken};
use hermod_core::{DeckId, MessageId, Micros, Outcome, Partitions, SpaceId, Subject};
use hermod_engine::Engine;
use hermod_engine::embedded::{Embedded, Options};
use hermod_server::{Config, Mode, Server};
use hermod_tests::{EngineLane, Store, unique};
use serde_json::{Value, json};

use crate::http::site::{Ask, Caller, SOON, Site, config};
use crate::queue::{on_every_store, shared};

const SECOND: u64 = 1_000_000;
/// So long nothing more must come: a few turns of the server's.
const SILENCE: Duration = Duration::from_millis(700);

/// A deck of three messages that come in their order.
async fn deck(team: &Caller, cap: Value) -> Result<()> {
    team.put("/v1/decks/tips", &json!({"strategy": "sequence", "subject_cap": cap})).await?.expect(201)?;
    let messages: Value = (0..3).map(|n| json!({"id": format!("m{n}"), "body": n})).collect();
    team.post("/v1/decks/tips/messages", &messages).await?.expect(201).map(drop)
}

async fn pick(team: &Caller, fields: Value) -> Result<Value> {
    team.post("/v1/decks/tips/picks", &fields).await?.expect(200)
}

async fn settle(team: &Caller, pick: &Value, verb: &str) -> Result<Value> {
    let path = format!("/v1/picks/{}/{verb}", pick["pick"].as_str().context("a pick")?);
    team.post(&path, &json!({})).await?.expect(200)
}

async fn read(team: &Caller, query: &str) -> Result<Value> {
    team.get(&format!("/v1/events?{query}")).await?.expect(200)
}

fn items(page: &Value) -> Vec<Value> {
    page["items"].as_array().cloned().unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("")
}

/// `type message`, in order.
fn told(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| format!("{} {}", text(event, "type"), text(event, "message"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_leaves_one_event_and_a_refusal_or_a_replay_none() -> Result<()> {
    on_every_store(async |site, team| {
        deck(team, json!({"tokens": 1, "per": "10m"})).await?;
        let reserve = json!({"subject": "ann", "mode": "reserve", "ttl": "30s"});
        let keyed = Ask::json("POST", "/v1/decks/tips/picks", &reserve).once("k1");
        let first = team.send(&keyed).await?.expect(200)?;
        ensure!(team.send(&keyed).await?.expect(200)?["replayed"] == true);
        ensure!(pick(team, reserve.clone()).await?["reason"] == "subject_cap");
        pick(team, json!({"subject": "ben", "dry_run": true})).await?;
        assert_eq!(told(&items(&read(team, "").await?)), ["message.picked m0"]);
        settle(team, &first, "nack").await?;
        settle(team, &first, "ack").await?;
        // It is given back by the pick that finds it expired; a refusal gives nothing back.
        let lost = pick(team, reserve.clone()).await?;
        site.clock.advance(Micros::saturating(30 * SECOND));
        let last = pick(team, reserve.clone()).await?;
        settle(team, &lost, "ack").await?;
        settle(team, &last, "ack").await?;
        // Or by whoever settles it too late.
        site.clock.advance(Micros::saturating(SECOND));
        let late = pick(team, json!({"subject": "ben", "mode": "reserve", "ttl": "1s"})).await?;
        site.clock.advance(Micros::saturating(SECOND));
        ensure!(settle(team, &late, "ack").await?["outcome"] == "expired");
        let page = read(team, "").await?;
        let events = items(&page);
        let ann = ["message.picked m0", "message.nacked m0", "message.picked m0", "message.expired m0", "message.picked m0", "message.acked m0"];
        let ben = ["message.picked m0", "message.expired m0"];
        assert_eq!(told(&events), [&ann[..], &ben[..]].concat());
        assert_eq!((&page["gap"], &page["more"]), (&json!(false), &json!(false)));
        let expected = json!({"id": events[0]["id"], "type": "message.picked", "time": "2017-07-14T02:40:00.000Z", "subject": "ann", "deck": "tips",
            "message": "m0", "pick": first["pick"]});
        assert_eq!(events[0], expected);
        assert_eq!((&events[3]["pick"], &events[4]["pick"], &events[7]["pick"]), (&lost["pick"], &last["pick"], &late["pick"]));
        // What is deleted has no name any more.
        team.delete("/v1/decks/tips/messages/m0").await?.expect(204)?;
        assert_eq!(items(&read(team, "limit=1").await?)[0]["message"], Value::Null);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_goes_on_exactly_where_it_was() -> Result<()> {
    on_every_store(async |site, team| {
        deck(team, Value::Null).await?;
        let start = read(team, "after=now").await?;
        ensure!(items(&start).is_empty() && start["gap"] == false, "{start}");
        for n in 0..60 {
            pick(team, json!({"subject": format!("s{}", n % 23)})).await?;
            // A clock that steps back loses nothing.
            site.at_ms(if n % 10 == 9 { n * 50 } else { n * 100 });
        }
        let all = read(team, "limit=1000").await?;
        let events = items(&all);
        assert_eq!(events.len(), 60);
        assert_eq!(events, items(&read(team, &format!("limit=1000&after={}", text(&start, "next"))).await?));
        // What the clock did not touch is in the order it happened.
        let times: Vec<&str> = events.iter().map(|event| text(event, "time")).collect();
        ensure!(times.windows(2).filter(|pair| pair[0] > pair[1]).count() <= 6, "{times:?}");
        for (at, event) in events.iter().enumerate() {
            let page = read(team, &format!("limit=1000&after={}", text(event, "id"))).await?;
            assert_eq!(told(&items(&page)), told(&events[at + 1..]), "after {at}");
            ensure!(page["gap"] == false, "{page}");
            assert_eq!(page["next"], all["next"]);
        }
        for limit in [1, 7, 59, 60] {
            let (mut joined, mut after) = (Vec::new(), String::new());
            loop {
                let page = read(team, &format!("limit={limit}{after}")).await?;
                let found = items(&page);
                ensure!(found.len() <= limit && page["gap"] == false, "{page}");
                joined.extend(found);
                after = format!("&after={}", text(&page, "next"));
                if page["more"] == false {
                    break;
                }
            }
            assert_eq!(joined, events, "in pages of {limit}");
            // Nothing more, until something happens.
            assert!(items(&read(team, &after[1..]).await?).is_empty());
        }
        let one = items(&read(team, "subject=s3").await?);
        assert_eq!(one.len(), 3);
        assert!(one.iter().all(|event| event["subject"] == "s3"));
        assert_eq!(items(&read(team, "type=message.picked&subject=s3&limit=2").await?).len(), 2);
        assert!(items(&read(team, "type=message.acked").await?).is_empty());
        pick(team, json!({"subject": "s3"})).await?;
        assert_eq!(told(&items(&read(team, &format!("after={}", text(&all, "next"))).await?)).len(), 1);
        // One space never sees another's, whatever cursor it has.
        let other = site.admin.space(&unique("other")).await?;
        assert!(items(&read(&other, "").await?).is_empty());
        assert!(items(&read(&other, &format!("after={}", text(&all, "next"))).await?).is_empty());
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_named() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    let next = text(&read(team, "").await?, "next").to_owned();
    let (cut, longer) = (next[1..].to_owned(), format!("{next}AA"));
    for (query, code, field) in [
        ("after=x", "invalid_field", "after"),
        ("after=", "invalid_field", "after"),
        (&format!("after={cut}"), "invalid_field", "after"),
        (&format!("after={longer}"), "invalid_field", "after"),
        ("type=message.eaten", "invalid_field", "type"),
        ("subject=", "invalid_field", "subject"),
        ("limit=0", "invalid_field", "limit"),
        ("limit=1001", "invalid_field", "limit"),
        ("limit=x", "invalid_field", "limit"),
        ("before=1", "unknown_field", "before"),
    ] {
        team.get(&format!("/v1/events?{query}")).await?.problem(400, code, Some(field)).with_context(|| query.to_owned())?;
    }
    let ask = Ask::new("GET", "/v1/events", "").header("accept", "text/event-stream").header("last-event-id", "x");
    team.send(&ask).await?.problem(400, "invalid_field", Some("Last-Event-ID"))?;
    site.server.shutdown().await;
    Ok(())
}

/// The next event, which must come.
async fn next(stream: &mut EventStream) -> Result<(String, EventType)> {
    match tokio::time::timeout(SOON, stream.next()).await.context("nothing came")?? {
        Some(Followed::Event(event)) => Ok((event.subject, event.kind)),
        other => anyhow::bail!("{other:?}"),
    }
}

async fn is_silent(stream: &mut EventStream) -> bool {
    tokio::time::timeout(SILENCE, stream.next()).await.is_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_followed_live_and_a_stream_goes_on_where_it_broke_off() -> Result<()> {
    on_every_store(async |site, team| {
        deck(team, Value::Null).await?;
        pick(team, json!({"subject": "before"})).await?;
        let client = Client::new(&site.server.url())?.with_key(team.key_text().context("a key")?);
        let now = EventsRequest::new().after("now");
        let mut live = client.events().follow(&now).await?;
        let mut acked = client.events().follow(&now.clone().kind(EventType::MessageAcked)).await?;
        let mut all = client.events().follow(&EventsRequest::new()).await?;
        assert_eq!(next(&mut all).await?, ("before".to_owned(), EventType::MessagePicked));
        let reserved = pick(team, json!({"subject": "ann", "mode": "reserve"})).await?;
        for stream in [&mut live, &mut all] {
            assert_eq!(next(stream).await?, ("ann".to_owned(), EventType::MessagePicked));
        }
        settle(team, &reserved, "ack").await?;
        for stream in [&mut live, &mut all, &mut acked] {
            assert_eq!(next(stream).await?, ("ann".to_owned(), EventType::MessageAcked));
        }
        let last = live.last_id().context("an id")?.to_owned();
        drop(live);
        for subject in ["ben", "cem"] {
            pick(team, json!({"subject": subject})).await?;
            site.clock.advance(Micros::saturating(SECOND));
        }
        // It says `now` as before, but where it broke off wins.
        let mut again = client.events().resume(&now, Some(&last)).await?;
        for subject in ["ben", "cem"] {
            assert_eq!(next(&mut again).await?.0, subject);
        }
        assert!(is_silent(&mut again).await && is_silent(&mut acked).await);
        // One that was told nothing yet goes on from where it began.
        let mut idle = client.events().follow(&now.clone().subject("dan")).await?;
        assert!(is_silent(&mut idle).await);
        let began = idle.last_id().context("an id")?.to_owned();
        drop(idle);
        pick(team, json!({"subject": "dan"})).await?;
        assert_eq!(next(&mut client.events().resume(&now, Some(&began)).await?).await?.0, "dan");
        // A page and a stream have the same ids.
        assert_eq!(items(&read(team, &format!("after={last}")).await?).len(), 3);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_with_the_server() -> Result<()> {
    let site = Site::start().await?;
    let client = Client::new(&site.server.url())?.with_key(site.admin.key_text().context("a key")?);
    let mut stream = client.events().follow(&EventsRequest::new()).await?;
    let stopped = tokio::time::timeout(SOON, async { tokio::join!(site.server.shutdown(), stream.next()) }).await;
    ensure!(!matches!(stopped.context("the server does not end")?.1, Ok(Some(_))));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_with_its_key() -> Result<()> {
    let site = Site::start().await?;
    deck(&site.admin, Value::Null).await?;
    let (id, reader) = site.admin.key("default", &["events:read"]).await?;
    let client = Client::new(&site.server.url())?.with_key(reader.key_text().context("a key")?);
    let mut stream = client.events().follow(&EventsRequest::new()).await?;
    pick(&site.admin, json!({"subject": "ann"})).await?;
    assert_eq!(next(&mut stream).await?.0, "ann");
    site.admin.delete(&format!("/v1/keys/{id}")).await?.expect(204)?;
    pick(&site.admin, json!({"subject": "ben"})).await?;
    let told = tokio::time::timeout(Duration::from_secs(2), stream.next()).await.context("it goes on")?;
    ensure!(!matches!(told, Ok(Some(_))), "{told:?}");
    site.server.shutdown().await;
    Ok(())
}

/// So many picks of a subject, past the planner: then as many are there as are kept.
async fn flood(engine: &Engine, space: &SpaceId, subject: &str, many: usize) -> Result<()> {
    let (deck, name) = (DeckId::new("flood")?, Subject::new(subject)?);
    let place = engine.partitions().place(space, subject);
    let numbers: Vec<u64> = (1..=u64::try_from(many)?).collect();
    for some in numbers.chunks(250) {
        let takes = some.iter().map(|number| async {
            let candidate = Candidate { ordinal: u32::try_from(*number)?, id: MessageId::new("m")?, seq: 0, meter: 0 };
            let plan = Plan { number: *number, until: Micros::MAX, candidates: vec![candidate], ..Plan::default() };
            // A history that grows so long would take its time.
            let epoch = u64::try_from(many)? * 1_000 + *number / 50;
            let take = Take::plan(place.clone(), name.clone(), deck.clone(), epoch, plan.into());
            let taken = engine.run(&take, None).await?.outcome;
            ensure!(matches!(taken, Outcome::Done(Taken::Picked(_))), "{taken:?}");
            Ok(())
        });
        try_join_all(takes).await?;
    }
    let read = engine.run(&ReadEvents::new(place, 0, 1), None).await?.outcome;
    let Outcome::Done(recorded) = read else { anyhow::bail!("{read:?}") };
    let (kept, least) = (recorded.last - recorded.first + 1, u64::try_from(KEEP)?);
    ensure!((least..least + TRIM).contains(&kept), "{} to {}", recorded.first, recorded.last);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trimmed_log_says_that_there_is_a_gap_and_a_restart_keeps_the_rest() -> Result<()> {
    for store in Store::ALL {
        println!("on {store:?}");
        let (url, space) = (shared(store)?, unique("trimmed"));
        let site = Site::start_with(|config| Config { store: url.clone(), ..config }).await?;
        let mut team = site.admin.space(&space).await?;
        deck(&team, Value::Null).await?;
        pick(&team, json!({"subject": "ann"})).await?;
        let first = text(&read(&team, "").await?, "next").to_owned();
        pick(&team, json!({"subject": "ann"})).await?;
        let (space, many) = (SpaceId::new(&space)?, KEEP - 2);
        let home = |subject: &str| Partitions::DEFAULT.place(&space, subject).partition;
        let elsewhere = (0..100).map(|n| format!("ben-{n}")).find(|name| home(name) != home("ann")).context("a name")?;
        let kept = pick(&team, json!({"subject": elsewhere})).await?;
        let mut server = site.server;
        // So many that none is lost, then so many that the first ones are.
        for (flooded, is_gap) in [(many, false), (KEEP, true)] {
            if store == Store::Embedded {
                server.shutdown().await;
                let engine = Engine::Embedded(Embedded::open(Options::new(site.folder.path().join("data")))?);
                flood(&engine, &space, "ann", flooded).await?;
                engine.close().await?;
                drop(engine);
                server = Server::start(config(&site.folder), Mode::default()).await?;
                team = team.at(&server.url());
            } else {
                let lane = EngineLane::open_in(store, space.clone()).await?;
                flood(lane.engine(), &space, "ann", flooded).await?;
            }
            let page = read(&team, &format!("limit=3&after={first}")).await?;
            assert_eq!(page["gap"], is_gap, "{flooded}: {page}");
            let after = read(&team, &format!("limit=3&after={}", text(&page, "next"))).await?;
            assert_eq!(after["gap"], false, "it is told once");
            assert_eq!(read(&team, "limit=1").await?["gap"], false, "from the oldest that is kept");
            // Those of others are as they were.
            assert_eq!(items(&read(&team, &format!("subject={elsewhere}")).await?)[0]["pick"], kept["pick"]);
        }
        let client = Client::new(&server.url())?.with_key(team.key_text().context("a key")?);
        let mut stream = client.events().follow(&EventsRequest::new().after(first)).await?;
        assert_eq!(tokio::time::timeout(SOON, stream.next()).await??, Some(Followed::Gap));
        next(&mut stream).await?;
        drop(stream);
        server.shutdown().await;
    }
    Ok(())
}
