//! Hermod's definitions (rules, queues, schedules, decks, realms, spaces, API keys) in SQLite, PostgreSQL or MySQL/MariaDB.
//!
//! Definitions are written rarely and asked for on every request, so the database is never asked on
//! the hot path. What concerns everybody is a snapshot in memory (`snapshot.rs`); rules and messages
//! for one subject may be millions, and are cached by subject, "none" included (`subjects.rs`). A server
//! sees its own writes at once and those of others within a second (`refresh.rs`). Without the
//! database, memory goes on answering.
//!
//! Callers must respect that [`Matched::is_degraded`] means "everyone's rules only", and that a
//! [`NewKey`]'s secret cannot be asked for again. A webhook's secret is stored as it is, since requests are
//! signed with it; whoever shows a queue masks it.

mod catalog;
mod change;
mod clock;
mod database;
mod decks;
mod definition;
mod error;
#[cfg(any(test, feature = "exercise"))]
pub mod exercise;
mod keys;
mod messages;
mod migration;
mod options;
mod queues;
mod realms;
mod refresh;
mod rules;
mod schedules;
mod scope;
mod secret;
mod snapshot;
mod spaces;
mod subjects;
mod write;
mod writing;

pub use catalog::{Catalog, Matched};
pub use decks::DeckView;
pub use definition::{ApiKey, CatalogOnce, NewKey, Saved, SavedQueue, Space};
pub use error::CatalogError;
pub use messages::OwnMessages;
pub use options::Options;
pub use realms::{RealmView, SavedRealm};
pub use scope::Scope;

#[cfg(test)]
mod tests {
    use super::*;
    use hermod_core::limit::Facts;
    use hermod_core::limit::index::Attributes;
    use hermod_core::{RuleId, SpaceId};

    #[tokio::test]
    async fn every_call_can_be_spawned() {
        fn is_send(_: impl Send) {}
        let catalog = Catalog::open(Options::default()).await.unwrap();
        let (space, id, once) = (SpaceId::default_space(), RuleId::new("r").unwrap(), None);
        let rule: hermod_core::limit::Rule = serde_json::from_str(r#"{"id":"r","action":"a","limit":1,"per":"1s"}"#).unwrap();
        let facts = Facts { subject: "s", action: "a", cost: 1, attributes: Attributes::none() };
        is_send(catalog.matching(&space, &facts));
        is_send(catalog.considered(&space, &facts));
        is_send(catalog.rules(&space, None, 1));
        is_send(catalog.rule(&space, &id));
        is_send(catalog.create_rule(&space, rule.clone(), once));
        is_send(catalog.put_rule(&space, rule, once));
        is_send(catalog.delete_rule(&space, &id, once));
        let (queue, name) = (hermod_core::QueueId::new("q").unwrap(), hermod_core::Name::default_name());
        is_send(catalog.create_queue(&space, hermod_core::queue::Queue::new(queue.clone()), once));
        is_send(catalog.put_queue(&space, hermod_core::queue::Queue::new(queue.clone()), once));
        is_send(catalog.disable_queue(&space, &queue, 1, "410"));
        is_send(catalog.delete_queue(&space, &queue, once));
        is_send(catalog.delete_schedule(&space, &queue, &name, once));
        let (deck, message) = (hermod_core::DeckId::new("d").unwrap(), hermod_core::MessageId::new("m").unwrap());
        is_send(catalog.put_deck(&space, hermod_core::pick::Deck::new(deck.clone()), once));
        is_send(catalog.delete_deck(&space, &deck, once));
        is_send(catalog.messages(&space, &deck, None, 1));
        is_send(catalog.message(&space, &deck, &message));
        is_send(catalog.create_messages(&space, &deck, Vec::new(), once));
        is_send(catalog.put_message(&space, &deck, hermod_core::pick::Message::new(message.clone(), "1"), once));
        is_send(catalog.delete_message(&space, &deck, &message, once));
        let realm = hermod_core::RealmId::new("r").unwrap();
        is_send(catalog.put_realm(&space, realm, hermod_core::realm::Definition::default(), false, once));
        is_send(catalog.spaces());
        is_send(catalog.create_space(&space, once));
        is_send(catalog.keys(&space));
        is_send(catalog.create_key(&space, "bot", vec![Scope::Admin], once));
        is_send(catalog.delete_key(&space, "id", once));
        is_send(catalog.close());
        is_send(Catalog::open(Options::default()));
    }
}
