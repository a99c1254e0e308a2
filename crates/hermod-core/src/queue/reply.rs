//! Fetches what its holder replied to a delivery, once. Twin of `reply.lua`.

use super::delivery::Number;
use crate::id::QueueId;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::queues::Replied;
use crate::state::{Full, State, Value};

/// Fetches the reply to a delivery.
#[derive(Clone, Debug)]
pub struct Fetch {
    place: Place,
    queue: QueueId,
    number: Number,
}

impl Fetch {
    /// `place` is that of the delivery.
    pub fn new(place: Place, queue: QueueId, number: Number) -> Fetch {
        Fetch { place, queue, number }
    }
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The time of the answer.
    pub now: Micros,
    /// The reply, if there is one.
    pub reply: Option<Replied>,
}

impl Operation for Fetch {
    type Answer = Fetched;

    const SCRIPT: Script = Script::short("queue/reply");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Fetched, Full> {
        let reply = state.queues.change(&self.place, &self.queue, |change| change.take_reply(self.number, now));
        Ok(Fetched { now, reply: reply.flatten() })
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        record::put(&mut call.given, [self.number]);
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn is_kept(&self, _answer: &Fetched) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Fetched) -> Reply {
        let mut out = vec![b'y'];
        record::put(&mut out, [answer.now.get()]);
        if let Some(reply) = &answer.reply {
            reply.write(&mut out);
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Fetched, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about a reply"))
    }
}

fn read(mut rest: &[u8]) -> Option<Fetched> {
    let [_word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    Some(Fetched { now, reply: Replied::read(rest) })
}
