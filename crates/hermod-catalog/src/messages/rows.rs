//! The rows of messages: a message's own, and one for each subject it names.

use std::collections::BTreeSet;

use hermod_core::pick::Message;
use hermod_core::{DeckId, SpaceId, Subject};

use super::{body, version};
use crate::database::text;
use crate::error::CatalogError;
use crate::write::Write;

/// How many rows one statement carries: far fewer values than any of the databases takes, and less than a packet of MySQL.
const BATCH: usize = 50;

/// One of these that is there already, if there is one.
pub(super) async fn first_known(
    write: &mut Write<'_>,
    space: &SpaceId,
    deck: &DeckId,
    messages: &[Message],
) -> Result<Option<String>, CatalogError> {
    for batch in messages.chunks(BATCH) {
        let before = "SELECT id FROM messages WHERE space = ? AND deck = ? AND id IN (";
        let query = write.database().repeated(before, "?", batch.len(), ") ORDER BY id").bind(space.as_str()).bind(deck.as_str());
        let query = batch.iter().fold(query, |query, message| query.bind(message.id.as_str()));
        if let Some(row) = write.fetch_all(query).await?.first() {
            return text(row, "id").map(Some);
        }
    }
    Ok(None)
}

pub(super) async fn insert(write: &mut Write<'_>, space: &SpaceId, deck: &DeckId, messages: &[Message]) -> Result<(), CatalogError> {
    for batch in messages.chunks(BATCH) {
        let before = "INSERT INTO messages (space, deck, id, ordinal, named, body, version) VALUES ";
        let mut query = write.database().repeated(before, "(?, ?, ?, ?, ?, ?, ?)", batch.len(), "");
        for message in batch {
            query = query.bind(space.as_str()).bind(deck.as_str()).bind(message.id.as_str()).bind(i64::from(message.ordinal));
            query = query.bind(i64::from(message.named().is_some())).bind(body(message)?).bind(version(message));
        }
        write.execute(query).await?;
    }
    name(write, space, deck, messages).await
}

/// Notes whom these messages name.
async fn name(write: &mut Write<'_>, space: &SpaceId, deck: &DeckId, messages: &[Message]) -> Result<(), CatalogError> {
    let mut named: Vec<(&Message, &Subject)> = Vec::new();
    for message in messages {
        // Who is named twice is named once.
        let subjects: BTreeSet<&Subject> = message.named().unwrap_or_default().iter().collect();
        named.extend(subjects.into_iter().map(|subject| (message, subject)));
    }
    for batch in named.chunks(BATCH) {
        let before = "INSERT INTO message_subjects (space, deck, subject, ordinal, id) VALUES ";
        let mut query = write.database().repeated(before, "(?, ?, ?, ?, ?)", batch.len(), "");
        for (message, subject) in batch {
            query = query.bind(space.as_str()).bind(deck.as_str()).bind(subject.as_str());
            query = query.bind(i64::from(message.ordinal)).bind(message.id.as_str());
        }
        write.execute(query).await?;
    }
    Ok(())
}

async fn unname(write: &mut Write<'_>, space: &SpaceId, deck: &DeckId, old: &Message) -> Result<(), CatalogError> {
    if old.named().is_none() {
        return Ok(());
    }
    let query = write.query("DELETE FROM message_subjects WHERE space = ? AND deck = ? AND ordinal = ?");
    write.execute(query.bind(space.as_str()).bind(deck.as_str()).bind(i64::from(old.ordinal))).await?;
    Ok(())
}

pub(super) async fn update(
    write: &mut Write<'_>,
    space: &SpaceId,
    deck: &DeckId,
    old: &Message,
    message: &Message,
) -> Result<(), CatalogError> {
    let query = write.query("UPDATE messages SET named = ?, body = ?, version = ? WHERE space = ? AND deck = ? AND id = ?");
    let query = query.bind(i64::from(message.named().is_some())).bind(body(message)?).bind(version(message));
    write.execute(query.bind(space.as_str()).bind(deck.as_str()).bind(message.id.as_str())).await?;
    if old.to != message.to {
        unname(write, space, deck, old).await?;
        name(write, space, deck, std::slice::from_ref(message)).await?;
    }
    Ok(())
}

pub(super) async fn delete(write: &mut Write<'_>, space: &SpaceId, deck: &DeckId, old: &Message) -> Result<(), CatalogError> {
    unname(write, space, deck, old).await?;
    let query = write.query("DELETE FROM messages WHERE space = ? AND deck = ? AND id = ?");
    write.execute(query.bind(space.as_str()).bind(deck.as_str()).bind(old.id.as_str())).await?;
    let query = write.query("INSERT INTO message_tombstones (space, deck, ordinal) VALUES (?, ?, ?)");
    write.execute(query.bind(space.as_str()).bind(deck.as_str()).bind(i64::from(old.ordinal))).await?;
    Ok(())
}
