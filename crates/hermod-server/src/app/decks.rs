//! pick: the definitions of decks and of their messages.

use std::sync::Arc;

use hermod_catalog::{CatalogOnce, DeckView, Saved, Scope};
use hermod_core::limit::When;
use hermod_core::pick::message::Stamp;
use hermod_core::pick::{Audience, Cap, Deck, Message, Quiet, Zone};
use hermod_core::{DeckId, Invalid, MessageId, Micros, Subject, Tag};

use super::queues::{addressable, set};
use super::{App, Caller};
use crate::code::{Code, Problem};

/// A deck as it comes from outside, not yet checked. What is absent has its default.
#[derive(Clone, Debug, Default)]
pub struct DeckDraft {
    /// Its name.
    pub deck: String,
    /// How a message is chosen.
    pub strategy: Option<String>,
    /// How many messages one subject gets; `Some(None)` for no bound.
    pub subject_cap: Option<Option<CapDraft>>,
    /// From and to which time of day nothing is sent.
    pub quiet_hours: Option<(String, String)>,
    /// A time zone of the IANA database.
    pub timezone: Option<String>,
    /// How many sends of a subject are remembered exactly.
    pub history_max: Option<u32>,
}

/// So many per period, not yet checked.
#[derive(Clone, Debug, Default)]
pub struct CapDraft {
    /// How many.
    pub tokens: u64,
    /// Per what.
    pub per: String,
    /// bucket, rolling or calendar.
    pub kind: Option<String>,
}

/// A message as it comes from outside, not yet checked.
#[derive(Clone, Debug, Default)]
pub struct MessageDraft {
    /// Made up if absent.
    pub id: Option<String>,
    /// The text of a JSON value.
    pub body: String,
    /// Whom it is for.
    pub to: ToDraft,
    /// A condition, in CEL.
    pub when: Option<String>,
    /// 1 if absent.
    pub weight: Option<u32>,
    /// 0 if absent.
    pub priority: Option<i32>,
    /// It is, if absent.
    pub active: Option<bool>,
    /// From when on it is sent.
    pub starts_at: Option<Micros>,
    /// From when on it is not.
    pub ends_at: Option<Micros>,
    /// How often one subject gets it.
    pub cap: Option<CapDraft>,
    /// What a subject can opt out of.
    pub tags: Vec<String>,
    /// Passes quiet hours and mute.
    pub critical: bool,
}

/// Whom a message is for, not yet checked.
#[derive(Clone, Debug, Default)]
pub enum ToDraft {
    /// All.
    #[default]
    Everyone,
    /// These.
    Subjects(Vec<String>),
    /// Those with one of these tags.
    Tags(Vec<String>),
}

/// A fault in a part of the whole: `tokens` of `cap` is `cap.tokens`.
fn part_of(whole: &str, fault: &Invalid) -> Problem {
    let field = format!("{whole}.{}", fault.field);
    Problem::new(Code::InvalidField, format!("{field} {}", fault.reason)).in_field(field)
}

fn in_field(field: &'static str) -> impl Fn(Invalid) -> Invalid {
    move |fault| Invalid::new(field, fault.reason)
}

impl CapDraft {
    fn read(self, whole: &str) -> Result<Cap, Problem> {
        let kind = self.kind.map_or_else(|| Ok(Default::default()), |text| text.parse());
        kind.and_then(|kind| Cap::new(self.tokens, &self.per, kind)).map_err(|fault| part_of(whole, &fault))
    }
}

impl DeckDraft {
    /// Checks every field.
    pub fn read(self) -> Result<Deck, Problem> {
        addressable("deck", &self.deck)?;
        let mut deck = Deck::new(DeckId::new(&self.deck)?);
        set(&mut deck.strategy, self.strategy.map(|text| text.parse()))?;
        if let Some(cap) = self.subject_cap {
            deck.subject_cap = cap.map(|cap| cap.read("subject_cap")).transpose()?;
        }
        let quiet = self.quiet_hours.map(|(from, to)| Quiet::new(&from, &to)).transpose();
        deck.quiet_hours = quiet.map_err(|fault| part_of("quiet_hours", &fault))?;
        set(&mut deck.timezone, self.timezone.map(|name| Zone::new(&name)))?;
        set(&mut deck.history_max, self.history_max.map(Ok))?;
        deck.check()?;
        Ok(deck)
    }
}

impl ToDraft {
    fn read(self) -> Result<Audience, Invalid> {
        Ok(match self {
            ToDraft::Everyone => Audience::Everyone,
            ToDraft::Subjects(subjects) => {
                let subjects = subjects.iter().map(Subject::new).collect::<Result<_, _>>();
                Audience::Subjects(subjects.map_err(in_field("to.subjects"))?)
            }
            ToDraft::Tags(tags) => Audience::Tags(tags.iter().map(Tag::new).collect::<Result<_, _>>().map_err(in_field("to.tags"))?),
        })
    }
}

