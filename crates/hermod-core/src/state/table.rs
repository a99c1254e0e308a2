//! One family of records in memory.
//!
//! Records stand in a list, found by an index of their positions. So a sweep walks the list in small
//! steps without a second index, growth moves nothing, and a record costs its own size and a few bytes:
//! of counters there may be millions. A record that goes leaves its place to the last one.
//!
//! A lookup waits for memory twice, for a line of the index and for the record's own line.

use std::collections::BTreeMap;
use std::mem;

use xxhash_rust::xxh3::xxh3_64;

use super::chunks::Chunks;
use super::index::Index;
use super::key::Key;
use crate::int::Micros;
use crate::record::{self, Damaged, Family, Record, Write};

/// What a table can hold: it knows its bytes in the journal and its text on Redis.
pub trait Value: Sized {
    /// Appends its bytes.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads them back.
    fn read(bytes: &[u8]) -> Option<Self>;
    /// What it holds outside of its own size.
    fn heap_bytes(&self) -> usize;
    /// As Redis holds it.
    fn to_text(&self, until: Micros) -> String;

    /// What records of this family are found by. It is not stored, so it may be another in another release.
    fn hash(key: &[u8]) -> u64 {
        xxh3_64(key)
    }
}

/// What the index, the spare room of the list and the allocator take for a record beyond its own size, measured.
const SLOT_OVERHEAD: usize = 24;

/// A record. A small one with a short key fills a line of the cache, so it begins where one does.
#[derive(Debug)]
#[repr(align(64))]
struct Slot<V> {
    key: Key,
    value: V,
    end: End,
}

/// When a record ends, whether the journal has yet to see it, and whether it has seen any of it: in one word, as times leave the
/// top bits free.
#[derive(Clone, Copy, Debug)]
struct End(u64);

const DIRTY: u64 = 1 << 63;
const JOURNALED: u64 = 1 << 62;
const MARKS: u64 = DIRTY | JOURNALED;

impl End {
    #[inline]
    fn until(self) -> Micros {
        Micros::saturating(self.0 & !MARKS)
    }

    #[inline]
    fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    #[inline]
    fn set_until(&mut self, until: Micros) {
        self.0 = (self.0 & MARKS) | until.get();
    }

    /// Sets the mark; whether it was set.
    #[inline]
    fn set_dirty(&mut self, is_dirty: bool) -> bool {
        let was_dirty = self.is_dirty();
        self.0 = (self.0 & !DIRTY) | if is_dirty { DIRTY } else { 0 };
        was_dirty
    }

    /// Whether the journal holds something under this key.
    #[inline]
    fn is_journaled(self) -> bool {
        self.0 & JOURNALED != 0
    }

    fn set_journaled(&mut self, is_journaled: bool) {
        self.0 = (self.0 & !JOURNALED) | if is_journaled { JOURNALED } else { 0 };
    }
}

/// Where a key's record is, or would be. Good until a record is removed.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    hash: u64,
    position: Option<u32>,
}

impl Found {
    /// Whether there is no record, not even one that has ended.
    pub fn is_vacant(&self) -> bool {
        self.position.is_none()
    }
}

/// A record that was found, whether it has ended or not: looked at, and stored anew where it stands.
#[derive(Debug)]
pub struct Standing<'a, V> {
    slot: &'a mut Slot<V>,
    position: u32,
    dirty: &'a mut Vec<u32>,
    bytes: &'a mut usize,
}

impl<V: Value> Standing<'_, V> {
    /// The record and its end, unless it has ended.
    #[inline]
    pub fn live(&self, now: Micros) -> Option<(&V, Micros)> {
        self.slot.live(now)
    }

    /// Stores it anew; the journal sees it with the next flush.
    #[inline]
    pub fn put(self, value: V, until: Micros) {
        self.slot.set(value, until, self.bytes);
        if !self.slot.end.set_dirty(true) {
            self.dirty.push(self.position);
        }
    }
}

impl<V: Value> Slot<V> {
    #[inline]
    fn live(&self, now: Micros) -> Option<(&V, Micros)> {
        let until = self.end.until();
        (until > now).then_some((&self.value, until))
    }

    #[inline]
    fn set(&mut self, value: V, until: Micros, bytes: &mut usize) {
        let (before, after) = (self.value.heap_bytes(), value.heap_bytes());
        // Written only when it changes: another processor may look at the line.
        if before != after {
            *bytes = *bytes + after - before;
        }
        self.value = value;
        self.end.set_until(until);
    }
}

