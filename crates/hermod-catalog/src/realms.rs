//! Realms: read from memory, ready to be played; put. None is deleted: its books stay.
//!
//! A definition is stored as the one text that it can have, so that its hash tells whether anything changed. It is read and
//! compiled once for each change, by whoever reads the change; what did not change stays the same [`Realm`].

use std::fmt;
use std::sync::Arc;

use hermod_core::realm::{Definition, Realm};
use hermod_core::{Invalid, RealmId, SpaceId};
use sha2::{Digest, Sha256};

use crate::catalog::Catalog;
use crate::change::Change;
use crate::database::{CALL_TIMEOUT, sql_int, within};
use crate::definition::{CatalogOnce, Saved};
use crate::error::CatalogError;
use crate::queues::refuse_beyond;
use crate::secret;
use crate::write::{Answer, Begun, Write, conflict};

mod settled;
mod stored;

pub(crate) use stored::{read_all, read_one};

/// The most realms of a space: every server keeps them all in memory.
pub(crate) const REALMS_MAX: u64 = 1_000;
/// The longest definition, in bytes of JSON.
pub(crate) const DEFINITION_MAX: usize = 256 * 1024;

/// A realm as every server knows it. Cheap to clone.
#[derive(Clone)]
pub struct RealmView {
    /// The realm.
    pub realm: Arc<Realm>,
    /// The SHA-256 of its definition's text, in hex.
    pub hash: Arc<str>,
}

// By hand, because of the realm's seed.
impl fmt::Debug for RealmView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Realm { id, version, .. } = &*self.realm;
        f.debug_struct("RealmView").field("realm", id).field("version", version).field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// A realm that was just saved, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRealm {
    /// Its name.
    pub realm: RealmId,
    /// Grows with every change.
    pub version: u64,
    /// The SHA-256 of its definition's text, in hex.
    pub hash: String,
    /// What it is made of.
    pub definition: Arc<Definition>,
    /// The paths of what differs from before: `plays.gamble`, `timezone`.
    pub changed: Vec<String>,
}

impl Catalog {
    /// One realm, from memory.
    pub fn realm(&self, space: &SpaceId, id: &RealmId) -> Option<Arc<Realm>> {
        self.realm_view(space, id).map(|view| view.realm)
    }

    /// All realms of a space by id, from memory.
    pub fn realms(&self, space: &SpaceId) -> Vec<Arc<Realm>> {
        self.realm_views(space).into_iter().map(|view| view.realm).collect()
    }

    /// The names of all realms of all spaces, from memory.
    pub fn all_realms(&self) -> Vec<(SpaceId, RealmId)> {
        let snapshot = self.inner.snapshot.load();
        snapshot.realms.iter().flat_map(|(space, realms)| realms.keys().map(|id| (space.clone(), id.clone()))).collect()
    }

    /// One realm and the hash of its definition, from memory.
    pub fn realm_view(&self, space: &SpaceId, id: &RealmId) -> Option<RealmView> {
        self.inner.snapshot.load().realms.get(space)?.get(id).cloned()
    }

    /// All realms of a space by id and the hashes of their definitions, from memory.
    pub fn realm_views(&self, space: &SpaceId) -> Vec<RealmView> {
        let snapshot = self.inner.snapshot.load();
        snapshot.realms.get(space).map(|realms| realms.values().cloned().collect()).unwrap_or_default()
    }

    /// Saves a realm, in place of the one with the same id if there is one. Its version grows by one, unless the definition is
    /// the one that it has. With `dry_run` nothing is saved, and the answer is what it would be.
    pub async fn put_realm(
        &self,
        space: &SpaceId,
        id: RealmId,
        definition: Definition,
        dry_run: bool,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<SavedRealm>, CatalogError> {
        let new = Draft::new(id, definition)?;
        // What is not done leaves no answer to be kept.
        let once = once.filter(|_| !dry_run);
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(answer) => return replayed(answer).ok_or_else(|| conflict(once)),
            };
            write.subject_rules(space).await?;
            let old = stored::locked(&mut write, space, &new.id).await?;
            let changed = new.settle(old.as_ref())?;
            let created = old.is_none();
            if created {
                let count = write.query("SELECT COUNT(*) AS n FROM realms WHERE space = ?").bind(space.as_str());
                refuse_beyond(&mut write, count, "realm", REALMS_MAX).await?;
            }
            let is_same = old.as_ref().is_some_and(|old| old.body == new.body);
            let retired = old.as_ref().map(|old| old.retiring(&new.definition)).unwrap_or_default();
            let retired = serde_json::to_string(&retired).map_err(|fault| CatalogError::corrupt("realm", new.id.as_str(), fault))?;
            let version = old.map_or(1, |old| old.version.saturating_add(u64::from(!is_same)));
            let saved = SavedRealm { realm: new.id, version, hash: new.hash, definition: new.definition, changed };
            if !dry_run && !is_same {
                save(&mut write, space, &saved, (new.body, retired), created).await?;
            }
            // What is the same is only noted where somebody may ask for the answer again.
            if !dry_run && (!is_same || once.is_some()) {
                write.commit(&[Change::of_realm(space, &saved.realm)], &answer(&saved, created)).await?;
            }
            Ok(Saved { value: saved, created, replayed: false })
        })
        .await
    }
}

