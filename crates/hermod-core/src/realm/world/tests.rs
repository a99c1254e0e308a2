use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::*;

/// Reads a definition, which must not take long however its parts refer to each other.
fn read(definition: Value) -> Result<Realm, Vec<Fault>> {
    let definition: Definition = serde_json::from_value(definition).unwrap();
    let began = Instant::now();
    let read = Realm::new(RealmId::new("den").unwrap(), Arc::new(definition), 1, [0; 32]);
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    read
}

fn earn(event: &str) -> Value {
    json!({"do": [{"move": {"from": "@mint", "to": "by", "asset": "coin", "qty": "1 + balance(by, 'coin')", "event": event}}]})
}

#[test]
fn rolls_that_refer_to_each_other_are_read_once() {
    let mut rolls = Map::new();
    for number in 0..15 {
        let next = format!("r{0} + r{0}", number + 1);
        rolls.insert(format!("r{number}"), json!([next, next]));
    }
    rolls.insert("r15".into(), json!([1, 2]));
    let mut play = earn("won");
    play["roll"] = Value::Object(rolls);
    let mut definition = json!({"assets": {"coin": {}}, "plays": {"bet": play}});
    read(definition.clone()).unwrap();
    // In a circle they have no value.
    definition["plays"]["bet"]["roll"]["r15"] = json!([1, "r0"]);
    let faults = read(definition).unwrap_err();
    assert!(faults.iter().any(|fault| fault.path.starts_with("plays.bet.roll.r")), "{faults:?}");
}

#[test]
fn many_plays_that_follow_from_many_are_read_in_no_time() {
    const MANY: usize = 190;
    // Each of a floor leaves an event that all of the next floor follow from.
    let house = |floors: usize| {
        let (mut plays, mut rules) = (Map::new(), Vec::new());
        for floor in 0..floors {
            for number in 0..MANY {
                let name = format!("f{floor}n{number}");
                plays.insert(name.clone(), earn(&format!("left{floor}")));
                if floor > 0 {
                    rules.push(json!({"on": format!("left{}", floor - 1), "play": name}));
                }
            }
        }
        json!({"assets": {"coin": {}}, "plays": plays, "rules": rules})
    };
    let realm = read(house(5)).unwrap();
    assert_eq!(realm.plays["f0n0"].hints.len(), 1, "all of them ask for the same");
    // One more follows than may.
    let mut high = house(5);
    high["plays"]["top"] = earn("top");
    high["rules"].as_array_mut().unwrap().push(json!({"on": "left4", "play": "top"}));
    assert_eq!(read(high).unwrap_err()[0].path, "rules");
    // All follow from each other, and themselves.
    let mut circle = house(1);
    circle["rules"] = (0..MANY).map(|number| json!({"on": "left0", "play": format!("f0n{number}")})).collect();
    assert_eq!(read(circle).unwrap_err()[0].path, "rules");
}
