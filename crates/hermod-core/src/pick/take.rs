//! Takes the first message of a plan that is as it was when it was planned, and allowed. Twin of `take.lua`.
//!
//! Without a plan, or with one that was made for another time, profile or history, it tells what the next plan needs.

use std::sync::Arc;

use crate::event::{Happened, Kind};
use crate::id::{DeckId, MessageId, Subject};
use crate::int::Micros;
use crate::key;
use crate::limit::limited::{take_text, write_text};
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::pick::history::{Counted, Entry, Given, History, OLD, OPEN_MAX, Old, Touched};
use crate::pick::reserved::{Before, Fate, Reserved};
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// The most candidates of a plan.
pub const PLAN_MAX: usize = 24;
/// The most messages that one take cleans away, of each kind.
pub const CLEAN_MAX: usize = 64;
/// What a deck's epoch stands under in a note, where messages stand under their ordinals: none has this one.
const EPOCH: u32 = u32::MAX;

/// What is to be done for a subject.
#[derive(Clone, Debug)]
pub struct Take {
    place: Place,
    subject: Subject,
    deck: DeckId,
    epoch: u64,
    plan: Option<Arc<Plan>>,
}

/// Which messages, in which order, and what must be true for it to be right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The number of the last pick.
    pub seq: u64,
    /// The generation of the history.
    pub generation: u64,
    /// How many reserved picks are counted as expired.
    pub expired: u32,
    /// The version of the profile.
    pub profile: u64,
    /// It holds from then on.
    pub from: Micros,
    /// It does not hold from then on.
    pub until: Micros,
    /// What the pick is settled by; below 2^53.
    pub number: u64,
    /// For how long it is reserved; zero: it is committed at once.
    pub lease: Micros,
    /// The subject's cap.
    pub cap: Given,
    /// The caps of the candidates, each once.
    pub meters: Vec<Given>,
    /// In the order they are tried; at most [`PLAN_MAX`].
    pub candidates: Vec<Candidate>,
    /// Messages that were deleted, to be forgotten if nothing was picked since; at most [`CLEAN_MAX`].
    pub forget: Vec<u32>,
    /// Messages to be put among the old, likewise.
    pub evict: Vec<u32>,
}

/// One message of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number in the deck.
    pub ordinal: u32,
    /// Its name, for an answer that is replayed.
    pub id: MessageId,
    /// The number of its last pick, as it was planned.
    pub seq: u64,
    /// Which of the meters is its cap, counted from 1; 0: it has none.
    pub meter: u8,
}

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// One was sent.
    Picked(Picked),
    /// Nothing of it is allowed at this time.
    Nothing(Micros),
    /// Too many picks of the subject are open; the first of them ends at `until`.
    Busy {
        /// The time of the answer.
        now: Micros,
        /// When to ask again.
        until: Micros,
    },
    /// The plan was for another state; this is what is.
    Again(Box<Recalled>),
}

/// One message was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    /// When.
    pub now: Micros,
    /// The number of the pick: one more than the plan's if nobody picked in between.
    pub seq: u64,
    /// The generation of the history, afterwards.
    pub generation: u64,
    /// Which message.
    pub ordinal: u32,
    /// Its name; none in an answer of a plan that nobody has any more.
    pub id: Option<MessageId>,
    /// The deck's epoch, in an answer that was given before: the deck may have been made anew since.
    pub epoch: Option<u64>,
    /// What it is settled by.
    pub number: u64,
    /// When it is given back unless it is settled; zero: it is committed.
    pub expires: Micros,
}

/// What the next plan needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// When it was true.
    pub now: Micros,
    /// The version of the profile; 0: there is none.
    pub profile: u64,
    /// The profile, as it was given.
    pub profile_bytes: Box<[u8]>,
    /// The history, as it is stored: what has expired is not given back yet.
    pub history: History,
}

impl Take {
    /// Tells what a plan needs.
    pub fn recall(place: Place, subject: Subject, deck: DeckId, epoch: u64) -> Take {
        Take { place, subject, deck, epoch, plan: None }
    }

    /// Tries a plan.
    pub fn plan(place: Place, subject: Subject, deck: DeckId, epoch: u64, plan: Arc<Plan>) -> Take {
        Take { place, subject, deck, epoch, plan: Some(plan) }
    }
}

