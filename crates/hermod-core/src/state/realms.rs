//! The books of the realms of a partition: what everybody has, how it came to be, and what is to come.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::board::Board;
use super::cells::Cells;
use super::{Table, Value};
use crate::id::RealmId;
use crate::int::{INT_MAX, Micros};
use crate::key;
use crate::partition::{Place, joined};
use crate::realm::apply::Done;
use crate::realm::plan::{Account, Balance, Mark, Plan, Then, put_int, take_int};
use crate::record::{self, Damaged, Family, Record};

/// The realms of a partition.
#[derive(Debug)]
pub struct Realms {
    partition: u16,
    /// By `space NUL realm`.
    realms: HashMap<Vec<u8>, Book>,
    /// By `space NUL realm NUL name`.
    marks: Table<Mark>,
    urgent: Vec<u8>,
    bytes: usize,
}

/// What is known of one realm.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Of the realm that was applied last.
    version: u64,
    /// By `asset:owner`.
    cells: Cells,
    /// By asset, those that have one.
    boards: HashMap<String, Board>,
    /// The first is number 1.
    ledger: Vec<Box<[u8]>>,
    due: BTreeSet<(Micros, Box<[u8]>)>,
    /// When what is scheduled is due.
    times: HashMap<Box<[u8]>, Micros>,
}

/// One account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What there is.
    pub(crate) value: i64,
    /// The commit that changed it last.
    pub(crate) since: u64,
    /// Whether it is on a board.
    pub(crate) board: bool,
    /// What is on hold: by which hold, how much, until when.
    pub(crate) liens: Vec<(u64, i64, Micros)>,
}

/// What a realm's entry in a map takes beside its own bytes, about.
const BESIDE: usize = 64;

impl Cell {
    /// What it says at `now`.
    pub(crate) fn balance(&self, now: Micros) -> Balance {
        let live = self.liens.iter().filter(|(.., until)| *until > now);
        let held = live.clone().map(|(_, qty, _)| qty).sum();
        Balance { value: self.value, held, next: live.map(|(.., until)| *until).min().unwrap_or_default() }
    }

    /// Without what has ended, and without these holds.
    pub(crate) fn without(mut self, holds: &[u64], now: Micros) -> Cell {
        self.liens.retain(|(by, _, until)| *until > now && !holds.contains(by));
        self
    }

    /// As Redis holds it: whether it is on a board is seen there from the board.
    fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 24 * self.liens.len());
        put_int(&mut out, self.value);
        record::put(&mut out, [self.since]);
        for (hold, qty, until) in &self.liens {
            record::put(&mut out, [*hold]);
            put_int(&mut out, *qty);
            record::put(&mut out, [until.get()]);
        }
        out
    }

    fn read(bytes: &[u8]) -> Option<Cell> {
        let (board, mut rest) = bytes.split_first()?;
        let (value, since) = (take_int(&mut rest)?, record::take_number(&mut rest)?);
        let mut liens = Vec::new();
        while !rest.is_empty() {
            liens.push((record::take_number(&mut rest)?, take_int(&mut rest)?, record::take_micros(&mut rest)?));
        }
        Some(Cell { value, since, board: *board == 1, liens })
    }
}

impl Realms {
    pub(super) fn new(partition: u16) -> Realms {
        let marks = Table::new(Family::Mark, partition);
        Realms { partition, realms: HashMap::new(), marks, urgent: Vec::new(), bytes: 0 }
    }

    fn book(&self, place: &Place, realm: &RealmId) -> Option<&Book> {
        self.realms.get(&*joined([place.space.as_str(), realm.as_str()]))
    }

    /// The version of the realm that was applied last.
    pub(crate) fn version(&self, place: &Place, realm: &RealmId) -> u64 {
        self.book(place, realm).map_or(0, |book| book.version)
    }

    /// An account.
    pub(crate) fn cell(&self, place: &Place, realm: &RealmId, account: &Account) -> Cell {
        let cell = self.book(place, realm).and_then(|book| book.cells.get(&account.spell()));
        cell.cloned().unwrap_or_default()
    }

