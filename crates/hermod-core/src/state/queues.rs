//! The queues of a partition.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::{Table, Value};
use crate::id::QueueId;
use crate::int::Micros;
use crate::key;
use crate::once::KEEP;
use crate::partition::{Place, joined};
use crate::queue::delivery::Number;
use crate::queue::line::Queue;
use crate::record::{Damaged, Family, Record};

/// The deliveries of a partition, by queue, and the keys of those that were finished.
#[derive(Debug)]
pub struct Queues {
    partition: u16,
    queues: HashMap<Box<[u8]>, Queue>,
    finished: Table<Finished>,
    replies: Table<Replied>,
    urgent: Vec<u8>,
    bytes: usize,
}

impl Queues {
    pub(super) fn new(partition: u16) -> Queues {
        let (finished, replies) = (Table::new(Family::Finished, partition), Table::new(Family::Reply, partition));
        Queues { partition, queues: HashMap::new(), finished, replies, urgent: Vec::new(), bytes: 0 }
    }

    /// Looks at a queue.
    pub(crate) fn get(&self, place: &Place, queue: &QueueId) -> Option<&Queue> {
        self.queues.get(&*joined([place.space.as_str(), queue.as_str()]))
    }

    /// Changes a queue, if anything was ever pushed to it here.
    pub(crate) fn change<A>(&mut self, place: &Place, queue: &QueueId, act: impl FnOnce(&mut Change<'_>) -> A) -> Option<A> {
        let name = joined([place.space.as_str(), queue.as_str()]);
        let queue = self.queues.get_mut(&*name)?;
        let (before, last) = (queue.bytes(), queue.last());
        let done = act(&mut Change { queue, finished: &mut self.finished, replies: &mut self.replies, name: &name });
        queue.take_urgent(last, &mut self.urgent);
        self.bytes = (self.bytes + queue.bytes()).saturating_sub(before);
        Some(done)
    }

    /// Changes a queue, which is made if it is not there.
    pub(crate) fn make<A>(&mut self, place: &Place, queue: &QueueId, act: impl FnOnce(&mut Change<'_>) -> A) -> A {
        let name = joined([place.space.as_str(), queue.as_str()]);
        if !self.queues.contains_key(&*name) {
            self.queues.insert((*name).into(), Queue::new(self.partition, &name));
        }
        self.change(place, queue, act).expect("it is there now")
    }

    /// Takes in a record of the journal.
    pub(super) fn load(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        let mut queue = |name: &[u8]| {
            if !self.queues.contains_key(name) {
                self.queues.insert(name.into(), Queue::new(self.partition, name));
            }
        };
        match record.family {
            Family::Finished => return self.finished.load(record),
            Family::Reply => return self.replies.load(record),
            Family::Numbers => {
                queue(record.key);
                let queue = self.queues.get_mut(record.key).ok_or(Damaged)?;
                return record.value.map_or(Ok(()), |value| queue.load_last(value));
            }
            Family::Worker | Family::Bound => {
                // `space NUL queue NUL name`.
                let mut nuls = record.key.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at);
                let at = nuls.nth(1).ok_or(Damaged)?;
                let (of_queue, rest) = record.key.split_at_checked(at).ok_or(Damaged)?;
                let name = rest.get(1..).and_then(|name| std::str::from_utf8(name).ok()).ok_or(Damaged)?;
                queue(of_queue);
                return self.queues.get_mut(of_queue).ok_or(Damaged)?.load_named(record.family, name, record.value);
            }
            _ => {}
        }
        // The number stands last, after a NUL.
        let at = record.key.len().checked_sub(9).ok_or(Damaged)?;
        let (name, tail) = record.key.split_at_checked(at).ok_or(Damaged)?;
        let number = tail.get(1..).and_then(|bytes| bytes.try_into().ok()).map(Number::from_be_bytes).ok_or(Damaged)?;
        queue(name);
        self.queues.get_mut(name).ok_or(Damaged)?.load(record.family, number, record.value)
    }

    /// All records are loaded.
    pub(super) fn loaded(&mut self) {
        for queue in self.queues.values_mut() {
            queue.settle_in();
            self.bytes += queue.bytes();
        }
    }

    pub(super) fn has_urgent(&self) -> bool {
        !self.urgent.is_empty() || self.finished.has_urgent() || self.replies.has_urgent()
    }

    pub(super) fn take_urgent(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.urgent);
        self.finished.take_urgent(out);
        self.replies.take_urgent(out);
    }

