//! The catalog: opened once, asked by every request, never on the way to SQL for what it knows.
//!
//! Everything shared stands in [`Inner`]. Reads go to the snapshot and to the cache of subjects;
//! `refresh.rs` keeps both current, `write.rs` is the only way to change what they come from.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use hermod_core::SpaceId;
use hermod_core::limit::index::{Considered, no_rules};
use hermod_core::limit::{Facts, Index, Limited, Rules};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use crate::database::{Database, within};
use crate::definition::ApiKey;
use crate::error::CatalogError;
use crate::messages::OwnMessages;
use crate::options::{Options, Target, shown};
use crate::refresh;
use crate::secret;
use crate::snapshot::{Snapshot, SpaceView};
use crate::subjects::{Key, Own, Subjects};

/// How long a check waits for a subject's own rules before it goes on without them.
const LOAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Definitions in SQL, served from memory. Cheap to clone; all clones are the same catalog.
#[derive(Clone)]
pub struct Catalog {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) database: Database,
    pub(crate) snapshot: ArcSwap<Snapshot>,
    pub(crate) subjects: Subjects<(), Index>,
    /// By the epoch of the deck: no two decks share one.
    pub(crate) own_messages: Subjects<u64, OwnMessages>,
    /// How often a subject's own messages were read, so that each reading has a number.
    pub(crate) readings: AtomicU64,
    /// The last version that the snapshot and the cache take into account.
    pub(crate) version: AtomicU64,
    /// The largest generation that a view of a deck was given.
    pub(crate) generation: AtomicU64,
    pub(crate) is_healthy: AtomicBool,
    /// One refresh at a time, so that versions only go forward.
    pub(crate) refreshing: Mutex<()>,
    /// One write at a time: waiting writes stand here and not on connections that reads need.
    pub(crate) writing: Mutex<()>,
    /// Where the database is, without user and password.
    pub(crate) place: String,
    poller: OnceLock<AbortHandle>,
}

/// The rules that apply to one call.
#[derive(Clone, Debug)]
pub struct Matched {
    /// One of each name, by name.
    pub rules: Rules,
    /// Whether the subject's own rules could not be read, so that these are everyone's only.
    pub is_degraded: bool,
}

impl Catalog {
    /// Opens the database, makes or updates its tables, reads what concerns everybody, and starts following changes.
    pub async fn open(options: Options) -> Result<Catalog, CatalogError> {
        let target = Target::parse(&options.url)?;
        let database = Database::open(&target).await?;
        let inner = Arc::new(Inner {
            database,
            snapshot: ArcSwap::default(),
            subjects: Subjects::new(options.subjects_max.max(1)),
            own_messages: Subjects::new(options.subjects_max.max(1)),
            readings: AtomicU64::new(0),
            version: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            is_healthy: AtomicBool::new(true),
            refreshing: Mutex::new(()),
            writing: Mutex::new(()),
            place: shown(&options.url),
            poller: OnceLock::new(),
        });
        if let Err(fault) = inner.reload().await {
            inner.database.close().await;
            return Err(fault);
        }
        let follower = tokio::spawn(refresh::follow(Arc::downgrade(&inner), options.poll));
        let _only_set_here = inner.poller.set(follower.abort_handle());
        Ok(Catalog { inner })
    }

    /// Stops following changes and closes all connections. What is in memory goes on answering.
    pub async fn close(&self) {
        if let Some(poller) = self.inner.poller.get() {
            poller.abort();
        }
        self.inner.is_healthy.store(false, Ordering::Release);
        self.inner.database.close().await;
    }

    /// Whether the database answered last time.
    pub fn is_healthy(&self) -> bool {
        self.inner.is_healthy.load(Ordering::Acquire)
    }

    /// The version that reads from memory reflect. Every write is one more.
    pub fn version(&self) -> u64 {
        self.inner.version.load(Ordering::Acquire)
    }

    /// The rules that apply, if memory knows. `None`: ask [`Catalog::matching`].
    pub fn matching_now(&self, space: &SpaceId, facts: &Facts<'_>) -> Option<Matched> {
        let snapshot = self.inner.snapshot.load();
        let Some(view) = snapshot.spaces.get(space) else { return Some(Matched { rules: no_rules(), is_degraded: false }) };
        let rules = match view.subject_rules() {
            0 => view.everyones().find(facts),
            _ => view.everyones().find_with(&*self.inner.subjects.get(space, &(), facts.subject)?, facts),
        };
        Some(Matched { rules, is_degraded: false })
    }

