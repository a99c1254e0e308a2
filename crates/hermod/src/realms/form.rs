//! A realm as people write it: its sections in a fixed order, and what differs between two of them.

use std::collections::BTreeSet;

use hermod_client::Realm;
use serde_json::{Value, json};

use crate::file::diff::Edit;
use crate::file::{Field, Item, text};

/// The longest value in a line of a difference, in characters.
const SHOWN: usize = 48;

/// A realm by its name, with its definition as a server shows it.
#[derive(Debug)]
pub(super) struct Economy {
    pub(super) realm: String,
    pub(super) definition: Value,
}

impl From<Realm> for Economy {
    fn from(realm: Realm) -> Economy {
        Economy { realm: realm.realm, definition: realm.definition }
    }
}

impl Item for Economy {
    const NOUN: &'static str = "realm";
    const DRY_RUN: &'static str = "The server has checked the file.";

    fn id(&self) -> &str {
        &self.realm
    }

    fn fields(&self) -> Vec<Field> {
        let mut sections: Vec<(&String, &Value)> = self.definition.as_object().into_iter().flatten().collect();
        sections.sort_by_key(|(name, _)| SECTIONS.iter().position(|first| first == name).unwrap_or(SECTIONS.len()));
        let sections = sections.into_iter().map(|(name, value)| Field::needed(name.clone(), value.clone()));
        [Field::needed("realm", json!(self.realm))].into_iter().chain(sections).collect()
    }

    fn label(&self) -> String {
        format!("realm {}", self.realm)
    }

    fn edits(&self, new: &Economy) -> Vec<Edit> {
        let mut edits = Vec::new();
        compare("", &self.definition, &new.definition, &mut edits);
        edits
    }

    /// Each on a line of its own, since they may be many.
    fn told(edits: &[Edit]) -> String {
        edits.iter().map(|edit| format!("\n    {}", line(edit))).collect()
    }
}

/// What differs between two values, as far within as both have the same shape.
fn compare(path: &str, old: &Value, new: &Value, edits: &mut Vec<Edit>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let none = if is_section(&path, before.get(name), after.get(name)) { json!({}) } else { Value::Null };
                compare(&path, before.get(name).unwrap_or(&none), after.get(name).unwrap_or(&none), edits);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (n, (old, new)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{n}]"), old, new, edits);
            }
        }
        _ => edits.push(Edit { field: path.to_owned().into(), from: old.clone(), to: new.clone() }),
    }
}

/// Whether what is there on one side only is told by the names within: a section such as `plays`.
fn is_section(path: &str, old: Option<&Value>, new: Option<&Value>) -> bool {
    !path.contains('.') && old.or(new).is_some_and(Value::is_object)
}

fn line(edit: &Edit) -> String {
    let Edit { field, from, to } = edit;
    let whole = |value: &Value| match value {
        Value::Object(_) | Value::Array(_) => String::new(),
        value => format!(": {}", short(value)),
    };
    match (from, to) {
        (Value::Null, to) => format!("+ {field}{}", whole(to)),
        (from, Value::Null) => format!("- {field}{}", whole(from)),
        (from, to) => format!("~ {field}: {} -> {}", short(from), short(to)),
    }
}

fn short(value: &Value) -> String {
    let whole = text(value);
    let mut shown: String = whole.chars().take(SHOWN).collect();
    if shown.len() < whole.len() {
        shown.push('…');
    }
    shown
}

/// The order of a definition's sections.
const SECTIONS: [&str; 11] =
    ["description", "timezone", "assets", "timers", "effects", "counters", "boxes", "tables", "recipes", "plays", "rules"];

/// What comes first within a section, where people think of one thing before the other.
pub(super) const ORDER: [&str; 41] = [
    "on",
    "name",
    "type",
    "kind",
    "description",
    "emoji",
    "internal",
    "args",
    "let",
    "roll",
    "need",
    "do",
    "return",
    "sample",
    "if",
    "when",
    "then",
    "timer",
    "table",
    "recipe",
    "play",
    "in",
    "of",
    "from",
    "to",
    "asset",
    "qty",
    "value",
    "set",
    "add",
    "clear",
    "for",
    "merge",
    "overflow",
    "else",
    "with",
    "event",
    "fee",
    "take",
    "give",
    "mode",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::export::Export;

    fn economy(definition: Value) -> Economy {
        Economy { realm: "ajo".to_owned(), definition }
    }

    #[test]
    fn a_difference_names_the_path_of_what_changed() {
        let old =
            economy(json!({"assets": {"bone": {"kind": "item", "max": 3}, "ajo": {"kind": "currency"}}, "description": "x".repeat(60),
            "timers": {"daily": {"every": "24h"}},
            "plays": {"a": {"need": [{"if": "x > 1", "else": "err"}], "do": [{"claim": {"timer": "daily"}}]}}}));
        let new = economy(
            json!({"assets": {"bone": {"kind": "item"}, "ajo": {"kind": "currency"}, "gear": {"kind": "item"}}, "description": "y",
            "plays": {"a": {"need": [{"if": "x > 2", "else": "err"}], "do": []}}}),
        );
        let expected = format!(
            "
    + assets.gear
    - assets.bone.max: 3
    ~ description: {}… -> y
    ~ plays.a.do: [{{\"claim\":{{\"timer\":\"daily\"}}}}] -> []
    ~ plays.a.need[0].if: x > 1 -> x > 2
    - timers.daily",
            "x".repeat(48)
        );
        let mut told: Vec<String> = Economy::told(&old.edits(&new)).lines().map(str::to_owned).collect();
        let mut expected: Vec<String> = expected.lines().map(str::to_owned).collect();
        told.sort();
        expected.sort();
        assert_eq!(told, expected);
        assert!(old.edits(&economy(old.definition.clone())).is_empty());
    }

    #[test]
    fn an_export_has_the_order_that_people_think_in() {
        let economy = economy(json!({"rules": [{"play": "b", "on": "a", "mode": "after"}], "description": "Garlic.",
            "plays": {"a": {"do": [{"move": {"qty": "1", "asset": "ajo", "to": "b", "from": "a"}}], "args": {"n": {"type": "amount"}}}},
            "assets": {"ajo": {"board": true, "kind": "currency"}}}));
        let text = "\
realm: ajo
description: Garlic.
assets:
  ajo:
    kind: currency
    board: true
plays:
  a:
    args:
      n:
        type: amount
    do:
      - move:
          from: a
          to: b
          asset: ajo
          qty: \"1\"
rules:
  - \"on\": a
    play: b
    mode: after
";
        assert_eq!(Export::<Economy> { fields: economy.fields(), list: None, order: &ORDER }.yaml().unwrap(), text);
    }
}
