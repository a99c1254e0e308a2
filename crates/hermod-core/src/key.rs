//! Every Redis key is spelled here and nowhere else.
//!
//! All keys of a partition share the hash tag `{space/partition}`, so they live in one slot and
//! one script can reach them all, and no others. Names (spaces, rule ids) hold no `:` `/` `{` `}`;
//! free text stands last.

use crate::id::{RuleId, SpaceId, Subject};
use crate::limit::meter::Bucket;
use crate::partition::Place;
use crate::state::Value;

/// `hm:{space/pp}:limit:<rule>:<subject>`, STRING of four integers: debt, ts, period, until.
pub fn limit(place: &Place, rule: &RuleId, subject: &Subject) -> String {
    tagged(place, "limit:", &[rule.as_str(), ":", subject.as_str()])
}

/// `hm:{space/pp}:once:<key> <home>`, STRING `until fingerprint reply...`. A key holds no space.
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
    key.push_str(&place.partition.to_string());
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

/// A stored value as text, for dumps and people: the one binary format is spelled out.
pub fn value_text(key: &str, value: &[u8]) -> String {
    let bucket = key.contains("}:limit:").then(|| Bucket::unpack(value)).flatten();
    match bucket {
        Some((bucket, until)) => bucket.to_text(until),
        None => String::from_utf8_lossy(value).into_owned(),
    }
}
