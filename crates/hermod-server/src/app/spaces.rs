//! admin: the spaces.

use hermod_catalog::{CatalogOnce, Saved, Scope, Space};
use hermod_core::SpaceId;

use super::{App, Caller};
use crate::code::Problem;

impl App {
    /// All spaces.
    pub async fn spaces(&self, caller: &Caller) -> Result<Vec<Space>, Problem> {
        caller.need(Scope::Spaces)?;
        Ok(self.catalog.spaces().await?)
    }

    /// Makes a space. A key for it is made with `POST /v1/keys`.
    pub async fn create_space(&self, caller: &Caller, space: &str, once: Option<&CatalogOnce>) -> Result<Saved<Space>, Problem> {
        caller.need(Scope::Spaces)?;
        Ok(self.catalog.create_space(&SpaceId::new(space)?, once).await?)
    }
}
