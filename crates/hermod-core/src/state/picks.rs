//! What the subjects of a partition were sent, and what is known of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::events::Events;
use super::{Table, Value};
use crate::id::{DeckId, SpaceId, Subject};
use crate::int::Micros;
use crate::key;
use crate::partition::{Place, joined};
use crate::pick::history::{History, Touched};
use crate::record::{self, Damaged, Family, Record};

/// Of which deck, which of those that had its name, and whose.
type Of<'a> = (&'a DeckId, u64, &'a Subject);

/// What the subjects of a partition were sent.
#[derive(Debug)]
pub struct Picks {
    partition: u16,
    /// By `space NUL deck NUL epoch NUL subject`.
    histories: HashMap<Arc<[u8]>, Slot>,
    /// The same keys in a list, for the sweep.
    order: Vec<Arc<[u8]>>,
    sweep_at: usize,
    urgent: Vec<u8>,
    bytes: usize,
}

#[derive(Debug)]
struct Slot {
    history: History,
    /// Its place in the list.
    at: usize,
    bytes: usize,
}

impl Picks {
    pub(super) fn new(partition: u16) -> Picks {
        Picks { partition, histories: HashMap::new(), order: Vec::new(), sweep_at: 0, urgent: Vec::new(), bytes: 0 }
    }

    /// Looks at a history, unless it means nothing any more.
    pub(crate) fn get(&self, place: &Place, of: Of<'_>, now: Micros) -> Option<&History> {
        self.histories.get(&*spell(place, of)).map(|slot| &slot.history).filter(|history| history.until > now)
    }

    /// Changes a history; `is_write` says whether that is to be kept, and then it leaves its events. One that is not there is empty.
    pub(crate) fn change<A>(
        &mut self,
        place: &Place,
        of: Of<'_>,
        (now, events): (Micros, &mut Events),
        act: impl FnOnce(&mut History, &mut Touched) -> A,
        is_write: impl FnOnce(&A) -> bool,
    ) -> A {
        let name = spell(place, of);
        let mut touched = Touched::default();
        if let Some(slot) = self.histories.get_mut(&*name).filter(|slot| slot.history.until > now) {
            let answer = act(&mut slot.history, &mut touched);
            if is_write(&answer) {
                write(&mut self.urgent, self.partition, &name, &slot.history, &touched);
                touched.events.iter().for_each(|one| events.append(&place.space, one.pack(now, of)));
                self.bytes -= slot.bytes;
                slot.bytes = size_of::<Slot>() + 3 * name.len() + slot.history.bytes();
                self.bytes += slot.bytes;
            }
            return answer;
        }
        let mut history = History::default();
        let answer = act(&mut history, &mut touched);
        if is_write(&answer) {
            // What was there means nothing any more.
            self.remove(&name, None);
            write(&mut self.urgent, self.partition, &name, &history, &touched);
            touched.events.iter().for_each(|one| events.append(&place.space, one.pack(now, of)));
            self.insert(&name, history);
        }
        answer
    }

    fn insert(&mut self, name: &[u8], history: History) {
        let name: Arc<[u8]> = name.into();
        let bytes = size_of::<Slot>() + 3 * name.len() + history.bytes();
        self.bytes += bytes;
        self.histories.insert(Arc::clone(&name), Slot { history, at: self.order.len(), bytes });
        self.order.push(name);
    }

    /// Forgets a history; its parts are gone from the journal, too: in `out`, or as an urgent change.
    fn remove(&mut self, name: &[u8], out: Option<&mut Vec<u8>>) {
        let Some(slot) = self.histories.remove(name) else { return };
        self.bytes -= slot.bytes;
        self.order.swap_remove(slot.at);
        if let Some(moved) = self.order.get(slot.at)
            && let Some(moved) = self.histories.get_mut(moved)
        {
            moved.at = slot.at;
        }
        let out = out.unwrap_or(&mut self.urgent);
        let mut gone = |part: Part| record::write(out, Family::Pick, self.partition, &part.key(name), None);
        gone(Part::Head);
        gone(Part::Reserved);
        slot.history.entries.keys().for_each(|ordinal| gone(Part::Entry(*ordinal)));
        slot.history.old.keys().for_each(|chunk| gone(Part::Old(*chunk)));
    }

