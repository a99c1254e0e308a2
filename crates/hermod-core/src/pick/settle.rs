//! Settles a reserved pick: keeps it, or gives it back. Twin of `settle.lua`.
//!
//! It happens once: whoever settles again is told what became of it.

use crate::id::{DeckId, Subject};
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::pick::history::{History, Touched};
use crate::pick::id::PickId;
use crate::pick::reserved::Fate;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// What is to become of a pick.
#[derive(Clone, Debug)]
pub struct Settle {
    place: Place,
    deck: DeckId,
    epoch: u64,
    subject: Subject,
    number: u64,
    fate: Fate,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The time of the answer.
    pub now: Micros,
    /// Its fate; none: there is no such pick to settle, or it is forgotten.
    pub fate: Option<Fate>,
    /// This call settled it.
    pub is_done: bool,
    /// Which message.
    pub ordinal: u32,
}

impl Settle {
    /// Keeps it. `place` is that of the id's subject.
    pub fn ack(place: Place, id: &PickId) -> Settle {
        Settle::new(place, id, Fate::Acked)
    }

    /// Gives it back.
    pub fn nack(place: Place, id: &PickId) -> Settle {
        Settle::new(place, id, Fate::Nacked)
    }

    fn new(place: Place, id: &PickId, fate: Fate) -> Settle {
        let PickId { number, deck, epoch, subject } = id.clone();
        Settle { place, deck, epoch, subject, number, fate }
    }

    fn act(&self, history: &mut History, now: Micros, touched: &mut Touched) -> Settled {
        let Some(one) = history.reserved.iter().find(|one| one.number == self.number) else {
            return Settled { now, fate: None, is_done: false, ordinal: 0 };
        };
        let ordinal = one.ordinal;
        if one.fate != Fate::Open {
            return Settled { now, fate: Some(one.fate), is_done: false, ordinal };
        }
        let fate = if one.is_expired(now) { Fate::Expired } else { self.fate };
        history.settle(self.number, fate, now, touched);
        Settled { now, fate: Some(fate), is_done: true, ordinal }
    }
}

impl Operation for Settle {
    type Answer = Settled;

    const SCRIPT: Script = Script::short("pick/settle");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.subject.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Settled, Full> {
        let of = (&self.deck, self.epoch, &self.subject);
        let act = |history: &mut History, touched: &mut Touched| self.act(history, now, touched);
        Ok(state.picks.change(&self.place, of, (now, &mut state.events), act, |settled| settled.is_done))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::pick(&self.place, &self.deck, self.epoch, &self.subject));
        call.keys.push(key::events(&self.place));
        call.given.push(self.fate.number());
        record::put(&mut call.given, [self.number]);
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn is_kept(&self, answer: &Settled) -> bool {
        answer.is_done
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Settled) -> Reply {
        let mut out = vec![if answer.is_done { b's' } else { b'o' }];
        record::put(&mut out, [answer.now.get()]);
        out.push(answer.fate.map_or(NONE, Fate::number));
        out.extend_from_slice(&answer.ordinal.to_le_bytes());
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Settled, BadReply> {
        let mut rest = reply.as_bytes();
        let mut read = || {
            let [word] = record::take(&mut rest).filter(|[word]| matches!(word, b's' | b'o'))?;
            let now = record::take_micros(&mut rest)?;
            let [fate] = record::take(&mut rest)?;
            let fate = if fate == NONE { None } else { Some(Fate::from_number(fate)?) };
            Some(Settled { now, fate, is_done: word == b's', ordinal: u32::from_le_bytes(record::take(&mut rest)?) })
        };
        read().ok_or_else(|| reply.bad("is none about a pick"))
    }
}

/// Stands for no fate.
const NONE: u8 = 255;
