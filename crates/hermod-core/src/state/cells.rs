//! The accounts of a realm, by name.
//!
//! A table of hashes that can be gone through in parts: a cursor is the place of a bucket. Where the table has grown since, it is gone
//! through anew, so that what is there all the while is come upon, perhaps twice. A map does not tell its buckets; one that keeps its
//! keys in order would be slower wherever an account is looked up.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::realms::Cell;

/// So many buckets are looked at for each account that is wanted.
const BUCKETS: usize = 8;

/// Accounts by `asset:owner`.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    table: HashTable<(Box<[u8]>, Cell)>,
    hashes: DefaultHashBuilder,
}

impl Cells {
    /// An account.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Cell> {
        let found = self.table.find(self.hashes.hash_one(name), |(one, _)| **one == *name);
        found.map(|(_, cell)| cell)
    }

    /// Puts an account there; what it was before.
    pub(crate) fn insert(&mut self, name: &[u8], cell: Cell) -> Option<Cell> {
        let hash = self.hashes.hash_one(name);
        if let Some((_, old)) = self.table.find_mut(hash, |(one, _)| **one == *name) {
            return Some(std::mem::replace(old, cell));
        }
        let hashes = &self.hashes;
        self.table.insert_unique(hash, (name.into(), cell), |(one, _)| hashes.hash_one(&**one));
        None
    }

    /// Takes an account away.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Cell> {
        let found = self.table.find_entry(self.hashes.hash_one(name), |(one, _)| **one == *name);
        found.ok().map(|entry| entry.remove().0.1)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Cell)> {
        self.table.iter().map(|(name, cell)| (&**name, cell))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// At most so many of them, from a cursor on, and the next cursor; 0 is the first, and says that there are no more.
    pub(crate) fn page(&self, cursor: u64, limit: usize) -> (Vec<(&[u8], &Cell)>, u64) {
        let buckets = self.table.num_buckets();
        // Beside the place it says of how large a table.
        let size = u64::from(buckets.checked_ilog2().unwrap_or(0) + 1) << 48;
        let begin = if cursor & !((1 << 48) - 1) == size { cursor & ((1 << 48) - 1) } else { 0 };
        let begin = usize::try_from(begin).unwrap_or(usize::MAX);
        let (mut found, mut at) = (Vec::new(), begin);
        while at < buckets && found.len() < limit && at - begin < limit.saturating_mul(BUCKETS) {
            found.extend(self.table.get_bucket(at).map(|(name, cell)| (&**name, cell)));
            at += 1;
        }
        let next = if at < buckets { size | u64::try_from(at).unwrap_or(u64::MAX) } else { 0 };
        (found, next)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_there_all_the_while_is_come_upon() {
        let mut cells = Cells::default();
        assert_eq!(cells.page(0, 10), (Vec::new(), 0));
        let name = |number: usize| format!("ajo:{number}").into_bytes();
        (0..1_000).for_each(|number| drop(cells.insert(&name(number), Cell::default())));
        assert_eq!(cells.insert(&name(7), Cell { value: 7, ..Cell::default() }), Some(Cell::default()));
        let (mut seen, mut cursor, mut pages) = (BTreeSet::new(), 0, 0);
        loop {
            let (page, next) = cells.page(cursor, 20);
            assert!(page.len() <= 20);
            seen.extend(page.iter().map(|(name, _)| name.to_vec()));
            (cursor, pages) = (next, pages + 1);
            // Others come, and the table grows twice; some of them go again.
            if pages <= 30 {
                (0..100).for_each(|number| drop(cells.insert(&name(10_000 + 100 * pages + number), Cell::default())));
                drop(cells.remove(&name(10_000 + 100 * pages)));
            }
            if cursor == 0 {
                break;
            }
        }
        assert!((0..1_000).all(|number| seen.contains(&name(number))));
        assert_eq!((cells.len(), cells.get(&name(7)).map(|cell| cell.value), cells.get(b"ajo:")), (3_970, Some(7), None));
        assert_eq!((cells.remove(&name(7)).map(|cell| cell.value), cells.iter().count()), (Some(7), 3_969));
    }
}
