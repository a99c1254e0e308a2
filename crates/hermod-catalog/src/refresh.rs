//! Keeps memory current: polls the catalog's version, and reads again only what changed.
//!
//! Every write increments the version and notes what it changed, in one transaction, and the
//! version row's lock lets them commit in order only. So whoever has seen version 7 and reads 9
//! finds what 8 and 9 changed. Notes are trimmed; who is further behind reads everything again.
//!
//! The version is read before the data. The data may then be newer than the version says, never
//! older, and the next poll reads it once more; so no transaction is needed.
//!
//! What this version cannot read, because a newer server wrote it, is left out, and the log says so: nobody else's changes
//! wait for it. A rule stays as it was last known, as a limit must not vanish.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hermod_core::limit::Rule;
use hermod_core::{DeckId, RealmId, SpaceId};
use sqlx::any::AnyRow;

use crate::catalog::Inner;
use crate::change::{Change, Kind};
use crate::database::{int, sql_int, text, within};
use crate::decks;
use crate::error::CatalogError;
use crate::keys;
use crate::queues;
use crate::realms;
use crate::rules;
use crate::schedules;
use crate::snapshot::{Decks, Realms, Snapshot, SpaceView};

/// The longest pause between two tries while the database is away.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// How long the question for the version may take. Later counts as lost.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long reading what changed may take.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// More changes than these are not read one by one.
const CHANGES_MAX: u64 = 1_000;

/// Follows the catalog until it is dropped or closed.
pub(crate) async fn follow(inner: Weak<Inner>, poll: Duration) {
    // A poll of zero would be a busy loop.
    let poll = poll.max(Duration::from_millis(5));
    let mut pause = poll;
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = inner.upgrade() else { return };
        pause = match inner.refresh(None).await {
            Ok(()) => {
                inner.found();
                poll
            }
            Err(fault) => {
                inner.lost(&fault);
                (pause * 2).min(RETRY_MAX)
            }
        };
    }
}

impl Inner {
    /// Takes in what changed. With `at_least`, does nothing if that version was taken in meanwhile.
    pub(crate) async fn refresh(&self, at_least: Option<u64>) -> Result<(), CatalogError> {
        let _turn = self.refreshing.lock().await;
        let seen = self.version.load(Ordering::Acquire);
        if at_least.is_some_and(|version| seen >= version) {
            return Ok(());
        }
        let current = within(PROBE_TIMEOUT, self.stored_version()).await?;
        if current == seen {
            return Ok(());
        }
        within(READ_TIMEOUT, async {
            // Backwards goes only a database that was restored: nothing in memory can be trusted.
            let behind = current.checked_sub(seen).filter(|&behind| behind <= CHANGES_MAX);
            let changes = match behind {
                Some(behind) => self.changes(seen, current).await?.filter(|(versions, _)| *versions == behind),
                None => None,
            };
            match changes {
                Some((_, changes)) => self.take_in(&changes, self.next_generation(current)).await?,
                None => self.read_all(self.next_generation(current)).await?,
            }
            self.version.store(current, Ordering::Release);
            Ok(())
        })
        .await
    }

    /// Reads everything, whatever was seen before.
    pub(crate) async fn reload(&self) -> Result<(), CatalogError> {
        let _turn = self.refreshing.lock().await;
        let current = within(PROBE_TIMEOUT, self.stored_version()).await?;
        self.read_all(self.next_generation(current)).await?;
        self.version.store(current, Ordering::Release);
        Ok(())
    }

    /// The number for views of decks that are read now: the version, or more where a restored database went back to one that
    /// had another content.
    fn next_generation(&self, current: u64) -> u64 {
        let generation = current.max(self.generation.load(Ordering::Acquire).saturating_add(1));
        self.generation.store(generation, Ordering::Release);
        generation
    }

    async fn stored_version(&self) -> Result<u64, CatalogError> {
        let row = self.database.query("SELECT version FROM catalog_version").fetch_one(self.database.pool()).await?;
        int(&row, "version")
    }

    /// The changes after `seen` up to `current`, and of how many versions they are; `None` if one is not understood.
    async fn changes(&self, seen: u64, current: u64) -> Result<Option<(u64, Vec<Change>)>, CatalogError> {
        let statement = "SELECT version, space, kind, subject, subject_rules, deck, ordinal, realm FROM changes \
                         WHERE version > ? AND version <= ? ORDER BY version";
        let rows = self.database.query(statement).bind(sql_int(seen)).bind(sql_int(current)).fetch_all(self.database.pool()).await?;
        let mut last = seen;
        let mut versions = 0;
        let mut changes = Vec::with_capacity(rows.len());
        for row in &rows {
            let version = int(row, "version")?;
            versions += u64::from(version != last);
            last = version;
            match Change::from_row(row) {
                Ok(Some(change)) => changes.push(change),
                // A newer server changed something this one does not know of.
                Ok(None) | Err(_) => return Ok(None),
            }
        }
        Ok(Some((versions, changes)))
    }

