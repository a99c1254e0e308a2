//! Reads a file of a realm: YAML, its name under `realm:` and the fields of its definition.
//!
//! It is read as a tree whose nodes know their place, and checked by the server's own code, which gives it the form in which a
//! server shows it. So every fault is told at once, with line and column.

use std::collections::BTreeMap;

use saphyr::YamlData;
use serde_json::Value;

use super::form::Economy;
use crate::file::fault::{Fault, Of, Place};
use crate::file::node::{document, json, place};
use crate::file::{Item, Written, place_of};
use crate::server::{Problem, check_realm};

const NEEDED: &str = "a `realm:` and the fields of its definition";

/// The realm of a file, under `name` if one is given; or all that is wrong with it.
pub(super) fn read(text: &str, name: Option<&str>) -> Result<Written<Economy>, Vec<Fault>> {
    let document = document(text, NEEDED).map_err(|fault| vec![fault])?;
    let (at, mut fields) = (place(&document), BTreeMap::new());
    if !matches!(document.data, YamlData::Mapping(_)) {
        return Err(vec![Fault::new(at, format!("the file needs {NEEDED}"))]);
    }
    let mut definition = json(&document, "", &mut fields).map_err(|fault| vec![fault])?;
    let realm = named(&mut definition, name, at, &fields).map_err(|fault| vec![fault])?;
    match check_realm(&realm, definition.to_string().as_bytes()) {
        Ok(definition) => Ok(Written { item: Economy { realm, definition }, at, fields }),
        Err(problem) => Err(faults(&problem, &realm, at, &fields)),
    }
}

/// Takes the name out of the document.
fn named(document: &mut Value, given: Option<&str>, at: Place, places: &BTreeMap<String, Place>) -> Result<String, Fault> {
    let written = document.as_object_mut().and_then(|fields| fields.remove("realm"));
    match (given, written) {
        (Some(given), _) => Ok(given.to_owned()),
        (None, Some(Value::String(written))) => Ok(written),
        (None, written) => {
            let what = if written.is_some() { "realm must be a name, as text" } else { "the field realm is needed, or --realm" };
            Err(Fault { field: Some("realm".to_owned()), ..Fault::new(places.get("realm").copied().unwrap_or(at), what) })
        }
    }
}

/// What the server's code has against it, and where that is written.
fn faults(problem: &Problem, realm: &str, at: Place, places: &BTreeMap<String, Place>) -> Vec<Fault> {
    let fault = |field: &str, detail: String| Fault {
        place: place_of(places, field).unwrap_or(at),
        of: Some(Of { noun: Economy::NOUN, name: realm.to_owned() }),
        field: Some(field.to_owned()),
        detail,
    };
    let mut faults: Vec<Fault> = problem.faults.iter().map(|one| fault(&one.field, one.to_string())).collect();
    if faults.is_empty() {
        faults.push(fault(problem.field.as_deref().unwrap_or_default(), problem.detail.clone()));
    }
    faults.sort_by_key(|fault| fault.place);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
realm: ajo
assets:
  ajo: {kind: currency, board: true}
  bone: {max: 206}
plays:
  gamble:
    args: {amount: amount}
    need:
      - {if: amount > 0, else: err}
    do:
      - move: {from: by, to: '@burn', asset: ajo, qty: amount}
";

    fn told(text: &str) -> Vec<String> {
        read(text, None).map(|written| written.item).expect_err(text).iter().map(|fault| fault.line("r.yaml")).collect()
    }

    #[test]
    fn a_realm_is_read_as_the_server_shows_it() {
        let written = read(FILE, None).unwrap();
        assert_eq!(written.item.realm, "ajo");
        assert_eq!(written.item.definition["plays"]["gamble"]["args"]["amount"], serde_json::json!({"type": "amount"}));
        assert_eq!(written.place_of("plays.gamble.need[0].if"), Place { line: 9, column: 14 });
        // What is not there has the place of the nearest that it would be a part of.
        assert_eq!(written.place_of("plays.gamble.need[0].with.n"), Place { line: 9, column: 9 });
        assert_eq!(written.place_of("plays.gamble.need[7].if"), Place { line: 9, column: 7 });
        assert_eq!(written.place_of("timers.daily"), Place::START);
        assert_eq!(read(FILE, Some("other")).unwrap().item.realm, "other");
    }

    #[test]
    fn every_fault_names_its_line_and_column() {
        for (from, to, line) in [
            ("max: 206", "max: many", "r.yaml:4:15: realm ajo: assets.bone.max must be a whole number of at least 0."),
            ("{max: 206}", "{mx: 206}", "r.yaml:4:14: realm ajo: There is no field assets.bone.mx; there may be one of kind, max, floor"),
            (", else: err", "", "r.yaml:9:9: realm ajo: The field plays.gamble.need[0].else is needed."),
            (
                "qty: amount",
                "qty: [1]",
                "r.yaml:11:56: realm ajo: plays.gamble.do[0].move.qty must be a whole number, or a formula as text.",
            ),
            ("realm: ajo\n", "", "r.yaml:1:1: the field realm is needed, or --realm"),
            ("realm: ajo", "realm: [ajo]", "r.yaml:1:8: realm must be a name, as text"),
            ("realm: ajo", "realm: a b", "r.yaml:1:8: realm a b: realm may hold letters, digits, '_', '-' and '.' only"),
        ] {
            let told = told(&FILE.replace(from, to));
            assert!(told.len() == 1 && told[0].starts_with(line), "{to}: {told:?}");
        }
        assert_eq!(told(""), ["r.yaml:1:1: the file is empty; it needs a `realm:` and the fields of its definition"]);
        assert_eq!(told("7"), ["r.yaml:1:1: the file needs a `realm:` and the fields of its definition"]);
    }
}
