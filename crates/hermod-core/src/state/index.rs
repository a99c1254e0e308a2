//! Where the record of a key stands, by the key's hash: open addressing, one word for each place.
//!
//! A word holds half of the hash beside the position, so a lookup reads one line of memory before the record
//! itself, looks at no record whose half is another, and growing or closing a gap looks at none at all. An index
//! from elsewhere reads two lines and, when it grows, every record.

/// The fewest places.
const FEWEST: usize = 8;

/// Positions by hash.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// As many as a power of two, or none. Zero is a free place; else the hash's upper half, and below it the position
    /// plus one.
    places: Vec<u64>,
    length: usize,
}

impl Index {
    /// The position under this hash for which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.place_of(hash, is_it).map(|(_, position)| position)
    }

    /// Adds a position.
    pub(super) fn insert(&mut self, hash: u64, position: u32) {
        // At most three quarters are taken: beyond that the search becomes long.
        if (self.length + 1) * 4 > self.places.len() * 3 {
            self.resize((self.places.len() * 2).max(FEWEST));
        }
        self.length += 1;
        self.settle((hash & UPPER) | (u64::from(position) + 1));
    }

    /// The record at `from` stands at `to` from now on.
    pub(super) fn moved(&mut self, hash: u64, from: u32, to: u32) {
        if let Some((at, _)) = self.place_of(hash, |position| position == from)
            && let Some(place) = self.places.get_mut(at)
        {
            *place = (hash & UPPER) | (u64::from(to) + 1);
        }
    }

    /// Takes a position out.
    pub(super) fn remove(&mut self, hash: u64, position: u32) {
        let Some((mut gap, _)) = self.place_of(hash, |other| other == position) else { return };
        self.length -= 1;
        let mask = self.places.len() - 1;
        let mut at = gap;
        // Who stands after the gap and was pushed on past it moves into it, so that searches do not end there.
        loop {
            at = (at + 1) & mask;
            let word = self.word(at);
            if word == 0 {
                break;
            }
            let pushed_on = at.wrapping_sub(self.home(word)) & mask;
            if pushed_on >= at.wrapping_sub(gap) & mask {
                self.set(gap, word);
                gap = at;
            }
        }
        self.set(gap, 0);
        // Room that a wave of records took is given back when most of them are gone.
        if self.places.len() > FEWEST && self.length * 8 < self.places.len() {
            self.resize(self.places.len() / 2);
        }
    }

    #[inline]
    fn place_of(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = self.home(hash);
        loop {
            let word = self.word(at);
            if word == 0 {
                return None;
            }
            if (word ^ hash) & UPPER == 0 {
                let position = position_in(word);
                if is_it(position) {
                    return Some((at, position));
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Where the search for a hash, or for the half of it in a word, begins.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        usize::try_from(hash >> 32).unwrap_or(0) & (self.places.len() - 1)
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.places.get(at).copied().unwrap_or(0)
    }

    fn set(&mut self, at: usize, word: u64) {
        if let Some(place) = self.places.get_mut(at) {
            *place = word;
        }
    }

    /// Puts a word at the first free place from its home on.
    fn settle(&mut self, word: u64) {
        let mask = self.places.len() - 1;
        let mut at = self.home(word);
        while self.word(at) != 0 {
            at = (at + 1) & mask;
        }
        self.set(at, word);
    }

    fn resize(&mut self, places: usize) {
        let before = std::mem::replace(&mut self.places, vec![0; places]);
        for word in before.into_iter().filter(|word| *word != 0) {
            self.settle(word);
        }
    }
}

/// The half of a hash that stands in a word.
const UPPER: u64 = 0xffff_ffff_0000_0000;

fn position_in(word: u64) -> u32 {
    // A word that is not zero holds the position plus one.
    u32::try_from(word & !UPPER).unwrap_or(0).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Few different hashes, so that searches run into each other, also around the end.
    fn hash(key: u32) -> u64 {
        u64::from(key % 37).wrapping_mul(0xf37b_a51d_0000_0001)
    }

    #[test]
    fn it_does_what_a_plain_map_does() {
        let (mut index, mut map) = (Index::default(), BTreeMap::new());
        for n in 0..4_000_u32 {
            let key = n.wrapping_mul(7_919) % 256;
            match map.remove(&key) {
                Some(position) if n % 3 == 0 => index.remove(hash(key), position),
                Some(position) => {
                    index.moved(hash(key), position, n + 1_000);
                    map.insert(key, n + 1_000);
                }
                None => {
                    index.insert(hash(key), n);
                    map.insert(key, n);
                }
            }
            assert_eq!(index.length, map.len());
            for other in 0..256 {
                let expected = map.get(&other).copied();
                let found = expected.and_then(|position| index.find(hash(other), |p| p == position));
                assert_eq!(found, expected, "after {n}");
                assert_eq!(index.find(hash(other), |_| false), None);
            }
        }
        for (key, position) in map {
            index.remove(hash(key), position);
        }
        assert_eq!((index.length, index.places.len()), (0, FEWEST));
        assert!(index.places.iter().all(|word| *word == 0));
    }
}
