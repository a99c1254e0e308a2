//! realm: when scheduled plays are due, as far as this server knows.
//!
//! The store has them; this only saves asking it all the time. What another server scheduled is found by asking now and then.

use std::collections::{BTreeSet, HashMap};

use hermod_core::{Micros, RealmId, SpaceId};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// When to look at which realm, by this server's clock.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    times: Mutex<Times>,
    changed: Notify,
}

/// A realm has one time, the first of those that are known.
#[derive(Debug, Default)]
struct Times {
    first: BTreeSet<(Micros, SpaceId, RealmId)>,
    of_realm: HashMap<(SpaceId, RealmId), Micros>,
}

impl Agenda {
    /// Something is due in this realm then.
    pub(crate) fn note(&self, at: Micros, space: &SpaceId, realm: &RealmId) {
        let mut times = self.times.lock();
        let name = (space.clone(), realm.clone());
        if let Some(known) = times.of_realm.get(&name).copied() {
            if known <= at {
                return;
            }
            times.first.remove(&(known, space.clone(), realm.clone()));
        }
        let is_first = times.first.first().is_none_or(|(first, ..)| at < *first);
        times.of_realm.insert(name, at);
        times.first.insert((at, space.clone(), realm.clone()));
        if is_first {
            self.changed.notify_one();
        }
    }

    /// The realms in which something is due.
    pub(crate) fn due(&self, now: Micros) -> BTreeSet<(SpaceId, RealmId)> {
        let mut times = self.times.lock();
        let mut due = BTreeSet::new();
        while times.first.first().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, space, realm)) = times.first.pop_first() else { break };
            let name = (space, realm);
            times.of_realm.remove(&name);
            due.insert(name);
        }
        due
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Micros> {
        self.times.lock().first.first().map(|(at, ..)| *at)
    }

    /// Ends when something is due earlier than was known.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_is_looked_at_once_at_the_first_of_its_times() {
        let (agenda, space) = (Agenda::default(), SpaceId::new("team").unwrap());
        let (ajo, other) = (RealmId::new("ajo").unwrap(), RealmId::new("other").unwrap());
        let at = |us: u64| Micros::saturating(us);
        for (us, realm) in [(50, &ajo), (30, &ajo), (70, &ajo), (40, &other), (30, &ajo)] {
            agenda.note(at(us), &space, realm);
        }
        assert_eq!(agenda.next(), Some(at(30)));
        assert!(agenda.due(at(29)).is_empty());
        assert_eq!(agenda.due(at(30)).into_iter().collect::<Vec<_>>(), [(space.clone(), ajo.clone())]);
        assert_eq!(agenda.due(at(90)).into_iter().collect::<Vec<_>>(), [(space.clone(), other)]);
        agenda.note(at(20), &space, &ajo);
        assert_eq!(agenda.due(at(20)).len(), 1, "it is noted again after it was looked at");
    }
}
