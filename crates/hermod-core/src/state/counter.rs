//! The key of a counter, in its parts: to find the record nothing is put together.

use crate::id::SpaceId;
use crate::limit::limited::Limited;
use crate::partition::home_hash;

/// `space NUL rule NUL subject`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter<'a> {
    space: &'a str,
    rule: &'a str,
    subject: &'a str,
    /// That of space and subject, the counter's home, and that of the rule in one.
    hash: u64,
}

impl<'a> Counter<'a> {
    /// Of a home and its hash.
    #[inline]
    pub(crate) fn new(space: &'a SpaceId, rule: &'a Limited, subject: &'a str, home_hash: u64) -> Counter<'a> {
        debug_assert_eq!(rule.id_hash, Limited::hash_of(rule.id.as_str()), "the hash of another rule");
        Counter { space: space.as_str(), rule: rule.id.as_str(), subject, hash: home_hash ^ rule.id_hash }
    }

    /// The parts of a key.
    pub(crate) fn of(key: &'a [u8]) -> Option<Counter<'a>> {
        let mut parts = std::str::from_utf8(key).ok()?.splitn(3, '\0');
        let (space, rule, subject) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Counter { space, rule, subject, hash: home_hash(space, subject) ^ Limited::hash_of(rule) })
    }

    /// What its record is found by.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether this is its key.
    #[inline]
    pub(crate) fn is(&self, key: &[u8]) -> bool {
        let rule_at = self.space.len() + 1;
        let rule_end = rule_at + self.rule.len();
        // No part holds a NUL and every key holds two: where all else agrees, they stand in the gaps.
        key.len() == rule_end + 1 + self.subject.len()
            && key.get(rule_end + 1..).is_some_and(|subject| is_same(subject, self.subject.as_bytes()))
            && key.get(..self.space.len()).is_some_and(|space| is_same(space, self.space.as_bytes()))
            && key.get(rule_at..rule_end).is_some_and(|rule| is_same(rule, self.rule.as_bytes()))
    }
}

/// Whether two texts of the same length are the same. Names are short, and to call the library's comparison takes longer than two
/// comparisons of words that may overlap.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    if let (4..=7, Some(a1), Some(b1), Some(a2), Some(b2)) = ends::<4>(a, b) {
        return (u32::from_ne_bytes(*a1) ^ u32::from_ne_bytes(*b1)) | (u32::from_ne_bytes(*a2) ^ u32::from_ne_bytes(*b2)) == 0;
    }
    if let (8..=16, Some(a1), Some(b1), Some(a2), Some(b2)) = ends::<8>(a, b) {
        return (u64::from_ne_bytes(*a1) ^ u64::from_ne_bytes(*b1)) | (u64::from_ne_bytes(*a2) ^ u64::from_ne_bytes(*b2)) == 0;
    }
    a == b
}

/// How long the first is, and the first and last bytes of both.
type Ends<'a, const N: usize> = (usize, Option<&'a [u8; N]>, Option<&'a [u8; N]>, Option<&'a [u8; N]>, Option<&'a [u8; N]>);

#[inline]
fn ends<'a, const N: usize>(a: &'a [u8], b: &'a [u8]) -> Ends<'a, N> {
    (a.len(), a.first_chunk(), b.first_chunk(), a.last_chunk(), b.last_chunk())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_if_every_byte_is() {
        let text: Vec<u8> = (0..40).collect();
        for length in 0..=text.len() {
            assert!(is_same(&text[..length], &text[..length]));
            for at in 0..length {
                let mut other = text[..length].to_vec();
                other[at] ^= 0x80;
                assert!(!is_same(&text[..length], &other), "{length} {at}");
            }
        }
    }

    #[test]
    fn a_key_is_its_own_parts_and_no_others() {
        let keys: [&[u8]; 7] = [b"a\0b\0c", b"ab\0c\0", b"a\0bc\0", b"a\0b\0", b"b\0a\0c", b"a\0b\0cd", b"ab\0b\0c"];
        for (i, one) in keys.iter().enumerate() {
            for (j, other) in keys.iter().enumerate() {
                let (counter, is_same) = (Counter::of(one).unwrap(), i == j);
                assert_eq!(counter.is(other), is_same, "{one:?} {other:?}");
                assert_eq!(counter.hash() == Counter::of(other).unwrap().hash(), is_same, "{one:?} {other:?}");
            }
        }
    }
}
