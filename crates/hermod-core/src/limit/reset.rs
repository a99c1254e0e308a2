//! Forgets what a subject has used under some rules. Twin of `reset.lua`.

use crate::id::Subject;
use crate::int::Micros;
use crate::key;
use crate::limit::limited::Rules;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// Forgets what `subject` has used under these rules.
#[derive(Clone, Debug)]
pub struct Reset {
    place: Place,
    subject: Subject,
    rules: Rules,
}

impl Reset {
    /// `place` is that of the subject.
    pub fn new(place: Place, subject: Subject, rules: Rules) -> Reset {
        Reset { place, subject, rules }
    }
}

/// What was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetAnswer {
    /// How many records that still meant something.
    pub forgotten: u64,
}

impl Operation for Reset {
    type Answer = ResetAnswer;

    const SCRIPT: Script = Script::short("limit/reset");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.subject.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<ResetAnswer, Full> {
        let mut forgotten = 0;
        for rule in self.rules.iter() {
            let was_live = state.limits.remove(&self.place, &rule.id, self.home(), now, rule.durable);
            forgotten += u64::from(was_live);
        }
        Ok(ResetAnswer { forgotten })
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::limit(&self.place, self.home()));
        call.given.extend_from_slice(&u16::try_from(self.rules.len()).unwrap_or(u16::MAX).to_le_bytes());
        for rule in self.rules.iter() {
            call.given.extend_from_slice(&rule.tag().bytes());
        }
    }

    fn is_durable(&self) -> bool {
        self.rules.iter().any(|rule| rule.durable)
    }

    fn is_kept(&self, _answer: &ResetAnswer) -> bool {
        true
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &ResetAnswer) -> Reply {
        let mut bytes = vec![b'a'];
        bytes.extend_from_slice(&answer.forgotten.to_le_bytes());
        Reply::new(bytes)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<ResetAnswer, BadReply> {
        let mut rest = reply.as_bytes();
        let [_word] = record::take(&mut rest).ok_or_else(|| reply.bad("is empty"))?;
        let forgotten = record::take(&mut rest).map(u64::from_le_bytes).ok_or_else(|| reply.bad("has no number"))?;
        Ok(ResetAnswer { forgotten })
    }
}
