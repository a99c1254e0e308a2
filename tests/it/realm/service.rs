//! Realms over HTTP: what somebody who keeps an economy would notice, on every store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use hermod_server::Config;
use hermod_tests::server::{Hermod, Redis};
use hermod_tests::{Store, unique, until};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::play::{apply_ajo, done, refused};
use crate::http::site::{Ask, Caller, SOON, Site};
use crate::queue::{Live, on_every_store, shared};

fn leg(from: &str, to: &str, asset: &str, qty: u64) -> Value {
    json!({"from": from, "to": to, "asset": asset, "qty": qty})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_partial_write_on_error() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 10).await?;
        let before = team.get("/v1/realms/ajo/ledger").await?.expect(200)?;
        // The second leg is refused, so the first is not done.
        for (key, legs, code) in [
            ("a", json!([leg("111", "222", "ajo", 4), leg("111", "222", "herb", 1)]), "funds"),
            ("b", json!([leg("111", "222", "ajo", 4), leg("@mint", "222", "sauropod", 2)]), "stack"),
        ] {
            refused(&team.ask("commits", &json!({"key": key, "legs": legs})).await?, code)?;
        }
        refused(&team.ask("commits", &json!({"key": "c", "if": [{"if": "balance('111', 'ajo') > 10", "else": "poor"}], "legs": [leg("111", "222", "ajo", 1)]})).await?, "poor")?;
        for (body, field) in [
            (json!({"key": "d", "legs": [leg("111", "222", "gold", 1)]}), "legs.asset"),
            (json!({"key": "e", "legs": [leg("@bank", "222", "ajo", 1)]}), "legs.from"),
            (json!({"key": "f", "legs": [leg("111", "222", "ajo", 0)]}), "legs.qty"),
            (json!({"key": "g", "legs": []}), "legs"),
            (json!({"key": "h", "if": [{"if": "balance('111', 'ajo'"}], "legs": [leg("111", "222", "ajo", 1)]}), "if"),
        ] {
            team.send(&Ask::json("POST", "/v1/realms/ajo/commits", &body)).await?.problem(400, "invalid_field", Some(field))?;
        }
        assert_eq!(team.get("/v1/realms/ajo/ledger").await?.expect(200)?, before);
        assert_eq!((team.has("111", "ajo").await?, team.has("222", "ajo").await?), (10, 0));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trade_never_destroys_or_exceeds_max() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        team.mint("111", "bone", 206).await?;
        team.mint("222", "bone", 200).await?;
        let mut given = 0;
        for (number, qty) in [1_u64, 7, 5, 6, 1, 3].into_iter().enumerate() {
            let told = team.play("trade", "111", &format!("t{number}"), json!({"to": "222", "item": "bone", "qty": qty})).await?;
            given += if told["status"] == "done" { i64::try_from(qty)? } else { 0 };
            let (mine, theirs) = (team.has("111", "bone").await?, team.has("222", "bone").await?);
            ensure!(mine + theirs == 406 && theirs == 200 + given && theirs <= 206, "{mine} and {theirs} after {qty}: {told}");
        }
        assert_eq!(given, 6);
        // What there is no room for stays, or is burnt, if one says so.
        let full = |overflow: &str, qty: u64| json!({"from": "111", "to": "222", "asset": "bone", "qty": qty, "overflow": overflow});
        done(&team.ask("commits", &json!({"key": "clamp", "legs": [full("clamp", 150)]})).await?)?;
        assert_eq!((team.has("111", "bone").await?, team.has("222", "bone").await?), (200, 206));
        done(&team.ask("commits", &json!({"key": "burn", "legs": [full("burn", 10)]})).await?)?;
        assert_eq!((team.has("111", "bone").await?, team.has("222", "bone").await?), (190, 206));
        let supply = team.get("/v1/realms/ajo/supply").await?.expect(200)?;
        let bone = supply["items"].as_array().into_iter().flatten().find(|item| item["asset"] == "bone");
        assert_eq!(bone.context("bones")?["sinks"], json!({"commit": 10}));
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_key_other_body_is_refused() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 100).await?;
        let first = team.play("pay", "111", "k", json!({"to": "222", "amount": 5})).await?;
        let again = team.play("pay", "111", "k", json!({"to": "222", "amount": 5})).await?;
        assert_eq!((&first["replayed"], &again["replayed"], &first["commit"]), (&json!(false), &json!(true), &again["commit"]));
        let body = json!({"by": "111", "key": "k", "args": {"to": "222", "amount": 6}});
        team.post("/v1/realms/ajo/plays/pay", &body).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;
        team.post("/v1/realms/ajo/plays/gamble", &json!({"by": "111", "key": "k", "args": {"amount": 5}})).await?.problem(
            422,
            "idempotency_conflict",
            Some("Idempotency-Key"),
        )?;
        // A refusal is an answer too, and stays one: what changed since is for another key.
        refused(&team.play("pay", "111", "r", json!({"to": "222", "amount": 500})).await?, "funds")?;
        team.mint("111", "ajo", 1000).await?;
        let replayed = team.play("pay", "111", "r", json!({"to": "222", "amount": 500})).await?;
        refused(&replayed, "funds")?;
        assert_eq!(replayed["replayed"], true);
        team.post("/v1/realms/ajo/plays/pay", &json!({"by": "111", "args": {"to": "222", "amount": 1}})).await?.problem(
            400,
            "missing_field",
            Some("key"),
        )?;
        assert_eq!(team.has("222", "ajo").await?, 5);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retried_interaction_pays_once() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 100).await?;
        let body = json!({"by": "111", "interaction": "1180", "guild": "77", "args": {"to": "222", "amount": 5}});
        let mut tries = JoinSet::new();
        for _ in 0..16 {
            let (team, body) = (team.clone(), body.clone());
            tries.spawn(async move { team.post("/v1/realms/ajo/plays/pay", &body).await?.expect(200) });
        }
        let answers = tries.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        assert_eq!(answers.iter().filter(|answer| answer["replayed"] == false).count(), 1);
        ensure!(answers.iter().all(|answer| answer["commit"] == answers[0]["commit"]), "{answers:?}");
        assert_eq!(answers[0]["events"][0]["guild_id"], "77");
        assert_eq!(team.has("222", "ajo").await?, 5);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nan_inf_hex_and_huge_are_refused() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 100).await?;
        let texts = ["nan", "inf", "-inf", "0x10", "1e309", "9223372036854775808", "", "-1", "1_0", "\u{0}", "٣", "all "];
        let huge = "9".repeat(100_000);
        let amounts = texts.iter().map(|text| json!(text)).chain([json!(huge), json!(null), json!([1]), json!({"a": 1}), json!(true)]);
        let amounts = amounts.chain([json!(-1), json!(0), json!(9_223_372_036_854_775_807_u64), json!(9_007_199_254_740_992_u64)]);
        for (number, amount) in amounts.enumerate() {
            let told = team.play("pay", "111", &format!("p{number}"), json!({"to": "222", "amount": amount})).await?;
            refused(&told, "err")?;
            refused(&team.play("gamble", "111", &format!("g{number}"), json!({"amount": amount})).await?, "err")?;
        }
        // No number at all in JSON.
        let raw = |amount: &str| {
            Ask::new("POST", "/v1/realms/ajo/plays/pay", format!(r#"{{"by":"111","key":"raw","args":{{"to":"222","amount":{amount}}}}}"#))
        };
        for amount in ["NaN", "Infinity", "0x10", "1e309"] {
            let reply = team.send(&raw(amount)).await?;
            ensure!(reply.status == 400, "{amount}: {}", reply.text());
        }
        // Who and what else there is.
        for (by, args, field) in [
            ("@mint", json!({"to": "222", "amount": 1}), "by"),
            ("", json!({"to": "222", "amount": 1}), "by"),
            ("111", json!({"to": "@house", "amount": 1}), "args.to"),
            ("111", json!({"to": "x".repeat(257), "amount": 1}), "args.to"),
            ("111", json!({"to": "a\nb", "amount": 1}), "args.to"),
            ("111", json!({"amount": 1}), "args.to"),
            ("111", json!({"to": "222", "amount": 1, "more": 1}), "args.more"),
        ] {
            let body = json!({"by": by, "key": format!("who-{field}"), "args": args});
            team.post("/v1/realms/ajo/plays/pay", &body).await?.problem(400, "invalid_field", Some(field))?;
        }
        team.post("/v1/realms/ajo/plays/vampire", &json!({"by": "111", "key": "v"})).await?.problem(404, "not_found", Some("play"))?;
        team.post("/v1/realms/other/plays/pay", &json!({"by": "111", "key": "v"})).await?.problem(404, "realm_not_found", None)?;
        assert_eq!((team.has("111", "ajo").await?, team.ledger().await?.len()), (100, 1));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draws_are_recorded_and_recomputable() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 5_000).await?;
        for number in 0..30 {
            done(&team.play("farm", "111", &format!("f{number}"), json!({})).await?)?;
        }
        let audit = team.audited().await?;
        ensure!(audit["draws"].as_u64() >= Some(60), "{audit}");
        // The same play under the same key would draw the same, however often it is asked.
        let told = team.play("gamble", "111", "g", json!({"amount": 1})).await?;
        let would = team
            .post("/v1/realms/ajo/plays/gamble", &json!({"by": "111", "key": "g", "args": {"amount": 1}, "dry_run": true}))
            .await?
            .expect(200)?;
        assert_eq!(told["draws"], would["draws"]);
        let recorded = &team.ledger().await?[0]["draws"];
        ensure!(recorded.as_array().is_some_and(|draws| draws.iter().any(|draw| draw["name"] == "gamble.win")), "{recorded}");
        let shown = team.get("/v1/realms/ajo").await?.text();
        ensure!(!shown.contains("seed"), "the seed is nobody's to see");
        let outlook = team.ask("simulate", &json!({"play": "gamble", "by": "111", "args": {"amount": 100}, "n": 20_000})).await?;
        let mean = outlook["gains"]["ajo"]["mean"].as_f64().context("a mean")?;
        // A quarter of the time 1..100 of 40 parts of the stake are won: 43 % are lost on average.
        ensure!((-46.0..-40.0).contains(&mean), "{outlook}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_parallel_daily_claims_one_wins() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        let mut claims = JoinSet::new();
        for number in 0..1_000 {
            let team = team.clone();
            claims.spawn(async move { team.play("daily", "111", &format!("d{number}"), json!({})).await });
        }
        let answers = claims.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        assert_eq!(answers.iter().filter(|answer| answer["status"] == "done").count(), 1);
        assert_eq!(team.has("111", "ajo").await?, 32);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_ends_exactly_once() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 100).await?;
        team.mint("222", "bone", 3).await?;
        let hold = |key: &'static str, qty: u64| json!({"key": key, "legs": [leg("111", "222", "ajo", qty)], "in": "10m"});
        let held = team.ask("holds", &hold("h1", 60)).await?;
        let id = held["hold"].as_str().context("a hold")?.to_owned();
        let account = team.get("/v1/realms/ajo/accounts/111").await?.expect(200)?;
        assert_eq!(account["assets"]["ajo"], json!({"balance": 100, "available": 40}));
        // What is on hold can be neither spent nor held twice.
        refused(&team.ask("holds", &hold("h2", 41)).await?, "funds")?;
        refused(&team.play("pay", "111", "p", json!({"to": "333", "amount": 41})).await?, "funds")?;
        refused(&team.play("gamble", "111", "g", json!({"amount": 41})).await?, "funds")?;
        let mut ends = JoinSet::new();
        for number in 0..16 {
            let (team, path) = (team.clone(), format!("holds/{id}/{}", if number % 2 == 0 { "capture" } else { "release" }));
            ends.spawn(async move { team.ask(&path, &json!({"key": format!("e{number}")})).await });
        }
        let answers = ends.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        assert_eq!(answers.iter().filter(|answer| answer["status"] == "done").count(), 1, "{answers:?}");
        let status = team.get(&format!("/v1/realms/ajo/holds/{id}")).await?.expect(200)?["status"].clone();
        let paid = if status == "captured" { 60 } else { 0 };
        assert_eq!((team.has("111", "ajo").await?, team.has("222", "ajo").await?), (100 - paid, paid));
        // Part of one: the rest is free.
        let id = team.ask("holds", &hold("h3", 20)).await?["hold"].as_str().context("a hold")?.to_owned();
        refused(&team.ask(&format!("holds/{id}/capture"), &json!({"key": "c0", "part": {"ajo": 21}})).await?, "funds")?;
        done(&team.ask(&format!("holds/{id}/capture"), &json!({"key": "c1", "part": {"ajo": 5}})).await?)?;
        let account = team.get("/v1/realms/ajo/accounts/111").await?.expect(200)?;
        assert_eq!(account["assets"]["ajo"], json!({"balance": 95 - paid, "available": 95 - paid}));
        // One that nobody ends does by itself, to the tick.
        let id = team.ask("holds", &hold("h4", 10)).await?["hold"].as_str().context("a hold")?.to_owned();
        site.clock.advance(Micros::saturating(600_000_000 - 1));
        assert_eq!(team.get(&format!("/v1/realms/ajo/holds/{id}")).await?.expect(200)?["status"], "open");
        site.clock.advance(Micros::saturating(1));
        refused(&team.ask(&format!("holds/{id}/capture"), &json!({"key": "c2"})).await?, "expired")?;
        refused(&team.ask("holds/ho_7/release", &json!({"key": "c3"})).await?, "unknown")?;
        let account = team.get("/v1/realms/ajo/accounts/111").await?.expect(200)?;
        assert_eq!(account["assets"]["ajo"]["available"], 95 - paid);
        // A trade: two holds, captured in one commit, or neither.
        let mine = team.ask("holds", &hold("h5", 30)).await?["hold"].clone();
        let theirs = team.ask("holds", &json!({"key": "h6", "legs": [leg("222", "111", "bone", 3)], "in": "1h"})).await?["hold"].clone();
        refused(&team.ask("commits", &json!({"key": "t0", "capture": [mine, "ho_9"]})).await?, "unknown")?;
        let traded = team.ask("commits", &json!({"key": "t1", "capture": [mine, theirs]})).await?;
        done(&traded)?;
        assert_eq!((team.has("111", "bone").await?, team.has("222", "bone").await?), (3, 0));
        assert_eq!(team.has("111", "ajo").await?, 65 - paid);
        // What was done can be undone, once.
        let commit = traded["commit"].as_str().context("a commit")?.to_owned();
        done(&team.ask(&format!("commits/{commit}/revert"), &json!({"key": "r1"})).await?)?;
        refused(&team.ask(&format!("commits/{commit}/revert"), &json!({"key": "r2"})).await?, "reverted")?;
        assert_eq!((team.has("222", "bone").await?, team.has("111", "ajo").await?), (3, 95 - paid));
        team.audited().await?;
        Ok(())
    })
    .await
}

