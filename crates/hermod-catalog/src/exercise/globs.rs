//! Rules for many: patterns of actions and subjects, and conditions.

use hermod_core::SpaceId;
use hermod_core::limit::index::{Attribute, Attributes, Why};
use hermod_core::limit::{Facts, Pattern, Rule, When};

use super::{SEEN_WITHIN, eventually, facts, id, ids, matching, matching_now, named, rule, space};
use crate::{Catalog, CatalogError};

pub(super) async fn all(a: &Catalog, b: &Catalog) {
    globs_concern_everybody(a, b).await;
    the_more_specific_overrides(a).await;
    a_rule_moves_between_one_subject_and_many(a, b).await;
    conditions_are_asked_of_each_call(a, b).await;
    the_same_for_the_same_is_refused(a).await;
    an_explanation_knows_all_candidates(a).await;
}

fn when(mut rule: Rule, text: &str) -> Rule {
    rule.when = Some(When::new(text).unwrap());
    rule
}

async fn globs_concern_everybody(a: &Catalog, b: &Catalog) {
    let space = space(a, "globs").await;
    a.create_rule(&space, named("any", "action", "tasks/*", None, 1), None).await.unwrap();
    a.create_rule(&space, named("vip", "subject", "tasks/create", Some("vip:*"), 1), None).await.unwrap();
    for catalog in [a, b] {
        eventually("globs are seen", SEEN_WITHIN, async || matching(catalog, &space, "tasks/create", "vip:1").await == ["any", "vip"])
            .await;
        // No subject has a rule of its own, so memory knows the answer for all.
        assert_eq!(matching_now(catalog, &space, "tasks/create", "vip:2").unwrap(), ["any", "vip"]);
        assert_eq!(matching_now(catalog, &space, "tasks/delete", "bot").unwrap(), ["any"]);
        assert!(matching_now(catalog, &space, "other", "vip:1").unwrap().is_empty());
    }
    // The very text of a pattern is one of those it stands for.
    assert_eq!(matching(a, &space, "tasks/*", "vip:*").await, ["any"]);
    let stored = a.rule(&space, &id("vip")).await.unwrap().unwrap();
    assert_eq!(stored.subject, Some(Pattern::subject("vip:*").unwrap()));
    a.delete_rule(&space, &id("vip"), None).await.unwrap();
    eventually("a glob goes", SEEN_WITHIN, async || matching(b, &space, "tasks/create", "vip:1").await == ["any"]).await;
}

async fn the_more_specific_overrides(a: &Catalog) {
    let space = space(a, "specific").await;
    // Each overrides the one before it.
    for (name, action, subject) in [
        ("1", "*", None),
        ("2", "tasks/*", None),
        ("3", "tasks/create", None),
        ("4", "tasks/*", Some("vip:*")),
        ("5", "tasks/create", Some("vip:*")),
        ("6", "tasks/*", Some("vip:1")),
        ("7", "tasks/create", Some("vip:1")),
    ] {
        a.create_rule(&space, rule(name, action, subject, 1), None).await.unwrap();
        assert_eq!(matching(a, &space, "tasks/create", "vip:1").await, [name]);
    }
    assert_eq!(matching(a, &space, "tasks/create", "vip:2").await, ["5"]);
    assert_eq!(matching(a, &space, "tasks/delete", "vip:1").await, ["6"]);
    assert_eq!(matching(a, &space, "tasks/create", "bot").await, ["3"]);
    assert_eq!(matching(a, &space, "tasks/delete", "bot").await, ["2"]);
    assert_eq!(matching(a, &space, "other", "vip:1").await, ["1"]);
}

async fn a_rule_moves_between_one_subject_and_many(a: &Catalog, b: &Catalog) {
    let space = space(a, "widening").await;
    a.create_rule(&space, rule("r", "post", Some("ann"), 1), None).await.unwrap();
    for (to, ann, bob) in [(Some("b*"), 0, 1), (Some("ann"), 1, 0), (Some("*"), 1, 1), (None, 1, 1), (Some("bob"), 0, 1)] {
        a.put_rule(&space, rule("r", "post", to, 1), None).await.unwrap();
        for catalog in [a, b] {
            eventually("a rule moves", SEEN_WITHIN, async || {
                let found = (matching(catalog, &space, "post", "ann").await.len(), matching(catalog, &space, "post", "bob").await.len());
                found == (ann, bob)
            })
            .await;
        }
    }
    a.put_rule(&space, rule("r", "post", Some("b*"), 1), None).await.unwrap();
    // The count of rules for one subject followed: there is none again, and nobody needs to ask.
    assert_eq!(matching_now(a, &space, "post", "never-seen"), Some(vec![]));
}

