//! The shape of every operation: what it does natively, how it goes to Lua, how the answer returns.

use std::fmt;

use smallvec::SmallVec;

use crate::int::Micros;
use crate::partition::Place;
use crate::script::Script;
use crate::state::{Full, State};

/// One atomic step on one partition.
pub trait Operation: Send + Sync {
    /// What it answers. A refusal is an answer.
    type Answer;

    /// The Lua twin, fixed at compile time.
    const SCRIPT: Script;

    /// The partition it acts on.
    fn place(&self) -> &Place;

    /// The subject, recipient or realm it is about: what its idempotency key belongs to.
    fn home(&self) -> &str;

    /// Does it natively. `Err` means that nothing was changed because there is no room.
    fn apply(&self, state: &mut State, now: Micros) -> Result<Self::Answer, Full>;

    /// Appends its keys and arguments, in the order given in the script's header. `about` is roughly
    /// the time, for what a script cannot compute, as the turns of a calendar; the time that counts
    /// is the script's own.
    fn call(&self, call: &mut ScriptCall, about: Micros);

    /// The answer as the script would reply it.
    fn reply(&self, answer: &Self::Answer) -> Reply;

    /// What the script's reply means; in a replay, with the note that was kept beside it.
    fn answer(&self, reply: &Reply, note: Option<&[u8]>) -> Result<Self::Answer, BadReply>;

    /// Whether its answer must wait for the disk or the replicas.
    fn is_durable(&self) -> bool;

    /// Whether it changes nothing, and still must not tell of what a crash could undo: whoever was told a number asks for what comes
    /// after it, and must not find it given out again.
    #[inline]
    fn tells_stored(&self) -> bool {
        false
    }

    /// Whether it makes room, or is the step before what does: it is done also when the store is full, and its answer kept. The twin of
    /// `frees` in Lua, which says it of a whole script.
    fn frees(&self) -> bool {
        false
    }

    /// Whether an idempotency key keeps this answer.
    fn is_kept(&self, answer: &Self::Answer) -> bool;

    /// What a kept reply must say beyond the reply itself, because it may have changed by the time it
    /// is replayed.
    fn note(&self, about: Micros) -> Vec<u8>;

    /// About how much memory that takes of the state which it may change without an idempotency key. One that is asked for all day
    /// looks at its own family only: to add up all of them takes longer than a check.
    #[inline]
    fn footprint(state: &State) -> usize
    where
        Self: Sized,
    {
        state.bytes()
    }

    /// The note of a reply that is replayed, where it is not kept beside it because it stands elsewhere in the state.
    fn recalled(&self, _reply: &Reply, _state: &State) -> Option<Vec<u8>> {
        None
    }
}

/// One operation's part of a script call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptCall {
    /// Its KEYS, all under one hash tag; the first is that of its idempotency key, if it has one.
    pub keys: SmallVec<[String; 1]>,
    /// `fingerprint keep_us note`, or empty without an idempotency key.
    pub once: Vec<u8>,
    /// Its own argument.
    pub given: Vec<u8>,
    /// What it may share with others of the same call, as the rules that apply to everyone: it is
    /// sent once for all that have the same.
    pub shared: Vec<u8>,
}

impl ScriptCall {
    /// Where its idempotency key is kept, if it has one.
    pub fn once_key(&self) -> Option<&String> {
        self.keys.first().filter(|_| !self.once.is_empty())
    }

    /// The keys that are its own.
    pub fn own_keys(&self) -> &[String] {
        self.keys.get(usize::from(!self.once.is_empty())..).unwrap_or_default()
    }

    /// Appends it to the argument of a call, for itself and for those after it that are like it but for
    /// their keys, `many` in all: `many u16, own keys u8, once length u32, own length u32, shared u16`, then both.
    /// `shared` says which of the shared arguments is its own, counted from 1.
    pub fn write(&self, many: u16, shared: u16, out: &mut Vec<u8>) {
        out.extend_from_slice(&many.to_le_bytes());
        out.push(u8::try_from(self.own_keys().len()).expect("an operation has few keys"));
        out.extend_from_slice(&u32::try_from(self.once.len()).expect("notes are bounded").to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.given.len()).expect("arguments are bounded").to_le_bytes());
        out.extend_from_slice(&shared.to_le_bytes());
        out.extend_from_slice(&self.once);
        out.extend_from_slice(&self.given);
    }

    /// Whether they differ in their keys only, so that one argument does for both. Who has an idempotency
    /// key is like nobody.
    pub fn is_like(&self, other: &ScriptCall) -> bool {
        let is_free = self.once.is_empty() && other.once.is_empty();
        is_free && self.keys.len() == other.keys.len() && self.given == other.given && self.shared == other.shared
    }
}

/// A reply: a small letter of the operation's own, and bytes; capital letters are `operation.lua`'s.
///
/// One string instead of an array: cheaper to build, to send and to keep for an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    bytes: Vec<u8>,
    now: Micros,
}

impl Reply {
    /// What was kept, or is to be: its time, if it matters, is in it.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply { bytes: bytes.into(), now: Micros::ZERO }
    }

    /// What a script returned at `now`.
    pub fn at(now: Micros, bytes: Vec<u8>) -> Reply {
        Reply { bytes, now }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it says that its operation failed: those after it in a call have not begun.
    pub fn is_failure(&self) -> bool {
        self.bytes.first() == Some(&b'X')
    }

    /// The script's time.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// A script replied what it never should.
    pub fn bad(&self, what: &'static str) -> BadReply {
        BadReply { what, reply: self.bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect() }
    }
}

/// A script replied what it never should: a bug here, or someone else's data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BadReply {
    what: &'static str,
    reply: String,
}

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reply {} {}", self.reply, self.what)
    }
}
