//! Reads a file of a deck: YAML, the fields of the deck and a list under `messages:`.
//!
//! It is read as a tree whose nodes know their place, so that all parts with a fault are told at once, with line and column. Every
//! part is then checked by the server's own code, which gives it the form in which a server shows it.

use std::collections::BTreeMap;

use saphyr::{MarkedYaml, YamlData};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::form::{NAMES, Part};
use crate::file::fault::{Fault, Of, Place};
use crate::file::node::{document, json, place, shown};
use crate::file::{Item, Written, place_of};
use crate::server::{Code, Problem, check_deck, check_message};
use crate::settings::nearest;

const NEEDED: &str = "a `deck:` and a list under `messages:`";

type Places = BTreeMap<String, Place>;

/// The deck of a file, first, and its messages; or all that is wrong with it.
pub(super) fn read(text: &str) -> Result<Vec<Written<Part>>, Vec<Fault>> {
    let document = document(text, NEEDED).map_err(|fault| vec![fault])?;
    let at = place(&document);
    let YamlData::Mapping(fields) = &document.data else {
        return Err(vec![Fault::new(at, format!("the file needs {NEEDED}"))]);
    };
    let mut faults = Vec::new();
    let mut written = Vec::new();
    let (mut deck, mut places, mut messages) = (Map::new(), Places::new(), None);
    for (name, node) in fields {
        let text = name.data.as_str().unwrap_or_default().to_owned();
        if text == "messages" {
            messages = Some(node);
            continue;
        }
        places.insert(text.clone(), place(node));
        match json(node, &text, &mut places) {
            Ok(value) => drop(deck.insert(text, value)),
            Err(fault) => faults.push(fault),
        }
    }
    let name = deck.get("deck").and_then(Value::as_str).unwrap_or_default().to_owned();
    let of = Some(Of { noun: "deck", name }).filter(|of| !of.name.is_empty());
    match checked(&Value::Object(deck), check_deck) {
        Ok(deck) => written.push(Written { item: Part::Deck(deck), at, fields: places }),
        Err(problem) => faults.push(fault(&problem, of, at, &places)),
    }
    match messages.map(|node| (&node.data, node)) {
        Some((YamlData::Sequence(items), _)) => {
            for (number, node) in (1..).zip(items) {
                match read_message(number, node) {
                    Ok(message) => written.push(message),
                    Err(fault) => faults.push(fault),
                }
            }
        }
        Some((_, node)) => faults.push(Fault::new(place(node), format!("messages must be a list, not {}", shown(node)))),
        None => faults.push(Fault::new(at, "the file needs a list under `messages:`; of a deck without any, `messages: []`")),
    }
    faults.extend(repeated(&written));
    faults.sort_by_key(|fault| fault.place);
    if faults.is_empty() { Ok(written) } else { Err(faults) }
}

fn read_message(number: usize, node: &MarkedYaml<'_>) -> Result<Written<Part>, Fault> {
    let (at, mut places) = (place(node), Places::new());
    let of = |name: String| Some(Of { noun: Part::NOUN, name });
    if !matches!(node.data, YamlData::Mapping(_)) {
        return Err(Fault { of: of(number.to_string()), ..Fault::new(at, format!("a message has fields; this is {}", shown(node))) });
    }
    let value = json(node, "", &mut places).map_err(|fault| Fault { of: of(number.to_string()), ..fault })?;
    let id = value.get("id");
    let label = id.and_then(Value::as_str).map_or_else(|| number.to_string(), str::to_owned);
    if id.is_none_or(Value::is_null) {
        let detail = "the field id is needed, so that it is the same message the next time";
        return Err(Fault { of: of(label), field: Some("id".to_owned()), ..Fault::new(at, detail) });
    }
    let message = checked(&value, check_message).map_err(|problem| fault(&problem, of(label), at, &places))?;
    Ok(Written { item: Part::Message(message), at, fields: places })
}

/// Checks a part as the server does, and gives it as the server would.
fn checked<T: DeserializeOwned>(value: &Value, check: impl Fn(&[u8]) -> Result<Value, Problem>) -> Result<T, Problem> {
    let shown = check(value.to_string().as_bytes())?;
    serde_json::from_value(shown).map_err(|fault| Problem::new(Code::Internal, fault.to_string()))
}