/// A definition that is to be saved.
struct Draft {
    id: RealmId,
    definition: Arc<Definition>,
    body: String,
    hash: String,
    /// What is wrong with it, whatever is stored.
    faults: Vec<hermod_core::realm::Fault>,
}

impl Draft {
    fn new(id: RealmId, definition: Definition) -> Result<Draft, CatalogError> {
        let body = serde_json::to_string(&definition).map_err(|fault| CatalogError::corrupt("realm", id.as_str(), fault))?;
        if body.len() > DEFINITION_MAX {
            let reason = format!("is {} bytes of JSON long; at most {DEFINITION_MAX} are allowed", body.len());
            return Err(Invalid::new("definition", reason).into());
        }
        let hash = secret::hex(&Sha256::digest(body.as_bytes()).into());
        let definition = Arc::new(definition);
        // Neither the version nor the seed decides whether it is right.
        let faults = Realm::new(id.clone(), Arc::clone(&definition), 0, [0; 32]).err().unwrap_or_default();
        Ok(Draft { id, definition, body, hash, faults })
    }

    /// The paths of what differs from `old`; or all that is wrong.
    fn settle(&self, old: Option<&stored::Stored>) -> Result<Vec<String>, CatalogError> {
        let text = |body: &str| serde_json::from_str(body).map_err(|fault| CatalogError::corrupt("realm", self.id.as_str(), fault));
        // Not read as a definition: one that this version does not understand any more can still be replaced.
        let (old, new) = (old.map_or(Ok(serde_json::Value::Null), |old| text(&old.body))?, text(&self.body)?);
        let mut faults = self.faults.clone();
        faults.extend(settled::faults(&old, &new));
        if !faults.is_empty() {
            return Err(CatalogError::Faulty { faults });
        }
        Ok(settled::changed(&old, &new))
    }
}

async fn save(
    write: &mut Write<'_>,
    space: &SpaceId,
    saved: &SavedRealm,
    (body, retired): (String, String),
    created: bool,
) -> Result<(), CatalogError> {
    // The order of the values is that of both statements.
    let statement = match created {
        true => "INSERT INTO realms (body, version, hash, retired, space, id, seed) VALUES (?, ?, ?, ?, ?, ?, ?)",
        false => "UPDATE realms SET body = ?, version = ?, hash = ?, retired = ? WHERE space = ? AND id = ?",
    };
    let query = write.query(statement).bind(body).bind(sql_int(saved.version)).bind(&saved.hash).bind(retired);
    let mut query = query.bind(space.as_str()).bind(saved.realm.as_str());
    if created {
        query = query.bind(secret::hex(&secret::generate_seed().map_err(CatalogError::Chance)?));
    }
    write.execute(query).await?;
    Ok(())
}

fn answer(saved: &SavedRealm, created: bool) -> Answer {
    let SavedRealm { realm, version, hash, definition, changed } = saved.clone();
    Answer::Realm { realm, version, hash, definition: Box::new(Definition::clone(&definition)), changed, created }
}

/// A kept answer; `None` if it is not that of a realm.
fn replayed(answer: Answer) -> Option<Saved<SavedRealm>> {
    let Answer::Realm { realm, version, hash, definition, changed, created } = answer else { return None };
    let value = SavedRealm { realm, version, hash, definition: Arc::from(definition), changed };
    Some(Saved { value, created, replayed: true })
}

#[cfg(test)]
mod tests;
