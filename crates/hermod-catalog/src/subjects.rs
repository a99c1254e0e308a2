//! What is one subject's own: read when the subject is first asked for, kept while there is room.
//!
//! Rules and messages for one subject may be millions, so they are not in the snapshot. "This subject
//! has none" is kept as well. Tasks that miss the same subject at once wait for one query.
//!
//! A query that began before a change must not fill the cache after the change was noticed. The
//! cache's placeholders give this: evicting a subject also removes the placeholder of a query under
//! way, whose answer then goes to those who waited for it and is not kept.

use std::hash::Hash;
use std::sync::Arc;

use hermod_core::SpaceId;
use quick_cache::sync::{Cache, DefaultLifecycle, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, Equivalent, Weighter};

/// Of which subject, and of which part of its space: all rules (`()`), or the deck of this epoch (`u64`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key<P> {
    pub(crate) space: SpaceId,
    pub(crate) part: P,
    pub(crate) subject: Box<str>,
}

/// The same, borrowed: a hit touches no reference count that all threads share.
#[derive(Hash)]
struct KeyRef<'a, P> {
    space: &'a SpaceId,
    part: &'a P,
    subject: &'a str,
}

impl<P: PartialEq> Equivalent<Key<P>> for KeyRef<'_, P> {
    fn equivalent(&self, key: &Key<P>) -> bool {
        *self.subject == *key.subject && *self.part == key.part && *self.space == key.space
    }
}

/// What is a subject's own.
pub(crate) trait Own {
    /// How much room it takes, where a subject that has little takes one.
    fn weight(&self) -> u64;
}

/// A subject with much takes the room of many.
#[derive(Clone)]
struct ByOwn;

impl<P, V: Own> Weighter<Key<P>, Arc<V>> for ByOwn {
    fn weight(&self, _key: &Key<P>, own: &Arc<V>) -> u64 {
        own.weight().max(1)
    }
}

type Lifecycle<P, V> = DefaultLifecycle<Key<P>, Arc<V>>;

/// The right, and the duty, to load one subject.
pub(crate) struct Vacancy<'a, P, V: Own>(PlaceholderGuard<'a, Key<P>, Arc<V>, ByOwn, DefaultHashBuilder, Lifecycle<P, V>>);

impl<P: Eq + Hash, V: Own> Vacancy<'_, P, V> {
    /// Keeps what was loaded, unless the subject was evicted meanwhile.
    pub(crate) fn fill(self, own: &Arc<V>) {
        let _evicted_meanwhile = self.0.insert(Arc::clone(own));
    }
}

/// The bounded cache of subjects: what each has of its own, often nothing.
pub(crate) struct Subjects<P, V: Own> {
    cache: Cache<Key<P>, Arc<V>, ByOwn, DefaultHashBuilder, Lifecycle<P, V>>,
}

impl<P: Clone + Eq + Hash, V: Own> Subjects<P, V> {
    pub(crate) fn new(subjects_max: usize) -> Subjects<P, V> {
        let capacity = u64::try_from(subjects_max).unwrap_or(u64::MAX);
        Subjects { cache: Cache::with(subjects_max, capacity, ByOwn, DefaultHashBuilder::default(), Lifecycle::default()) }
    }

    pub(crate) fn get(&self, space: &SpaceId, part: &P, subject: &str) -> Option<Arc<V>> {
        self.cache.get(&KeyRef { space, part, subject })
    }

    /// What is cached, else a vacancy; waits while somebody else has it.
    pub(crate) async fn get_or_vacancy(&self, key: &Key<P>) -> Result<Arc<V>, Vacancy<'_, P, V>> {
        self.cache.get_value_or_guard_async(key).await.map_err(Vacancy)
    }

    pub(crate) fn evict(&self, space: &SpaceId, part: &P, subject: &str) {
        self.cache.remove(&KeyRef { space, part, subject });
    }

    pub(crate) fn clear(&self) {
        self.cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use hermod_core::limit::Index;

    use super::*;

    type Rules = Subjects<(), Index>;

    fn key(subject: &str) -> Key<()> {
        Key { space: SpaceId::default_space(), part: (), subject: subject.into() }
    }

    #[tokio::test]
    async fn a_load_that_began_before_an_eviction_is_not_kept() {
        for evict in [|s: &Rules, k: &Key<()>| s.evict(&k.space, &(), &k.subject), |s: &Rules, _: &Key<()>| s.clear()] {
            let subjects = Rules::new(10);
            let bot = key("bot");
            let Err(vacancy) = subjects.get_or_vacancy(&bot).await else { panic!("cached") };
            evict(&subjects, &bot);
            vacancy.fill(&Arc::default());
            assert!(subjects.get(&bot.space, &(), &bot.subject).is_none());
            // The next one does keep.
            let Err(vacancy) = subjects.get_or_vacancy(&bot).await else { panic!("cached") };
            vacancy.fill(&Arc::default());
            assert!(subjects.get(&bot.space, &(), &bot.subject).is_some());
        }
    }

    #[tokio::test]
    async fn the_cache_is_bounded() {
        let subjects = Rules::new(100);
        for i in 0..10_000 {
            let Err(vacancy) = subjects.get_or_vacancy(&key(&i.to_string())).await else { panic!("cached") };
            vacancy.fill(&Arc::default());
        }
        assert!(subjects.cache.weight() <= 100);
    }
}
