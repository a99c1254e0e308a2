//! Where in the journal the entries of a history stand.
//!
//! The record of an entry is known by a *seat*, not by its message. A long history has as many entries all the time, each of
//! another message: known by those, each would be a new record, and one to be removed later. A seat is used again, so there are
//! never more records than there were entries at a time.
//!
//! A message that is put among the old leaves its record where it is until another takes the seat: its bit among the old says
//! that the record means nothing. So whatever leaves the old without being sent must leave its seat, too; and who is sent again has
//! the same seat if nobody took it. No message ever has two.

use hashbrown::{HashMap, HashSet};

/// Where in the journal the entries of a history stand.
#[derive(Debug, Default)]
pub(super) struct Seats {
    /// By message.
    of: HashMap<u32, u32>,
    /// Whose record is in a seat; none: there is no record.
    holders: HashMap<u32, u32>,
    /// Seats whose message has no entry, and seats without a record.
    free: Vec<u32>,
    /// The first that nobody ever had.
    next: u32,
    /// Messages whose records are known by themselves, as all once were, each until it is written again.
    seatless: HashSet<u32>,
}

impl Seats {
    /// The seat for the entry of a message.
    pub(super) fn take(&mut self, ordinal: u32) -> u32 {
        if let Some(seat) = self.of.get(&ordinal).copied() {
            self.free.retain(|free| *free != seat);
            return seat;
        }
        let seat = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.put(seat, ordinal);
        seat
    }

    /// Who loses that seat by it.
    fn put(&mut self, seat: u32, ordinal: u32) -> Option<u32> {
        let before = self.clear(seat).filter(|before| *before != ordinal);
        self.holders.insert(seat, ordinal);
        self.of.insert(ordinal, seat);
        before
    }

    fn clear(&mut self, seat: u32) -> Option<u32> {
        let before = self.holders.remove(&seat)?;
        self.of.remove(&before).map(|_| before)
    }

    /// A message is among the old: others may have its seat.
    pub(super) fn leave(&mut self, ordinal: u32) {
        if let Some(seat) = self.of.get(&ordinal).filter(|seat| !self.free.contains(seat)) {
            self.free.push(*seat);
        }
    }

    /// A message is forgotten; the seat whose record must go.
    pub(super) fn vacate(&mut self, ordinal: u32) -> Option<u32> {
        let seat = self.of.remove(&ordinal)?;
        self.holders.remove(&seat);
        if !self.free.contains(&seat) {
            self.free.push(seat);
        }
        Some(seat)
    }

    /// Takes in a record: who was in that seat before, and is not any more.
    pub(super) fn load(&mut self, seat: u32, holder: Option<u32>) -> Option<u32> {
        self.next = self.next.max(seat.saturating_add(1));
        match holder {
            Some(ordinal) => self.put(seat, ordinal),
            None => self.clear(seat),
        }
    }

    /// All records are taken in; `has_entry` says which messages have an entry.
    pub(super) fn loaded(&mut self, has_entry: impl Fn(u32) -> bool) {
        let is_free = |seat: &u32| !self.holders.get(seat).is_some_and(|ordinal| has_entry(*ordinal));
        self.free = (0..self.next).filter(is_free).collect();
    }

    pub(super) fn is_seatless(&self, ordinal: u32) -> bool {
        self.seatless.contains(&ordinal)
    }

    /// A message's record is known by itself, or not any more.
    pub(super) fn load_seatless(&mut self, ordinal: u32, is_there: bool) {
        if is_there {
            self.seatless.insert(ordinal);
        } else {
            self.seatless.remove(&ordinal);
        }
    }

    /// Whether a message's record is known by itself. It is to go: it has a seat from now on, or is forgotten.
    pub(super) fn rise(&mut self, ordinal: u32) -> bool {
        !self.seatless.is_empty() && self.seatless.remove(&ordinal)
    }

    /// Messages whose records are known by themselves.
    pub(super) fn seatless(&self) -> impl Iterator<Item = u32> {
        self.seatless.iter().copied()
    }

    /// Seats with a record.
    pub(super) fn taken(&self) -> impl Iterator<Item = u32> {
        self.holders.keys().copied()
    }

    /// How much memory it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.holders.len() * 24
    }
}