    /// A mark, unless it has ended.
    pub(crate) fn mark(&self, place: &Place, realm: &RealmId, name: &str, now: Micros) -> Option<Mark> {
        let found = self.marks.live(&joined([place.space.as_str(), realm.as_str(), name]), now);
        found.map(|(mark, until)| Mark { until, ..mark.clone() })
    }

    /// Whether this is still to come.
    pub(crate) fn is_due(&self, place: &Place, realm: &RealmId, what: &[u8]) -> bool {
        self.book(place, realm).is_some_and(|book| book.times.contains_key(what))
    }

    /// What is scheduled, the first first.
    pub(crate) fn due(&self, place: &Place, realm: &RealmId) -> impl Iterator<Item = (Micros, &[u8])> {
        self.book(place, realm).into_iter().flat_map(|book| book.due.iter().map(|(at, what)| (*at, &**what)))
    }

    /// The entries of the ledger after this number, and the number of the last.
    pub(crate) fn ledger(&self, place: &Place, realm: &RealmId, after: u64) -> (u64, impl Iterator<Item = (u64, &[u8])>) {
        let ledger = self.book(place, realm).map(|book| book.ledger.as_slice()).unwrap_or_default();
        let entries = ledger.iter().enumerate().skip(usize::try_from(after).unwrap_or(usize::MAX));
        (number(ledger.len()), entries.map(|(at, entry)| (number(at) + 1, &**entry)))
    }

    /// Some accounts from a cursor on, as they stand, and the next cursor ([`Cells::page`]).
    pub(crate) fn page(&self, place: &Place, realm: &RealmId, cursor: u64, limit: usize) -> (Vec<(&[u8], &Cell)>, u64) {
        self.book(place, realm).map(|book| book.cells.page(cursor, limit)).unwrap_or_default()
    }

    /// The board of an asset.
    pub(crate) fn board(&self, place: &Place, realm: &RealmId, asset: &str) -> Option<&Board> {
        self.book(place, realm).and_then(|book| book.boards.get(asset))
    }

    /// What was scheduled is done.
    pub(crate) fn fulfil(&mut self, place: &Place, realm: &RealmId, what: &[u8]) {
        let name = joined([place.space.as_str(), realm.as_str()]);
        if let Some(book) = self.realms.get_mut(&*name)
            && let Some(at) = book.times.remove(what)
        {
            book.due.remove(&(at, what.into()));
            self.bytes -= 2 * what.len() + BESIDE;
            record::write(&mut self.urgent, Family::Due, self.partition, &spell(&name, what), None);
        }
    }

