//! Tells, or asks, what is known of a subject. Twin of `subject.lua`.

use crate::id::Subject;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::picks::Stored;
use crate::state::{Full, State};

/// What is to be done with a profile.
#[derive(Clone, Debug)]
pub struct About {
    place: Place,
    subject: Subject,
    act: Act,
}

#[derive(Clone, Debug)]
enum Act {
    Ask,
    Tell(Box<[u8]>),
    Forget,
}

/// What is known of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Grows with every change; 0: nothing is known.
    pub version: u64,
    /// The profile, as it was given.
    pub bytes: Box<[u8]>,
    /// Whether there was something to forget.
    pub was_known: bool,
}

impl About {
    /// Asks.
    pub fn ask(place: Place, subject: Subject) -> About {
        About { place, subject, act: Act::Ask }
    }

    /// Replaces what is known.
    pub fn tell(place: Place, subject: Subject, profile: Box<[u8]>) -> About {
        About { place, subject, act: Act::Tell(profile) }
    }

    /// Forgets it.
    pub fn forget(place: Place, subject: Subject) -> About {
        About { place, subject, act: Act::Forget }
    }
}

impl Operation for About {
    type Answer = Known;

    const SCRIPT: Script = Script::short("pick/subject");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.subject.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Known, Full> {
        let before = state.profiles.get(&self.place.space, self.subject.as_str()).cloned();
        let was_known = before.is_some();
        let before = before.unwrap_or_default();
        match &self.act {
            Act::Ask => Ok(Known { version: before.version, bytes: before.bytes, was_known }),
            Act::Tell(_) if state.is_full => Err(Full),
            Act::Tell(bytes) => {
                // It never comes twice, also after it was forgotten.
                let version = now.get().max(before.version + 1);
                state.profiles.put(&self.place, self.subject.as_str(), Stored { version, bytes: bytes.clone() });
                Ok(Known { version, bytes: bytes.clone(), was_known })
            }
            Act::Forget => {
                state.profiles.remove(&self.place, self.subject.as_str());
                Ok(Known { version: 0, bytes: Box::default(), was_known })
            }
        }
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::subject(&self.place, &self.subject));
        let (act, bytes): (u8, &[u8]) = match &self.act {
            Act::Ask => (0, &[]),
            Act::Tell(bytes) => (1, bytes),
            Act::Forget => (2, &[]),
        };
        call.given.push(act);
        call.given.extend_from_slice(&u32::try_from(bytes.len()).expect("profiles are bounded").to_le_bytes());
        call.given.extend_from_slice(bytes);
    }

    fn is_durable(&self) -> bool {
        !matches!(self.act, Act::Ask)
    }

    fn is_kept(&self, _answer: &Known) -> bool {
        !matches!(self.act, Act::Ask)
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Known) -> Reply {
        let mut out = vec![b'k', u8::from(answer.was_known)];
        record::put(&mut out, [answer.version]);
        out.extend_from_slice(&answer.bytes);
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Known, BadReply> {
        let mut rest = reply.as_bytes();
        let mut read = || {
            let [_, was_known] = record::take(&mut rest).filter(|[word, _]| *word == b'k')?;
            Some((record::take_number(&mut rest)?, was_known != 0))
        };
        let (version, was_known) = read().ok_or_else(|| reply.bad("is none about a subject"))?;
        Ok(Known { version, bytes: rest.into(), was_known })
    }
}
