//! What a realm gives, computed by hand and by trying it.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::play::apply_ajo;
use crate::queue::on_every_store;

/// What a gamble of 100 brings on average. One in four wins 2.5 times a number of 1 to 100, rounded up: 126.25, and a half more for
/// every other one. The others lose 100.
const GAMBLE: f64 = 126.5 / 4.0 - 75.0;

fn number(value: &Value) -> Result<f64> {
    value.as_f64().with_context(|| format!("{value} is no number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odds_are_what_they_come_to_by_hand() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        let odds = team.get("/v1/realms/ajo/odds").await?.expect(200)?;
        let drop = json!({"sauropod": 0.001, "chopsticks": 0.25, "cross": 0.5, "bomb": 0.9, "herb": 4.0, "shoe": 0.3, "eggplant": 0.3,
            "bone": 2.5, "tooth": 2.0, "gear": 0.6});
        assert_eq!(odds["tables"], json!({"drop": drop}));
        // Of 2,000 runs the average is off by 2.3, and five times as much about never.
        let gamble = &odds["plays"]["gamble"]["gains"]["ajo"];
        let mean = number(&gamble["mean"])?;
        assert!((mean - GAMBLE).abs() < 12.0, "{mean} is not about {GAMBLE}");
        assert_eq!((&gamble["min"], &gamble["p50"]), (&json!(-100), &json!(-100)));
        // It appears to two of a hundred, and takes the ribbon of whoever has plenty.
        let vampire = &odds["plays"]["vampire"];
        let bitten = vampire["runs"].as_u64().zip(vampire["refused"]["none"].as_u64()).map(|(runs, none)| runs - none);
        assert!(bitten.is_some_and(|bitten| (10..=80).contains(&bitten)), "{vampire}");
        let ribbon = &vampire["gains"]["ribbon"];
        assert_eq!((&ribbon["min"], &ribbon["max"], &vampire["gains"]["ajo"]), (&json!(-1), &json!(0), &Value::Null));
        // All that may draw was tried.
        let plays: Vec<_> = odds["plays"].as_object().into_iter().flatten().map(|(play, _)| play.as_str()).collect();
        assert_eq!(plays, ["discombobulate", "drop", "farm", "gamble", "roulette", "set-bomb", "vampire"]);
        assert_eq!(odds["unknown"], json!({}));

        team.mint("111", "ajo", 100).await?;
        let ask = json!({"play": "gamble", "by": "111", "args": {"amount": 100}, "n": 8_000});
        let told = team.ask("simulate", &ask).await?;
        assert_eq!((&told["runs"], &told["done"]), (&json!(8_000), &json!(8_000)));
        let gain = &told["gains"]["ajo"];
        let mean = number(&gain["mean"])?;
        assert!((mean - GAMBLE).abs() < 7.0, "{mean} is not about {GAMBLE}");
        // Three of four lose; the upper two fifths of those who win are one in ten, and begin with 60, which brings 150.
        assert_eq!((&gain["min"], &gain["p50"], &gain["max"]), (&json!(-100), &json!(-100), &json!(250)));
        assert!((140.0..=160.0).contains(&number(&gain["p90"])?), "{gain}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_play_that_cannot_be_tried_is_named() -> Result<()> {
    let win = json!([{"move": {"from": "@mint", "to": "by", "asset": "coin", "qty": "n * won", "event": "won"}}]);
    let bet = json!({"args": {"n": "amount"}, "roll": {"won": [0, 1]}, "do": win});
    let mut wrong = bet.clone();
    wrong["sample"] = json!({"n": "many"});
    let mut shy = bet.clone();
    shy["need"] = json!([{"if": "n > 5", "else": "low"}]);
    shy["sample"] = json!({"n": 1});
    let den = json!({
        "assets": {"coin": {}},
        "rules": [{"on": "took", "play": "luck"}],
        "plays": {
            "bet": bet, "wrong": wrong, "shy": shy,
            "gives": {"args": {"n": "amount"}, "do": [{"move": {"from": "@mint", "to": "by", "asset": "coin", "qty": "n", "event": "given"}}]},
            "takes": {"args": {"n": "amount"}, "do": [{"move": {"from": "by", "to": "@burn", "asset": "coin", "qty": "n", "event": "took"}}]},
            "luck": {"internal": true, "roll": {"l": [1, 6]}, "do": [{"move": {"from": "@mint", "to": "by", "asset": "coin", "qty": "l"}}]},
        },
    });
    on_every_store(async |_, team| {
        team.put("/v1/realms/den", &den).await?.expect(201)?;
        let odds = team.get("/v1/realms/den/odds").await?.expect(200)?;
        let unknown = odds["unknown"].as_object().context("what is unknown")?;
        // One that draws nothing has no odds; one from which such a play follows has.
        assert_eq!(unknown.keys().collect::<Vec<_>>(), ["bet", "shy", "takes", "wrong"]);
        assert_eq!((&unknown["bet"], &unknown["takes"]), (&json!("give a sample"), &json!("give a sample")));
        assert_eq!(unknown["shy"], "give a sample with which it draws");
        assert!(unknown["wrong"].as_str().is_some_and(|told| told.starts_with("give another sample: n ")), "{odds}");
        assert_eq!(
            (&odds["plays"]["luck"]["gains"]["coin"]["min"], &odds["plays"]["luck"]["gains"]["coin"]["max"]),
            (&json!(1), &json!(6))
        );
        Ok(())
    })
    .await
}