/// Records by key, with an end each. What a lookup needs comes first: beside the lock, in one line of the cache.
#[derive(Debug)]
#[repr(C)]
pub struct Table<V> {
    index: Index,
    slots: Chunks<Slot<V>>,
    family: Family,
    partition: u16,
    /// Positions of deferred changes. A removal may leave one pointing at another slot, or at none:
    /// the slot's own mark decides.
    dirty: Vec<u32>,
    urgent: Vec<u8>,
    /// Deletions that need not be urgent, for the next flush.
    gone: Vec<u8>,
    sweep_at: usize,
    bytes: usize,
}

impl<V: Value> Table<V> {
    /// An empty table.
    pub fn new(family: Family, partition: u16) -> Table<V> {
        Table {
            family,
            partition,
            slots: Chunks::new(),
            index: Index::default(),
            dirty: Vec::new(),
            urgent: Vec::new(),
            gone: Vec::new(),
            sweep_at: 0,
            bytes: 0,
        }
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// How much memory they take, about.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the record of this key is, or would be.
    pub fn find(&self, key: &[u8]) -> Found {
        self.find_by(V::hash(key), |other| other == key)
    }

    /// Where the record is, or would be, whose key has this [`Value::hash`] and for which `is_it` holds: for who
    /// would have to put the key together first.
    #[inline]
    pub fn find_by(&self, hash: u64, is_it: impl Fn(&[u8]) -> bool) -> Found {
        let is_it = |position: u32| self.slot(position).is_some_and(|slot| is_it(slot.key.as_bytes()));
        Found { hash, position: self.index.find(hash, is_it) }
    }

    #[inline]
    fn slot(&self, position: u32) -> Option<&Slot<V>> {
        self.slots.get(at(position))
    }

    /// The record that was found and its end, unless it has ended: one that is still there says the
    /// same as one that was swept.
    pub fn live_at(&self, found: Found, now: Micros) -> Option<(&V, Micros)> {
        self.slot(found.position?)?.live(now)
    }

    /// The record that was found, to be stored anew.
    #[inline]
    pub fn standing(&mut self, found: Found) -> Option<Standing<'_, V>> {
        let position = found.position?;
        let slot = self.slots.get_mut(at(position))?;
        Some(Standing { slot, position, dirty: &mut self.dirty, bytes: &mut self.bytes })
    }

    /// The record of this key and its end, unless it has ended.
    pub fn live(&self, key: &[u8], now: Micros) -> Option<(&V, Micros)> {
        self.live_at(self.find(key), now)
    }

    /// Stores a record that means nothing after `until`.
    pub fn put(&mut self, key: &[u8], value: V, until: Micros, urgent: bool) {
        self.put_at(self.find(key), key, value, until, urgent);
    }

    /// Stores a record where its key was found. The key is looked at only if it was not, or is urgent.
    pub fn put_at(&mut self, found: Found, key: &[u8], value: V, until: Micros, urgent: bool) {
        if urgent {
            self.write_urgent(key, &value, until);
        }
        let position = self.set(found, key, value, until);
        if let Some(slot) = self.slots.get_mut(at(position)) {
            let was_dirty = slot.end.set_dirty(!urgent);
            if urgent {
                slot.end.set_journaled(true);
            } else if !was_dirty {
                self.dirty.push(position);
            }
        }
    }

    /// Forgets a record.
    pub fn delete(&mut self, key: &[u8], urgent: bool) {
        let Some(position) = self.find(key).position else { return };
        // Deferred or not, it is written at once: there is no slot left to mark.
        record::write(if urgent { &mut self.urgent } else { &mut self.gone }, self.family, self.partition, key, None);
        self.remove(position);
    }

    fn write_urgent(&mut self, key: &[u8], value: &V, until: Micros) {
        // What was deleted before must not be deleted after.
        self.urgent.append(&mut self.gone);
        record::write(&mut self.urgent, self.family, self.partition, key, Some(&|out| write_slot(out, value, until)));
    }

