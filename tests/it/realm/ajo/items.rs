//! What drops, what it is made of, and what it is good for.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{advance, seconds, types, until_counter};
use crate::queue::on_every_store;
use crate::realm::play::{apply_ajo, done, refused};

const ITEMS: [&str; 10] = ["bomb", "bone", "chopsticks", "cross", "eggplant", "gear", "herb", "sauropod", "shoe", "tooth"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn something_drops_for_who_has_fifty_and_room_for_it() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        let calm = |would: &Value| would["also"][0]["code"] == "none";
        // What is farmed counts: 49 are too few, and 50 are not.
        team.mint("poor", "ajo", 48).await?;
        let key = team.key_for("farm", "poor", json!({}), calm).await?;
        assert_eq!(team.play("farm", "poor", &key, json!({})).await?["also"][1]["code"], "funds");
        let key = team.key_for("farm", "poor", json!({}), |would| calm(would) && would["also"][1]["code"] == "none").await?;
        assert_eq!(team.play("farm", "poor", &key, json!({})).await?["balances"]["poor"]["ajo"], 50);

        team.mint("111", "ajo", 100).await?;
        let key = team.key_for("farm", "111", json!({}), |would| calm(would) && would["also"][1]["status"] == "done").await?;
        let told = team.play("farm", "111", &key, json!({})).await?;
        assert_eq!((types(&told), told["also"][1]["play"].as_str()), (vec!["farm", "item_earned"], Some("drop")));
        let (item, got) = (told["events"][1]["item"].as_str().context("an item")?, &told["events"][1]);
        ensure!(ITEMS.contains(&item) && got["user_id"] == "111" && got["quantity"] == 1, "{told}");
        assert_eq!(team.has("111", item).await?, 1);

        // Twenty herbs are as many as there can be: one more is lost, and the farm is not.
        team.mint("222", "ajo", 100).await?;
        team.mint("222", "herb", 19).await?;
        let full = json!({"play": "drop", "status": "refused", "code": "stack", "with": {"asset": "herb", "room": 0}});
        let herb = |would: &Value| calm(would) && would["events"][1]["item"] == "herb";
        let key = team.key_for("farm", "222", json!({}), herb).await?;
        done(&team.play("farm", "222", &key, json!({})).await?)?;
        assert_eq!(team.has("222", "herb").await?, 20);
        let key = team.key_for("farm", "222", json!({}), |would| calm(would) && would["also"][1] == full).await?;
        let told = team.play("farm", "222", &key, json!({})).await?;
        assert_eq!((&told["also"][1], types(&told), &told["balances"]["222"]["ajo"]), (&full, vec!["farm"], &json!(102)));
        assert_eq!(team.has("222", "herb").await?, 20);
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_crafted_costs_what_it_says() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        for (item, of, price) in [("ribbon", "ajo", 50), ("gear", "ajo", 15), ("cross", "herb", 4), ("satellite", "gear", 3)] {
            let craft = async |key: &str| team.play("craft", item, &format!("{item}-{key}"), json!({"item": item})).await;
            // Somebody who makes nothing else.
            team.mint(item, of, price - 1).await?;
            let short = craft("short").await?;
            refused(&short, "funds")?;
            assert_eq!(short["with"], json!({"asset": of, "have": price - 1, "need": price}));
            team.mint(item, of, 1).await?;
            let told = craft("done").await?;
            assert_eq!(told["balances"][item], json!({of: 0, item: 1}));
            assert_eq!(types(&told), ["craft_fee", "item_crafted"]);
            let [paid, made] = [0, 1].map(|at| told["events"][at].clone());
            let (what, lost) = if of == "ajo" { (&paid["asset"], &paid["amount"]) } else { (&paid["item"], &paid["quantity"]) };
            assert_eq!((what, lost.as_i64()), (&json!(of), i64::try_from(price).ok().map(|price| -price)));
            assert_eq!((&made["item"], &made["quantity"]), (&json!(item), &json!(1)));
        }
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eggplant_discombobulates_by_31_percent_more() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        refused(&team.play("use-eggplant", "111", "e0", json!({})).await?, "err")?;
        for owner in ["111", "222"] {
            team.mint(owner, "ajo", 1000).await?;
            team.mint(owner, "eggplant", 1).await?;
        }
        team.mint("333", "ajo", 2000).await?;
        let used = team.play("use-eggplant", "111", "e1", json!({})).await?;
        assert_eq!((types(&used), team.has("111", "eggplant").await?), (vec!["item_used"], 0));
        // 100 % and 31 % of 1000, of which there are enough.
        let args = json!({"to": "333", "offer": 1000});
        let hundred = |would: &Value| would["return"]["p"] == 100;
        let key = team.key_for("discombobulate", "111", args.clone(), hundred).await?;
        advance(site, 600 - 1);
        let told = team.play("discombobulate", "111", &key, args).await?;
        assert_eq!((&told["return"]["damage"], &told["balances"]["333"]["ajo"]), (&json!(1310), &json!(690)));
        // 131 % of 333 are 436.23; after ten minutes 333.
        let args = json!({"to": "333", "offer": 333});
        done(&team.play("use-eggplant", "222", "e2", json!({})).await?)?;
        let key = team.key_for("discombobulate", "222", args.clone(), hundred).await?;
        let body = json!({"by": "222", "key": key, "args": args.clone(), "dry_run": true});
        assert_eq!(team.ask("plays/discombobulate", &body).await?["return"]["damage"], 436);
        advance(site, 600);
        let told = team.play("discombobulate", "222", &key, args).await?;
        assert_eq!((&told["return"]["damage"], &told["balances"]["333"]["ajo"]), (&json!(333), &json!(357)));
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bomb_is_armed_at_most_210_seconds_early_or_late() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        let owners = ["1", "2", "3", "4", "5", "6", "7"];
        for owner in owners {
            team.mint(owner, "bomb", 1).await?;
        }
        for (key, delay) in [("t1", json!(-1)), ("t2", json!(28_801)), ("t3", json!("soon")), ("t4", Value::Null)] {
            refused(&team.play("set-bomb", "1", key, json!({"delay": delay})).await?, "time")?;
        }
        let mut times = Vec::new();
        for (owner, delay) in owners.iter().zip([28_800, 28_000, 5_000, 1_000, 4_000, 2_000, 3_000]) {
            let told = team.play("set-bomb", owner, &format!("b{owner}"), json!({"delay": delay})).await?;
            done(&told)?;
            assert_eq!(types(&told), ["item_used"]);
            let last = team.get("/v1/realms/ajo/ledger?limit=1").await?.expect(200)?["items"][0]["draws"][0].clone();
            assert_eq!((&last["from"], &last["to"]), (&json!(-210), &json!(210)));
            let jitter = told["draws"]["set-bomb.jitter"].as_i64().context("a jitter was drawn")?;
            times.push(u64::try_from(delay + jitter)?);
        }
        times.sort_unstable();
        // Five of them are seen, the next first.
        refused(&team.play("use-satellite", "444", "s0", json!({})).await?, "err")?;
        team.mint("444", "satellite", 2).await?;
        let seen = team.play("use-satellite", "444", "s1", json!({})).await?;
        let bombs = seen["return"]["bombs"].as_array().context("bombs")?.iter().map(seconds).collect::<Result<Vec<_>>>()?;
        assert_eq!(bombs, times[..5]);
        // And when those went off, the others.
        advance(site, times[5] - 1);
        until_counter(team, "bombs", 5).await?;
        let seen = team.play("use-satellite", "444", "s2", json!({})).await?;
        let bombs = seen["return"]["bombs"].as_array().context("bombs")?.iter().map(seconds).collect::<Result<Vec<_>>>()?;
        assert_eq!(bombs, times[5..]);
        advance(site, times[6] + 1 - times[5]);
        until_counter(team, "bombs", 7).await?;
        // Both happen.
        team.mint("8", "bomb", 1).await?;
        for sign in [-1, 1] {
            let is_it = |would: &Value| would["draws"]["set-bomb.jitter"].as_i64().map(i64::signum) == Some(sign);
            team.key_for("set-bomb", "8", json!({"delay": 600}), is_it).await?;
        }
        Ok(())
    })
    .await
}
