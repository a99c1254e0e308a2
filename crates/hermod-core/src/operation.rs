//! The shape of every operation: what it does natively, how it goes to Lua, how the answer returns.

use std::fmt;

use crate::int::Micros;
use crate::partition::Place;
use crate::state::{Full, State};

/// One atomic step on one partition.
pub trait Operation: Send + Sync {
    /// What it answers. A refusal is an answer.
    type Answer: Answer;

    /// The Lua twin, fixed at compile time.
    const SCRIPT: Script;

    /// The partition it acts on.
    fn place(&self) -> &Place;

    /// The subject, recipient or realm it is about: what its idempotency key belongs to.
    fn home(&self) -> &str;

    /// Does it natively. `Err` means that nothing was changed because there is no room.
    fn apply(&self, state: &mut State, now: Micros) -> Result<Self::Answer, Full>;

    /// Appends its keys and arguments, in the order given in the script's header.
    fn call(&self, call: &mut ScriptCall);

    /// Whether its answer must wait for the disk or the replicas.
    fn is_durable(&self) -> bool;

    /// What a kept reply must say beyond the reply itself, because it may have changed by the time it
    /// is replayed: empty, or ` | ` and words.
    fn note(&self) -> String;
}

/// An answer in the form both twins share: words and integers.
pub trait Answer: Sized {
    /// As the script would reply.
    fn to_reply(&self) -> Reply;

    /// From what the script replied.
    fn from_reply(reply: &Reply) -> Result<Self, BadReply>;

    /// Whether an idempotency key keeps this answer. One that changed nothing need not be kept:
    /// asking again is safe, and may by then be answered better.
    fn is_kept(&self) -> bool;
}

/// A Lua script. All scripts open with the same text (`operation.lua`): the clock and idempotency.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// Its name in logs and metrics: `limit/check`.
    pub name: &'static str,
    /// The whole text.
    pub text: &'static str,
}

/// The script of an operation, by its path under `src/`: the common opening and its own text.
macro_rules! script {
    ($name:literal) => {
        $crate::operation::Script {
            name: $name,
            text: concat!(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/operation.lua")),
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/", $name, ".lua")),
            ),
        }
    };
}
pub(crate) use script;

/// Every script there is, so that a runner can prepare them.
pub const SCRIPTS: &[Script] = &[crate::limit::Check::SCRIPT];

/// One operation's part of a script call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptCall {
    /// Its KEYS, all under one hash tag.
    pub keys: Vec<String>,
    /// `fingerprint keep_us note`, or empty without an idempotency key.
    pub once: String,
    /// Its own argument.
    pub given: Vec<u8>,
}

/// A reply: words and integers, separated by single spaces.
///
/// One string instead of an array: cheaper to build, to send and to keep for an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(String);

impl Reply {
    /// What a script returned.
    pub fn new(text: impl Into<String>) -> Reply {
        Reply(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads it word by word.
    pub fn words(&self) -> Words<'_> {
        Words { all: &self.0, rest: self.0.split(' ') }
    }
}

/// A cursor over a reply.
#[derive(Debug)]
pub struct Words<'a> {
    all: &'a str,
    rest: std::str::Split<'a, char>,
}

impl<'a> Words<'a> {
    /// The next word, if any.
    pub fn next_word(&mut self) -> Option<&'a str> {
        self.rest.next()
    }

    /// The next word, which must be there.
    pub fn word(&mut self) -> Result<&'a str, BadReply> {
        self.rest.next().ok_or_else(|| self.bad("ends too early"))
    }

    /// The next word, which must be an integer both engines hold exactly.
    pub fn int(&mut self) -> Result<u64, BadReply> {
        let word = self.word()?;
        word.parse().ok().filter(|&n| n <= crate::int::INT_MAX).ok_or_else(|| self.bad("holds a word that is no integer"))
    }

    /// A fault at this point.
    pub fn bad(&self, what: &'static str) -> BadReply {
        BadReply { what, reply: self.all.to_owned() }
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
        write!(f, "the reply {:?} {}", self.reply, self.what)
    }
}
