//! What the holder of a delivery says of it: done, failed, not yet. Twin of `settle.lua`.

use super::backoff::Backoff;
use super::claim::{Failing, exhaust};
use super::delivery::{Number, Token};
use super::owners::{Terms, Turnover, Woken, put_woken, take_woken};
use super::push::{next_number, take_next};
use crate::id::QueueId;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::queues::Change;
use crate::state::{Full, State};

/// So many deliveries are settled in one step.
pub const SETTLE_MAX: usize = 200;

/// What the holder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleAct {
    /// It is done, and is forgotten.
    Ack,
    /// It failed; it can be claimed again after a while.
    Nack {
        /// The while; if absent, as the queue's backoff says.
        delay: Option<Micros>,
        /// The queue's.
        backoff: Backoff,
        /// Of a thousand, for the jitter.
        chance: u16,
        /// Its recipient waits for it; otherwise the next one passes.
        blocks: bool,
    },
    /// It is needed for longer, so long from now.
    Extend(Micros),
    /// Its holder is gone: it has its place again, and was attempted.
    GiveBack,
    /// It was not looked at: it has its place again, and was not attempted.
    Return,
}

/// Settles deliveries, each under the token it was handed out with.
#[derive(Clone, Debug)]
pub struct Settle {
    place: Place,
    queue: QueueId,
    terms: Terms,
    act: SettleAct,
    /// How often a delivery may be attempted that does not say itself.
    max_attempts: u16,
    /// After the last attempt it is dropped.
    drops: bool,
    held: Vec<(Number, Token)>,
    /// What is replied to whoever waits for it: whether that is JSON, and what.
    reply: Option<(bool, Vec<u8>)>,
}

impl Settle {
    /// `place` is that of all of these; there are at most [`SETTLE_MAX`].
    pub fn new(place: Place, queue: QueueId, terms: Terms, act: SettleAct, failing: &Failing, held: Vec<(Number, Token)>) -> Settle {
        debug_assert!(held.len() <= SETTLE_MAX, "a script must not hold up the others for long");
        Settle { place, queue, terms, act, max_attempts: failing.max_attempts, drops: failing.drops, held, reply: None }
    }

    /// With a reply to whoever waits for it, if they are done.
    #[must_use]
    pub fn reply_with(mut self, is_json: bool, reply: Vec<u8>) -> Settle {
        self.reply = Some((is_json, reply));
        self
    }

    fn settle(&self, change: &mut Change<'_>, number: Number, token: Token, now: Micros) -> Outcome {
        let Some(slot) = change.queue.slot(number) else { return Outcome::Stale };
        let is_holder = slot.tried.as_ref().is_some_and(|tried| tried.token == token.0 && tried.until > now);
        if !is_holder {
            return Outcome::Stale;
        }
        let (meta, _) = slot.meta();
        let (due, at, attempts) = (meta.due, slot.at, slot.attempts());
        let is_exhausted = attempts >= meta.max_attempts.unwrap_or(self.max_attempts);
        match self.act {
            SettleAct::Ack => {
                if let (Some((is_json, reply)), Some(keep)) = (&self.reply, meta.reply) {
                    change.keep_reply(number, *is_json, reply, now.plus(keep));
                }
                change.queue.take_out(number);
                change.finish(number, now);
                Outcome::Done
            }
            SettleAct::Extend(span) => {
                let until = now.plus(span);
                change.queue.extend(number, until);
                Outcome::Until(until)
            }
            SettleAct::Nack { .. } | SettleAct::GiveBack if is_exhausted => {
                exhaust(change, number, self.drops, now);
                if self.drops { Outcome::Dropped } else { Outcome::Dead }
            }
            SettleAct::Nack { delay, backoff, chance, blocks } => {
                let at = now.plus(delay.unwrap_or_else(|| backoff.delay(u32::from(attempts), u64::from(chance))));
                change.queue.give_back(number, at, blocks);
                Outcome::Until(at)
            }
            SettleAct::GiveBack => {
                change.queue.give_back(number, due, false);
                Outcome::Until(due)
            }
            SettleAct::Return => {
                change.queue.unattempt(number);
                // Claimed ahead, it still has its pause after the last attempt before it, and its recipient waits for it.
                let at = if at > now { at } else { due };
                change.queue.give_back(number, at, at > due);
                Outcome::Until(at)
            }
        }
    }
}

