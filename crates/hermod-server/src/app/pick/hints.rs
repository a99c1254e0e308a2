//! What is known of subjects between picks: a hint, never the truth.
//!
//! A hint holds a subject's history as the planner sees it, so that most picks are one call of the store. The number and
//! the generation in every plan tell the store whether the hint is behind. A refusal is remembered as well, for at most a
//! second: that is how soon every change is seen everywhere.

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
/// A refusal is not remembered for longer.
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
    now: Micros,
    at: Instant,
    deck: u64,
    own: u64,
    change: u64,
}

impl Known {
    pub(super) fn new(deck: &DeckView, own: &OwnMessages, change: u64, refusal: Refusal, now: Micros) -> Known {
        Known { refusal, now, at: Instant::now(), deck: deck.generation, own: own.generation, change }
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

    /// A refusal that is known to stand, and the time it is by now.
    pub(super) fn known(&self, deck: &DeckView, own: &OwnMessages, change: u64) -> Option<(Refusal, Micros)> {
        let known = self.state.lock().known?;
        let is_same = (known.deck, known.own, known.change) == (deck.generation, own.generation, change);
        let elapsed = known.at.elapsed();
        let stands = known.refusal.retry_at.map_or(LONGEST, |at| at.since(known.now).to_duration().min(LONGEST));
        let now = known.now.plus(Micros::from_duration(elapsed)?);
        (is_same && elapsed < stands).then_some((known.refusal, now))
    }

    /// Remembers a refusal. A clock that stands still says nothing of how long it holds.
    pub(super) fn learn(&self, known: Known, clock: &Clock) {
        if matches!(clock, Clock::System) {
            self.state.lock().known = Some(known);
        }
    }
}
