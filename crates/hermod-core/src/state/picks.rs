//! What the subjects of a partition were sent, and what is known of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::events::Events;
use super::seats::Seats;
use super::{Table, Value};
use crate::id::{DeckId, SpaceId, Subject};
use crate::int::Micros;
use crate::key;
use crate::partition::{Place, joined};
use crate::pick::history::{Entry, History, Old, Touched};
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
    seats: Seats,
    /// Its place in the list.
    at: usize,
    bytes: usize,
}

impl Slot {
    /// How much memory it takes, about.
    fn size(name: &[u8], history: &History, seats: &Seats) -> usize {
        size_of::<Slot>() + 3 * name.len() + history.bytes() + seats.bytes()
    }
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
                Out { urgent: &mut self.urgent, partition: self.partition, name: &name }.changed(&slot.history, &mut slot.seats, &touched);
                touched.events.iter().for_each(|one| events.append(&place.space, one.pack(now, of)));
                self.bytes -= slot.bytes;
                slot.bytes = Slot::size(&name, &slot.history, &slot.seats);
                self.bytes += slot.bytes;
            }
            return answer;
        }
        let mut history = History::default();
        let answer = act(&mut history, &mut touched);
        if is_write(&answer) {
            // What was there means nothing any more.
            self.remove(&name, None);
            let mut seats = Seats::default();
            Out { urgent: &mut self.urgent, partition: self.partition, name: &name }.changed(&history, &mut seats, &touched);
            touched.events.iter().for_each(|one| events.append(&place.space, one.pack(now, of)));
            self.insert(&name, history, seats);
        }
        answer
    }

    fn insert(&mut self, name: &[u8], history: History, seats: Seats) {
        let name: Arc<[u8]> = name.into();
        let bytes = Slot::size(&name, &history, &seats);
        self.bytes += bytes;
        self.histories.insert(Arc::clone(&name), Slot { history, seats, at: self.order.len(), bytes });
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
        let mut out = Out { urgent: out.unwrap_or(&mut self.urgent), partition: self.partition, name };
        out.put(Part::Head, None);
        out.put(Part::Reserved, None);
        slot.seats.taken().for_each(|seat| out.put(Part::Seat(seat), None));
        slot.seats.seatless().for_each(|ordinal| out.put(Part::Entry(ordinal), None));
        slot.history.old.keys().for_each(|chunk| out.put(Part::Old(*chunk), None));
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
            self.insert(name, History::default(), Seats::default());
        }
        let slot = self.histories.get_mut(name).ok_or(Damaged)?;
        part.load(&mut slot.history, &mut slot.seats, record.value).ok_or(Damaged)
    }

    /// All records are loaded.
    pub(super) fn loaded(&mut self) {
        let empty: Vec<_> = self.histories.iter().filter(|(_, slot)| slot.history.seq == 0).map(|(name, _)| Arc::clone(name)).collect();
        let mut ignored = Vec::new();
        empty.iter().for_each(|name| self.remove(name, Some(&mut ignored)));
        self.bytes = 0;
        for (name, slot) in &mut self.histories {
            let Slot { history, seats, bytes, .. } = slot;
            // The record of what was put among the old may be left, and means nothing.
            let old: Vec<u32> = history.entries.keys().copied().filter(|ordinal| history.is_old(*ordinal)).collect();
            old.iter().for_each(|ordinal| drop(history.entries.remove(ordinal)));
            seats.loaded(|ordinal| history.entries.contains_key(&ordinal));
            *bytes = Slot::size(name, history, seats);
            self.bytes += *bytes;
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
            let mut put = |field: &str, write: record::Write<'_>| {
                let mut bytes = Vec::new();
                write(&mut bytes);
                if !bytes.is_empty() {
                    out.insert(format!("{key} {field}"), (key::hex(&bytes), history.until));
                }
            };
            put("h", &|out| history.write_head(out));
            put("r", &|out| history.write_reserved(out));
            history.entries.iter().for_each(|(ordinal, entry)| put(&ordinal.to_string(), &|out| entry.write(out)));
            history.old.iter().for_each(|(chunk, old)| put(&format!("o{chunk}"), &|out| out.extend_from_slice(old.as_bytes())));
        }
    }
}

fn spell(place: &Place, (deck, epoch, subject): Of<'_>) -> crate::partition::Joined {
    joined([place.space.as_str(), deck.as_str(), &epoch.to_string(), subject.as_str()])
}

/// Where the parts of a history are written.
struct Out<'a> {
    urgent: &'a mut Vec<u8>,
    partition: u16,
    name: &'a [u8],
}