    /// The rules that apply. Always answers: without the database, with what memory knows.
    pub async fn matching(&self, space: &SpaceId, facts: &Facts<'_>) -> Matched {
        if let Some(matched) = self.matching_now(space, facts) {
            return matched;
        }
        let own = self.inner.own_in_time(space, facts.subject).await;
        let snapshot = self.inner.snapshot.load();
        let everyones = snapshot.spaces.get(space).map(|view| view.everyones());
        let rules = match (everyones, &own) {
            (Some(everyones), Some(own)) => everyones.find_with(own, facts),
            (Some(everyones), None) => everyones.find(facts),
            (None, _) => no_rules(),
        };
        Matched { rules, is_degraded: own.is_none() }
    }

    /// All rules whose action and subject match, by name, the most specific first, and what became of each.
    /// Without the database, those that memory knows.
    pub async fn considered(&self, space: &SpaceId, facts: &Facts<'_>) -> Vec<Considered> {
        let (view, own) = self.about(space, facts.subject).await;
        view.map(|view| view.everyones().explain(own.as_deref(), facts)).unwrap_or_default()
    }

    /// The rules of leases that may apply to what this subject does, whatever it is. Without the database, those
    /// that memory knows.
    pub async fn leases_of(&self, space: &SpaceId, subject: &str) -> Vec<Arc<Limited>> {
        let (view, own) = self.about(space, subject).await;
        let everyones = view.as_deref().map(|view| view.everyones());
        [everyones, own.as_deref()].into_iter().flatten().flat_map(|index| index.leases_of(subject)).cloned().collect()
    }

    /// What everyone has in a space, and what the subject has, if anybody has something of their own.
    async fn about(&self, space: &SpaceId, subject: &str) -> (Option<Arc<SpaceView>>, Option<Arc<Index>>) {
        let view = || self.inner.snapshot.load().spaces.get(space).cloned();
        let own = match view().map_or(0, |view| view.subject_rules()) {
            0 => None,
            _ => self.inner.own_in_time(space, subject).await,
        };
        // What everyone has is never older than what the subject has.
        (view(), own)
    }

    /// The key whose text is `presented`, if there is one.
    pub fn authenticate(&self, presented: &str) -> Option<Arc<ApiKey>> {
        let id = secret::id_of(presented)?;
        let snapshot = self.inner.snapshot.load();
        let stored = snapshot.keys.get(id)?;
        stored.hash.matches(presented).then(|| Arc::clone(&stored.key))
    }
}

impl Inner {
    /// A subject's own rules, unless the database does not tell them in time.
    async fn own_in_time(&self, space: &SpaceId, subject: &str) -> Option<Arc<Index>> {
        if let Some(own) = self.subjects.get(space, &(), subject) {
            return Some(own);
        }
        // While the database is known to be away nobody waits for it; the poller finds it again.
        match self.is_healthy.load(Ordering::Acquire) {
            true => within(LOAD_TIMEOUT, self.own(space, subject)).await.ok(),
            false => None,
        }
    }

    /// A subject's own rules, from the cache or the database.
    async fn own(&self, space: &SpaceId, subject: &str) -> Result<Arc<Index>, CatalogError> {
        let key = Key { space: space.clone(), part: (), subject: subject.into() };
        let vacancy = match self.subjects.get_or_vacancy(&key).await {
            Ok(own) => return Ok(own),
            Err(vacancy) => vacancy,
        };
        let rules = self.subject_rules(space, subject).await.inspect_err(|fault| match fault.is_retryable() {
            true => self.lost(fault),
            // One unreadable rule is its subject's trouble, not the database's.
            false => tracing::error!(catalog = %self.place, %space, %subject, "{fault}"),
        })?;
        let own = Arc::new(Index::new(&rules)?);
        vacancy.fill(&own);
        Ok(own)
    }
}

impl Own for Index {
    fn weight(&self) -> u64 {
        u64::try_from(self.len()).unwrap_or(u64::MAX)
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("place", &self.inner.place).field("version", &self.version()).finish_non_exhaustive()
    }
}
