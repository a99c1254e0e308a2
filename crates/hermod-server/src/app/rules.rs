//! limit: the rules.

use hermod_catalog::{CatalogOnce, Saved, Scope};
use hermod_core::limit::{Algorithm, Pattern, Per, Rule, When};
use hermod_core::{Invalid, Name, RuleId};

use super::{App, Caller};
use crate::code::{Code, Problem};

/// A rule as it comes from outside, not yet checked.
#[derive(Clone, Debug, Default)]
pub struct RuleDraft {
    /// Made up if absent.
    pub id: Option<String>,
    /// `default` if absent.
    pub name: Option<String>,
    /// Which actions; exact or a glob.
    pub action: String,
    /// Whom; everyone if absent.
    pub subject: Option<String>,
    /// A condition, in CEL.
    pub when: Option<String>,
    /// How many per period.
    pub limit: u64,
    /// The period.
    pub per: String,
    /// `sliding_window` if absent; `fixed_window` for a window of the calendar.
    pub algorithm: Option<String>,
    /// `limit` if absent.
    pub burst: Option<u64>,
    /// None if absent.
    pub queue: Option<u64>,
    /// Two counters instead of a ring.
    pub approximate: bool,
    /// `subject` if absent.
    pub scope: Option<String>,
    /// `enforce` if absent.
    pub mode: Option<String>,
    /// Whether answers wait for the disk.
    pub durable: bool,
    /// `closed` for a durable rule, `open` for others if absent.
    pub on_store_error: Option<String>,
    /// `keep` if absent.
    pub on_expiry: Option<String>,
}

fn word<T: std::str::FromStr<Err = Invalid> + Default>(text: Option<&str>) -> Result<T, Invalid> {
    text.map_or_else(|| Ok(T::default()), str::parse)
}

impl RuleDraft {
    /// Checks every field, and that they fit together.
    pub fn check(self) -> Result<Rule, Invalid> {
        let id = match self.id {
            // Clients take these out of a URL, however they are spelled.
            Some(id) if matches!(id.as_str(), "." | "..") => return Err(Invalid::new("id", "must not be . or .., which no path can hold")),
            Some(id) => RuleId::new(id)?,
            None => RuleId::new(format!("rl_{}", uuid::Uuid::now_v7().simple()))?,
        };
        let per: Per = self.per.parse()?;
        let algorithm = match (self.algorithm.as_deref(), &per) {
            (None, Per::Calendar(_)) => Algorithm::FixedWindow,
            (given, _) => word(given)?,
        };
        let rule = Rule {
            id,
            name: self.name.map_or_else(|| Ok(Name::default_name()), Name::new)?,
            action: Pattern::action(self.action)?,
            subject: self.subject.map(Pattern::subject).transpose()?,
            when: self.when.as_deref().map(When::new).transpose()?,
            limit: self.limit,
            per,
            algorithm,
            burst: self.burst,
            queue: self.queue,
            approximate: self.approximate,
            scope: word(self.scope.as_deref())?,
            mode: word(self.mode.as_deref())?,
            durable: self.durable,
            on_store_error: self.on_store_error.as_deref().map(str::parse).transpose()?,
            on_expiry: word(self.on_expiry.as_deref())?,
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
