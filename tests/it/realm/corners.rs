//! Parts of a definition and of commits at their bounds, on every store.

use anyhow::{Context, Result};
use hermod_core::Micros;
use hermod_tests::lane::START;
use serde_json::{Value, json};

use super::play::{done, refused};
use crate::http::site::{Caller, Site};
use crate::queue::on_every_store;

const MINE: &str = "/v1/realms/mine";

/// A mine: everything that is dug is a gem, nobody can carry much, and a lamp shines for all.
fn mine() -> Value {
    let carry = |overflow: &str| json!({"args": {"to": "owner"}, "do": [{"move": {"from": "by", "to": "to", "asset": "ore", "qty": 4, "overflow": overflow}}]});
    json!({
        "assets": {"coin": {"kind": "currency"}, "gem": {"max": 2}, "ore": {"max": 5}},
        "timers": {"shift": {"at": "06:00", "streak": true, "grace": "2h"}, "rest": {"every": "1h"}},
        "effects": {"light": {"default": 1}},
        "boxes": {"pit": {"default": 3}},
        "tables": {"seam": {"of": 10, "full": "lose", "drops": {"gem": 10}}},
        "plays": {
            "dig": {"do": [{"draw": {"table": "seam", "as": "got"}}], "return": {"got": "got"}},
            "pry": {"do": [{"draw": {"table": "seam", "full": "stuffed"}}]},
            "clamp": carry("clamp"), "burn": carry("burn"),
            "shift": {"do": [{"claim": {"timer": "shift"}}], "return": {"row": "streak(by, 'shift')"}},
            "rest": {"do": [{"claim": {"timer": "rest", "else": "tired"}}]},
            "shine": {"do": [{"effect": {"name": "light", "of": "realm", "value": 5, "for": 600}}]},
            "look": {"do": [], "return": {"all": "effect(realm, 'light')", "own": "effect(by, 'light')"}},
            "bury": {"do": [{"box": {"name": "pit", "of": "by", "set": 7}}]},
            "dredge": {"do": [], "return": {"pit": "box(by, 'pit')"}},
        },
    })
}

fn advance(site: &Site, seconds: u64) {
    site.clock.advance(Micros::saturating(seconds * 1_000_000));
}

/// A time so many seconds after the clock that is set by hand began.
fn at(seconds: u64) -> String {
    let since = START.plus(Micros::saturating(seconds * 1_000_000)).to_duration();
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}

impl Caller {
    async fn in_mine(&self, play: &str, by: &str, key: &str, args: Value) -> Result<Value> {
        self.post(&format!("{MINE}/plays/{play}"), &json!({"by": by, "key": key, "args": args})).await?.expect(200)
    }

    async fn to_mine(&self, path: &str, body: Value) -> Result<Value> {
        self.post(&format!("{MINE}/{path}"), &body).await?.expect(200)
    }

    async fn minted(&self, key: &str, owner: &str, asset: &str, qty: u64) -> Result<()> {
        let leg = json!({"from": "@mint", "to": owner, "asset": asset, "qty": qty});
        done(&self.to_mine("commits", json!({"key": key, "legs": [leg]})).await?)
    }

