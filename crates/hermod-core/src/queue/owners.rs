//! Who owns which recipient of a sticky queue, in one partition. Twin of `owners.lua`.
//!
//! Every partition knows all workers of the queue, so that it decides alone and in one step who has a recipient: nobody
//! asks first and acts later. Workers stand in a ring, each at points that are hashed from its name and the
//! partition; a recipient without an owner goes to the next point, and stays there while that worker lives. What a recipient has in
//! `due` is also in its owner's `due`, and what is held also in its owner's `held`, so that a claim looks at what is its own, and a takeover at
//! what is another's. Owner `""` is nobody: what is there is parked.
//!
//! A worker that is gone, drains or has begun anew stands in `leaving` until what it has is moved, in bounded steps.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::binding::{Binding, Worker};
use super::delivery::Number;
use super::line::Queue;
use super::worker::Why;
use crate::int::Micros;
use crate::limit::limited::{take_text, write_text};
use crate::record::{self, Damaged, Family};

/// A partition knows so many workers of a queue.
pub const WORKERS_MAX: usize = 1_000;
/// A worker may have so many turns where others have one.
pub const WEIGHT_MAX: u8 = 16;
/// So many workers are found silent in one step.
const EXPIRE_MAX: usize = 50;
/// So many recipients are forgotten in one step.
pub(super) const TRIM_MAX: usize = 50;
/// So many changes of its owner are remembered of a recipient.
const CHANGES_MAX: usize = 4;
/// What a recipient's owner takes in memory beyond its names, and a worker.
const BINDING_BYTES: usize = 160;
const WORKER_BYTES: usize = 256;

/// What an operation must know of its queue, and of what was seen of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Each recipient has a worker of its own.
    pub is_sticky: bool,
    /// The greatest number that was ever seen of this queue: a store that fell back goes on above it.
    pub floor: u64,
}

impl Terms {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_sticky));
        record::put(out, [self.floor]);
    }
}

/// What a step did to who has whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// How many workers were found to be silent, or not to have come back.
    pub lost: u16,
    /// How many recipients have another owner than before, or none, or were parked and have one now.
    pub moved: u16,
}

/// The owners of a queue's recipients in one partition.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    pub is_sticky: bool,
    /// The time of this step.
    pub(super) now: Micros,
    /// Records are being loaded: everything is where it was, and nobody is given anything.
    pub is_loading: bool,
    pub workers: BTreeMap<Box<str>, Worker>,
    ends: BTreeSet<(Micros, Box<str>)>,
    pub(super) ring: BTreeSet<(u64, Box<str>)>,
    /// The point that was used last.
    turn: Option<(u64, Box<str>)>,
    pub(super) leaving: BTreeSet<Box<str>>,
    bound: HashMap<Box<str>, Binding>,
    /// Recipients for whom there was nothing, and since when. Whether there is something again is looked at when they are to be forgotten.
    pub(super) idle: BTreeSet<(Micros, Box<str>)>,
    idle_since: HashMap<Box<str>, Micros>,
    due: BTreeMap<Box<str>, BTreeSet<(Micros, Number)>>,
    held: BTreeMap<Box<str>, BTreeSet<Number>>,
    /// To whom something was given in this step, and the earliest time of it.
    given: BTreeMap<Box<str>, Micros>,
    /// What was done in this step.
    pub(super) turnover: Turnover,
    /// What is parked is given out.
    pub(super) is_adopting: bool,
    bytes: usize,
}

impl Queue {
    /// Begins a step.
    pub(crate) fn agree(&mut self, terms: Terms, now: Micros) {
        self.raise(terms.floor);
        (self.owners.is_sticky, self.owners.now) = (terms.is_sticky, now);
        self.owners.given.clear();
        self.owners.turnover = Turnover::default();
    }

    /// What was done in this step to who has whom.
    pub(crate) fn turnover(&self) -> Turnover {
        self.owners.turnover
    }