    /// Takes in a record of the journal.
    pub(super) fn load(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        // The part stands after the fourth NUL.
        let mut nuls = record.key.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at);
        let (name, part) = record.key.split_at_checked(nuls.nth(3).ok_or(Damaged)?).ok_or(Damaged)?;
        let part = part.get(1..).and_then(Part::read).ok_or(Damaged)?;
        if !self.histories.contains_key(name) {
            if record.value.is_none() {
                return Ok(());
            }
            self.insert(name, History::default());
        }
        let slot = self.histories.get_mut(name).ok_or(Damaged)?;
        part.load(&mut slot.history, record.value).ok_or(Damaged)
    }

    /// All records are loaded.
    pub(super) fn loaded(&mut self) {
        let empty: Vec<_> = self.histories.iter().filter(|(_, slot)| slot.history.seq == 0).map(|(name, _)| Arc::clone(name)).collect();
        let mut ignored = Vec::new();
        empty.iter().for_each(|name| self.remove(name, Some(&mut ignored)));
        self.bytes = 0;
        for (name, slot) in &mut self.histories {
            slot.bytes = size_of::<Slot>() + 3 * name.len() + slot.history.bytes();
            self.bytes += slot.bytes;
        }
    }

    pub(super) fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    pub(super) fn take_urgent(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.urgent);
    }

    pub(super) fn sweep(&mut self, before: Micros, steps: usize, out: &mut Vec<u8>) -> usize {
        let mut dropped = 0;
        for _ in 0..steps.min(self.order.len()) {
            if self.sweep_at >= self.order.len() {
                self.sweep_at = 0;
            }
            let Some(name) = self.order.get(self.sweep_at).cloned() else { break };
            if self.histories.get(&name).is_some_and(|slot| slot.history.until < before) {
                self.remove(&name, Some(out));
                dropped += 1;
            } else {
                self.sweep_at += 1;
            }
        }
        dropped
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn records(&self) -> usize {
        self.histories.len()
    }

    pub(super) fn dump(&self, out: &mut BTreeMap<String, (String, Micros)>) {
        for (name, slot) in &self.histories {
            let name = String::from_utf8_lossy(name);
            let mut parts = name.splitn(4, '\0');
            let mut part = || parts.next().unwrap_or("");
            let key = format!("hm:{{{}/{}}}:pick:{}:{}:{}", part(), self.partition, part(), part(), part());
            let history = &slot.history;
            let mut put = |field: String, part: Part| {
                let mut bytes = Vec::new();
                if part.write(history, &mut bytes) {
                    out.insert(format!("{key} {field}"), (key::hex(&bytes), history.until));
                }
            };
            put(String::from("h"), Part::Head);
            put(String::from("r"), Part::Reserved);
            history.entries.keys().for_each(|ordinal| put(ordinal.to_string(), Part::Entry(*ordinal)));
            history.old.keys().for_each(|chunk| put(format!("o{chunk}"), Part::Old(*chunk)));
        }
    }
}

fn spell(place: &Place, (deck, epoch, subject): Of<'_>) -> crate::partition::Joined {
    joined([place.space.as_str(), deck.as_str(), &epoch.to_string(), subject.as_str()])
}

/// Writes the parts that were changed.
fn write(out: &mut Vec<u8>, partition: u16, name: &[u8], history: &History, touched: &Touched) {
    let mut put = |part: Part| {
        let mut bytes = Vec::new();
        let is_there = part.write(history, &mut bytes);
        let value = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
        record::write(out, Family::Pick, partition, &part.key(name), if is_there { Some(&value) } else { None });
    };
    put(Part::Head);
    if touched.reserved {
        put(Part::Reserved);
    }
    touched.entries.iter().for_each(|ordinal| put(Part::Entry(*ordinal)));
    touched.chunks.iter().for_each(|chunk| put(Part::Old(*chunk)));
}

/// A part of a history: one record of the journal, one field on Redis.
#[derive(Clone, Copy, Debug)]
enum Part {
    Head,
    Reserved,
    Entry(u32),
    Old(u32),
}

