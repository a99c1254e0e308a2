//! Reads decks into memory.
//!
//! A deck's row is read last, so that its counts are never behind the messages: all of them are below its next ordinal.

use std::collections::HashMap;
use std::sync::Arc;

use hermod_core::pick::Message;
use hermod_core::{DeckId, SpaceId};
use sqlx::any::AnyRow;

use super::{DeckView, SELECT_ONE, Stored, ordinal};
use crate::database::{Database, text};
use crate::error::CatalogError;
use crate::messages;
use crate::refresh::space_of;
use crate::snapshot::Decks;

/// One deck, from the database.
pub(crate) async fn read(database: &Database, space: &SpaceId, id: &DeckId, generation: u64) -> Result<Option<DeckView>, CatalogError> {
    let statement = "SELECT id, body FROM messages WHERE named = 0 AND space = ? AND deck = ? ORDER BY ordinal";
    let rows = database.query(statement).bind(space.as_str()).bind(id.as_str()).fetch_all(database.pool()).await?;
    let messages = rows.iter().map(|row| messages::from_row(row).map(Arc::new)).collect::<Result<_, _>>()?;
    let tombstones = tombstones(database, space, id).await?;
    Ok(stored(database, space, id).await?.map(|stored| view(stored, messages, tombstones, generation)))
}

/// A deck that is known, after changes of messages that name their subjects.
pub(crate) async fn counted(
    database: &Database,
    space: &SpaceId,
    known: &DeckView,
    generation: u64,
) -> Result<Option<DeckView>, CatalogError> {
    let id = &known.deck.id;
    let Some(stored) = stored(database, space, id).await? else { return Ok(None) };
    if stored.deck != *known.deck {
        return read(database, space, id, generation).await;
    }
    let mut view = DeckView { named: stored.named, next_ordinal: stored.next_ordinal, ..known.clone() };
    if usize::try_from(stored.tombstones) != Ok(known.tombstones.len()) {
        view.tombstones = tombstones(database, space, id).await?.into();
        view.generation = generation;
    }
    Ok(Some(view))
}

/// All decks, from the database.
pub(crate) async fn read_all(database: &Database, generation: u64) -> Result<HashMap<SpaceId, Arc<Decks>>, CatalogError> {
    let mut messages: HashMap<(SpaceId, String), Vec<Arc<Message>>> = HashMap::new();
    let statement = "SELECT space, deck, id, body FROM messages WHERE named = 0 ORDER BY space, deck, ordinal";
    for row in &database.query(statement).fetch_all(database.pool()).await? {
        messages.entry(deck_of(row)?).or_default().push(Arc::new(messages::from_row(row)?));
    }
    let mut tombstones: HashMap<(SpaceId, String), Vec<u32>> = HashMap::new();
    let statement = "SELECT space, deck, ordinal FROM message_tombstones ORDER BY space, deck, ordinal";
    for row in &database.query(statement).fetch_all(database.pool()).await? {
        tombstones.entry(deck_of(row)?).or_default().push(ordinal(row, "ordinal")?);
    }
    let mut spaces: HashMap<SpaceId, Decks> = HashMap::new();
    let statement = "SELECT space, id AS deck, id, body, next_ordinal, named, tombstones FROM decks";
    for row in &database.query(statement).fetch_all(database.pool()).await? {
        let (key, stored) = (deck_of(row)?, Stored::from_row(row)?);
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
    query.fetch_optional(database.pool()).await?.as_ref().map(Stored::from_row).transpose()
}

async fn tombstones(database: &Database, space: &SpaceId, id: &DeckId) -> Result<Vec<u32>, CatalogError> {
    let statement = "SELECT ordinal FROM message_tombstones WHERE space = ? AND deck = ? ORDER BY ordinal";
    let rows = database.query(statement).bind(space.as_str()).bind(id.as_str()).fetch_all(database.pool()).await?;
    rows.iter().map(|row| ordinal(row, "ordinal")).collect()
}

fn deck_of(row: &AnyRow) -> Result<(SpaceId, String), CatalogError> {
    Ok((space_of(row)?, text(row, "deck")?))
}
