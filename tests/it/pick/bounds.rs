//! Caps, quiet hours and schedules over HTTP, on every store: what they bound, and from when to when.

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use hermod_tests::lane::START;
use serde_json::{Value, json};

use crate::http::site::{Caller, Site};
use crate::queue::{on_every_store, with};

const SECOND_MS: u64 = 1_000;

async fn deck(team: &Caller, fields: Value, messages: Value) -> Result<()> {
    let reply = team.put("/v1/decks/tips", &with(json!({"subject_cap": null, "strategy": "sequence"}), &fields)).await?;
    ensure!(matches!(reply.status, 200 | 201), "{}", reply.text());
    for message in messages.as_array().into_iter().flatten() {
        let reply = team.put(&format!("/v1/decks/tips/messages/{}", message["id"].as_str().context("an id")?), message).await?;
        ensure!(matches!(reply.status, 200 | 201), "{}", reply.text());
    }
    Ok(())
}

/// The id of the message that a subject gets, or `reason retry_at`, without the date and the seconds of this day.
async fn told(team: &Caller, subject: &str) -> Result<String> {
    let told = team.post("/v1/decks/tips/picks", &json!({"subject": subject})).await?.expect(200)?;
    if let Some(id) = told["message"]["id"].as_str() {
        return Ok(id.to_owned());
    }
    let retry_at = told["retry_at"].as_str().unwrap_or("never");
    Ok(format!("{} {}", told["reason"].as_str().context("a reason")?, retry_at.trim_start_matches("2017-07-").trim_end_matches(":00.000Z")))
}

/// The clock one tick before so many milliseconds after the start.
fn before(site: &Site, ms: u64) {
    site.clock.set(Micros::saturating(START.get() + ms * 1_000 - 1));
}

