//! Refusals that are known to stand: a flood of refused calls costs no call of the store.
//!
//! A refusal holds until its `retry_at`, unless something is given back or a rule changes. What
//! happens on this server is known at once. What happens on another is not told, so nothing is
//! remembered for longer than a second: that is how soon every change is seen everywhere.
//!
//! Time is measured by this server's steady clock, so that it does not matter how far its clock is
//! from the store's, and from before the store was asked: an answer that was long under way does not
//! stand for longer than it says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hermod_core::{Micros, SpaceId, Subject};
use quick_cache::Equivalent;
use quick_cache::sync::Cache;

use super::{CheckAnswer, CheckAsk};
use crate::app::generations::Generations;

/// So many refusals are remembered.
const REFUSALS_MAX: usize = 100_000;
/// Nothing is remembered for longer.
const LONGEST: Duration = Duration::from_secs(1);

/// Refusals that are known to stand.
pub(crate) struct Refusals {
    cache: Cache<Key, Arc<Refusal>>,
    generations: Generations,
}

impl std::fmt::Debug for Refusals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusals").field("count", &self.cache.len()).finish()
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    space: SpaceId,
    subject: Subject,
    action: hermod_core::Action,
    cost: u64,
}

#[derive(Hash)]
struct KeyRef<'a> {
    space: &'a SpaceId,
    subject: &'a Subject,
    action: &'a hermod_core::Action,
    cost: u64,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.cost == key.cost && *self.subject == key.subject && *self.action == key.action && *self.space == key.space
    }
}

struct Refusal {
    answer: CheckAnswer,
    asked: Asking,
    holds: Duration,
}

/// What was known when the store was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    at: Instant,
    version: u64,
    generation: u64,
}

impl Refusals {
    pub(super) fn new() -> Refusals {
        Refusals { cache: Cache::new(REFUSALS_MAX), generations: Generations::default() }
    }

    /// What is to be known before the store is asked, to remember its answer.
    pub(super) fn asking(&self, space: &SpaceId, subject: &Subject, version: u64) -> Asking {
        Asking { at: Instant::now(), version, generation: self.generation(space, subject) }
    }

    /// Grows when something of the subject is given back.
    fn generation(&self, space: &SpaceId, subject: &Subject) -> u64 {
        self.generations.of(space, subject)
    }

    /// Something was given back.
    pub(super) fn forget(&self, space: &SpaceId, subject: &Subject) {
        self.generations.grow(space, subject);
    }

    /// Something that all subjects share was given back.
    pub(super) fn forget_all(&self) {
        self.generations.grow_all();
    }

    /// The answer, if it is known to be a refusal.
    pub(super) fn known(&self, space: &SpaceId, ask: &CheckAsk, version: u64) -> Option<CheckAnswer> {
        if !ask.attributes.0.is_empty() || self.cache.is_empty() {
            return None;
        }
        let key = KeyRef { space, subject: &ask.subject, action: &ask.action, cost: ask.cost };
        let refusal = self.cache.get(&key)?;
        let elapsed = refusal.asked.at.elapsed();
        let stands = elapsed < refusal.holds && refusal.asked.version == version;
        if !stands || refusal.asked.generation != self.generation(space, &ask.subject) {
            return None;
        }
        Some(refusal.answer.after(Micros::from_duration(elapsed)?))
    }

    /// Remembers a refusal, for as long as it is known to stand.
    pub(super) fn learn(&self, space: &SpaceId, ask: &CheckAsk, asked: Asking, answer: &CheckAnswer) {
        if answer.is_allowed() || !ask.attributes.0.is_empty() {
            return;
        }
        let stands = answer.retry_at().map_or(LONGEST, |at| at.since(answer.now()).to_duration());
        let holds = stands.min(LONGEST);
        let key = Key { space: space.clone(), subject: ask.subject.clone(), action: ask.action.clone(), cost: ask.cost };
        self.cache.insert(key, Arc::new(Refusal { answer: answer.clone(), asked, holds }));
    }
}

#[cfg(test)]
mod tests {
    use hermod_core::limit::{Limited, Pattern, Per, Rule, no_rules};
    use hermod_core::{Partitions, RuleId};

    use super::super::Local;
    use super::*;

    #[test]
    fn an_answer_that_was_long_under_way_stands_no_longer_than_it_says() {
        let per: Per = "1m".parse().unwrap();
        let rule = Rule::new(RuleId::new("r").unwrap(), Pattern::action("act").unwrap(), 1, per);
        let (rules, space) = ([Arc::new(Limited::new(&rule).unwrap())].into(), SpaceId::new("team").unwrap());
        let (local, now) = (Local::new(Partitions::DEFAULT), Micros::saturating(1_000_000));
        let ask = CheckAsk::new("ann", "act", None).unwrap();
        let check = || local.check(&space, &ask, &rules, &no_rules(), now);
        assert!(check().is_allowed());
        let refused = check();
        let refusals = Refusals::new();
        for (under_way_ms, is_known) in [(0, true), (900, true), (1_000, false)] {
            let mut asked = refusals.asking(&space, &ask.subject, 1);
            asked.at = asked.at.checked_sub(Duration::from_millis(under_way_ms)).unwrap();
            refusals.learn(&space, &ask, asked, &refused);
            assert_eq!(refusals.known(&space, &ask, 1).is_some(), is_known, "{under_way_ms} ms");
        }
    }
}
