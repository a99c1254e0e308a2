//! Messages of decks: list, get, create many, put, delete; and those that name a subject, by that subject.

use std::collections::BTreeSet;

use hermod_core::pick::Message;
use hermod_core::{DeckId, Invalid, MessageId, SpaceId, Subject};
use sqlx::any::AnyRow;

use crate::catalog::Catalog;
use crate::change::{Change, Kind};
use crate::database::{CALL_TIMEOUT, sql_int, text, within};
use crate::decks::{self, Stored};
use crate::definition::{CatalogOnce, Saved};
use crate::error::CatalogError;
use crate::write::{Answer, Begun, Write, conflict};

mod own;
mod rows;

pub use own::OwnMessages;

/// The longest page, and the most messages that are made in one write.
pub(crate) const PAGE_MAX: u32 = 1_000;
/// A write that concerns more messages or names more subjects than these does not tell them one by one: everybody reads the
/// whole deck, or forgets all they know of subjects.
const TOLD_MAX: usize = 100;

impl Catalog {
    /// Up to `limit` messages of a deck (at most 1,000) by id, those after `after`.
    pub async fn messages(
        &self,
        space: &SpaceId,
        deck: &DeckId,
        after: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, CatalogError> {
        let database = &self.inner.database;
        within(CALL_TIMEOUT, async {
            let statement = "SELECT id, body FROM messages WHERE space = ? AND deck = ? AND id > ? ORDER BY id LIMIT ?";
            // No id is empty, so all come after it.
            let after = after.map_or("", MessageId::as_str);
            let query = database.query(statement).bind(space.as_str()).bind(deck.as_str()).bind(after);
            let rows = query.bind(i64::from(limit.clamp(1, PAGE_MAX))).fetch_all(database.pool()).await?;
            if rows.is_empty() {
                let query = database.query(decks::SELECT_ONE).bind(space.as_str()).bind(deck.as_str());
                query.fetch_optional(database.pool()).await?.ok_or_else(|| decks::not_found(deck))?;
            }
            rows.iter().map(from_row).collect()
        })
        .await
    }

    /// One message.
    pub async fn message(&self, space: &SpaceId, deck: &DeckId, id: &MessageId) -> Result<Option<Message>, CatalogError> {
        let database = &self.inner.database;
        within(CALL_TIMEOUT, async {
            let query = database.query(SELECT_ONE).bind(space.as_str()).bind(deck.as_str()).bind(id.as_str());
            query.fetch_optional(database.pool()).await?.as_ref().map(from_row).transpose()
        })
        .await
    }

    /// Saves messages that are not there yet, all or none, 1,000 at most. Their ordinals are the deck's next, in this order.
    pub async fn create_messages(
        &self,
        space: &SpaceId,
        deck: &DeckId,
        mut messages: Vec<Message>,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<Vec<Message>>, CatalogError> {
        precheck(&messages)?;
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::Messages { messages }) => return Ok(Saved { value: messages, created: true, replayed: true }),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            let mut stored = deck_of(&mut write, space, deck).await?;
            if let Some(id) = rows::first_known(&mut write, space, deck, &messages).await? {
                return Err(CatalogError::Exists { what: "message", id });
            }
            let mut touched = Touched::default();
            for message in &mut messages {
                (message.ordinal, message.version) = (stored.take_ordinal()?, 1);
                stored.named += u64::from(message.named().is_some());
            }
            messages.iter().for_each(|message| touched.by(message));
            if !touched.everyones.is_empty() {
                stored.refuse_beyond()?;
            }
            stored.save_counts(&mut write, space).await?;
            rows::insert(&mut write, space, deck, &messages).await?;
            let changes = touched.changes(space, deck);
            drop(touched);
            let answer = Answer::Messages { messages: std::mem::take(&mut messages) };
            write.commit(&changes, &answer).await?;
            let Answer::Messages { messages } = answer else { return Err(conflict(once)) };
            Ok(Saved { value: messages, created: true, replayed: false })
        })
        .await
    }

    /// Saves a message, in place of the one with the same id if there is one: that one's ordinal stays. Its version grows by one.
    pub async fn put_message(
        &self,
        space: &SpaceId,
        deck: &DeckId,
        mut message: Message,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<Message>, CatalogError> {
        message.check()?;
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::Message { message, created }) => return Ok(Saved { value: *message, created, replayed: true }),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            let mut stored = deck_of(&mut write, space, deck).await?;
            let old = one(&mut write, space, deck, &message.id).await?;
            let was_everyones = old.as_ref().is_some_and(|old| old.named().is_none());
            let was_named = old.as_ref().is_some_and(|old| old.named().is_some());
            message.ordinal = old.as_ref().map_or_else(|| stored.take_ordinal(), |old| Ok(old.ordinal))?;
            message.version = old.as_ref().map_or(1, |old| old.version.saturating_add(1));
            stored.named = (stored.named + u64::from(message.named().is_some())).saturating_sub(u64::from(was_named));
            if message.named().is_none() && !was_everyones {
                stored.refuse_beyond()?;
            }
            stored.save_counts(&mut write, space).await?;
            match &old {
                Some(old) => rows::update(&mut write, space, deck, old, &message).await?,
                None => rows::insert(&mut write, space, deck, std::slice::from_ref(&message)).await?,
            }
            let mut touched = Touched::default();
            old.iter().chain([&message]).for_each(|message| touched.by(message));
            let (changes, created) = (touched.changes(space, deck), old.is_none());
            write.commit(&changes, &Answer::Message { message: Box::new(message.clone()), created }).await?;
            Ok(Saved { value: message.clone(), created, replayed: false })
        })
        .await
    }

    /// Deletes a message. Its ordinal becomes a tombstone. False if there was none.
    pub async fn delete_message(
        &self,
        space: &SpaceId,
        deck: &DeckId,
        id: &MessageId,
        once: Option<&CatalogOnce>,
    ) -> Result<bool, CatalogError> {
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::MessageDeleted) => return Ok(true),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            let mut stored = deck_of(&mut write, space, deck).await?;
            let Some(old) = one(&mut write, space, deck, id).await? else { return Ok(false) };
            rows::delete(&mut write, space, deck, &old).await?;
            stored.tombstones += 1;
            stored.named = stored.named.saturating_sub(u64::from(old.named().is_some()));
            stored.save_counts(&mut write, space).await?;
            let mut touched = Touched::default();
            touched.by(&old);
            write.commit(&touched.changes(space, deck), &Answer::MessageDeleted).await?;
            Ok(true)
        })
        .await
    }
}