impl Plan {
    /// The first candidate, if to send it is all that the plan comes to where nothing is in its way: then what is written can be
    /// said before. What is among the old is sent with a change of that, and what is reserved or cleaned away with others.
    fn plain(&self) -> Option<&Candidate> {
        let is_plain = self.lease == Micros::ZERO && self.expired == 0 && self.forget.is_empty() && self.evict.is_empty();
        self.candidates.first().filter(|first| is_plain && first.seq != OLD)
    }

    /// The cap of one of its candidates.
    fn meter_of(&self, candidate: &Candidate) -> Given {
        self.meters.get(usize::from(candidate.meter).wrapping_sub(1)).copied().unwrap_or_default()
    }

    /// What it is answered with when that was done.
    fn done(&self, first: &Candidate, now: Micros) -> Taken {
        let (seq, generation, ordinal, id) = (self.seq + 1, self.generation, first.ordinal, Some(first.id.clone()));
        Taken::Picked(Picked { now, seq, generation, ordinal, id, epoch: None, number: self.number, expires: Micros::ZERO })
    }
}

impl Take {
    /// What a plan comes to if nothing is in its way, as the script takes it.
    fn write_plain(&self, plan: &Plan, first: &Candidate, out: &mut Vec<u8>) {
        record::put(out, [plan.seq, plan.generation, plan.seq + 1, plan.generation, plan.profile, plan.from.get(), plan.until.get()]);
        plan.cap.write(out);
        plan.meter_of(first).write(out);
        record::put(out, [plan.number]);
        out.extend_from_slice(&first.ordinal.to_le_bytes());
        record::put(out, [first.seq]);
        out.push(key::pick_deck_at(&self.place));
        let field = first.ordinal.to_string();
        out.push(count(field.len()));
        out.extend_from_slice(field.as_bytes());
    }
}

impl History {
    /// Does what a plan says, natively; none if the plan is for another state.
    pub fn take(&mut self, plan: &Plan, now: Micros, touched: &mut Touched) -> Option<Taken> {
        let is_fresh = self.seq == plan.seq;
        if plan.generation != self.generation || now < plan.from || now >= plan.until {
            return None;
        }
        let due = self.reserved.iter().filter(|one| one.is_expired(now)).count();
        if usize::try_from(plan.expired) != Ok(due) {
            return None;
        }
        let nothing = |is_fresh: bool| is_fresh.then_some(Taken::Nothing(now));
        if plan.lease > Micros::ZERO && self.open(now).count() >= OPEN_MAX {
            let until = self.open(now).map(|one| one.expires).min().unwrap_or(now);
            return Some(Taken::Busy { now, until });
        }
        // What was given back is only looked at until something is taken: a refusal changes nothing.
        let mut after = None;
        if due > 0 {
            let mut history = self.clone();
            history.expire(now, touched);
            after = Some(history);
        }
        let seen = after.as_ref().unwrap_or(self);
        let cap = match plan.cap.meter() {
            Some(meter) => match Counted::charge(seen.cap.as_ref(), &meter, now) {
                Some(cap) => Some(cap),
                None => return nothing(is_fresh),
            },
            None => None,
        };
        let chosen = plan.candidates.iter().find_map(|candidate| {
            let entry = seen.entries.get(&candidate.ordinal);
            // What was never sent has no entry, and what is old has none either: a message changes between them with the generation.
            if entry.map(|entry| entry.seq) != Some(candidate.seq).filter(|seq| !matches!(*seq, 0 | OLD)) {
                return None;
            }
            let given = plan.meter_of(candidate);
            let Some(meter) = given.meter() else { return Some((candidate, given, None)) };
            let stored = entry.and_then(|entry| entry.count.as_ref());
            Counted::charge(stored, &meter, now).map(|count| (candidate, given, Some(count)))
        });
        let Some((candidate, meter, count)) = chosen else { return nothing(is_fresh) };
        if let Some(after) = after {
            *self = after;
        }
        let was_sent_at = self.entries.get(&candidate.ordinal).map_or(Micros::ZERO, |entry| entry.sent_at);
        let ends = count.as_ref().map_or(Micros::ZERO, |count| count.until);
        let cap_ends = cap.as_ref().map_or(Micros::ZERO, |cap| cap.until);
        self.cap = cap;
        self.send(candidate.ordinal, count, now, touched);
        let mut expires = Micros::ZERO;
        if plan.lease > Micros::ZERO {
            expires = now.plus(plan.lease);
            let before = Before { seq: self.seq, was: candidate.seq, was_sent_at, meter, ends, cap: plan.cap, cap_ends };
            let (number, ordinal, before) = (plan.number, candidate.ordinal, Some(Box::new(before)));
            self.reserved.push(Reserved { number, ordinal, expires, fate: Fate::Open, before });
            touched.reserved = true;
        }
        touched.events.push(Happened { kind: Kind::Picked, number: plan.number, ordinal: candidate.ordinal });
        if is_fresh {
            self.clean(&plan.forget, &plan.evict, touched);
        }
        let (seq, generation, ordinal, id) = (self.seq, self.generation, candidate.ordinal, Some(candidate.id.clone()));
        Some(Taken::Picked(Picked { now, seq, generation, ordinal, id, epoch: None, number: plan.number, expires }))
    }
}

