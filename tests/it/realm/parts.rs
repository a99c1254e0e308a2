//! Every part of a definition that ajo has no use for, on every store.

use anyhow::{Result, ensure};
use hermod_core::Micros;
use serde_json::{Value, json};

use super::play::{done, refused};
use crate::http::site::{Caller, SOON, Site};
use crate::queue::on_every_store;

const HOUR: u64 = 3_600_000_000;

fn advance(site: &Site, us: u64) {
    site.clock.advance(Micros::saturating(us));
}

fn mint(asset: &str, qty: &str, event: &str) -> Value {
    json!({"move": {"from": "@mint", "to": "by", "asset": asset, "qty": qty, "event": event}})
}

/// A tavern: a login with a streak, a thank-you that follows, loot that is drawn again, effects of every kind.
fn tavern() -> Value {
    let effect = |merge: &str| json!({"do": [{"effect": {"name": "luck", "value": "value", "for": 600, "merge": merge}}], "args": {"value": "amount"}});
    json!({
        "timezone": "Europe/Berlin",
        "assets": {"coin": {"kind": "currency", "board": true, "floor": -50}, "gem": {"max": 2}, "ring": {"max": 1}},
        "timers": {"login": {"at": "06:00", "streak": true}, "gift": {"every": "1h", "streak": true, "grace": "30m"}},
        "effects": {"luck": {"default": 1}},
        "counters": {"thanks": {}, "told": {}},
        "tables": {"loot": {"of": 10, "full": "reroll", "drops": {"gem": 6, "ring": 4}}},
        "recipes": {"pair": {"take": {"gem": 2}, "give": {"ring": 1, "coin": 5}}},
        "rules": [{"on": "bonus", "play": "thank", "mode": "after"}],
        "plays": {
            "login": {"do": [{"claim": {"timer": "login"}}, mint("coin", "10 * streak(by, 'login')", "bonus")]},
            "gift": {"do": [{"claim": {"timer": "gift"}}], "return": {"row": "streak(by, 'gift')"}},
            "thank": {"internal": true, "do": [{"counter": {"name": "thanks", "add": 1}}]},
            "loot": {"do": [{"draw": {"table": "loot", "as": "got"}}], "return": {"got": "got"}},
            "pair": {"do": [{"craft": {"recipe": "pair"}}]},
            "spend": {"args": {"n": "amount"}, "do": [{"move": {"from": "by", "to": "@house", "asset": "coin", "qty": "n"}}]},
            "remind": {"args": {"whom": "owner", "n": "amount"},
                "do": [{"schedule": {"play": "tell", "in": 60, "args": {"whom": "whom", "n": "n + 1"}}}]},
            "tell": {"internal": true, "args": {"whom": "owner", "n": "amount"},
                "do": [{"counter": {"name": "told", "of": "whom", "set": "n"}}]},
            "replace": effect("replace"), "add": effect("add"), "max": effect("max"), "extend": effect("extend"),
            "divide": {"args": {"by_what": "amount"}, "do": [mint("coin", "100 / by_what", "bonus")]},
        },
    })
}

impl Caller {
    async fn in_tavern(&self, play: &str, key: &str, args: Value) -> Result<Value> {
        self.post(&format!("/v1/realms/tavern/plays/{play}"), &json!({"by": "ann", "key": key, "args": args})).await?.expect(200)
    }

    async fn of(&self, owner: &str) -> Result<Value> {
        self.get(&format!("/v1/realms/tavern/accounts/{owner}")).await?.expect(200)
    }

