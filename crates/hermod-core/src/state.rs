//! All state of one partition, in memory, and what of it the journal has not seen yet.
//!
//! A [`Table`] holds one family of records: looked up by key, swept by position,
//! so that expired records are found in small steps without a second index. Every change is either
//! *urgent* (its bytes go to the journal with the operation, and the answer waits for them) or
//! *deferred* (the slot is marked, and a flush writes whatever it holds by then).

pub mod board;
mod cells;
mod chunks;
mod counter;
pub mod events;
mod index;
mod key;
pub mod picks;
pub mod queues;
pub mod realms;
mod seats;
mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::id::{RuleId, SpaceId};
use crate::int::Micros;
use crate::limit::lease::Held;
use crate::limit::limited::Limited;
use crate::limit::meter::Step;
use crate::limit::packed::Packed;
use crate::limit::records::Tag;
use crate::limit::reservations::Reservations;
use crate::limit::tally::Tally;
use crate::once::Kept;
use crate::partition::{Place, Placed, joined};
use crate::record::{Damaged, Family, Record};

pub(crate) use counter::Counter;
use events::Events;
use picks::{Picks, Profiles};
use queues::Queues;
use realms::Realms;
pub use table::{Found, Standing, Table, Value};

/// The memory bound is reached and the operation would need more. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory bound is reached")]
pub struct Full;

/// The state of one partition. What is asked for most stands first, in the line of the lock.
#[derive(Debug)]
#[repr(C)]
pub struct State {
    /// Records of meters by (space, rule, subject).
    pub limits: Limits,
    /// Set by the engine when memory is short: nothing new may be created.
    pub is_full: bool,
    /// Leases by (space, subject).
    pub leases: Leases,
    /// Reservations by (space, subject).
    pub reserves: Reserves,
    /// Kept answers by (space, idempotency key, home).
    pub onces: Onces,
    /// Deliveries by (space, queue).
    pub queues: Queues,
    /// What subjects were sent, by (space, deck, epoch, subject).
    pub picks: Picks,
    /// What is known of subjects, by (space, subject).
    pub profiles: Profiles,
    /// The books of realms, by (space, realm).
    pub realms: Realms,
    /// What changed, by (space).
    pub events: Events,
}

impl State {
    /// The empty state of a partition.
    pub fn new(partition: u16) -> State {
        State {
            limits: Limits { table: Table::new(Family::Limit, partition) },
            is_full: false,
            leases: Leases { table: Table::new(Family::Lease, partition) },
            reserves: Reserves { table: Table::new(Family::Reserve, partition) },
            onces: Onces { table: Table::new(Family::Once, partition) },
            queues: Queues::new(partition),
            picks: Picks::new(partition),
            profiles: Profiles::new(partition),
            realms: Realms::new(partition),
            events: Events::new(partition),
        }
    }

    /// Takes in a record of the journal.
    pub fn load(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        match record.family {
            Family::Limit => self.limits.table.load(record),
            Family::Lease => self.leases.table.load(record),
            Family::Reserve => self.reserves.table.load(record),
            Family::Once => self.onces.table.load(record),
            Family::Body | Family::Tried | Family::Numbers | Family::Finished | Family::Worker | Family::Bound | Family::Reply => {
                self.queues.load(record)
            }
            Family::Pick => self.picks.load(record),
            Family::Profile => self.profiles.load(record),
            Family::Event => self.events.load(record),
            Family::Realm | Family::Account | Family::Ledger | Family::Mark | Family::Due => self.realms.load(record),
        }
    }

    /// All records of the journal are loaded: makes what follows from them.
    pub fn loaded(&mut self) {
        self.queues.loaded();
        self.picks.loaded();
        self.realms.loaded();
    }

    /// Whether the last operation changed something urgent.
    pub fn has_urgent(&self) -> bool {
        let of_limits = self.limits.table.has_urgent() || self.leases.table.has_urgent() || self.reserves.table.has_urgent();
        let of_picks = self.picks.has_urgent() || self.profiles.has_urgent() || self.events.has_urgent();
        of_limits || self.onces.table.has_urgent() || self.queues.has_urgent() || of_picks || self.realms.has_urgent()
    }

    /// Moves the bytes of urgent changes to the end of `out`.
    pub fn take_urgent(&mut self, out: &mut Vec<u8>) {
        self.limits.table.take_urgent(out);
        self.leases.table.take_urgent(out);
        self.reserves.table.take_urgent(out);
        self.onces.table.take_urgent(out);
        self.queues.take_urgent(out);
        self.picks.take_urgent(out);
        self.profiles.take_urgent(out);
        self.realms.take_urgent(out);
        self.events.take_urgent(out);
    }

    /// Writes at most `max` deferred changes to `out`, but for what ended before `ended` (zero: nothing has); how many there were.
    pub fn flush(&mut self, ended: Micros, max: usize, out: &mut Vec<u8>) -> usize {
        let mut done = self.limits.table.flush(ended, max, out);
        done += self.leases.table.flush(ended, max - done, out);
        done += self.reserves.table.flush(ended, max - done, out);
        done += self.onces.table.flush(ended, max - done, out);
        done + self.queues.flush(ended, max - done, out)
    }

    /// Looks at the next `steps` records of each table and drops those that ended before `before`.
    pub fn sweep(&mut self, before: Micros, steps: usize, out: &mut Vec<u8>) -> usize {
        let tallies = self.limits.table.sweep(before, steps, out);
        let held = self.leases.table.sweep(before, steps, out) + self.reserves.table.sweep(before, steps, out);
        let kept = self.onces.table.sweep(before, steps, out) + self.queues.sweep(before, steps, out);
        tallies + held + kept + self.picks.sweep(before, steps, out) + self.realms.sweep(before, steps, out)
    }

