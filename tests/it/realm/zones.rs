//! Timers that turn with the day of their owner, wherever that is.

use anyhow::Result;
use hermod_core::Micros;
use serde_json::{Value, json};

use super::play::{done, refused};
use crate::http::site::{Caller, Site};
use crate::queue::on_every_store;

/// A day's wage where its owner is; and one that somebody claims for somebody else.
fn mill() -> Value {
    json!({
        "assets": {"flour": {}},
        "timers": {
            "day": {"at": "00:00", "tz": "owner", "streak": true},
            "plain": {"at": "00:00", "tz": "owner"},
            "ours": {"at": "00:00", "tz": "realm"},
            "there": {"at": "00:00", "tz": "Asia/Tokyo"},
        },
        "rules": [{"on": "ground", "play": "rest"}],
        "plays": {
            "grind": {"do": [{"claim": {"timer": "day"}}], "return": {"row": "streak(by, 'day')"}},
            "mill": {"do": [{"move": {"from": "@mint", "to": "by", "asset": "flour", "qty": 1, "event": "ground"}}]},
            "rest": {"internal": true, "do": [{"claim": {"timer": "plain"}}]},
            "wake": {"args": {"whom": "owner"}, "do": [{"claim": {"timer": "plain", "of": "whom"}}]},
            "ours": {"do": [{"claim": {"timer": "ours"}}]},
            "there": {"do": [{"claim": {"timer": "there"}}]},
        },
    })
}

fn set(site: &Site, time: &str) -> Result<()> {
    let since = humantime::parse_rfc3339(time)?.duration_since(std::time::UNIX_EPOCH)?;
    site.clock.set(Micros::saturating(since.as_secs() * 1_000_000));
    Ok(())
}

impl Caller {
    async fn at_the_mill(&self, play: &str, by: &str, key: &str) -> Result<Value> {
        self.post(&format!("/v1/realms/mill/plays/{play}"), &json!({"by": by, "key": key})).await?.expect(200)
    }

    async fn lives_in(&self, subject: &str, zone: &str) -> Result<()> {
        self.put(&format!("/v1/subjects/{subject}"), &json!({"timezone": zone})).await?.expect(200)?;
        Ok(())
    }

    /// When this timer can be claimed again.
    async fn again(&self, owner: &str, timer: &str) -> Result<Value> {
        Ok(self.get(&format!("/v1/realms/mill/accounts/{owner}")).await?.expect(200)?["timers"][timer]["until"].clone())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_begins_where_its_owner_is() -> Result<()> {
    on_every_store(async |site, team| {
        set(site, "2026-03-28T22:30:00Z")?;
        team.put("/v1/realms/mill", &mill()).await?.expect(201)?;
        for (subject, zone) in [("ann", "Asia/Tokyo"), ("bob", "America/New_York"), ("eve", "Europe/Berlin")] {
            team.lives_in(subject, zone).await?;
        }
        // In Tokyo it is the next morning, in New York early and in Berlin late in the evening; of dan nothing is known.
        for (owner, midnight) in [
            ("ann", "2026-03-29T15:00:00.000Z"),
            ("bob", "2026-03-29T04:00:00.000Z"),
            ("eve", "2026-03-28T23:00:00.000Z"),
            ("dan", "2026-03-29T00:00:00.000Z"),
        ] {
            let told = team.at_the_mill("grind", owner, &format!("{owner}1")).await?;
            assert_eq!(told["return"]["row"], 1, "{told}");
            let again = team.at_the_mill("grind", owner, &format!("{owner}2")).await?;
            refused(&again, "ttl")?;
            assert_eq!(again["retry_at"], midnight, "{owner}");
        }
        // The same request again is the same answer, and no second claim.
        assert_eq!(team.at_the_mill("grind", "ann", "ann1").await?["replayed"], true);
        set(site, "2026-03-28T22:59:59Z")?;
        refused(&team.at_the_mill("grind", "eve", "eve3").await?, "ttl")?;
        // Clocks go forward in Berlin: that day has 23 hours.
        set(site, "2026-03-28T23:00:00Z")?;
        assert_eq!(team.at_the_mill("grind", "eve", "eve4").await?["return"]["row"], 2);
        assert_eq!(team.again("eve", "day").await?, "2026-03-29T22:00:00.000Z");
        refused(&team.at_the_mill("grind", "bob", "bob3").await?, "ttl")?;
        // Who moves waits for what was claimed, and then for midnight there.
        team.lives_in("ann", "America/New_York").await?;
        set(site, "2026-03-29T14:59:59Z")?;
        refused(&team.at_the_mill("grind", "ann", "ann3").await?, "ttl")?;
        set(site, "2026-03-29T15:00:00Z")?;
        assert_eq!(team.at_the_mill("grind", "ann", "ann4").await?["return"]["row"], 2);
        assert_eq!(team.again("ann", "day").await?, "2026-03-30T04:00:00.000Z");
        // The 29th is over in New York, and bob claimed nothing then: his row begins anew.
        set(site, "2026-03-30T04:00:00Z")?;
        assert_eq!(team.at_the_mill("grind", "bob", "bob4").await?["return"]["row"], 1);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_claims_it_the_day_is_its_owners() -> Result<()> {
    on_every_store(async |site, team| {
        set(site, "2026-06-01T12:00:00Z")?;
        team.put("/v1/realms/mill", &mill()).await?.expect(201)?;
        team.lives_in("ann", "Asia/Tokyo").await?;
        team.lives_in("bob", "America/New_York").await?;
        let (tokyo, new_york) = ("2026-06-01T15:00:00.000Z", "2026-06-02T04:00:00.000Z");
        // For somebody else, dry and not.
        for dry in [true, false] {
            let wake = json!({"by": "ann", "key": "w", "args": {"whom": "bob"}, "dry_run": dry});
            done(&team.post("/v1/realms/mill/plays/wake", &wake).await?.expect(200)?)?;
            assert_eq!(team.again("bob", "plain").await?, if dry { Value::Null } else { json!(new_york) });
        }
        // By a rule, in the same commit.
        done(&team.at_the_mill("mill", "ann", "m").await?)?;
        assert_eq!(team.again("ann", "plain").await?, tokyo);
        // By a commit, for both at once.
        let timers = ["ann", "bob", "eve"].map(|owner| json!({"timer": "day", "of": owner}));
        for dry in [true, false] {
            let commit = json!({"key": "c", "timers": timers.clone(), "dry_run": dry});
            done(&team.post("/v1/realms/mill/commits", &commit).await?.expect(200)?)?;
        }
        let again = [team.again("ann", "day").await?, team.again("bob", "day").await?, team.again("eve", "day").await?];
        assert_eq!(again, [tokyo, new_york, "2026-06-02T00:00:00.000Z"].map(|time| json!(time)));
        // Other calendars ask nobody where they are.
        for (play, midnight) in [("ours", "2026-06-02T00:00:00.000Z"), ("there", tokyo)] {
            done(&team.at_the_mill(play, "bob", play).await?)?;
            assert_eq!(team.again("bob", play).await?, midnight);
        }
        let runs = team.post("/v1/realms/mill/simulate", &json!({"play": "grind", "by": "dan", "n": 3})).await?.expect(200)?;
        assert_eq!(runs["runs"], 3, "{runs}");
        let mut wrong = mill();
        wrong["timers"]["day"]["tz"] = json!("Nowhere/Here");
        let told = team.put("/v1/realms/mill", &wrong).await?;
        assert!(told.status == 400 && told.text().contains("must be owner, realm, or a time zone"), "{}", told.text());
        Ok(())
    })
    .await
}
