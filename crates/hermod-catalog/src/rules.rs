//! Rules: list, get, create, put, delete.

use std::borrow::Cow;

use hermod_core::limit::{Pattern, Rule, When};
use hermod_core::{RuleId, SpaceId, Subject};
use serde::Deserialize;
use sqlx::any::AnyRow;

use crate::catalog::Catalog;
use crate::change::{Change, Kind};
use crate::database::{CALL_TIMEOUT, Database, sql_int, text, within};
use crate::definition::{CatalogOnce, Saved};
use crate::error::CatalogError;
use crate::write::{Answer, Begun, Write, conflict};

/// The longest page.
const PAGE_MAX: u32 = 1_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Create,
    Put,
}

impl Catalog {
    /// Up to `limit` rules (at most 1,000) by id, those after `after`.
    pub async fn rules(&self, space: &SpaceId, after: Option<&RuleId>, limit: u32) -> Result<Vec<Rule>, CatalogError> {
        let database = &self.inner.database;
        within(CALL_TIMEOUT, async {
            let statement = "SELECT id, body FROM rules WHERE space = ? AND id > ? ORDER BY id LIMIT ?";
            // No id is empty, so all come after it.
            let after = after.map_or("", RuleId::as_str);
            let query = database.query(statement).bind(space.as_str()).bind(after).bind(i64::from(limit.clamp(1, PAGE_MAX)));
            let rows = query.fetch_all(database.pool()).await?;
            if rows.is_empty() {
                require_space(database, space).await?;
            }
            rows.iter().map(from_row).collect()
        })
        .await
    }

    /// One rule.
    pub async fn rule(&self, space: &SpaceId, id: &RuleId) -> Result<Option<Rule>, CatalogError> {
        let database = &self.inner.database;
        within(CALL_TIMEOUT, async {
            let query = database.query(SELECT_ONE).bind(space.as_str()).bind(id.as_str());
            query.fetch_optional(database.pool()).await?.as_ref().map(from_row).transpose()
        })
        .await
    }

    /// Saves a rule that is not there yet. Its version will be 1, whatever `rule` says.
    pub async fn create_rule(&self, space: &SpaceId, rule: Rule, once: Option<&CatalogOnce>) -> Result<Saved<Rule>, CatalogError> {
        within(CALL_TIMEOUT, self.save_rule(space, rule, once, Mode::Create)).await
    }

    /// Saves a rule, in place of the one with the same id if there is one. Its version grows by one.
    pub async fn put_rule(&self, space: &SpaceId, rule: Rule, once: Option<&CatalogOnce>) -> Result<Saved<Rule>, CatalogError> {
        within(CALL_TIMEOUT, self.save_rule(space, rule, once, Mode::Put)).await
    }

