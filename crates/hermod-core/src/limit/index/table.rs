//! Values by pattern, found by the texts that the patterns stand for.
//!
//! An exact pattern is found by its hash. A glob is kept under what stands before its first star,
//! and there under what stands behind its last: a text is asked for each length of beginnings that
//! occurs, and where one is known, for each length of endings. So the work follows the lengths that
//! occur, a few, and not the number of patterns; and of a length only those are asked for whose byte
//! at the star's edge occurs, which mostly leaves one. What is found may match; what is not, does not.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::limit::pattern::Pattern;

/// Only who may write rules can put keys in, so they need not be guarded against each other.
#[derive(Clone, Copy, Default)]
pub(super) struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    // The end mark of a text, where there is nothing but one text.
    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

type Map<T> = HashMap<Box<str>, T, BuildHasherDefault<Quick>>;

/// Values by pattern.
#[derive(Default)]
pub(super) struct Table<T> {
    exact: Map<T>,
    globs: Affixes<Affixes<T>>,
}

/// A set of bytes.
#[derive(Clone, Copy, Default)]
struct Bytes([u64; 4]);

impl Bytes {
    fn insert(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
    }

    fn contains(self, byte: u8) -> bool {
        self.0.get(usize::from(byte >> 6)).is_some_and(|word| word & (1 << (byte & 63)) != 0)
    }
}

/// Values by a beginning or an ending.
struct Affixes<T> {
    /// Those that occur, shortest first, each with the bytes that occur next to the star.
    lengths: BTreeMap<usize, Bytes>,
    by_text: Map<T>,
}

impl<T> Default for Affixes<T> {
    fn default() -> Affixes<T> {
        Affixes { lengths: BTreeMap::new(), by_text: Map::default() }
    }
}

impl<T: Default> Table<T> {
    /// What is kept under `pattern`, and maybe under others like it.
    pub(super) fn entry(&mut self, pattern: &Pattern) -> &mut T {
        if pattern.is_glob() {
            let (prefix, suffix) = (pattern.prefix(), pattern.suffix());
            return self.globs.entry(prefix, prefix.bytes().last()).entry(suffix, suffix.bytes().next());
        }
        self.exact.entry(pattern.as_str().into()).or_default()
    }
}

impl<T> Table<T> {
    /// What is kept under the very text.
    pub(super) fn exact(&self, text: &str) -> Option<&T> {
        self.exact.get(text)
    }

    /// All that is kept under exact patterns.
    pub(super) fn exact_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.exact.values_mut()
    }

    /// What is kept under globs that may match the text.
    pub(super) fn globs(&self, text: &str) -> impl Iterator<Item = &T> {
        let bytes = text.as_bytes();
        let occurs = |edges: &Bytes, edge: Option<&u8>| edge.is_none_or(|byte| edges.contains(*byte));
        let prefixes = self.globs.lengths.iter().map_while(move |(length, edges)| {
            let is_known = occurs(edges, length.checked_sub(1).and_then(|at| bytes.get(at)));
            (*length <= text.len()).then(|| text.get(..*length).filter(|_| is_known))
        });
        let by_suffix = prefixes.flatten().filter_map(|prefix| self.globs.by_text.get(prefix));
        by_suffix.flat_map(move |suffixes| {
            let endings = suffixes.lengths.iter().filter_map(move |(length, edges)| {
                let at = text.len().checked_sub(*length)?;
                text.get(at..).filter(|_| occurs(edges, bytes.get(at).filter(|_| *length > 0)))
            });
            endings.filter_map(|suffix| suffixes.by_text.get(suffix))
        })
    }
}

impl<T: Default> Affixes<T> {
    fn entry(&mut self, text: &str, edge: Option<u8>) -> &mut T {
        let edges = self.lengths.entry(text.len()).or_default();
        if let Some(byte) = edge {
            edges.insert(byte);
        }
        self.by_text.entry(text.into()).or_default()
    }
}