impl Part {
    fn key(self, name: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(name.len() + 6);
        key.extend_from_slice(name);
        key.push(0);
        match self {
            Part::Head => key.push(b'h'),
            Part::Reserved => key.push(b'r'),
            Part::Entry(ordinal) => {
                key.push(b'e');
                key.extend_from_slice(&ordinal.to_be_bytes());
            }
            Part::Old(chunk) => {
                key.push(b'o');
                key.extend_from_slice(&chunk.to_be_bytes());
            }
        }
        key
    }

    fn read(bytes: &[u8]) -> Option<Part> {
        let number = |rest: &[u8]| rest.try_into().ok().map(u32::from_be_bytes);
        match bytes {
            b"h" => Some(Part::Head),
            b"r" => Some(Part::Reserved),
            [b'e', rest @ ..] => number(rest).map(Part::Entry),
            [b'o', rest @ ..] => number(rest).map(Part::Old),
            _ => None,
        }
    }

    /// Appends its bytes; false if there is no such part.
    fn write(self, history: &History, out: &mut Vec<u8>) -> bool {
        match self {
            Part::Head => history.write_head(out),
            Part::Reserved => history.reserved.iter().for_each(|one| one.write(out)),
            Part::Entry(ordinal) => match history.entries.get(&ordinal) {
                Some(entry) => entry.write(out),
                None => return false,
            },
            Part::Old(chunk) => match history.old.get(&chunk) {
                Some(old) => out.extend_from_slice(old.as_bytes()),
                None => return false,
            },
        }
        !out.is_empty()
    }

    fn load(self, history: &mut History, value: Option<&[u8]>) -> Option<()> {
        let Some(value) = value else {
            match self {
                Part::Head => (history.seq, history.until) = (0, Micros::ZERO),
                Part::Reserved => history.reserved.clear(),
                Part::Entry(ordinal) => drop(history.entries.remove(&ordinal)),
                Part::Old(chunk) => drop(history.old.remove(&chunk)),
            }
            return Some(());
        };
        match self {
            Part::Head => history.read_field(b"h", value),
            Part::Reserved => history.read_field(b"r", value),
            Part::Entry(ordinal) => history.read_field(ordinal.to_string().as_bytes(), value),
            Part::Old(chunk) => history.read_field(format!("o{chunk}").as_bytes(), value),
        }
    }
}

/// What is known of a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Grows with every change.
    pub version: u64,
    /// The profile, as it was given.
    pub bytes: Box<[u8]>,
}

impl Value for Stored {
    fn write(&self, out: &mut Vec<u8>) {
        record::put(out, [self.version]);
        out.extend_from_slice(&self.bytes);
    }

    fn read(mut bytes: &[u8]) -> Option<Stored> {
        Some(Stored { version: record::take_number(&mut bytes)?, bytes: bytes.into() })
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.len() + 16
    }

    fn to_text(&self, _until: Micros) -> String {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        key::hex(&bytes)
    }
}

/// What is known of the subjects of a partition.
#[derive(Debug)]
pub struct Profiles {
    table: Table<Stored>,
}

impl Profiles {
    pub(super) fn new(partition: u16) -> Profiles {
        Profiles { table: Table::new(Family::Profile, partition) }
    }

    /// What is known of a subject.
    pub(crate) fn get(&self, space: &SpaceId, subject: &str) -> Option<&Stored> {
        self.table.live(&joined([space.as_str(), subject]), Micros::ZERO).map(|(stored, _)| stored)
    }

    pub(crate) fn put(&mut self, place: &Place, subject: &str, stored: Stored) {
        self.table.put(&joined([place.space.as_str(), subject]), stored, Micros::MAX, true);
    }

    pub(crate) fn remove(&mut self, place: &Place, subject: &str) {
        self.table.delete(&joined([place.space.as_str(), subject]), true);
    }

    pub(super) fn load(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        self.table.load(record)
    }

    pub(super) fn has_urgent(&self) -> bool {
        self.table.has_urgent()
    }

    pub(super) fn take_urgent(&mut self, out: &mut Vec<u8>) {
        self.table.take_urgent(out);
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    pub(super) fn records(&self) -> usize {
        self.table.len()
    }

    pub(super) fn dump(&self, out: &mut BTreeMap<String, (String, Micros)>) {
        self.table.dump(out, |tag, subject, _| format!("hm:{{{tag}}}:subject:{subject}"));
    }
}
