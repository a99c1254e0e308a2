//! Settles a reservation to what was really used, or those that have expired. Twin of `settle.lua`.
//!
//! The difference to the estimate is given back, or charged also where it does not fit, on the meters of
//! then. It happens once: whoever settles again is told what it was settled to.

use crate::int::{INT_MAX, Micros};
use crate::key;
use crate::limit::check::lent;
use crate::limit::limited::{Limited, write_text};
use crate::limit::meter::{Act, Meter};
use crate::limit::reservation_id::ReservationId;
use crate::limit::reservations::{Fate, Reservation, Reservations, take_meter};
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// So many that have expired are settled at once: a script must not hold up the others for long.
pub const EXPIRED_MAX: usize = 200;

/// Settles reservations of a subject.
#[derive(Clone, Debug)]
pub struct Settle {
    place: Place,
    home: String,
    target: Target,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    /// This one, to what was really used; absent: what was estimated.
    One(u128, Option<u64>),
    /// The first that have expired.
    Expired,
}

impl Settle {
    /// Settles one, to `actual`, held at 2^53 - 1, or as it was estimated. `place` is that of the id's subject.
    pub fn one(place: Place, id: &ReservationId, actual: Option<u64>) -> Settle {
        let target = Target::One(id.number, actual.map(|actual| actual.min(INT_MAX)));
        Settle { place, home: id.subject.as_str().to_owned(), target }
    }

    /// Settles what has expired, by the policy of each rule; at most [`EXPIRED_MAX`] of them.
    pub fn expired(place: Place, subject: &str) -> Settle {
        Settle { place, home: subject.to_owned(), target: Target::Expired }
    }

    /// Does what is owed for one reservation. What all subjects share is left to the caller.
    fn close(&self, one: &Reservation, charged: u64, state: &mut State, now: Micros, owed: &mut Vec<Owed>) {
        let is_expired = one.is_expired(now);
        for part in &one.parts {
            let charged = if is_expired && !part.is_refunded() { one.estimate } else { charged };
            let Some((act, cost)) = part.owes(one.estimate, charged, now) else { continue };
            let Some(mut rule) = part.limited(now) else { continue };
            rule.durable &= self.is_durable();
            if part.is_shared() {
                owed.push(Owed { act, cost, rule });
                continue;
            }
            let found = state.limits.find(&self.place, &rule, &self.home);
            let step = rule.meter.step(act, cost, lent(&state.limits.get(found, now)), now);
            state.limits.put(found, &self.place, &rule, &self.home, step);
        }
    }

    /// Which of them are to be settled, in their order.
    fn chosen(&self, all: &Reservations, now: Micros) -> Vec<u128> {
        let expired = all.0.iter().filter(|one| one.is_expired(now)).map(|one| one.number);
        match self.target {
            Target::One(number, _) => vec![number],
            Target::Expired => expired.take(EXPIRED_MAX).collect(),
        }
    }
}

impl Operation for Settle {
    type Answer = Settled;