    /// How much memory it takes, about.
    #[inline]
    pub fn bytes(&self) -> usize {
        let of_limits = self.limits.table.bytes() + self.leases.table.bytes() + self.reserves.table.bytes();
        let of_picks = self.picks.bytes() + self.profiles.bytes() + self.events.bytes();
        of_limits + self.onces.table.bytes() + self.queues.bytes() + of_picks + self.realms.bytes()
    }

    /// How many records it holds.
    pub fn records(&self) -> usize {
        let of_limits = self.limits.table.len() + self.leases.table.len() + self.reserves.table.len();
        let of_picks = self.picks.records() + self.profiles.records() + self.events.records();
        of_limits + self.onces.table.len() + self.queues.records() + of_picks + self.realms.records()
    }

    /// Every record as Redis would hold it, with the time from which it means nothing any more.
    pub fn dump(&self, out: &mut BTreeMap<String, (String, Micros)>) {
        // On Redis the records of a subject are mostly one string: its key, then the tag of the rule.
        self.limits.table.dump(out, |tag, rule, subject| format!("hm:{{{tag}}}:limit:{subject} {}", Tag::of_id(rule)));
        self.leases.table.dump(out, |tag, subject, _| format!("hm:{{{tag}}}:lease:{subject}"));
        self.reserves.table.dump(out, |tag, subject, _| format!("hm:{{{tag}}}:reserve:{subject}"));
        self.onces.table.dump(out, |tag, key, home| format!("hm:{{{tag}}}:once:{key} {home}"));
        self.queues.dump(out);
        self.picks.dump(out);
        self.profiles.dump(out);
        self.realms.dump(out);
        self.events.dump(out);
    }
}

/// The records of meters of a partition.
#[derive(Debug)]
pub struct Limits {
    table: Table<Packed>,
}

impl Limits {
    /// How much memory they take, about.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Where the record of a subject under a rule is, or would be; of no subject, the one all share.
    #[inline]
    pub fn find(&self, at: &impl Placed, rule: &Limited, subject: &str) -> Found {
        let counter = Counter::new(&at.place().space, rule, subject, at.hash_of(subject));
        self.table.find_by(counter.hash(), |key| counter.is(key))
    }

    /// The record that was found, to be stored anew.
    #[inline]
    pub fn standing(&mut self, found: Found) -> Option<Standing<'_, Packed>> {
        self.table.standing(found)
    }

    /// The record that was found, and when it ends.
    pub fn get(&self, found: Found, now: Micros) -> Option<(Cow<'_, Tally>, Micros)> {
        self.table.live_at(found, now).map(|(packed, until)| (packed.tally(), until))
    }

    /// Stores the record of a meter's step, where it was found.
    pub fn put(&mut self, found: Found, place: &Place, rule: &Limited, subject: &str, step: Step) {
        let tally = Packed::from(step.tally);
        // Most are there already, and then nothing asks for the key.
        if found.is_vacant() || rule.durable {
            let key = joined([place.space.as_str(), rule.id.as_str(), subject]);
            self.table.put_at(found, &key, tally, step.until, rule.durable);
        } else {
            self.table.put_at(found, &[], tally, step.until, false);
        }
    }

    /// Forgets a record; whether there was one that meant something.
    pub fn remove(&mut self, place: &Place, rule: &RuleId, subject: &str, now: Micros, urgent: bool) -> bool {
        let key = joined([place.space.as_str(), rule.as_str(), subject]);
        let was_live = self.table.live(&key, now).is_some();
        self.table.delete(&key, urgent);
        was_live
    }
}

/// The leases of a partition.
#[derive(Debug)]
pub struct Leases {
    table: Table<Held>,
}

impl Leases {
    /// The leases of a subject; of no subject, those that all share.
    pub fn get(&self, space: &SpaceId, subject: &str, now: Micros) -> Option<&Held> {
        let key = joined([space.as_str(), subject]);
        self.table.live(&key, now).map(|(held, _)| held)
    }

    /// Stores leases, the last of which ends at `until`.
    pub fn put(&mut self, place: &Place, subject: &str, held: Held, until: Micros, urgent: bool) {
        let key = joined([place.space.as_str(), subject]);
        self.table.put(&key, held, until, urgent);
    }
}

/// The reservations of a partition.
#[derive(Debug)]
pub struct Reserves {
    table: Table<Reservations>,
}

impl Reserves {
    /// The reservations of a subject.
    pub fn get(&self, space: &SpaceId, subject: &str, now: Micros) -> Option<&Reservations> {
        let key = joined([space.as_str(), subject]);
        self.table.live(&key, now).map(|(reservations, _)| reservations)
    }

    /// Stores reservations, all of which mean nothing from `until` on.
    pub fn put(&mut self, place: &Place, subject: &str, reservations: Reservations, until: Micros, urgent: bool) {
        let key = joined([place.space.as_str(), subject]);
        self.table.put(&key, reservations, until, urgent);
    }
}

/// The kept answers of a partition.
#[derive(Debug)]
pub struct Onces {
    table: Table<Kept>,
}

impl Onces {
    /// What is kept for a key of this home.
    pub fn get(&self, space: &SpaceId, key: &str, home: &str, now: Micros) -> Option<&Kept> {
        let key = joined([space.as_str(), key, home]);
        self.table.live(&key, now).map(|(kept, _)| kept)
    }

    /// Keeps an answer.
    pub fn put(&mut self, place: &Place, key: &str, home: &str, kept: Kept, until: Micros, urgent: bool) {
        let key = joined([place.space.as_str(), key, home]);
        self.table.put(&key, kept, until, urgent);
    }
}
