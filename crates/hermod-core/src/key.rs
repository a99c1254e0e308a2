//! Every Redis key is spelled here and nowhere else.
//!
//! All keys of a partition share the hash tag `{space/partition}`, so they live in one slot and
//! one script can reach them all, and no others. Names (spaces, rule ids) hold no `:` `/` `{` `}`;
//! free text stands last.

use std::fmt::Write;

use crate::id::SpaceId;
use crate::int::Micros;
use crate::limit::lease::Held;
use crate::limit::tally::Tally;
use crate::once::Kept;
use crate::partition::Place;
use crate::state::Value;

/// `hm:{space/pp}:limit:<subject>`, HASH rule -> packed record (`limit/tally.rs`). Without a subject:
/// the counters that all subjects share.
pub fn limit(place: &Place, subject: &str) -> String {
    tagged(place, "limit:", &[subject])
}

/// `hm:{space/pp}:lease:<subject>`, STRING packed leases (`limit/lease.rs`).
pub fn lease(place: &Place, subject: &str) -> String {
    tagged(place, "lease:", &[subject])
}

/// `hm:{space/pp}:once:<key> <home>`, STRING `until fingerprint reply note`, packed. A key holds no space.
pub fn once(place: &Place, key: &str, home: &str) -> String {
    tagged(place, "once:", &[key, " ", home])
}

/// A key under the partition's hash tag. By hand, as every operation spells one.
fn tagged(place: &Place, kind: &str, parts: &[&str]) -> String {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut key = String::with_capacity(place.space.as_str().len() + kind.len() + length + 16);
    key.push_str("hm:{");
    key.push_str(place.space.as_str());
    key.push('/');
    // Writing to a string cannot fail.
    let _written = write!(key, "{}", place.partition);
    key.push_str("}:");
    key.push_str(kind);
    for part in parts {
        key.push_str(part);
    }
    key
}

/// `hm:meta`, HASH `partitions`, `format`: what this data was created with.
pub const META: &str = "hm:meta";

/// The glob of all keys of a space.
pub fn all_of(space: &SpaceId) -> String {
    format!("hm:{{{space}/*")
}

/// A stored value as text, for dumps and people.
pub fn value_text(key: &str, value: &[u8]) -> String {
    let text = if key.contains("}:limit:") {
        Tally::unpack(value).map(|(tally, until)| tally.to_text(until))
    } else if key.contains("}:once:") {
        Kept::unpack(value).map(|(kept, until)| kept.to_text(until))
    } else if key.contains("}:lease:") {
        Held::read(value).map(|held| held.to_text(Micros::ZERO))
    } else {
        None
    };
    text.unwrap_or_else(|| String::from_utf8_lossy(value).into_owned())
}