impl MessageDraft {
    /// Checks every field, and that they fit together.
    pub fn read(self) -> Result<Message, Problem> {
        let id = match self.id {
            Some(id) => {
                addressable("id", &id)?;
                MessageId::new(id)?
            }
            None => MessageId::new(format!("ms_{}", uuid::Uuid::now_v7().simple()))?,
        };
        let mut message = Message::new(id, &self.body);
        message.to = self.to.read()?;
        message.when = self.when.as_deref().map(When::new).transpose()?;
        set(&mut message.weight, self.weight.map(Ok))?;
        set(&mut message.priority, self.priority.map(Ok))?;
        set(&mut message.active, self.active.map(Ok))?;
        message.starts_at = self.starts_at.map(Stamp);
        message.ends_at = self.ends_at.map(Stamp);
        message.cap = self.cap.map(|cap| cap.read("cap")).transpose()?;
        message.tags = self.tags.iter().map(Tag::new).collect::<Result<_, _>>()?;
        message.critical = self.critical;
        message.check()?;
        Ok(message)
    }
}

fn no_deck(id: &DeckId) -> Problem {
    Problem::new(Code::DeckNotFound, format!("There is no deck {id}."))
}

fn no_message(deck: &DeckId, id: &MessageId) -> Problem {
    Problem::new(Code::MessageNotFound, format!("There is no message {id} in the deck {deck}."))
}

impl App {
    /// All decks of the space, by id.
    pub fn decks(&self, caller: &Caller) -> Result<Vec<Arc<DeckView>>, Problem> {
        caller.need(Scope::DecksRead)?;
        Ok(self.catalog.decks(&caller.space))
    }

    /// One deck.
    pub fn deck(&self, caller: &Caller, id: &str) -> Result<Arc<DeckView>, Problem> {
        caller.need(Scope::DecksRead)?;
        let id = DeckId::new(id)?;
        self.catalog.deck(&caller.space, &id).ok_or_else(|| no_deck(&id))
    }

    /// Adds or replaces a deck. Its messages stay, and who got which.
    pub async fn put_deck(&self, caller: &Caller, draft: DeckDraft, once: Option<&CatalogOnce>) -> Result<Saved<Deck>, Problem> {
        caller.need(Scope::DecksWrite)?;
        Ok(self.catalog.put_deck(&caller.space, draft.read()?, once).await?)
    }

    /// Deletes a deck and its messages.
    pub async fn delete_deck(&self, caller: &Caller, id: &str, once: Option<&CatalogOnce>) -> Result<(), Problem> {
        caller.need(Scope::DecksWrite)?;
        let id = DeckId::new(id)?;
        match self.catalog.delete_deck(&caller.space, &id, once).await? {
            true => Ok(()),
            false => Err(no_deck(&id)),
        }
    }

    /// A page of a deck's messages, by id.
    pub async fn messages(&self, caller: &Caller, deck: &str, after: Option<&str>, limit: u32) -> Result<Vec<Message>, Problem> {
        caller.need(Scope::DecksRead)?;
        let after = after
            .map(MessageId::new)
            .transpose()
            .map_err(|_| Problem::new(Code::InvalidField, "cursor is not one of ours").in_field("cursor"))?;
        Ok(self.catalog.messages(&caller.space, &DeckId::new(deck)?, after.as_ref(), limit).await?)
    }

    /// One message.
    pub async fn message(&self, caller: &Caller, deck: &str, id: &str) -> Result<Message, Problem> {
        let deck = self.deck(caller, deck)?;
        let id = MessageId::new(id)?;
        let message = self.catalog.message(&caller.space, &deck.deck.id, &id).await?;
        message.ok_or_else(|| no_message(&deck.deck.id, &id))
    }

    /// Adds messages, all or none.
    pub async fn create_messages(
        &self,
        caller: &Caller,
        deck: &str,
        messages: Vec<Message>,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<Vec<Message>>, Problem> {
        caller.need(Scope::DecksWrite)?;
        Ok(self.catalog.create_messages(&caller.space, &DeckId::new(deck)?, messages, once).await?)
    }

    /// Adds or replaces a message. Who got it keeps having got it.
    pub async fn put_message(
        &self,
        caller: &Caller,
        deck: &str,
        draft: MessageDraft,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<Message>, Problem> {
        caller.need(Scope::DecksWrite)?;
        Ok(self.catalog.put_message(&caller.space, &DeckId::new(deck)?, draft.read()?, once).await?)
    }

    /// Deletes a message. It is forgotten that it was sent.
    pub async fn delete_message(&self, caller: &Caller, deck: &str, id: &str, once: Option<&CatalogOnce>) -> Result<(), Problem> {
        caller.need(Scope::DecksWrite)?;
        let (deck, id) = (DeckId::new(deck)?, MessageId::new(id)?);
        match self.catalog.delete_message(&caller.space, &deck, &id, once).await? {
            true => Ok(()),
            false => Err(no_message(&deck, &id)),
        }
    }
}
