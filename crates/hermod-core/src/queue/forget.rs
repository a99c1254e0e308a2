//! Forgets who worked on a queue, and who had whom, when the queue is gone. Twin of `forget.lua`.
//!
//! In bounded steps, as there may be a great many recipients. The numbers stay: what a holder of old has in its hand is stale for ever, also
//! when there is a queue of this name again.

use super::line::Queue;
use super::owners::Terms;
use crate::id::QueueId;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// About so many workers and recipients are forgotten in one step.
pub const FORGET_MAX: usize = 200;

/// Forgets the workers of a queue in which there is nothing, and whose recipients were whose. Where there is something it does nothing.
#[derive(Clone, Debug)]
pub struct Forget {
    place: Place,
    queue: QueueId,
    from: u64,
}

impl Forget {
    /// The first step.
    pub fn new(place: Place, queue: QueueId) -> Forget {
        Forget { place, queue, from: 0 }
    }

    /// The step after the one that was answered by [`Forgotten::next`].
    #[must_use]
    pub fn from(mut self, next: u64) -> Forget {
        self.from = next;
        self
    }
}

impl Queue {
    /// Forgets so many; whether there are more.
    fn forget_owners(&mut self, most: usize) -> bool {
        if self.len() > 0 {
            return false;
        }
        let names: Vec<Box<str>> = self.owners.workers.keys().take(most).cloned().collect();
        for name in &names {
            self.keep_worker(name, None);
        }
        let bound = self.bound(most - names.len());
        for to in bound {
            self.set_idle(&to, false);
            self.keep_binding(&to, None);
        }
        !self.owners.workers.is_empty() || !self.bound(1).is_empty()
    }
}

/// What was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The time of the answer.
    pub now: Micros,
    /// Where to go on, as each engine says it; zero: that was all.
    pub next: u64,
}

impl Operation for Forget {
    type Answer = Forgotten;

    const SCRIPT: Script = Script::long("queue/forget");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Forgotten, Full> {
        let has_more = state.queues.change(&self.place, &self.queue, |change| {
            change.queue.agree(Terms { is_sticky: true, floor: 0 }, now);
            change.queue.forget_owners(FORGET_MAX)
        });
        Ok(Forgotten { now, next: u64::from(has_more.unwrap_or(false)) })
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        Terms { is_sticky: true, floor: 0 }.write(&mut call.given);
        record::put(&mut call.given, [self.from]);
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn frees(&self) -> bool {
        true
    }

    fn is_kept(&self, _answer: &Forgotten) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Forgotten) -> Reply {
        let mut out = vec![b'f'];
        record::put(&mut out, [answer.now.get(), answer.next]);
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Forgotten, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about what was forgotten"))
    }
}

fn read(mut rest: &[u8]) -> Option<Forgotten> {
    let [_word] = record::take(&mut rest)?;
    Some(Forgotten { now: record::take_micros(&mut rest)?, next: record::take_number(&mut rest)? })
}
