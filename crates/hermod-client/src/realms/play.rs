//! Plays, and what every change of a realm may say.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// What every change of a realm may say. All of it can be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RealmTerms {
    /// The same key and body give the same answer, and are done once. One of the handle, or a random one for each call, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The id of a Discord interaction, of which the key is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interaction: Option<String>,
    /// Where it happens, for the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guild: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Says what would be, and changes nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl RealmTerms {
    /// None.
    pub fn new() -> RealmTerms {
        RealmTerms::default()
    }

    /// Once for all calls with this key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> RealmTerms {
        self.key = Some(key.into());
        self
    }

    /// Once for this Discord interaction, however often it is handled.
    #[must_use]
    pub fn interaction(mut self, id: impl Into<String>) -> RealmTerms {
        self.interaction = Some(id.into());
        self
    }

    /// It happens here.
    #[must_use]
    pub fn guild(mut self, guild: impl Into<String>) -> RealmTerms {
        self.guild = Some(guild.into());
        self
    }

    /// For people.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> RealmTerms {
        self.note = Some(note.into());
        self
    }

    /// Changes nothing.
    #[must_use]
    pub fn dry_run(mut self) -> RealmTerms {
        self.dry_run = true;
        self
    }
}

/// Somebody plays.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlayRequest {
    /// Who.
    pub by: String,
    /// What the play is given, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
    /// Shows what moved, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// Its key, and what else every change may say.
    #[serde(flatten)]
    pub terms: RealmTerms,
}

impl PlayRequest {
    /// By somebody, without arguments.
    pub fn new(by: impl Into<String>) -> PlayRequest {
        PlayRequest { by: by.into(), args: BTreeMap::new(), explain: false, terms: RealmTerms::new() }
    }

    /// With this argument.
    #[must_use]
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<Value>) -> PlayRequest {
        self.args.insert(name.into(), value.into());
        self
    }

    /// With what moved.
    #[must_use]
    pub fn explain(mut self) -> PlayRequest {
        self.explain = true;
        self
    }

    /// On these terms.
    #[must_use]
    pub fn terms(mut self, terms: RealmTerms) -> PlayRequest {
        self.terms = terms;
        self
    }
}
