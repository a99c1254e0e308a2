//! The deliveries of one queue in one partition. Twin of `line.lua`.
//!
//! Everything that is not finished stands in exactly one of four ordered sets: `due` (can be claimed when its
//! time has come), `held` (leased), `rest` (its recipient's turn has not come), `dead`. Of a recipient only the
//! first is in `due` or `held`; the others wait in its line and move up when that one is finished. So a claim
//! looks at nothing that it cannot have, however many wait behind.
//!
//! Sets are ordered by (time, number), and a number grows with every insertion: that is the order of the queue.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::delivery::{Meta, Number, Token, read_body, without_key};
use super::owners::Owners;
use crate::int::Micros;
use crate::record::{self, Damaged, Family};

/// The attempts at a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tried {
    pub attempts: u16,
    /// The last one that was given out.
    pub token: u64,
    /// The end of the lease; zero: it is not held.
    pub until: Micros,
    /// Its recipient waits for it, whatever else is due.
    pub is_blocking: bool,
    /// Since when it is dead; zero: it is not.
    pub died: Micros,
}

/// One delivery.
#[derive(Debug)]
pub(crate) struct Slot {
    /// As `delivery.rs` writes it.
    pub body: Box<[u8]>,
    /// When it can be claimed: its due time, or that of its next attempt.
    pub at: Micros,
    pub tried: Option<Box<Tried>>,
}

impl Slot {
    pub(crate) fn meta(&self) -> (Meta<'_>, &[u8]) {
        read_body(&self.body).expect("bodies are written by us and were checked when they were loaded")
    }

    pub(crate) fn attempts(&self) -> u16 {
        self.tried.as_ref().map_or(0, |tried| tried.attempts)
    }

    /// When its lease ends, if it is held.
    pub(crate) fn until(&self) -> Option<Micros> {
        self.tried.as_ref().map(|tried| tried.until).filter(|until| *until > Micros::ZERO)
    }

    pub(crate) fn died(&self) -> Option<Micros> {
        self.tried.as_ref().map(|tried| tried.died).filter(|died| *died > Micros::ZERO)
    }

    fn is_blocking(&self) -> bool {
        self.tried.as_ref().is_some_and(|tried| tried.is_blocking)
    }

    pub(crate) fn tried(&mut self) -> &mut Tried {
        self.tried.get_or_insert_default()
    }
}

/// The deliveries of one recipient.
#[derive(Debug)]
struct Line {
    head: Number,
    /// Whether another that is due earlier may take the head's place: not while it is held or blocks.
    is_fixed: bool,
    wait: BTreeSet<(Micros, Number)>,
}

/// What a delivery takes beyond its body: its slot, its place in a set, and the room both keep free.
const SLOT_BYTES: usize = 128;
const LINE_BYTES: usize = 96;

/// The deliveries of one queue in one partition.
#[derive(Debug)]
pub(crate) struct Queue {
    partition: u16,
    /// `space NUL queue`, what the keys of its records begin with.
    name: Box<[u8]>,
    /// Scratch: a record's key, the name, a NUL and a number.
    key: Vec<u8>,
    /// The last number that was given out, to a delivery or as a token.
    last: u64,
    /// The greatest that was seen of it, in this step.
    floor: u64,
    pub due: BTreeSet<(Micros, Number)>,
    pub held: BTreeSet<(Micros, Number)>,
    pub rest: BTreeSet<(Micros, Number)>,
    pub dead: BTreeSet<(Micros, Number)>,
    slots: HashMap<Number, Slot>,
    lines: HashMap<Box<str>, Line>,
    keys: HashMap<Box<str>, Number>,
    pub tags: BTreeSet<(Box<str>, Number)>,
    urgent: Vec<u8>,
    bytes: usize,
    /// Of a sticky queue.
    pub owners: Owners,
}

impl Queue {
    pub(crate) fn new(partition: u16, name: &[u8]) -> Queue {
        Queue {
            partition,
            name: name.into(),
            key: [name, &[0; 9]].concat(),
            last: 0,
            floor: 0,
            due: BTreeSet::new(),
            held: BTreeSet::new(),
            rest: BTreeSet::new(),
            dead: BTreeSet::new(),
            slots: HashMap::new(),
            lines: HashMap::new(),
            keys: HashMap::new(),
            tags: BTreeSet::new(),
            urgent: Vec::new(),
            bytes: 0,
            owners: Owners::default(),
        }
    }