/// The board, page by page, is exactly the balances.
async fn board_is_right(team: &Caller, owners: &[String]) -> Result<()> {
    let board = team.get("/v1/realms/ajo/boards/ajo?limit=200").await?.expect(200)?;
    let rows = board["items"].as_array().context("rows")?;
    let shown: BTreeMap<String, i64> =
        rows.iter().map(|row| (row["owner"].as_str().unwrap_or_default().to_owned(), row["balance"].as_i64().unwrap_or(-1))).collect();
    let mut balances = BTreeMap::new();
    for owner in owners {
        let has = team.has(owner, "ajo").await?;
        if has > 0 {
            balances.insert(owner.clone(), has);
        }
    }
    ensure!(shown == balances, "the board shows {shown:?}, the accounts {balances:?}");
    ensure!(rows.is_sorted_by_key(|row| -row["balance"].as_i64().unwrap_or(0)), "{board}");
    for row in rows {
        let owner = row["owner"].as_str().context("an owner")?;
        let around = team.get(&format!("/v1/realms/ajo/boards/ajo?around={owner}&limit=3")).await?.expect(200)?;
        ensure!(around["rank"] == row["rank"], "{owner}: {around}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn board_equals_balances() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        let owners: Vec<String> = (0..40).map(|number| format!("o{number}")).collect();
        for (number, owner) in owners.iter().enumerate().filter(|(number, _)| number % 4 != 0) {
            team.mint(owner, "ajo", u64::try_from(1 + number % 7)?).await?;
        }
        // Who got there first leads among equals.
        let board = team.get("/v1/realms/ajo/boards/ajo?limit=4").await?.expect(200)?;
        let first: Vec<_> = board["items"].as_array().into_iter().flatten().filter_map(|row| row["owner"].as_str()).collect();
        assert_eq!(first, ["o6", "o13", "o27", "o34"]);
        for (number, owner) in owners.iter().enumerate().take(20) {
            team.play("pay", owner, &format!("p{number}"), json!({"to": owners[39 - number], "amount": 1 + number % 3})).await?;
        }
        board_is_right(team, &owners).await?;
        assert_eq!(team.get("/v1/realms/ajo/boards/ajo?around=nobody").await?.expect(200)?["rank"], Value::Null);
        team.get("/v1/realms/ajo/boards/bone").await?.problem(404, "not_found", Some("board"))?;
        Ok(())
    })
    .await
}

