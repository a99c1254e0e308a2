//! Moves what is to be moved, in bounded steps, from workers who are gone, drain or have begun anew. Twin of `tend.lua`.

use super::binding::Worker;
use super::claim::{Failing, exhaust};
use super::delivery::Number;
use super::line::Queue;
use super::owners::{LAST, TRIM_MAX};
use crate::int::Micros;
use crate::state::queues::Change;

/// So many recipients are moved on the way, by whoever has something else to do.
pub(super) const TENDED_SOME: usize = 10;

/// What a step of clearing up did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tended {
    /// How many deliveries were attempted for the last time.
    pub dead: u16,
    /// There is more to do.
    pub more: bool,
}

/// Moves what is to be moved, at most so many: what those have who are gone or drain, what was held before a worker began
/// anew, what is parked. On Redis the operations of one call move no more together than one of them may alone, and say that there is more.
pub(super) fn tend(change: &mut Change<'_>, failing: &Failing, most: usize) -> Tended {
    let mut tended = Tended::default();
    if !change.queue.owners.is_sticky {
        return tended;
    }
    let mut left = most;
    while left > 0 {
        let Some(name) = change.queue.owners.leaving.first().cloned() else { break };
        let Some(worker) = change.queue.owners.workers.get(&name).cloned() else { break };
        if !worker.is_draining || worker.gone.is_some() {
            let held: Vec<Number> = change.queue.held_by(&name).take(left).collect();
            for number in held {
                left -= 1;
                end_lease(change, number, failing, &mut tended);
            }
        }
        if left > 0 && (worker.is_draining || worker.gone.is_some()) {
            let heads: Vec<(Micros, Number)> = change.queue.due_of(&name).take(left).collect();
            for (at, number) in heads {
                left -= 1;
                change.queue.move_head(at, number);
            }
        }
        if left > 0 {
            let rest = Worker { is_leaving: false, ..worker };
            change.queue.keep_worker(&name, rest.gone.is_none().then_some(rest));
        }
    }
    if left > 0 && !change.queue.owners.ring.is_empty() {
        let parked: Vec<(Micros, Number)> = change.queue.due_of("").take(left).collect();
        change.queue.owners.is_adopting = true;
        for (at, number) in parked {
            change.queue.move_head(at, number);
        }
        change.queue.owners.is_adopting = false;
    }
    let owners = &change.queue.owners;
    tended.more = !owners.leaving.is_empty() || (!owners.ring.is_empty() && change.queue.parked() > 0);
    tended
}

/// A holder is gone: its delivery has its place again, or has failed for good.
pub(super) fn end_lease(change: &mut Change<'_>, number: Number, failing: &Failing, tended: &mut Tended) {
    let Some(slot) = change.queue.slot(number) else { return };
    let (meta, _) = slot.meta();
    if slot.attempts() < meta.max_attempts.unwrap_or(failing.max_attempts) {
        let due = meta.due;
        // Claimed ahead, it still has its pause after the last attempt before it, and its recipient waits for it.
        let at = if slot.at > change.queue.owners.now { slot.at } else { due };
        change.queue.give_back(number, at, at > due);
    } else {
        exhaust(change, number, failing.drops, change.queue.owners.now);
        tended.dead += 1;
    }
}

impl Queue {
    /// Gives the first of a recipient to whoever is to have it.
    fn move_head(&mut self, at: Micros, number: Number) {
        let to: Box<str> = self.slot(number).map(|slot| slot.meta().0.to.into()).unwrap_or_default();
        self.drop_due(at, number, &to);
        self.put_due(at, number, &to);
    }

    /// Gives a recipient to whoever is to have it, if nothing of it is held.
    pub(super) fn move_line(&mut self, to: &str) {
        if let Some((at, number)) = self.waiting_head(to) {
            self.move_head(at, number);
        }
    }

    /// Forgets the owners of recipients for whom there was nothing for so long. Those for whom there is something again are found here.
    pub(super) fn trim(&mut self, idle_after: Micros) {
        let before = self.owners.now.since(idle_after);
        let over: Vec<Box<str>> = self.owners.idle.range(..=(before, Box::from(LAST))).take(TRIM_MAX).map(|(_, to)| to.clone()).collect();
        for to in over {
            self.set_idle(&to, false);
            if self.has_line(&to) {
                self.write_binding(&to);
            } else {
                self.keep_binding(&to, None);
            }
        }
    }
}
