//! realm: the definitions of realms.

use hermod_catalog::{CatalogOnce, RealmView, Saved, SavedRealm, Scope};
use hermod_core::RealmId;
use hermod_core::realm::Definition;

use super::queues::addressable;
use super::{App, Caller};
use crate::code::{Code, Problem};

pub(super) fn no_realm(id: &RealmId) -> Problem {
    Problem::new(Code::RealmNotFound, format!("There is no realm {id}."))
}

impl App {
    /// All realms of the space, by id.
    pub fn realms(&self, caller: &Caller) -> Result<Vec<RealmView>, Problem> {
        caller.need(Scope::RealmsRead)?;
        Ok(self.catalog.realm_views(&caller.space))
    }

    /// One realm.
    pub fn realm(&self, caller: &Caller, id: &str) -> Result<RealmView, Problem> {
        caller.need(Scope::RealmsRead)?;
        let id = RealmId::new(id)?;
        self.catalog.realm_view(&caller.space, &id).ok_or_else(|| no_realm(&id))
    }

    /// Adds a realm, or changes its definition; what is owned there stays. With `dry_run` nothing is saved.
    pub async fn put_realm(
        &self,
        caller: &Caller,
        id: &str,
        definition: Definition,
        dry_run: bool,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<SavedRealm>, Problem> {
        caller.need(Scope::RealmsWrite)?;
        addressable("realm", id)?;
        Ok(self.catalog.put_realm(&caller.space, RealmId::new(id)?, definition, dry_run, once).await?)
    }
}
