//! Reads a file of rules: YAML, a list under `rules:`.
//!
//! It is read as a tree whose nodes know their place, not by serde, so that all faults are told at
//! once, each with its line and column. Every rule is then checked by the server's own code, which
//! gives it the form in which a server shows it: `per: day` and `per: 24h` are the same rule.

use std::collections::BTreeMap;

use hermod_client::{OnStoreError, Rule};
use saphyr::{MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Value};

use super::form::covers;
use crate::file::Written;
use crate::file::fault::{Fault, Of, Place};
use crate::file::node::{document, place, shown};
use crate::server::app::RuleDraft;
use crate::settings::nearest;

/// What a field holds.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Count,
    Switch,
}

/// Every name that may be written, the field it means, and what that holds. The same as in the API.
const FIELDS: [(&str, &str, Kind); 19] = [
    ("id", "id", Kind::Text),
    ("name", "name", Kind::Text),
    ("action", "action", Kind::Text),
    ("subject", "subject", Kind::Text),
    ("when", "when", Kind::Text),
    ("limit", "limit", Kind::Count),
    ("requests_per_unit", "limit", Kind::Count),
    ("per", "per", Kind::Text),
    ("unit", "per", Kind::Text),
    ("algorithm", "algorithm", Kind::Text),
    ("burst", "burst", Kind::Count),
    ("queue", "queue", Kind::Count),
    ("approximate", "approximate", Kind::Switch),
    ("scope", "scope", Kind::Text),
    ("mode", "mode", Kind::Text),
    ("durable", "durable", Kind::Switch),
    ("on_store_error", "on_store_error", Kind::Text),
    ("on_expiry", "on_expiry", Kind::Text),
    // The server numbers them. It may stand here, so that what was read can be sent back.
    ("version", "version", Kind::Count),
];

/// The rules of a file, or all that is wrong with it.
pub(super) fn read(text: &str) -> Result<Vec<Written<Rule>>, Vec<Fault>> {
    let document = document(text, NEEDED).map_err(|fault| vec![fault])?;
    let rules = rules(&document).map_err(|fault| vec![fault])?;
    let mut faults = Vec::new();
    let written: Vec<Written<Rule>> = (1..).zip(rules).filter_map(|(number, node)| read_rule(number, node, &mut faults)).collect();
    faults.extend(repeated(&written));
    faults.sort_by_key(|fault| fault.place);
    if faults.is_empty() { Ok(written) } else { Err(faults) }
}

/// Rules that stand in each other's way.
fn repeated(written: &[Written<Rule>]) -> Vec<Fault> {
    let (mut ids, mut covered, mut faults) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for rule in written {
        if let Some(first) = ids.insert(&rule.item.id, rule) {
            faults.push(rule.fault("id", format!("this id is used before, in line {}", first.place_of("id").line)));
        } else if let Some(first) = covered.insert(covers(&rule.item), rule) {
            let (id, line) = (&first.item.id, first.at.line);
            faults.push(rule.fault("id", format!("rule {id} in line {line} has the same name, action, subject and when")));
        }
    }
    faults
}

const NEEDED: &str = "a list under `rules:`";

/// The list under `rules:`.
fn rules<'a, 'b>(document: &'a MarkedYaml<'b>) -> Result<&'a [MarkedYaml<'b>], Fault> {
    let YamlData::Mapping(fields) = &document.data else {
        return Err(Fault::new(place(document), format!("the file needs {NEEDED}")));
    };
    if let Some((other, _)) = fields.iter().find(|(name, _)| name.data.as_str() != Some("rules")) {
        return Err(Fault::new(place(other), format!("there is no field {} here; only `rules:` is read", shown(other))));
    }
    let Some(rules) = fields.values().next() else { return Err(Fault::new(place(document), format!("the file needs {NEEDED}"))) };
    match &rules.data {
        YamlData::Sequence(rules) => Ok(rules),
        _ => Err(Fault::new(place(rules), format!("rules must be a list, not {}", shown(rules)))),
    }
}