    fn set(&mut self, found: Found, key: &[u8], value: V, until: Micros) -> u32 {
        if let Some(position) = found.position
            && let Some(slot) = self.slots.get_mut(at(position))
        {
            slot.set(value, until, &mut self.bytes);
            return position;
        }
        self.bytes += value.heap_bytes() + Self::slot_bytes(key);
        let position = u32::try_from(self.slots.len()).expect("a partition holds fewer than 2^32 records");
        self.slots.push(Slot { key: Key::new(key), value, end: End(until.get()) });
        self.index.insert(found.hash, position);
        position
    }

    fn slot_bytes(key: &[u8]) -> usize {
        Key::heap_bytes(key.len()) + mem::size_of::<Slot<V>>() + SLOT_OVERHEAD
    }

    /// Takes in a record of the journal.
    pub fn load(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        let Some(mut bytes) = record.value else {
            if let Some(position) = self.find(record.key).position {
                self.remove(position);
            }
            return Ok(());
        };
        let until = record::take_micros(&mut bytes).ok_or(Damaged)?;
        let value = V::read(bytes).ok_or(Damaged)?;
        let position = self.set(self.find(record.key), record.key, value, until);
        if let Some(slot) = self.slots.get_mut(at(position)) {
            slot.end.set_journaled(true);
        }
        Ok(())
    }

    /// Whether there are urgent changes.
    pub fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Moves the bytes of urgent changes to the end of `out`.
    pub fn take_urgent(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.urgent);
    }

    /// Deals with at most `max` deferred changes; how many there were.
    ///
    /// What ended before `ended` says the same as what is not there. So it is not written, and what the journal has of
    /// it is deleted there, once: a counter that is full again within the second, as those of short periods are, costs no disk.
    pub fn flush(&mut self, ended: Micros, max: usize, out: &mut Vec<u8>) -> usize {
        let mut done = usize::from(!self.gone.is_empty());
        // Before what was put again after it was deleted.
        out.append(&mut self.gone);
        while done < max {
            let Some(position) = self.dirty.pop() else { break };
            let Some(slot) = self.slots.get_mut(at(position)) else { continue };
            if !slot.end.set_dirty(false) {
                continue;
            }
            done += 1;
            let (until, is_live) = (slot.end.until(), slot.end.until() >= ended);
            if is_live || slot.end.is_journaled() {
                let value = |out: &mut Vec<u8>| write_slot(out, &slot.value, until);
                let value: Write<'_> = &value;
                record::write(out, self.family, self.partition, slot.key.as_bytes(), is_live.then_some(value));
                slot.end.set_journaled(is_live);
            }
        }
        done
    }

    /// Looks at the next `steps` records and drops those that ended before `before`; how many.
    pub fn sweep(&mut self, before: Micros, steps: usize, out: &mut Vec<u8>) -> usize {
        let mut dropped = 0;
        for _ in 0..steps.min(self.slots.len()) {
            if self.sweep_at >= self.slots.len() {
                self.sweep_at = 0;
            }
            let Some(slot) = self.slots.get(self.sweep_at) else { break };
            if slot.end.until() < before {
                if slot.end.is_journaled() {
                    record::write(out, self.family, self.partition, slot.key.as_bytes(), None);
                }
                self.remove(u32::try_from(self.sweep_at).unwrap_or(u32::MAX));
                dropped += 1;
            } else {
                self.sweep_at += 1;
            }
        }
        dropped
    }

    fn remove(&mut self, position: u32) {
        let Some(slot) = self.slots.get(at(position)) else { return };
        self.bytes -= slot.value.heap_bytes() + Self::slot_bytes(slot.key.as_bytes());
        self.index.remove(V::hash(slot.key.as_bytes()), position);
        self.slots.swap_remove(at(position));
        // The last record has moved here, unless it was the last itself.
        let Some(moved) = self.slots.get(at(position)) else { return };
        let was_at = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.index.moved(V::hash(moved.key.as_bytes()), was_at, position);
        if moved.end.is_dirty() {
            self.dirty.push(position);
        }
    }

    /// Every record as Redis would hold it, with its end. `spell` makes the name of its place there
    /// from the hash tag and the last two parts of its key.
    pub fn dump(&self, out: &mut BTreeMap<String, (String, Micros)>, spell: impl Fn(&str, &str, &str) -> String) {
        for slot in self.slots.iter() {
            let key = String::from_utf8_lossy(slot.key.as_bytes());
            let mut parts = key.splitn(3, '\0');
            let mut part = || parts.next().unwrap_or("");
            let tag = format!("{}/{}", part(), self.partition);
            out.insert(spell(&tag, part(), part()), (slot.value.to_text(slot.end.until()), slot.end.until()));
        }
    }
}

