//! Who falls behind, a restored database, and what a newer version wrote.

use hermod_core::limit::index::Attributes;
use hermod_core::limit::{Facts, Pattern};

use super::*;
use crate::{Catalog, Options};

/// Two catalogs on one file; the second looks for changes only when told.
async fn pair(folder: &tempfile::TempDir) -> (Catalog, Catalog) {
    let url = format!("sqlite:{}/catalog.db", folder.path().display());
    let writer = Catalog::open(Options::new(&url)).await.unwrap();
    let reader = Catalog::open(Options { poll: Duration::from_secs(3_600), ..Options::new(&url) }).await.unwrap();
    (writer, reader)
}

fn rule(id: &str, subject: Option<&str>) -> Rule {
    let json = format!(r#"{{"id":"{id}","action":"{id}","limit":1,"per":"1s"}}"#);
    let mut rule: Rule = serde_json::from_str(&json).unwrap();
    rule.subject = subject.map(|s| Pattern::subject(s).unwrap());
    rule
}

async fn count(catalog: &Catalog, action: &str) -> usize {
    let facts = Facts { subject: "bot", action, cost: 1, attributes: Attributes::none() };
    catalog.matching(&SpaceId::default_space(), &facts).await.rules.len()
}

#[tokio::test]
async fn who_is_behind_the_trimmed_changes_reads_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, reader) = pair(&folder).await;
    let space = SpaceId::default_space();
    writer.create_rule(&space, rule("first", Some("bot")), None).await.unwrap();
    reader.inner.refresh(None).await.unwrap();
    assert_eq!(count(&reader, "first").await, 1);
    writer.create_rule(&space, rule("own", Some("bot")), None).await.unwrap();
    writer.create_rule(&space, rule("all", None), None).await.unwrap();
    assert_eq!((count(&reader, "own").await, count(&reader, "all").await), (0, 0));
    let trim = writer.inner.database.query("DELETE FROM changes WHERE version <= 2");
    trim.execute(writer.inner.database.pool()).await.unwrap();
    reader.inner.refresh(None).await.unwrap();
    assert_eq!((count(&reader, "own").await, count(&reader, "all").await), (1, 1));
    assert_eq!(reader.version(), 3);
}

#[tokio::test]
async fn a_restored_database_is_read_again_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, reader) = pair(&folder).await;
    let space = SpaceId::default_space();
    writer.create_rule(&space, rule("gone", None), None).await.unwrap();
    writer.create_rule(&space, rule("own", Some("bot")), None).await.unwrap();
    reader.inner.refresh(None).await.unwrap();
    assert_eq!((count(&reader, "gone").await, count(&reader, "own").await), (1, 1));
    for statement in ["DELETE FROM rules", "UPDATE spaces SET subject_rules = 0", "UPDATE catalog_version SET version = 0"] {
        writer.inner.database.query(statement).execute(writer.inner.database.pool()).await.unwrap();
    }
    reader.inner.refresh(None).await.unwrap();
    assert_eq!((count(&reader, "gone").await, count(&reader, "own").await), (0, 0));
    assert_eq!(reader.version(), 0);
}

#[tokio::test]
async fn a_rule_of_a_newer_version_is_an_error_and_what_was_known_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, reader) = pair(&folder).await;
    let space = SpaceId::default_space();
    writer.create_rule(&space, rule("all", None), None).await.unwrap();
    reader.inner.refresh(None).await.unwrap();
    let spoil = writer.inner.database.query(r#"UPDATE rules SET body = '{"surprise":1}'"#);
    spoil.execute(writer.inner.database.pool()).await.unwrap();
    assert!(writer.create_rule(&space, rule("next", None), None).await.is_ok(), "it is committed");
    let fault = reader.inner.refresh(None).await.unwrap_err();
    assert!(matches!(fault, CatalogError::Corrupt { what: "rule", ref id, .. } if id == "all"), "{fault:?}");
    assert_eq!(count(&reader, "all").await, 1);
}