impl Out<'_> {
    fn put(&mut self, part: Part, value: Option<record::Write<'_>>) {
        record::write(self.urgent, Family::Pick, self.partition, &part.key(self.name), value);
    }

    /// Writes the parts that were changed.
    fn changed(&mut self, history: &History, seats: &mut Seats, touched: &Touched) {
        self.put(Part::Head, Some(&|out| history.write_head(out)));
        if touched.reserved {
            let write = |out: &mut Vec<u8>| history.write_reserved(out);
            self.put(Part::Reserved, if history.reserved.is_empty() { None } else { Some(&write) });
        }
        for chunk in &touched.chunks {
            match history.old.get(chunk) {
                Some(old) => self.put(Part::Old(*chunk), Some(&|out| out.extend_from_slice(old.as_bytes()))),
                None => self.put(Part::Old(*chunk), None),
            }
        }
        for ordinal in touched.entries.iter().copied() {
            if seats.rise(ordinal) {
                self.put(Part::Entry(ordinal), None);
            }
            match history.entries.get(&ordinal) {
                Some(entry) => {
                    let value = |out: &mut Vec<u8>| {
                        out.extend_from_slice(&ordinal.to_le_bytes());
                        entry.write(out);
                    };
                    self.put(Part::Seat(seats.take(ordinal)), Some(&value));
                }
                None if history.is_old(ordinal) => seats.leave(ordinal),
                None => seats.vacate(ordinal).into_iter().for_each(|seat| self.put(Part::Seat(seat), None)),
            }
        }
    }
}

/// A part of a history: one record of the journal; on Redis one field, but that entries are known by their messages there.
#[derive(Clone, Copy, Debug)]
enum Part {
    Head,
    Reserved,
    /// An entry by its message, as it was once written.
    Entry(u32),
    /// An entry by its seat.
    Seat(u32),
    Old(u32),
}

impl Part {
    fn key(self, name: &[u8]) -> SmallVec<[u8; 128]> {
        let mut key = SmallVec::from_slice(name);
        key.push(0);
        let (kind, number) = match self {
            Part::Head => (b'h', None),
            Part::Reserved => (b'r', None),
            Part::Entry(ordinal) => (b'e', Some(ordinal)),
            Part::Seat(seat) => (b's', Some(seat)),
            Part::Old(chunk) => (b'o', Some(chunk)),
        };
        key.push(kind);
        key.extend(number.into_iter().flat_map(u32::to_be_bytes));
        key
    }

    fn read(bytes: &[u8]) -> Option<Part> {
        let number = |rest: &[u8]| rest.try_into().ok().map(u32::from_be_bytes);
        match bytes {
            b"h" => Some(Part::Head),
            b"r" => Some(Part::Reserved),
            [b'e', rest @ ..] => number(rest).map(Part::Entry),
            [b's', rest @ ..] => number(rest).map(Part::Seat),
            [b'o', rest @ ..] => number(rest).map(Part::Old),
            _ => None,
        }
    }

