//! Reads what a realm has scheduled, the first first. Twin of `due.lua`.

use super::plan::take_short;
use crate::id::RealmId;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// The most that is read at once.
pub const DUE_MAX: usize = 100;

/// Reads what is scheduled.
#[derive(Clone, Debug)]
pub struct ReadDue {
    place: Place,
    realm: RealmId,
    limit: usize,
}

/// What is scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// When this was so.
    pub now: Micros,
    /// When what is due.
    pub first: Vec<(Micros, Box<[u8]>)>,
}

impl ReadDue {
    /// At most [`DUE_MAX`].
    pub fn new(place: Place, realm: RealmId, limit: usize) -> ReadDue {
        ReadDue { place, realm, limit: limit.clamp(1, DUE_MAX) }
    }
}

impl Operation for ReadDue {
    type Answer = Waiting;

    const SCRIPT: Script = Script::short("realm/due");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.realm.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Waiting, Full> {
        let due = state.realms.due(&self.place, &self.realm).take(self.limit);
        Ok(Waiting { now, first: due.map(|(at, what)| (at, what.into())).collect() })
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::realm(&self.place, &self.realm, "due"));
        call.given.extend_from_slice(&u32::try_from(self.limit).unwrap_or(0).to_le_bytes());
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn is_kept(&self, _answer: &Waiting) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    /// It is never kept.
    fn reply(&self, _answer: &Waiting) -> Reply {
        Reply::new(Vec::new())
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Waiting, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is nothing that is due"))
    }
}

fn read(mut rest: &[u8]) -> Option<Waiting> {
    let [b'd'] = record::take(&mut rest)? else { return None };
    let now = record::take_micros(&mut rest)?;
    let mut first = Vec::new();
    while !rest.is_empty() {
        let at = record::take_micros(&mut rest)?;
        first.push((at, take_short(&mut rest)?.into()));
    }
    Some(Waiting { now, first })
}
