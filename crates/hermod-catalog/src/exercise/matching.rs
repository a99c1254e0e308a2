//! Which rules apply, and what memory knows of it.

use super::{id, matching, matching_now, named, rule, space};
use crate::Catalog;

pub(super) async fn all(a: &Catalog) {
    the_subjects_own_rule_wins_over_everyones_of_the_same_name(a).await;
    rules_of_different_names_all_apply_by_name_then_id(a).await;
    a_space_without_subject_rules_never_asks_the_database(a).await;
    no_rule_of_its_own_is_remembered_too(a).await;
    a_rule_that_moves_is_noticed_by_both_subjects(a).await;
    waiting_together_for_one_subject_answers_all(a).await;
}

async fn the_subjects_own_rule_wins_over_everyones_of_the_same_name(a: &Catalog) {
    let space = space(a, "override").await;
    a.create_rule(&space, named("day", "daily", "post", None, 250), None).await.unwrap();
    a.create_rule(&space, named("vip", "daily", "post", Some("vip"), 1000), None).await.unwrap();
    assert_eq!(matching(a, &space, "post", "vip").await, ["vip"]);
    assert_eq!(matching(a, &space, "post", "bot").await, ["day"]);
    assert!(matching(a, &space, "get", "vip").await.is_empty());
    // Everyone's rule changes under the cached subject.
    a.create_rule(&space, named("burst", "burst", "post", None, 10), None).await.unwrap();
    assert_eq!(matching_now(a, &space, "post", "vip").unwrap(), ["burst", "vip"]);
    a.delete_rule(&space, &id("vip"), None).await.unwrap();
    assert_eq!(matching(a, &space, "post", "vip").await, ["burst", "day"]);
}

async fn rules_of_different_names_all_apply_by_name_then_id(a: &Catalog) {
    let space = space(a, "names").await;
    for (id, name, subject) in [("1", "z", None), ("9", "a", None), ("5", "m", Some("bot")), ("7", "Z", None)] {
        a.create_rule(&space, named(id, name, "post", subject, 1), None).await.unwrap();
    }
    assert_eq!(matching(a, &space, "post", "bot").await, ["7", "9", "5", "1"]);
    assert_eq!(matching(a, &space, "post", "other").await, ["7", "9", "1"]);
}

async fn a_space_without_subject_rules_never_asks_the_database(a: &Catalog) {
    let space = space(a, "everyone").await;
    assert_eq!(matching_now(a, &space, "post", "bot"), Some(vec![]));
    a.create_rule(&space, rule("all", "post", None, 1), None).await.unwrap();
    assert_eq!(matching_now(a, &space, "post", "bot").unwrap(), ["all"]);
    a.create_rule(&space, rule("own", "post", Some("other"), 1), None).await.unwrap();
    assert_eq!(matching_now(a, &space, "post", "bot"), None);
    // The last rule with a subject is gone, and with it the need to ask.
    a.delete_rule(&space, &id("own"), None).await.unwrap();
    assert_eq!(matching_now(a, &space, "post", "bot").unwrap(), ["all"]);
    assert_eq!(matching_now(a, &space, "post", "other").unwrap(), ["all"]);
}

async fn no_rule_of_its_own_is_remembered_too(a: &Catalog) {
    let space = space(a, "negative").await;
    a.create_rule(&space, rule("own", "post", Some("other"), 1), None).await.unwrap();
    assert_eq!(matching_now(a, &space, "post", "bot"), None);
    assert!(matching(a, &space, "post", "bot").await.is_empty());
    assert_eq!(matching_now(a, &space, "post", "bot"), Some(vec![]));
    // Its first rule is seen at once, and the neighbour's memory is not lost over it.
    assert_eq!(matching(a, &space, "post", "other").await, ["own"]);
    a.create_rule(&space, rule("first", "post", Some("bot"), 1), None).await.unwrap();
    assert_eq!(matching_now(a, &space, "post", "bot"), None);
    assert_eq!(matching(a, &space, "post", "bot").await, ["first"]);
    assert_eq!(matching_now(a, &space, "post", "other").unwrap(), ["own"]);
}

async fn a_rule_that_moves_is_noticed_by_both_subjects(a: &Catalog) {
    let space = space(a, "moves").await;
    a.create_rule(&space, rule("r", "post", Some("ann"), 1), None).await.unwrap();
    for (to, ann, bob) in [(Some("bob"), 0, 1), (None, 1, 1), (Some("ann"), 1, 0)] {
        // Both are in the cache before.
        matching(a, &space, "post", "ann").await;
        matching(a, &space, "post", "bob").await;
        a.put_rule(&space, rule("r", "post", to, 1), None).await.unwrap();
        let found = (matching(a, &space, "post", "ann").await.len(), matching(a, &space, "post", "bob").await.len());
        assert_eq!(found, (ann, bob), "moved to {to:?}");
    }
}

async fn waiting_together_for_one_subject_answers_all(a: &Catalog) {
    let space = space(a, "together").await;
    a.create_rule(&space, rule("r", "post", Some("bot"), 1), None).await.unwrap();
    let asking: Vec<_> = (0..64)
        .map(|_| {
            let (a, space) = (a.clone(), space.clone());
            tokio::spawn(async move { matching(&a, &space, "post", "bot").await })
        })
        .collect();
    for answer in asking {
        assert_eq!(answer.await.unwrap(), ["r"]);
    }
}
