//! What is known of subjects between picks: a hint, never the truth.
//!
//! A hint holds a subject's history as the planner sees it, so that most picks are one call of the store. The number and
//! the generation in every plan tell the store whether the hint is behind. A refusal is remembered as well: where the store is
//! in this process until it ends, as whatever could end it before passes here; where others may share the store, for at most a
//! second, as that is how soon every change is seen everywhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hermod_catalog::{DeckView, OwnMessages};
use hermod_core::pick::take::PLAN_MAX;
use hermod_core::pick::{Picked, Plan, Refusal, Shelf, View};
use hermod_core::{Micros, SpaceId, Subject};
use hermod_engine::Clock;
use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};

use crate::app::generations::Generations;

/// How much memory hints take, about.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Most hints are of small decks.
const HINTS_ABOUT: usize = 16_384;
/// A refusal is not remembered for longer where others may share the store.
const LONGEST: Duration = Duration::from_secs(1);
/// The candidates of a plan for a subject for whom nobody else picks: none is wanted but the first.
const PLAN_SHORT: usize = 3;
/// After a plan was behind, so many have the most candidates there can be.
const CROWDED: u32 = 32;
/// So many compiled decks are kept.
const SHELVES_MAX: usize = 2_000;

/// What is known of subjects between picks.
pub(crate) struct Hints {
    cache: Cache<Key, Weighed, ByBytes>,
    /// Compiled decks by epoch, which no two decks share, with the generation they were compiled for.
    shelves: RwLock<HashMap<u64, (u64, Arc<Shelf>)>>,
    /// Grow when something of a subject was changed here: no refusal stands.
    pub(super) changes: Generations,
}

impl Default for Hints {
    fn default() -> Hints {
        let cache = Cache::with_weighter(HINTS_ABOUT, BYTES_MAX, ByBytes);
        Hints { cache, shelves: RwLock::default(), changes: Generations::default() }
    }
}

impl std::fmt::Debug for Hints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hints").field("count", &self.cache.len()).finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    space: SpaceId,
    /// Of the deck: one that is made again under the same name has another.
    epoch: u64,
    subject: Subject,
}

#[derive(Hash)]
struct KeyRef<'a> {
    space: &'a SpaceId,
    epoch: u64,
    subject: &'a Subject,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.subject == key.subject && self.epoch == key.epoch && *self.space == key.space
    }
}

/// A hint, and how much room it took when it was kept: that must not change while it is in the cache.
#[derive(Clone)]
struct Weighed {
    hint: Arc<Hint>,
    bytes: usize,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Weighed> for ByBytes {
    fn weight(&self, key: &Key, weighed: &Weighed) -> u64 {
        let bytes = weighed.bytes + size_of::<Hint>() + 2 * key.subject.as_str().len() + 128;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// What is known of one subject and one deck.
#[derive(Default)]
pub(super) struct Hint {
    state: Mutex<State>,
    bytes: AtomicUsize,
}

#[derive(Default)]
struct State {
    view: Option<View>,
    /// The generation of the messages that name the subject.
    own: u64,
    known: Option<Known>,
    /// So many of the next picks have long plans: others pick for the subject at the same time.
    crowded: u32,
}

/// A view that is planned with.
pub(super) struct Hinted<'a> {
    pub(super) view: &'a mut View,
    pub(super) own: &'a mut u64,
    /// How many candidates its plans should have.
    pub(super) candidates: usize,
}

/// A refusal, and what must be the same for it to stand.
#[derive(Clone, Copy)]
pub(super) struct Known {
    refusal: Refusal,
    /// From when,
    now: Micros,
    /// until when it stands, by the clock of the store;
    until: Micros,
    /// and when the store was asked.
    asked: Instant,
    version: Version,
}

/// Of all that a refusal follows from but time. To be read before the store is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    deck: u64,
    own: u64,
    change: u64,
}

impl Version {
    pub(super) fn new(deck: &DeckView, own: &OwnMessages, change: u64) -> Version {
        Version { deck: deck.generation, own: own.generation, change }
    }
}

impl Known {
    /// A refusal that stands for this span of the store's time; `asked`: since when `now` can have been.
    pub(super) fn new(refusal: Refusal, (now, until): (Micros, Micros), asked: Instant, version: Version) -> Known {
        Known { refusal, now, until, asked, version }
    }

    /// The time it is by now, if it still stands.
    fn stands(&self, clock: &Clock, is_alone: bool) -> Option<Micros> {
        if is_alone {
            return Some(clock.now()).filter(|now| self.now <= *now && *now < self.until);
        }
        // The clock is the store's own; one that is set by hand says nothing of how long something holds.
        let (elapsed, longest) = (self.asked.elapsed(), self.until.since(self.now).to_duration().min(LONGEST));
        let now = self.now.plus(Micros::from_duration(elapsed)?);
        (matches!(clock, Clock::System) && elapsed < longest).then_some(now)
    }
}

impl Hints {
    /// The hint of a subject, which may know nothing.
    pub(super) fn of(&self, space: &SpaceId, epoch: u64, subject: &Subject) -> Arc<Hint> {
        if let Some(weighed) = self.cache.get(&KeyRef { space, epoch, subject }) {
            return weighed.hint;
        }
        let hint = Arc::<Hint>::default();
        self.keep(space, epoch, subject, &hint);
        hint
    }

