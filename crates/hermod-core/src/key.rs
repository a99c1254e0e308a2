//! Every Redis key is spelled here and nowhere else.
//!
//! All keys of a partition share the hash tag `{space/partition}`, so they live in one slot and
//! one script can reach them all, and no others. Names (spaces, rule ids) hold no `:` `/` `{` `}`;
//! free text stands last.

use std::fmt::Write;

use crate::id::{DeckId, QueueId, RealmId, SpaceId, Subject};
use crate::int::Micros;
use crate::limit::lease::Held;
use crate::limit::records::{self, Records, Tag};
use crate::limit::reservations::Reservations;
use crate::once::Kept;
use crate::partition::Place;
use crate::state::Value;
use crate::state::queues::{Finished, Replied};

/// `hm:{space/pp}:limit:<subject>`, STRING packed records, one for each rule (`limit/records.rs`). Without a subject: the counters that all
/// subjects share.
pub fn limit(place: &Place, subject: &str) -> String {
    tagged(place, "limit:", &[subject])
}

/// `hm:{space/pp}:more:<subject>`, HASH tag -> packed record: those of a subject that are long, or too many for its string.
pub fn more(limit_key: &str) -> String {
    limit_key.replacen("}:limit:", "}:more:", 1)
}

/// `hm:{space/pp}:lease:<subject>`, STRING packed leases (`limit/lease.rs`).
pub fn lease(place: &Place, subject: &str) -> String {
    tagged(place, "lease:", &[subject])
}

/// `hm:{space/pp}:reserve:<subject>`, STRING packed reservations (`limit/reservations.rs`).
pub fn reserve(place: &Place, subject: &str) -> String {
    tagged(place, "reserve:", &[subject])
}

/// `hm:{space/pp}:once:<key> <home>`, STRING `until fingerprint reply note`, packed. A key holds no space.
pub fn once(place: &Place, key: &str, home: &str) -> String {
    tagged(place, "once:", &[key, " ", home])
}

/// `hm:{space/pp}:queue:<queue>:n`, HASH the book of a queue, in which the last number is; what else belongs to a queue begins with the same
/// but the `n` (`queue/line.lua`).
pub fn queue(place: &Place, queue: &QueueId) -> String {
    tagged(place, "queue:", &[queue.as_str(), ":n"])
}

/// `hm:{space/pp}:queue:<queue>:wake`, a channel: when a delivery can be claimed, each time that became earlier
/// (`queue/line.lua`). Channels know no databases: two installations on one server may hear each other, which does no harm.
pub fn wake(place: &Place, queue: &QueueId) -> String {
    tagged(place, "queue:", &[queue.as_str(), ":wake"])
}

/// `hm:{space/pp}:queue:<queue>:finished:<key>`, STRING `until number`, packed.
pub(crate) fn finished_in(tag: &str, queue: &str, key: &str) -> String {
    format!("hm:{{{tag}}}:queue:{queue}:finished:{key}")
}

/// `hm:{space/pp}:queue:<queue>:reply:<number>`, STRING `until kind reply`, packed.
pub(crate) fn reply_in(tag: &str, queue: &str, number: &str) -> String {
    format!("hm:{{{tag}}}:queue:{queue}:reply:{number}")
}

/// `hm:{space/pp}:pick:<deck>:<epoch>:<subject>`, HASH what the subject was sent of the deck (`pick/history.lua`).
pub fn pick(place: &Place, deck: &DeckId, epoch: u64, subject: &Subject) -> String {
    tagged(place, "pick:", &[deck.as_str(), ":", &epoch.to_string(), ":", subject.as_str()])
}

/// Where in the key of a history its deck stands, counted from 1 as scripts do.
pub(crate) fn pick_deck_at(place: &Place) -> u8 {
    let digits = place.partition.checked_ilog10().unwrap_or(0) + 1;
    let before = u32::try_from("hm:{/}:pick:".len() + place.space.as_str().len()).ok();
    before.and_then(|before| u8::try_from(before + digits + 1).ok()).expect("the name of a space is short")
}

/// `hm:{space/pp}:subject:<subject>`, STRING `version profile`, packed.
pub fn subject(place: &Place, subject: &Subject) -> String {
    tagged(place, "subject:", &[subject.as_str()])
}

/// `hm:{space/pp}:events`, STREAM what changed in the partition (`event/log.lua`).
pub fn events(place: &Place) -> String {
    tagged(place, "events", &[])
}

pub(crate) fn events_in(space: &str, partition: u16) -> String {
    format!("hm:{{{space}/{partition}}}:events")
}

/// `hm:{space/pp}:realm:<realm>:<part>`: the books of a realm (`realm/apply.lua`).
pub fn realm(place: &Place, realm: &RealmId, part: &str) -> String {
    tagged(place, "realm:", &[realm.as_str(), ":", part])
}