    fn is_sticky_for(&self, to: &str) -> bool {
        self.owners.is_sticky && !to.is_empty()
    }

    /// Who has this recipient; empty: nobody.
    pub(crate) fn owner_of(&self, to: &str) -> &str {
        self.owners.bound.get(to).map_or("", Binding::owner)
    }

    pub(crate) fn binding(&self, to: &str) -> Option<&Binding> {
        self.owners.bound.get(to)
    }

    /// Some recipients of whose owner something is known, in any order.
    pub(super) fn bound(&self, most: usize) -> Vec<Box<str>> {
        self.owners.bound.keys().take(most).cloned().collect()
    }

    /// A worker that is not gone.
    pub(crate) fn worker(&self, name: &str) -> Option<&Worker> {
        self.owners.workers.get(name).filter(|worker| worker.gone.is_none())
    }

    fn may_have_more(&self, name: &str) -> bool {
        self.worker(name).is_some_and(|worker| !worker.is_draining)
    }

    /// The next worker's turn.
    fn next_worker(&mut self) -> Option<Box<str>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let owners = &mut self.owners;
        let after = owners.turn.as_ref().and_then(|turn| owners.ring.range((Excluded(turn), Unbounded)).next());
        let point = after.or_else(|| owners.ring.first())?.clone();
        let name = point.1.clone();
        owners.turn = Some(point);
        Some(name)
    }

    /// Who is to have this recipient from here on, where one delivery ends and the next begins.
    fn route(&mut self, to: &str) -> Box<str> {
        let (owner, pin): (Box<str>, Box<str>) =
            self.owners.bound.get(to).map(|binding| (binding.owner().into(), binding.pin.clone())).unwrap_or_default();
        if !pin.is_empty() && self.may_have_more(&pin) {
            if owner != pin {
                self.bind(to, &pin, Why::Pinned);
            }
            return pin;
        }
        if self.may_have_more(&owner) {
            return owner;
        }
        let is_new = self.owners.bound.get(to).is_none_or(|binding| binding.changes.is_empty());
        let why = match self.owners.workers.get(&owner) {
            _ if is_new => Why::First,
            _ if owner.is_empty() => Why::Adopted,
            Some(worker) => worker.gone.unwrap_or(Why::Drained),
            None => Why::Gone,
        };
        let next = self.next_worker().unwrap_or_default();
        if next != owner {
            self.bind(to, &next, why);
        }
        next
    }

    fn bind(&mut self, to: &str, owner: &str, why: Why) {
        let now = self.owners.now;
        let epoch = self.number(now);
        self.owners.turnover.moved += u16::from(why != Why::First || self.owners.is_adopting);
        let mut binding = self.owners.bound.get(to).cloned().unwrap_or_default();
        binding.epoch = epoch;
        binding.changes.insert(0, (now, why, owner.into()));
        binding.changes.truncate(CHANGES_MAX);
        self.keep_binding(to, Some(binding));
    }

    pub(super) fn keep_binding(&mut self, to: &str, binding: Option<Binding>) {
        let size = to.len() + BINDING_BYTES;
        if self.owners.bound.remove(to).is_none() {
            self.owners.bytes += size;
        }
        match binding {
            Some(binding) => drop(self.owners.bound.insert(to.into(), binding)),
            None => self.owners.bytes -= size.min(self.owners.bytes),
        }
        self.write_binding(to);
    }

    pub(super) fn write_binding(&mut self, to: &str) {
        let idle = self.owners.idle_since.get(to).copied().unwrap_or_default();
        let Some(binding) = self.owners.bound.get(to).cloned() else { return self.write_named(Family::Bound, to, None) };
        let write = |out: &mut Vec<u8>| {
            record::put(out, [idle.get()]);
            binding.write(out);
        };
        self.write_named(Family::Bound, to, Some(&write));
    }

    pub(super) fn keep_worker(&mut self, name: &str, worker: Option<Worker>) {
        let size = name.len() + WORKER_BYTES;
        if let Some(old) = self.owners.workers.remove(name) {
            self.owners.bytes -= size.min(self.owners.bytes);
            self.owners.ends.remove(&(old.until, name.into()));
            for point in old.points {
                self.owners.ring.remove(&(point, name.into()));
            }
            self.owners.leaving.remove(name);
        }
        if let Some(worker) = &worker {
            self.owners.bytes += size;
            self.stand(name, worker);
            self.owners.workers.insert(name.into(), worker.clone());
        }
        match worker {
            Some(worker) => self.write_named(Family::Worker, name, Some(&|out| worker.write(out))),
            None => self.write_named(Family::Worker, name, None),
        }
    }

    /// Puts a worker where it is found.
    fn stand(&mut self, name: &str, worker: &Worker) {
        let owners = &mut self.owners;
        if worker.gone.is_none() {
            owners.ends.insert((worker.until, name.into()));
            if !worker.is_draining {
                owners.ring.extend(worker.points.iter().map(|point| (*point, Box::from(name))));
            }
        }
        if worker.is_leaving {
            owners.leaving.insert(name.into());
        }
    }

    /// A delivery is the first of its recipient, and waits for its time.
    pub(super) fn put_due(&mut self, at: Micros, number: Number, to: &str) {
        self.due.insert((at, number));
        if !self.is_sticky_for(to) {
            return;
        }
        let owner = if self.owners.is_loading { self.owner_of(to).into() } else { self.route(to) };
        let given = self.owners.given.entry(owner.clone()).or_insert(at);
        *given = at.min(*given);
        self.owners.due.entry(owner).or_default().insert((at, number));
    }

    /// It does not any more; whether it did.
    pub(super) fn drop_due(&mut self, at: Micros, number: Number, to: &str) -> bool {
        let was = self.due.remove(&(at, number));
        if was && self.is_sticky_for(to) {
            let owner = self.owner_of(to).to_owned();
            remove(&mut self.owners.due, &owner, &(at, number));
        }
        was
    }

    /// It is held until then.
    pub(super) fn put_held(&mut self, until: Micros, number: Number, to: &str) {
        self.held.insert((until, number));
        if self.is_sticky_for(to) {
            let owner = self.owner_of(to).into();
            self.owners.held.entry(owner).or_default().insert(number);
        }
    }

    /// It is not any more.
    pub(super) fn drop_held(&mut self, until: Micros, number: Number, to: &str) {
        self.held.remove(&(until, number));
        if self.is_sticky_for(to) {
            let owner = self.owner_of(to).to_owned();
            remove(&mut self.owners.held, &owner, &number);
        }
    }

    /// There is nothing for this recipient any more, or there is again.
    pub(super) fn set_idle(&mut self, to: &str, is_idle: bool) {
        if !self.is_sticky_for(to) || self.owners.is_loading {
            return;
        }
        if let Some(was) = self.owners.idle_since.remove(to) {
            self.owners.idle.remove(&(was, to.into()));
        }
        let is_bound = self.owners.bound.get(to).is_some_and(|binding| binding.pin.is_empty());
        let since = self.owners.now;
        if is_idle && is_bound {
            self.owners.idle_since.insert(to.into(), since);
            self.owners.idle.insert((since, to.into()));
            self.write_binding(to);
        }
    }

    /// Finds those whose lease is over.
    pub(crate) fn expire(&mut self) {
        if !self.owners.is_sticky {
            return;
        }
        let ended = self.owners.ends.range(..=(self.owners.now, Box::from(LAST))).take(EXPIRE_MAX);
        let ended: Vec<Box<str>> = ended.map(|(_, name)| name.clone()).collect();
        for name in ended {
            let is_closed = self.owners.workers.get(&name).is_some_and(|worker| worker.is_closed);
            self.dismiss(&name, if is_closed { Why::Closed } else { Why::Silent });
            self.owners.turnover.lost += 1;
        }
    }

    /// A worker is gone.
    pub(crate) fn dismiss(&mut self, name: &str, why: Why) {
        if let Some(worker) = self.worker(name).cloned() {
            self.keep_worker(name, Some(Worker { gone: Some(why), is_leaving: true, ..worker }));
        }
    }

    /// What a worker has that waits, the earliest first.
    pub(crate) fn due_of(&self, name: &str) -> impl Iterator<Item = (Micros, Number)> {
        self.owners.due.get(name).into_iter().flatten().copied()
    }

    /// What a worker holds.
    pub(crate) fn held_by(&self, name: &str) -> impl Iterator<Item = Number> {
        self.owners.held.get(name).into_iter().flatten().copied()
    }

    /// When a worker's lease ends next.
    pub(crate) fn next_worker_end(&self) -> Option<Micros> {
        self.owners.ends.first().map(|(end, _)| *end)
    }

    /// How many recipients wait for a worker.
    pub(crate) fn parked(&self) -> usize {
        self.owners.due.get("").map_or(0, BTreeSet::len)
    }

    /// For whom something may have become due earlier, and when.
    pub(crate) fn woken(&self) -> Vec<Woken> {
        let first = |owner: &str| self.due_of(owner).next().map(|(at, _)| at);
        let given = self.owners.given.iter().filter(|(owner, _)| !owner.is_empty());
        given.filter_map(|(owner, earliest)| first(owner).filter(|at| at >= earliest).map(|at| (owner.clone(), at))).collect()
    }

    /// Takes in a record of the journal.
    pub(crate) fn load_named(&mut self, family: Family, name: &str, value: Option<&[u8]>) -> Result<(), Damaged> {
        match (family, value) {
            (Family::Worker, None) => drop(self.owners.workers.remove(name)),
            (Family::Worker, Some(mut bytes)) => {
                drop(self.owners.workers.insert(name.into(), Worker::read(&mut bytes).ok_or(Damaged)?));
            }
            (Family::Bound, None) => {
                self.owners.bound.remove(name);
                self.owners.idle_since.remove(name);
            }
            (Family::Bound, Some(mut bytes)) => {
                let idle = record::take_micros(&mut bytes).ok_or(Damaged)?;
                self.owners.bound.insert(name.into(), Binding::read(&mut bytes).ok_or(Damaged)?);
                self.owners.idle_since.insert(name.into(), idle);
            }
            _ => return Err(Damaged),
        }
        Ok(())
    }

    /// What is behind the last number in its record: that the queue is sticky, and whose turn it was.
    pub(super) fn load_turn(&mut self, rest: &[u8]) -> Result<(), Damaged> {
        let Some((sticky, mut rest)) = rest.split_first() else { return Ok(()) };
        self.owners.is_sticky = *sticky == 1;
        self.owners.turn = match rest {
            [] => None,
            _ => {
                let point = record::take(&mut rest).map(u64::from_be_bytes).ok_or(Damaged)?;
                Some((point, std::str::from_utf8(rest).map_err(|_| Damaged)?.into()))
            }
        };
        Ok(())
    }

    pub(super) fn write_turn(&self, out: &mut Vec<u8>) {
        if self.owners.is_sticky {
            out.push(1);
            out.extend_from_slice(&self.turn_bytes());
        }
    }

    fn turn_bytes(&self) -> Vec<u8> {
        self.owners.turn.as_ref().map(|(point, name)| [&point.to_be_bytes(), name.as_bytes()].concat()).unwrap_or_default()
    }

    /// All records are loaded, and every delivery is in its place.
    pub(super) fn owners_loaded(&mut self) {
        let workers = std::mem::take(&mut self.owners.workers);
        for (name, worker) in &workers {
            self.stand(name, worker);
            self.owners.bytes += name.len() + WORKER_BYTES;
        }
        self.owners.workers = workers;
        let is_idle = |to: &str, since: Micros| since > Micros::ZERO && self.binding(to).is_some_and(|binding| binding.pin.is_empty());
        let idle: HashMap<Box<str>, Micros> =
            self.owners.idle_since.iter().filter(|(to, since)| is_idle(to, **since)).map(|(to, since)| (to.clone(), *since)).collect();
        self.owners.idle = idle.iter().map(|(to, since)| (*since, to.clone())).collect();
        self.owners.idle_since = idle;
        self.owners.bytes += self.owners.bound.keys().map(|to| to.len() + BINDING_BYTES).sum::<usize>();
        (self.owners.is_loading, self.owners.given) = (false, BTreeMap::new());
    }

    pub(super) fn owners_bytes(&self) -> usize {
        self.owners.bytes
    }

    /// Everything as Redis would hold it.
    pub(super) fn dump_owners(&self, base: &str, put: &mut dyn FnMut(String, String)) {
        let owners = &self.owners;
        for (name, worker) in &owners.workers {
            put(format!("{base}worker {name}"), worker.text());
        }
        for (until, name) in &owners.ends {
            put(format!("{base}ends {name}"), until.to_string());
        }
        for (point, name) in &owners.ring {
            put(format!("{base}ring {point} {name}"), String::from("0"));
        }
        if owners.turn.is_some() {
            put(format!("{base}turn"), super::line::hex(&self.turn_bytes()));
        }
        for name in &owners.leaving {
            put(format!("{base}leaving {name}"), String::from("0"));
        }
        for (to, binding) in &owners.bound {
            put(format!("{base}bound {to}"), binding.text());
        }
        for (since, to) in &owners.idle {
            put(format!("{base}idle {to}"), since.to_string());
        }
        let to_of = |number: &Number| self.slot(*number).map_or("", |slot| slot.meta().0.to);
        for (owner, heads) in &owners.due {
            for (at, number) in heads {
                put(format!("{base}own:{owner} {number} {}", to_of(number)), at.to_string());
            }
        }
        for (owner, held) in &owners.held {
            for number in held {
                put(format!("{base}has:{owner} {number} {}", to_of(number)), String::from("0"));
            }
        }
    }
}

