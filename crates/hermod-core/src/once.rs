//! Asking twice is safe: an idempotency key keeps the answer of the operation it came with.
//!
//! The record lives in the operation's own partition and is written in the same atomic step, so
//! there is no moment at which the effect is there and the record is not. A key therefore belongs
//! to its home (the subject, the recipient, the realm): the same key for another home is another
//! key. Twin of `operation.lua`.

use std::fmt;

use crate::id::{Invalid, SpaceId};
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::record;
use crate::state::{Full, State, Value};

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

    /// A name that follows from the key and the request: in a replay it is the same.
    pub fn token(&self) -> String {
        format!("{:032x}", self.number())
    }

    /// The same as a number.
    pub fn number(&self) -> u128 {
        let bytes = [self.key.as_bytes(), &self.fingerprint.to_le_bytes()].concat();
        xxhash_rust::xxh3::xxh3_128(&bytes)
    }

    /// The key of a part of the request, where it is done in several steps. No caller's key holds a space.
    #[must_use]
    pub fn part(&self, part: impl fmt::Display) -> Once {
        Once { key: format!("{} {part}", self.key), fingerprint: self.fingerprint }
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
    /// What must be known to understand it.
    pub note: Box<[u8]>,
}

impl Kept {
    /// As Redis holds it: `until u64, fingerprint [16], reply length u32, reply, note`.
    pub fn unpack(mut rest: &[u8]) -> Option<(Kept, Micros)> {
        let until = record::take_micros(&mut rest)?;
        Some((Kept::read(rest)?, until))
    }
}

impl Value for Kept {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        let reply = self.reply.as_bytes();
        out.extend_from_slice(&u32::try_from(reply.len()).expect("replies are bounded").to_le_bytes());
        out.extend_from_slice(reply);
        out.extend_from_slice(&self.note);
    }

    fn read(mut bytes: &[u8]) -> Option<Kept> {
        let fingerprint = u128::from_le_bytes(record::take(&mut bytes)?);
        let length = u32::from_le_bytes(record::take(&mut bytes)?);
        let (reply, note) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        Some(Kept { fingerprint, reply: Reply::new(reply), note: note.into() })
    }

    fn heap_bytes(&self) -> usize {
        self.reply.as_bytes().len() + self.note.len()
    }

    fn to_text(&self, until: Micros) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{until} {:032x} {} {}", self.fingerprint, hex(self.reply.as_bytes()), hex(&self.note))
    }
}

/// Runs `op` natively, at most once for each key.
#[inline]
pub fn run<O: Operation>(op: &O, once: Option<&Once>, state: &mut State, now: Micros) -> Result<Outcome<O::Answer>, Full> {
    match once {
        None => op.apply(state, now).map(Outcome::Done),
        Some(once) => run_once(op, once, state, now),
    }
}

fn run_once<O: Operation>(op: &O, once: &Once, state: &mut State, now: Micros) -> Result<Outcome<O::Answer>, Full> {
    let space: &SpaceId = &op.place().space;
    if let Some(kept) = state.onces.get(space, &once.key, op.home(), now) {
        if kept.fingerprint != once.fingerprint {
            return Ok(Outcome::Conflict);
        }
        let recalled = op.recalled(&kept.reply, state);
        let note = recalled.as_deref().unwrap_or(&kept.note);
        // What is kept but not of this operation was another request, whatever its fingerprint.
        return Ok(op.answer(&kept.reply, Some(note)).map_or(Outcome::Conflict, Outcome::Replayed));
    }
    if state.is_full && !op.frees() {
        return Err(Full);
    }
    let answer = op.apply(state, now)?;
    if op.is_kept(&answer) {
        let kept = Kept { fingerprint: once.fingerprint, reply: op.reply(&answer), note: op.note(now).into() };
        state.onces.put(op.place(), &once.key, op.home(), kept, now.plus(KEEP), op.is_durable());
    }
    Ok(Outcome::Done(answer))
}

/// How `op` goes to its script.
pub fn call<O: Operation>(op: &O, once: Option<&Once>, about: Micros) -> ScriptCall {
    let mut call = ScriptCall::default();
    if let Some(once) = once {
        call.keys.push(key::once(op.place(), &once.key, op.home()));
        call.once.extend_from_slice(&once.fingerprint.to_le_bytes());
        call.once.extend_from_slice(&KEEP.get().to_le_bytes());
        call.once.extend_from_slice(&op.note(about));
    }
    op.call(&mut call, about);
    call
}

/// What came back from a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returned<A> {
    /// An answer.
    Outcome(Outcome<A>),
    /// What was given was about another time; this is the right one. Nothing was done.
    AskAgain(Micros),
    /// The script failed; what it says of that is for the log.
    Failed(String),
}

/// What the script's reply means.
pub fn answer<O: Operation>(op: &O, reply: &Reply) -> Result<Returned<O::Answer>, BadReply> {
    let outcome = match reply.as_bytes() {
        b"C" => Outcome::Conflict,
        [b'R', kept @ ..] => {
            let mut rest = kept;
            let length = record::take(&mut rest).map(u32::from_le_bytes).and_then(|length| usize::try_from(length).ok());
            let parts = length.and_then(|length| rest.split_at_checked(length));
            let (kept, note) = parts.ok_or_else(|| reply.bad("is no kept answer"))?;
            Outcome::Replayed(op.answer(&Reply::new(kept), Some(note))?)
        }
        [b'T', time @ ..] => {
            let now = <[u8; 8]>::try_from(time).ok().and_then(|bytes| Micros::new(u64::from_le_bytes(bytes)));
            return Ok(Returned::AskAgain(now.ok_or_else(|| reply.bad("is no time"))?));
        }
        [b'X', why @ ..] => return Ok(Returned::Failed(String::from_utf8_lossy(why).into_owned())),
        _ => Outcome::Done(op.answer(reply, None)?),
    };
    Ok(Returned::Outcome(outcome))
}