/// What became of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The token is not, or no longer, that of its holder. Nothing was changed.
    Stale,
    /// It is finished.
    Done,
    /// It is held until then, or can be claimed again from then on.
    Until(Micros),
    /// It was attempted as often as it may, and is dead.
    Dead,
    /// The same, and it is dropped.
    Dropped,
}

/// What was settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The time of the answer.
    pub now: Micros,
    /// When a delivery can be claimed next, in a shared queue.
    pub next: Option<Micros>,
    /// For each what became of it.
    pub outcomes: Vec<Outcome>,
    /// For whom something may have become due earlier, in a sticky queue.
    pub woken: Vec<Woken>,
    /// What was done to who has whom.
    pub turnover: Turnover,
}

impl Operation for Settle {
    type Answer = Settled;

    const SCRIPT: Script = Script::short("queue/settle");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Settled, Full> {
        let settled = state.queues.change(&self.place, &self.queue, |change| {
            change.queue.agree(self.terms, now);
            change.queue.expire();
            let outcomes = self.held.iter().map(|(number, token)| self.settle(change, *number, *token, now)).collect();
            Settled { now, next: change.queue.next_told(), outcomes, woken: change.queue.woken(), turnover: change.queue.turnover() }
        });
        let stale = || vec![Outcome::Stale; self.held.len()];
        Ok(settled.unwrap_or_else(|| Settled { now, outcomes: stale(), ..Settled::default() }))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        let given = &mut call.given;
        self.terms.write(given);
        let (act, numbers, blocks) = match self.act {
            SettleAct::Ack => (0, [0; 6], false),
            SettleAct::Nack { delay, backoff, chance, blocks } => {
                let [first, factor, max, jitter] = backoff.numbers();
                (1, [next_number(delay), first, factor, max, jitter, u64::from(chance.min(1_000))], blocks)
            }
            SettleAct::Extend(span) => (2, [span.get(), 0, 0, 0, 0, 0], false),
            SettleAct::GiveBack => (3, [0; 6], false),
            SettleAct::Return => (4, [0; 6], false),
        };
        given.push(act);
        record::put(given, numbers);
        given.extend_from_slice(&[u8::from(blocks), u8::from(self.drops)]);
        given.extend_from_slice(&self.max_attempts.to_le_bytes());
        let (kind, reply): (u8, &[u8]) = self.reply.as_ref().map_or((0, &[]), |(is_json, reply)| (if *is_json { 1 } else { 2 }, reply));
        given.push(kind);
        given.extend_from_slice(&u32::try_from(reply.len()).expect("payloads are bounded").to_le_bytes());
        given.extend_from_slice(reply);
        given.extend_from_slice(&u16::try_from(self.held.len()).expect("few").to_le_bytes());
        for (number, token) in &self.held {
            given.extend_from_slice(&number.to_be_bytes());
            record::put(given, [token.0]);
        }
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn frees(&self) -> bool {
        true
    }

    fn is_kept(&self, answer: &Settled) -> bool {
        answer.outcomes.iter().any(|outcome| *outcome != Outcome::Stale)
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Settled) -> Reply {
        let mut out = vec![b's'];
        record::put(&mut out, [answer.now.get(), next_number(answer.next)]);
        put_woken(&mut out, answer.turnover, &answer.woken);
        for outcome in &answer.outcomes {
            let (word, time) = match outcome {
                Outcome::Stale => (0, Micros::ZERO),
                Outcome::Done => (1, Micros::ZERO),
                Outcome::Until(time) => (2, *time),
                Outcome::Dead => (3, Micros::ZERO),
                Outcome::Dropped => (4, Micros::ZERO),
            };
            out.push(word);
            record::put(&mut out, [time.get()]);
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Settled, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about a lease of a delivery"))
    }
}

fn read(mut rest: &[u8]) -> Option<Settled> {
    let [_word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    let next = take_next(&mut rest)?;
    let (turnover, woken) = take_woken(&mut rest)?;
    let mut outcomes = Vec::new();
    while !rest.is_empty() {
        let [word] = record::take(&mut rest)?;
        let time = record::take_micros(&mut rest)?;
        outcomes.push(match word {
            0 => Outcome::Stale,
            1 => Outcome::Done,
            2 => Outcome::Until(time),
            3 => Outcome::Dead,
            4 => Outcome::Dropped,
            _ => return None,
        });
    }
    Some(Settled { now, next, outcomes, woken, turnover })
}
