//! Reads commits of a realm, in order. Twin of `ledger.lua`.

use super::entry::Entry;
use crate::id::RealmId;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// The most commits that are read at once.
pub const LEDGER_MAX: usize = 200;

/// Reads commits.
#[derive(Clone, Debug)]
pub struct ReadLedger {
    place: Place,
    realm: RealmId,
    after: u64,
    limit: usize,
    is_back: bool,
}

/// Commits that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commits {
    /// The number of the last one there is; 0: there is none.
    pub last: u64,
    /// Number, time, what it was.
    pub entries: Vec<(u64, Micros, Entry)>,
}

impl ReadLedger {
    /// At most [`LEDGER_MAX`] commits after this one.
    pub fn after(place: Place, realm: RealmId, after: u64, limit: usize) -> ReadLedger {
        ReadLedger { place, realm, after, limit: limit.min(LEDGER_MAX), is_back: false }
    }

    /// The newest, the newest first; of those before this one, unless it is 0.
    pub fn before(place: Place, realm: RealmId, before: u64, limit: usize) -> ReadLedger {
        ReadLedger { place, realm, after: before, limit: limit.min(LEDGER_MAX), is_back: true }
    }
}

impl Operation for ReadLedger {
    type Answer = Commits;

    const SCRIPT: Script = Script::long("realm/ledger");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.realm.as_str()
    }

    fn apply(&self, state: &mut State, _now: Micros) -> Result<Commits, Full> {
        let limit = u64::try_from(self.limit).unwrap_or(u64::MAX);
        let (last, _) = state.realms.ledger(&self.place, &self.realm, u64::MAX);
        let end = if self.after == 0 { last.saturating_add(1) } else { self.after.min(last.saturating_add(1)) };
        let after = if self.is_back { end.saturating_sub(limit.saturating_add(1)) } else { self.after };
        let (_, entries) = state.realms.ledger(&self.place, &self.realm, after);
        let entries = entries.take(self.limit).filter(|(seq, _)| !self.is_back || *seq < end);
        let entries = entries.filter_map(|(seq, bytes)| Entry::stored(bytes).map(|(at, entry)| (seq, at, entry)));
        let mut entries: Vec<_> = entries.collect();
        if self.is_back {
            entries.reverse();
        }
        Ok(Commits { last, entries })
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::realm(&self.place, &self.realm, "ledger"));
        record::put(&mut call.given, [self.after]);
        call.given.extend_from_slice(&u32::try_from(self.limit).unwrap_or(0).to_le_bytes());
        call.given.push(u8::from(self.is_back));
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn tells_stored(&self) -> bool {
        true
    }

    fn is_kept(&self, _answer: &Commits) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    /// It is never kept.
    fn reply(&self, _answer: &Commits) -> Reply {
        Reply::new(Vec::new())
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Commits, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is no part of a ledger"))
    }
}

fn read(mut rest: &[u8]) -> Option<Commits> {
    let [b'l'] = record::take(&mut rest)? else { return None };
    let last = record::take_number(&mut rest)?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let seq = record::take_number(&mut rest)?;
        let (at, entry) = Entry::stored(record::take_bytes(&mut rest)?)?;
        entries.push((seq, at, entry));
    }
    Some(Commits { last, entries })
}
