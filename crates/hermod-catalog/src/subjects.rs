//! Rules that have a subject: read when the subject is first asked for, kept while there is room.
//!
//! There may be millions, so they are not in the snapshot. "This subject has none" is kept as well.
//! Tasks that miss the same subject at once wait for one query.
//!
//! A query that began before a change must not fill the cache after the change was noticed. The
//! cache's placeholders give this: evicting a subject also removes the placeholder of a query under
//! way, whose answer then goes to those who waited for it and is not kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hermod_core::limit::{Limited, Rule};
use hermod_core::{Action, Invalid, SpaceId, Subject};
use quick_cache::sync::{Cache, DefaultLifecycle, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, Equivalent, Weighter};

use crate::snapshot::{by_action, sort};

/// Of which subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) space: SpaceId,
    pub(crate) subject: Subject,
}

/// The same, borrowed: a hit touches no reference count that all threads share.
#[derive(Hash)]
struct KeyRef<'a> {
    space: &'a SpaceId,
    subject: &'a Subject,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.subject == key.subject && *self.space == key.space
    }
}

/// One subject's own rules; often none.
#[derive(Default)]
pub(crate) struct Own {
    count: u64,
    actions: HashMap<Action, OwnAction>,
}

struct OwnAction {
    own: Vec<Limited>,
    /// The last merge, valid as long as everyone's rules are the very same list.
    merged: ArcSwapOption<Merged>,
}

struct Merged {
    everyone: Arc<[Limited]>,
    rules: Arc<[Limited]>,
}

impl Own {
    pub(crate) fn new(rules: &[Rule]) -> Result<Own, Invalid> {
        let actions = by_action(rules)?.into_iter().map(|(action, own)| (action, OwnAction { own, merged: ArcSwapOption::empty() }));
        Ok(Own { count: u64::try_from(rules.len()).unwrap_or(u64::MAX), actions: actions.collect() })
    }

    /// The rules that apply: the subject's own, and everyone's of other names.
    pub(crate) fn with_everyones(&self, action: &Action, everyone: &Arc<[Limited]>) -> Arc<[Limited]> {
        let Some(OwnAction { own, merged }) = self.actions.get(action) else { return Arc::clone(everyone) };
        if let Some(last) = merged.load().as_ref().filter(|last| Arc::ptr_eq(&last.everyone, everyone)) {
            return Arc::clone(&last.rules);
        }
        let others = everyone.iter().filter(|theirs| own.iter().all(|mine| mine.name != theirs.name));
        let mut rules: Vec<Limited> = own.iter().chain(others).cloned().collect();
        sort(&mut rules);
        let rules: Arc<[Limited]> = rules.into();
        merged.store(Some(Arc::new(Merged { everyone: Arc::clone(everyone), rules: Arc::clone(&rules) })));
        rules
    }
}

/// A subject with many rules takes the room of many.
#[derive(Clone)]
struct ByRules;

impl Weighter<Key, Arc<Own>> for ByRules {
    fn weight(&self, _key: &Key, own: &Arc<Own>) -> u64 {
        own.count.max(1)
    }
}

type Lifecycle = DefaultLifecycle<Key, Arc<Own>>;

/// The right, and the duty, to load one subject.
pub(crate) struct Vacancy<'a>(PlaceholderGuard<'a, Key, Arc<Own>, ByRules, DefaultHashBuilder, Lifecycle>);

impl Vacancy<'_> {
    /// Keeps what was loaded, unless the subject was evicted meanwhile.
    pub(crate) fn fill(self, own: &Arc<Own>) {
        let _evicted_meanwhile = self.0.insert(Arc::clone(own));
    }
}

/// The bounded cache of subjects.
pub(crate) struct Subjects {
    cache: Cache<Key, Arc<Own>, ByRules, DefaultHashBuilder, Lifecycle>,
}

impl Subjects {
    pub(crate) fn new(subjects_max: usize) -> Subjects {
        let capacity = u64::try_from(subjects_max).unwrap_or(u64::MAX);
        Subjects { cache: Cache::with(subjects_max, capacity, ByRules, DefaultHashBuilder::default(), Lifecycle::default()) }
    }

    pub(crate) fn get(&self, space: &SpaceId, subject: &Subject) -> Option<Arc<Own>> {
        self.cache.get(&KeyRef { space, subject })
    }

    /// What is cached, else a vacancy; waits while somebody else has it.
    pub(crate) async fn get_or_vacancy(&self, key: &Key) -> Result<Arc<Own>, Vacancy<'_>> {
        self.cache.get_value_or_guard_async(key).await.map_err(Vacancy)
    }

    pub(crate) fn evict(&self, space: &SpaceId, subject: &Subject) {
        self.cache.remove(&KeyRef { space, subject });
    }

    pub(crate) fn clear(&self) {
        self.cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::no_rules;

    fn key(subject: &str) -> Key {
        Key { space: SpaceId::default_space(), subject: Subject::new(subject).unwrap() }
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

    #[test]
    fn a_subjects_own_rule_wins_and_the_merge_is_made_once() {
        let rule = |id: &str, name: &str, limit: u64| {
            let json = format!(r#"{{"id":"{id}","name":"{name}","action":"a","limit":{limit},"per":"1s"}}"#);
            serde_json::from_str::<Rule>(&json).unwrap()
        };
        let action = Action::new("a").unwrap();
        let everyone: Arc<[Limited]> = by_action(&[rule("2", "daily", 5), rule("1", "burst", 1)]).unwrap()[&action].clone().into();
        let own = Own::new(&[rule("9", "daily", 50)]).unwrap();
        let merged = own.with_everyones(&action, &everyone);
        assert_eq!(merged.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(), ["1", "9"]);
        assert!(Arc::ptr_eq(&merged, &own.with_everyones(&action, &everyone)));
        assert_eq!(own.with_everyones(&action, &no_rules()).len(), 1);
        let other = Action::new("b").unwrap();
        assert!(Arc::ptr_eq(&everyone, &own.with_everyones(&other, &everyone)));
    }
}
