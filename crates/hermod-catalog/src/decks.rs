//! Decks: read from memory; put, delete. Each has in memory what concerns everybody: [`DeckView`].

use std::sync::Arc;
use std::time::Duration;

use hermod_core::pick::{Deck, Message};
use hermod_core::{DeckId, SpaceId};
use sqlx::any::AnyRow;

use crate::catalog::Catalog;
use crate::change::{Change, Kind};
use crate::database::{CALL_TIMEOUT, int, sql_int, text, within};
use crate::definition::{CatalogOnce, Saved};
use crate::error::CatalogError;
use crate::queues::refuse_beyond;
use crate::write::{Answer, Begun, Write, conflict};

mod view;

pub(crate) use view::{Reread, read_all};

/// The most decks of a space: every server keeps them all in memory.
pub(crate) const DECKS_MAX: u64 = 1_000;
/// The most messages of a deck that are not for named subjects: every server keeps them all in memory.
pub(crate) const MESSAGES_MAX: u64 = 50_000;
/// How long deleting a deck may take: there may be millions of messages in it.
const DELETE_TIMEOUT: Duration = Duration::from_secs(60);

/// A deck and what every server knows of its messages.
#[derive(Clone, Debug)]
pub struct DeckView {
    /// The deck.
    pub deck: Arc<Deck>,
    /// All messages that are not for named subjects, active or not, by ordinal.
    pub messages: Arc<[Arc<Message>]>,
    /// The ordinals of deleted messages, sorted.
    pub tombstones: Arc<[u32]>,
    /// How many messages name their subjects.
    pub named: u64,
    /// The ordinal of the next new message: all there are and were are below.
    pub next_ordinal: u32,
    /// The catalog's version when this was read. It differs whenever the deck, its messages or its tombstones do; a change of
    /// `named` and `next_ordinal` alone keeps it.
    pub generation: u64,
}

impl Catalog {
    /// One deck, from memory.
    pub fn deck(&self, space: &SpaceId, id: &DeckId) -> Option<Arc<DeckView>> {
        self.inner.snapshot.load().decks.get(space)?.get(id).cloned()
    }

    /// All decks of a space by id, from memory.
    pub fn decks(&self, space: &SpaceId) -> Vec<Arc<DeckView>> {
        let snapshot = self.inner.snapshot.load();
        snapshot.decks.get(space).map(|decks| decks.values().cloned().collect()).unwrap_or_default()
    }

    /// Saves a deck, in place of the one with the same id if there is one. Its version grows by one; its epoch is the catalog's
    /// version when it was made, whatever `deck` says.
    pub async fn put_deck(&self, space: &SpaceId, mut deck: Deck, once: Option<&CatalogOnce>) -> Result<Saved<Deck>, CatalogError> {
        deck.check()?;
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::Deck { deck, created }) => return Ok(Saved { value: *deck, created, replayed: true }),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            write.subject_rules(space).await?;
            let old = stored(&mut write, space, &deck.id).await?;
            let created = old.is_none();
            if created {
                let count = write.query("SELECT COUNT(*) AS n FROM decks WHERE space = ?").bind(space.as_str());
                refuse_beyond(&mut write, count, "deck", DECKS_MAX).await?;
            }
            deck.epoch = old.as_ref().map_or(write.version(), |old| old.deck.epoch);
            deck.version = old.map_or(1, |old| old.deck.version.saturating_add(1));
            // The order of the values is that of both statements.
            let statement = match created {
                true => "INSERT INTO decks (body, version, space, id, next_ordinal, named, tombstones) VALUES (?, ?, ?, ?, 0, 0, 0)",
                false => "UPDATE decks SET body = ?, version = ? WHERE space = ? AND id = ?",
            };
            let body = serde_json::to_string(&deck).map_err(|fault| CatalogError::corrupt("deck", deck.id.as_str(), fault))?;
            let query = write.query(statement).bind(body).bind(sql_int(deck.version)).bind(space.as_str()).bind(deck.id.as_str());
            write.execute(query).await?;
            let answer = Answer::Deck { deck: Box::new(deck.clone()), created };
            write.commit(&[Change::of_deck(Kind::Deck, space, &deck.id)], &answer).await?;
            Ok(Saved { value: deck.clone(), created, replayed: false })
        })
        .await
    }

    /// Deletes a deck and all its messages. False if there was none.
    pub async fn delete_deck(&self, space: &SpaceId, id: &DeckId, once: Option<&CatalogOnce>) -> Result<bool, CatalogError> {
        within(DELETE_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::DeckDeleted) => return Ok(true),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            write.subject_rules(space).await?;
            for statement in [
                "DELETE FROM message_subjects WHERE space = ? AND deck = ?",
                "DELETE FROM message_tombstones WHERE space = ? AND deck = ?",
                "DELETE FROM messages WHERE space = ? AND deck = ?",
            ] {
                let delete = write.query(statement).bind(space.as_str()).bind(id.as_str());
                write.execute(delete).await?;
            }
            let delete = write.query("DELETE FROM decks WHERE space = ? AND id = ?").bind(space.as_str()).bind(id.as_str());
            if write.execute(delete).await? == 0 {
                return Ok(false);
            }
            write.commit(&[Change::of_deck(Kind::Deck, space, id)], &Answer::DeckDeleted).await?;
            Ok(true)
        })
        .await
    }
}

/// A deck as it is stored, with what is counted of its messages.
pub(crate) struct Stored {
    pub(crate) deck: Deck,
    pub(crate) next_ordinal: u32,
    pub(crate) named: u64,
    pub(crate) tombstones: u64,
}