    async fn take_in(&self, changes: &[Change], generation: u64) -> Result<(), CatalogError> {
        let old = self.snapshot.load_full();
        let mut touched: BTreeSet<&SpaceId> = BTreeSet::new();
        let (mut queues, mut schedules): (BTreeSet<&SpaceId>, BTreeSet<&SpaceId>) = Default::default();
        let mut decks: BTreeMap<(&SpaceId, &DeckId), decks::Reread> = BTreeMap::new();
        let mut realms: BTreeSet<(&SpaceId, &RealmId)> = BTreeSet::new();
        let mut keys_changed = false;
        for change in changes {
            match (change.kind, &change.subject) {
                // A space that is not in memory yet has its count from its own reading.
                (Kind::Rule, Some(_)) if old.spaces.contains_key(&change.space) => {}
                (Kind::Rule | Kind::Space, _) => drop(touched.insert(&change.space)),
                (Kind::Key, _) => keys_changed = true,
                (Kind::Queue, _) => drop(queues.insert(&change.space)),
                (Kind::Schedule, _) => drop(schedules.insert(&change.space)),
                (Kind::Deck | Kind::Message, _) => {
                    let deck =
                        change.deck.as_ref().ok_or_else(|| CatalogError::corrupt("change", change.kind.as_str(), "names no deck"))?;
                    decks.entry((&change.space, deck)).or_default().add(change);
                }
                (Kind::Realm, _) => {
                    let realm = change.realm.as_ref().ok_or_else(|| CatalogError::corrupt("change", "realm", "names no realm"))?;
                    realms.insert((&change.space, realm));
                }
            }
        }
        if !touched.is_empty() || keys_changed || !queues.is_empty() || !schedules.is_empty() || !decks.is_empty() || !realms.is_empty() {
            let mut new = Snapshot::clone(&old);
            for space in touched {
                match self.space_view(space, old.spaces.get(space)).await? {
                    Some(view) => drop(new.spaces.insert(space.clone(), Arc::new(view))),
                    None => drop(new.spaces.remove(space)),
                }
            }
            if keys_changed {
                new.keys = keys::read_all(&self.database).await?;
            }
            for space in queues {
                put_or_remove(&mut new.queues, space, queues::of_space(&self.database, space).await?, |queues| queues.is_empty());
            }
            for space in schedules {
                let read = schedules::of_space(&self.database, space).await?;
                put_or_remove(&mut new.schedules, space, read, |schedules| schedules.is_empty());
            }
            for ((space, id), reread) in decks {
                let mut of_space = new.decks.get(space).map(|decks| Decks::clone(decks)).unwrap_or_default();
                match reread.read(&self.database, space, id, of_space.get(id), generation).await? {
                    Some(view) => drop(of_space.insert(id.clone(), Arc::new(view))),
                    None => drop(of_space.remove(id)),
                }
                put_or_remove(&mut new.decks, space, of_space, |decks| decks.is_empty());
            }
            for (space, id) in realms {
                let mut of_space = new.realms.get(space).map(|realms| Realms::clone(realms)).unwrap_or_default();
                match realms::read_one(&self.database, space, id, of_space.get(id)).await? {
                    Some(view) => drop(of_space.insert(id.clone(), view)),
                    None => drop(of_space.remove(id)),
                }
                put_or_remove(&mut new.realms, space, of_space, |realms| realms.is_empty());
            }
            self.snapshot.store(Arc::new(new));
        }
        // Only now, so that nobody who loads a subject anew merges it with what everyone had before.
        let snapshot = self.snapshot.load();
        for change in changes {
            if let Some(view) = snapshot.spaces.get(&change.space).filter(|_| change.kind == Kind::Rule) {
                view.set_subject_rules(change.subject_rules);
            }
            match (change.kind, &change.subject) {
                (Kind::Rule, Some(subject)) => self.subjects.evict(&change.space, &(), subject.as_str()),
                // A deck that is not there any more will not be asked for by its epoch again.
                (Kind::Message, Some(subject)) => {
                    let deck = change.deck.as_ref().and_then(|deck| snapshot.decks.get(&change.space)?.get(deck));
                    if let Some(view) = deck {
                        self.own_messages.evict(&change.space, &view.deck.epoch, subject.as_str());
                    }
                }
                (Kind::Message, None) => self.own_messages.clear(),
                _ => {}
            }
        }
        Ok(())
    }

