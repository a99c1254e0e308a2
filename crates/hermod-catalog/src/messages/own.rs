//! Messages that name a subject, by that subject: from the cache, else from the database.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use hermod_core::SpaceId;
use hermod_core::pick::Message;

use super::from_row;
use crate::catalog::{Catalog, Inner};
use crate::database::{CALL_TIMEOUT, within};
use crate::decks::DeckView;
use crate::error::CatalogError;
use crate::subjects::{Key, Own};

/// The most messages of one subject that are read: the newest.
const OWN_MAX: i64 = 10_000;
/// How much of bodies takes the room of one more message.
const BODY_UNIT: usize = 1_024;

/// The messages of a deck that name one subject, active or not.
#[derive(Clone, Debug, Default)]
pub struct OwnMessages {
    /// By ordinal; the newest 10,000 if there are more.
    pub messages: Vec<Arc<Message>>,
    /// Differs whenever the messages do, and is 0 where the deck names nobody. A number of this server's alone.
    pub generation: u64,
}

impl Own for OwnMessages {
    fn weight(&self) -> u64 {
        let room = |message: &Arc<Message>| 1 + message.body.len() / BODY_UNIT;
        u64::try_from(self.messages.iter().map(room).sum::<usize>()).unwrap_or(u64::MAX)
    }
}

static NONE: LazyLock<Arc<OwnMessages>> = LazyLock::new(Arc::default);

impl Catalog {
    /// The messages of a deck that name `subject`, if memory knows. `None`: ask [`Catalog::own_messages`].
    pub fn own_messages_now(&self, space: &SpaceId, deck: &DeckView, subject: &str) -> Option<Arc<OwnMessages>> {
        match deck.named {
            0 => Some(Arc::clone(&NONE)),
            _ => self.inner.own_messages.get(space, &deck.deck.epoch, subject),
        }
    }

    /// The messages of a deck that name `subject`. Asks the database for those that memory does not know, and never where the
    /// deck names nobody.
    pub async fn own_messages(&self, space: &SpaceId, deck: &DeckView, subject: &str) -> Result<Arc<OwnMessages>, CatalogError> {
        if let Some(own) = self.own_messages_now(space, deck, subject) {
            return Ok(own);
        }
        // While the database is known to be away nobody waits for it; the poller finds it again.
        if !self.is_healthy() {
            return Err(CatalogError::Unavailable("it did not answer last time".into()));
        }
        within(CALL_TIMEOUT, self.inner.read_own_messages(space, deck, subject)).await
    }
}

impl Inner {
    async fn read_own_messages(&self, space: &SpaceId, deck: &DeckView, subject: &str) -> Result<Arc<OwnMessages>, CatalogError> {
        let key = Key { space: space.clone(), part: deck.deck.epoch, subject: subject.into() };
        let vacancy = match self.own_messages.get_or_vacancy(&key).await {
            Ok(own) => return Ok(own),
            Err(vacancy) => vacancy,
        };
        let statement = "SELECT m.id AS id, m.body AS body FROM message_subjects s \
                         JOIN messages m ON m.space = s.space AND m.deck = s.deck AND m.id = s.id \
                         WHERE s.space = ? AND s.deck = ? AND s.subject = ? ORDER BY s.ordinal DESC LIMIT ?";
        let query = self.database.query(statement).bind(space.as_str()).bind(deck.deck.id.as_str()).bind(subject).bind(OWN_MAX);
        let rows = query.fetch_all(self.database.pool()).await.map_err(CatalogError::from).inspect_err(|fault| {
            if fault.is_retryable() {
                self.lost(fault);
            }
        })?;
        let messages = rows.iter().rev().map(|row| from_row(row).map(Arc::new)).collect::<Result<_, _>>()?;
        let generation = self.readings.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let own = Arc::new(OwnMessages { messages, generation });
        vacancy.fill(&own);
        Ok(own)
    }
}