impl Stored {
    /// From `id`, `body` and the counts.
    fn from_row(row: &AnyRow) -> Result<Stored, CatalogError> {
        let id = text(row, "id")?;
        let deck = serde_json::from_str(&text(row, "body")?).map_err(|fault| CatalogError::corrupt("deck", id, fault))?;
        Ok(Stored { deck, next_ordinal: ordinal(row, "next_ordinal")?, named: int(row, "named")?, tombstones: int(row, "tombstones")? })
    }

    /// An ordinal that no message has or had.
    pub(crate) fn take_ordinal(&mut self) -> Result<u32, CatalogError> {
        let ordinal = self.next_ordinal;
        let full = || CatalogError::TooMany { whole: "deck", what: "message", max: u64::from(u32::MAX) };
        self.next_ordinal = ordinal.checked_add(1).ok_or_else(full)?;
        Ok(ordinal)
    }

    /// Refuses more messages that every server keeps in memory than there may be.
    pub(crate) fn refuse_beyond(&self) -> Result<(), CatalogError> {
        let everyones = u64::from(self.next_ordinal).saturating_sub(self.tombstones).saturating_sub(self.named);
        match everyones > MESSAGES_MAX {
            true => Err(CatalogError::TooMany { whole: "deck", what: "message", max: MESSAGES_MAX }),
            false => Ok(()),
        }
    }

    pub(crate) async fn save_counts(&self, write: &mut Write<'_>, space: &SpaceId) -> Result<(), CatalogError> {
        let query = write.query("UPDATE decks SET next_ordinal = ?, named = ?, tombstones = ? WHERE space = ? AND id = ?");
        let query = query.bind(i64::from(self.next_ordinal)).bind(sql_int(self.named)).bind(sql_int(self.tombstones));
        write.execute(query.bind(space.as_str()).bind(self.deck.id.as_str())).await?;
        Ok(())
    }
}

pub(crate) const SELECT_ONE: &str = "SELECT id, body, next_ordinal, named, tombstones FROM decks WHERE space = ? AND id = ?";

pub(crate) async fn stored(write: &mut Write<'_>, space: &SpaceId, id: &DeckId) -> Result<Option<Stored>, CatalogError> {
    let query = write.query(SELECT_ONE).bind(space.as_str()).bind(id.as_str());
    write.fetch(query).await?.as_ref().map(Stored::from_row).transpose()
}

pub(crate) fn not_found(id: &DeckId) -> CatalogError {
    CatalogError::NotFound { what: "deck", id: id.to_string() }
}

fn ordinal(row: &AnyRow, column: &str) -> Result<u32, CatalogError> {
    u32::try_from(int(row, column)?).map_err(|fault| CatalogError::corrupt("column", column, fault))
}

#[cfg(test)]
mod tests {
    use hermod_core::pick::Audience;
    use hermod_core::{MessageId, Subject};

    use super::*;
    use crate::Options;

    async fn run(catalog: &Catalog, statement: &'static str) {
        catalog.inner.database.query(statement).execute(catalog.inner.database.pool()).await.unwrap();
    }

    #[tokio::test]
    async fn a_space_has_a_thousand_decks_at_most() {
        let catalog = Catalog::open(Options::default()).await.unwrap();
        let space = SpaceId::default_space();
        let new = |id: &str| Deck::new(DeckId::new(id).unwrap());
        catalog.put_deck(&space, new("d0"), None).await.unwrap();
        let more = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998) \
                    INSERT INTO decks SELECT space, 'd' || i, body, 0, 0, 0, 1 FROM decks, n WHERE id = 'd0'";
        run(&catalog, more).await;
        catalog.put_deck(&space, new("last"), None).await.unwrap();
        let refused = catalog.put_deck(&space, new("more"), None).await;
        assert!(matches!(refused, Err(CatalogError::TooMany { whole: "space", what: "deck", max: 1_000 })), "{refused:?}");
        // What is there can still be changed.
        catalog.put_deck(&space, new("last"), None).await.unwrap();
    }

    #[tokio::test]
    async fn a_deck_has_fifty_thousand_messages_that_name_nobody_at_most() {
        let catalog = Catalog::open(Options::default()).await.unwrap();
        let (space, id) = (SpaceId::default_space(), DeckId::new("tips").unwrap());
        catalog.put_deck(&space, Deck::new(id.clone()), None).await.unwrap();
        // 50,106 were made, 100 of them deleted, and 7 name their subjects: one more has room.
        run(&catalog, "UPDATE decks SET next_ordinal = 50106, tombstones = 100, named = 7").await;
        let message = |name: &str| Message::new(MessageId::new(name).unwrap(), "1");
        let named = |name: &str| Message { to: Audience::Subjects(vec![Subject::new("ann").unwrap()]), ..message(name) };
        let last = catalog.put_message(&space, &id, message("last"), None).await.unwrap().value;
        assert_eq!(last.ordinal, 50_106);
        let is_full = |refused: &CatalogError| matches!(refused, CatalogError::TooMany { whole: "deck", what: "message", max: 50_000 });
        assert!(is_full(&catalog.put_message(&space, &id, message("more"), None).await.unwrap_err()));
        assert!(is_full(&catalog.create_messages(&space, &id, vec![named("a"), message("b")], None).await.unwrap_err()));
        // What is there can be changed, and those that name their subjects are not counted, until they name nobody.
        catalog.put_message(&space, &id, message("last"), None).await.unwrap();
        catalog.put_message(&space, &id, named("own"), None).await.unwrap();
        assert!(is_full(&catalog.put_message(&space, &id, message("own"), None).await.unwrap_err()));
        catalog.delete_message(&space, &id, &MessageId::new("last").unwrap(), None).await.unwrap();
        catalog.put_message(&space, &id, message("own"), None).await.unwrap();
    }
}
