//! Charges an estimate under every matching rule, or under none, and notes it down to be settled. Twin of
//! `reserve.lua`.

use crate::id::Subject;
use crate::int::{INT_MAX, Micros};
use crate::key;
use crate::limit::charge::Charge;
use crate::limit::check::{Check, Checked, Explained};
use crate::limit::limited::Rules;
use crate::limit::meter::Act;
use crate::limit::reservation_id::ReservationId;
use crate::limit::reservations::{Fate, Form, OPEN_MAX, Part, Reservation};
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// The longest a reservation may be open.
pub const TTL_MAX: Micros = Micros::saturating(24 * 3_600_000_000);

/// Charges `cost` if every rule admits it, and remembers under which, so that it can be settled.
#[derive(Clone, Debug)]
pub struct Reserve {
    place: Place,
    id: ReservationId,
    ttl: Micros,
    cost: u64,
    rules: Rules,
    /// What the same estimate was charged where all subjects share the counters.
    shared: Vec<Part>,
}

impl Reserve {
    /// `place` is that of the id's subject. A cost of zero is held at 1, one above 2^53 - 1 at that; a ttl
    /// between nothing and a day.
    pub fn new(place: Place, id: ReservationId, ttl: Micros, cost: u64, rules: Rules) -> Reserve {
        Reserve { place, id, ttl: ttl.min(TTL_MAX), cost: cost.clamp(1, INT_MAX), rules, shared: Vec::new() }
    }

    /// With what was charged, for the same estimate, where all subjects share the counters.
    #[must_use]
    pub fn and(mut self, shared: &Explained) -> Reserve {
        self.shared = shared.charged().map(|(rule, head)| Part::new(rule, head.until, shared.now)).collect();
        self
    }

    fn subject(&self) -> &Subject {
        &self.id.subject
    }

    /// The same without the reservation: its answer reads the same.
    fn check(&self) -> Check {
        Check::new(self.place.clone(), Some(self.subject().clone()), Act::Check, self.cost, Rules::clone(&self.rules))
    }
}

impl Operation for Reserve {
    type Answer = Reserved;

    const SCRIPT: Script = Script::short("limit/reserve");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.subject().as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Reserved, Full> {
        let stored = state.reserves.get(&self.place.space, self.home(), now);
        let mut all = stored.cloned().unwrap_or_default().live(now);
        if all.open() >= OPEN_MAX {
            return Ok(Reserved::TooMany { now });
        }
        let charge = Charge { place: &self.place, subject: self.home(), act: Act::Check, cost: self.cost, rules: &self.rules };
        let tested = charge.test(&mut state.limits, now);
        let checked = Checked { now, cost: self.cost, is_refused: tested.is_refused, heads: tested.heads(), told: None };
        if checked.is_refused {
            return Ok(Reserved::Checked(checked));
        }
        if state.is_full {
            return Err(Full);
        }
        let own = self.rules.iter().zip(&checked.heads).filter(|(_, head)| !head.is_refused);
        let parts = own.map(|(rule, head)| Part::new(rule, head.until, now)).chain(self.shared.iter().cloned()).collect();
        let (number, expires) = (self.id.number, now.plus(self.ttl));
        all.0.push(Reservation { fate: Fate::Open, number, expires, estimate: self.cost, charged: 0, parts });
        charge.write(tested, &mut state.limits);
        let until = all.trim();
        state.reserves.put(&self.place, self.home(), all, until, self.is_durable());
        Ok(Reserved::Checked(checked))
    }

