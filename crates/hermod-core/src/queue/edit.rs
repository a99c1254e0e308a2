//! Changes deliveries that nobody holds: cancel, reschedule, shift, rewrite, and dead ones back to life.
//! Twin of `edit.lua`.

use super::delivery::{Due, Number, with_due, with_payload};
use super::owners::{Terms, Turnover, Woken, put_woken, take_woken};
use super::push::{next_number, take_next};
use crate::id::QueueId;
use crate::int::{INT_MAX, Micros};
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::queues::Change as Changing;
use crate::state::{Full, State};

/// So many deliveries are changed in one step.
pub const EDIT_MAX: usize = 200;

/// What to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is forgotten, dead or not.
    Cancel,
    /// It is due at another time.
    Move(Move),
    /// It carries something else, dead or not; with a move, both are done or neither.
    Rewrite {
        /// Whether that is JSON.
        is_json: bool,
        /// What.
        payload: Vec<u8>,
        /// When it is due from then on, if that changes too.
        moved: Option<Move>,
    },
}

/// When a delivery is due from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// One that is not dead: at this time.
    To(Due),
    /// The same: so much later.
    Later(Micros),
    /// The same: so much earlier.
    Earlier(Micros),
    /// A dead one: at once, as if it had never been attempted.
    Redrive,
}

impl Change {
    /// Whether what it carries from now on is JSON, and what that is; when it is due.
    fn parts(&self) -> (Option<(bool, &[u8])>, Option<Move>) {
        match self {
            Change::Cancel => (None, None),
            Change::Move(moved) => (None, Some(*moved)),
            Change::Rewrite { is_json, payload, moved } => (Some((*is_json, payload)), *moved),
        }
    }
}

/// Changes deliveries, each by itself.
#[derive(Clone, Debug)]
pub struct Edit {
    place: Place,
    queue: QueueId,
    terms: Terms,
    change: Change,
    numbers: Vec<Number>,
}

impl Edit {
    /// `place` is that of all of these; there are at most [`EDIT_MAX`].
    pub fn new(place: Place, queue: QueueId, terms: Terms, change: Change, numbers: Vec<Number>) -> Edit {
        debug_assert!(numbers.len() <= EDIT_MAX, "a script must not hold up the others for long");
        Edit { place, queue, terms, change, numbers }
    }

    fn edit(&self, changing: &mut Changing<'_>, number: Number, now: Micros) -> Edited {
        let queue = &mut *changing.queue;
        let Some(slot) = queue.slot(number) else { return Edited::Gone };
        if let Some(until) = slot.until().filter(|until| *until > now) {
            return Edited::Leased { until };
        }
        let (is_dead, was_due) = (slot.died().is_some(), slot.meta().0.due);
        if self.change == Change::Cancel {
            queue.take_out(number);
            queue.forget(number);
            return Edited::Done { due: was_due };
        }
        let (payload, moved) = self.change.parts();
        let due = match moved {
            None => was_due,
            Some(Move::Redrive) if is_dead => now,
            Some(Move::Redrive) => return Edited::Alive,
            Some(_) if is_dead => return Edited::Dead,
            Some(Move::To(due)) => due.from(now),
            Some(Move::Later(span)) => was_due.plus(span),
            Some(Move::Earlier(span)) => was_due.since(span),
        };
        let body = match payload {
            Some((is_json, payload)) => with_payload(&slot.body, is_json, payload),
            None => Some(slot.body.clone()),
        };
        let Some(body) = body.and_then(|body| with_due(body, due)) else { return Edited::Gone };
        if moved.is_none() {
            queue.rewrite(number, body);
            return Edited::Done { due };
        }
        queue.take_out(number);
        if is_dead {
            queue.untry(number);
        } else {
            queue.unhold(number);
        }
        queue.rewrite(number, body);
        queue.enter(number, due);
        queue.write_tried(number);
        Edited::Done { due }
    }
}

