//! What is settled for ever once a realm is defined, and what differs between two definitions of it.
//!
//! Both compare JSON and not definitions: what is stored may be of another version of Hermod.

use std::collections::BTreeSet;

use hermod_core::realm::Fault;
use serde_json::Value;

/// What a new definition takes back that others rely on.
pub(super) fn faults(old: &Value, new: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (name, before, after) in pairs(old.get("assets"), new.get("assets")) {
        let Some(before) = before else { continue };
        let path = format!("assets.{name}");
        let Some(after) = after else {
            faults.push(Fault { path, reason: "an asset is never removed: its balances stay in the books".to_owned() });
            continue;
        };
        for (field, usual) in [("board", Value::Bool(false)), ("kind", Value::from("item"))] {
            let (before, after) = (before.get(field).unwrap_or(&usual), after.get(field).unwrap_or(&usual));
            if before != after {
                let reason = format!("was settled as {before} when the asset was first defined, and stays so");
                faults.push(Fault { path: format!("{path}.{field}"), reason });
            }
        }
    }
    faults
}

/// The paths of what differs: of what has names, `plays.gamble`; of anything else, the field.
pub(super) fn changed(old: &Value, new: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    for (section, old, new) in pairs(Some(old), Some(new)).filter(|(_, old, new)| old != new) {
        let has_names = old.or(new).is_some_and(Value::is_object);
        if has_names {
            changed.extend(pairs(old, new).filter(|(_, old, new)| old != new).map(|(name, ..)| format!("{section}.{name}")));
        } else {
            changed.push(section.to_owned());
        }
    }
    changed
}

type Pair<'a> = (&'a str, Option<&'a Value>, Option<&'a Value>);

/// The fields of either of two objects, by name, with both values.
fn pairs<'a>(old: Option<&'a Value>, new: Option<&'a Value>) -> impl Iterator<Item = Pair<'a>> {
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let names: BTreeSet<&str> = old.into_iter().chain(new).flat_map(|fields| fields.keys().map(String::as_str)).collect();
    names.into_iter().map(move |name| (name, old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name))))
}
