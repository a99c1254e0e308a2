//! realm: when scheduled plays are due, as far as this server knows.
//!
//! The store has them; this only saves asking it all the time. What another server scheduled is found by asking now and then.

use std::collections::BTreeSet;

use hermod_core::{Micros, RealmId, SpaceId};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// When to look at which realm.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    times: Mutex<BTreeSet<(Micros, SpaceId, RealmId)>>,
    changed: Notify,
}

impl Agenda {
    /// Something is due in this realm then.
    pub(crate) fn note(&self, at: Micros, space: &SpaceId, realm: &RealmId) {
        let mut times = self.times.lock();
        let is_first = times.first().is_none_or(|(first, ..)| at < *first);
        times.insert((at, space.clone(), realm.clone()));
        if is_first {
            self.changed.notify_one();
        }
    }

    /// The realms in which something is due.
    pub(crate) fn due(&self, now: Micros) -> BTreeSet<(SpaceId, RealmId)> {
        let mut times = self.times.lock();
        let mut due = BTreeSet::new();
        while times.first().is_some_and(|(at, ..)| *at <= now) {
            due.extend(times.pop_first().map(|(_, space, realm)| (space, realm)));
        }
        due
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Micros> {
        self.times.lock().first().map(|(at, ..)| *at)
    }

    /// Ends when something is due earlier than was known.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