    const SCRIPT: Script = Script::short("limit/settle");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        &self.home
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Settled, Full> {
        let stored = state.reserves.get(&self.place.space, &self.home, now);
        let mut all = stored.cloned().unwrap_or_default().live(now);
        let mut settled = Settled { now, fate: None, is_done: false, estimate: 0, charged: 0, expired: 0, owed: Vec::new() };
        let mut is_durable = false;
        for number in self.chosen(&all, now) {
            let Some(at) = all.0.iter().position(|one| one.number == number) else { continue };
            let Some(one) = all.0.get(at).cloned() else { continue };
            settled.estimate = one.estimate;
            if one.fate != Fate::Open {
                (settled.fate, settled.charged) = (Some(one.fate), one.charged);
                continue;
            }
            let (fate, charged) = match self.target {
                // What is left open after its expiry has something to give back.
                _ if one.is_expired(now) => (Fate::Refunded, 0),
                Target::One(_, actual) => (Fate::Settled, actual.unwrap_or(one.estimate)),
                Target::Expired => continue,
            };
            self.close(&one, charged, state, now, &mut settled.owed);
            all.settle(at, fate, charged);
            is_durable |= self.is_durable() && one.parts.iter().any(|part| part.is_durable());
            (settled.fate, settled.is_done, settled.charged) = (Some(fate), true, charged);
            settled.expired += u64::from(one.is_expired(now));
        }
        if settled.is_done {
            let until = all.trim();
            state.reserves.put(&self.place, &self.home, all, until, is_durable);
        }
        if matches!(self.target, Target::Expired) {
            (settled.fate, settled.estimate, settled.charged) = (None, 0, 0);
        }
        Ok(settled)
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::limit(&self.place, &self.home));
        call.keys.push(key::reserve(&self.place, &self.home));
        let (act, number, actual) = match self.target {
            Target::One(number, None) => (0, number, 0),
            Target::One(number, Some(actual)) => (1, number, actual),
            Target::Expired => (2, 0, 0),
        };
        call.given.push(act);
        call.given.extend_from_slice(&number.to_be_bytes());
        call.given.extend_from_slice(&actual.to_le_bytes());
    }

    fn is_durable(&self) -> bool {
        // Whether a rule of then was is only known from the record; where none was, nothing is waited for. What
        // expired is found again if it is lost.
        matches!(self.target, Target::One(..))
    }

    fn is_kept(&self, answer: &Settled) -> bool {
        answer.is_done
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Settled) -> Reply {
        let mut bytes = vec![if answer.is_done { b's' } else { b'o' }];
        bytes.extend_from_slice(&answer.now.get().to_le_bytes());
        bytes.push(answer.fate.unwrap_or(Fate::Open).number());
        for int in [answer.estimate, answer.charged, answer.expired] {
            bytes.extend_from_slice(&int.to_le_bytes());
        }
        answer.owed.iter().for_each(|owed| owed.write(&mut bytes, answer.now));
        Reply::new(bytes)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Settled, BadReply> {
        let bad = || reply.bad("is none about a reservation");
        let mut rest = reply.as_bytes();
        let [word] = record::take(&mut rest).filter(|[word]| matches!(word, b's' | b'o')).ok_or_else(bad)?;
        let now = record::take_micros(&mut rest).ok_or_else(bad)?;
        let [fate] = record::take(&mut rest).ok_or_else(bad)?;
        let fate = Some(Fate::from_number(fate).ok_or_else(bad)?).filter(|fate| *fate != Fate::Open);
        let mut int = || record::take(&mut rest).map(u64::from_le_bytes).ok_or_else(bad);
        let (estimate, charged, expired) = (int()?, int()?, int()?);
        let mut owed = Vec::new();
        while !rest.is_empty() {
            owed.push(Owed::take(&mut rest).ok_or_else(bad)?);
        }
        Ok(Settled { now, fate, is_done: word == b's', estimate, charged, expired, owed })
    }
}

/// What became of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The time of the answer.
    pub now: Micros,
    /// How it is settled; none: there is no such reservation, or it is forgotten.
    pub fate: Option<Fate>,
    /// This call settled it, or at least one; else nothing was changed.
    pub is_done: bool,
    /// What was charged first.
    pub estimate: u64,
    /// What it was settled to.
    pub charged: u64,
    /// How many this call settled because they had expired.
    pub expired: u64,
    /// What must still be done where all subjects share the counters: they live in another partition.
    pub owed: Vec<Owed>,
}

/// What must be done under one rule, so that what was really used is charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    /// Give back, or charge also what does not fit.
    pub act: Act,
    /// How much.
    pub cost: u64,
    /// The rule of then.
    pub rule: Limited,
}

impl Owed {
    fn write(&self, out: &mut Vec<u8>, now: Micros) {
        out.extend_from_slice(&[self.act.number(), u8::from(self.rule.durable)]);
        out.extend_from_slice(&self.cost.to_le_bytes());
        write_text(out, self.rule.id.as_str());
        let (kind, ints) = self.rule.meter.given(now);
        out.push(kind);
        for int in ints {
            out.extend_from_slice(&int.to_le_bytes());
        }
    }

    fn take(rest: &mut &[u8]) -> Option<Owed> {
        let [act, durable] = record::take(rest)?;
        let act = [Act::Force, Act::Refund].into_iter().find(|known| known.number() == act)?;
        let cost = u64::from_le_bytes(record::take(rest)?);
        let (id, kind, ints) = take_meter(rest)?;
        let rule = Limited { durable: durable != 0, ..Limited::enforced(id, Meter::told(kind, ints)?) };
        Some(Owed { act, cost, rule })
    }
}