/// An owner for whom something may have become due earlier, and when.
pub type Woken = (Box<str>, Micros);

/// Greater than every worker's name.
pub(super) const LAST: &str = "\u{10ffff}";

fn remove<T: Ord>(sets: &mut BTreeMap<Box<str>, BTreeSet<T>>, owner: &str, member: &T) {
    if let Some(set) = sets.get_mut(owner) {
        set.remove(member);
        if set.is_empty() {
            sets.remove(owner);
        }
    }
}

/// Appends what was done to who has whom, and who is woken, as a reply has it.
pub(super) fn put_woken(out: &mut Vec<u8>, turnover: Turnover, woken: &[Woken]) {
    out.extend_from_slice(&turnover.lost.to_le_bytes());
    out.extend_from_slice(&turnover.moved.to_le_bytes());
    out.extend_from_slice(&u16::try_from(woken.len()).expect("a step gives to few").to_le_bytes());
    for (owner, at) in woken {
        record::put(out, [at.get()]);
        write_text(out, owner);
    }
}

/// The same, read back.
pub(super) fn take_woken(rest: &mut &[u8]) -> Option<(Turnover, Vec<Woken>)> {
    let (lost, moved) = (u16::from_le_bytes(record::take(rest)?), u16::from_le_bytes(record::take(rest)?));
    let count = u16::from_le_bytes(record::take(rest)?);
    let one = |rest: &mut &[u8]| {
        let at = record::take_micros(rest)?;
        Some((take_text(rest)?.into(), at))
    };
    let woken = (0..count).map(|_| one(rest)).collect::<Option<_>>()?;
    Some((Turnover { lost, moved }, woken))
}