    async fn miner(&self, owner: &str) -> Result<Value> {
        self.get(&format!("{MINE}/accounts/{owner}")).await?.expect(200)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_there_is_no_room_for_is_lost_refused_left_or_burnt() -> Result<()> {
    on_every_store(async |_, team| {
        team.put(MINE, &mine()).await?.expect(201)?;
        for (key, got) in [("d1", "gem"), ("d2", "gem"), ("d3", "")] {
            let told = team.in_mine("dig", "ann", key, json!({})).await?;
            done(&told)?;
            assert_eq!((&told["return"]["got"], told["draws"]["dig.seam"].is_i64()), (&json!(got), true), "{told}");
        }
        assert_eq!(team.miner("ann").await?["assets"]["gem"]["balance"], 2);
        let stuffed = team.in_mine("pry", "ann", "p1", json!({})).await?;
        refused(&stuffed, "stuffed")?;
        assert_eq!(stuffed["with"], json!({"asset": "gem", "room": 0}));
        done(&team.in_mine("pry", "bob", "p2", json!({})).await?)?;

        for (key, owner, qty) in [("m1", "ann", 5), ("m2", "bob", 3), ("m3", "eve", 3)] {
            team.minted(key, owner, "ore", qty).await?;
        }
        let told = team.in_mine("clamp", "ann", "c", json!({"to": "bob"})).await?;
        assert_eq!(told["balances"], json!({"ann": {"ore": 3}, "bob": {"ore": 5}}));
        team.minted("m4", "ann", "ore", 2).await?;
        let told = team.in_mine("burn", "ann", "b", json!({"to": "eve"})).await?;
        assert_eq!(told["balances"], json!({"ann": {"ore": 1}, "eve": {"ore": 5}}));
        let supply = team.get(&format!("{MINE}/supply")).await?.expect(200)?;
        let ore = supply["items"].as_array().into_iter().flatten().find(|one| one["asset"] == "ore").context("ore")?;
        assert_eq!((&ore["minted"], &ore["sinks"]), (&json!(13), &json!({"burn": 2})));
        assert_eq!(team.get(&format!("{MINE}/audit")).await?.expect(200)?["clean"], true);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_calendar_keeps_a_row_for_as_long_as_its_grace_says() -> Result<()> {
    on_every_store(async |site, team| {
        team.put(MINE, &mine()).await?.expect(201)?;
        let row = async |key: &str| anyhow::Ok(team.in_mine("shift", "ann", key, json!({})).await?["return"]["row"].clone());
        // It is 02:40, in the shift that began at six the day before.
        assert_eq!(row("s1").await?, 1);
        advance(site, 5 * 3_600 + 20 * 60 - 1);
        assert_eq!(row("s2").await?, 2, "it is 07:59:59");
        advance(site, 86_400 + 1);
        assert_eq!(row("s3").await?, 1, "it is 08:00 of the next day");
        // Why it cannot be claimed is for the play to say.
        done(&team.in_mine("rest", "ann", "r1", json!({})).await?)?;
        advance(site, 600);
        let tired = team.in_mine("rest", "ann", "r2", json!({})).await?;
        refused(&tired, "tired")?;
        assert_eq!(tired["retry_at"], at(5 * 3_600 + 20 * 60 + 86_400 + 3_600));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_are_set_by_commits_and_for_everybody() -> Result<()> {
    on_every_store(async |site, team| {
        team.put(MINE, &mine()).await?.expect(201)?;
        for (key, merge, value, span, then) in [
            ("e1", "replace", 5, 600, (5, 600)),
            ("e2", "add", 2, 60, (7, 600)),
            ("e3", "max", 3, 900, (7, 900)),
            ("e4", "extend", 4, 60, (4, 960)),
            ("e5", "replace", 2, 30, (2, 30)),
        ] {
            let effect = json!({"name": "light", "of": "ann", "value": value, "for": format!("{span}s"), "merge": merge});
            done(&team.to_mine("commits", json!({"key": key, "effects": [effect]})).await?)?;
            let is = team.miner("ann").await?["effects"]["light"].clone();
            assert_eq!(is, json!({"value": then.0, "until": at(then.1)}), "{merge}");
        }
        // A commit whose condition does not hold sets nothing.
        let lamp = json!({"name": "light", "of": "@house", "value": 9, "for": "60s"});
        let dark = json!({"key": "e6", "if": [{"if": "effect('ann', 'light') > 2", "else": "dark"}], "effects": [lamp]});
        refused(&team.to_mine("commits", dark).await?, "dark")?;
        let light = async |key: &str, by: &str| anyhow::Ok(team.in_mine("look", by, key, json!({})).await?["return"].clone());
        assert_eq!(light("l1", "ann").await?, json!({"all": 1, "own": 2}));
        done(&team.in_mine("shine", "ann", "s", json!({})).await?)?;
        assert_eq!(light("l2", "bob").await?, json!({"all": 5, "own": 1}));
        advance(site, 600 - 1);
        assert_eq!(light("l3", "bob").await?, json!({"all": 5, "own": 1}));
        advance(site, 1);
        assert_eq!(light("l4", "ann").await?, json!({"all": 1, "own": 1}));
        done(&team.to_mine("commits", json!({"key": "e7", "effects": [lamp]})).await?)?;
        assert_eq!(light("l5", "bob").await?, json!({"all": 9, "own": 1}));

        // What is in a box is for plays to know.
        let before = team.miner("eve").await?;
        done(&team.in_mine("bury", "eve", "b", json!({})).await?)?;
        assert_eq!(team.in_mine("dredge", "eve", "d", json!({})).await?["return"]["pit"], 7);
        assert_eq!(team.miner("eve").await?, before);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_ends_at_its_time_and_there_are_32_of_them() -> Result<()> {
    on_every_store(async |site, team| {
        team.put(MINE, &mine()).await?.expect(201)?;
        team.minted("m1", "ann", "coin", 100).await?;
        team.minted("m2", "ann", "ore", 5).await?;
        let leg = |asset: &str| json!([{"from": "ann", "to": "bob", "asset": asset, "qty": 1}]);
        let held = team.to_mine("holds", json!({"key": "at", "legs": leg("coin"), "at": at(60)})).await?;
        done(&held)?;
        let path = format!("{MINE}/holds/{}", held["hold"].as_str().context("a hold")?);
        let coins = async || anyhow::Ok(team.miner("ann").await?["assets"]["coin"].clone());
        advance(site, 59);
        assert_eq!(team.get(&path).await?.expect(200)?["status"], "open");
        assert_eq!(coins().await?, json!({"balance": 100, "available": 99}));
        advance(site, 1);
        let ended = team.get(&path).await?.expect(200)?;
        assert_eq!((&ended["status"], &ended["until"]), (&json!("expired"), &json!(at(60))));
        assert_eq!(coins().await?, json!({"balance": 100, "available": 100}));
        refused(&team.to_mine("holds", json!({"key": "past", "legs": leg("coin"), "at": at(60)})).await?, "time")?;
        let late = json!({"key": "late", "legs": leg("coin"), "at": at(60 + 30 * 86_400 + 1)});
        team.post(&format!("{MINE}/holds"), &late).await?.problem(400, "invalid_field", Some("at"))?;

        let hold = async |key: &str, asset: &str| team.to_mine("holds", json!({"key": key, "legs": leg(asset), "in": "1h"})).await;
        let first = hold("h1", "coin").await?;
        for number in 2..=32 {
            done(&hold(&format!("h{number}"), "coin").await?)?;
        }
        refused(&hold("h33", "coin").await?, "busy")?;
        done(&hold("ore", "ore").await?)?;
        let release = format!("holds/{}/release", first["hold"].as_str().context("a hold")?);
        done(&team.to_mine(&release, json!({"key": "r"})).await?)?;
        done(&hold("h34", "coin").await?)?;
        assert_eq!(coins().await?, json!({"balance": 100, "available": 68}));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_play_has_64_legs_16_rolls_and_32_needs_at_most() -> Result<()> {
    let leg = json!({"move": {"from": "@mint", "to": "by", "asset": "coin", "qty": 1}});
    let play = |legs: usize, rolls: usize, needs: usize| {
        let rolls: serde_json::Map<_, _> = (0..rolls).map(|number| (format!("r{number}"), json!([1, 6]))).collect();
        let needs = vec![json!({"if": "true", "else": "never"}); needs];
        json!({"assets": {"coin": {}}, "plays": {"big": {"roll": rolls, "need": needs, "do": vec![leg.clone(); legs]}}})
    };
    on_every_store(async |_, team| {
        team.put("/v1/realms/big", &play(64, 16, 32)).await?.expect(201)?;
        let told = team.post("/v1/realms/big/plays/big", &json!({"by": "ann", "key": "k"})).await?.expect(200)?;
        assert_eq!(told["balances"]["ann"]["coin"], 64);
        for (definition, path) in
            [(play(65, 16, 32), "plays.big.do"), (play(64, 17, 32), "plays.big.roll"), (play(64, 16, 33), "plays.big.need")]
        {
            let reply = team.put("/v1/realms/big", &definition).await?;
            let problem: Value = serde_json::from_str(&reply.text())?;
            assert_eq!((reply.status, &problem["faults"][0]["field"]), (400, &json!(path)), "{problem}");
        }
        // What is one or the other counts once.
        let mut either = play(0, 0, 0);
        either["plays"]["big"]["do"] = json!([{"if": {"when": "true", "then": vec![leg.clone(); 64], "else": vec![leg.clone(); 64]}}]);
        team.put("/v1/realms/big", &either).await?.expect(200)?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_changed_without_a_key() -> Result<()> {
    on_every_store(async |_, team| {
        team.put(MINE, &mine()).await?.expect(201)?;
        team.minted("m", "ann", "coin", 10).await?;
        let legs = json!([{"from": "ann", "to": "bob", "asset": "coin", "qty": 1}]);
        let held = team.to_mine("holds", json!({"key": "h", "legs": legs, "in": "1h"})).await?;
        let hold = held["hold"].as_str().context("a hold")?;
        let before = (team.miner("ann").await?, team.get(&format!("{MINE}/ledger")).await?.expect(200)?);
        for (path, body) in [
            ("plays/dig".to_owned(), json!({"by": "ann"})),
            ("commits".to_owned(), json!({"legs": legs})),
            ("commits/cm_1/revert".to_owned(), json!({})),
            ("holds".to_owned(), json!({"legs": legs, "in": "1h"})),
            (format!("holds/{hold}/capture"), json!({})),
            (format!("holds/{hold}/release"), json!({})),
        ] {
            let reply = team.post(&format!("{MINE}/{path}"), &body).await?;
            reply.problem(400, "missing_field", Some("key")).with_context(|| path)?;
        }
        assert_eq!((team.miner("ann").await?, team.get(&format!("{MINE}/ledger")).await?.expect(200)?), before);
        Ok(())
    })
    .await
}