    pub(super) fn flush(&mut self, ended: Micros, max: usize, out: &mut Vec<u8>) -> usize {
        let done = self.finished.flush(ended, max, out);
        done + self.replies.flush(ended, max - done, out)
    }

    pub(super) fn sweep(&mut self, before: Micros, steps: usize, out: &mut Vec<u8>) -> usize {
        self.finished.sweep(before, steps, out) + self.replies.sweep(before, steps, out)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.finished.bytes() + self.replies.bytes()
    }

    pub(super) fn records(&self) -> usize {
        self.finished.len() + self.replies.len() + self.queues.values().map(Queue::len).sum::<usize>()
    }

    pub(super) fn dump(&self, out: &mut BTreeMap<String, (String, Micros)>) {
        for (name, queue) in &self.queues {
            let name = String::from_utf8_lossy(name);
            let (space, queue_name) = name.split_once('\0').unwrap_or_default();
            queue.dump(&format!("hm:{{{space}/{}}}:queue:{queue_name}:", self.partition), out);
        }
        self.finished.dump(out, key::finished_in);
        self.replies.dump(out, key::reply_in);
    }
}

/// A queue that is being changed.
pub(crate) struct Change<'a> {
    pub queue: &'a mut Queue,
    finished: &'a mut Table<Finished>,
    replies: &'a mut Table<Replied>,
    /// `space NUL queue`.
    name: &'a [u8],
}

impl Change<'_> {
    /// The delivery that was finished under this key.
    pub(crate) fn finished(&self, key: &str, now: Micros) -> Option<Number> {
        self.finished.live(&self.spell(key), now).map(|(finished, _)| finished.0)
    }

    /// A delivery is finished: it is forgotten, and its key is kept for a while.
    pub(crate) fn finish(&mut self, number: Number, now: Micros) {
        if let Some(key) = self.queue.forget(number) {
            self.finished.put(&self.spell(&key), Finished(number), now.plus(KEEP), true);
        }
    }

    /// The key is that of another delivery now.
    pub(crate) fn unfinish(&mut self, key: &str) {
        self.finished.delete(&self.spell(key), true);
    }

    /// Keeps what its holder replied to a delivery.
    pub(crate) fn keep_reply(&mut self, number: Number, is_json: bool, reply: &[u8], until: Micros) {
        let reply = Replied { is_json, reply: reply.into() };
        self.replies.put(&self.spell(&number.to_string()), reply, until, true);
    }

    /// Hands out what was replied to a delivery, once.
    pub(crate) fn take_reply(&mut self, number: Number, now: Micros) -> Option<Replied> {
        let key = self.spell(&number.to_string());
        let reply = self.replies.live(&key, now).map(|(reply, _)| reply.clone());
        if reply.is_some() {
            // Nobody waits for that: who was handed it may be handed it again after a crash.
            self.replies.delete(&key, false);
        }
        reply
    }

    fn spell(&self, key: &str) -> Vec<u8> {
        [self.name, &[0], key.as_bytes()].concat()
    }
}

/// The number of a delivery that was finished, kept for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished(pub Number);

impl Finished {
    /// As Redis holds it: `until u64, number u64`.
    pub fn unpack(mut rest: &[u8]) -> Option<(Finished, Micros)> {
        let until = crate::record::take_micros(&mut rest)?;
        Some((Finished::read(rest)?, until))
    }
}

impl Value for Finished {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Finished> {
        bytes.try_into().ok().map(u64::from_le_bytes).map(Finished)
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn to_text(&self, until: Micros) -> String {
        format!("{until} {}", self.0)
    }
}

/// What its holder replied to a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replied {
    /// Whether that is JSON; otherwise it is bytes.
    pub is_json: bool,
    /// What.
    pub reply: Box<[u8]>,
}

impl Replied {
    /// As Redis holds it: `until u64, kind u8`, and the reply.
    pub fn unpack(mut rest: &[u8]) -> Option<(Replied, Micros)> {
        let until = crate::record::take_micros(&mut rest)?;
        Some((Replied::read(rest)?, until))
    }
}

impl Value for Replied {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(if self.is_json { 1 } else { 2 });
        out.extend_from_slice(&self.reply);
    }

    fn read(bytes: &[u8]) -> Option<Replied> {
        let (kind, reply) = bytes.split_first()?;
        Some(Replied { is_json: *kind == 1, reply: reply.into() })
    }

    fn heap_bytes(&self) -> usize {
        self.reply.len()
    }

    fn to_text(&self, until: Micros) -> String {
        format!("{until} {} {}", self.is_json, String::from_utf8_lossy(&self.reply))
    }
}