    /// The next number: greater than all before, and than the time, so that it grows even if it was lost.
    pub(crate) fn number(&mut self, now: Micros) -> u64 {
        self.last = now.get().max(self.last.max(self.floor) + 1);
        self.last
    }

    /// No number that is given out from now on is as small.
    pub(super) fn raise(&mut self, floor: u64) {
        self.floor = floor;
    }

    pub(crate) fn slot(&self, number: Number) -> Option<&Slot> {
        self.slots.get(&number)
    }

    /// The delivery of this key, as [`Meta::known_by`] spells it.
    pub(crate) fn keyed(&self, key: &str) -> Option<Number> {
        self.keys.get(key).copied()
    }

    /// Stores a delivery, in no set yet.
    pub(crate) fn store(&mut self, number: Number, body: Box<[u8]>) {
        let (meta, _) = read_body(&body).expect("a body that was just written");
        let at = meta.due;
        if let Some(key) = meta.known_by() {
            self.keys.insert(key, number);
        }
        for tag in &meta.tags {
            self.tags.insert(((*tag).into(), number));
        }
        self.bytes += body.len() + SLOT_BYTES;
        self.write(Family::Body, number, Some(&|out| out.extend_from_slice(&body)));
        self.slots.insert(number, Slot { body, at, tried: None });
    }

    /// Puts another body in the place of a delivery's, with what it is found by.
    pub(crate) fn rewrite(&mut self, number: Number, body: Box<[u8]>) {
        let Some(old) = self.slots.remove(&number) else { return };
        self.unfind(number, &old);
        self.store(number, body);
        if let Some(slot) = self.slots.get_mut(&number) {
            (slot.tried, slot.at) = (old.tried, old.at);
        }
    }

    /// Another delivery takes over the key of this one.
    pub(crate) fn unkey(&mut self, number: Number) {
        if let Some(body) = self.slots.get(&number).and_then(|slot| without_key(&slot.body)) {
            self.rewrite(number, body);
        }
    }

    /// Takes away what a delivery was found by; its key.
    fn unfind(&mut self, number: Number, slot: &Slot) -> Option<Box<str>> {
        let (meta, _) = slot.meta();
        let key = meta.known_by();
        if let Some(key) = &key {
            self.keys.remove(key);
        }
        for tag in meta.tags {
            self.tags.remove(&(tag.into(), number));
        }
        self.bytes -= slot.body.len() + SLOT_BYTES;
        key
    }

    /// Forgets a delivery that is in no set any more; the key it was known by.
    pub(crate) fn forget(&mut self, number: Number) -> Option<Box<str>> {
        let slot = self.slots.remove(&number)?;
        let key = self.unfind(number, &slot);
        self.write(Family::Body, number, None);
        if slot.tried.is_some() {
            self.write(Family::Tried, number, None);
        }
        key
    }