    fn call(&self, call: &mut ScriptCall, about: Micros) {
        call.keys.push(key::limit(&self.place, self.home()));
        call.keys.push(key::reserve(&self.place, self.home()));
        call.given.extend_from_slice(&self.id.number.to_be_bytes());
        call.given.extend_from_slice(&self.cost.to_le_bytes());
        call.given.extend_from_slice(&self.ttl.get().to_le_bytes());
        call.given.push(u8::try_from(self.rules.len()).expect("few rules apply to a call"));
        call.given.extend(self.rules.iter().map(|rule| Part::flags(rule)));
        let mut parts = Vec::new();
        self.shared.iter().for_each(|part| part.write(&mut parts, Form::Redis));
        call.given.extend_from_slice(&u16::try_from(parts.len()).expect("few rules apply to a call").to_le_bytes());
        call.given.extend_from_slice(&parts);
        let refunds = Part::refunds(&self.shared);
        call.given.extend_from_slice(&refunds.get().to_le_bytes());
        for rule in self.rules.iter() {
            rule.write(&mut call.shared, about);
        }
    }

    fn is_durable(&self) -> bool {
        self.rules.iter().any(|rule| rule.durable)
    }

    fn is_kept(&self, answer: &Reserved) -> bool {
        matches!(answer, Reserved::Checked(checked) if !checked.is_refused)
    }

    fn note(&self, about: Micros) -> Vec<u8> {
        self.check().note(about)
    }

    fn reply(&self, answer: &Reserved) -> Reply {
        match answer {
            Reserved::Checked(checked) => self.check().reply(checked),
            Reserved::TooMany { now } => Reply::new([b"f".as_slice(), &now.get().to_le_bytes()].concat()),
        }
    }

    fn answer(&self, reply: &Reply, note: Option<&[u8]>) -> Result<Reserved, BadReply> {
        if let [b'f', time @ ..] = reply.as_bytes() {
            let mut rest = time;
            let now = record::take_micros(&mut rest).ok_or_else(|| reply.bad("has no time"))?;
            return Ok(Reserved::TooMany { now });
        }
        self.check().answer(reply, note).map(Reserved::Checked)
    }
}

/// What became of an estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It was tested like a check's cost; if it was not refused, it is charged and reserved.
    Checked(Checked),
    /// The subject has as many open reservations as it can have. Nothing was changed.
    TooMany {
        /// The time of the answer.
        now: Micros,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::id::{RuleId, SpaceId};
    use crate::limit::limited::Limited;
    use crate::limit::pattern::Pattern;
    use crate::limit::rule::{OnExpiry, Rule};
    use crate::limit::settle::Settle;
    use crate::partition::Partitions;

    #[test]
    fn reservations_survive_a_restart() {
        let now = Micros::saturating(1_700_000_000_000_000);
        let place = Partitions::DEFAULT.place(&SpaceId::default_space(), "bot-7");
        let mut state = State::new(place.partition);
        let rule = |id: &str, per: &str| {
            let rule = Rule::new(RuleId::new(id).unwrap(), Pattern::action("act").unwrap(), 10, per.parse().unwrap());
            Arc::new(Limited::new(&Rule { on_expiry: OnExpiry::Refund, ..rule }).unwrap())
        };
        let id = |number| ReservationId { number, subject: Subject::new("bot-7").unwrap() };
        for number in 0..3 {
            let rules = [rule("minute", "1m"), rule("day", "1day")].into_iter().collect();
            let reserved = Reserve::new(place.clone(), id(number), Micros::saturating(1_000_000), 2, rules).apply(&mut state, now);
            assert!(matches!(reserved, Ok(Reserved::Checked(checked)) if !checked.is_refused));
        }
        Settle::one(place.clone(), &id(1), Some(1)).apply(&mut state, now).unwrap();
        let (mut bytes, mut before, mut after) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        state.dump(&mut before);
        state.flush(Micros::ZERO, 100, &mut bytes);
        let mut loaded = State::new(place.partition);
        record::read(&bytes).for_each(|record| loaded.load(&record.unwrap()).unwrap());
        loaded.dump(&mut after);
        assert_eq!(before, after);
        let settled = Settle::expired(place, "bot-7").apply(&mut loaded, now.plus(Micros::saturating(1_000_000))).unwrap();
        assert_eq!(settled.expired, 2);
    }
}