    /// Deletes a rule. False if there was none.
    pub async fn delete_rule(&self, space: &SpaceId, id: &RuleId, once: Option<&CatalogOnce>) -> Result<bool, CatalogError> {
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::RuleDeleted) => return Ok(true),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            let before = write.subject_rules(space).await?;
            let Some(old) = stored(&mut write, space, id).await? else { return Ok(false) };
            let delete = write.query("DELETE FROM rules WHERE space = ? AND id = ?").bind(space.as_str()).bind(id.as_str());
            write.execute(delete).await?;
            let changes = changes(&mut write, space, before, Some(&old), None).await?;
            write.commit(&changes, &Answer::RuleDeleted).await?;
            Ok(true)
        })
        .await
    }

    async fn save_rule(
        &self,
        space: &SpaceId,
        mut rule: Rule,
        once: Option<&CatalogOnce>,
        mode: Mode,
    ) -> Result<Saved<Rule>, CatalogError> {
        rule.meter()?;
        let mut write = match Write::begin(self, once).await? {
            Begun::New(write) => write,
            Begun::Replayed(Answer::Rule { rule, created }) => return Ok(Saved { value: *rule, created, replayed: true }),
            Begun::Replayed(_) => return Err(conflict(once)),
        };
        let before = write.subject_rules(space).await?;
        let old = stored(&mut write, space, &rule.id).await?;
        if old.is_some() && mode == Mode::Create {
            return Err(CatalogError::Exists { what: "rule", id: rule.id.to_string() });
        }
        refuse_duplicate(&mut write, space, &rule).await?;
        rule.version = old.as_ref().map_or(1, |old| old.version.saturating_add(1));
        // The order of the values is that of both statements.
        let statement = match &old {
            Some(_) => "UPDATE rules SET name = ?, action = ?, subject = ?, body = ?, version = ? WHERE space = ? AND id = ?",
            None => "INSERT INTO rules (name, action, subject, body, version, space, id) VALUES (?, ?, ?, ?, ?, ?, ?)",
        };
        let body = serde_json::to_string(&rule).map_err(|fault| CatalogError::corrupt("rule", rule.id.as_str(), fault))?;
        let query = write.query(statement).bind(rule.name.as_str()).bind(rule.action.as_str()).bind(exact_subject(&rule));
        let query = query.bind(body).bind(sql_int(rule.version)).bind(space.as_str()).bind(rule.id.as_str());
        write.execute(query).await?;
        let changes = changes(&mut write, space, before, old.as_ref(), Some(&rule)).await?;
        let created = old.is_none();
        write.commit(&changes, &Answer::Rule { rule: Box::new(rule.clone()), created }).await?;
        Ok(Saved { value: rule, created, replayed: false })
    }
}

const SELECT_ONE: &str = "SELECT id, body FROM rules WHERE space = ? AND id = ?";

async fn stored(write: &mut Write<'_>, space: &SpaceId, id: &RuleId) -> Result<Option<Rule>, CatalogError> {
    let query = write.query(SELECT_ONE).bind(space.as_str()).bind(id.as_str());
    write.fetch(query).await?.as_ref().map(from_row).transpose()
}

/// The one subject that the rule is for, as its column has it. Rules for everyone and for subjects
/// that look alike concern everybody: they are told apart by their body alone, and read together.
fn exact_subject(rule: &Rule) -> Option<&str> {
    rule.subject.as_ref().filter(|subject| !subject.is_glob()).map(Pattern::as_str)
}

/// What the columns do not tell of a rule.
#[derive(Deserialize)]
struct Particulars<'a> {
    #[serde(borrow, default)]
    subject: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    when: Option<Cow<'a, str>>,
}

/// Two rules of one name for the same action and subject, and on the same condition: nobody could say which one applies.
async fn refuse_duplicate(write: &mut Write<'_>, space: &SpaceId, rule: &Rule) -> Result<(), CatalogError> {
    let query = match exact_subject(rule) {
        Some(subject) => {
            let statement = "SELECT id, body FROM rules WHERE subject = ? AND space = ? AND action = ? AND name = ? AND id <> ?";
            write.query(statement).bind(subject.to_owned())
        }
        None => write.query("SELECT id, body FROM rules WHERE subject IS NULL AND space = ? AND action = ? AND name = ? AND id <> ?"),
    };
    let query = query.bind(space.as_str()).bind(rule.action.as_str()).bind(rule.name.as_str()).bind(rule.id.as_str());
    let (subject, when) = (rule.subject.as_ref().map(Pattern::as_str), rule.when.as_ref().map(When::as_str));
    for row in write.fetch_all(query).await? {
        let (id, body) = (text(&row, "id")?, text(&row, "body")?);
        let other: Particulars<'_> = serde_json::from_str(&body).map_err(|fault| CatalogError::corrupt("rule", id.as_str(), fault))?;
        if other.subject.as_deref() == subject && other.when.as_deref() == when {
            return Err(CatalogError::Duplicate { existing: RuleId::new(id)? });
        }
    }
    Ok(())
}