    /// Puts a delivery where it can be claimed from `at` on, or behind its recipient's first.
    pub(crate) fn enter(&mut self, number: Number, at: Micros) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        slot.at = at;
        let (meta, _) = slot.meta();
        let to: Box<str> = meta.to.into();
        if to.is_empty() {
            self.put_due(at, number, &to);
            return;
        }
        let is_blocking = slot.is_blocking();
        let Some(line) = self.lines.get(&to) else {
            self.bytes += to.len() + LINE_BYTES;
            self.lines.insert(to.clone(), Line { head: number, is_fixed: is_blocking, wait: BTreeSet::new() });
            self.put_due(at, number, &to);
            return;
        };
        let (head, is_fixed) = (line.head, line.is_fixed);
        let head_at = self.slots.get(&head).map_or(Micros::ZERO, |slot| slot.at);
        let waiting = if !is_fixed && (at, number) < (head_at, head) {
            self.drop_due(head_at, head, &to);
            self.put_due(at, number, &to);
            (head_at, head)
        } else {
            (at, number)
        };
        self.rest.insert(waiting);
        if let Some(line) = self.lines.get_mut(&to) {
            line.wait.insert(waiting);
            if waiting.1 == head {
                (line.head, line.is_fixed) = (number, is_blocking);
            }
        }
    }

    /// The first of a recipient is finished, or goes elsewhere: the next moves up.
    pub(crate) fn leave(&mut self, to: &str) {
        let Some(line) = self.lines.get_mut(to) else { return };
        let Some(next) = line.wait.pop_first() else {
            self.bytes -= to.len() + LINE_BYTES;
            self.lines.remove(to);
            self.set_idle(to, true);
            return;
        };
        (line.head, line.is_fixed) = (next.1, false);
        self.rest.remove(&next);
        self.put_due(next.0, next.1, to);
    }

    /// Whether there is anything for this recipient.
    pub(super) fn has_line(&self, to: &str) -> bool {
        self.lines.contains_key(to)
    }

    /// The first of a recipient, and how many there are in all.
    pub(crate) fn line(&self, to: &str) -> Option<(Number, usize)> {
        self.lines.get(to).map(|line| (line.head, 1 + line.wait.len()))
    }

    /// The first of a recipient, unless it is held.
    pub(super) fn waiting_head(&self, to: &str) -> Option<(Micros, Number)> {
        let head = self.lines.get(to)?.head;
        self.slots.get(&head).filter(|slot| slot.until().is_none()).map(|slot| (slot.at, head))
    }

    /// Takes a delivery out of its set and its line, whichever they are.
    pub(crate) fn take_out(&mut self, number: Number) {
        let Some(slot) = self.slots.get(&number) else { return };
        if let Some(died) = slot.died() {
            self.dead.remove(&(died, number));
            return;
        }
        let at = slot.at;
        let to: Box<str> = slot.meta().0.to.into();
        if let Some(until) = slot.until() {
            self.drop_held(until, number, &to);
        } else if !self.drop_due(at, number, &to) {
            self.rest.remove(&(at, number));
            if let Some(line) = self.lines.get_mut(&to) {
                line.wait.remove(&(at, number));
            }
            return;
        }
        self.leave(&to);
    }

    /// Leases a delivery that is in `due`.
    pub(crate) fn hold(&mut self, number: Number, until: Micros, now: Micros) -> Option<(Token, u16)> {
        let token = self.number(now);
        let slot = self.slots.get_mut(&number)?;
        let at = slot.at;
        let tried = slot.tried();
        (tried.token, tried.until, tried.is_blocking) = (token, until, false);
        tried.attempts = tried.attempts.saturating_add(1);
        let attempt = tried.attempts;
        let to: Box<str> = slot.meta().0.to.into();
        if let Some(line) = self.lines.get_mut(&to) {
            line.is_fixed = true;
        }
        self.drop_due(at, number, &to);
        self.put_held(until, number, &to);
        self.write_tried(number);
        Some((Token(token), attempt))
    }

    /// The last attempt was none.
    pub(crate) fn unattempt(&mut self, number: Number) {
        if let Some(slot) = self.slots.get_mut(&number) {
            let tried = slot.tried();
            tried.attempts = tried.attempts.saturating_sub(1);
        }
    }

    /// A lease that is over is forgotten, and nobody waits for the delivery any more.
    pub(crate) fn unhold(&mut self, number: Number) {
        if let Some(tried) = self.slots.get_mut(&number).and_then(|slot| slot.tried.as_mut()) {
            (tried.until, tried.is_blocking) = (Micros::ZERO, false);
        }
    }

    /// Moves the end of a lease.
    pub(crate) fn extend(&mut self, number: Number, until: Micros) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let was = std::mem::replace(&mut slot.tried().until, until);
        self.held.remove(&(was, number));
        self.held.insert((until, number));
        self.write_tried(number);
    }

    /// Ends a lease: the delivery can be claimed again from `at` on. If it blocks, its recipient waits for it.
    pub(crate) fn give_back(&mut self, number: Number, at: Micros, blocks: bool) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Some(until) = slot.until() else { return };
        let to: Box<str> = slot.meta().0.to.into();
        let blocks = blocks && !to.is_empty();
        let tried = slot.tried();
        (tried.until, tried.is_blocking) = (Micros::ZERO, blocks);
        slot.at = at;
        self.drop_held(until, number, &to);
        if blocks {
            self.put_due(at, number, &to);
        } else {
            self.leave(&to);
            self.enter(number, at);
        }
        self.write_tried(number);
    }

    /// A delivery that is held has failed for good.
    pub(crate) fn bury(&mut self, number: Number, now: Micros) {
        self.take_out(number);
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let tried = slot.tried();
        (tried.until, tried.died, tried.is_blocking) = (Micros::ZERO, now, false);
        self.dead.insert((now, number));
        self.write_tried(number);
    }

    /// When a delivery can be claimed next, and when a lease ends next.
    pub(crate) fn next(&self) -> (Option<Micros>, Option<Micros>) {
        let first = |set: &BTreeSet<(Micros, Number)>| set.first().map(|(time, _)| *time);
        (first(&self.due), first(&self.held))
    }

    /// When a delivery can be claimed next, for whoever may claim all; in a sticky queue nobody does.
    pub(crate) fn next_told(&self) -> Option<Micros> {
        self.next().0.filter(|_| !self.owners.is_sticky)
    }

    /// How many deliveries there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.owners_bytes()
    }

    fn write(&mut self, family: Family, number: Number, value: Option<record::Write<'_>>) {
        if let Some(tail) = self.key.last_chunk_mut() {
            *tail = number.to_be_bytes();
        }
        record::write(&mut self.urgent, family, self.partition, &self.key, value);
    }

    /// Writes the record of a worker or a recipient.
    pub(super) fn write_named(&mut self, family: Family, name: &str, value: Option<record::Write<'_>>) {
        let key = [&*self.name, &[0], name.as_bytes()].concat();
        record::write(&mut self.urgent, family, self.partition, &key, value);
    }

    pub(crate) fn write_tried(&mut self, number: Number) {
        let Some(slot) = self.slots.get(&number) else { return };
        let Some(tried) = slot.tried.as_deref().copied() else { return };
        let at = slot.at;
        self.write(Family::Tried, number, Some(&|out| write_tried(out, &tried, at)));
    }

    /// Forgets the attempts at a delivery.
    pub(crate) fn untry(&mut self, number: Number) {
        if self.slots.get_mut(&number).and_then(|slot| slot.tried.take()).is_some() {
            self.write(Family::Tried, number, None);
        }
    }

    /// Moves the bytes of what changed to the end of `out`, with the last number if `before` was another.
    pub(crate) fn take_urgent(&mut self, before: u64, out: &mut Vec<u8>) {
        if self.last != before {
            let write = |out: &mut Vec<u8>| {
                record::put(out, [self.last]);
                self.write_turn(out);
            };
            record::write(out, Family::Numbers, self.partition, &self.name, Some(&write));
        }
        out.append(&mut self.urgent);
    }

    /// The last number that was given out.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Takes in a record of the journal. Sets and lines are made by [`Queue::settle_in`] when all are there.
    pub(crate) fn load(&mut self, family: Family, number: Number, value: Option<&[u8]>) -> Result<(), Damaged> {
        match (family, value) {
            (Family::Body, Some(body)) => {
                read_body(body).ok_or(Damaged)?;
                let slot = self.slots.entry(number).or_insert_with(|| Slot { body: Box::default(), at: Micros::ZERO, tried: None });
                slot.body = body.into();
            }
            (Family::Body, None) => drop(self.slots.remove(&number)),
            (Family::Tried, None) => {
                if let Some(slot) = self.slots.get_mut(&number) {
                    slot.tried = None;
                }
            }
            (Family::Tried, Some(mut bytes)) => {
                let (tried, at) = read_tried(&mut bytes).ok_or(Damaged)?;
                // A snapshot may hold what was tried before the body itself.
                let slot = self.slots.entry(number).or_insert_with(|| Slot { body: Box::default(), at, tried: None });
                (slot.tried, slot.at) = (Some(Box::new(tried)), at);
            }
            _ => return Err(Damaged),
        }
        Ok(())
    }

    pub(crate) fn load_last(&mut self, value: &[u8]) -> Result<(), Damaged> {
        let mut rest = value;
        self.last = record::take_number(&mut rest).ok_or(Damaged)?;
        self.load_turn(rest)
    }

    /// Makes the sets, the lines and the indexes from the deliveries alone.
    pub(crate) fn settle_in(&mut self) {
        self.slots.retain(|_, slot| !slot.body.is_empty());
        let mut order: Vec<(bool, Micros, Number)> = Vec::with_capacity(self.slots.len());
        for (number, slot) in &mut self.slots {
            let (meta, _) = read_body(&slot.body).expect("bodies were checked when they were loaded");
            if slot.tried.is_none() {
                slot.at = meta.due;
            }
            if let Some(key) = meta.known_by() {
                self.keys.insert(key, *number);
            }
            for tag in &meta.tags {
                self.tags.insert(((*tag).into(), *number));
            }
            self.bytes += slot.body.len() + SLOT_BYTES;
            let is_first = slot.until().is_some() || slot.is_blocking();
            match slot.died() {
                Some(died) => drop(self.dead.insert((died, *number))),
                None => order.push((!is_first, slot.at, *number)),
            }
        }
        self.owners.is_loading = true;
        // Those that are held or block are the first of their lines; of the others the earliest is.
        order.sort_unstable();
        for (_, at, number) in order {
            let until = self.slots.get(&number).and_then(Slot::until);
            self.enter(number, at);
            let Some(until) = until else { continue };
            let to: Box<str> = self.slots.get(&number).map(|slot| slot.meta().0.to.into()).unwrap_or_default();
            self.drop_due(at, number, &to);
            self.put_held(until, number, &to);
            if let Some(line) = self.lines.get_mut(&to) {
                line.is_fixed = true;
            }
        }
        self.owners_loaded();
    }

    /// Everything as Redis would hold it. `base` is what its keys begin with.
    pub(crate) fn dump(&self, base: &str, out: &mut BTreeMap<String, (String, Micros)>) {
        let mut put = |name: String, text: String| drop(out.insert(name, (text, Micros::MAX)));
        self.dump_owners(base, &mut put);
        put(format!("{base}n"), self.last.to_string());
        for (set, members) in [("due:*", &self.due), ("held", &self.held), ("rest", &self.rest), ("dead", &self.dead)] {
            for (time, number) in members {
                put(format!("{base}{set} {number}"), time.to_string());
            }
        }
        for (number, slot) in &self.slots {
            put(format!("{base}body {number}"), hex(&slot.body));
            if let Some(tried) = &slot.tried {
                let meta = slot.body.get(2..slot.body.len() - slot.meta().1.len()).unwrap_or_default();
                put(format!("{base}tried {number}"), tried_text(tried, slot.at, meta));
            }
        }
        for (to, line) in &self.lines {
            let flag = match (line.is_fixed, self.slots.get(&line.head).is_some_and(Slot::is_blocking)) {
                (false, _) => 0,
                (true, false) => 1,
                (true, true) => 2,
            };
            put(format!("{base}line {to}"), format!("{} {flag}", line.head));
            for (at, number) in &line.wait {
                put(format!("{base}wait:{to} {number}"), at.to_string());
            }
        }
        for (key, number) in &self.keys {
            put(format!("{base}key {key}"), number.to_string());
        }
        for (tag, number) in &self.tags {
            put(format!("{base}tag:{tag} {number}"), String::from("0"));
        }
    }
}

