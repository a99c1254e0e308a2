//! Every Redis key is spelled here and nowhere else.
//!
//! All keys of a partition share the hash tag `{space/partition}`, so they live in one slot and
//! one script can reach them all, and no others. Names (spaces, rule ids) hold no `:` `/` `{` `}`;
//! free text stands last.

use crate::id::{RuleId, SpaceId, Subject};
use crate::partition::Place;

/// `hm:{space/pp}:limit:<rule>:<subject>`, STRING `debt ts period until`.
pub fn limit(place: &Place, rule: &RuleId, subject: &Subject) -> String {
    format!("hm:{{{place}}}:limit:{rule}:{subject}")
}

/// `hm:{space/pp}:once:<key> <home>`, STRING `until fingerprint reply...`. A key holds no space.
pub fn once(place: &Place, key: &str, home: &str) -> String {
    format!("hm:{{{place}}}:once:{key} {home}")
}

/// `hm:meta`, HASH `partitions`, `format`: what this data was created with.
pub const META: &str = "hm:meta";

/// The glob of all keys of a space.
pub fn all_of(space: &SpaceId) -> String {
    format!("hm:{{{space}/*")
}