    fn load(self, history: &mut History, seats: &mut Seats, value: Option<&[u8]>) -> Option<()> {
        match (self, value) {
            (Part::Head, Some(value)) => history.read_field(b"h", value)?,
            (Part::Head, None) => (history.seq, history.until) = (0, Micros::ZERO),
            (Part::Reserved, Some(value)) => history.read_field(b"r", value)?,
            (Part::Reserved, None) => history.reserved.clear(),
            (Part::Old(chunk), Some(value)) => drop(history.old.insert(chunk, Old::read(value)?)),
            (Part::Old(chunk), None) => drop(history.old.remove(&chunk)),
            (Part::Entry(ordinal), value) => {
                match value {
                    Some(value) => drop(history.entries.insert(ordinal, Entry::read(value)?)),
                    // It may have a seat by now.
                    None if seats.is_seatless(ordinal) => drop(history.entries.remove(&ordinal)),
                    None => {}
                }
                seats.load_seatless(ordinal, value.is_some());
            }
            (Part::Seat(seat), Some(mut value)) => {
                let ordinal = u32::from_le_bytes(record::take(&mut value)?);
                if let Some(before) = seats.load(seat, Some(ordinal)) {
                    history.entries.remove(&before);
                }
                history.entries.insert(ordinal, Entry::read(value)?);
            }
            (Part::Seat(seat), None) => {
                if let Some(before) = seats.load(seat, None) {
                    history.entries.remove(&before);
                }
            }
        }
        Some(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Seed;
    use crate::pick::history::KEEP;

    fn dump(picks: &Picks) -> BTreeMap<String, (String, Micros)> {
        let mut out = BTreeMap::new();
        picks.dump(&mut out);
        out
    }

    /// From a journal, in its order, or as a snapshot has it: the last record of each key, by key.
    fn again(journal: &[u8], is_folded: bool) -> Picks {
        let mut records: Vec<_> = record::read(journal).map(Result::unwrap).collect();
        if is_folded {
            let last: BTreeMap<_, _> = records.iter().map(|record| (record.key, *record)).collect();
            records = last.into_values().filter(|record| record.value.is_some()).collect();
        }
        let mut picks = Picks::new(7);
        records.iter().for_each(|record| picks.load(record).unwrap());
        picks.loaded();
        picks
    }

    /// A thousand changes of two histories, some of them after everything was read back from the journal.
    #[test]
    fn histories_are_read_back_as_they_were_and_seats_are_used_again() {
        for round in 0..20 {
            let (mut picks, mut events, mut journal) = (Picks::new(7), Events::new(7), Vec::new());
            let place = Place { space: SpaceId::default_space(), partition: 7 };
            let (deck, subjects) = (DeckId::new("tips").unwrap(), ["bot-7", "bot-8"].map(|name| Subject::new(name).unwrap()));
            for n in 0..1_000 {
                let (seed, now) = (Seed::new(round).child(n), Micros::saturating(1_000 + n));
                let pick = |index| u32::try_from(seed.child(index).below(40)).unwrap();
                let act = |history: &mut History, touched: &mut Touched| {
                    history.send(pick(1), None, now, touched);
                    let mut by_age: Vec<_> = history.entries.iter().map(|(ordinal, entry)| (entry.seq, *ordinal)).collect();
                    by_age.sort_unstable();
                    let oldest: Vec<u32> = by_age.iter().map(|(_, ordinal)| *ordinal).take(by_age.len().saturating_sub(8)).collect();
                    let forget: Vec<u32> = (2..4).map(pick).filter(|ordinal| *ordinal != by_age.last().unwrap().1).collect();
                    match seed.child(9).below(8) {
                        0 => history.clean(&[], &oldest, touched),
                        1 => history.clean(&forget, &[], touched),
                        _ => {}
                    }
                };
                let subject = &subjects[usize::from(n % 3 == 0)];
                picks.change(&place, (&deck, 1, subject), (now, &mut events), act, |()| true);
                picks.take_urgent(&mut journal);
                if n % 50 == 0 {
                    let [plain, folded] = [false, true].map(|is_folded| again(&journal, is_folded));
                    assert_eq!((dump(&plain), dump(&folded)), (dump(&picks), dump(&picks)), "round {round}, change {n}");
                    assert_eq!(folded.bytes(), picks.bytes(), "round {round}, change {n}");
                    picks = if n % 100 == 0 { plain } else { folded };
                }
            }
            let seats = |picks: &Picks| picks.histories.values().map(|slot| slot.seats.taken().max().unwrap()).max().unwrap();
            assert!(seats(&picks) < 30, "round {round}: {}", seats(&picks));
            // When they mean nothing any more nothing is left of them.
            let mut gone = Vec::new();
            assert_eq!(picks.sweep(KEEP.plus(Micros::saturating(1_000_000)), 100, &mut gone), 2);
            journal.append(&mut gone);
            assert_eq!(
                record::read(&journal)
                    .map(Result::unwrap)
                    .map(|one| (one.key, one.value))
                    .collect::<BTreeMap<_, _>>()
                    .into_values()
                    .flatten()
                    .count(),
                0
            );
        }
    }

    #[test]
    fn entries_that_were_written_by_their_messages_are_read_and_get_a_seat_when_they_change() {
        let place = Place { space: SpaceId::default_space(), partition: 7 };
        let (deck, subject) = (DeckId::new("tips").unwrap(), Subject::new("bot-7").unwrap());
        let name = spell(&place, (&deck, 1, &subject));
        let mut history = History { seq: 3, until: KEEP, ..History::default() };
        let mut journal = Vec::new();
        let mut out = Out { urgent: &mut journal, partition: 7, name: &name };
        out.put(Part::Head, Some(&|out| history.write_head(out)));
        for seq in 1..=3 {
            let entry = Entry { seq: u64::from(seq), sent_at: Micros::saturating(seq.into()), count: None };
            out.put(Part::Entry(seq), Some(&|out| entry.write(out)));
            history.entries.insert(seq, entry);
        }
        let mut picks = again(&journal, true);
        assert_eq!(picks.histories[&*name].history, history);
        let act = |history: &mut History, touched: &mut Touched| {
            history.send(1, None, Micros::saturating(9), touched);
            history.clean(&[2], &[3], touched);
        };
        picks.change(&place, (&deck, 1, &subject), (Micros::ZERO, &mut Events::new(7)), act, |()| true);
        picks.take_urgent(&mut journal);
        for is_folded in [false, true] {
            assert_eq!(dump(&again(&journal, is_folded)), dump(&picks));
        }
        assert_eq!(picks.histories[&*name].seats.seatless().count(), 0);
    }
}
