//! Arguments that are none: whatever stands in the place of a number, a name or an id, it is refused or an error of the caller, and
//! nothing is changed.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::play::{apply_ajo, done};
use crate::http::site::{Ask, Caller};
use crate::queue::on_every_store;

/// What stands in the place of anything, as JSON has it or would not.
const NOTHING: [&str; 15] = [
    "NaN",
    "Infinity",
    "0x10",
    "1e309",
    "null",
    "[1]",
    "{\"a\":1}",
    "true",
    "\"\"",
    "\" \"",
    "\"a\\nb\"",
    "\"\\u0000\"",
    "\"self\"",
    "\"unknown\"",
    "-9223372036854775809",
];
/// What is no number that anything could be.
const NUMBERS: [&str; 15] = [
    "\"nan\"",
    "\"inf\"",
    "\"-inf\"",
    "\"0x10\"",
    "\"1e309\"",
    "\"1e3\"",
    "\"9223372036854775808\"",
    "9223372036854775808",
    "9007199254740992",
    "-1",
    "\"-1\"",
    "-0.5",
    "\"1_0\"",
    "\"\u{663}\"",
    "1e30",
];
/// Who never is an owner.
const OWNERS: [&str; 6] = ["\"@mint:farm\"", "\"@bank\"", "\"\"", "\"a\\nb\"", "null", "true"];

/// A request with a hole for the values.
struct Hole<'a> {
    path: String,
    body: &'a str,
    values: Vec<&'a str>,
}

fn hole<'a>(path: &str, body: &'a str, values: impl IntoIterator<Item = &'a &'a str>) -> Hole<'a> {
    Hole { path: format!("/v1/realms/ajo/{path}"), body, values: values.into_iter().copied().collect() }
}

