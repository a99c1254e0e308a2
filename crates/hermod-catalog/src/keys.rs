//! API keys: list, create, delete.

use std::collections::HashMap;
use std::sync::Arc;

use hermod_core::{Invalid, Micros, SpaceId};
use sqlx::any::AnyRow;

use crate::catalog::Catalog;
use crate::change::{Change, Kind};
use crate::database::{CALL_TIMEOUT, Database, int, sql_int, text, within};
use crate::definition::{ApiKey, CatalogOnce, NewKey, Saved};
use crate::error::CatalogError;
use crate::refresh::{readable, space_of};
use crate::rules::require_space;
use crate::scope::Scope;
use crate::secret::{self, SecretHash};
use crate::snapshot::StoredKey;
use crate::write::{Answer, Begun, Write, conflict};

/// The longest name of a key, in bytes.
const NAME_MAX: usize = 128;

const SELECT_OF_SPACE: &str = "SELECT id, space, name, scopes, created_at FROM api_keys WHERE space = ? ORDER BY id";

impl Catalog {
    /// The keys of a space that this version can read, by id.
    pub async fn keys(&self, space: &SpaceId) -> Result<Vec<ApiKey>, CatalogError> {
        let database = &self.inner.database;
        within(CALL_TIMEOUT, async {
            let rows = database.query(SELECT_OF_SPACE).bind(space.as_str()).fetch_all(database.pool()).await?;
            if rows.is_empty() {
                require_space(database, space).await?;
            }
            Ok(rows.iter().filter_map(|row| readable(from_row(row))).collect())
        })
        .await
    }

    /// Makes a key. Its secret is in the answer, and nowhere else.
    pub async fn create_key(
        &self,
        space: &SpaceId,
        name: &str,
        mut scopes: Vec<Scope>,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<NewKey>, CatalogError> {
        check_name(name)?;
        scopes.sort_unstable();
        scopes.dedup();
        if scopes.is_empty() {
            return Err(Invalid::new("scopes", "must name at least one").into());
        }
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(answer) => return replayed(answer).ok_or_else(|| conflict(once)),
            };
            write.subject_rules(space).await?;
            let (id, secret) = secret::generate().map_err(CatalogError::Chance)?;
            let key = ApiKey { id, space: space.clone(), name: name.to_owned(), scopes, created_at: write.now() };
            let json = serde_json::to_string(&key.scopes).map_err(|fault| CatalogError::corrupt("API key", &*key.id, fault))?;
            let statement = "INSERT INTO api_keys (id, space, name, scopes, secret_hash, created_at) VALUES (?, ?, ?, ?, ?, ?)";
            let query = write.query(statement).bind(key.id.clone()).bind(space.as_str()).bind(name).bind(json);
            let query = query.bind(SecretHash::of(&secret).to_hex()).bind(sql_int(key.created_at.get()));
            write.execute(query).await?;
            write.commit(&[changed(space)], &answer(&key)).await?;
            Ok(Saved { value: NewKey { key, secret: Some(secret) }, created: true, replayed: false })
        })
        .await
    }

    /// Whether a space has keys, be it such as this version cannot read.
    pub async fn has_keys(&self, space: &SpaceId) -> Result<bool, CatalogError> {
        let database = &self.inner.database;
        within(CALL_TIMEOUT, async {
            let query = database.query("SELECT id FROM api_keys WHERE space = ? LIMIT 1").bind(space.as_str());
            Ok(query.fetch_optional(database.pool()).await?.is_some())
        })
        .await
    }

    /// One key, from memory.
    pub fn key(&self, id: &str) -> Option<Arc<ApiKey>> {
        self.inner.snapshot.load().keys.get(id).map(|stored| Arc::clone(&stored.key))
    }

    /// Deletes a key, which is refused from then on. False if there was none; an error if nobody could make keys for all spaces
    /// without it.
    pub async fn delete_key(&self, space: &SpaceId, id: &str, once: Option<&CatalogOnce>) -> Result<bool, CatalogError> {
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::KeyDeleted) => return Ok(true),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            write.subject_rules(space).await?;
            let query = write.query(SELECT_OF_SPACE).bind(space.as_str());
            let rows = write.fetch_all(query).await?;
            let mut others = Vec::with_capacity(rows.len());
            let mut found = None;
            for row in &rows {
                match text(row, "id")? == id {
                    // What cannot be read may be the last one.
                    true => found = Some(from_row(row)?),
                    false => others.extend(from_row(row)),
                }
            }
            let Some(key) = found else { return Ok(false) };
            if key.rules_all() && !others.iter().any(ApiKey::rules_all) {
                return Err(CatalogError::LastKey);
            }
            let query = write.query("DELETE FROM api_keys WHERE id = ? AND space = ?").bind(id).bind(space.as_str());
            write.execute(query).await?;
            write.commit(&[changed(space)], &Answer::KeyDeleted).await?;
            Ok(true)
        })
        .await
    }
}

/// Every key there is that this version can read, by id.
pub(crate) async fn read_all(database: &Database) -> Result<HashMap<Box<str>, StoredKey>, CatalogError> {
    let statement = "SELECT id, space, name, scopes, secret_hash, created_at FROM api_keys";
    let rows = database.query(statement).fetch_all(database.pool()).await?;
    let stored = |row: &AnyRow| {
        let key = from_row(row)?;
        let hash = SecretHash::from_hex(&text(row, "secret_hash")?);
        let hash = hash.ok_or_else(|| CatalogError::corrupt("API key", &*key.id, "its hash is not 64 hex digits"))?;
        Ok((Box::from(key.id.as_str()), StoredKey { key: Arc::new(key), hash }))
    };
    // A key that is not understood opens nothing.
    Ok(rows.iter().filter_map(|row| readable(stored(row))).collect())
}

fn check_name(name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
        return Err(Invalid::new("name", format!("must be 1 to {NAME_MAX} bytes long, without control characters")));
    }
    Ok(())
}

fn changed(space: &SpaceId) -> Change {
    Change::of(Kind::Key, space)
}

fn answer(key: &ApiKey) -> Answer {
    Answer::Key {
        id: key.id.clone(),
        space: key.space.clone(),
        name: key.name.clone(),
        scopes: key.scopes.clone(),
        created_at_us: key.created_at.get(),
    }
}

fn replayed(answer: Answer) -> Option<Saved<NewKey>> {
    let Answer::Key { id, space, name, scopes, created_at_us } = answer else { return None };
    let key = ApiKey { id, space, name, scopes, created_at: Micros::saturating(created_at_us) };
    Some(Saved { value: NewKey { key, secret: None }, created: true, replayed: true })
}

fn from_row(row: &AnyRow) -> Result<ApiKey, CatalogError> {
    let id = text(row, "id")?;
    let scopes = serde_json::from_str(&text(row, "scopes")?).map_err(|fault| CatalogError::corrupt("API key", &*id, fault))?;
    Ok(ApiKey { id, space: space_of(row)?, name: text(row, "name")?, scopes, created_at: Micros::saturating(int(row, "created_at")?) })
}