/// One rule; its faults join the others.
fn read_rule(number: usize, node: &MarkedYaml<'_>, faults: &mut Vec<Fault>) -> Option<Written<Rule>> {
    let at = place(node);
    let YamlData::Mapping(mapping) = &node.data else {
        faults.push(Fault { of: of(number.to_string()), ..Fault::new(at, format!("a rule has fields; this is {}", shown(node))) });
        return None;
    };
    let id = mapping.iter().find(|(name, _)| name.data.as_str() == Some("id")).and_then(|(_, id)| id.data.as_str());
    let label = id.map_or_else(|| number.to_string(), str::to_owned);
    let before = faults.len();
    let mut fault = |place: Place, field: &str, detail: String| {
        faults.push(Fault { place, of: of(label.clone()), field: Some(field.to_owned()), detail });
    };
    let (mut values, mut fields) = (Map::new(), BTreeMap::new());
    for (name, node) in mapping {
        let text = name.data.as_str().unwrap_or_default();
        let Some((_, field, kind)) = FIELDS.iter().find(|(known, ..)| *known == text) else {
            let meant = nearest(text, &FIELDS.map(|(known, ..)| known.to_owned()));
            fault(place(name), text, unknown(name, meant.as_deref()));
            // One fault is enough: the field that was meant is not missing, too.
            if let Some((_, field, _)) = FIELDS.iter().find(|(known, ..)| Some(*known) == meant.as_deref()) {
                fields.entry((*field).to_owned()).or_insert(place(node));
            }
            continue;
        };
        if fields.insert((*field).to_owned(), place(node)).is_some() {
            fault(place(name), field, format!("{field} is there twice: {text} means the same"));
        }
        match value(node, *kind) {
            Ok(value) => drop(values.insert((*field).to_owned(), value)),
            Err(detail) => fault(place(node), field, format!("{text} {detail}")),
        }
    }
    for (field, why) in [("id", ", so that it is the same rule the next time"), ("action", ""), ("limit", ""), ("per", "")] {
        if !fields.contains_key(field) || values.get(field) == Some(&Value::Null) {
            fault(at, field, format!("the field {field} is needed{why}"));
        }
    }
    if faults.len() > before {
        return None;
    }
    match check(values) {
        Ok(rule) => Some(Written { item: rule, at, fields }),
        Err((field, detail)) => {
            let place = fields.get(field.as_str()).copied().unwrap_or(at);
            faults.push(Fault { place, of: of(label), field: Some(field), detail });
            None
        }
    }
}

/// A field's value, or what it must be. Null is for what could as well be absent.
fn value(node: &MarkedYaml<'_>, kind: Kind) -> Result<Value, String> {
    let (wanted, advice) = match (&node.data, kind) {
        (YamlData::Value(Scalar::Null), _) => return Ok(Value::Null),
        (YamlData::Value(Scalar::String(text)), Kind::Text) => return Ok(Value::String(text.to_string())),
        (YamlData::Value(Scalar::Boolean(switch)), Kind::Switch) => return Ok(Value::Bool(*switch)),
        (YamlData::Value(Scalar::Integer(count)), Kind::Count) if *count >= 0 => return Ok(Value::from(*count)),
        (YamlData::Value(_), Kind::Text) => ("text", "; put it in quotes"),
        (_, Kind::Text) => ("text", ""),
        (YamlData::Value(Scalar::String(text)), Kind::Count) if text.parse::<u64>().is_ok() => ("a whole number", "; leave out the quotes"),
        (_, Kind::Count) => ("a whole number of at least 0", ""),
        (_, Kind::Switch) => ("true or false", ""),
    };
    Err(format!("must be {wanted}, not {}{advice}", shown(node)))
}

/// Checks a rule as the server does, and gives it as the server would.
fn check(mut values: Map<String, Value>) -> Result<Rule, (String, String)> {
    let mut take = |field: &str| values.remove(field).unwrap_or_default();
    let text = |value: Value| value.as_str().map(str::to_owned);
    let draft = RuleDraft {
        id: text(take("id")),
        name: text(take("name")),
        action: text(take("action")).unwrap_or_default(),
        subject: text(take("subject")),
        when: text(take("when")),
        limit: take("limit").as_u64().unwrap_or_default(),
        per: text(take("per")).unwrap_or_default(),
        algorithm: text(take("algorithm")),
        burst: take("burst").as_u64(),
        queue: take("queue").as_u64(),
        approximate: take("approximate").as_bool().unwrap_or_default(),
        scope: text(take("scope")),
        mode: text(take("mode")),
        durable: take("durable").as_bool().unwrap_or_default(),
        on_store_error: text(take("on_store_error")),
        on_expiry: text(take("on_expiry")),
    };
    let checked = draft.check().map_err(|fault| (fault.field.to_owned(), format!("{} {}", fault.field, fault.reason)))?;
    let rule = serde_json::to_value(&checked).and_then(serde_json::from_value);
    let mut rule: Rule = rule.map_err(|fault| ("id".to_owned(), fault.to_string()))?;
    // What a server fills in where nothing is given.
    rule.on_store_error = OnStoreError::from(checked.on_store_error().as_str().to_owned());
    if matches!(rule.algorithm.as_str(), "token_bucket" | "leaky_bucket") {
        rule.burst = rule.burst.or(Some(rule.limit));
    }
    Ok(rule)
}

fn unknown(name: &MarkedYaml<'_>, meant: Option<&str>) -> String {
    let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    format!("there is no field {}{meant}", shown(name))
}

/// Which rule a fault is in.
fn of(name: String) -> Option<Of> {
    Some(Of { noun: "rule", name })
}

#[cfg(test)]
mod tests;
