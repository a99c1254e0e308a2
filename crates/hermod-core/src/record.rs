//! How a record is written to the embedded engine's journal.
//!
//! `family u8 | partition u16 | key length u16 | key | value length u32 | value`, little endian. A
//! value length of `u32::MAX` says that the record is gone. The engine frames these bytes and
//! gives them back in the order they were written; the last one for a key wins.

use crate::int::Micros;

/// The kinds of record. The numbers are part of the data format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Family {
    /// A limit's bucket.
    Limit = 1,
    /// An idempotency key's answer.
    Once = 2,
    /// A subject's leases.
    Lease = 3,
    /// A subject's reservations.
    Reserve = 4,
    /// A delivery: what is known of it, and its payload.
    Body = 5,
    /// The attempts at a delivery.
    Tried = 6,
    /// The last number a queue has given out.
    Numbers = 7,
    /// The key of a delivery that was finished.
    Finished = 8,
    /// A worker of a sticky queue.
    Worker = 9,
    /// The owner of a recipient.
    Bound = 10,
    /// What its holder replied to a delivery.
    Reply = 11,
    /// A part of what a subject was sent of a deck.
    Pick = 12,
    /// What is known of a subject.
    Profile = 13,
    /// An event.
    Event = 14,
    /// The version of a realm that was applied last.
    Realm = 15,
    /// What an owner has of an asset.
    Account = 16,
    /// A commit.
    Ledger = 17,
    /// A timer, an effect, a counter, a box or a hold.
    Mark = 18,
    /// What a realm has scheduled.
    Due = 19,
}

impl Family {
    /// The family of this number.
    pub fn from_number(n: u8) -> Option<Family> {
        match n {
            1 => Some(Family::Limit),
            2 => Some(Family::Once),
            3 => Some(Family::Lease),
            4 => Some(Family::Reserve),
            5 => Some(Family::Body),
            6 => Some(Family::Tried),
            7 => Some(Family::Numbers),
            8 => Some(Family::Finished),
            9 => Some(Family::Worker),
            10 => Some(Family::Bound),
            11 => Some(Family::Reply),
            12 => Some(Family::Pick),
            13 => Some(Family::Profile),
            14 => Some(Family::Event),
            15 => Some(Family::Realm),
            16 => Some(Family::Account),
            17 => Some(Family::Ledger),
            18 => Some(Family::Mark),
            19 => Some(Family::Due),
            _ => None,
        }
    }

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Family::Limit => 1,
            Family::Once => 2,
            Family::Lease => 3,
            Family::Reserve => 4,
            Family::Body => 5,
            Family::Tried => 6,
            Family::Numbers => 7,
            Family::Finished => 8,
            Family::Worker => 9,
            Family::Bound => 10,
            Family::Reply => 11,
            Family::Pick => 12,
            Family::Profile => 13,
            Family::Event => 14,
            Family::Realm => 15,
            Family::Account => 16,
            Family::Ledger => 17,
            Family::Mark => 18,
            Family::Due => 19,
        }
    }
}

const GONE: u32 = u32::MAX;

/// A record read back. `value` is `None` if it was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What kind.
    pub family: Family,
    /// Where it lives.
    pub partition: u16,
    /// Its key within the partition.
    pub key: &'a [u8],
    /// Its value.
    pub value: Option<&'a [u8]>,
}

/// The bytes are no records of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored record is damaged, or from a newer version")]
pub struct Damaged;

/// Appends a value's bytes.
pub type Write<'a> = &'a dyn Fn(&mut Vec<u8>);

/// Appends one record; `value` writes its own bytes, and `None` marks it gone.
pub fn write(out: &mut Vec<u8>, family: Family, partition: u16, key: &[u8], value: Option<Write<'_>>) {
    out.push(family.number());
    out.extend_from_slice(&partition.to_le_bytes());
    out.extend_from_slice(&u16::try_from(key.len()).expect("keys are bounded to well below 64 KiB").to_le_bytes());
    out.extend_from_slice(key);
    let Some(value) = value else { return out.extend_from_slice(&GONE.to_le_bytes()) };
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    value(out);
    let length = u32::try_from(out.len() - at - 4).expect("values are bounded to well below 4 GiB");
    if let Some(slot) = out.get_mut(at..at + 4) {
        slot.copy_from_slice(&length.to_le_bytes());
    }
}

