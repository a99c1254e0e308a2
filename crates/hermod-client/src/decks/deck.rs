//! A deck as the server keeps it, and as it is saved.

use serde::{Deserialize, Serialize};

use super::words::{CapKind, Strategy};

/// A named set of messages: how one is chosen, and how often anybody gets one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Deck {
    /// Its name.
    pub deck: String,
    /// How a message is chosen.
    pub strategy: Strategy,
    /// How many messages one subject gets, whatever the messages say; no bound if absent.
    pub subject_cap: Option<Cap>,
    /// When nothing is sent, for subjects that do not say it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_hours: Option<QuietHours>,
    /// The time zone of subjects that do not say theirs.
    pub timezone: String,
    /// How many sends of a subject are remembered exactly; of older ones only that they were.
    pub history_max: u32,
    /// Grows with every change of the deck.
    #[serde(default)]
    pub version: u64,
}

/// So many per period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cap {
    /// How many, at least 1.
    pub tokens: u64,
    /// A duration such as `10m`; for the calendar `hour`, `day`, `week`, `month` or `year`.
    pub per: String,
    /// How it counts.
    #[serde(default)]
    pub kind: CapKind,
}

impl Cap {
    /// So many per period, dripping back evenly.
    pub fn new(tokens: u64, per: impl Into<String>) -> Cap {
        Cap { tokens, per: per.into(), kind: CapKind::default() }
    }

    /// Counted this way.
    #[must_use]
    pub fn kind(mut self, kind: CapKind) -> Cap {
        self.kind = kind;
        self
    }
}

/// A span of every day, such as `22:00` to `08:00`: across midnight where `to` is not after `from`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietHours {
    /// When it begins.
    pub from: String,
    /// When it ends.
    pub to: String,
}

impl QuietHours {
    /// From one time of day to another.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> QuietHours {
        QuietHours { from: from.into(), to: to.into() }
    }
}

/// A deck to be saved. What is absent is the server's to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeckDraft {
    /// How a message is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// How many messages one subject gets: one in ten minutes if absent, no bound if `Some(None)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_cap: Option<Option<Cap>>,
    /// When nothing is sent, for subjects that do not say it themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_hours: Option<QuietHours>,
    /// The time zone of subjects that do not say theirs; UTC if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// How many sends of a subject are remembered exactly; 512 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_max: Option<u32>,
}

impl DeckDraft {
    /// A deck with all the defaults.
    pub fn new() -> DeckDraft {
        DeckDraft::default()
    }

    /// Choosing this way.
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> DeckDraft {
        self.strategy = Some(strategy);
        self
    }

    /// With so many for each subject, or with no bound.
    #[must_use]
    pub fn subject_cap(mut self, cap: Option<Cap>) -> DeckDraft {
        self.subject_cap = Some(cap);
        self
    }

    /// With nothing sent in these hours.
    #[must_use]
    pub fn quiet_hours(mut self, quiet: QuietHours) -> DeckDraft {
        self.quiet_hours = Some(quiet);
        self
    }

    /// In this time zone.
    #[must_use]
    pub fn timezone(mut self, timezone: impl Into<String>) -> DeckDraft {
        self.timezone = Some(timezone.into());
        self
    }
}

impl From<&Deck> for DeckDraft {
    fn from(deck: &Deck) -> DeckDraft {
        DeckDraft {
            strategy: Some(deck.strategy.clone()),
            subject_cap: Some(deck.subject_cap.clone()),
            quiet_hours: deck.quiet_hours.clone(),
            timezone: Some(deck.timezone.clone()),
            history_max: Some(deck.history_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deck_reads_back_as_written_and_no_cap_is_not_the_usual_one() {
        let text = r#"{"deck":"tips","strategy":"moon","subject_cap":{"tokens":1,"per":"10m","kind":"bucket"},"quiet_hours":{"from":"22:00","to":"08:00"},"timezone":"UTC","history_max":512,"version":1}"#;
        let deck: Deck = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&deck).unwrap(), text);
        assert_eq!(deck.strategy, Strategy::Other("moon".into()));
        assert_eq!(serde_json::to_string(&DeckDraft::new()).unwrap(), "{}");
        assert_eq!(serde_json::to_string(&DeckDraft::new().subject_cap(None)).unwrap(), r#"{"subject_cap":null}"#);
    }
}