impl Operation for Take {
    type Answer = Taken;

    const SCRIPT: Script = Script::short("pick/take");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.subject.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Taken, Full> {
        let profile = state.profiles.get(&self.place.space, self.subject.as_str());
        let version = profile.map_or(0, |profile| profile.version);
        if let Some(plan) = self.plan.as_ref().filter(|plan| plan.profile == version) {
            if state.is_full {
                return Err(Full);
            }
            let act = |history: &mut History, touched: &mut Touched| history.take(plan, now, touched);
            let is_write = |taken: &Option<Taken>| matches!(taken, Some(Taken::Picked(_)));
            let of = (&self.deck, self.epoch, &self.subject);
            if let Some(taken) = state.picks.change(&self.place, of, (now, &mut state.events), act, is_write) {
                return Ok(taken);
            }
        }
        let history = state.picks.get(&self.place, (&self.deck, self.epoch, &self.subject), now).cloned().unwrap_or_default();
        let profile_bytes = profile.map(|profile| profile.bytes.clone()).unwrap_or_default();
        Ok(Taken::Again(Box::new(Recalled { now, profile: version, profile_bytes, history })))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::pick(&self.place, &self.deck, self.epoch, &self.subject));
        call.keys.push(key::subject(&self.place, &self.subject));
        call.keys.push(key::events(&self.place));
        let out = &mut call.given;
        let Some(plan) = &self.plan else { return out.push(0) };
        out.reserve(256);
        match plan.plain() {
            Some(first) => {
                out.push(2);
                self.write_plain(plan, first, out);
            }
            None => out.push(1),
        }
        record::put(out, [plan.seq, plan.generation, u64::from(plan.expired), plan.profile]);
        record::put(out, [plan.from.get(), plan.until.get(), plan.number, plan.lease.get()]);
        plan.cap.write(out);
        out.push(count(plan.meters.len()));
        plan.meters.iter().for_each(|meter| meter.write(out));
        out.push(count(plan.candidates.len()));
        for candidate in &plan.candidates {
            out.extend_from_slice(&candidate.ordinal.to_le_bytes());
            record::put(out, [candidate.seq]);
            out.push(candidate.meter);
        }
        for ordinals in [&plan.forget, &plan.evict] {
            out.push(count(ordinals.len()));
            ordinals.iter().for_each(|ordinal| out.extend_from_slice(&ordinal.to_le_bytes()));
        }
    }

    fn is_durable(&self) -> bool {
        self.plan.is_some()
    }

    fn is_kept(&self, answer: &Taken) -> bool {
        matches!(answer, Taken::Picked(_))
    }

    /// The names of the candidates and the deck's epoch: both may be gone when the answer is replayed.
    fn note(&self, _about: Micros) -> Vec<u8> {
        let mut out = Vec::new();
        for candidate in self.plan.iter().flat_map(|plan| &plan.candidates) {
            out.extend_from_slice(&candidate.ordinal.to_le_bytes());
            write_text(&mut out, candidate.id.as_str());
        }
        out.extend_from_slice(&EPOCH.to_le_bytes());
        write_text(&mut out, &self.epoch.to_string());
        out
    }

    fn reply(&self, answer: &Taken) -> Reply {
        let mut out = Vec::new();
        match answer {
            Taken::Picked(picked) => {
                out.push(b'p');
                record::put(&mut out, [picked.now.get(), picked.seq, picked.generation, u64::from(picked.ordinal)]);
                record::put(&mut out, [picked.number, picked.expires.get()]);
            }
            Taken::Nothing(now) => {
                out.push(b'n');
                record::put(&mut out, [now.get()]);
            }
            Taken::Busy { now, until } => {
                out.push(b'b');
                record::put(&mut out, [now.get(), until.get()]);
            }
            // It is never kept.
            Taken::Again(_) => out.push(b'a'),
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, note: Option<&[u8]>) -> Result<Taken, BadReply> {
        if reply.as_bytes() == b"f" {
            let plan = self.plan.as_ref().and_then(|plan| plan.plain().map(|first| (plan, first)));
            return plan.map(|(plan, first)| plan.done(first, reply.now())).ok_or_else(|| reply.bad("is about no plan"));
        }
        read(reply.as_bytes(), |ordinal| match note {
            Some(note) => {
                (noted(note, ordinal).and_then(|id| MessageId::new(id).ok()), noted(note, EPOCH).and_then(|epoch| epoch.parse().ok()))
            }
            None => {
                let planned = self.plan.iter().flat_map(|plan| &plan.candidates).find(|one| one.ordinal == ordinal);
                (planned.map(|one| one.id.clone()), None)
            }
        })
        .ok_or_else(|| reply.bad("is none about a pick"))
    }
}

