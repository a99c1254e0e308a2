//! What is known of a subject: state, not a definition. It lives in the subject's partition.

use serde::{Deserialize, Serialize};

use super::message::Stamp;
use super::quiet::{Quiet, Zone};
use crate::id::{Invalid, Tag};
use crate::limit::index::Attributes;

/// The most tags of a subject, and the most it can opt out of.
pub const TAGS_MAX: usize = 256;

/// What is known of a subject. One nobody told anything of has an empty one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What messages are addressed by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// What the `when` of messages asks for.
    #[serde(default)]
    pub attributes: Attributes,
    /// Of quiet hours and calendars; the deck's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<Zone>,
    /// When nothing is sent; the deck's hours if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// Until when nothing is sent at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mute_until: Option<Stamp>,
    /// Messages with one of these tags are not sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opt_out: Vec<Tag>,
}

impl Profile {
    /// That every field is within its bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.tags.len() > TAGS_MAX {
            return Err(Invalid::new("tags", format!("must be at most {TAGS_MAX}")));
        }
        if self.opt_out.len() > TAGS_MAX {
            return Err(Invalid::new("opt_out", format!("must be at most {TAGS_MAX}")));
        }
        self.attributes.check()
    }
}