/// Whom the step from `old` to `new` concerns; also keeps the space's count of rules for one subject.
async fn changes(
    write: &mut Write<'_>,
    space: &SpaceId,
    before: u64,
    old: Option<&Rule>,
    new: Option<&Rule>,
) -> Result<Vec<Change>, CatalogError> {
    let counts = |rule: Option<&Rule>| u64::from(rule.and_then(exact_subject).is_some());
    let after = (before + counts(new)).saturating_sub(counts(old));
    if after != before {
        let query = write.query("UPDATE spaces SET subject_rules = ? WHERE space = ?").bind(sql_int(after)).bind(space.as_str());
        write.execute(query).await?;
    }
    // A rule that moves from one subject to another concerns both.
    let subject_of = |rule: &Rule| exact_subject(rule).map(Subject::new).transpose();
    let mut subjects: Vec<Option<Subject>> = [old, new].into_iter().flatten().map(subject_of).collect::<Result<_, _>>()?;
    subjects.dedup();
    let change = |subject| Change { subject, subject_rules: after, ..Change::of(Kind::Rule, space) };
    Ok(subjects.into_iter().map(change).collect())
}

pub(crate) async fn require_space(database: &Database, space: &SpaceId) -> Result<(), CatalogError> {
    let query = database.query("SELECT space FROM spaces WHERE space = ?").bind(space.as_str());
    match query.fetch_optional(database.pool()).await? {
        Some(_) => Ok(()),
        None => Err(CatalogError::space_not_found(space.as_str())),
    }
}

/// A rule, from its `id` and `body`.
pub(crate) fn from_row(row: &AnyRow) -> Result<Rule, CatalogError> {
    let id = text(row, "id")?;
    serde_json::from_str(&text(row, "body")?).map_err(|fault| CatalogError::corrupt("rule", id, fault))
}

/// The same, if it can be counted.
pub(crate) fn countable(row: &AnyRow) -> Result<Rule, CatalogError> {
    let rule = from_row(row)?;
    rule.meter().map_err(|fault| CatalogError::corrupt("rule", rule.id.as_str(), fault))?;
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use hermod_core::limit::index::Attributes;
    use hermod_core::limit::{Algorithm, Facts};

    use super::*;
    use crate::Options;

    #[tokio::test]
    async fn rules_stored_before_there_were_globs_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(format!("sqlite:{}/catalog.db", folder.path().display()));
        let catalog = Catalog::open(options.clone()).await.unwrap();
        for (id, subject) in [("all", None), ("own", Some("bot"))] {
            let told = subject.map(|subject| format!(r#""subject":"{subject}","#)).unwrap_or_default();
            let body = format!(
                r#"{{"id":"{id}","name":"default","action":"post",{told}"limit":5,"per":"1m","algorithm":"token_bucket","burst":7,"durable":true,"version":3}}"#
            );
            let statement =
                "INSERT INTO rules (name, action, subject, body, version, space, id) VALUES ('default', 'post', ?, ?, 3, 'default', ?)";
            let query = catalog.inner.database.query(statement).bind(subject).bind(body).bind(id);
            query.execute(catalog.inner.database.pool()).await.unwrap();
        }
        let count = catalog.inner.database.query("UPDATE spaces SET subject_rules = 1");
        count.execute(catalog.inner.database.pool()).await.unwrap();
        catalog.close().await;
        let catalog = Catalog::open(options).await.unwrap();
        let space = SpaceId::default_space();
        for (subject, id) in [("ann", "all"), ("bot", "own")] {
            let facts = Facts { subject, action: "post", cost: 1, attributes: Attributes::none() };
            let matched = catalog.matching(&space, &facts).await;
            assert_eq!(matched.rules.iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>(), [id]);
            let rule = catalog.rule(&space, &RuleId::new(id).unwrap()).await.unwrap().unwrap();
            assert_eq!((rule.algorithm, rule.burst, rule.version), (Algorithm::TokenBucket, Some(7), 3));
            // It can be saved again as it is.
            assert_eq!(catalog.put_rule(&space, rule, None).await.unwrap().value.version, 4);
        }
    }
}
