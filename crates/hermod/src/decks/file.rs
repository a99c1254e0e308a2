//! Reads a file of a deck: YAML, the fields of the deck and a list under `messages:`.
//!
//! It is read as a tree whose nodes know their place, so that all parts with a fault are told at once, with line and column. Every
//! part is then checked by the server's own code, which gives it the form in which a server shows it.

use saphyr::YamlData;
use serde_json::{Map, Value};

use super::form::{NAMES, Part};
use crate::file::Written;
use crate::file::checked::{Names, Places, checked, fault, item, repeated};
use crate::file::fault::{Fault, Of};
use crate::file::node::{document, json, place, shown};
use crate::server::{check_deck, check_message};

const NEEDED: &str = "a `deck:` and a list under `messages:`";

const KNOWN: Names = Names { id: "id", all: &NAMES };

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
        Err(problem) => faults.push(fault(&problem, KNOWN, of, at, &places)),
    }
    match messages.map(|node| (&node.data, node)) {
        Some((YamlData::Sequence(items), _)) => {
            for (number, node) in (1..).zip(items) {
                match item(number, node, KNOWN, |value| checked(value, check_message).map(Part::Message)) {
                    Ok(message) => written.push(message),
                    Err(fault) => faults.push(fault),
                }
            }
        }
        Some((_, node)) => faults.push(Fault::new(place(node), format!("messages must be a list, not {}", shown(node)))),
        None => faults.push(Fault::new(at, "the file needs a list under `messages:`; of a deck without any, `messages: []`")),
    }
    faults.extend(repeated(&written, KNOWN.id));
    faults.sort_by_key(|fault| fault.place);
    if faults.is_empty() { Ok(written) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::fault::Place;

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