/// Reads records one after the other.
pub fn read(bytes: &[u8]) -> impl Iterator<Item = Result<Record<'_>, Damaged>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = read_one(&mut rest);
        if record.is_none() {
            rest = &[];
        }
        Some(record.ok_or(Damaged))
    })
}

fn read_one<'a>(rest: &mut &'a [u8]) -> Option<Record<'a>> {
    let [family] = take(rest)?;
    let partition = u16::from_le_bytes(take(rest)?);
    let key_length = u16::from_le_bytes(take(rest)?);
    let (key, tail) = rest.split_at_checked(usize::from(key_length))?;
    *rest = tail;
    let length = u32::from_le_bytes(take(rest)?);
    let value = if length == GONE {
        None
    } else {
        let (value, tail) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        *rest = tail;
        Some(value)
    };
    Some(Record { family: Family::from_number(family)?, partition, key, value })
}

/// Records one after the other, each cut in two: its bytes up to its value's length, by which it is known, and from
/// there on, or `None` if it is gone. Together they are the record again.
pub fn cut(bytes: &[u8]) -> impl Iterator<Item = Result<(&[u8], Option<&[u8]>), Damaged>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let whole = rest;
        let cut = read_one(&mut rest).and_then(|record| {
            let (whole, _) = whole.split_at_checked(whole.len() - rest.len())?;
            let (known_by, value) = whole.split_at_checked(whole.len() - record.value.map_or(0, <[u8]>::len) - 4)?;
            Some((known_by, record.value.map(|_| value)))
        });
        if cut.is_none() {
            rest = &[];
        }
        Some(cut.ok_or(Damaged))
    })
}

/// Takes a fixed number of bytes off the front.
pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

/// Appends numbers, eight bytes each.
pub(crate) fn put<const N: usize>(out: &mut Vec<u8>, numbers: [u64; N]) {
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Takes a number off the front.
pub(crate) fn take_number(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

/// Takes so many bytes off the front as the four bytes before them say.
pub(crate) fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(take(rest)?);
    let (bytes, tail) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = tail;
    Some(bytes)
}

/// Takes a point in time off the front.
pub(crate) fn take_micros(rest: &mut &[u8]) -> Option<Micros> {
    Micros::new(u64::from_le_bytes(take(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_and_damage_is_noticed() {
        let mut out = Vec::new();
        write(&mut out, Family::Limit, 7, b"key", Some(&|o| o.extend_from_slice(b"value")));
        write(&mut out, Family::Once, 63, b"gone", None);
        let read_back: Vec<_> = read(&out).map(Result::unwrap).collect();
        assert_eq!(
            read_back,
            [
                Record { family: Family::Limit, partition: 7, key: b"key", value: Some(b"value") },
                Record { family: Family::Once, partition: 63, key: b"gone", value: None },
            ]
        );
        let halves: Vec<_> = cut(&out).map(Result::unwrap).collect();
        assert_eq!(halves.iter().map(|(_, value)| value.is_some()).collect::<Vec<_>>(), [true, false]);
        let again: Vec<u8> =
            halves.iter().flat_map(|(known_by, value)| [*known_by, value.unwrap_or(&GONE.to_le_bytes())].concat()).collect();
        assert_eq!(again, out);
        assert_eq!(read(&out[..out.len() - 1]).last(), Some(Err(Damaged)));
        assert_eq!(cut(&out[..out.len() - 1]).last(), Some(Err(Damaged)));
        assert_eq!(read(&[99, 0, 0, 0, 0, 0, 0, 0, 0]).last(), Some(Err(Damaged)));
    }
}