/// A position as the list takes it.
#[inline]
fn at(position: u32) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

fn write_slot<V: Value>(out: &mut Vec<u8>, value: &V, until: Micros) {
    out.extend_from_slice(&until.get().to_le_bytes());
    value.write(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::tally::{Kind, Tally};

    fn bucket(debt: u64) -> Tally {
        Tally { amount: debt, ..Tally::nothing(Kind::Bucket, Micros::ZERO) }
    }

    fn us(n: u64) -> Micros {
        Micros::saturating(n)
    }

    #[test]
    fn deferred_changes_survive_a_sweep_that_moves_them() {
        let mut table = Table::new(Family::Limit, 0);
        table.put(b"old", bucket(1), us(10), false);
        table.put(b"new", bucket(2), us(100), false);
        let mut gone = Vec::new();
        assert_eq!(table.sweep(us(50), 8, &mut gone), 1);
        let mut out = Vec::new();
        assert_eq!(table.flush(Micros::ZERO, 8, &mut out), 1);
        let keys: Vec<_> = record::read(&out).map(|r| r.unwrap().key).collect();
        assert_eq!(keys, [b"new"]);
        assert_eq!(table.flush(Micros::ZERO, 8, &mut out), 0);
    }

    #[test]
    fn an_urgent_change_replaces_a_deferred_one() {
        let mut table = Table::new(Family::Limit, 0);
        table.put(b"k", bucket(1), us(10), false);
        table.put(b"k", bucket(2), us(10), true);
        let mut urgent = Vec::new();
        table.take_urgent(&mut urgent);
        assert_eq!(record::read(&urgent).count(), 1);
        assert_eq!(table.flush(Micros::ZERO, 8, &mut Vec::new()), 0, "a stale flush would undo the urgent change");
    }

    #[test]
    fn what_has_ended_is_not_written_and_what_the_journal_has_of_it_is_deleted_once() {
        let mut table = Table::new(Family::Limit, 0);
        let flush = |table: &mut Table<Tally>, ended: u64| {
            let mut out = Vec::new();
            table.flush(us(ended), 8, &mut out);
            record::read(&out).map(|r| r.unwrap().value.is_some()).collect::<Vec<_>>()
        };
        table.put(b"k", bucket(1), us(10), false);
        assert!(flush(&mut table, 11).is_empty(), "it was never in the journal");
        table.put(b"k", bucket(1), us(20), false);
        assert_eq!(flush(&mut table, 20), [true]);
        // It ends earlier than what the journal has of it: that must not come back.
        table.put(b"k", bucket(0), us(15), false);
        assert_eq!(flush(&mut table, 16), [false]);
        table.put(b"k", bucket(1), us(17), false);
        assert!(flush(&mut table, 18).is_empty());
        let mut gone = Vec::new();
        assert_eq!((table.sweep(us(18), 8, &mut gone), gone.len()), (1, 0));
    }

    #[test]
    fn what_was_loaded_is_deleted_in_the_journal_when_it_goes() {
        let (mut first, mut out) = (Table::new(Family::Limit, 0), Vec::new());
        first.put(b"k", bucket(1), us(20), false);
        first.flush(Micros::ZERO, 8, &mut out);
        let mut again: Table<Tally> = Table::new(Family::Limit, 0);
        record::read(&out).for_each(|record| again.load(&record.unwrap()).unwrap());
        let mut gone = Vec::new();
        assert_eq!(again.sweep(us(21), 8, &mut gone), 1);
        assert_eq!(record::read(&gone).count(), 1);
    }

    #[test]
    fn a_counter_with_a_short_key_fills_one_line() {
        assert_eq!(size_of::<Slot<crate::limit::packed::Packed>>(), 64);
    }

    #[test]
    fn bytes_return_to_zero() {
        let mut table = Table::new(Family::Limit, 0);
        for i in 0..100u64 {
            table.put(&i.to_le_bytes(), bucket(i), us(i), false);
        }
        assert!(table.bytes() > 100 * 60);
        while table.sweep(us(1000), 7, &mut Vec::new()) > 0 {}
        assert_eq!((table.bytes(), table.len()), (0, 0));
    }
}
