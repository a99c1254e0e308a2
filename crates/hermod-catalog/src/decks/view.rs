//! Reads decks into memory.
//!
//! A deck's row is read last, so that its counts are never behind the messages: all of them are below its next ordinal.
//! A deck that this version cannot read is left out, and so is a message.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use hermod_core::pick::Message;
use hermod_core::{DeckId, SpaceId};
use sqlx::any::AnyRow;

use super::{DeckView, SELECT_ONE, Stored, ordinal};
use crate::change::{Change, Kind};
use crate::database::{Database, sql_int, text};
use crate::error::CatalogError;
use crate::messages;
use crate::refresh::{readable, space_of};
use crate::snapshot::Decks;

/// More messages than these are not read one by one.
const PARTS_MAX: usize = 200;

/// How much of a deck has to be read again. By default nothing but its counts, which is what messages for named subjects change:
/// there may be millions of them, and a deck's others are not read for each.
#[derive(Default)]
pub(crate) struct Reread {
    whole: bool,
    /// Messages that are or were not for named subjects.
    ordinals: BTreeSet<u64>,
}

impl Reread {
    pub(crate) fn add(&mut self, change: &Change) {
        match (change.kind, change.ordinal) {
            (Kind::Deck, Some(ordinal)) => drop(self.ordinals.insert(ordinal)),
            (Kind::Deck, None) => self.whole = true,
            _ => {}
        }
    }

    /// The deck as it is now, from what is `known` and from the database; none if it is gone.
    pub(crate) async fn read(
        &self,
        database: &Database,
        space: &SpaceId,
        id: &DeckId,
        known: Option<&Arc<DeckView>>,
        generation: u64,
    ) -> Result<Option<DeckView>, CatalogError> {
        match known {
            Some(known) if !self.whole && self.ordinals.len() <= PARTS_MAX => self.read_part(database, space, known, generation).await,
            _ => read(database, space, id, generation).await,
        }
    }

    async fn read_part(
        &self,
        database: &Database,
        space: &SpaceId,
        known: &DeckView,
        generation: u64,
    ) -> Result<Option<DeckView>, CatalogError> {
        let id = &known.deck.id;
        let mut view = known.clone();
        if !self.ordinals.is_empty() {
            let before = "SELECT id, body FROM messages WHERE named = 0 AND space = ? AND deck = ? AND ordinal IN (";
            let query = database.repeated(before, "?", self.ordinals.len(), ")").bind(space.as_str()).bind(id.as_str());
            let query = self.ordinals.iter().fold(query, |query, ordinal| query.bind(sql_int(*ordinal)));
            let rows = query.fetch_all(database.pool()).await?;
            let stays = |message: &&Arc<Message>| !self.ordinals.contains(&u64::from(message.ordinal));
            let mut messages: Vec<Arc<Message>> = known.messages.iter().filter(stays).cloned().collect();
            for row in &rows {
                messages.extend(readable(messages::from_row(row)).map(Arc::new));
            }
            messages.sort_by_key(|message| message.ordinal);
            (view.messages, view.generation) = (messages.into(), generation);
        }
        let Some(stored) = stored(database, space, id).await? else { return Ok(None) };
        if stored.deck != *known.deck {
            return read(database, space, id, generation).await;
        }
        (view.named, view.next_ordinal) = (stored.named, stored.next_ordinal);
        if usize::try_from(stored.tombstones) != Ok(known.tombstones.len()) {
            (view.tombstones, view.generation) = (tombstones(database, space, id).await?.into(), generation);
        }
        Ok(Some(view))
    }
}

/// One deck, from the database.
async fn read(database: &Database, space: &SpaceId, id: &DeckId, generation: u64) -> Result<Option<DeckView>, CatalogError> {
    let statement = "SELECT id, body FROM messages WHERE named = 0 AND space = ? AND deck = ? ORDER BY ordinal";
    let rows = database.query(statement).bind(space.as_str()).bind(id.as_str()).fetch_all(database.pool()).await?;
    let messages = rows.iter().filter_map(|row| readable(messages::from_row(row))).map(Arc::new).collect();
    let tombstones = tombstones(database, space, id).await?;
    Ok(stored(database, space, id).await?.map(|stored| view(stored, messages, tombstones, generation)))
}

/// All decks, from the database.
pub(crate) async fn read_all(database: &Database, generation: u64) -> Result<HashMap<SpaceId, Arc<Decks>>, CatalogError> {
    let mut messages: HashMap<(SpaceId, String), Vec<Arc<Message>>> = HashMap::new();
    let statement = "SELECT space, deck, id, body FROM messages WHERE named = 0 ORDER BY space, deck, ordinal";
    for row in &database.query(statement).fetch_all(database.pool()).await? {
        messages.entry(deck_of(row)?).or_default().extend(readable(messages::from_row(row)).map(Arc::new));
    }
    let mut tombstones: HashMap<(SpaceId, String), Vec<u32>> = HashMap::new();
    let statement = "SELECT space, deck, ordinal FROM message_tombstones ORDER BY space, deck, ordinal";
    for row in &database.query(statement).fetch_all(database.pool()).await? {
        tombstones.entry(deck_of(row)?).or_default().push(ordinal(row, "ordinal")?);
    }
    let mut spaces: HashMap<SpaceId, Decks> = HashMap::new();
    let statement = "SELECT space, id AS deck, id, body, next_ordinal, named, tombstones FROM decks";
    for row in &database.query(statement).fetch_all(database.pool()).await? {
        let key = deck_of(row)?;
        let Some(stored) = readable(Stored::from_row(row)) else { continue };
        let of_deck = (messages.remove(&key).unwrap_or_default(), tombstones.remove(&key).unwrap_or_default());
        let id = stored.deck.id.clone();
        spaces.entry(key.0).or_default().insert(id, Arc::new(view(stored, of_deck.0, of_deck.1, generation)));
    }
    Ok(spaces.into_iter().map(|(space, decks)| (space, Arc::new(decks))).collect())
}

fn view(stored: Stored, messages: Vec<Arc<Message>>, tombstones: Vec<u32>, generation: u64) -> DeckView {
    DeckView {
        deck: Arc::new(stored.deck),
        messages: messages.into(),
        tombstones: tombstones.into(),
        named: stored.named,
        next_ordinal: stored.next_ordinal,
        generation,
    }
}

async fn stored(database: &Database, space: &SpaceId, id: &DeckId) -> Result<Option<Stored>, CatalogError> {
    let query = database.query(SELECT_ONE).bind(space.as_str()).bind(id.as_str());
    Ok(query.fetch_optional(database.pool()).await?.as_ref().and_then(|row| readable(Stored::from_row(row))))
}

async fn tombstones(database: &Database, space: &SpaceId, id: &DeckId) -> Result<Vec<u32>, CatalogError> {
    let statement = "SELECT ordinal FROM message_tombstones WHERE space = ? AND deck = ? ORDER BY ordinal";
    let rows = database.query(statement).bind(space.as_str()).bind(id.as_str()).fetch_all(database.pool()).await?;
    rows.iter().map(|row| ordinal(row, "ordinal")).collect()
}

fn deck_of(row: &AnyRow) -> Result<(SpaceId, String), CatalogError> {
    Ok((space_of(row)?, text(row, "deck")?))
}
