//! A deck and its messages as people write them: their fields in a fixed order, and which of them need not be written.
//!
//! Tables, exports and differences all read these lists.

use hermod_client::{Cap, CapKind, Deck, Message, Strategy, To};
use serde_json::{Value, json};

use crate::file::{Field, Item};

/// What a file of a deck holds: the deck, and its messages.
#[derive(Debug)]
pub(super) enum Part {
    Deck(Deck),
    Message(Message),
}

impl Item for Part {
    const NOUN: &'static str = "message";

    fn noun(&self) -> &'static str {
        match self {
            Part::Deck(_) => "deck",
            Part::Message(_) => Part::NOUN,
        }
    }

    fn id(&self) -> &str {
        match self {
            Part::Deck(deck) => &deck.deck,
            Part::Message(message) => &message.id,
        }
    }

    fn fields(&self) -> Vec<Field> {
        match self {
            Part::Deck(deck) => deck_fields(deck),
            Part::Message(message) => message_fields(message),
        }
    }

    fn label(&self) -> String {
        match self {
            Part::Deck(deck) => format!("deck {}", deck.deck),
            Part::Message(message) => message.id.clone(),
        }
    }
}

/// All fields of a deck but the version, which is the server's own.
pub(super) fn deck_fields(deck: &Deck) -> Vec<Field> {
    let field = |name, value: Value, usual: Value| Field::new(name, value, &usual);
    vec![
        Field::needed("deck", json!(deck.deck)),
        field("strategy", json!(deck.strategy), json!(Strategy::default())),
        field("subject_cap", json!(deck.subject_cap), json!(Cap::new(1, "10m"))),
        field("quiet_hours", json!(deck.quiet_hours), Value::Null),
        field("timezone", json!(deck.timezone), json!("UTC")),
        field("history_max", json!(deck.history_max), json!(512)),
    ]
}

/// All fields of a message but the version, which is the server's own.
pub(super) fn message_fields(message: &Message) -> Vec<Field> {
    let field = |name, value: Value, usual: Value| Field::new(name, value, &usual);
    vec![
        Field::needed("id", json!(message.id)),
        Field::needed("body", message.body.clone()),
        field("to", json!(message.to), json!(To::default())),
        field("when", json!(message.when), Value::Null),
        field("weight", json!(message.weight), json!(1)),
        field("priority", json!(message.priority), json!(0)),
        field("active", json!(message.active), json!(true)),
        field("starts_at", json!(message.starts_at), Value::Null),
        field("ends_at", json!(message.ends_at), Value::Null),
        field("cap", json!(message.cap), Value::Null),
        field("tags", json!(message.tags), json!([])),
        field("critical", json!(message.critical), json!(false)),
    ]
}

/// Every name that may be written, for those who misspell one.
pub(super) const NAMES: [&str; 23] = [
    "deck",
    "strategy",
    "subject_cap",
    "quiet_hours",
    "timezone",
    "history_max",
    "messages",
    "id",
    "body",
    "to",
    "when",
    "weight",
    "priority",
    "active",
    "starts_at",
    "ends_at",
    "cap",
    "tags",
    "critical",
    "tokens",
    "per",
    "kind",
    "subjects",
];

/// `1/10m`, `3/day/calendar`.
pub(super) fn cap_text(cap: &Cap) -> String {
    match &cap.kind {
        CapKind::Bucket => format!("{}/{}", cap.tokens, cap.per),
        kind => format!("{}/{}/{kind}", cap.tokens, cap.per),
    }
}
