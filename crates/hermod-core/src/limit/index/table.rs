//! Values by pattern, found by the texts that the patterns stand for.
//!
//! An exact pattern is found by its hash. A glob is kept under what stands before its first star,
//! and there under what stands behind its last: a text is asked for each length of beginnings that
//! occurs, and where one is known, for each length of endings. So the work follows the lengths that
//! occur, a few, and not the number of patterns. What is found may match; what is not, does not.

use std::collections::{BTreeSet, HashMap};
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

/// Values by a beginning or an ending.
struct Affixes<T> {
    /// Those that occur, shortest first.
    lengths: BTreeSet<usize>,
    by_text: Map<T>,
}

impl<T> Default for Affixes<T> {
    fn default() -> Affixes<T> {
        Affixes { lengths: BTreeSet::new(), by_text: Map::default() }
    }
}

impl<T: Default> Table<T> {
    /// What is kept under `pattern`, and maybe under others like it.
    pub(super) fn entry(&mut self, pattern: &Pattern) -> &mut T {
        if pattern.is_glob() {
            return self.globs.entry(pattern.prefix()).entry(pattern.suffix());
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
        let ending = |length: &usize| text.len().checked_sub(*length).and_then(|at| text.get(at..));
        let prefixes = self.globs.lengths.iter().map_while(|length| (*length <= text.len()).then(|| text.get(..*length)));
        let by_suffix = prefixes.flatten().filter_map(|prefix| self.globs.by_text.get(prefix));
        by_suffix.flat_map(move |suffixes| suffixes.lengths.iter().filter_map(ending).filter_map(|suffix| suffixes.by_text.get(suffix)))
    }
}

impl<T: Default> Affixes<T> {
    fn entry(&mut self, text: &str) -> &mut T {
        self.lengths.insert(text.len());
        self.by_text.entry(text.into()).or_default()
    }
}
