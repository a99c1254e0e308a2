//! A set of small numbers, as bits: what a deck of ten thousand messages is searched by.

use smallvec::{SmallVec, smallvec};

/// A set of numbers below a bound. That of a small deck takes no room elsewhere: a plan makes several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits(SmallVec<[u64; 4]>);

impl Bits {
    /// Room for the numbers below `bound`; none is in it.
    pub(super) fn new(bound: usize) -> Bits {
        Bits(smallvec![0; bound.div_ceil(64)])
    }

    pub(super) fn insert(&mut self, n: u32) {
        if let Some(word) = self.0.get_mut(at(n)) {
            *word |= 1 << (n % 64);
        }
    }

    pub(super) fn remove(&mut self, n: u32) {
        if let Some(word) = self.0.get_mut(at(n)) {
            *word &= !(1 << (n % 64));
        }
    }

    pub(super) fn contains(&self, n: u32) -> bool {
        self.0.get(at(n)).is_some_and(|word| word >> (n % 64) & 1 == 1)
    }

    /// How many are in it.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Word by word with those of the other, which has none where it ends; a copy that is changed in place takes several at once.
    fn with(&self, other: &Bits, act: impl Fn(u64, u64) -> u64) -> Bits {
        let mut words = SmallVec::from_slice(&self.0);
        let (both, rest) = words.split_at_mut(self.0.len().min(other.0.len()));
        both.iter_mut().zip(&other.0).for_each(|(word, other)| *word = act(*word, *other));
        rest.iter_mut().for_each(|word| *word = act(*word, 0));
        Bits(words)
    }

    /// Those that are in one of both, of as many as there is room for here.
    pub(super) fn or(&self, other: &Bits) -> Bits {
        self.with(other, |word, other| word | other)
    }

    /// Those that are in both.
    pub(super) fn and(&self, other: &Bits) -> Bits {
        self.with(other, |word, other| word & other)
    }

    /// Those that are not in the other.
    pub(super) fn without(&self, other: &Bits) -> Bits {
        self.with(other, |word, other| word & !other)
    }

    /// The `k`-th of them, counted from 0.
    pub(super) fn nth(&self, mut k: u64) -> Option<u32> {
        for (i, word) in (0_u32..).zip(&self.0) {
            let here = u64::from(word.count_ones());
            if k < here {
                let mut word = *word;
                for _ in 0..k {
                    word &= word - 1;
                }
                return Some(i * 64 + word.trailing_zeros());
            }
            k -= here;
        }
        None
    }

    /// All of them, upwards.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        (0_u32..).zip(&self.0).flat_map(|(i, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i * 64 + bit))
    }
}

fn at(n: u32) -> usize {
    usize::try_from(n / 64).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_what_a_plain_set_does() {
        let (mut bits, mut other) = (Bits::new(300), Bits::new(200));
        let set: Vec<u32> = (0..300).filter(|n| n % 7 == 3 || n % 64 == 63).collect();
        set.iter().for_each(|n| bits.insert(*n));
        (0..200).filter(|n| n % 2 == 0).for_each(|n| other.insert(n));
        assert_eq!(bits.iter().collect::<Vec<_>>(), set);
        assert_eq!(bits.count(), u64::try_from(set.len()).unwrap());
        for (k, n) in (0..).zip(&set) {
            assert_eq!(bits.nth(k), Some(*n));
        }
        assert_eq!(bits.nth(bits.count()), None);
        let is_even = |n: &u32| n.is_multiple_of(2) && *n < 200;
        assert_eq!(bits.and(&other).iter().collect::<Vec<_>>(), set.iter().copied().filter(is_even).collect::<Vec<_>>());
        assert_eq!(bits.without(&other).iter().collect::<Vec<_>>(), set.iter().copied().filter(|n| !is_even(n)).collect::<Vec<_>>());
        bits.remove(3);
        assert!(!bits.contains(3) && bits.contains(10) && !bits.contains(9_999));
    }
}
