//! events: what changed, read from any point, and followed live.
//!
//! Every partition has a log of its own. A reader's place is one number for each of them (`cursor.rs`), so nothing is missed
//! or told twice, whatever clocks do; times only say in which order the partitions are told.

mod cursor;
mod follow;
mod merge;

use hermod_catalog::Scope;
use hermod_core::event::{Event, Kind, ReadEvents, Recorded};
use hermod_core::{Invalid, MessageId, Outcome, Place, SpaceId, Subject};

use super::{App, Caller};
use crate::code::{Problem, conflict};

use cursor::Cursor;
pub use follow::EventsTold;

/// The longest page.
const PAGE_MAX: usize = 1_000;

/// Which events.
#[derive(Clone, Debug)]
pub struct EventsAsk {
    after: After,
    kind: Option<Kind>,
    subject: Option<Subject>,
    limit: usize,
}

/// From where on.
#[derive(Clone, Debug)]
enum After {
    /// From the oldest that is kept.
    Oldest,
    /// Only what is to come.
    Now,
    /// What follows an event or a page; and where it was said.
    Cursor(String, &'static str),
}

impl EventsAsk {
    /// Checks what came from outside. `seen` is where a connection broke off, and wins over `after`.
    pub fn new(after: Option<&str>, seen: Option<&str>, limit: Option<u64>) -> Result<EventsAsk, Invalid> {
        let after = match (after, seen) {
            (_, Some(seen)) => After::Cursor(seen.to_owned(), "Last-Event-ID"),
            (None, None) => After::Oldest,
            (Some("now" | "latest"), None) => After::Now,
            (Some(after), None) => After::Cursor(after.to_owned(), "after"),
        };
        let limit = usize::try_from(limit.unwrap_or(100)).unwrap_or(usize::MAX);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Invalid::new("limit", format!("must be between 1 and {PAGE_MAX}")));
        }
        Ok(EventsAsk { after, kind: None, subject: None, limit })
    }

    /// Only of this type, and only of this subject.
    pub fn only(mut self, kind: Option<&str>, subject: Option<&str>) -> Result<EventsAsk, Invalid> {
        let known = || format!("must be one of: {}", Kind::ALL.map(Kind::as_str).join(" "));
        self.kind = kind.map(|name| Kind::from_name(name).ok_or_else(|| Invalid::new("type", known()))).transpose()?;
        self.subject = subject.map(Subject::new).transpose()?;
        Ok(self)
    }

    fn matches(&self, event: &Event) -> bool {
        let is_of_kind = self.kind.is_none_or(|kind| event.kind == kind);
        is_of_kind && self.subject.as_ref().is_none_or(|subject| event.pick.subject == *subject)
    }
}

/// An event, as it is told.
#[derive(Clone, Debug)]
pub struct EventAnswer {
    /// Where a reader is after it.
    pub id: String,
    /// What happened.
    pub event: Event,
    /// The message's name; none if it was deleted, or is for others by now.
    pub message: Option<MessageId>,
}

/// A page of events.
#[derive(Clone, Debug)]
pub struct EventsAnswer {
    /// In the order of their times.
    pub items: Vec<EventAnswer>,
    /// Where the reader is after them.
    pub next: String,
    /// Some that the reader has not seen are not kept any more.
    pub gap: bool,
    /// There is more to be read at once.
    pub more: bool,
}

impl App {
    /// What happened.
    pub async fn events(&self, caller: &Caller, ask: &EventsAsk) -> Result<EventsAnswer, Problem> {
        caller.need(Scope::EventsRead)?;
        let mut cursor = self.events_from(&caller.space, &ask.after).await?;
        self.events_page(&caller.space, &mut cursor, ask).await
    }

    /// Where a reader begins.
    async fn events_from(&self, space: &SpaceId, after: &After) -> Result<Cursor, Problem> {
        let partitions = self.engine.partitions().count();
        match after {
            After::Oldest => Ok(Cursor::oldest(partitions)),
            After::Cursor(text, field) => {
                Ok(Cursor::read(text, partitions).ok_or_else(|| Invalid::new(field, "is none that was ever given out"))?)
            }
            After::Now => {
                let all: Vec<_> = (0..partitions).map(|partition| (partition, 0, 0)).collect();
                let mut cursor = Cursor::oldest(partitions);
                for (partition, recorded) in (0..).zip(self.read_logs(space, &all).await?) {
                    cursor.set(partition, recorded.last);
                }
                Ok(cursor)
            }
        }
    }

    /// Reads logs at once, each after a number and at most so many.
    async fn read_logs(&self, space: &SpaceId, wanted: &[(u16, u64, usize)]) -> Result<Vec<Recorded>, Problem> {
        let reads = wanted.iter().map(|(partition, after, limit)| async {
            let place = Place { space: space.clone(), partition: *partition };
            match self.engine.run(&ReadEvents::new(place, *after, *limit), None).await?.outcome {
                Outcome::Done(recorded) | Outcome::Replayed(recorded) => Ok(recorded),
                Outcome::Conflict => Err(conflict()),
            }
        });
        futures_util::future::try_join_all(reads).await
    }

    /// The next page, after which the cursor is moved there.
    async fn events_page(&self, space: &SpaceId, cursor: &mut Cursor, ask: &EventsAsk) -> Result<EventsAnswer, Problem> {
        let merge::Merged { events, gap, more } = self.merge_logs(space, cursor, ask).await?;
        let mut items = Vec::with_capacity(events.len());
        for (id, event) in events {
            let message = self.message_of(space, &event).await?;
            items.push(EventAnswer { id, event, message });
        }
        Ok(EventsAnswer { items, next: cursor.to_string(), gap, more })
    }

    /// The name of an event's message.
    async fn message_of(&self, space: &SpaceId, event: &Event) -> Result<Option<MessageId>, Problem> {
        // What has the deck's name by now may be another deck.
        let Some(deck) = self.catalog.deck(space, &event.pick.deck).filter(|deck| deck.deck.epoch == event.pick.epoch) else {
            return Ok(None);
        };
        if let Ok(at) = deck.messages.binary_search_by_key(&event.ordinal, |message| message.ordinal) {
            return Ok(deck.messages.get(at).map(|message| message.id.clone()));
        }
        let own = self.catalog.own_messages(space, &deck, event.pick.subject.as_str()).await?;
        Ok(own.messages.iter().find(|message| message.ordinal == event.ordinal).map(|message| message.id.clone()))
    }
}
