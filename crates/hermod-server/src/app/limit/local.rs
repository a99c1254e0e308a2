//! The limiter that takes over while the store cannot be reached: the same meters, in this server's memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use hermod_core::limit::{Act, Check, Explained, Rules};
use hermod_core::{Micros, Operation, Partitions, Place, SpaceId, State, Subject};
use parking_lot::Mutex;

use super::{CheckAnswer, CheckAsk, Ran};

/// Beyond this no new counters are made; who has none is let through, as the policy is to serve.
const BYTES_MAX: usize = 64 << 20;

/// Counters that live as long as an outage does. One shard may be away while the others answer, so each place has
/// its own.
#[derive(Debug)]
pub(crate) struct Local {
    partitions: Partitions,
    is_used: AtomicBool,
    states: Mutex<HashMap<Place, State>>,
}

impl Local {
    pub(crate) fn new(partitions: Partitions) -> Local {
        Local { partitions, is_used: AtomicBool::new(false), states: Mutex::default() }
    }

    /// The store answers again for this place: it knows better.
    pub(super) fn forget(&self, place: &Place) {
        // Looked at for every answer; locked only if there is something.
        if self.is_used.load(Ordering::Relaxed) {
            let mut states = self.states.lock();
            states.remove(place);
            self.is_used.store(!states.is_empty(), Ordering::Relaxed);
        }
    }

    /// What a limiter of our own says. The shared rules are those of this server's callers alone.
    pub(super) fn check(&self, space: &SpaceId, ask: &CheckAsk, own: &Rules, shared: &Rules, now: Micros) -> CheckAnswer {
        let mut states = self.states.lock();
        self.is_used.store(true, Ordering::Relaxed);
        let is_full = states.values().map(|state| size_of::<State>() + state.limits.bytes()).sum::<usize>() >= BYTES_MAX;
        let mut run = |subject: Option<&Subject>, act: Act, rules: &Rules| {
            let place = self.partitions.place(space, subject.map_or("", Subject::as_str));
            let check = Check::new(&place, subject, act, ask.cost, rules);
            let known = if is_full { states.get_mut(&place) } else { Some(states.entry(place.clone()).or_insert_with(|| State::new(0))) };
            let checked = known.and_then(|state| {
                state.is_full = is_full;
                check.apply(state, now).ok()
            });
            let checked = checked.map_or_else(|| Explained::unlimited(now, ask.cost), |checked| checked.explained(rules));
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