    /// What is to follow has followed.
    async fn until_counted(&self, owner: &str, counter: &str, value: i64) -> Result<()> {
        let began = std::time::Instant::now();
        while self.of(owner).await?["counters"][counter]["value"] != value {
            ensure!(began.elapsed() < SOON, "{counter} of {owner} is not {value}: {}", self.of(owner).await?);
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streak_grows_day_by_day_and_a_missed_day_ends_it() -> Result<()> {
    on_every_store(async |site, team| {
        team.put("/v1/realms/tavern", &tavern()).await?.expect(201)?;
        let mut coins = 0;
        for (day, row) in [1, 2, 3].into_iter().enumerate() {
            let told = team.in_tavern("login", &format!("l{day}"), json!({})).await?;
            coins += 10 * row;
            assert_eq!(told["balances"]["ann"]["coin"], coins, "{told}");
            let again = team.in_tavern("login", &format!("again{day}"), json!({})).await?;
            refused(&again, "ttl")?;
            advance(site, 24 * HOUR);
        }
        // A day later than can be: it begins anew.
        advance(site, 24 * HOUR);
        let told = team.in_tavern("login", "anew", json!({})).await?;
        assert_eq!(told["balances"]["ann"]["coin"], coins + 10);
        // The thanks followed, once each.
        team.until_counted("ann", "thanks", 4).await?;
        // A rolling one: an hour, and half an hour more for the row.
        for (key, wait, row) in [("g1", 0, 1), ("g2", HOUR, 2), ("g3", HOUR + HOUR / 2 - 1, 3), ("g4", HOUR + HOUR / 2, 1)] {
            advance(site, wait);
            let told = team.in_tavern("gift", key, json!({})).await?;
            assert_eq!(told["return"]["row"], row, "{key}: {told}");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_merge_as_they_say() -> Result<()> {
    on_every_store(async |site, team| {
        team.put("/v1/realms/tavern", &tavern()).await?.expect(201)?;
        let value = async || anyhow::Ok(team.of("ann").await?["effects"]["luck"]["value"].clone());
        let play = async |play: &str, key: &str, value: i64| team.in_tavern(play, key, json!({"value": value})).await;
        done(&play("replace", "a", 5).await?)?;
        assert_eq!(value().await?, 5);
        advance(site, HOUR / 12);
        done(&play("add", "b", 2).await?)?;
        done(&play("max", "c", 3).await?)?;
        assert_eq!(value().await?, 7);
        // Ten minutes from when it was added; extended by as much, fifteen after five.
        advance(site, HOUR / 12);
        done(&play("extend", "d", 4).await?)?;
        advance(site, HOUR / 4 - 1);
        assert_eq!(value().await?, 4);
        advance(site, 1);
        assert_eq!(value().await?, Value::Null);
        // Added to nothing it begins with the default.
        done(&play("add", "e", 2).await?)?;
        assert_eq!(value().await?, 3);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_scheduled_runs_with_what_it_was_given() -> Result<()> {
    on_every_store(async |site, team| {
        team.put("/v1/realms/tavern", &tavern()).await?.expect(201)?;
        done(&team.in_tavern("remind", "r1", json!({"whom": "bob", "n": 41})).await?)?;
        // The same request again schedules nothing more.
        done(&team.in_tavern("remind", "r1", json!({"whom": "bob", "n": 41})).await?)?;
        advance(site, HOUR / 60 - 1);
        assert_eq!(team.of("bob").await?["counters"], json!({}));
        advance(site, 1);
        team.until_counted("bob", "told", 42).await?;
        // One that cannot be run any more holds up no other: here its argument is gone.
        done(&team.in_tavern("remind", "r2", json!({"whom": "eve", "n": 1})).await?)?;
        let mut changed = tavern();
        changed["plays"]["tell"]["args"] = json!({"whom": "owner", "count": "amount"});
        changed["plays"]["tell"]["do"][0]["counter"]["set"] = json!("count");
        changed["plays"]["remind"]["do"][0]["schedule"]["args"] = json!({"whom": "whom", "count": "n"});
        team.put("/v1/realms/tavern", &changed).await?.expect(200)?;
        done(&team.in_tavern("remind", "r3", json!({"whom": "bob", "n": 7})).await?)?;
        advance(site, HOUR / 60);
        team.until_counted("bob", "told", 7).await?;
        assert_eq!(team.of("eve").await?["counters"], json!({}));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loot_is_drawn_again_where_there_is_no_room() -> Result<()> {
    on_every_store(async |_, team| {
        team.put("/v1/realms/tavern", &tavern()).await?.expect(201)?;
        let mut got = Vec::new();
        for number in 0..4 {
            let told = team.in_tavern("loot", &format!("l{number}"), json!({})).await?;
            got.push(told["return"]["got"].as_str().unwrap_or_default().to_owned());
        }
        got.sort();
        // Two gems and a ring fit; the fourth time there is nothing left to draw.
        assert_eq!(got, ["", "gem", "gem", "ring"]);
        refused(&team.in_tavern("pair", "p1", json!({})).await?, "stack")?;
        let back = json!({"key": "back", "legs": [{"from": "ann", "to": "@burn", "asset": "ring", "qty": 1}]});
        done(&team.post("/v1/realms/tavern/commits", &back).await?.expect(200)?)?;
        let paired = team.in_tavern("pair", "p2", json!({})).await?;
        assert_eq!(paired["balances"]["ann"], json!({"coin": 5, "gem": 0, "ring": 1}));
        // Credit is below nothing, down to the floor.
        done(&team.in_tavern("spend", "s1", json!({"n": 55})).await?)?;
        refused(&team.in_tavern("spend", "s2", json!({"n": 1})).await?, "funds")?;
        let told = team.post("/v1/realms/tavern/plays/divide", &json!({"by": "ann", "key": "d", "args": {"by_what": 0}})).await?;
        told.problem(422, "play_failed", None)?;
        let audit = team.get("/v1/realms/tavern/audit").await?.expect(200)?;
        assert_eq!(audit["clean"], true, "{audit}");
        // What a play minted that is gone from the definition is still part of the supply.
        let before = team.get("/v1/realms/tavern/supply").await?.expect(200)?;
        let mut changed = tavern();
        changed["plays"].as_object_mut().map(|plays| (plays.remove("loot"), plays.remove("pair")));
        team.put("/v1/realms/tavern", &changed).await?.expect(200)?;
        assert_eq!(team.get("/v1/realms/tavern/supply").await?.expect(200)?, before);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_play_that_follows_pays_for_nobody() -> Result<()> {
    let fee = json!({"move": {"from": "by", "to": "@house", "asset": "coin", "qty": 10, "event": "fee"}});
    let prize = json!({"move": {"from": "@house", "to": "by", "asset": "coin", "qty": 100}});
    let taxes = [
        json!({"do": [{"move": {"from": "by", "to": "@house", "asset": "coin", "qty": 1, "event": "tax"}}]}),
        json!({"need": [{"if": "balance(by, 'coin') > 20", "else": "poor"}], "do": [{"counter": {"name": "taxed", "add": 1}}]}),
    ];
    on_every_store(async |_, team| {
        for (number, tax) in taxes.iter().enumerate() {
            let den = json!({
                "assets": {"coin": {"kind": "currency"}},
                "counters": {"taxed": {}},
                "rules": [{"on": "fee", "play": "tax", "mode": "inline"}],
                "plays": {
                    "bet": {"roll": {"win": [0, 1]}, "do": [fee, {"if": {"when": "win == 1", "then": [prize]}}]},
                    "tax": tax,
                },
            });
            let path = format!("/v1/realms/den{number}");
            team.put(&path, &den).await?.expect(201)?;
            let bet = async |key: &str| team.post(&format!("{path}/plays/bet"), &json!({"by": "ann", "key": key})).await?.expect(200);
            // Half of the keys win. Who has nothing cannot even begin.
            for key in 0..32 {
                refused(&bet(&format!("b{key}")).await?, "funds")?;
            }
            // Who can pay the stake but not the tax plays on without it.
            let mint = json!({"key": "mint", "legs": [{"from": "@mint", "to": "ann", "asset": "coin", "qty": 10}]});
            done(&team.post(&format!("{path}/commits"), &mint).await?.expect(200)?)?;
            let told = bet("paid").await?;
            done(&told)?;
            ensure!(told["also"][0]["status"] == "refused" && told["also"][0]["play"] == "tax", "{told}");
            let audit = team.get(&format!("{path}/audit")).await?.expect(200)?;
            assert_eq!(audit["clean"], true, "{audit}");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_passed_through_an_account_is_moved_back() -> Result<()> {
    on_every_store(async |_, team| {
        team.put("/v1/realms/tavern", &tavern()).await?.expect(201)?;
        let leg = |from: &str, to: &str| json!({"from": from, "to": to, "asset": "gem", "qty": 2});
        let commit =
            async |key: &str, legs: Value| team.post("/v1/realms/tavern/commits", &json!({"key": key, "legs": legs})).await?.expect(200);
        let gems = async |owner: &str| anyhow::Ok(team.of(owner).await?["assets"]["gem"]["balance"].as_i64().unwrap_or(0));
        done(&commit("mint", json!([leg("@mint", "ann")])).await?)?;
        // Once bob has nothing to give; once he has got all that he can have, and nothing would fit in even for a moment.
        for (number, bobs) in [0, 2].into_iter().enumerate() {
            let passed = commit(&format!("pass{number}"), json!([leg("ann", "bob"), leg("bob", "eve")])).await?;
            done(&passed)?;
            if bobs > 0 {
                done(&commit("more", json!([leg("@mint", "bob")])).await?)?;
            }
            let path = format!("/v1/realms/tavern/commits/{}/revert", passed["commit"].as_str().unwrap_or_default());
            done(&team.post(&path, &json!({"dry_run": true})).await?.expect(200)?)?;
            done(&team.post(&path, &json!({"key": format!("back{number}")})).await?.expect(200)?)?;
            assert_eq!((gems("ann").await?, gems("bob").await?, gems("eve").await?), (2, bobs, 0));
        }
        // What was spent since is missing, dry or not.
        let spent = commit("spend", json!([leg("ann", "eve")])).await?;
        done(&commit("burn", json!([leg("eve", "@burn")])).await?)?;
        let path = format!("/v1/realms/tavern/commits/{}/revert", spent["commit"].as_str().unwrap_or_default());
        for body in [json!({"dry_run": true}), json!({"key": "late"})] {
            refused(&team.post(&path, &body).await?.expect(200)?, "funds")?;
        }
        let audit = team.get("/v1/realms/tavern/audit").await?.expect(200)?;
        assert_eq!(audit["clean"], true, "{audit}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_is_told_again_although_the_realm_has_changed_since() -> Result<()> {
    on_every_store(async |_, team| {
        team.put("/v1/realms/tavern", &tavern()).await?.expect(201)?;
        let remind = json!({"by": "ann", "key": "r", "args": {"whom": "bob", "n": 1}});
        let lasting = json!({"key": "e", "effects": [{"name": "luck", "of": "ann", "value": 2, "for": "60s"}]});
        let asked = [("plays/login", json!({"by": "ann", "key": "l"})), ("plays/remind", remind), ("commits", lasting)];
        let ask = async |path: &str, body: &Value| team.post(&format!("/v1/realms/tavern/{path}"), body).await;
        let mut first = Vec::new();
        for (path, body) in &asked {
            let told = ask(path, body).await?.expect(200)?;
            done(&told)?;
            first.push(told);
        }
        // The first is gone, the second takes something else, and the third has nothing to set.
        let mut changed = tavern();
        changed["plays"]["remind"] = json!({"args": {"whom": "owner"}, "do": [{"counter": {"name": "told", "of": "whom", "add": 1}}]});
        for name in ["login", "replace", "add", "max", "extend"] {
            changed["plays"].as_object_mut().map(|plays| plays.remove(name));
        }
        changed["rules"] = json!([]);
        changed["effects"] = json!({});
        team.put("/v1/realms/tavern", &changed).await?.expect(200)?;
        for ((path, body), first) in asked.iter().zip(&first) {
            let again = ask(path, body).await?.expect(200)?;
            assert_eq!((&again["replayed"], &again["commit"]), (&json!(true), &first["commit"]), "{path}: {again}");
        }
        // Under another key it is wrong.
        for ((path, body), status) in asked.iter().zip([404, 400, 400]) {
            let mut body = body.clone();
            body["key"] = json!("other");
            let reply = ask(path, &body).await?;
            ensure!(reply.status == status, "{path}: {}", reply.text());
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_a_hold_would_end_is_told_as_it_ends() -> Result<()> {
    on_every_store(async |_, team| {
        team.put("/v1/realms/tavern", &tavern()).await?.expect(201)?;
        let ask = async |path: &str, body: Value| team.post(&format!("/v1/realms/tavern/{path}"), &body).await?.expect(200);
        done(&ask("commits", json!({"key": "mint", "legs": [{"from": "@mint", "to": "ann", "asset": "coin", "qty": 100}]})).await?)?;
        for (act, left) in [("capture", 90), ("release", 90)] {
            let legs = json!([{"from": "ann", "to": "bob", "asset": "coin", "qty": 10}]);
            let held = ask("holds", json!({"key": format!("hold-{act}"), "legs": legs, "in": "60s"})).await?;
            let path = format!("holds/{}/{act}", held["hold"].as_str().unwrap_or_default());
            let would = ask(&path, json!({"dry_run": true})).await?;
            let does = ask(&path, json!({"key": act})).await?;
            assert_eq!(would["balances"], does["balances"], "{act}");
            assert_eq!(does["balances"]["ann"]["coin"], left, "{act}: {does}");
        }
        Ok(())
    })
    .await
}
