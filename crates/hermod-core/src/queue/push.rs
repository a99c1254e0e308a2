//! Puts deliveries into a queue. Twin of `push.lua`.

use super::claim::Failing;
use super::delivery::{Delivery, IfExists, Number, known_by};
use super::line::Slot;
use super::owners::{Terms, Turnover, Woken, put_woken, take_woken};
use super::tend::{TENDED_SOME, tend};
use crate::id::{QueueId, Recipient};
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::queues::Change;
use crate::state::{Full, State};

/// So many deliveries go into one step.
pub const PUSH_MAX: usize = 200;

/// Puts deliveries into a queue, in this order.
#[derive(Clone, Debug)]
pub struct Push {
    place: Place,
    queue: QueueId,
    terms: Terms,
    failing: Failing,
    deliveries: Vec<Delivery>,
}

impl Push {
    /// `place` is that of all these deliveries; there are at most [`PUSH_MAX`].
    pub fn new(place: Place, queue: QueueId, terms: Terms, failing: Failing, deliveries: Vec<Delivery>) -> Push {
        debug_assert!(deliveries.len() <= PUSH_MAX, "a script must not hold up the others for long");
        Push { place, queue, terms, failing, deliveries }
    }

    /// What it puts there.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }
}

/// What became of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is there.
    Added,
    /// One of its key was there, and stays as it is.
    Kept,
    /// One of its key was there, and was made anew.
    Replaced,
    /// One of its key was finished before.
    Finished,
}

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The time of the answer.
    pub now: Micros,
    /// When a delivery can be claimed next, in a shared queue.
    pub next: Option<Micros>,
    /// How many were not to be handed out any more, and gave up their key.
    pub expired: u16,
    /// How many of those whose holder is gone were attempted for the last time.
    pub dead: u16,
    /// For each what became of it, its number, and when it is due.
    pub stored: Vec<(Stored, Number, Micros)>,
    /// For whom something may have become due earlier, in a sticky queue.
    pub woken: Vec<Woken>,
    /// What was done to who has whom.
    pub turnover: Turnover,
}

impl Push {
    /// Forgets the delivery of this key if it will not be handed out any more, as a claim would; whether it did.
    fn drop_over(&self, change: &mut Change<'_>, key: &str, now: Micros) -> bool {
        let Some(number) = change.queue.keyed(key) else { return false };
        let is_over = |slot: &Slot| {
            let is_free = slot.died().is_none() && slot.until().is_none_or(|until| until <= now);
            is_free && self.failing.is_over(&slot.meta().0, now)
        };
        let is_dropped = change.queue.slot(number).is_some_and(is_over);
        if is_dropped {
            change.queue.take_out(number);
            change.queue.forget(number);
        }
        is_dropped
    }

    fn store(&self, change: &mut Change<'_>, delivery: &Delivery, expired: &mut u16, now: Micros) -> (Stored, Number, Micros) {
        let mut due = delivery.due.from(now);
        let to = delivery.to.as_ref().map_or("", Recipient::as_str);
        if let Some(key) = known_by(delivery.key.as_deref().unwrap_or(""), to) {
            *expired += u16::from(self.drop_over(change, &key, now));
            if let Some(number) = change.queue.keyed(&key)
                && let Some(slot) = change.queue.slot(number)
            {
                let was_due = slot.meta().0.due;
                if delivery.if_exists == IfExists::Keep {
                    return (Stored::Kept, number, was_due);
                }
                if slot.died().is_none() && slot.until().is_none_or(|until| until <= now) {
                    if delivery.if_exists == IfExists::Debounce {
                        due = due.max(was_due);
                    }
                    change.queue.take_out(number);
                    change.queue.untry(number);
                    change.queue.rewrite(number, delivery.body(due));
                    change.queue.enter(number, due);
                    return (Stored::Replaced, number, due);
                }
                // Somebody holds it, or it is dead: it goes on without its key.
                change.queue.unkey(number);
            } else if let Some(number) = change.finished(&key, now) {
                if delivery.if_exists == IfExists::Keep {
                    return (Stored::Finished, number, Micros::ZERO);
                }
                change.unfinish(&key);
            }
        }
        let number = change.queue.number(now);
        change.queue.store(number, delivery.body(due));
        change.queue.enter(number, due);
        (Stored::Added, number, due)
    }
}

