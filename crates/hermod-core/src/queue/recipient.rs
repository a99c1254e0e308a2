//! What is known of a recipient, and whom it is to have. Twin of `recipient.lua`.

use super::binding::Binding;
use super::delivery::{Number, Token};
use super::owners::{Terms, Turnover, Woken, put_woken, take_woken};
use super::worker::Standing;
use crate::id::{QueueId, Recipient, WorkerId};
use crate::int::Micros;
use crate::key;
use crate::limit::limited::write_text;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::queues::Change;
use crate::state::{Full, State};

/// Looks at a recipient, after it was pinned to a worker or to none, if that is asked.
#[derive(Clone, Debug)]
pub struct Look {
    place: Place,
    queue: QueueId,
    terms: Terms,
    to: Recipient,
    pin: Option<Option<WorkerId>>,
}

impl Look {
    /// Only looks.
    pub fn new(place: Place, queue: QueueId, terms: Terms, to: Recipient) -> Look {
        Look { place, queue, terms, to, pin: None }
    }

    /// It is to have this worker from its next delivery on, while that lives; or any.
    #[must_use]
    pub fn pin(mut self, worker: Option<WorkerId>) -> Look {
        self.pin = Some(worker);
        self
    }

    fn look(&self, change: &mut Change<'_>, now: Micros) -> Explained {
        let to = self.to.as_str();
        let queue = &mut *change.queue;
        queue.agree(self.terms, now);
        if self.terms.is_sticky {
            queue.expire();
            if let Some(pin) = &self.pin {
                let pin = pin.as_ref().map_or("", WorkerId::as_str);
                let binding = Binding { pin: pin.into(), ..queue.binding(to).cloned().unwrap_or_default() };
                let is_kept = !binding.pin.is_empty() || !binding.changes.is_empty();
                let is_idle = !queue.has_line(to);
                queue.keep_binding(to, is_kept.then_some(binding));
                queue.set_idle(to, is_idle);
                // Once more, as one that is pinned is not idle.
                queue.write_binding(to);
                queue.move_line(to);
            }
        }
        let worker = queue.worker(queue.owner_of(to)).map(|worker| {
            let standing = if worker.is_draining { Standing::Draining } else { Standing::Live };
            (standing, worker.incarnation, worker.until)
        });
        let line = queue.line(to);
        let head = line.and_then(|(number, _)| {
            let slot = queue.slot(number)?;
            let token = slot.tried.as_ref().map_or(0, |tried| tried.token);
            let until = slot.until().unwrap_or_default();
            Some(InFlight { number, at: slot.at, attempts: slot.attempts(), token: Token(token), until })
        });
        let length = line.map_or(0, |(_, length)| u64::try_from(length).unwrap_or(u64::MAX));
        let (woken, turnover) = (queue.woken(), queue.turnover());
        Explained { now, binding: queue.binding(to).cloned(), worker, head, length, woken, turnover }
    }
}

/// The first delivery of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Its number.
    pub number: Number,
    /// When it can be claimed, or could be.
    pub at: Micros,
    /// How often it was attempted.
    pub attempts: u16,
    /// The last that was given out for it: not before the time at which that was.
    pub token: Token,
    /// Until when it is held; zero: it is not.
    pub until: Micros,
}

/// What is known of a recipient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// The time of the answer.
    pub now: Micros,
    /// Who has it, and had it.
    pub binding: Option<Binding>,
    /// How its worker stands, which of its lives this is, and when its lease ends.
    pub worker: Option<(Standing, u64, Micros)>,
    /// What is handed out, or would be next.
    pub head: Option<InFlight>,
    /// How many deliveries are not finished.
    pub length: u64,
    /// For whom something may have become due earlier.
    pub woken: Vec<Woken>,
    /// What was done to who has whom.
    pub turnover: Turnover,
}

impl Operation for Look {
    type Answer = Explained;

    const SCRIPT: Script = Script::short("queue/recipient");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Explained, Full> {
        if self.pin.is_some() {
            if state.is_full {
                return Err(Full);
            }
            return Ok(state.queues.make(&self.place, &self.queue, |change| self.look(change, now)));
        }
        let looked = state.queues.change(&self.place, &self.queue, |change| self.look(change, now));
        Ok(looked.unwrap_or_else(|| Explained { now, ..Explained::default() }))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        let given = &mut call.given;
        self.terms.write(given);
        given.push(u8::from(self.pin.is_some()));
        write_text(given, self.pin.as_ref().and_then(Option::as_ref).map_or("", WorkerId::as_str));
        given.extend_from_slice(&u16::try_from(self.to.as_str().len()).expect("short").to_le_bytes());
        given.extend_from_slice(self.to.as_str().as_bytes());
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn is_kept(&self, _answer: &Explained) -> bool {
        self.pin.is_some()
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Explained) -> Reply {
        let mut out = vec![b'r'];
        record::put(&mut out, [answer.now.get(), answer.length]);
        out.push(u8::from(answer.head.is_some()));
        if let Some(head) = &answer.head {
            record::put(&mut out, [head.number, head.at.get(), head.token.0, head.until.get()]);
            out.extend_from_slice(&head.attempts.to_le_bytes());
        }
        out.push(answer.worker.map_or(0, |(standing, _, _)| standing.number()));
        if let Some((_, incarnation, until)) = answer.worker {
            record::put(&mut out, [incarnation, until.get()]);
        }
        put_woken(&mut out, answer.turnover, &answer.woken);
        if let Some(binding) = &answer.binding {
            binding.write(&mut out);
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Explained, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about a recipient"))
    }
}

fn read(mut rest: &[u8]) -> Option<Explained> {
    let [_word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    let length = record::take_number(&mut rest)?;
    let [has_head] = record::take(&mut rest)?;
    let head = |rest: &mut &[u8]| {
        let (number, at) = (record::take_number(rest)?, record::take_micros(rest)?);
        let (token, until) = (Token(record::take_number(rest)?), record::take_micros(rest)?);
        Some(InFlight { number, at, token, until, attempts: u16::from_le_bytes(record::take(rest)?) })
    };
    let head = if has_head == 1 { Some(head(&mut rest)?) } else { None };
    let [standing] = record::take(&mut rest)?;
    let worker = match Standing::from_number(standing)? {
        Standing::Gone => None,
        standing => Some((standing, record::take_number(&mut rest)?, record::take_micros(&mut rest)?)),
    };
    let (turnover, woken) = take_woken(&mut rest)?;
    let binding = if rest.is_empty() { None } else { Some(Binding::read(&mut rest)?) };
    Some(Explained { now, binding, worker, head, length, woken, turnover })
}
