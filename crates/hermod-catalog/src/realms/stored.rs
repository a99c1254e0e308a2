//! Realms as they are stored, and how they come into memory.
//!
//! One that this version cannot read is left out, and the log says why: the others go on.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use hermod_core::realm::{Definition, Realm};
use hermod_core::{RealmId, SpaceId};
use sqlx::any::AnyRow;

use super::RealmView;
use crate::database::{Database, int, text};
use crate::error::CatalogError;
use crate::refresh::space_of;
use crate::secret;
use crate::snapshot::Realms;
use crate::write::Write;

const SELECT_ONE: &str = "SELECT id, body, version, hash, seed, retired FROM realms WHERE space = ? AND id = ?";

/// A row.
pub(super) struct Stored {
    id: String,
    pub(super) body: String,
    pub(super) version: u64,
    pub(super) hash: String,
    /// In hex.
    seed: String,
    /// A JSON list of plays that there were.
    retired: String,
}

impl Stored {
    fn from_row(row: &AnyRow) -> Result<Stored, CatalogError> {
        let column = |name| text(row, name);
        let (id, body, hash) = (column("id")?, column("body")?, column("hash")?);
        Ok(Stored { id, body, version: int(row, "version")?, hash, seed: column("seed")?, retired: column("retired")? })
    }

    /// The plays that there were before the one that is `new`, and are not in it.
    pub(super) fn retiring(&self, new: &Definition) -> BTreeSet<String> {
        // What cannot be read any more has no names to keep.
        let mut names: BTreeSet<String> = serde_json::from_str(&self.retired).unwrap_or_default();
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        names.extend(body.get("plays").and_then(serde_json::Value::as_object).into_iter().flatten().map(|(name, _)| name.clone()));
        names.retain(|name| !new.plays.keys().any(|play| play.as_str() == name));
        names
    }

    /// The realm, ready to be played: `known` if it is the same. `None` if it cannot be played, which the log explains.
    fn view(self, space: &SpaceId, known: Option<&RealmView>) -> Option<RealmView> {
        let is_same = |known: &&RealmView| {
            known.realm.version == self.version && *known.hash == *self.hash && secret::hex(&known.realm.seed) == self.seed
        };
        if let Some(known) = known.filter(is_same) {
            return Some(known.clone());
        }
        let (realm, hash) = (self.id.clone(), Arc::from(self.hash.as_str()));
        match self.compile() {
            Ok(realm) => Some(RealmView { realm: Arc::new(realm), hash }),
            Err((field, reason)) => {
                tracing::error!(%space, %realm, %field, "the stored realm cannot be played with this version of Hermod: {reason}");
                None
            }
        }
    }

    /// Or where it is wrong, and why.
    fn compile(self) -> Result<Realm, (String, String)> {
        let id = RealmId::new(&self.id).map_err(|fault| ("realm".to_owned(), fault.reason))?;
        let seed = secret::unhex(&self.seed).ok_or_else(|| ("seed".to_owned(), "is not 32 bytes in hex".to_owned()))?;
        let definition = serde_json::from_str(&self.body).map_err(|fault| ("definition".to_owned(), fault.to_string()))?;
        let retired = serde_json::from_str::<Vec<String>>(&self.retired).unwrap_or_default();
        let mut realm = Realm::new(id, Arc::new(definition), self.version, seed);
        if let Ok(realm) = &mut realm {
            realm.retired = retired.into_iter().map(Arc::from).collect();
        }
        realm.map_err(|faults| {
            let first = faults.into_iter().next();
            first.map_or_else(|| ("definition".to_owned(), "is refused".to_owned()), |fault| (fault.path, fault.reason))
        })
    }
}

/// What is stored, while nobody else can change it.
pub(super) async fn locked(write: &mut Write<'_>, space: &SpaceId, id: &RealmId) -> Result<Option<Stored>, CatalogError> {
    let query = write.query(SELECT_ONE).bind(space.as_str()).bind(id.as_str());
    write.fetch(query).await?.as_ref().map(Stored::from_row).transpose()
}

/// One realm, from the database; `known` is what memory has.
pub(crate) async fn read_one(
    database: &Database,
    space: &SpaceId,
    id: &RealmId,
    known: Option<&RealmView>,
) -> Result<Option<RealmView>, CatalogError> {
    let query = database.query(SELECT_ONE).bind(space.as_str()).bind(id.as_str());
    let row = query.fetch_optional(database.pool()).await?;
    Ok(row.as_ref().map(Stored::from_row).transpose()?.and_then(|stored| stored.view(space, known)))
}

/// All realms, from the database; `known` are those that memory has.
pub(crate) async fn read_all(
    database: &Database,
    known: &HashMap<SpaceId, Arc<Realms>>,
) -> Result<HashMap<SpaceId, Arc<Realms>>, CatalogError> {
    let rows = database.query("SELECT space, id, body, version, hash, seed, retired FROM realms").fetch_all(database.pool()).await?;
    let mut spaces: HashMap<SpaceId, Realms> = HashMap::new();
    for row in &rows {
        let (space, stored) = (space_of(row)?, Stored::from_row(row)?);
        let known = RealmId::new(&stored.id).ok().and_then(|id| known.get(&space)?.get(&id));
        if let Some(view) = stored.view(&space, known) {
            spaces.entry(space).or_default().insert(view.realm.id.clone(), view);
        }
    }
    Ok(spaces.into_iter().map(|(space, realms)| (space, Arc::new(realms))).collect())
}
