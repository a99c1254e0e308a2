//! ajo, by its file alone: every operation of the table, and its vectors, on every store.

mod held;
mod items;
mod vampire;

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use hermod_tests::lane::START;
use serde_json::{Value, json};

use super::play::{apply_ajo, done, refused};
use crate::http::site::{Caller, SOON, Site};
use crate::queue::on_every_store;

const SECOND: u64 = 1_000_000;

fn advance(site: &Site, seconds: u64) {
    site.clock.advance(Micros::saturating(seconds * SECOND));
}

/// A time of an answer, in seconds since the clock that is set by hand began.
fn seconds(time: &Value) -> Result<u64> {
    let text = time.as_str().with_context(|| format!("{time} is no time"))?;
    let since = humantime::parse_rfc3339(text)?.duration_since(std::time::UNIX_EPOCH)?;
    since.as_secs().checked_sub(START.get() / SECOND).context("a time after the start")
}

fn types(told: &Value) -> Vec<&str> {
    told["events"].as_array().into_iter().flatten().filter_map(|event| event["type"].as_str()).collect()
}

/// What is scheduled runs by itself when its time has come.
async fn until_counter(team: &Caller, name: &str, value: i64) -> Result<()> {
    let path = "/v1/realms/ajo/accounts/@house";
    let began = std::time::Instant::now();
    loop {
        let account = team.get(path).await?.expect(200)?;
        if account["counters"][name]["value"] == value {
            return Ok(());
        }
        ensure!(began.elapsed() < SOON, "{name} did not become {value}: {account}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_moves_and_is_gambled_with() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 100).await?;
        // 1.2 is rounded up.
        let paid = team.play("pay", "111", "p1", json!({"to": "222", "amount": 1.2})).await?;
        done(&paid)?;
        assert_eq!(paid["balances"], json!({"111": {"ajo": 98}, "222": {"ajo": 2}}));
        assert_eq!(types(&paid), ["payer", "payee"]);
        refused(&team.play("pay", "111", "p2", json!({"to": "222", "amount": 0})).await?, "err")?;
        refused(&team.play("pay", "111", "p3", json!({"to": "111", "amount": 5})).await?, "futile")?;
        let short = team.play("pay", "111", "p4", json!({"to": "222", "amount": 99})).await?;
        refused(&short, "funds")?;
        assert_eq!(short["with"], json!({"asset": "ajo", "have": 98, "need": 99}));

        for (number, amount) in [json!("nan"), json!("x"), json!(0), json!(-3), json!("0x10")].into_iter().enumerate() {
            refused(&team.play("gamble", "111", &format!("gx{number}"), json!({"amount": amount})).await?, "err")?;
        }
        refused(&team.play("gamble", "111", "g1", json!({"amount": 99})).await?, "funds")?;
        let all = json!({"amount": "all"});
        let lost = team.key_for("gamble", "111", all.clone(), |would| would["return"]["won"] == false).await?;
        let won = team.key_for("gamble", "111", all.clone(), |would| would["return"]["won"] == true).await?;
        let told = team.play("gamble", "111", &won, all.clone()).await?;
        let gain = told["draws"]["gamble.gain"].as_i64().context("a gain was drawn")?;
        let after = 98 + (gain * 98 + 39) / 40;
        assert_eq!(told["balances"]["111"]["ajo"], after);
        let told = team.play("gamble", "111", &lost, all).await?;
        assert_eq!((told["draws"]["gamble.win"] != 1, &told["balances"]["111"]["ajo"]), (true, &json!(0)));

        // Once a day, once a week.
        done(&team.play("daily", "111", "d1", json!({})).await?)?;
        let again = team.play("daily", "111", "d2", json!({})).await?;
        refused(&again, "ttl")?;
        ensure!(again["retry_at"].is_string(), "{again}");
        done(&team.play("weekly", "111", "w1", json!({})).await?)?;
        assert_eq!(team.has("111", "ajo").await?, 32 + 256);
        advance(site, 86_400 - 1);
        refused(&team.play("daily", "111", "d3", json!({})).await?, "ttl")?;
        advance(site, 1);
        done(&team.play("daily", "111", "d4", json!({})).await?)?;
        refused(&team.play("weekly", "111", "w2", json!({})).await?, "ttl")?;
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_is_discombobulated() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 1000).await?;
        team.mint("222", "ajo", 1000).await?;
        let play =
            |key: &'static str, to: &'static str, offer: i64| team.play("discombobulate", "111", key, json!({"to": to, "offer": offer}));
        refused(&play("x1", "222", 0).await?, "err")?;
        refused(&play("x2", "111", 350).await?, "futile")?;
        refused(&play("x3", "222", 1001).await?, "funds")?;
        let short = play("x4", "222", 349).await?;
        refused(&short, "offer")?;
        assert_eq!(short["with"], json!({"least": 350}));
        let args = json!({"to": "222", "offer": 350});
        let key = team.key_for("discombobulate", "111", args.clone(), |would| would["return"]["p"] == 200).await?;
        let told = team.play("discombobulate", "111", &key, args).await?;
        assert_eq!(told["balances"], json!({"111": {"ajo": 650}, "222": {"ajo": 300}}));
        assert_eq!(types(&told), ["discombobulatee", "discombobulator"]);
        refused(&play("x5", "222", 350).await?, "ttl")?;
        advance(site, 360_000 - 1);
        refused(&play("x6", "222", 350).await?, "ttl")?;
        advance(site, 1);
        done(&play("x7", "222", 350).await?)?;
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_are_crafted_traded_and_used() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        refused(&team.play("craft", "111", "c0", json!({"item": "spoon"})).await?, "unknown")?;
        refused(&team.play("craft", "111", "c00", json!({"item": "bone"})).await?, "unknown")?;
        let short = team.play("craft", "111", "c1", json!({"item": "wand"})).await?;
        refused(&short, "funds")?;
        assert_eq!(short["with"], json!({"asset": "bone", "have": 0, "need": 5}));
        team.mint("111", "bone", 5).await?;
        team.mint("111", "tooth", 2).await?;
        let crafted = team.play("craft", "111", "c2", json!({"item": "wand"})).await?;
        assert_eq!(crafted["balances"], json!({"111": {"bone": 0, "tooth": 0, "wand": 1}}));
        let items: Vec<_> =
            crafted["events"].as_array().into_iter().flatten().map(|event| (event["type"].clone(), event["item"].clone())).collect();
        assert_eq!(
            items,
            [("craft_fee", "bone"), ("craft_fee", "tooth"), ("item_crafted", "wand")].map(|(kind, item)| (json!(kind), json!(item)))
        );
        team.mint("111", "bone", 10).await?;
        team.mint("111", "tooth", 10).await?;
        refused(&team.play("craft", "111", "c3", json!({"item": "wand"})).await?, "stack")?;

        team.mint("111", "herb", 20).await?;
        team.mint("222", "herb", 15).await?;
        refused(&team.play("trade", "111", "t1", json!({"to": "222", "item": "wand"})).await?, "tradable")?;
        refused(&team.play("trade", "111", "t2", json!({"to": "222", "item": "herb", "qty": 0})).await?, "err")?;
        refused(&team.play("trade", "111", "t3", json!({"to": "111", "item": "herb"})).await?, "futile")?;
        refused(&team.play("trade", "111", "t4", json!({"to": "222", "item": "cross"})).await?, "err")?;
        refused(&team.play("trade", "111", "t5", json!({"to": "222", "item": "herb", "qty": 21})).await?, "funds")?;
        let full = team.play("trade", "111", "t6", json!({"to": "222", "item": "herb", "qty": 10})).await?;
        refused(&full, "stack")?;
        assert_eq!(full["with"]["room"], 5);
        let traded = team.play("trade", "111", "t7", json!({"to": "222", "item": "herb", "qty": 5})).await?;
        assert_eq!(types(&traded), ["trader", "tradee"]);
        assert_eq!((team.has("111", "herb").await?, team.has("222", "herb").await?), (15, 20));

        // A shoe lasts ten minutes, and two of them stack.
        refused(&team.play("use-shoe", "111", "u0", json!({})).await?, "err")?;
        for number in [1, 2] {
            team.post(
                "/v1/realms/ajo/commits",
                &json!({"key": format!("shoe{number}"), "legs": [{"from": "@mint", "to": "111", "asset": "shoe", "qty": 1}]}),
            )
            .await?
            .expect(200)?;
            done(&team.play("use-shoe", "111", &format!("u{number}"), json!({})).await?)?;
        }
        let account = team.get("/v1/realms/ajo/accounts/111").await?.expect(200)?;
        assert_eq!(account["effects"]["gain"]["value"], 3);
        let key = team.key_for("farm", "111", json!({}), |would| would["also"][0]["code"] == "none").await?;
        let farmed = team.play("farm", "111", &key, json!({})).await?;
        assert_eq!(farmed["events"][0]["amount"], 3);
        advance(site, 600);
        let key =
            team.key_for("farm", "111", json!({}), |would| would["also"][0]["code"] == "none" && would["events"][0]["amount"] == 1).await?;
        done(&team.play("farm", "111", &key, json!({})).await?)?;
        // See what others have, and curse them.
        team.mint("111", "ajo", 10).await?;
        let seen = team.play("see-inventory", "111", "s1", json!({"to": "222"})).await?;
        assert_eq!((&seen["return"]["herb"], types(&seen)), (&json!(20), vec!["inventory_fee"]));
        refused(&team.play("see-inventory", "333", "s2", json!({"to": "222"})).await?, "funds")?;
        done(&team.play("curse", "111", "k1", json!({"to": "222"})).await?)?;
        refused(&team.play("curse", "111", "k2", json!({"to": "222"})).await?, "err")?;
        let account = team.get("/v1/realms/ajo/accounts/222").await?.expect(200)?;
        assert_eq!(account["effects"]["curse"]["value"], 12);
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn farm_and_vampire_are_one_commit() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 200).await?;
        let bitten = |would: &Value| would["also"][0]["status"] == "done";
        let key = team.key_for("farm", "111", json!({}), bitten).await?;
        let told = team.play("farm", "111", &key, json!({})).await?;
        assert_eq!(types(&told)[..2], ["farm", "vampire"]);
        let p = told["draws"]["vampire.p"].as_i64().context("p was drawn")?;
        let lost = (201 * p + 99) / 100;
        assert_eq!(told["balances"]["111"]["ajo"], 201 - lost);
        assert_eq!(team.ledger().await?.len(), 2, "one commit for all of it");
        let account = team.get("/v1/realms/ajo/accounts/111").await?.expect(200)?;
        assert_eq!(account["counters"]["vampire"]["value"], 2);
        // A ribbon is used up instead.
        team.mint("111", "ribbon", 1).await?;
        let key = team.key_for("farm", "111", json!({}), bitten).await?;
        let told = team.play("farm", "111", &key, json!({})).await?;
        assert_eq!((types(&told)[1], team.has("111", "ribbon").await?), ("item_used", 0));
        // A cross takes a level off, chopsticks all of them; without either it ends by itself.
        team.mint("111", "cross", 1).await?;
        team.mint("111", "chopsticks", 1).await?;
        done(&team.play("use-cross", "111", "u1", json!({})).await?)?;
        let account = team.get("/v1/realms/ajo/accounts/111").await?.expect(200)?;
        assert_eq!(account["counters"]["vampire"]["value"], 2);
        done(&team.play("use-chopsticks", "111", "u2", json!({})).await?)?;
        let account = team.get("/v1/realms/ajo/accounts/111").await?.expect(200)?;
        assert_eq!(account["counters"]["vampire"], Value::Null);
        let key = team.key_for("farm", "111", json!({}), bitten).await?;
        done(&team.play("farm", "111", &key, json!({})).await?)?;
        advance(site, 600);
        let account = team.get("/v1/realms/ajo/accounts/111").await?.expect(200)?;
        assert_eq!(account["counters"]["vampire"], Value::Null);
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_bombs_at_once_both_count() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        for owner in ["111", "222"] {
            team.mint(owner, "bomb", 1).await?;
        }
        refused(&team.play("set-bomb", "111", "b0", json!({"delay": 28_801})).await?, "time")?;
        refused(&team.play("set-bomb", "333", "b1", json!({"delay": 600})).await?, "err")?;
        done(&team.play("set-bomb", "111", "b2", json!({"delay": 600})).await?)?;
        done(&team.play("set-bomb", "222", "b3", json!({"delay": 600})).await?)?;
        team.mint("444", "satellite", 1).await?;
        let seen = team.play("use-satellite", "444", "s1", json!({})).await?;
        assert_eq!(seen["return"]["bombs"].as_array().map(Vec::len), Some(2), "{seen}");
        advance(site, 600 + 210);
        until_counter(team, "bombs", 2).await?;
        // The next farmers anywhere pay.
        team.mint("333", "ajo", 101).await?;
        let told = team.play("farm", "333", "f1", json!({})).await?;
        assert_eq!((&told["balances"]["333"]["ajo"], types(&told)), (&json!(83), vec!["bomb"]));
        done(&team.play("farm", "111", "f2", json!({})).await?)?;
        until_counter(team, "bombs", 0).await?;
        let key = team.key_for("farm", "333", json!({}), |would| would["also"][0]["code"] == "none").await?;
        let told = team.play("farm", "333", &key, json!({})).await?;
        assert_eq!(told["events"][0]["amount"], 1);
        // What was scheduled ran once each, whoever asks again.
        let armed = team.ledger().await?.iter().filter(|commit| commit["play"] == "arm").count();
        assert_eq!(armed, 2);
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shot_burns_all_there_is() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        refused(&team.play("shot", "111", "x", json!({"id": "nobody"})).await?, "err")?;
        let args = json!({"id": "game"});
        let key = team.key_for("roulette", "111", args.clone(), |would| would["draws"]["roulette.chamber"] == 2).await?;
        done(&team.play("roulette", "111", &key, args.clone()).await?)?;
        team.mint("222", "ajo", 77).await?;
        let first = team.play("shot", "222", "s1", args.clone()).await?;
        assert_eq!((&first["return"]["shot"], team.has("222", "ajo").await?), (&json!(false), 77));
        // Without a balance: shot, nothing burnt, and an event.
        let second = team.play("shot", "333", "s2", args.clone()).await?;
        assert_eq!(second["return"], json!({"shot": true, "burnt": 0}));
        assert_eq!((&second["events"][0]["type"], &second["events"][0]["amount"]), (&json!("ded"), &json!(0)));
        refused(&team.play("shot", "222", "s3", args.clone()).await?, "err")?;
        // With one, all of it; and a game that nobody ends does by itself.
        let key = team.key_for("roulette", "111", args.clone(), |would| would["draws"]["roulette.chamber"] == 1).await?;
        done(&team.play("roulette", "111", &key, args.clone()).await?)?;
        let told = team.play("shot", "222", "s4", args.clone()).await?;
        assert_eq!((&told["return"]["burnt"], team.has("222", "ajo").await?), (&json!(77), 0));
        let made = team.play("roulette", "111", "own-id", json!({})).await?;
        assert_eq!(made["return"]["id"], "own-id");
        advance(site, 600);
        refused(&team.play("shot", "222", "s5", json!({"id": "own-id"})).await?, "err")?;
        team.audited().await?;
        Ok(())
    })
    .await
}

#[test]
fn its_file_is_short() {
    let lines = include_str!("../../../examples/ajo/ajo.yaml").lines().count();
    assert!(lines < 300, "{lines} lines");
}