/// All that could have changed.
async fn state(team: &Caller) -> Result<Vec<Value>> {
    let mut state = vec![team.get("/v1/realms/ajo/ledger").await?.expect(200)?];
    for owner in ["111", "222", "self", "unknown", "@house"] {
        state.push(team.get(&format!("/v1/realms/ajo/accounts/{owner}")).await?.expect(200)?);
    }
    Ok(state)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_stands_for_an_argument_changes_nothing() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        for (asset, qty) in [("ajo", 1_000), ("herb", 10), ("bomb", 1), ("tooth", 2)] {
            team.mint("111", asset, qty).await?;
        }
        let legs = json!([{"from": "111", "to": "222", "asset": "ajo", "qty": 10}]);
        let held = team.ask("holds", &json!({"key": "h", "legs": legs, "in": "1h"})).await?;
        let capture = format!("holds/{}/capture", held["hold"].as_str().context("a hold")?);
        let (huge, long) = (format!("\"{}\"", "9".repeat(100_000)), format!("\"{}\"", "x".repeat(100_000)));
        let texts: Vec<&str> = NOTHING.into_iter().chain(NUMBERS).chain([&*huge, &*long]).collect();
        // A text may be any text, and whoever it names owns nothing; so for those only what is no owner at all.
        let owners: Vec<&str> = OWNERS.into_iter().chain([&*long]).collect();
        // An amount of a play may be a text, that of a leg is a number.
        let holes = [
            hole("plays/trade", r#""by": "111", "args": {"to": "222", "item": "herb", "qty": HOLE}"#, &texts),
            hole("plays/trade", r#""by": "111", "args": {"to": "222", "item": HOLE}"#, &texts),
            hole("plays/trade", r#""by": "111", "args": {"to": HOLE, "item": "herb"}"#, owners.iter().chain(&["\"111\""])),
            hole("plays/discombobulate", r#""by": "111", "args": {"to": "222", "offer": HOLE}"#, texts.iter().chain(&["0", "\"all\""])),
            hole("plays/discombobulate", r#""by": "111", "args": {"to": HOLE, "offer": 10}"#, owners.iter().chain(&["\"111\""])),
            hole("plays/set-bomb", r#""by": "111", "args": {"delay": HOLE}"#, texts.iter().chain(&["28801"])),
            hole("plays/craft", r#""by": "111", "args": {"item": HOLE}"#, &texts),
            hole("plays/shot", r#""by": "111", "args": {"id": HOLE}"#, &texts),
            hole("plays/pay", r#""by": HOLE, "args": {"to": "222", "amount": 1}"#, &texts),
            hole("commits", r#""legs": [{"from": "111", "to": "222", "asset": "ajo", "qty": HOLE}]"#, texts.iter().chain(&["0", "1001"])),
            hole("commits", r#""legs": [{"from": "111", "to": "222", "asset": HOLE, "qty": 1}]"#, &texts),
            hole("commits", r#""legs": [{"from": HOLE, "to": "222", "asset": "ajo", "qty": 1}]"#, &texts),
            hole("commits", r#""legs": [{"from": "111", "to": HOLE, "asset": "ajo", "qty": 1}]"#, &owners),
            hole("commits", r#""legs": HOLE"#, texts.iter().chain(&["[]", "[{}]"])),
            hole("commits", r#""legs": [], "capture": [HOLE]"#, texts.iter().chain(&["\"ho_\"", "\"ho_-1\"", "\"ho_0x10\"", "\"ho_1\""])),
            hole(
                "commits",
                r#""legs": [], "effects": [{"name": "gain", "of": "111", "value": HOLE, "for": "1h"}]"#,
                texts.iter().filter(|text| **text != "-1"),
            ),
            hole("commits", r#""legs": [], "timers": [{"timer": HOLE, "of": "111"}]"#, &texts),
            hole(
                "holds",
                r#""in": "1h", "legs": [{"from": "111", "to": "222", "asset": "ajo", "qty": HOLE}]"#,
                texts.iter().chain(&["0", "991"]),
            ),
            hole(
                "holds",
                r#""in": HOLE, "legs": [{"from": "111", "to": "222", "asset": "ajo", "qty": 1}]"#,
                texts.iter().chain(&["\"-1h\""]),
            ),
            hole("holds", r#""at": HOLE, "legs": [{"from": "111", "to": "222", "asset": "ajo", "qty": 1}]"#, &texts),
            hole(&capture, r#""part": {"ajo": HOLE}"#, texts.iter().chain(&["11"])),
            hole(&capture, r#""part": {HOLE: 1}"#, &texts),
            hole("simulate", r#""play": "gamble", "by": "111", "args": {"amount": HOLE}"#, texts.iter().chain(&["0"])),
            hole(
                "simulate",
                r#""play": "gamble", "by": "111", "args": {"amount": 1}, "n": HOLE"#,
                texts.iter().filter(|text| **text != "null").chain(&["0", "100001"]),
            ),
            hole("simulate", r#""play": HOLE, "by": "111", "args": {"amount": 1}"#, &texts),
        ];
        let before = state(team).await?;
        let mut number = 0;
        for Hole { path, body, values } in &holes {
            for value in values {
                number += 1;
                let key = if path.ends_with("simulate") { String::new() } else { format!(r#""key": "fuzz-{number}", "#) };
                let body = format!("{{{key}{}}}", body.replace("HOLE", value));
                let reply = team.send(&Ask::new("POST", path.as_str(), &body)).await?;
                let shown: String = body.chars().take(200).collect();
                let told = || reply.text().chars().take(500).collect::<String>();
                if reply.status == 200 {
                    let answer = reply.expect(200)?;
                    let is_refused = answer["status"] == "refused" || (answer["done"] == 0 && answer["gains"] == json!({}));
                    ensure!(is_refused, "{path} with {shown}: {}", told());
                } else {
                    ensure!((400..500).contains(&reply.status), "{path} with {shown}: {} {}", reply.status, told());
                }
            }
            ensure!(state(team).await? == before, "{path} with {body} has changed something");
        }
        team.audited().await?;
        // What was aimed at is still there.
        done(&team.ask(&capture, &json!({"key": "last", "part": {"ajo": 10}})).await?)
    })
    .await
}