/// 64 players at once on three owners and their money; value is conserved at every look, and the books add up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conservation_under_64_parallel_players() -> Result<()> {
    for store in Store::ALL {
        println!("on {store:?}");
        let live = Live::start(&shared(store)?, &unique("players")).await?;
        let team = &live.team;
        apply_ajo(team)?;
        for owner in ["1", "2", "3"] {
            team.mint(owner, "ajo", 10_000).await?;
            team.mint(owner, "herb", 10).await?;
        }
        let (stop, number) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let looks = {
            let (team, stop) = (team.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut looks = 0;
                while !stop.load(Ordering::SeqCst) {
                    team.audited().await?;
                    looks += 1;
                }
                anyhow::Ok(looks)
            })
        };
        let mut players = JoinSet::new();
        for player in 0..64_u64 {
            let (team, number) = (team.clone(), Arc::clone(&number));
            players.spawn(async move {
                for turn in 0..12_u64 {
                    let key = format!("n{}", number.fetch_add(1, Ordering::SeqCst));
                    let (by, to) = ((player + turn) % 3 + 1, (player + turn + 1) % 3 + 1);
                    let (by, to) = (by.to_string(), to.to_string());
                    match (player + turn) % 6 {
                        0 => team.play("farm", &by, &key, json!({})).await?,
                        1 => team.play("gamble", &by, &key, json!({"amount": turn + 1})).await?,
                        2 => team.play("trade", &by, &key, json!({"to": to, "item": "herb", "qty": 1 + turn % 3})).await?,
                        3 => team.play("craft", &by, &key, json!({"item": "gear"})).await?,
                        _ => team.play("pay", &by, &key, json!({"to": to, "amount": 1 + turn})).await?,
                    };
                }
                anyhow::Ok(())
            });
        }
        players.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        stop.store(true, Ordering::SeqCst);
        let looks: u64 = looks.await??;
        let audit = team.audited().await?;
        println!("{} commits, audited {looks} times meanwhile", audit["commits"]);
        board_is_right(team, &["1", "2", "3"].map(str::to_owned)).await?;
        // What everybody has is what was minted and not burnt.
        let supply = team.get("/v1/realms/ajo/supply").await?.expect(200)?;
        for item in supply["items"].as_array().context("items")? {
            let asset = item["asset"].as_str().context("an asset")?;
            let mut sum = 0;
            for owner in ["1", "2", "3"] {
                sum += team.has(owner, asset).await?;
            }
            assert_eq!(item["supply"], sum, "{item}");
        }
        live.stop().await;
    }
    Ok(())
}

