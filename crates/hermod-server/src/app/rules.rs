//! limit: the rules.

use hermod_catalog::{CatalogOnce, Saved, Scope};
use hermod_core::limit::{Algorithm, Rule};
use hermod_core::{Action, Invalid, Name, RuleId, Subject};

use super::{App, Caller};
use crate::code::{Code, Problem};

/// A rule as it comes from outside, not yet checked.
#[derive(Clone, Debug, Default)]
pub struct RuleDraft {
    /// Made up if absent.
    pub id: Option<String>,
    /// `default` if absent.
    pub name: Option<String>,
    /// Which action.
    pub action: String,
    /// Whom; everyone if absent.
    pub subject: Option<String>,
    /// How many per period.
    pub limit: u64,
    /// The period.
    pub per: String,
    /// `token_bucket` if absent.
    pub algorithm: Option<String>,
    /// `limit` if absent.
    pub burst: Option<u64>,
    /// Whether answers wait for the disk.
    pub durable: bool,
}

impl RuleDraft {
    /// Checks every field, and that the numbers fit together.
    pub fn check(self) -> Result<Rule, Invalid> {
        let id = match self.id {
            // Clients take these out of a URL, however they are spelled.
            Some(id) if matches!(id.as_str(), "." | "..") => return Err(Invalid::new("id", "must not be . or .., which no path can hold")),
            Some(id) => RuleId::new(id)?,
            None => RuleId::new(format!("rl_{}", uuid::Uuid::now_v7().simple()))?,
        };
        let algorithm = match self.algorithm.as_deref() {
            None | Some("token_bucket") => Algorithm::TokenBucket,
            Some(_) => return Err(Invalid::new("algorithm", "must be token_bucket; others are not there yet")),
        };
        let rule = Rule {
            id,
            name: self.name.map_or_else(|| Ok(Name::default_name()), Name::new)?,
            action: Action::new(self.action)?,
            subject: self.subject.map(Subject::new).transpose()?,
            limit: self.limit,
            per: self.per.parse()?,
            algorithm,
            burst: self.burst,
            durable: self.durable,
            version: 0,
        };
        rule.meter()?;
        Ok(rule)
    }
}

impl App {
    /// A page of the space's rules, by id.
    pub async fn rules(&self, caller: &Caller, after: Option<&str>, limit: u32) -> Result<Vec<Rule>, Problem> {
        caller.need(Scope::RulesRead)?;
        let after = after
            .map(RuleId::new)
            .transpose()
            .map_err(|_| Problem::new(Code::InvalidField, "cursor is not one of ours").in_field("cursor"))?;
        Ok(self.catalog.rules(&caller.space, after.as_ref(), limit).await?)
    }

    /// One rule.
    pub async fn rule(&self, caller: &Caller, id: &str) -> Result<Rule, Problem> {
        caller.need(Scope::RulesRead)?;
        let id = RuleId::new(id)?;
        let rule = self.catalog.rule(&caller.space, &id).await?;
        rule.ok_or_else(|| Problem::new(Code::NotFound, format!("There is no rule {id}.")))
    }

    /// Adds a rule.
    pub async fn create_rule(&self, caller: &Caller, draft: RuleDraft, once: Option<&CatalogOnce>) -> Result<Saved<Rule>, Problem> {
        caller.need(Scope::RulesWrite)?;
        Ok(self.catalog.create_rule(&caller.space, draft.check()?, once).await?)
    }

    /// Adds or replaces a rule. What is used under it stays used.
    pub async fn put_rule(&self, caller: &Caller, draft: RuleDraft, once: Option<&CatalogOnce>) -> Result<Saved<Rule>, Problem> {
        caller.need(Scope::RulesWrite)?;
        Ok(self.catalog.put_rule(&caller.space, draft.check()?, once).await?)
    }

    /// Deletes a rule.
    pub async fn delete_rule(&self, caller: &Caller, id: &str, once: Option<&CatalogOnce>) -> Result<(), Problem> {
        caller.need(Scope::RulesWrite)?;
        let id = RuleId::new(id)?;
        if self.catalog.delete_rule(&caller.space, &id, once).await? {
            return Ok(());
        }
        Err(Problem::new(Code::NotFound, format!("There is no rule {id}.")))
    }
}
