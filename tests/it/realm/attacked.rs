//! What a tester did to realms, each a row of its own.

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use serde_json::{Value, json};

use super::play::{done, refused};
use crate::http::site::{Caller, SOON};
use crate::queue::on_every_store;

const REALM: &str = "/v1/realms/x";

fn coins(plays: Value) -> Value {
    json!({"assets": {"coin": {"kind": "currency"}, "cap": {"max": 10}}, "counters": {"ran": {}}, "plays": plays})
}

fn mint(qty: &str) -> Value {
    json!({"move": {"from": "@mint", "to": "by", "asset": "coin", "qty": qty}})
}

async fn play(team: &Caller, play: &str, key: &str, args: Value) -> Result<Value> {
    team.post(&format!("{REALM}/plays/{play}"), &json!({"by": "u", "key": key, "args": args})).await?.expect(200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_refer_to_themselves_are_refused() -> Result<()> {
    let site = crate::http::site::Site::start().await?;
    let chain: Value =
        (0..40).map(|n| (format!("a{n}"), json!(format!("a{} + 0", n + 1)))).chain([("a40".to_owned(), json!("1"))]).collect();
    let many: Value = (0..800).map(|n| (format!("a{n}"), json!(format!("a{} + 0", n + 1)))).collect();
    for (play, field) in [
        (json!({"let": {"a": "b", "b": "a"}, "do": [mint("a")]}), "plays.p.let.a"),
        (json!({"let": {"a": "a + 1"}, "do": [mint("a")]}), "plays.p.let.a"),
        (json!({"roll": {"x": ["x", 5]}, "do": [mint("x")]}), "plays.p.roll.x"),
        (json!({"roll": {"x": ["y", 5], "y": ["x", 5]}, "do": [mint("x")]}), "plays.p.roll.x"),
        (json!({"let": {"a": "r"}, "roll": {"r": ["a", 5]}, "do": [mint("a")]}), "plays.p.let.a"),
        (json!({"let": chain, "do": [mint("a0")]}), "plays.p.let.a16"),
        (json!({"let": many, "do": [mint("a0")]}), "plays.p.let"),
        (json!({"do": [{"move": {"from": "'@foo'", "to": "by", "asset": "coin", "qty": 1}}]}), "plays.p.do[0].move.from"),
    ] {
        let reply = site.admin.put(REALM, &coins(json!({"p": play}))).await?;
        ensure!(reply.status == 400, "{field}: {} {}", reply.status, reply.text().chars().take(500).collect::<String>());
        let faults = reply.text();
        ensure!(faults.contains(&format!("\"{field}\"")), "{field} is not named: {}", faults.chars().take(500).collect::<String>());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_spent_first_must_be_there_first() -> Result<()> {
    on_every_store(async |_, team| {
        let to_house = |qty: &str| json!({"move": {"from": "by", "to": "@house", "asset": "coin", "qty": qty}});
        let cap = |from: &str, to: &str, qty: i64| json!({"move": {"from": from, "to": to, "asset": "cap", "qty": qty}});
        let plays = json!({
            "bet": {"args": {"stake": "amount"}, "do": [to_house("stake"), {"move": {"from": "@house", "to": "by", "asset": "coin", "qty": "2 * stake"}}]},
            "back": {"do": [to_house("100"), mint("100")]},
            "over": {"do": [cap("@mint", "by", 12), cap("by", "@burn", 5)]},
            "self": {"args": {"q": "amount"}, "do": [{"move": {"from": "by", "to": "by", "asset": "coin", "qty": "q"}}]},
            "any": {"args": {"from": "text"}, "do": [{"move": {"from": "from", "to": "by", "asset": "coin", "qty": 5}}]},
        });
        team.put(REALM, &coins(plays)).await?.expect(201)?;
        refused(&play(team, "bet", "1", json!({"stake": 1000})).await?, "funds")?;
        refused(&play(team, "back", "2", json!({})).await?, "funds")?;
        refused(&play(team, "over", "3", json!({})).await?, "stack")?;
        refused(&play(team, "self", "4", json!({"q": 1_000_000})).await?, "funds")?;
        for (key, own) in [("5", "@foo"), ("6", "@mint:zzz"), ("7", "@house"), ("8", "@mint"), ("9", "@burn:p")] {
            let reply = team.post(&format!("{REALM}/plays/any"), &json!({"by": "u", "key": key, "args": {"from": own}})).await?;
            reply.problem(422, "play_failed", None)?;
        }
        let commit = async |key: &str, legs: Value| team.post(&format!("{REALM}/commits"), &json!({"key": key, "legs": legs})).await?.expect(200);
        let leg = |from: &str, to: &str, asset: &str, qty: u64| json!({"from": from, "to": to, "asset": asset, "qty": qty, "overflow": "burn"});
        done(&commit("c1", json!([leg("@mint", "a", "cap", 10), leg("@mint", "a", "coin", 100)])).await?)?;
        refused(&commit("c2", json!([leg("a", "a", "coin", 500)])).await?, "funds")?;
        refused(&commit("c3", json!([leg("d", "e", "coin", 5), leg("a", "d", "coin", 5)])).await?, "funds")?;
        done(&commit("c4", json!([leg("a", "d", "coin", 5), leg("d", "e", "coin", 5)])).await?)?;
        // To oneself nothing is burnt.
        done(&commit("c5", json!([leg("a", "a", "cap", 5)])).await?)?;
        let account = team.get(&format!("{REALM}/accounts/a")).await?.expect(200)?;
        assert_eq!((&account["assets"]["cap"]["balance"], &account["assets"]["coin"]["balance"]), (&json!(10), &json!(95)));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_much_in_one_commit_is_refused_in_words() -> Result<()> {
    on_every_store(async |_, team| {
        let moves = |event: &str, many: usize| -> Value {
            (0..many).map(|_| json!({"move": {"from": "@mint", "to": "by", "asset": "coin", "qty": 1, "event": event}})).collect()
        };
        let mut realm = coins(json!({
            "many": {"do": moves("a", 16)}, "more": {"internal": true, "do": moves("b", 15)},
            "later": {"do": [{"schedule": {"play": "ran", "in": 0}}]},
            "loop": {"do": moves("c", 1)}, "again": {"internal": true, "do": moves("c", 1)},
            "ran": {"internal": true, "do": [{"counter": {"name": "ran", "add": 1}}]},
            "marks": {"do": (0..256).map(|n| json!({"counter": {"name": "ran", "of": format!("'u{n}'"), "clear": true}})).collect::<Value>()},
        }));
        realm["rules"] = json!([{"on": "a", "play": "more"}, {"on": "c", "play": "again", "mode": "after"}]);
        team.put(REALM, &realm).await?.expect(201)?;
        for name in ["many", "marks"] {
            team.post(&format!("{REALM}/plays/{name}"), &json!({"by": "u", "key": name})).await?.problem(422, "play_failed", None)?;
        }
        // Four holds of 64 legs each are more than one commit takes.
        done(&play(team, "loop", "seed", json!({})).await?)?;
        let seeded = json!({"key": "coins", "legs": [{"from": "@mint", "to": "a", "asset": "coin", "qty": 1000}]});
        done(&team.post(&format!("{REALM}/commits"), &seeded).await?.expect(200)?)?;
        let mut holds = Vec::new();
        for number in 0..4 {
            let legs: Vec<Value> = (0..64).map(|_| json!({"from": "a", "to": "b", "asset": "coin", "qty": 1})).collect();
            let held =
                team.post(&format!("{REALM}/holds"), &json!({"key": format!("h{number}"), "legs": legs, "in": "1h"})).await?.expect(200)?;
            holds.push(held["hold"].as_str().context("a hold")?.to_owned());
        }
        team.post(&format!("{REALM}/commits"), &json!({"key": "all", "capture": holds})).await?.problem(422, "play_failed", None)?;
        done(&team.post(&format!("{REALM}/commits"), &json!({"key": "two", "capture": holds[..2]})).await?.expect(200)?)?;
        // What follows from itself for ever holds up nobody else.
        done(&play(team, "later", "l", json!({})).await?)?;
        let began = std::time::Instant::now();
        while team.get(&format!("{REALM}/accounts/u")).await?.expect(200)?["counters"]["ran"]["value"] != 1 {
            ensure!(began.elapsed() < SOON, "what was scheduled did not run");
        }
        // Now it ends.
        realm["rules"] = json!([]);
        team.put(REALM, &realm).await?.expect(200)?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_realm_are_its_own_and_pages_end() -> Result<()> {
    on_every_store(async |_, team| {
        team.put(REALM, &coins(json!({"p": {"do": [mint("1")]}}))).await?.expect(201)?;
        // A subject of the realm's name, under the same key.
        let check = crate::http::site::Ask::json("POST", "/v1/limit/check", &json!({"subject": "x", "action": "a"})).once("I1");
        team.send(&check).await?.expect(200)?;
        done(&play(team, "p", "I1", json!({})).await?)?;
        for path in ["events?after=18446744073709551615", "ledger?cursor=18446744073709551615", "events?after=9007199254740991"] {
            team.get(&format!("{REALM}/{path}")).await?.expect(200)?;
        }
        Ok(())
    })
    .await
}

/// What a play that follows only looked at, before it was refused, is moved by the play it follows from, with its board and bounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_play_that_followed_leaves_no_trace_on_what_comes_after() -> Result<()> {
    on_every_store(async |_, team| {
        let step = |asset: &str, event: &str| json!({"move": {"from": "@mint", "to": "by", "asset": asset, "qty": 1, "event": event}});
        let realm = json!({
            "assets": {"coin": {"kind": "currency", "board": true, "max": 2}, "cap": {}},
            "rules": [{"on": "capped", "play": "look"}],
            "plays": {
                "both": {"do": [step("cap", "capped"), step("coin", "paid")]},
                "look": {"internal": true, "need": [{"if": "balance(by, 'coin') > 100", "else": "poor"}]},
            },
        });
        team.put(REALM, &realm).await?.expect(201)?;
        for (key, rank) in [("1", 1), ("2", 2)] {
            let told = play(team, "both", key, json!({})).await?;
            assert_eq!((&told["also"][0]["code"], &told["balances"]["u"]["coin"]), (&json!("poor"), &json!(rank)), "{told}");
            let board = team.get(&format!("{REALM}/boards/coin")).await?.expect(200)?;
            assert_eq!(board["items"], json!([{"rank": 1, "owner": "u", "balance": rank}]));
        }
        refused(&play(team, "both", "3", json!({})).await?, "stack")
    })
    .await
}

/// A formula may compute the name of an asset, and of any length: there is none of it, and nobody falls over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_what_is_not_there_nobody_has_any() -> Result<()> {
    on_every_store(async |_, team| {
        let needs = json!([{"if": "balance(by, what) + room(by, what) + available(by, what) == 0", "else": "some"}]);
        team.put(REALM, &coins(json!({"p": {"args": {"what": "text"}, "need": needs, "do": [mint("1")]}}))).await?.expect(201)?;
        for (key, what) in [("1", "x".repeat(256)), ("2", "x".repeat(255)), ("3", "cap:".to_owned()), ("4", String::new())] {
            done(&play(team, "p", key, json!({"what": what})).await?)?;
        }
        refused(&play(team, "p", "5", json!({"what": "coin"})).await?, "some")?;
        let conditions = json!([{"if": format!("balance('u', 1 == 1 ? '{}' : 'b') == 0", "y".repeat(300))}]);
        let legs = json!([{"from": "@mint", "to": "u", "asset": "coin", "qty": 1}]);
        done(&team.post(&format!("{REALM}/commits"), &json!({"key": "c", "if": conditions, "legs": legs})).await?.expect(200)?)?;
        Ok(())
    })
    .await
}

/// As much as a commit can say is done in few looks at the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_commit_is_done_on_every_store() -> Result<()> {
    on_every_store(async |_, team| {
        team.put(REALM, &coins(json!({}))).await?.expect(201)?;
        let commit = async |body: Value| team.post(&format!("{REALM}/commits"), &body).await?.expect(200);
        let legs = |from: &str, overflow: &str| -> Value {
            (0..64).map(|n| json!({"from": from, "to": format!("u{n}"), "asset": "cap", "qty": 7, "overflow": overflow})).collect()
        };
        done(&commit(json!({"key": "1", "legs": legs("@mint", "clamp")})).await?)?;
        // Of what there is room for three.
        done(&commit(json!({"key": "2", "legs": legs("@mint", "clamp")})).await?)?;
        assert_eq!(team.get(&format!("{REALM}/accounts/u63")).await?.expect(200)?["assets"]["cap"]["balance"], 10);
        refused(&commit(json!({"dry_run": true, "legs": legs("@mint", "reject")})).await?, "stack")?;
        let pairs: Value = (0..32).map(|n| json!({"from": format!("u{n}"), "to": format!("v{n}"), "asset": "cap", "qty": 1})).collect();
        done(&commit(json!({"dry_run": true, "legs": pairs})).await?)?;
        let each = (0..24).map(|n| format!("balance('u{n}', 'cap') == 10")).collect::<Vec<_>>().join(" && ");
        let more = (24..48).map(|n| format!("balance('u{n}', 'cap') == 10")).collect::<Vec<_>>().join(" && ");
        let rest = (48..64).map(|n| format!("available('u{n}', 'cap') == 10")).collect::<Vec<_>>().join(" && ");
        let conditions = json!([{"if": each}, {"if": more}, {"if": rest}]);
        done(&commit(json!({"key": "3", "if": conditions, "legs": [{"from": "u0", "to": "v", "asset": "cap", "qty": 1}]})).await?)?;
        let mut holds = Vec::new();
        for n in 1..64 {
            let legs = json!([{"from": format!("u{n}"), "to": format!("w{n}"), "asset": "cap", "qty": 1}]);
            let held =
                team.post(&format!("{REALM}/holds"), &json!({"key": format!("h{n}"), "legs": legs, "in": "1h"})).await?.expect(200)?;
            holds.push(held["hold"].clone());
        }
        done(&commit(json!({"key": "4", "capture": holds})).await?)?;
        assert_eq!(team.get(&format!("{REALM}/accounts/w63")).await?.expect(200)?["assets"]["cap"]["balance"], 1);
        Ok(())
    })
    .await
}

/// A hold is known for longer than the key that it was made under.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_asked_for_again_after_its_key_is_forgotten_is_held_once() -> Result<()> {
    on_every_store(async |site, team| {
        team.put(REALM, &coins(json!({}))).await?.expect(201)?;
        let ask = async |path: &str, body: Value| team.post(&format!("{REALM}/{path}"), &body).await?.expect(200);
        done(&ask("commits", json!({"key": "m", "legs": [{"from": "@mint", "to": "u", "asset": "coin", "qty": 100}]})).await?)?;
        let hold = |key: &str| json!({"key": key, "legs": [{"from": "u", "to": "v", "asset": "coin", "qty": 10}], "in": "720h"});
        let (open, captured) = (ask("holds", hold("h1")).await?, ask("holds", hold("h2")).await?);
        let capture = format!("holds/{}/capture", captured["hold"].as_str().context("a hold")?);
        done(&ask(&capture, json!({"key": "c1"})).await?)?;
        site.clock.advance(Micros::saturating(80 * 3_600_000_000));
        refused(&ask("holds", hold("h1")).await?, "open")?;
        refused(&ask("holds", hold("h2")).await?, "captured")?;
        refused(&ask(&capture, json!({"key": "c2"})).await?, "captured")?;
        let account = team.get(&format!("{REALM}/accounts/u")).await?.expect(200)?;
        assert_eq!(account["assets"]["coin"], json!({"balance": 90, "available": 80}), "{open}");
        Ok(())
    })
    .await
}

/// What the realm itself owns is named by its definition only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_draws_for_the_realm_itself() -> Result<()> {
    on_every_store(async |_, team| {
        let mut realm = coins(json!({"p": {"args": {"who": "text"}, "do": [{"draw": {"table": "t", "to": "who"}}]}}));
        realm["tables"] = json!({"t": {"drops": {"coin": 1}, "of": 1}});
        team.put(REALM, &realm).await?.expect(201)?;
        for (key, own) in [("1", "@mint:zzz"), ("2", "@house"), ("3", "@burn")] {
            let reply = team.post(&format!("{REALM}/plays/p"), &json!({"by": "u", "key": key, "args": {"who": own}})).await?;
            reply.problem(422, "play_failed", None)?;
        }
        done(&play(team, "p", "4", json!({"who": "v"})).await?)
    })
    .await
}

/// What would be refused is refused dry too, also where a hold ends with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_capture_keeps_the_bounds() -> Result<()> {
    on_every_store(async |_, team| {
        team.put(REALM, &coins(json!({}))).await?.expect(201)?;
        let ask = async |path: &str, body: Value| team.post(&format!("{REALM}/{path}"), &body).await?.expect(200);
        done(&ask("commits", json!({"key": "m", "legs": [{"from": "@mint", "to": "u", "asset": "coin", "qty": 100}]})).await?)?;
        let legs = |to: &str, qty: u64| json!([{"from": "u", "to": to, "asset": "coin", "qty": qty}]);
        let held = ask("holds", json!({"key": "h", "legs": legs("v", 60), "in": "1h"})).await?["hold"].clone();
        for (qty, is_done) in [(41, false), (40, true)] {
            for body in [json!({"dry_run": true}), json!({"key": format!("c{qty}")})] {
                let mut body = body;
                (body["capture"], body["legs"]) = (json!([held]), legs("w", qty));
                let answer = ask("commits", body).await?;
                if is_done { done(&answer)? } else { refused(&answer, "funds")? }
            }
        }
        Ok(())
    })
    .await
}
