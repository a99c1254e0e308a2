//! Rules of one subject: read when the subject is first asked for, kept while there is room.
//!
//! There may be millions, so they are not in the snapshot. "This subject has none" is kept as well.
//! Tasks that miss the same subject at once wait for one query.
//!
//! A query that began before a change must not fill the cache after the change was noticed. The
//! cache's placeholders give this: evicting a subject also removes the placeholder of a query under
//! way, whose answer then goes to those who waited for it and is not kept.

use std::sync::Arc;

use hermod_core::SpaceId;
use hermod_core::limit::Index;
use quick_cache::sync::{Cache, DefaultLifecycle, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, Equivalent, Weighter};

/// Of which subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) space: SpaceId,
    pub(crate) subject: Box<str>,
}

/// The same, borrowed: a hit touches no reference count that all threads share.
#[derive(Hash)]
struct KeyRef<'a> {
    space: &'a SpaceId,
    subject: &'a str,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.subject == *key.subject && *self.space == key.space
    }
}

/// A subject with many rules takes the room of many.
#[derive(Clone)]
struct ByRules;

impl Weighter<Key, Arc<Index>> for ByRules {
    fn weight(&self, _key: &Key, own: &Arc<Index>) -> u64 {
        u64::try_from(own.len()).unwrap_or(u64::MAX).max(1)
    }
}

type Lifecycle = DefaultLifecycle<Key, Arc<Index>>;

/// The right, and the duty, to load one subject.
pub(crate) struct Vacancy<'a>(PlaceholderGuard<'a, Key, Arc<Index>, ByRules, DefaultHashBuilder, Lifecycle>);

impl Vacancy<'_> {
    /// Keeps what was loaded, unless the subject was evicted meanwhile.
    pub(crate) fn fill(self, own: &Arc<Index>) {
        let _evicted_meanwhile = self.0.insert(Arc::clone(own));
    }
}

/// The bounded cache of subjects: the rules of each that are its own, often none.
pub(crate) struct Subjects {
    cache: Cache<Key, Arc<Index>, ByRules, DefaultHashBuilder, Lifecycle>,
}

impl Subjects {
    pub(crate) fn new(subjects_max: usize) -> Subjects {
        let capacity = u64::try_from(subjects_max).unwrap_or(u64::MAX);
        Subjects { cache: Cache::with(subjects_max, capacity, ByRules, DefaultHashBuilder::default(), Lifecycle::default()) }
    }

    pub(crate) fn get(&self, space: &SpaceId, subject: &str) -> Option<Arc<Index>> {
        self.cache.get(&KeyRef { space, subject })
    }

    /// What is cached, else a vacancy; waits while somebody else has it.
    pub(crate) async fn get_or_vacancy(&self, key: &Key) -> Result<Arc<Index>, Vacancy<'_>> {
        self.cache.get_value_or_guard_async(key).await.map_err(Vacancy)
    }

    pub(crate) fn evict(&self, space: &SpaceId, subject: &str) {
        self.cache.remove(&KeyRef { space, subject });
    }

    pub(crate) fn clear(&self) {
        self.cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(subject: &str) -> Key {
        Key { space: SpaceId::default_space(), subject: subject.into() }
    }

    #[tokio::test]
    async fn a_load_that_began_before_an_eviction_is_not_kept() {
        for evict in [|s: &Subjects, k: &Key| s.evict(&k.space, &k.subject), |s: &Subjects, _: &Key| s.clear()] {
            let subjects = Subjects::new(10);
            let bot = key("bot");
            let Err(vacancy) = subjects.get_or_vacancy(&bot).await else { panic!("cached") };
            evict(&subjects, &bot);
            vacancy.fill(&Arc::default());
            assert!(subjects.get(&bot.space, &bot.subject).is_none());
            // The next one does keep.
            let Err(vacancy) = subjects.get_or_vacancy(&bot).await else { panic!("cached") };
            vacancy.fill(&Arc::default());
            assert!(subjects.get(&bot.space, &bot.subject).is_some());
        }
    }

    #[tokio::test]
    async fn the_cache_is_bounded() {
        let subjects = Subjects::new(100);
        for i in 0..10_000 {
            let Err(vacancy) = subjects.get_or_vacancy(&key(&i.to_string())).await else { panic!("cached") };
            vacancy.fill(&Arc::default());
        }
        assert!(subjects.cache.weight() <= 100);
    }
}
