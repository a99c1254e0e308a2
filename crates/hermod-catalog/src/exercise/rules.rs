//! Rules are stored, listed, replaced and deleted; text is compared byte by byte.

use super::{id, matching, named, rule, space};
use crate::{Catalog, CatalogError};
use hermod_core::SpaceId;

pub(super) async fn all(a: &Catalog, b: &Catalog) {
    rules_are_created_replaced_and_deleted(a).await;
    pages_go_by_id_in_byte_order(a).await;
    text_is_compared_byte_by_byte(a).await;
    two_rules_of_one_name_for_the_same_are_refused(a).await;
    of_32_creators_of_one_id_exactly_one_wins(a, b).await;
    a_space_must_exist(a).await;
}

async fn rules_are_created_replaced_and_deleted(a: &Catalog) {
    let space = space(a, "crud").await;
    let made = a.create_rule(&space, rule("r", "post", None, 5), None).await.unwrap();
    assert!(made.created && !made.replayed);
    assert_eq!(made.value.version, 1);
    assert_eq!(a.rule(&space, &id("r")).await.unwrap(), Some(made.value));
    assert!(matches!(
        a.create_rule(&space, rule("r", "other", None, 5), None).await,
        Err(CatalogError::Exists { what: "rule", id }) if id == "r"
    ));
    let put = a.put_rule(&space, rule("r", "post", Some("bot"), 9), None).await.unwrap();
    assert!(!put.created);
    assert_eq!((put.value.version, put.value.limit), (2, 9));
    assert_eq!(a.rule(&space, &id("r")).await.unwrap(), Some(put.value));
    assert!(a.put_rule(&space, rule("s", "post", None, 9), None).await.unwrap().created);
    assert!(a.delete_rule(&space, &id("r"), None).await.unwrap());
    assert!(!a.delete_rule(&space, &id("r"), None).await.unwrap());
    assert_eq!(a.rule(&space, &id("r")).await.unwrap(), None);
    assert!(matches!(a.create_rule(&space, rule("zero", "post", None, 0), None).await, Err(CatalogError::Invalid(_))));
    // Another space has its own.
    assert_eq!(a.rule(&SpaceId::default_space(), &id("s")).await.unwrap(), None);
}

async fn pages_go_by_id_in_byte_order(a: &Catalog) {
    let space = space(a, "pages").await;
    for name in ["b", "B", "a", "a-1", "a.1", "a_1", "10", "9"] {
        a.create_rule(&space, named(name, name, "post", None, 1), None).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = a.rules(&space, after.as_ref(), 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        seen.extend(page.into_iter().map(|rule| rule.id.to_string()));
    }
    assert_eq!(seen, ["10", "9", "B", "a", "a-1", "a.1", "a_1", "b"]);
}

async fn text_is_compared_byte_by_byte(a: &Catalog) {
    let space = space(a, "bytes").await;
    let long = "ß".repeat(128);
    // Case, trailing and leading spaces, composed and decomposed, beyond the basic plane, wildcards, longest.
    let subjects = ["bob", "Bob", "BOB", "bob ", "bob  ", " bob", "bób", "bo\u{301}b", "🤖", "b%b", "b_b", "'", "straße", "strasse", &long];
    for (number, subject) in subjects.iter().enumerate() {
        a.create_rule(&space, rule(&format!("s{number}"), "post", Some(subject), 1), None).await.unwrap();
    }
    for (number, subject) in subjects.iter().enumerate() {
        assert_eq!(matching(a, &space, "post", subject).await, [format!("s{number}")], "{subject:?}");
        let stored = a.rule(&space, &id(&format!("s{number}"))).await.unwrap().unwrap();
        assert_eq!(stored.subject.unwrap().as_str(), *subject);
    }
    assert!(matching(a, &space, "post", "bOb").await.is_empty());
    for (number, action) in ["post", "Post", "post ", "пост"].iter().enumerate() {
        a.create_rule(&space, rule(&format!("a{number}"), action, None, 1), None).await.unwrap();
        assert_eq!(matching(a, &space, action, "somebody").await, [format!("a{number}")], "{action:?}");
    }
    a.create_rule(&space, named("S0", "upper", "x", None, 1), None).await.unwrap();
    assert_eq!(a.rule(&space, &id("S0")).await.unwrap().unwrap().action.as_str(), "x");
}

async fn two_rules_of_one_name_for_the_same_are_refused(a: &Catalog) {
    let space = space(a, "duplicates").await;
    for (first, second) in [
        (rule("e1", "post", None, 1), rule("e2", "post", None, 2)),
        (rule("o1", "post", Some("bot"), 1), rule("o2", "post", Some("bot"), 2)),
    ] {
        let existing = first.id.clone();
        a.create_rule(&space, first.clone(), None).await.unwrap();
        for refused in [a.create_rule(&space, second.clone(), None).await, a.put_rule(&space, second.clone(), None).await] {
            assert!(matches!(refused, Err(CatalogError::Duplicate { existing: named }) if named == existing));
        }
        // The rule itself is no duplicate of itself; another name, action or case is none either.
        a.put_rule(&space, first.clone(), None).await.unwrap();
        let subject = second.subject.as_ref().map(|s| s.as_str());
        a.create_rule(&space, named(&format!("{existing}-n"), "Default", "post", subject, 1), None).await.unwrap();
        a.create_rule(&space, rule(&format!("{existing}-a"), "POST", subject, 1), None).await.unwrap();
    }
}

async fn of_32_creators_of_one_id_exactly_one_wins(a: &Catalog, b: &Catalog) {
    let space = space(a, "race").await;
    let creating: Vec<_> = (1..=32)
        .map(|limit| {
            let catalog = if limit % 2 == 0 { a.clone() } else { b.clone() };
            let space = space.clone();
            tokio::spawn(async move { catalog.create_rule(&space, rule("one", "post", None, limit), None).await })
        })
        .collect();
    let mut winners = Vec::new();
    for created in creating {
        match created.await.unwrap() {
            Ok(saved) => winners.push(saved.value),
            Err(CatalogError::Exists { .. }) => {}
            Err(fault) => panic!("{fault:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(a.rule(&space, &id("one")).await.unwrap().as_ref(), winners.first());
}

async fn a_space_must_exist(a: &Catalog) {
    let nowhere = SpaceId::new("nowhere").unwrap();
    assert!(matches!(a.create_rule(&nowhere, rule("r", "post", None, 1), None).await, Err(CatalogError::NotFound { what: "space", .. })));
    assert!(matches!(a.delete_rule(&nowhere, &id("r"), None).await, Err(CatalogError::NotFound { .. })));
    assert!(matches!(a.rules(&nowhere, None, 10).await, Err(CatalogError::NotFound { .. })));
    assert!(matches!(a.keys(&nowhere).await, Err(CatalogError::NotFound { .. })));
    assert!(matching(a, &nowhere, "post", "bot").await.is_empty());
    let again = SpaceId::new("crud").unwrap();
    assert!(matches!(a.create_space(&again, None).await, Err(CatalogError::Exists { what: "space", .. })));
}
