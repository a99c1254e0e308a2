//! How often the store is asked for a play: at most one look beside the step that does it; and as much as a play can say is done.

use anyhow::{Context, Result, ensure};
use hermod_server::Config;
use hermod_tests::server::Redis;
use serde_json::{Map, Value, json};

use super::play::{apply_ajo, done, refused};
use crate::http::site::{Caller, Site};
use crate::queue::on_every_store;

const REALM: &str = "/v1/realms/x";

/// How many plans the store was sent since this was last asked.
fn plans(redis: &Redis) -> Result<usize> {
    let entries: Vec<redis::Value> = redis.ask(&["SLOWLOG", "GET", "1000"])?;
    redis.ask::<()>(&["SLOWLOG", "RESET"])?;
    let mut plans = 0;
    for entry in entries {
        let parts: Vec<redis::Value> = redis::from_redis_value(entry)?;
        let command: Vec<Vec<u8>> = redis::from_redis_value(parts.get(3).context("a command")?.clone())?;
        plans += usize::from(command.get(1).is_some_and(|function| function.ends_with(b"_realm_apply")));
    }
    Ok(plans)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_paid_claimed_crafted_and_traded_takes_one_look_at_most() -> Result<()> {
    let redis = Redis::start()?;
    let site = Site::start_with(|config| Config { store: redis.url(), ..config }).await?;
    let team = site.admin.space("looks").await?;
    apply_ajo(&team)?;
    for (asset, qty) in [("ajo", 100), ("bone", 5), ("tooth", 2), ("herb", 4)] {
        team.mint("111", asset, qty).await?;
    }
    redis.ask::<()>(&["CONFIG", "SET", "slowlog-max-len", "1000"])?;
    redis.ask::<()>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"])?;
    plans(&redis)?;
    for (play, args, most) in [
        ("pay", json!({"to": "222", "amount": 1}), 1),
        ("daily", json!({}), 1),
        ("craft", json!({"item": "wand"}), 2),
        ("trade", json!({"to": "222", "item": "herb", "qty": 2}), 2),
        ("gamble", json!({"amount": "all"}), 2),
        ("farm", json!({}), 2),
    ] {
        let told = team.play(play, "111", &format!("{play}-1"), args).await?;
        let sent = plans(&redis)?;
        ensure!(told["status"] == "done" && sent == most, "{play} was sent as {sent} plans: {told}");
    }
    // So it is if it is refused.
    refused(&team.play("craft", "111", "craft-2", json!({"item": "satellite"})).await?, "funds")?;
    assert_eq!(plans(&redis)?, 2);
    site.server.shutdown().await;
    Ok(())
}

/// Plays that are about as much as can be.
fn large() -> Value {
    let moves = |from: &str, to: &dyn Fn(usize) -> String, asset: &str, overflow: &str| -> Value {
        let step = |n: usize| json!({"move": {"from": from, "to": to(n), "asset": asset, "qty": 2, "overflow": overflow}});
        (0..64).map(step).collect()
    };
    let other = |n: usize| format!("'u{n}'");
    // Whose they are is known only when they are asked, and whether the next is asked hangs on what the one before it says.
    let asked = |part: usize| {
        let one = |n: usize| format!("balance(by=='q'?'a':'u{n}','cap')>0");
        json!({"if": (part * 16..part * 16 + 16).map(one).collect::<Vec<_>>().join("&&"), "else": "poor"})
    };
    let mut assets: Map<String, Value> = (0..63).map(|n| (format!("part{n}"), json!({}))).collect();
    assets.extend([("coin".into(), json!({"kind": "currency"})), ("cap".into(), json!({"max": 3})), ("ship".into(), json!({}))]);
    let take: Map<String, Value> = (0..63).map(|n| (format!("part{n}"), json!(2))).collect();
    json!({
        "assets": assets,
        "recipes": {"ship": {"take": take}},
        "plays": {
            "build": {"do": [{"craft": {"recipe": "'ship'"}}]},
            "spread": {"do": moves("by", &other, "coin", "reject")},
            "fill": {"do": moves("@mint", &other, "cap", "clamp")},
            "careful": {"need": (0..4).map(asked).collect::<Value>(), "do": [{"move": {"from": "@mint", "to": "by", "asset": "coin", "qty": 1}}]},
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_much_as_a_play_can_say_is_done_on_every_store() -> Result<()> {
    on_every_store(async |_, team| {
        team.put(REALM, &large()).await?.expect(201)?;
        let play = async |team: &Caller, play: &str, key: &str, is_dry: bool| {
            let mut body = json!({"by": "p", "key": key, "dry_run": is_dry});
            body["args"] = json!({});
            team.post(&format!("{REALM}/plays/{play}"), &body).await?.expect(200)
        };
        for is_dry in [true, false] {
            refused(&play(team, "build", &format!("none-{is_dry}"), is_dry).await?, "funds")?;
            refused(&play(team, "spread", &format!("poor-{is_dry}"), is_dry).await?, "funds")?;
            refused(&play(team, "careful", &format!("unmet-{is_dry}"), is_dry).await?, "poor")?;
        }
        let mut legs: Vec<Value> = (0..63).map(|n| json!({"from": "@mint", "to": "p", "asset": format!("part{n}"), "qty": 3})).collect();
        legs.push(json!({"from": "@mint", "to": "p", "asset": "coin", "qty": 128}));
        done(&team.post(&format!("{REALM}/commits"), &json!({"key": "m", "legs": legs})).await?.expect(200)?)?;
        for name in ["build", "spread", "fill", "careful"] {
            let (would, told) = (play(team, name, name, true).await?, play(team, name, name, false).await?);
            done(&told)?;
            assert_eq!(would["balances"], told["balances"], "{name} comes to what it would");
        }
        // Of what there is room for one.
        let told = play(team, "fill", "fill-2", false).await?;
        assert_eq!((&told["balances"]["u0"]["cap"], &told["balances"]["u63"]["cap"]), (&json!(3), &json!(3)));
        let account = team.get(&format!("{REALM}/accounts/p")).await?.expect(200)?;
        assert_eq!((&account["assets"]["part62"]["balance"], &account["assets"]["coin"]["balance"]), (&json!(1), &json!(1)));
        Ok(())
    })
    .await
}