pub(crate) fn realm_in(tag: &str, realm: &str, part: &str) -> String {
    format!("hm:{{{tag}}}:realm:{realm}:{part}")
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

/// The part of a queue that a key is, as `body`.
fn part_of_queue(key: &str) -> Option<&str> {
    let (_, queue) = key.split_once("}:queue:")?;
    queue.split_once(':').map(|(_, part)| part)
}

/// What a string holds, as names and texts, for dumps and people: the records of a subject each by itself.
pub fn shown_string(key: &str, value: &[u8]) -> Vec<(String, String)> {
    match Records::read(value).filter(|_| key.contains("}:limit:")) {
        Some(records) => records.texts().map(|(tag, text)| (format!("{key} {tag}"), text)).collect(),
        None => vec![(key.to_owned(), value_text(key, value))],
    }
}

/// A field of a hash and what it holds, or a member of a set and its score, as names and texts, for dumps and people.
///
/// Of a queue's book each field is shown as the part it is; what only spares a look at another is not shown.
pub fn shown(key: &str, field: &[u8], value: &[u8], is_set: bool) -> Vec<(String, String)> {
    if let (Some("n"), Some(base)) = (part_of_queue(key), key.strip_suffix('n')) {
        let part = |name: &str, rest: &[u8]| {
            let (key, rest) = (format!("{base}{name}"), field_text(&format!("{base}{name}"), rest));
            let text = value_text(&key, value);
            vec![(format!("{key} {rest}"), text)]
        };
        return match field.split_first() {
            Some((b'n', [])) => crate::queue::line::shown_numbers(base, value),
            Some((b't', number)) => part("tried", number),
            Some((b'l', to)) => part("line", to),
            Some((b'w', worker)) => part("worker", worker),
            Some((b'b', to)) => part("bound", to),
            Some((b'f', _)) => Vec::new(),
            _ => part("body", field),
        };
    }
    if let (true, Some(tag)) = (key.contains("}:more:"), Tag::from_field(field)) {
        return vec![(format!("{} {tag}", key.replacen("}:more:", "}:limit:", 1)), records::text(value))];
    }
    let text = if is_set { String::from_utf8_lossy(value).into_owned() } else { value_text(key, value) };
    // What somebody holds stands behind all that waits.
    if let Some(owner) = part_of_queue(key).and_then(|part| part.strip_prefix("own:")).filter(|_| text == "inf") {
        let base = key.strip_suffix(owner).and_then(|key| key.strip_suffix("own:")).unwrap_or_default();
        return vec![(format!("{base}has:{owner} {}", field_text(key, field)), String::from("0"))];
    }
    vec![(format!("{key} {}", field_text(key, field)), text)]
}

/// The name of a field or a member as text, for dumps and people.
fn field_text(key: &str, field: &[u8]) -> String {
    if key.contains("}:realm:") && (key.contains(":board:") || key.ends_with(":due")) {
        return hex(field);
    }
    let part = part_of_queue(key);
    // A number, then whom it is about.
    if part.is_some_and(|part| part == "ring" || part.starts_with("own:"))
        && let Some((number, name)) = field.split_first_chunk()
    {
        return format!("{} {}", u64::from_be_bytes(*number), String::from_utf8_lossy(name));
    }
    match (part, <[u8; 8]>::try_from(field)) {
        (Some(part), Ok(number)) if !matches!(part, "line" | "key" | "worker" | "ends" | "leaving" | "bound" | "idle") => {
            u64::from_be_bytes(number).to_string()
        }
        _ => String::from_utf8_lossy(field).into_owned(),
    }
}

/// A stored value as text, for dumps and people.
pub fn value_text(key: &str, value: &[u8]) -> String {
    if let Some(part) = part_of_queue(key).filter(|part| matches!(*part, "body" | "tried" | "line" | "key" | "worker" | "bound")) {
        return crate::queue::line::redis_text(part, value);
    }
    let is_log = key.split_once("}:").is_some_and(|(_, rest)| rest == "events");
    if is_log || ["}:pick:", "}:subject:", "}:realm:"].iter().any(|kind| key.contains(kind)) {
        return hex(value);
    }
    let text = if key.contains("}:once:") {
        Kept::unpack(value).map(|(kept, until)| kept.to_text(until))
    } else if key.contains("}:lease:") {
        Held::read(value).map(|held| held.to_text(Micros::ZERO))
    } else if key.contains("}:reserve:") {
        Reservations::unpack(value).map(|reservations| reservations.to_text(Micros::ZERO))
    } else if part_of_queue(key).is_some_and(|part| part.starts_with("reply:")) {
        Replied::unpack(value).map(|(reply, until)| reply.to_text(until))
    } else if key.contains(":finished:") {
        Finished::unpack(value).map(|(finished, until)| finished.to_text(until))
    } else {
        None
    };
    text.unwrap_or_else(|| String::from_utf8_lossy(value).into_owned())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_one_name() {
        let place = Place { space: SpaceId::default_space(), partition: 7 };
        assert_eq!(events(&place), events_in("default", 7));
    }

    #[test]
    fn a_queues_channel_begins_as_its_key_does() {
        let place = Place { space: SpaceId::default_space(), partition: 7 };
        let name = QueueId::new("mail").unwrap();
        let (number, wake) = (queue(&place, &name), wake(&place, &name));
        assert_eq!(wake, "hm:{default/7}:queue:mail:wake");
        // The script replaces the last letter.
        assert_eq!(wake.strip_suffix("wake"), number.strip_suffix('n'));
    }
}