/// `known` says the name of a message and the deck's epoch.
fn read(bytes: &[u8], known: impl FnOnce(u32) -> (Option<MessageId>, Option<u64>)) -> Option<Taken> {
    let mut rest = bytes;
    let [word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    Some(match word {
        b'p' => {
            let (seq, generation) = (record::take_number(&mut rest)?, record::take_number(&mut rest)?);
            let ordinal = u32::try_from(record::take_number(&mut rest)?).ok()?;
            let (number, expires) = (record::take_number(&mut rest)?, record::take_micros(&mut rest)?);
            let (id, epoch) = known(ordinal);
            Taken::Picked(Picked { now, seq, generation, ordinal, id, epoch, number, expires })
        }
        b'n' => Taken::Nothing(now),
        b'b' => Taken::Busy { now, until: record::take_micros(&mut rest)? },
        b'a' => {
            let profile = record::take_number(&mut rest)?;
            let profile_bytes = record::take_bytes(&mut rest)?.into();
            Taken::Again(Box::new(Recalled { now, profile, profile_bytes, history: read_history(rest)? }))
        }
        _ => return None,
    })
}

/// Fields and values, each with its length before it.
fn read_history(mut rest: &[u8]) -> Option<History> {
    let mut history = History::default();
    while !rest.is_empty() {
        let (field, value) = (record::take_bytes(&mut rest)?, record::take_bytes(&mut rest)?);
        history.read_field(field, value)?;
    }
    Some(history)
}

impl History {
    /// Takes in a field as Redis has it.
    pub(crate) fn read_field(&mut self, field: &[u8], value: &[u8]) -> Option<()> {
        match field {
            b"h" => self.read_head(value)?,
            b"r" => self.reserved = Reserved::read_all(value)?,
            [b'o', chunk @ ..] => drop(self.old.insert(std::str::from_utf8(chunk).ok()?.parse().ok()?, Old::read(value)?)),
            ordinal => drop(self.entries.insert(std::str::from_utf8(ordinal).ok()?.parse().ok()?, Entry::read(value)?)),
        }
        Some(())
    }
}

/// What stands in a note under this number.
fn noted(mut note: &[u8], number: u32) -> Option<&str> {
    while !note.is_empty() {
        let other = u32::from_le_bytes(record::take(&mut note)?);
        let text = take_text(&mut note)?;
        if other == number {
            return Some(text);
        }
    }
    None
}

fn count(length: usize) -> u8 {
    u8::try_from(length).expect("a plan is short")
}
