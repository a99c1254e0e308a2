//! Reads the events of a partition from any point on. Twin of `read.lua`.

use super::READ_MAX;
use super::log::Event;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// What happened in a partition after an event?
#[derive(Clone, Debug)]
pub struct ReadEvents {
    place: Place,
    after: u64,
    limit: u16,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The time of the answer.
    pub now: Micros,
    /// The number of the oldest event that is kept; 0: there is none.
    pub first: u64,
    /// The number of the newest; 0: there is none.
    pub last: u64,
    /// The events and their numbers, the oldest first; none for one that a newer version wrote, of a kind unknown to this.
    pub events: Vec<(u64, Option<Event>)>,
}

impl ReadEvents {
    /// At most `limit` events whose numbers are above `after`, held at [`READ_MAX`].
    pub fn new(place: Place, after: u64, limit: usize) -> ReadEvents {
        let limit = u16::try_from(limit.min(READ_MAX)).expect("few");
        ReadEvents { place, after: after.min(crate::int::INT_MAX), limit }
    }
}

impl Recorded {
    /// Whether whoever has read as far as `after` has missed something: what followed is not kept any more, or the log is
    /// not the one that was read.
    pub fn is_gap(&self, after: u64) -> bool {
        after > self.last || after.saturating_add(1) < self.first
    }
}

impl Operation for ReadEvents {
    type Answer = Recorded;

    const SCRIPT: Script = Script::long("event/read");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        ""
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Recorded, Full> {
        let (first, last) = state.events.bounds(&self.place.space);
        let found = state.events.after(&self.place.space, self.after).take(usize::from(self.limit));
        let events = found.map(|(number, bytes)| (number, Event::read(bytes))).collect();
        Ok(Recorded { now, first, last, events })
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::events(&self.place));
        record::put(&mut call.given, [self.after]);
        call.given.extend_from_slice(&self.limit.to_le_bytes());
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn tells_stored(&self) -> bool {
        true
    }

    fn is_kept(&self, _answer: &Recorded) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    /// It is never kept.
    fn reply(&self, answer: &Recorded) -> Reply {
        let mut out = vec![b'e'];
        record::put(&mut out, [answer.now.get(), answer.first, answer.last]);
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Recorded, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about events"))
    }
}

fn read(mut rest: &[u8]) -> Option<Recorded> {
    let rest = &mut rest;
    record::take(rest).filter(|[word]| *word == b'e')?;
    let now = record::take_micros(rest)?;
    let (first, last) = (record::take_number(rest)?, record::take_number(rest)?);
    let mut events = Vec::new();
    while !rest.is_empty() {
        let (number, bytes) = (record::take_number(rest)?, record::take_bytes(rest)?);
        events.push((number, Event::read(bytes)));
    }
    Some(Recorded { now, first, last, events })
}