    /// Does what a plan says; all bounds were checked.
    pub(crate) fn write(&mut self, place: &Place, realm: &RealmId, plan: &Plan, now: Micros) -> Done {
        let name = joined([place.space.as_str(), realm.as_str()]);
        if !self.realms.contains_key(&*name) {
            self.realms.insert(name.to_vec(), Book::default());
        }
        let book = self.realms.get_mut(&*name).expect("it is there now");
        let (urgent, partition) = (&mut self.urgent, self.partition);
        if plan.version > book.version {
            book.version = plan.version;
            record::write(urgent, Family::Realm, partition, &name, Some(&|out| record::put(out, [plan.version])));
        }
        let entry: Box<[u8]> = [&now.get().to_le_bytes()[..], &plan.entry].concat().into();
        let seq = number(book.ledger.len()) + 1;
        record::write(urgent, Family::Ledger, partition, &spell(&name, &seq.to_be_bytes()), Some(&|out| out.extend_from_slice(&entry)));
        self.bytes += entry.len() + BESIDE;
        book.ledger.push(entry);
        let mut balances = Vec::with_capacity(plan.postings.len());
        for posting in &plan.postings {
            let spelled = posting.account.spell();
            let old = book.cells.get(&spelled).cloned().unwrap_or_default();
            let mut cell = old.clone().without(&posting.drops, now);
            cell.value += posting.delta;
            balances.push((posting.account.clone(), cell.value));
            cell.liens.extend(posting.lien.map(|lien| (lien.hold, lien.qty, lien.until.from(now))));
            if posting.delta != 0 {
                cell.since = seq;
                cell.board = posting.board;
                if posting.board {
                    book.boards.entry_ref(&*posting.account.asset).or_default().change(&posting.account.owner, (&old, &cell));
                }
            }
            if posting.delta == 0 && posting.lien.is_none() && posting.drops.is_empty() {
                continue;
            }
            let is_gone = cell.value == 0 && cell.liens.is_empty();
            let write = |out: &mut Vec<u8>| {
                out.push(u8::from(cell.board));
                out.extend_from_slice(&cell.pack());
            };
            record::write(urgent, Family::Account, partition, &spell(&name, &spelled), (!is_gone).then_some(&write));
            let bytes = spelled.len() + size_of::<Cell>() + BESIDE;
            let before = if is_gone { book.cells.remove(&spelled) } else { book.cells.insert(&spelled, cell.clone()) };
            self.bytes -= before.map_or(0, |before| bytes + 24 * before.liens.len());
            self.bytes += if is_gone { 0 } else { bytes + 24 * cell.liens.len() };
        }
        for marking in &plan.markings {
            let key = joined([place.space.as_str(), realm.as_str(), &marking.name]);
            // What has ended already is not written.
            if let Some(mark) = marking.written(now).filter(|mark| mark.until > now) {
                let until = mark.until;
                self.marks.put(&key, mark, until, true);
            } else if marking.then != Then::Stay {
                self.marks.delete(&key, true);
            }
        }
        for (due, what) in &plan.later {
            let (at, what) = (due.from(now), [&seq.to_be_bytes()[..], what].concat());
            record::write(urgent, Family::Due, partition, &spell(&name, &what), Some(&|out| record::put(out, [at.get()])));
            self.bytes += 2 * what.len() + BESIDE;
            book.add_due(at, what.into());
        }
        if let Some(done) = &plan.done {
            self.fulfil(place, realm, done);
        }
        Done { now, seq, balances, entry: plan.entry.clone(), told: plan.told.clone() }
    }