/// A realm is changed again and again while it is played in: every answer is by one version, none is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalog_swap_under_load() -> Result<()> {
    // The wage stands in it twice: once as it is, once in a formula that must be read before.
    let definition = |wage: i64| {
        let paid = |asset: &str, qty: Value| json!({"move": {"from": "@mint", "to": "by", "asset": asset, "qty": qty}});
        let steps = [paid("ajo", json!(wage)), paid("tip", json!(format!("balance(by, 'tip') * 0 + {wage}")))];
        json!({"assets": {"ajo": {"kind": "currency"}, "tip": {"kind": "currency"}}, "plays": {"work": {"do": steps}}})
    };
    for store in Store::ALL {
        println!("on {store:?}");
        let live = Live::start(&shared(store)?, &unique("swap")).await?;
        let team = &live.team;
        // Where servers share a store, half of the load goes to one that learns of changes later.
        let beside = if store == Store::Embedded { None } else { Some(live.beside(&shared(store)?).await?) };
        team.put("/v1/realms/ajo", &definition(1)).await?.expect(201)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut workers = JoinSet::new();
        if let Some((_, other)) = &beside {
            let ask = Ask::new("GET", "/v1/realms/ajo", "");
            let other = other.clone();
            tokio::task::spawn_blocking(move || other.until(SOON, "the other server knows the realm", &ask, |reply| reply.status == 200))
                .await??;
        }
        for worker in 0..8 {
            let asked = beside.as_ref().filter(|_| worker % 2 == 0).map_or(team, |(_, other)| other);
            let (team, stop) = (asked.clone(), Arc::clone(&stop));
            workers.spawn(async move {
                let mut wages = Vec::new();
                for turn in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let told = team.play("work", &format!("w{worker}"), &format!("{worker}-{turn}"), json!({})).await?;
                    done(&told)?;
                    let paid: Vec<_> = told["events"].as_array().into_iter().flatten().map(|event| event["amount"].as_i64()).collect();
                    ensure!(paid.len() == 2 && paid[0] == paid[1], "both are by one version: {told}");
                    wages.push(paid[0].unwrap_or(0));
                }
                anyhow::Ok(wages)
            });
        }
        for wage in 2..12 {
            team.put("/v1/realms/ajo", &definition(wage)).await?.expect(200)?;
            let told = team.play("work", "boss", &format!("boss-{wage}"), json!({})).await?;
            assert_eq!(told["events"][0]["amount"], wage, "who changed it sees it at once");
        }
        stop.store(true, Ordering::SeqCst);
        for wages in workers.join_all().await {
            let wages = wages?;
            ensure!(wages.is_sorted(), "no older version comes after a newer one: {wages:?}");
        }
        team.audited().await?;
        if let Some((server, _)) = beside {
            server.shutdown().await;
        }
        live.stop().await;
    }
    Ok(())
}