    /// Keeps a hint; also one that takes more room than before.
    pub(super) fn keep(&self, space: &SpaceId, epoch: u64, subject: &Subject, hint: &Arc<Hint>) {
        let weighed = Weighed { hint: Arc::clone(hint), bytes: hint.bytes.load(Ordering::Relaxed) };
        self.cache.insert(Key { space: space.clone(), epoch, subject: subject.clone() }, weighed);
    }

    /// Forgets what is known of a subject and a deck.
    pub(super) fn forget(&self, space: &SpaceId, epoch: u64, subject: &Subject) {
        self.cache.remove(&KeyRef { space, epoch, subject });
    }

    /// A deck, compiled; once for each version of it.
    pub(super) fn shelf(&self, view: &DeckView) -> Arc<Shelf> {
        let epoch = view.deck.epoch;
        if let Some((generation, shelf)) = self.shelves.read().get(&epoch)
            && *generation == view.generation
        {
            return Arc::clone(shelf);
        }
        let shelf = Arc::new(Shelf::new(Arc::clone(&view.deck), Arc::clone(&view.messages), Arc::clone(&view.tombstones)));
        let mut shelves = self.shelves.write();
        if shelves.len() >= SHELVES_MAX {
            shelves.clear();
        }
        shelves.insert(epoch, (view.generation, Arc::clone(&shelf)));
        shelf
    }
}

impl Hint {
    /// Plans with what is known, if anything is.
    pub(super) fn plan<R>(&self, act: impl FnOnce(Hinted<'_>) -> R) -> Option<R> {
        let mut state = self.state.lock();
        let State { view, own, crowded, .. } = &mut *state;
        let candidates = if *crowded > 0 { PLAN_MAX } else { PLAN_SHORT };
        view.as_mut().map(|view| act(Hinted { view, own, candidates }))
    }

    /// Takes in what the store told.
    pub(super) fn recalled(&self, view: View, own: u64) {
        self.bytes.store(view.bytes(), Ordering::Relaxed);
        let mut state = self.state.lock();
        // Who was told earlier may come later, and makes it behind again: the store will tell.
        // Who knew something that was behind is not alone.
        let crowded = if state.view.is_some() || state.crowded > 0 { CROWDED } else { 0 };
        *state = State { view: Some(view), own, known: None, crowded };
    }

    /// Takes in that a plan was done.
    pub(super) fn took(&self, plan: &Plan, picked: &Picked) {
        let mut state = self.state.lock();
        state.known = None;
        state.crowded = state.crowded.saturating_sub(1);
        if state.view.as_mut().is_some_and(|view| !view.took(plan, picked)) {
            state.view = None;
            state.crowded = CROWDED;
        }
    }

    /// A refusal that is known to stand, and the time it is by now; `is_alone`: nobody else changes what is in the store.
    pub(super) fn known(&self, version: Version, clock: &Clock, is_alone: bool) -> Option<(Refusal, Micros)> {
        let known = self.state.lock().known.filter(|known| known.version == version)?;
        Some((known.refusal, known.stands(clock, is_alone)?))
    }

    /// Remembers a refusal.
    pub(super) fn learn(&self, known: Known) {
        self.state.lock().known = Some(known);
    }
}

#[cfg(test)]
mod tests {
    use hermod_core::pick::Reason;
    use hermod_engine::clock::ManualClock;

    use super::*;

    #[test]
    fn a_refusal_is_known_until_it_ends_where_nobody_shares_the_store() {
        const HOUR: u64 = 3_600_000_000;
        let us = Micros::saturating;
        let version = Version { deck: 1, own: 2, change: 3 };
        let refusal = Refusal { reason: Reason::SubjectCap, retry_at: Some(us(2 * HOUR)) };
        let hint = Hint::default();
        hint.learn(Known::new(refusal, (us(HOUR), us(2 * HOUR)), Instant::now(), version));
        let manual = |now| Clock::Manual(ManualClock::new(us(now)));
        for (now, is_known) in [(HOUR - 1, false), (HOUR, true), (2 * HOUR - 1, true), (2 * HOUR, false)] {
            let known = hint.known(version, &manual(now), true);
            assert_eq!(known, is_known.then_some((refusal, us(now))), "at {now}");
        }
        for other in [Version { deck: 2, ..version }, Version { own: 3, ..version }, Version { change: 4, ..version }] {
            assert_eq!(hint.known(other, &manual(HOUR), true), None, "something was changed");
        }
        // Shared, for a second since the store was asked, whatever the clock here says.
        assert_eq!(hint.known(version, &manual(HOUR), false), None);
        assert_eq!(hint.known(version, &Clock::System, false).map(|(refusal, _)| refusal), Some(refusal));
        let asked = Instant::now().checked_sub(LONGEST).expect("the machine runs for longer");
        hint.learn(Known::new(refusal, (us(HOUR), us(2 * HOUR)), asked, version));
        assert_eq!(hint.known(version, &Clock::System, false), None);
    }
}
