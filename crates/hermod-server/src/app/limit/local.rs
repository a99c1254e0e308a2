//! The limiter that takes over while the store cannot be reached: the same meters, in this server's memory.

use hermod_core::limit::{Act, Check, Explained, Rules};
use hermod_core::{Micros, Operation, Partitions, SpaceId, State, Subject};
use parking_lot::Mutex;

use super::{CheckAnswer, CheckAsk, Ran};

/// Beyond this no new counters are made; who has none is let through, as the policy is to serve.
const BYTES_MAX: usize = 64 << 20;

/// Counters that live as long as an outage does.
#[derive(Debug)]
pub(crate) struct Local(Mutex<Option<Box<State>>>);

impl Local {
    pub(crate) fn new() -> Local {
        Local(Mutex::new(None))
    }

    /// The store answers again: it knows better.
    pub(super) fn forget(&self) {
        // Looked at for every answer; taken only if there is something.
        if let Some(mut state) = self.0.try_lock()
            && state.is_some()
        {
            *state = None;
        }
    }

    /// What a limiter of our own says. The shared rules are those of this server's callers alone.
    pub(super) fn check(&self, space: &SpaceId, ask: &CheckAsk, own: &Rules, shared: &Rules, now: Micros) -> CheckAnswer {
        let mut state = self.0.lock();
        let state = state.get_or_insert_with(|| Box::new(State::new(0)));
        state.is_full = state.bytes() >= BYTES_MAX;
        let mut run = |subject: Option<&Subject>, act: Act, rules: &Rules| {
            let place = Partitions::DEFAULT.place(space, subject.map_or("", Subject::as_str));
            let check = Check::new(&place, subject, act, ask.cost, rules);
            let checked = check.apply(state, now).map_or_else(|_| Explained::unlimited(now, ask.cost), |checked| checked.explained(rules));
            Ran { checked, durability: hermod_engine::Durability::Deferred, is_charged: false, is_reserved: false, is_replayed: false }
        };
        let first = run(None, Act::Check, shared);
        let mut answer = CheckAnswer::of(first.checked.clone());
        if answer.is_allowed() {
            let second = run(Some(&ask.subject), Act::Check, own);
            if second.checked.verdict() != hermod_core::limit::Verdict::Allowed {
                run(None, Act::Undo, &first.checked.admitting());
                answer = CheckAnswer::new(run(None, Act::Peek, shared));
            }
            answer = answer.and(second);
        }
        answer.durability = None;
        answer
    }
}
