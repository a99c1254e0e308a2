//! Spaces: list, create. The first migration makes `default`.

use hermod_core::{Micros, SpaceId};

use crate::catalog::Catalog;
use crate::change::{Change, Kind};
use crate::database::{CALL_TIMEOUT, int, sql_int, within};
use crate::definition::{CatalogOnce, Saved, Space};
use crate::error::CatalogError;
use crate::refresh::space_of;
use crate::write::{Answer, Begun, Write, conflict};

impl Catalog {
    /// All spaces, by id.
    pub async fn spaces(&self) -> Result<Vec<Space>, CatalogError> {
        let database = &self.inner.database;
        within(CALL_TIMEOUT, async {
            let rows = database.query("SELECT space, created_at FROM spaces ORDER BY space").fetch_all(database.pool()).await?;
            rows.iter().map(|row| Ok(Space { id: space_of(row)?, created_at: Micros::saturating(int(row, "created_at")?) })).collect()
        })
        .await
    }

    /// Makes a space. An error if it exists.
    pub async fn create_space(&self, space: &SpaceId, once: Option<&CatalogOnce>) -> Result<Saved<Space>, CatalogError> {
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::Space { id, created_at_us }) => {
                    let value = Space { id, created_at: Micros::saturating(created_at_us) };
                    return Ok(Saved { value, created: true, replayed: true });
                }
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            match write.subject_rules(space).await {
                Err(CatalogError::NotFound { .. }) => {}
                Ok(_) => return Err(CatalogError::Exists { what: "space", id: space.to_string() }),
                Err(fault) => return Err(fault),
            }
            let value = Space { id: space.clone(), created_at: write.now() };
            let query = write.query("INSERT INTO spaces (space, subject_rules, created_at) VALUES (?, ?, ?)").bind(space.as_str());
            let query = query.bind(0_i64).bind(sql_int(value.created_at.get()));
            write.execute(query).await?;
            let change = Change::of(Kind::Space, space);
            write.commit(&[change], &Answer::Space { id: space.clone(), created_at_us: value.created_at.get() }).await?;
            Ok(Saved { value, created: true, replayed: false })
        })
        .await
    }
}
