//! A deck, as people define it.

use serde::{Deserialize, Serialize};

use super::cap::{Cap, CapKind};
use super::quiet::{Quiet, Zone};
use crate::id::{DeckId, Invalid};
use crate::word::word_enum;

/// How many sends are remembered exactly, unless the deck says otherwise.
pub const HISTORY_MAX: u32 = 512;
/// The bounds of that.
const HISTORY_BOUNDS: (u32, u32) = (16, 4_096);

/// A named set of messages: how one is chosen, and how often anybody gets one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deck {
    /// Its name.
    pub id: DeckId,
    /// How a message is chosen.
    #[serde(default)]
    pub strategy: Strategy,
    /// How many messages one subject gets, whatever the messages say; no bound if `None`.
    pub subject_cap: Option<Cap>,
    /// When nothing is sent, for subjects that do not say it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_hours: Option<Quiet>,
    /// The time zone of subjects that do not say theirs.
    #[serde(default = "Zone::utc")]
    pub timezone: Zone,
    /// How many sends of a subject are remembered exactly; of older ones only that they were.
    #[serde(default = "history_max")]
    pub history_max: u32,
    /// Tells it from a deck of the same name that was deleted before: the catalog's version when it was made.
    #[serde(default)]
    pub epoch: u64,
    /// Grows with every change of the deck.
    #[serde(default)]
    pub version: u64,
}

word_enum! {
    /// How a message is chosen.
    Strategy, "strategy", {
        /// What was never sent at random, then what was sent longest ago.
        #[default]
        FreshLru = "fresh_lru",
        /// At random by weight, whatever was sent.
        Weighted = "weighted",
        /// The highest priority first; among equals as `fresh_lru`.
        Priority = "priority",
        /// In the order they were made; then what was sent longest ago.
        Sequence = "sequence",
    }
}

fn history_max() -> u32 {
    HISTORY_MAX
}

impl Deck {
    /// A deck with all the defaults: one message per subject in ten minutes.
    pub fn new(id: DeckId) -> Deck {
        Deck {
            id,
            strategy: Strategy::default(),
            subject_cap: Some(Deck::default_cap()),
            quiet_hours: None,
            timezone: Zone::utc(),
            history_max: HISTORY_MAX,
            epoch: 0,
            version: 0,
        }
    }

    /// What a deck that says nothing of it allows each subject.
    pub fn default_cap() -> Cap {
        Cap::new(1, "10m", CapKind::Bucket).expect("it is within all bounds")
    }

    /// That every field is within its bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        let (least, most) = HISTORY_BOUNDS;
        if self.history_max < least || self.history_max > most {
            return Err(Invalid::new("history_max", format!("must be between {least} and {most}")));
        }
        Ok(())
    }
}
