//! Asking twice is safe: an idempotency key keeps the answer of the operation it came with.
//!
//! The record lives in the operation's own partition and is written in the same atomic step, so
//! there is no moment at which the effect is there and the record is not. A key therefore belongs
//! to its home (the subject, the recipient, the realm): the same key for another home is another
//! key. Twin of `operation.lua`.

use crate::id::{Invalid, SpaceId};
use crate::int::Micros;
use crate::key;
use crate::operation::{Answer, BadReply, Operation, Reply, ScriptCall};
use crate::state::{Full, State};

/// How long an answer is kept.
pub const KEEP: Micros = Micros::saturating(72 * 3_600_000_000);

/// An idempotency key and the fingerprint of the request it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    key: String,
    fingerprint: u128,
}

impl Once {
    /// `key` is the caller's, 1-128 printable characters; `body` is what must be the same next time.
    pub fn new(key: &str, body: &[u8]) -> Result<Once, Invalid> {
        Once::check_key(key)?;
        Ok(Once { key: key.to_owned(), fingerprint: xxhash_rust::xxh3::xxh3_128(body) })
    }

    /// Whether this can be a key, here and wherever else keys are taken.
    pub fn check_key(key: &str) -> Result<(), Invalid> {
        if key.is_empty() || key.len() > 128 || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Invalid::new("Idempotency-Key", "must be 1 to 128 printable ASCII characters without spaces"));
        }
        Ok(())
    }

    /// The caller's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What the request is recognised by.
    pub fn fingerprint(&self) -> u128 {
        self.fingerprint
    }
}

/// An answer, and whether it was given before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<A> {
    /// Done now.
    Done(A),
    /// Done before, under the same key and for the same request; this is what was answered then.
    Replayed(A),
    /// The key was used for another request. Nothing was done.
    Conflict,
}

/// What is kept for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Of the request.
    pub fingerprint: u128,
    /// What was answered.
    pub reply: Reply,
}

/// Runs `op` natively, at most once for each key.
pub fn run<O: Operation>(op: &O, once: Option<&Once>, state: &mut State, now: Micros) -> Result<Outcome<O::Answer>, Full> {
    let Some(once) = once else { return op.apply(state, now).map(Outcome::Done) };
    let space: &SpaceId = &op.place().space;
    if let Some(kept) = state.onces.get(space, &once.key, op.home(), now) {
        if kept.fingerprint != once.fingerprint {
            return Ok(Outcome::Conflict);
        }
        // What is kept but not of this operation was another request, whatever its fingerprint.
        return Ok(O::Answer::from_reply(&kept.reply).map_or(Outcome::Conflict, Outcome::Replayed));
    }
    if state.is_full {
        return Err(Full);
    }
    let answer = op.apply(state, now)?;
    if answer.is_kept() {
        let reply = Reply::new(format!("{}{}", answer.to_reply().as_str(), op.note()));
        let kept = Kept { fingerprint: once.fingerprint, reply };
        state.onces.put(op.place(), &once.key, op.home(), kept, now.plus(KEEP), op.is_durable());
    }
    Ok(Outcome::Done(answer))
}

/// How `op` goes to its script.
pub fn call<O: Operation>(op: &O, once: Option<&Once>) -> ScriptCall {
    let mut call = ScriptCall::default();
    if let Some(once) = once {
        call.keys.push(key::once(op.place(), &once.key, op.home()));
        call.once = format!("{:032x} {KEEP}{}", once.fingerprint, op.note());
    }
    op.call(&mut call);
    call
}

/// What the script's reply means.
pub fn answer<A: Answer>(reply: &Reply) -> Result<Outcome<A>, BadReply> {
    if reply.as_str() == "conflict" {
        return Ok(Outcome::Conflict);
    }
    match reply.as_str().strip_prefix("replayed ") {
        Some(kept) => A::from_reply(&Reply::new(kept)).map(Outcome::Replayed),
        None => A::from_reply(reply).map(Outcome::Done),
    }
}