/// So many milliseconds from the start, which is at 02:40, to a time of that day; in UTC.
fn at(hour: u64, minute: u64) -> u64 {
    (hour * 60 + minute - 160) * 60 * SECOND_MS
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_without_cap_is_fine() -> Result<()> {
    on_every_store(async |_, team| {
        let hourly = json!({"tokens": 1, "per": "1h"});
        let list = json!([{"id": "absent", "body": 1}, {"id": "null", "body": 2, "cap": null}, {"id": "capped", "body": 3, "cap": hourly}]);
        deck(team, json!({}), list).await?;
        let mut got = Vec::new();
        for _ in 0..41 {
            got.push(told(team, "ann").await?);
        }
        // Again and again in the same moment, while the one with a cap came once.
        let count = |id: &str| got.iter().filter(|got| *got == id).count();
        assert_eq!((count("absent"), count("null"), count("capped")), (20, 20, 1), "{got:?}");
        // Alone it is never refused; one whose cap is taken away is as one that never had one.
        deck(team, json!({}), json!([{"id": "absent", "body": 1, "active": false}, {"id": "null", "body": 2, "active": false}])).await?;
        assert_eq!(told(team, "ann").await?, "message_cap 14T03:40");
        deck(team, json!({}), json!([{"id": "capped", "body": 3}])).await?;
        for _ in 0..3 {
            assert_eq!(told(team, "ann").await?, "capped");
        }
        assert_eq!(team.get("/v1/decks/tips/messages/capped").await?.expect(200)?["cap"], Value::Null);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_calendar_cap_turns_at_midnight_of_the_subjects_own_time_zone() -> Result<()> {
    on_every_store(async |site, team| {
        let daily = json!({"tokens": 1, "per": "day", "kind": "calendar"});
        // It is 14:40 in Auckland, 22:40 of the day before in New York, and 04:40 in Berlin, where the deck is.
        for (subject, zone) in [("ann", "Pacific/Auckland"), ("ben", "America/New_York")] {
            team.put(&format!("/v1/subjects/{subject}"), &json!({"timezone": zone})).await?.expect(200)?;
        }
        let berlin = json!({"timezone": "Europe/Berlin"});
        let of_subject = (with(berlin.clone(), &json!({"subject_cap": daily})), json!([{"id": "m", "body": 1}]), "subject_cap");
        let of_message = (berlin, json!([{"id": "m", "body": 1, "cap": daily}]), "message_cap");
        for (fields, messages, reason) in [of_subject, of_message] {
            team.delete("/v1/decks/tips").await?;
            deck(team, fields, messages).await?;
            site.at_ms(0);
            let all = [("ann", "14T12:00"), ("ben", "14T04:00"), ("cem", "14T22:00")];
            for (subject, midnight) in all {
                assert_eq!(told(team, subject).await?, "m");
                assert_eq!(told(team, subject).await?, format!("{reason} {midnight}"), "{subject}");
            }
            // Each at its own midnight, and nobody else.
            for (hour, turned, next) in [(4, "ben", "15T04:00"), (12, "ann", "15T12:00"), (22, "cem", "15T22:00")] {
                before(site, at(hour, 0));
                let midnight = format!("{reason} 14T{hour:02}:00");
                assert_eq!(told(team, turned).await?, midnight, "one tick earlier");
                site.at_ms(at(hour, 0));
                assert_eq!(told(team, turned).await?, "m");
                assert_eq!(told(team, turned).await?, format!("{reason} {next}"));
                for (other, _) in all.iter().filter(|(other, _)| *other != turned) {
                    ensure!(told(team, other).await?.starts_with(reason), "{other} at the midnight of {turned}");
                }
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn critical_passes_quiet_hours_and_mute_but_not_the_cap_of_the_subject() -> Result<()> {
    on_every_store(async |site, team| {
        let alarms = (1..=5).map(|n| json!({"id": format!("alarm{n}"), "body": n, "critical": true}));
        let messages: Value = [json!({"id": "plain", "body": 0})].into_iter().chain(alarms).collect();
        for (subject, reason) in [("ann", "quiet"), ("ben", "muted")] {
            team.delete("/v1/decks/tips").await?;
            let mut fields = json!({"subject_cap": {"tokens": 2, "per": "1h", "kind": "rolling"}});
            match reason {
                "quiet" => fields["quiet_hours"] = json!({"from": "02:00", "to": "05:00"}),
                _ => drop(team.put("/v1/subjects/ben", &json!({"mute_until": "2017-07-14T05:00:00Z"})).await?.expect(200)?),
            }
            deck(team, fields, messages.clone()).await?;
            site.at_ms(0);
            assert_eq!(told(team, subject).await?, "alarm1");
            assert_eq!(told(team, subject).await?, "alarm2");
            // They counted: the third has to wait as any other, for the cap and not for the end of the silence.
            assert_eq!(told(team, subject).await?, format!("{reason} 14T03:40"));
            before(site, at(3, 40));
            assert_eq!(told(team, subject).await?, format!("{reason} 14T03:40"), "one tick earlier");
            site.at_ms(at(4, 30));
            assert_eq!(told(team, subject).await?, "alarm3");
            // What was sent in silence counts when it is over.
            site.at_ms(at(5, 0));
            assert_eq!(told(team, subject).await?, "plain");
            assert_eq!(told(team, subject).await?, "subject_cap 14T05:30");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_begins_and_ends_on_time_whatever_is_remembered() -> Result<()> {
    on_every_store(async |site, team| {
        let list = json!([
            {"id": "first", "body": 1, "starts_at": "2017-07-14T03:00:00Z", "cap": {"tokens": 1, "per": "1day", "kind": "rolling"}},
            {"id": "second", "body": 2, "starts_at": "2017-07-14T04:00:00Z", "ends_at": "2017-07-14T05:00:00Z"},
        ]);
        deck(team, json!({}), list).await?;
        // The same refusal again and again, until the moment that it named.
        for _ in 0..3 {
            assert_eq!(told(team, "ann").await?, "no_messages 14T03:00");
        }
        before(site, at(3, 0));
        assert_eq!(told(team, "ann").await?, "no_messages 14T03:00");
        site.at_ms(at(3, 0));
        assert_eq!(told(team, "ann").await?, "first");
        for _ in 0..3 {
            assert_eq!(told(team, "ann").await?, "message_cap 14T04:00");
        }
        before(site, at(4, 0));
        assert_eq!(told(team, "ann").await?, "message_cap 14T04:00");
        // What is known of the subject is from before it began; then from before it ended.
        site.at_ms(at(4, 0));
        assert_eq!(told(team, "ann").await?, "second");
        before(site, at(5, 0));
        assert_eq!(told(team, "ann").await?, "second");
        site.at_ms(at(5, 0));
        for _ in 0..3 {
            assert_eq!(told(team, "ann").await?, "message_cap 15T03:00");
        }
        // A clock that steps back: it has not ended, nor has it begun.
        before(site, at(5, 0));
        assert_eq!(told(team, "ann").await?, "second");
        before(site, at(4, 0));
        assert_eq!(told(team, "ann").await?, "message_cap 14T04:00");
        // Where the first ends before its cap is over, nothing is to be waited for, and then there is nothing.
        deck(
            team,
            json!({}),
            json!([{"id": "first", "body": 1, "ends_at": "2017-07-14T06:00:00Z",
            "cap": {"tokens": 1, "per": "1day", "kind": "rolling"}}]),
        )
        .await?;
        site.at_ms(at(5, 0));
        for _ in 0..2 {
            assert_eq!(told(team, "ann").await?, "message_cap never");
        }
        site.at_ms(at(6, 0));
        assert_eq!(told(team, "ann").await?, "no_messages never");
        Ok(())
    })
    .await
}
