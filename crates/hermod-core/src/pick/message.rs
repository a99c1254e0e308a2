//! A message of a deck, as people define it.

use serde::{Deserialize, Serialize};

use super::cap::Cap;
use crate::id::{Invalid, MessageId, Subject, Tag};
use crate::int::Micros;
use crate::limit::When;

/// The largest body, in bytes of JSON.
pub const BODY_MAX: usize = 65_536;
/// The most subjects one message is addressed to by name.
pub const SUBJECTS_MAX: usize = 1_000;
/// The most tags, of a message or in its address.
pub const TAGS_MAX: usize = 32;
/// The largest weight.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// Something to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Its name within the deck.
    pub id: MessageId,
    /// What is said: any JSON, as its text.
    pub body: Box<str>,
    /// Whom it is for.
    #[serde(default)]
    pub to: Audience,
    /// It is only for subjects of which this is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// How likely it is beside others.
    #[serde(default = "one")]
    pub weight: u32,
    /// What goes first, where the deck goes by priority.
    #[serde(default)]
    pub priority: i32,
    /// Whether it is sent at all. What is deactivated keeps its history.
    #[serde(default = "yes")]
    pub active: bool,
    /// From when on it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Stamp>,
    /// From when on it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Stamp>,
    /// How often one subject gets it; no bound of its own if `None`.
    #[serde(default)]
    pub cap: Option<Cap>,
    /// What a subject can opt out of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Passes quiet hours and mute, and counts all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub critical: bool,
    /// Its number in the deck: dense, in the order they were made, and never used again.
    #[serde(default)]
    pub ordinal: u32,
    /// Grows with every change of the message.
    #[serde(default)]
    pub version: u64,
}

/// Microseconds since the epoch, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Stamp(pub Micros);

impl TryFrom<u64> for Stamp {
    type Error = &'static str;

    fn try_from(us: u64) -> Result<Stamp, &'static str> {
        Micros::new(us).map(Stamp).ok_or("is too far in the future")
    }
}

impl From<Stamp> for u64 {
    fn from(stamp: Stamp) -> u64 {
        stamp.0.get()
    }
}

/// Whom a message is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// All subjects.
    #[default]
    Everyone,
    /// These.
    Subjects(Vec<Subject>),
    /// Those that have one of these tags.
    Tags(Vec<Tag>),
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl Message {
    /// A message for everyone, without a cap of its own.
    pub fn new(id: MessageId, body: &str) -> Message {
        Message {
            id,
            body: body.into(),
            to: Audience::default(),
            when: None,
            weight: 1,
            priority: 0,
            active: true,
            starts_at: None,
            ends_at: None,
            cap: None,
            tags: Vec::new(),
            critical: false,
            ordinal: 0,
            version: 0,
        }
    }

    /// That every field is within its bounds, and that they fit together. That the body is JSON is for the border to know.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.body.len() > BODY_MAX {
            return Err(Invalid::new("body", format!("is {} bytes of JSON; at most {BODY_MAX} are allowed", self.body.len())));
        }
        if self.weight == 0 || self.weight > WEIGHT_MAX {
            return Err(Invalid::new("weight", format!("must be between 1 and {WEIGHT_MAX}; what must not be sent is not active")));
        }
        if self.tags.len() > TAGS_MAX {
            return Err(Invalid::new("tags", format!("must be at most {TAGS_MAX}")));
        }
        match &self.to {
            Audience::Subjects(subjects) if subjects.is_empty() => return Err(Invalid::new("to.subjects", "must not be empty")),
            Audience::Subjects(subjects) if subjects.len() > SUBJECTS_MAX => {
                return Err(Invalid::new("to.subjects", format!("must be at most {SUBJECTS_MAX}; for more, use tags")));
            }
            Audience::Tags(tags) if tags.is_empty() => return Err(Invalid::new("to.tags", "must not be empty")),
            Audience::Tags(tags) if tags.len() > TAGS_MAX => return Err(Invalid::new("to.tags", format!("must be at most {TAGS_MAX}"))),
            _ => {}
        }
        match (self.starts_at, self.ends_at) {
            (Some(starts_at), Some(ends_at)) if starts_at >= ends_at => Err(Invalid::new("ends_at", "must be after starts_at")),
            _ => Ok(()),
        }
    }

    /// The subjects it names, if it is for them alone.
    pub fn named(&self) -> Option<&[Subject]> {
        match &self.to {
            Audience::Subjects(subjects) => Some(subjects),
            _ => None,
        }
    }
}