    async fn read_all(&self, generation: u64) -> Result<(), CatalogError> {
        let keys = keys::read_all(&self.database).await?;
        let known = self.snapshot.load_full();
        let mut rules: HashMap<SpaceId, Vec<Rule>> = HashMap::new();
        let everyones =
            self.database.query("SELECT space, id, body FROM rules WHERE subject IS NULL").fetch_all(self.database.pool()).await?;
        for row in &everyones {
            let space = space_of(row)?;
            let rule = readable_or_known(row, &space, known.spaces.get(&space));
            rules.entry(space).or_default().extend(rule);
        }
        let mut spaces = HashMap::new();
        let rows = self.database.query("SELECT space, subject_rules FROM spaces").fetch_all(self.database.pool()).await?;
        for row in &rows {
            let space = space_of(row)?;
            let view = SpaceView::new(rules.remove(&space).unwrap_or_default(), int(row, "subject_rules")?)?;
            spaces.insert(space, Arc::new(view));
        }
        let queues = queues::read_all(&self.database).await?;
        let schedules = schedules::read_all(&self.database).await?;
        let decks = decks::read_all(&self.database, generation).await?;
        let realms = realms::read_all(&self.database, &known.realms).await?;
        self.snapshot.store(Arc::new(Snapshot { spaces, keys, queues, schedules, decks, realms }));
        self.subjects.clear();
        self.own_messages.clear();
        Ok(())
    }

    async fn space_view(&self, space: &SpaceId, known: Option<&Arc<SpaceView>>) -> Result<Option<SpaceView>, CatalogError> {
        let statement = "SELECT subject_rules FROM spaces WHERE space = ?";
        let row = self.database.query(statement).bind(space.as_str()).fetch_optional(self.database.pool()).await?;
        let Some(row) = row else { return Ok(None) };
        let statement = "SELECT id, body FROM rules WHERE subject IS NULL AND space = ?";
        let rows = self.database.query(statement).bind(space.as_str()).fetch_all(self.database.pool()).await?;
        let rules = rows.iter().filter_map(|row| readable_or_known(row, space, known)).collect();
        Ok(Some(SpaceView::new(rules, int(&row, "subject_rules")?)?))
    }

    /// One subject's own rules, from the database.
    pub(crate) async fn subject_rules(&self, space: &SpaceId, subject: &str) -> Result<Vec<Rule>, CatalogError> {
        let statement = "SELECT id, body FROM rules WHERE subject = ? AND space = ?";
        let rows = self.database.query(statement).bind(subject).bind(space.as_str()).fetch_all(self.database.pool()).await?;
        rows.iter().map(rules::from_row).collect()
    }

    /// Notes that the database did not answer. Logs the first time.
    pub(crate) fn lost(&self, fault: &CatalogError) {
        if self.is_healthy.swap(false, Ordering::AcqRel) {
            tracing::warn!(catalog = %self.place, cause = %cause_of(fault), "{fault}; going on with what is in memory");
        }
    }

    fn found(&self) {
        if !self.is_healthy.swap(true, Ordering::AcqRel) {
            tracing::info!(catalog = %self.place, "the catalog's database answers again");
        }
    }
}

fn put_or_remove<T>(map: &mut HashMap<SpaceId, Arc<T>>, space: &SpaceId, value: T, is_empty: impl Fn(&T) -> bool) {
    match is_empty(&value) {
        true => drop(map.remove(space)),
        false => drop(map.insert(space.clone(), Arc::new(value))),
    }
}

/// What a row holds. If this version cannot read it there is nothing, and the log says why.
pub(crate) fn readable<T>(read: Result<T, CatalogError>) -> Option<T> {
    read.inspect_err(|fault| {
        tracing::error!(cause = %cause_of(fault), "{fault} by this version of Hermod; it is left out until it can be");
    })
    .ok()
}

/// The rule of a row. If this version cannot read it, as it is `known` to be; a limit that vanishes is a limit that is broken.
fn readable_or_known(row: &AnyRow, space: &SpaceId, known: Option<&Arc<SpaceView>>) -> Option<Rule> {
    let fault = match rules::countable(row) {
        Ok(rule) => return Some(rule),
        Err(fault) => fault,
    };
    let cause = cause_of(&fault);
    let id = text(row, "id").ok();
    let rule = id.and_then(|id| known?.rules().iter().find(|rule| rule.id.as_str() == id).cloned());
    match &rule {
        Some(_) => tracing::error!(%space, %cause, "{fault} by this version of Hermod; it is applied as it was before"),
        None => tracing::error!(%space, %cause, "{fault} by this version of Hermod, so its limit is NOT APPLIED by this server"),
    }
    rule
}

fn cause_of(fault: &CatalogError) -> String {
    fault.source().map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn space_of(row: &AnyRow) -> Result<SpaceId, CatalogError> {
    let space = text(row, "space")?;
    SpaceId::new(&space).map_err(|fault| CatalogError::corrupt("space", space, fault))
}

#[cfg(test)]
mod tests;