/// What became of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edited {
    /// There is none of this number: it was finished, or never was.
    Gone,
    /// It is changed, and due then; or was, if it is cancelled.
    Done {
        /// When.
        due: Micros,
    },
    /// Somebody holds it. Nothing was changed.
    Leased {
        /// Until when.
        until: Micros,
    },
    /// It is dead, and this is for those that are not.
    Dead,
    /// It is not dead, and this is for those that are.
    Alive,
}

/// What was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// The time of the answer.
    pub now: Micros,
    /// When a delivery can be claimed next, in a shared queue.
    pub next: Option<Micros>,
    /// For each what became of it.
    pub edited: Vec<Edited>,
    /// For whom something may have become due earlier, in a sticky queue.
    pub woken: Vec<Woken>,
    /// What was done to who has whom.
    pub turnover: Turnover,
}

impl Operation for Edit {
    type Answer = Edits;

    const SCRIPT: Script = Script::long("queue/edit");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Edits, Full> {
        let edits = state.queues.change(&self.place, &self.queue, |changing| {
            changing.queue.agree(self.terms, now);
            changing.queue.expire();
            let edited = self.numbers.iter().map(|number| self.edit(changing, *number, now)).collect();
            Edits { now, next: changing.queue.next_told(), edited, woken: changing.queue.woken(), turnover: changing.queue.turnover() }
        });
        let gone = || vec![Edited::Gone; self.numbers.len()];
        Ok(edits.unwrap_or_else(|| Edits { now, edited: gone(), ..Edits::default() }))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        let given = &mut call.given;
        self.terms.write(given);
        let (payload, moved) = self.change.parts();
        let (act, time): (u8, u64) = match moved {
            None if self.change == Change::Cancel => (0, 0),
            Some(Move::To(Due::At(time))) => (1, time.get()),
            Some(Move::To(Due::In(span))) => (2, span.get()),
            Some(Move::Later(span)) => (3, span.get()),
            Some(Move::Earlier(span)) => (4, span.get()),
            None => (5, 0),
            Some(Move::Redrive) => (6, 0),
        };
        given.push(act);
        record::put(given, [time.min(INT_MAX)]);
        given.push(payload.map_or(0, |(is_json, _)| 1 + u8::from(is_json)));
        let payload = payload.map_or(&[][..], |(_, payload)| payload);
        given.extend_from_slice(&u32::try_from(payload.len()).expect("payloads are bounded").to_le_bytes());
        given.extend_from_slice(payload);
        given.extend_from_slice(&u16::try_from(self.numbers.len()).expect("few").to_le_bytes());
        for number in &self.numbers {
            given.extend_from_slice(&number.to_be_bytes());
        }
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn frees(&self) -> bool {
        true
    }

    fn is_kept(&self, answer: &Edits) -> bool {
        answer.edited.iter().any(|edited| matches!(edited, Edited::Done { .. }))
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Edits) -> Reply {
        let mut out = vec![b'e'];
        record::put(&mut out, [answer.now.get(), next_number(answer.next)]);
        put_woken(&mut out, answer.turnover, &answer.woken);
        for edited in &answer.edited {
            let (word, time) = match edited {
                Edited::Gone => (0, Micros::ZERO),
                Edited::Done { due } => (1, *due),
                Edited::Leased { until } => (2, *until),
                Edited::Dead => (3, Micros::ZERO),
                Edited::Alive => (4, Micros::ZERO),
            };
            out.push(word);
            record::put(&mut out, [time.get()]);
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Edits, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about a change of deliveries"))
    }
}

fn read(mut rest: &[u8]) -> Option<Edits> {
    let [_word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    let next = take_next(&mut rest)?;
    let (turnover, woken) = take_woken(&mut rest)?;
    let mut edited = Vec::new();
    while !rest.is_empty() {
        let [word] = record::take(&mut rest)?;
        let time = record::take_micros(&mut rest)?;
        edited.push(match word {
            0 => Edited::Gone,
            1 => Edited::Done { due: time },
            2 => Edited::Leased { until: time },
            3 => Edited::Dead,
            4 => Edited::Alive,
            _ => return None,
        });
    }
    Some(Edits { now, next, edited, woken, turnover })
}