impl Operation for Push {
    type Answer = Pushed;

    const SCRIPT: Script = Script::short("queue/push");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Pushed, Full> {
        if state.is_full {
            return Err(Full);
        }
        Ok(state.queues.make(&self.place, &self.queue, |change| {
            change.queue.agree(self.terms, now);
            change.queue.expire();
            let dead = tend(change, &self.failing, TENDED_SOME).dead;
            let mut expired = 0;
            let stored = self.deliveries.iter().map(|delivery| self.store(change, delivery, &mut expired, now)).collect();
            let (woken, turnover) = (change.queue.woken(), change.queue.turnover());
            Pushed { now, next: change.queue.next_told(), expired, dead, stored, woken, turnover }
        }))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        let given = &mut call.given;
        self.terms.write(given);
        self.failing.write(given);
        record::put(given, [self.failing.drop_after.unwrap_or_default().get()]);
        given.extend_from_slice(&u16::try_from(self.deliveries.len()).expect("few deliveries").to_le_bytes());
        for delivery in &self.deliveries {
            given.push(delivery.if_exists.number());
            delivery.due.write(given);
            let mut rest = Vec::with_capacity(32);
            delivery.write_rest(&mut rest);
            given.extend_from_slice(&u16::try_from(rest.len()).expect("short").to_le_bytes());
            given.extend_from_slice(&u32::try_from(delivery.payload.len()).expect("payloads are bounded").to_le_bytes());
            given.extend_from_slice(&rest);
            given.extend_from_slice(&delivery.payload);
        }
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn is_kept(&self, _answer: &Pushed) -> bool {
        true
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Pushed) -> Reply {
        let mut out = vec![b'p'];
        record::put(&mut out, [answer.now.get(), next_number(answer.next)]);
        out.extend_from_slice(&answer.expired.to_le_bytes());
        out.extend_from_slice(&answer.dead.to_le_bytes());
        put_woken(&mut out, answer.turnover, &answer.woken);
        for (stored, number, due) in &answer.stored {
            out.push(match stored {
                Stored::Added => 0,
                Stored::Kept => 1,
                Stored::Replaced => 2,
                Stored::Finished => 3,
            });
            record::put(&mut out, [*number, due.get()]);
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Pushed, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about a push"))
    }
}

fn read(mut rest: &[u8]) -> Option<Pushed> {
    let [_word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    let next = take_next(&mut rest)?;
    let (expired, dead) = (u16::from_le_bytes(record::take(&mut rest)?), u16::from_le_bytes(record::take(&mut rest)?));
    let (turnover, woken) = take_woken(&mut rest)?;
    let mut stored = Vec::new();
    while !rest.is_empty() {
        let [outcome] = record::take(&mut rest)?;
        let outcome = match outcome {
            0 => Stored::Added,
            1 => Stored::Kept,
            2 => Stored::Replaced,
            3 => Stored::Finished,
            _ => return None,
        };
        stored.push((outcome, record::take_number(&mut rest)?, record::take_micros(&mut rest)?));
    }
    Some(Pushed { now, next, expired, dead, stored, woken, turnover })
}

/// A time that may not be: its microseconds and one more; none is zero.
pub(super) fn next_number(time: Option<Micros>) -> u64 {
    time.map_or(0, |time| time.get() + 1)
}

/// The same, read back.
pub(super) fn take_next(rest: &mut &[u8]) -> Option<Option<Micros>> {
    record::take_number(rest).map(|number| number.checked_sub(1).map(Micros::saturating))
}