async fn conditions_are_asked_of_each_call(a: &Catalog, b: &Catalog) {
    let space = space(a, "conditions").await;
    a.create_rule(&space, rule("usual", "post", None, 1), None).await.unwrap();
    a.create_rule(&space, when(rule("large", "post", None, 1), "cost > 10"), None).await.unwrap();
    a.create_rule(&space, when(rule("own", "post", Some("bot"), 1), "attributes.plan == 'pro'"), None).await.unwrap();
    let pro = Attributes([(String::from("plan"), Attribute::Text(String::from("pro")))].into());
    let none = Attributes::none();
    for catalog in [a, b] {
        eventually("conditions are seen", SEEN_WITHIN, async || catalog.version() == a.version()).await;
        for (subject, cost, attributes, expected) in [
            ("bot", 1, none, "usual"),
            ("bot", 1, &pro, "own"),
            ("ann", 1, &pro, "usual"),
            // Two for everyone, of which one has a condition that holds: that one.
            ("ann", 11, none, "large"),
            ("bot", 11, none, "large"),
            ("bot", 11, &pro, "own"),
        ] {
            let matched = catalog.matching(&space, &Facts { cost, attributes, ..facts("post", subject) }).await;
            assert_eq!(ids(&matched), [expected], "{subject} {cost}");
        }
    }
    let stored = a.rule(&space, &id("large")).await.unwrap().unwrap();
    assert_eq!(stored.when.unwrap().as_str(), "cost > 10");
}

async fn the_same_for_the_same_is_refused(a: &Catalog) {
    let space = space(a, "same").await;
    let same = |name: &str, condition: Option<&str>, subject| {
        let rule = rule(name, "tasks/*", subject, 1);
        condition.into_iter().fold(rule, when)
    };
    for (number, subject) in [None, Some("vip:*"), Some("vip:**"), Some("bot")].into_iter().enumerate() {
        for (kind, condition) in [("n", None), ("c", Some("cost > 1")), ("d", Some("cost > 2"))] {
            let first = format!("{kind}{number}");
            a.create_rule(&space, same(&first, condition, subject), None).await.unwrap();
            let second = a.create_rule(&space, same("second", condition, subject), None).await;
            assert!(matches!(second, Err(CatalogError::Duplicate { existing }) if existing == id(&first)), "{first}");
            // It is no duplicate of itself.
            a.put_rule(&space, same(&first, condition, subject), None).await.unwrap();
        }
    }
}

async fn an_explanation_knows_all_candidates(a: &Catalog) {
    let space = space(a, "explained").await;
    let told = async |subject: &str| {
        let considered = a.considered(&space, &facts("post", subject)).await;
        considered.into_iter().map(|one| (one.rule.id.to_string(), one.why)).collect::<Vec<_>>()
    };
    assert!(told("bot").await.is_empty());
    a.create_rule(&space, rule("all", "post", None, 1), None).await.unwrap();
    a.create_rule(&space, when(rule("if", "post", Some("b*"), 1), "cost > 1"), None).await.unwrap();
    let (all, condition) = ((String::from("all"), Why::Applies), (String::from("if"), Why::WhenFalse));
    assert_eq!(told("bot").await, [condition.clone(), all.clone()]);
    a.create_rule(&space, rule("own", "post", Some("bot"), 1), None).await.unwrap();
    let by = |name: &str| (name.to_owned(), Why::Overridden { by: id("own") });
    assert_eq!(told("bot").await, [(String::from("own"), Why::Applies), by("if"), by("all")]);
    assert_eq!(told("bob").await, [condition, all]);
    let nowhere = SpaceId::new("unexplained").unwrap();
    assert!(a.considered(&nowhere, &facts("post", "bot")).await.is_empty());
}
