//! admin: the API keys.

use hermod_catalog::{ApiKey, CatalogOnce, NewKey, Saved, Scope};
use hermod_core::{Invalid, SpaceId};

use super::{App, Caller};
use crate::code::{Code, Problem};

impl App {
    /// The keys of the caller's space, without their secrets.
    pub async fn keys(&self, caller: &Caller) -> Result<Vec<ApiKey>, Problem> {
        caller.need(Scope::Admin)?;
        Ok(self.catalog.keys(&caller.space).await?)
    }

    /// Makes a key. Its secret is in this answer and nowhere else.
    pub async fn create_key(
        &self,
        caller: &Caller,
        name: &str,
        scopes: &[String],
        space: Option<&str>,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<NewKey>, Problem> {
        caller.need(Scope::Admin)?;
        let space = match space.map(SpaceId::new).transpose()? {
            Some(space) if space != caller.space => {
                caller.need(Scope::Spaces)?;
                space
            }
            _ => caller.space.clone(),
        };
        let scopes = scopes.iter().map(|text| text.parse()).collect::<Result<Vec<Scope>, Invalid>>()?;
        if scopes.is_empty() {
            let known = Scope::ALL.map(Scope::as_str).join(", ");
            return Err(Invalid::new("scopes", format!("must name at least one of {known}")).into());
        }
        // A key that rules over spaces is only made by one that does, and only in the first space.
        if scopes.contains(&Scope::Spaces) {
            caller.need(Scope::Spaces)?;
            if space != SpaceId::default_space() {
                return Err(Invalid::new("scopes", "may hold spaces in the space default only").into());
            }
        }
        Ok(self.catalog.create_key(&space, name, scopes, once).await?)
    }

    /// Deletes a key: within a second no server accepts it any more.
    pub async fn delete_key(&self, caller: &Caller, id: &str, once: Option<&CatalogOnce>) -> Result<(), Problem> {
        caller.need(Scope::Admin)?;
        let keys = self.catalog.keys(&caller.space).await?;
        // What a key may do never changes, so this holds when it is deleted.
        if keys.iter().any(|key| key.id == id && key.allows(Scope::Spaces)) {
            caller.need(Scope::Spaces)?;
        }
        // What no key is called is not worth a question, and some databases refuse to be asked.
        let may_exist = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if may_exist && self.catalog.delete_key(&caller.space, id, once).await? {
            return Ok(());
        }
        Err(Problem::new(Code::NotFound, "There is no such key in this space."))
    }
}
