//! What every server keeps in memory: all spaces, all API keys, all queues and their schedules, all realms, and all
//! rules and messages that are not one subject's own.
//!
//! A snapshot is immutable but for one counter for each space; a refresh builds the next one from
//! the parts that did not change and puts it in place as a whole. Readers take no lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermod_core::limit::{Index, Rule};
use hermod_core::queue::{Queue, Schedule};
use hermod_core::{DeckId, Invalid, QueueId, RealmId, SpaceId};

use crate::decks::DeckView;
use crate::definition::ApiKey;
use crate::realms::RealmView;
use crate::secret::SecretHash;

#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) spaces: HashMap<SpaceId, Arc<SpaceView>>,
    pub(crate) keys: HashMap<Box<str>, StoredKey>,
    /// Of the spaces that have any.
    pub(crate) queues: HashMap<SpaceId, Arc<Queues>>,
    /// Of the spaces that have any.
    pub(crate) schedules: HashMap<SpaceId, Arc<Schedules>>,
    /// Of the spaces that have any.
    pub(crate) decks: HashMap<SpaceId, Arc<Decks>>,
    /// Of the spaces that have any that can be played.
    pub(crate) realms: HashMap<SpaceId, Arc<Realms>>,
}

/// One space's queues, by id.
pub(crate) type Queues = BTreeMap<QueueId, Arc<Queue>>;

/// One space's schedules, by queue and name.
pub(crate) type Schedules = Vec<Arc<Schedule>>;

/// One space's decks, by id.
pub(crate) type Decks = BTreeMap<DeckId, Arc<DeckView>>;

/// One space's realms, by id.
pub(crate) type Realms = BTreeMap<RealmId, RealmView>;

/// One space's part.
#[derive(Default)]
pub(crate) struct SpaceView {
    /// Rules for everyone and for subjects that look alike.
    everyones: Index,
    /// The same as they were read, for when one of them cannot be read again.
    rules: Vec<Rule>,
    /// How many rules for one subject there are. Changed in place, as it changes with each of millions.
    subject_rules: AtomicU64,
}

impl SpaceView {
    pub(crate) fn new(rules: Vec<Rule>, subject_rules: u64) -> Result<SpaceView, Invalid> {
        Ok(SpaceView { everyones: Index::new(&rules)?, rules, subject_rules: AtomicU64::new(subject_rules) })
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(crate) fn everyones(&self) -> &Index {
        &self.everyones
    }

    pub(crate) fn subject_rules(&self) -> u64 {
        self.subject_rules.load(Ordering::Acquire)
    }

    pub(crate) fn set_subject_rules(&self, count: u64) {
        self.subject_rules.store(count, Ordering::Release);
    }
}

/// An API key and what its text must hash to.
#[derive(Clone)]
pub(crate) struct StoredKey {
    pub(crate) key: Arc<ApiKey>,
    pub(crate) hash: SecretHash,
}