/// What the server's code has against a part, and where that is written.
fn fault(problem: &Problem, of: Option<Of>, at: Place, places: &Places) -> Fault {
    let field = problem.field.clone().unwrap_or_default();
    // Of a field that is not known the server says its name alone, wherever it stands.
    let within = || places.iter().find(|(path, _)| path.rsplit('.').next() == Some(field.as_str())).map(|(_, place)| *place);
    let place = if problem.code == Code::MissingField { None } else { place_of(places, &field).or_else(within) };
    let meant = (problem.code == Code::UnknownField).then(|| nearest(&field, &NAMES.map(str::to_owned))).flatten();
    let meant = meant.map(|meant| format!(" Did you mean {meant}?")).unwrap_or_default();
    let field = Some(field).filter(|field| !field.is_empty());
    Fault { place: place.unwrap_or(at), of, field, detail: format!("{}{meant}", problem.detail) }
}

/// Messages of one id.
fn repeated(written: &[Written<Part>]) -> Vec<Fault> {
    let (mut ids, mut faults) = (BTreeMap::new(), Vec::new());
    for part in written.iter().filter(|part| matches!(part.item, Part::Message(_))) {
        if let Some(first) = ids.insert(part.item.id(), part) {
            faults.push(part.fault("id", format!("this id is used before, in line {}", first.place_of("id").line)));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        read(text).map(|parts| parts.len()).expect_err(text).iter().map(|fault| fault.line("d.yaml")).collect()
    }

    const FILE: &str = "\
deck: tips
subject_cap: ~
quiet_hours: {from: 22:00, to: 08:00}
messages:
  - id: mute
    body: {text: You can mute me., n: [1, 2.5, ~]}
    to: {tags: [new]}
    cap: {tokens: 1, per: 30days}
    starts_at: 2030-01-31T09:00:00Z
  - {id: all, body: hello}
";

    #[test]
    fn a_deck_and_its_messages_are_read_as_the_server_shows_them() {
        let parts = read(FILE).unwrap();
        let [Part::Deck(deck), Part::Message(mute), Part::Message(all)] = [&parts[0].item, &parts[1].item, &parts[2].item] else {
            panic!("{parts:?}")
        };
        assert_eq!((deck.subject_cap.clone(), deck.strategy.as_str(), deck.history_max), (None, "fresh_lru", 512));
        assert_eq!(mute.body, serde_json::json!({"text": "You can mute me.", "n": [1, 2.5, null]}));
        assert_eq!(mute.starts_at.unwrap().to_string(), "2030-01-31T09:00:00.000Z");
        assert_eq!((all.body.as_str(), all.weight), (Some("hello"), 1));
        assert_eq!(parts[1].place_of("cap.per"), Place { line: 8, column: 27 });
    }

    #[test]
    fn every_fault_names_its_line_and_column() {
        for (from, to, told) in [
            (
                "tokens: 1",
                "tokens: 0",
                "d.yaml:8:19: message mute: cap.tokens must be at least 1; what must not be sent is not active, and no cap is null",
            ),
            ("from: 22:00", "from: 22", "d.yaml:3:21: deck tips: quiet_hours.from must be a string."),
            ("body: hello", "body: hello, wieght: 2", "d.yaml:10:36: message all: There is no field wieght here. Did you mean weight?"),
            ("body: hello", "weight: 2", "d.yaml:10:5: message all: The field body is needed."),
            ("id: all, ", "", "d.yaml:10:5: message 2: the field id is needed, so that it is the same message the next time"),
            ("id: all", "id: mute", "d.yaml:10:10: message mute: this id is used before, in line 5"),
            ("deck: tips\n", "strategy: best\n", "d.yaml:1:1: The field deck is needed."),
            ("{id: all, body: hello}", "hello", "d.yaml:10:5: message 2: a message has fields; this is \"hello\""),
        ] {
            assert_eq!(faults(&FILE.replace(from, to)), [told], "{to}");
        }
        assert_eq!(faults(""), ["d.yaml:1:1: the file is empty; it needs a `deck:` and a list under `messages:`"]);
        assert_eq!(faults("deck: tips\nmessages: 3\n"), ["d.yaml:2:11: messages must be a list, not 3"]);
        assert_eq!(faults(&FILE.replace("tokens: 1", "tokens: 0").replace("body: hello", "bdy: hello")).len(), 2, "all at once");
    }
}
