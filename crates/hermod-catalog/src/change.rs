//! What one write changed, as other servers read it.

use hermod_core::{DeckId, RealmId, SpaceId, Subject};
use sqlx::any::AnyRow;

use crate::database::{int, int_or_null, text, text_or_null};
use crate::error::CatalogError;
use crate::refresh::space_of;

/// Of which kind the changed definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rule,
    Space,
    Key,
    Queue,
    Schedule,
    /// A deck with all that every server keeps of it in memory, or one message of that.
    Deck,
    /// Messages of a deck that name their subjects.
    Message,
    Realm,
}

impl Kind {
    const ALL: [Kind; 8] = [Kind::Rule, Kind::Space, Kind::Key, Kind::Queue, Kind::Schedule, Kind::Deck, Kind::Message, Kind::Realm];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Kind::Rule => "rule",
            Kind::Space => "space",
            Kind::Key => "key",
            Kind::Queue => "queue",
            Kind::Schedule => "schedule",
            Kind::Deck => "deck",
            Kind::Message => "message",
            Kind::Realm => "realm",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) space: SpaceId,
    /// Whom it concerns; everybody if `None`.
    pub(crate) subject: Option<Subject>,
    /// How many rules for one subject the space has now. Only meant for rules.
    pub(crate) subject_rules: u64,
    /// Which deck it is about. Only meant for decks and messages.
    pub(crate) deck: Option<DeckId>,
    /// Which message of the deck it is about; the whole deck if `None`. Only meant for decks.
    pub(crate) ordinal: Option<u64>,
    /// Which realm it is about. Only meant for realms.
    pub(crate) realm: Option<RealmId>,
}

impl Change {
    /// One that concerns everybody in the space.
    pub(crate) fn of(kind: Kind, space: &SpaceId) -> Change {
        Change { kind, space: space.clone(), subject: None, subject_rules: 0, deck: None, ordinal: None, realm: None }
    }

    /// One that concerns one deck; of messages, all its subjects.
    pub(crate) fn of_deck(kind: Kind, space: &SpaceId, deck: &DeckId) -> Change {
        Change { deck: Some(deck.clone()), ..Change::of(kind, space) }
    }

    /// One that concerns one realm.
    pub(crate) fn of_realm(space: &SpaceId, realm: &RealmId) -> Change {
        Change { realm: Some(realm.clone()), ..Change::of(Kind::Realm, space) }
    }

    /// `None` if the kind is unknown, which a newer server may write.
    pub(crate) fn from_row(row: &AnyRow) -> Result<Option<Change>, CatalogError> {
        let kind = text(row, "kind")?;
        let Some(kind) = Kind::ALL.into_iter().find(|known| known.as_str() == kind) else {
            return Ok(None);
        };
        let subject = text_or_null(row, "subject")?.map(Subject::new).transpose();
        let subject = subject.map_err(|fault| CatalogError::corrupt("change", kind.as_str(), fault))?;
        let deck = text_or_null(row, "deck")?.map(DeckId::new).transpose();
        let deck = deck.map_err(|fault| CatalogError::corrupt("change", kind.as_str(), fault))?;
        let realm = text_or_null(row, "realm")?.map(RealmId::new).transpose();
        let realm = realm.map_err(|fault| CatalogError::corrupt("change", kind.as_str(), fault))?;
        let (subject_rules, ordinal) = (int(row, "subject_rules")?, int_or_null(row, "ordinal")?);
        Ok(Some(Change { kind, space: space_of(row)?, subject, subject_rules, deck, ordinal, realm }))
    }
}
