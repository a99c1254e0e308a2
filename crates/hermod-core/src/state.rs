//! All state of one partition, in memory, and what of it the journal has not seen yet.
//!
//! A [`Table`] holds one family of records in an index map: looked up by key, swept by position,
//! so that expired records are found in small steps without a second index. Every change is either
//! *urgent* (its bytes go to the journal with the operation, and the answer waits for them) or
//! *deferred* (the slot is marked, and a flush writes whatever it holds by then).

mod table;

use std::collections::BTreeMap;

use crate::id::{RuleId, SpaceId, Subject};
use crate::int::Micros;
use crate::limit::meter::Bucket;
use crate::once::Kept;
use crate::operation::Reply;
use crate::partition::Place;
use crate::record::{self, Damaged, Family, Record};

pub use table::{Table, Value};

/// The memory bound is reached and the operation would need more. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory bound is reached")]
pub struct Full;

/// The state of one partition.
#[derive(Debug)]
pub struct State {
    /// Buckets by (space, rule, subject).
    pub limits: Limits,
    /// Kept answers by (space, idempotency key, home).
    pub onces: Onces,
    /// Set by the engine when memory is short: nothing new may be created.
    pub is_full: bool,
}

impl State {
    /// The empty state of a partition.
    pub fn new(partition: u16) -> State {
        State {
            limits: Limits { table: Table::new(Family::Limit, partition), key: Vec::new() },
            onces: Onces { table: Table::new(Family::Once, partition), key: Vec::new() },
            is_full: false,
        }
    }

    /// Takes in a record of the journal.
    pub fn load(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        match record.family {
            Family::Limit => self.limits.table.load(record),
            Family::Once => self.onces.table.load(record),
        }
    }

    /// Whether the last operation changed something urgent.
    pub fn has_urgent(&self) -> bool {
        self.limits.table.has_urgent() || self.onces.table.has_urgent()
    }

    /// Moves the bytes of urgent changes to the end of `out`.
    pub fn take_urgent(&mut self, out: &mut Vec<u8>) {
        self.limits.table.take_urgent(out);
        self.onces.table.take_urgent(out);
    }

    /// Writes at most `max` deferred changes to `out`; how many it wrote.
    pub fn flush(&mut self, max: usize, out: &mut Vec<u8>) -> usize {
        let limits = self.limits.table.flush(max, out);
        limits + self.onces.table.flush(max - limits, out)
    }

    /// Looks at the next `steps` records of each table and drops those that ended before `before`.
    pub fn sweep(&mut self, before: Micros, steps: usize, out: &mut Vec<u8>) -> usize {
        self.limits.table.sweep(before, steps, out) + self.onces.table.sweep(before, steps, out)
    }

    /// How much memory it takes, about.
    pub fn bytes(&self) -> usize {
        self.limits.table.bytes() + self.onces.table.bytes()
    }

    /// How many records it holds.
    pub fn records(&self) -> usize {
        self.limits.table.len() + self.onces.table.len()
    }

    /// Every record as Redis would hold it, with the time from which it means nothing any more.
    pub fn dump(&self, out: &mut BTreeMap<String, (String, Micros)>) {
        self.limits.table.dump("limit", ":", out);
        self.onces.table.dump("once", " ", out);
    }
}

/// Joins the parts of a key. No name holds a NUL, and free text stands last.
fn join(key: &mut Vec<u8>, parts: [&str; 3]) {
    key.clear();
    for (i, part) in parts.into_iter().enumerate() {
        if i > 0 {
            key.push(0);
        }
        key.extend_from_slice(part.as_bytes());
    }
}

/// The buckets of a partition.
#[derive(Debug)]
pub struct Limits {
    table: Table<Bucket>,
    /// Scratch, so that a lookup allocates nothing.
    key: Vec<u8>,
}

impl Limits {
    /// The bucket of a subject under a rule.
    pub fn get(&mut self, space: &SpaceId, rule: &RuleId, subject: &Subject, now: Micros) -> Option<Bucket> {
        join(&mut self.key, [space.as_str(), rule.as_str(), subject.as_str()]);
        self.table.live(&self.key, now).copied()
    }

    /// Stores a bucket that means nothing after `until`.
    pub fn put(&mut self, place: &Place, rule: &RuleId, subject: &Subject, bucket: Bucket, until: Micros, urgent: bool) {
        join(&mut self.key, [place.space.as_str(), rule.as_str(), subject.as_str()]);
        self.table.put(&self.key, bucket, until, urgent);
    }
}

/// The kept answers of a partition.
#[derive(Debug)]
pub struct Onces {
    table: Table<Kept>,
    key: Vec<u8>,
}

impl Onces {
    /// What is kept for a key of this home.
    pub fn get(&mut self, space: &SpaceId, key: &str, home: &str, now: Micros) -> Option<&Kept> {
        join(&mut self.key, [space.as_str(), key, home]);
        self.table.live(&self.key, now)
    }

    /// Keeps an answer.
    pub fn put(&mut self, place: &Place, key: &str, home: &str, kept: Kept, until: Micros, urgent: bool) {
        join(&mut self.key, [place.space.as_str(), key, home]);
        self.table.put(&self.key, kept, until, urgent);
    }
}

impl Value for Bucket {
    fn write(&self, out: &mut Vec<u8>) {
        for n in [self.debt, self.ts.get(), self.period] {
            out.extend_from_slice(&n.to_le_bytes());
        }
    }

    fn read(mut bytes: &[u8]) -> Option<Bucket> {
        let debt = u64::from_le_bytes(record::take(&mut bytes)?);
        let ts = record::take_micros(&mut bytes)?;
        let period = u64::from_le_bytes(record::take(&mut bytes)?);
        (bytes.is_empty() && period > 0).then_some(Bucket { debt, ts, period })
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn to_text(&self, until: Micros) -> String {
        format!("{} {} {} {until}", self.debt, self.ts, self.period)
    }
}

impl Value for Kept {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        out.extend_from_slice(self.reply.as_str().as_bytes());
    }

    fn read(mut bytes: &[u8]) -> Option<Kept> {
        let fingerprint = u128::from_le_bytes(record::take(&mut bytes)?);
        let reply = Reply::new(std::str::from_utf8(bytes).ok()?);
        Some(Kept { fingerprint, reply })
    }

    fn heap_bytes(&self) -> usize {
        self.reply.as_str().len()
    }

    fn to_text(&self, until: Micros) -> String {
        format!("{until} {:032x} {}", self.fingerprint, self.reply.as_str())
    }
}