/// Commits share a call. One that fails takes those beside it along neither in the answer nor in the books.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_before_a_call_failed_is_whole() -> Result<()> {
    let redis = Redis::start()?;
    let site = Site::start_with(|config| Config { store: redis.url(), ..config }).await?;
    let (team, broken) = (site.admin.space("whole").await?, site.admin.space("broken").await?);
    for team in [&team, &broken] {
        apply_ajo(team)?;
        for owner in 0..8 {
            team.mint(&owner.to_string(), "ajo", 1_000).await?;
        }
    }
    // Nobody but us writes here; a key of another kind is what makes a command fail after others have run.
    let cells: Vec<String> = redis.ask(&["KEYS", "hm:{broken/*}:realm:ajo:cells"])?;
    redis.ask::<()>(&["SET", cells.first().context("it has accounts")?, "not a hash"])?;
    let mut all = JoinSet::new();
    for caller in 0..32_u64 {
        let is_broken = caller % 4 == 0;
        let team = if is_broken { broken.clone() } else { team.clone() };
        all.spawn(async move {
            for round in 0..20 {
                let legs = [leg(&(caller % 8).to_string(), &((caller + round + 1) % 8).to_string(), "ajo", 1)];
                let body = json!({"key": format!("{caller}-{round}"), "legs": legs});
                if caller % 8 != (caller + round + 1) % 8 {
                    let told = team.post("/v1/realms/ajo/commits", &body).await?;
                    ensure!(is_broken || told.status == 200, "{told:?}");
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    team.audited().await?;
    board_is_right(&team, &(0..8).map(|owner| owner.to_string()).collect::<Vec<_>>()).await?;
    site.server.shutdown().await;
    Ok(())
}

/// `kill -9` under load, many times; after each, every acknowledged commit is there, once, and the books add up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drop_is_not_lost_on_crash() -> Result<()> {
    let mut hermod = Hermod::serve::<&str>([])?;
    let key = hermod.admin_key()?;
    let caller = |url: &str| Caller::new(url, Some(&key));
    let team = caller(hermod.url()?);
    apply_ajo(&team)?;
    team.mint("111", "ajo", 100_000).await?;
    team.mint("111", "chopsticks", 5).await?;
    let acknowledged = Arc::new(Mutex::new(Vec::<(String, u64)>::new()));
    for round in 1..=8_u64 {
        let team = caller(hermod.url()?);
        let mut players = JoinSet::new();
        let before = acknowledged.lock().unwrap().len();
        for player in 0..8 {
            let (team, acknowledged) = (team.clone(), Arc::clone(&acknowledged));
            players.spawn(async move {
                for turn in 0_u64.. {
                    let key = format!("{round}-{player}-{turn}");
                    let Ok(told) = team.play("farm", "111", &key, json!({})).await else { break };
                    // Who met too many vampires is refused.
                    if let Some(seq) = told["seq"].as_u64() {
                        acknowledged.lock().unwrap().push((key, seq));
                    }
                }
            });
        }
        let enough = before + 20 + usize::try_from(round)? * 5;
        let load = {
            let acknowledged = Arc::clone(&acknowledged);
            tokio::task::spawn_blocking(move || until(SOON, "the load is under way", || acknowledged.lock().unwrap().len() >= enough))
        };
        load.await??;
        hermod.kill9()?;
        players.join_all().await;
        hermod.restart()?;
        let team = caller(hermod.url()?);
        team.audited().await?;
        if round % 2 == 0 && round < 8 {
            // The vampires begin anew, or they would refuse everything.
            done(&team.play("use-chopsticks", "111", &format!("chopsticks-{round}"), json!({})).await?)?;
        }
        // By key: each acknowledged commit is there under its number, and no key twice.
        let ledger = team.ledger().await?;
        let by_key: BTreeMap<_, _> =
            ledger.iter().map(|commit| (commit["key"].as_str().unwrap_or_default(), commit["seq"].as_u64())).collect();
        ensure!(by_key.len() == ledger.len(), "a key is there twice");
        for (key, seq) in acknowledged.lock().unwrap().iter() {
            ensure!(by_key.get(key.as_str()) == Some(&Some(*seq)), "round {round}: {key} was {seq}, and is {:?}", by_key.get(key.as_str()));
        }
        // What is asked for again is not done again.
        let (key, seq) = acknowledged.lock().unwrap().last().cloned().context("something was acknowledged")?;
        let again = team.play("farm", "111", &key, json!({})).await?;
        assert_eq!((&again["replayed"], again["seq"].as_u64()), (&json!(true), Some(seq)));
    }
    println!("{} acknowledged plays, 8 kills, none lost", acknowledged.lock().unwrap().len());
    Ok(())
}

/// The ledger alone says what everybody has: computed here, by another hand than the audit's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_replays_to_state() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        for owner in ["111", "222"] {
            team.mint(owner, "ajo", 500).await?;
        }
        for number in 0..25 {
            let (by, to) = if number % 2 == 0 { ("111", "222") } else { ("222", "111") };
            team.play("farm", by, &format!("f{number}"), json!({})).await?;
            team.play("gamble", by, &format!("g{number}"), json!({"amount": number + 1})).await?;
            team.play("pay", by, &format!("p{number}"), json!({"to": to, "amount": 3})).await?;
        }
        let mut books = BTreeMap::<(String, String), i64>::new();
        let ledger = team.ledger().await?;
        for leg in ledger.iter().flat_map(|commit| commit["legs"].as_array().into_iter().flatten()) {
            let text = |field: &str| leg[field].as_str().unwrap_or_default().to_owned();
            let qty = leg["qty"].as_i64().context("a quantity")?;
            *books.entry((text("from"), text("asset"))).or_default() -= qty;
            *books.entry((text("to"), text("asset"))).or_default() += qty;
        }
        for owner in ["111", "222"] {
            let account = team.get(&format!("/v1/realms/ajo/accounts/{owner}")).await?.expect(200)?;
            let has: BTreeMap<_, _> = account["assets"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(asset, is)| (asset.clone(), is["balance"].as_i64().unwrap_or(0)))
                .collect();
            let says: BTreeMap<_, _> =
                books.iter().filter(|((of, _), has)| of == owner && **has != 0).map(|((_, asset), has)| (asset.clone(), *has)).collect();
            assert_eq!(has, says);
        }
        for asset in ["ajo", "herb", "bone"] {
            assert_eq!(books.iter().filter(|((_, of), _)| of == asset).map(|(_, has)| has).sum::<i64>(), 0, "{asset} adds up to nothing");
        }
        // The two streams have every change once, in order.
        let (mut after, mut events) = (0, Vec::new());
        loop {
            let page = team.get(&format!("/v1/realms/ajo/events?after={after}&limit=7")).await?.expect(200)?;
            events.extend(page["items"].as_array().context("items")?.iter().cloned());
            after = page["after"].as_u64().context("after")?;
            if page["more"] == false {
                break;
            }
        }
        let of = async |stream: &str| team.get(&format!("/v1/realms/ajo/events?stream={stream}&limit=200")).await?.expect(200);
        let (money, items) = (of("currency").await?, of("inventory").await?);
        let count = |page: &Value| page["items"].as_array().map_or(0, Vec::len);
        assert_eq!(count(&money) + count(&items), events.len());
        let sum: i64 = events.iter().filter(|event| event["user_id"] == "111").filter_map(|event| event["amount"].as_i64()).sum();
        assert_eq!(sum, team.has("111", "ajo").await?);
        ensure!(events.iter().all(|event| event["version"] == 1 && event["guild_id"] == "0" && event["type"].is_string()), "{events:?}");
        Ok(())
    })
    .await
}