/// What is wrong with the list whatever is stored: it need not wait for its turn.
fn precheck(messages: &[Message]) -> Result<(), CatalogError> {
    if messages.is_empty() || u32::try_from(messages.len()).map_or(true, |count| count > PAGE_MAX) {
        return Err(Invalid::new("messages", format!("must be 1 to {PAGE_MAX}")).into());
    }
    let mut ids = BTreeSet::new();
    for message in messages {
        message.check()?;
        if !ids.insert(&message.id) {
            return Err(CatalogError::Exists { what: "message", id: message.id.to_string() });
        }
    }
    Ok(())
}

/// Whom a write concerns.
#[derive(Default)]
struct Touched<'a> {
    /// By its ordinal, each message that is or was not for named subjects.
    everyones: BTreeSet<u32>,
    subjects: BTreeSet<&'a Subject>,
}

impl<'a> Touched<'a> {
    fn by(&mut self, message: &'a Message) {
        match message.named() {
            Some(subjects) => self.subjects.extend(subjects),
            None => drop(self.everyones.insert(message.ordinal)),
        }
    }

    fn changes(&self, space: &SpaceId, deck: &DeckId) -> Vec<Change> {
        let of = |kind| Change::of_deck(kind, space, deck);
        let mut changes: Vec<Change> = match self.everyones.len() > TOLD_MAX {
            true => vec![of(Kind::Deck)],
            false => self.everyones.iter().map(|ordinal| Change { ordinal: Some(u64::from(*ordinal)), ..of(Kind::Deck) }).collect(),
        };
        match self.subjects.len() > TOLD_MAX {
            true => changes.push(of(Kind::Message)),
            false => {
                let told = |subject: &&Subject| Change { subject: Some(Subject::clone(subject)), ..of(Kind::Message) };
                changes.extend(self.subjects.iter().map(told));
            }
        }
        changes
    }
}

async fn deck_of(write: &mut Write<'_>, space: &SpaceId, deck: &DeckId) -> Result<Stored, CatalogError> {
    write.subject_rules(space).await?;
    decks::stored(write, space, deck).await?.ok_or_else(|| decks::not_found(deck))
}

const SELECT_ONE: &str = "SELECT id, body FROM messages WHERE space = ? AND deck = ? AND id = ?";

async fn one(write: &mut Write<'_>, space: &SpaceId, deck: &DeckId, id: &MessageId) -> Result<Option<Message>, CatalogError> {
    let query = write.query(SELECT_ONE).bind(space.as_str()).bind(deck.as_str()).bind(id.as_str());
    write.fetch(query).await?.as_ref().map(from_row).transpose()
}

/// A message, from its `id` and `body`.
pub(crate) fn from_row(row: &AnyRow) -> Result<Message, CatalogError> {
    let id = text(row, "id")?;
    serde_json::from_str(&text(row, "body")?).map_err(|fault| CatalogError::corrupt("message", id, fault))
}

fn body(message: &Message) -> Result<String, CatalogError> {
    serde_json::to_string(message).map_err(|fault| CatalogError::corrupt("message", message.id.as_str(), fault))
}

fn version(message: &Message) -> i64 {
    sql_int(message.version)
}
