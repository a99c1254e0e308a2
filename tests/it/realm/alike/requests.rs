//! Requests of a realm that follow from a seed: plays, commits, holds, what ends holds and what undoes commits, most of them good.

use hermod_tests::history::Draws;
use serde_json::{Value, json};

use super::judge::Judge;

pub(super) const OWNERS: [&str; 4] = ["111", "222", "333", "4:4"];
pub(super) const ASSETS: [&str; 14] =
    ["ajo", "sauropod", "chopsticks", "cross", "bomb", "herb", "ribbon", "shoe", "eggplant", "bone", "tooth", "wand", "satellite", "gear"];
pub(super) const PLAYS: [&str; 22] = [
    "farm",
    "farm",
    "pay",
    "gamble",
    "daily",
    "weekly",
    "discombobulate",
    "roulette",
    "shot",
    "craft",
    "trade",
    "use-chopsticks",
    "use-cross",
    "use-shoe",
    "use-eggplant",
    "use-satellite",
    "set-bomb",
    "curse",
    "see-inventory",
    "streaked",
    "lucky",
    "vampire",
];

fn owner(draws: &mut Draws) -> &'static str {
    if draws.chance(4) { draws.one_of(&["", "@mint", "@house", "a\nb", "nobody"]) } else { draws.one_of(&OWNERS) }
}

fn amount(draws: &mut Draws) -> Value {
    if !draws.chance(12) {
        return json!(draws.one_of(&[1, 1, 2, 3, 5, 10, 40, 100, 350, 1_000]));
    }
    match draws.below(4) {
        0 => json!(draws.one_of(&[-1_i64, 0, 1 << 53])),
        1 => Value::Null,
        _ => json!(draws.one_of(&["nan", "inf", "0x10", "1e309", "9223372036854775808", "", "all", "-1", "1.5"])),
    }
}

/// A play with arguments for it, most of them good.
pub(super) fn random_play(draws: &mut Draws) -> (String, Value) {
    let play = if draws.chance(1) { "nope" } else { draws.one_of(&PLAYS) };
    let item = if draws.chance(5) { "spoon" } else { draws.one_of(&ASSETS) };
    let mut args = match play {
        "pay" => json!({"to": owner(draws), "amount": amount(draws)}),
        "gamble" => json!({"amount": amount(draws)}),
        "discombobulate" => json!({"to": owner(draws), "offer": amount(draws)}),
        "roulette" | "shot" => json!({"id": draws.one_of(&["a", "b", "c"])}),
        "craft" => json!({"item": draws.one_of(&["cross", "ribbon", "wand", "satellite", "gear", "bone", item])}),
        "trade" => json!({"to": owner(draws), "item": item, "qty": amount(draws)}),
        "set-bomb" => json!({"delay": draws.one_of(&[0, 60, 600, 28_800, 28_801])}),
        "curse" | "see-inventory" => json!({"to": owner(draws)}),
        _ => json!({}),
    };
    if draws.chance(2) {
        args["more"] = json!(1);
    }
    (format!("plays/{play}"), json!({"by": owner(draws), "args": args}))
}

fn legs(draws: &mut Draws) -> Value {
    let leg = |draws: &mut Draws| {
        let from = if draws.chance(60) { "@mint" } else { draws.one_of(&["@house", "111", "222", "333", "4:4"]) };
        let to = if draws.chance(80) { owner(draws) } else { draws.one_of(&["@burn", "@house"]) };
        let overflow = draws.one_of(&["reject", "reject", "clamp", "burn"]);
        json!({"from": from, "to": to, "asset": draws.one_of(&ASSETS), "qty": draws.one_of(&[1, 2, 5, 30, 400]), "overflow": overflow})
    };
    (0..=draws.below(3)).map(|_| leg(draws)).collect()
}

/// A commit, with conditions at times, or a hold, or the end of one.
pub(super) fn random_commit(draws: &mut Draws, judge: &Judge) -> (String, Value) {
    let recent = judge.holds.get(judge.holds.len().saturating_sub(4)..).unwrap_or_default();
    let hold = match recent.is_empty() || draws.chance(5) {
        true => "ho_7".to_owned(),
        false => recent[usize::try_from(draws.below(u64::try_from(recent.len()).unwrap())).unwrap()].clone(),
    };
    match draws.below(12) {
        0 | 1 => {
            let leg = |draws: &mut Draws| {
                let [from, to] = [draws.one_of(&OWNERS), draws.one_of(&OWNERS)];
                json!({"from": from, "to": to, "asset": draws.one_of(&["ajo", "ajo", "herb", "bone"]), "qty": draws.one_of(&[1, 3, 10, 50])})
            };
            let legs: Value = (0..=draws.below(2)).map(|_| leg(draws)).collect();
            ("holds".into(), json!({"legs": legs, "in": draws.one_of(&["1s", "10m", "1h", "30h"])}))
        }
        2 => {
            let part = if draws.chance(50) { Value::Null } else { json!({"ajo": draws.one_of(&[1, 10])}) };
            (format!("holds/{hold}/capture"), json!({"part": part}))
        }
        3 => (format!("holds/{hold}/release"), json!({})),
        4 => (format!("commits/cm_{}/revert", draws.below(judge.commits + 2)), json!({})),
        5 => {
            let timers = json!([{"timer": draws.one_of(&["daily", "streak"]), "of": draws.one_of(&OWNERS)}]);
            let value = draws.one_of(&[1, 2, 12]);
            let effects = json!([{"name": draws.one_of(&["gain", "buff", "curse"]), "of": draws.one_of(&OWNERS), "value": value,
                "for": "10m", "merge": draws.one_of(&["replace", "add", "max", "extend"])}]);
            (
                "commits".into(),
                json!({"legs": legs(draws), "timers": timers, "effects": effects, "capture": if draws.chance(30) { json!([hold]) } else { json!([]) }}),
            )
        }
        6 => {
            let condition = format!(
                "balance('{}', '{}') {} {}",
                draws.one_of(&OWNERS),
                draws.one_of(&ASSETS),
                draws.one_of(&[">", "<", "=="]),
                draws.below(60)
            );
            ("commits".into(), json!({"if": [{"if": condition, "else": "unmet"}], "legs": legs(draws)}))
        }
        // Some of everything, as far as there is room for it.
        7 | 8 => {
            let to = draws.one_of(&OWNERS);
            let leg = |asset: &&str| json!({"from": "@mint", "to": to, "asset": asset, "qty": 3, "overflow": "clamp"});
            ("commits".into(), json!({"legs": ASSETS.iter().map(leg).collect::<Value>()}))
        }
        _ => ("commits".into(), json!({"legs": legs(draws)})),
    }
}
