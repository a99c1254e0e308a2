//! A leaderboard: owners by what they have, the most first; among equals who got there first.
//!
//! Rows stand in order in chunks of at most [`CHUNK`]. A rank is the sum of the lengths of the chunks before plus a place in one, so
//! among a million owners it takes some thousand additions, and a change moves some hundred rows. A tree with counts would take fewer
//! steps and more memory; there is no such tree in the standard library.

use std::cmp::Ordering;
use std::sync::Arc;

use super::realms::Cell;

/// The most rows of a chunk.
const CHUNK: usize = 512;

/// One owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What they have.
    pub value: i64,
    /// The commit that made it so.
    pub since: u64,
    /// Who.
    pub owner: Arc<str>,
}

/// What a row is found by.
#[derive(Clone, Copy)]
struct Spot<'a> {
    value: i64,
    since: u64,
    owner: &'a str,
}

impl Row {
    /// As Redis orders them: by value and member, backwards.
    fn order(&self, spot: Spot<'_>) -> Ordering {
        spot.value.cmp(&self.value).then(self.since.cmp(&spot.since)).then_with(|| spot.owner.as_bytes().cmp(self.owner.as_bytes()))
    }
}

/// The owners who have something of an asset, in order.
#[derive(Debug, Default)]
pub(crate) struct Board {
    chunks: Vec<Vec<Row>>,
}

impl Board {
    /// An account changed from one to the other. Who has nothing is not on it.
    pub(crate) fn change(&mut self, owner: &str, (old, new): (&Cell, &Cell)) {
        let removed = if old.value > 0 { self.remove(Spot { value: old.value, since: old.since, owner }) } else { None };
        if new.value > 0 {
            // Who was on it before has a name already.
            let owner = removed.map_or_else(|| owner.into(), |row| row.owner);
            self.insert(Row { value: new.value, since: new.since, owner });
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// All of them.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.chunks.iter().flatten()
    }

    /// Some of them, from a rank on that counts from 0.
    pub(crate) fn from(&self, rank: usize) -> impl Iterator<Item = &Row> {
        let (mut skipped, mut first) = (0, self.chunks.len());
        for (at, chunk) in self.chunks.iter().enumerate() {
            if skipped + chunk.len() > rank {
                first = at;
                break;
            }
            skipped += chunk.len();
        }
        self.chunks.iter().skip(first).flatten().skip(rank.saturating_sub(skipped))
    }

    /// The rank of a row, from 0; none if it is not there.
    pub(crate) fn rank(&self, owner: &str, cell: &Cell) -> Option<usize> {
        let spot = Spot { value: cell.value, since: cell.since, owner };
        let at = self.chunk(spot);
        let place = self.chunks.get(at)?.binary_search_by(|one| one.order(spot)).ok()?;
        Some(self.chunks.iter().take(at).map(Vec::len).sum::<usize>() + place)
    }

    /// The chunk in which this row is, or would be.
    fn chunk(&self, spot: Spot<'_>) -> usize {
        let after = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.order(spot) == Ordering::Less));
        after.min(self.chunks.len().saturating_sub(1))
    }

    fn insert(&mut self, row: Row) {
        let spot = Spot { value: row.value, since: row.since, owner: &row.owner };
        let at = self.chunk(spot);
        let Some(chunk) = self.chunks.get_mut(at) else { return self.chunks.push(vec![row]) };
        let place = chunk.binary_search_by(|one| one.order(spot)).unwrap_or_else(|place| place);
        chunk.insert(place, row);
        if chunk.len() > CHUNK {
            let rest = chunk.split_off(CHUNK / 2);
            self.chunks.insert(at + 1, rest);
        }
    }

    fn remove(&mut self, spot: Spot<'_>) -> Option<Row> {
        let at = self.chunk(spot);
        let chunk = self.chunks.get_mut(at)?;
        let place = chunk.binary_search_by(|one| one.order(spot)).ok()?;
        let row = chunk.remove(place);
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: i64, since: u64) -> Cell {
        Cell { value, since, board: true, liens: Vec::new() }
    }

    #[test]
    fn ranks_are_those_of_a_sorted_list() {
        let mut board = Board::default();
        let mut cells = std::collections::BTreeMap::<u64, Cell>::new();
        let seed = crate::Seed::new(5);
        for since in 1..6_000 {
            let owner = seed.child(since).below(1_500);
            let new = cell(i64::try_from(seed.child(since).child(1).below(40)).unwrap(), since);
            let old = cells.insert(owner, new.clone()).unwrap_or_default();
            board.change(&owner.to_string(), (&old, &new));
        }
        let mut rows: Vec<_> = cells.iter().filter(|(_, cell)| cell.value > 0).collect();
        rows.sort_by_key(|(_, cell)| (-cell.value, cell.since));
        assert_eq!(board.len(), rows.len());
        assert!(board.chunks.len() > 2, "it has several chunks");
        for (rank, (owner, cell)) in rows.iter().enumerate() {
            assert_eq!(board.rank(&owner.to_string(), cell), Some(rank));
            assert_eq!(board.from(rank).next().map(|row| row.owner.to_string()), Some(owner.to_string()));
        }
        assert_eq!(board.from(rows.len()).count(), 0);
        assert_eq!(board.rank("nobody", &cell(1, 1)), None);
        for (owner, cell) in &cells {
            board.change(&owner.to_string(), (cell, &Cell::default()));
        }
        assert!(board.chunks.is_empty());
    }
}
