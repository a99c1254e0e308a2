//! The records of a subject, as Redis holds them: in one string, and what does not fit in a hash beside it. Twin of `records.lua`.
//!
//! It is `count u16`, and [`MORE`] if others are in a hash; per record `tag [8], where it begins u32`, counted from 1 as scripts do; the
//! records ([`Tally`]) in the same order; `latest u64`, when the last of them ends, or later: what changes stands at the end, and is written as
//! one. The embedded engine has no such string: it finds each record by its key.

use std::fmt;

use crate::int::Micros;
use crate::key;
use crate::limit::limited::Limited;
use crate::limit::tally::Tally;
use crate::record;
use crate::state::Value;

/// What the record of a rule is found by among those of a subject: the hash of the rule's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag([u8; 8]);

impl Tag {
    /// Of a rule, by the hash of its id.
    pub(crate) fn of(id_hash: u64) -> Tag {
        Tag(id_hash.to_le_bytes())
    }

    /// Of the rule with this id.
    pub(crate) fn of_id(id: &str) -> Tag {
        Tag::of(Limited::hash_of(id))
    }

    /// From its text.
    pub fn parse(text: &str) -> Option<Tag> {
        u64::from_str_radix(text, 16).ok().map(|number| Tag(number.to_be_bytes()))
    }

    /// As the field of a hash.
    pub(crate) fn from_field(field: &[u8]) -> Option<Tag> {
        field.try_into().ok().map(Tag)
    }

    /// As scripts know it.
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// There are others in the hash beside the string: those that are long, or too many for it.
const MORE: u16 = 1 << 15;
/// How long a tag and a place are.
const ENTRY_SIZE: usize = 12;
/// How long that is which says when the last of them ends.
const END_SIZE: usize = 8;

/// All records of a subject.
#[derive(Debug)]
pub struct Records<'a> {
    latest: Micros,
    has_more: bool,
    records: Vec<(Tag, &'a [u8])>,
}

impl<'a> Records<'a> {
    /// As Redis holds them.
    pub fn read(all: &'a [u8]) -> Option<Records<'a>> {
        let (mut rest, mut latest) = all.split_at_checked(all.len().checked_sub(END_SIZE)?)?;
        let (latest, records_end) = (record::take_micros(&mut latest)?, rest.len());
        let count = u16::from_le_bytes(record::take(&mut rest)?);
        let (has_more, count) = (count & MORE != 0, count & !MORE);
        let mut contents = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let tag = Tag(record::take(&mut rest)?);
            contents.push((tag, usize::try_from(u32::from_le_bytes(record::take(&mut rest)?)).ok()?.checked_sub(1)?));
        }
        let ends = contents.iter().skip(1).map(|(_, at)| *at).chain([records_end]);
        let records = contents.iter().zip(ends).map(|((tag, at), end)| Some((*tag, all.get(*at..end)?)));
        Some(Records { latest, has_more, records: records.collect::<Option<_>>()? })
    }

    /// The tag of each as text, and what it holds, for dumps and people.
    pub fn texts(&self) -> impl Iterator<Item = (String, String)> {
        self.records.iter().map(|(tag, one)| (tag.to_string(), text(one)))
    }

    /// Whether it holds one with this tag, as text.
    pub fn holds(&self, tag: &str) -> bool {
        self.records.iter().any(|(own, _)| own.to_string() == tag)
    }

    /// As Redis holds them, but for the one with this tag, as text.
    pub fn without(&self, tag: &str) -> Vec<u8> {
        let left: Vec<_> = self.records.iter().filter(|(own, _)| own.to_string() != tag).collect();
        let more = if self.has_more { MORE } else { 0 };
        let mut out = (u16::try_from(left.len()).expect("no more than were read") | more).to_le_bytes().to_vec();
        let mut at = out.len() + left.len() * ENTRY_SIZE + 1;
        for (own, one) in &left {
            out.extend_from_slice(&own.bytes());
            out.extend_from_slice(&u32::try_from(at).expect("no longer than was read").to_le_bytes());
            at += one.len();
        }
        left.iter().for_each(|(_, one)| out.extend_from_slice(one));
        out.extend_from_slice(&self.latest.get().to_le_bytes());
        out
    }
}

/// A record as text.
pub(crate) fn text(one: &[u8]) -> String {
    Tally::unpack(one).map_or_else(|| key::hex(one), |(tally, until)| tally.to_text(until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_taken_out_alone() {
        let tags = ["a", "b", "c"].map(Tag::of_id);
        let all = Records {
            latest: Micros::saturating(7),
            has_more: true,
            records: tags.into_iter().zip([[1; 1].as_slice(), &[2; 2], &[3; 3]]).collect(),
        };
        let bytes = all.without("none");
        let names = |bytes: &[u8]| Records::read(bytes).unwrap().texts().map(|(tag, _)| tag).collect::<Vec<_>>();
        let [a, b, c] = tags.map(|tag| tag.to_string());
        assert_eq!(names(&bytes), [a.clone(), b.clone(), c.clone()]);
        assert_eq!(names(&Records::read(&bytes).unwrap().without(&b)), [a, c]);
        assert!(Records::read(&bytes[..40]).is_none());
        // As scripts have it: how many and MORE, a tag and where its record begins, the record, the end.
        let [_, b, _] = tags;
        let of_b = Records { latest: Micros::saturating(7), has_more: true, records: vec![(b, &[2; 2])] };
        assert_eq!(of_b.without("none"), [&[1, 128][..], &b.bytes(), &[15, 0, 0, 0], &[2, 2], &[7, 0, 0, 0, 0, 0, 0, 0]].concat());
    }
}