/// What `line.lua` writes of the attempts, before what is known of the delivery.
const TRIED_SIZE: usize = 27;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tried_text(tried: &Tried, at: Micros, meta: &[u8]) -> String {
    format!("{} {} {} {at} {} {}", tried.attempts, tried.token, tried.until, u8::from(tried.is_blocking), hex(meta))
}

fn write_tried(out: &mut Vec<u8>, tried: &Tried, at: Micros) {
    out.extend_from_slice(&tried.attempts.to_le_bytes());
    for number in [tried.token, tried.until.get(), at.get()] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(u8::from(tried.is_blocking));
    out.extend_from_slice(&tried.died.get().to_le_bytes());
}

fn read_tried(rest: &mut &[u8]) -> Option<(Tried, Micros)> {
    let attempts = u16::from_le_bytes(record::take(rest)?);
    let token = u64::from_le_bytes(record::take(rest)?);
    let (until, at) = (record::take_micros(rest)?, record::take_micros(rest)?);
    let [blocking] = record::take(rest)?;
    // On Redis the set of the dead says this.
    let died = record::take_micros(rest).unwrap_or_default();
    Some((Tried { attempts, token, until, is_blocking: blocking == 1, died }, at))
}

/// What a book says of numbers and turns, as a dump shows it: `line.lua` says what is where. When the workers are looked after again
/// spares others the look, and is not shown.
pub(crate) fn shown_numbers(base: &str, value: &[u8]) -> Vec<(String, String)> {
    let (fixed, turn) = value.split_at_checked(24).unwrap_or_default();
    let last = fixed.first_chunk().copied().map_or(0, u64::from_le_bytes);
    let mut shown = vec![(format!("{base}n"), last.to_string())];
    if !turn.is_empty() {
        shown.push((format!("{base}turn"), hex(turn)));
    }
    shown
}

/// A field of Redis as a dump shows it: `line.lua` says what is where.
pub fn redis_text(name: &str, value: &[u8]) -> String {
    let number = |bytes: &[u8]| bytes.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
    match name {
        "tried" => {
            let (mut fixed, meta) = value.split_at_checked(TRIED_SIZE).unwrap_or_default();
            read_tried(&mut fixed).map_or_else(|| hex(value), |(tried, at)| tried_text(&tried, at, meta))
        }
        "line" => format!("{} {}", number(value), value.get(8).copied().unwrap_or(0)),
        "key" => number(value).to_string(),
        _ => hex(value),
    }
}