    pub(super) fn load(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        if record.family == Family::Mark {
            return self.marks.load(record);
        }
        // The realm's name ends with the second NUL, if anything follows it.
        let mut nuls = record.key.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at);
        let end = nuls.nth(1).unwrap_or(record.key.len());
        let (name, rest) = record.key.split_at_checked(end).ok_or(Damaged)?;
        let rest = rest.get(1..).unwrap_or_default();
        let book = self.realms.entry_ref(name).or_default();
        match (record.family, record.value) {
            (Family::Realm, Some(mut value)) => book.version = record::take_number(&mut value).ok_or(Damaged)?,
            (Family::Ledger, Some(entry)) => {
                let seq = <[u8; 8]>::try_from(rest).map(u64::from_be_bytes).map_err(|_| Damaged)?;
                let at = usize::try_from(seq).ok().and_then(|seq| seq.checked_sub(1)).ok_or(Damaged)?;
                // They may come in any order.
                if book.ledger.len() <= at {
                    book.ledger.resize_with(at + 1, Box::default);
                }
                *book.ledger.get_mut(at).ok_or(Damaged)? = entry.into();
            }
            (Family::Account, Some(value)) => drop(book.cells.insert(rest, Cell::read(value).ok_or(Damaged)?)),
            (Family::Account, None) => drop(book.cells.remove(rest)),
            (Family::Due, Some(mut at)) => book.add_due(record::take_micros(&mut at).ok_or(Damaged)?, rest.into()),
            (Family::Due, None) => {
                if let Some(at) = book.times.remove(rest) {
                    book.due.remove(&(at, rest.into()));
                }
            }
            _ => return Err(Damaged),
        }
        Ok(())
    }

    /// All records are loaded: makes the boards, and counts.
    pub(super) fn loaded(&mut self) {
        self.bytes = 0;
        for book in self.realms.values_mut() {
            for (name, cell) in book.cells.iter() {
                self.bytes += name.len() + size_of::<Cell>() + BESIDE + 24 * cell.liens.len();
                if let Some(account) = Account::read(name).filter(|_| cell.board) {
                    book.boards.entry_ref(&*account.asset).or_default().change(&account.owner, (&Cell::default(), cell));
                }
            }
            self.bytes += book.ledger.iter().map(|entry| entry.len() + BESIDE).sum::<usize>();
            self.bytes += book.times.keys().map(|what| 2 * what.len() + BESIDE).sum::<usize>();
        }
    }

    pub(super) fn has_urgent(&self) -> bool {
        !self.urgent.is_empty() || self.marks.has_urgent()
    }

    pub(super) fn take_urgent(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.urgent);
        self.marks.take_urgent(out);
    }

    pub(super) fn sweep(&mut self, before: Micros, steps: usize, out: &mut Vec<u8>) -> usize {
        self.marks.sweep(before, steps, out)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.marks.bytes()
    }

    pub(super) fn records(&self) -> usize {
        self.marks.len() + self.realms.values().map(|book| book.cells.len() + book.ledger.len() + book.times.len()).sum::<usize>()
    }

    pub(super) fn dump(&self, out: &mut BTreeMap<String, (String, Micros)>) {
        self.marks.dump(out, |tag, realm, name| format!("{}{name}", key::realm_in(tag, realm, "mark:")));
        for (name, book) in &self.realms {
            let name = String::from_utf8_lossy(name);
            let (space, realm) = name.split_once('\0').unwrap_or_default();
            let tag = format!("{space}/{}", self.partition);
            let base = |part: &str| key::realm_in(&tag, realm, part);
            let mut put = |key: String, value: String| drop(out.insert(key, (value, Micros::MAX)));
            if book.version > 0 {
                put(format!("{} v", base("cells")), key::hex(book.version.to_string().as_bytes()));
            }
            for (account, cell) in book.cells.iter() {
                put(format!("{} {}", base("cells"), String::from_utf8_lossy(account)), key::hex(&cell.pack()));
            }
            for (at, entry) in book.ledger.iter().enumerate() {
                put(format!("{} 0-{}", base("ledger"), at + 1), key::hex(entry));
            }
            for (asset, board) in &book.boards {
                for row in board.rows() {
                    let member = [&(INT_MAX - row.since).to_be_bytes()[..], row.owner.as_bytes()].concat();
                    put(format!("{} {}", base(&format!("board:{asset}")), key::hex(&member)), row.value.to_string());
                }
            }
            for (at, what) in &book.due {
                put(format!("{} {}", base("due"), key::hex(what)), at.to_string());
            }
        }
    }
}

impl Book {
    fn add_due(&mut self, at: Micros, what: Box<[u8]>) {
        if let Some(before) = self.times.insert(what.clone(), at) {
            self.due.remove(&(before, what.clone()));
        }
        self.due.insert((at, what));
    }
}

impl Value for Mark {
    fn write(&self, out: &mut Vec<u8>) {
        put_int(out, self.value);
        record::put(out, [self.at.get()]);
        out.extend_from_slice(&self.payload);
    }

    fn read(mut bytes: &[u8]) -> Option<Mark> {
        let (value, at) = (take_int(&mut bytes)?, record::take_micros(&mut bytes)?);
        Some(Mark { value, until: Micros::MAX, at, payload: bytes.into() })
    }

    fn heap_bytes(&self) -> usize {
        self.payload.len()
    }

    fn to_text(&self, until: Micros) -> String {
        key::hex(&Mark { until, ..self.clone() }.pack())
    }
}

fn number(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn spell(name: &[u8], rest: &[u8]) -> Vec<u8> {
    [name, &[0], rest].concat()
}
