//! A change is seen by all servers within a second.

use super::{SEEN_WITHIN, eventually, facts, id, matching, matching_now, named, rule, space};
use crate::{Catalog, Scope};
use hermod_core::SpaceId;

pub(super) async fn all(a: &Catalog, b: &Catalog) {
    let space = space(a, "following").await;
    everyones_rules_are_followed(a, b, &space).await;
    a_subjects_rules_are_followed(a, b, &space).await;
    keys_are_followed(a, b, &space).await;
    a_burst_of_changes_is_followed(a, b, &space).await;
}

async fn everyones_rules_are_followed(a: &Catalog, b: &Catalog, space: &SpaceId) {
    a.create_rule(space, rule("all", "post", None, 1), None).await.unwrap();
    assert_eq!(matching_now(a, space, "post", "bot").unwrap(), ["all"]);
    eventually("everyone's rule appears", SEEN_WITHIN, async || matching(b, space, "post", "bot").await == ["all"]).await;
    let limit = |catalog: &Catalog| {
        catalog.matching_now(space, &facts("post", "bot")).and_then(|matched| matched.rules.first().map(|rule| rule.meter.limit()))
    };
    b.put_rule(space, rule("all", "post", None, 7), None).await.unwrap();
    assert_eq!(limit(b), Some(7));
    eventually("everyone's rule is replaced", SEEN_WITHIN, async || limit(a) == Some(7)).await;
    a.delete_rule(space, &id("all"), None).await.unwrap();
    eventually("everyone's rule goes", SEEN_WITHIN, async || matching(b, space, "post", "bot").await.is_empty()).await;
}

async fn a_subjects_rules_are_followed(a: &Catalog, b: &Catalog, space: &SpaceId) {
    // The first rule with a subject: until now this space had no need to ask.
    a.create_rule(space, rule("own", "post", Some("bot"), 1), None).await.unwrap();
    eventually("a subject's first rule appears", SEEN_WITHIN, async || matching(b, space, "post", "bot").await == ["own"]).await;
    // Now both have "other" as having none.
    assert!(matching(a, space, "post", "other").await.is_empty());
    assert!(matching(b, space, "post", "other").await.is_empty());
    b.create_rule(space, rule("other", "post", Some("other"), 1), None).await.unwrap();
    assert_eq!(matching(b, space, "post", "other").await, ["other"]);
    eventually("what was remembered as none appears", SEEN_WITHIN, async || matching(a, space, "post", "other").await == ["other"]).await;
    // Only the changed subject is forgotten.
    assert_eq!(matching_now(b, space, "post", "bot").unwrap(), ["own"]);
    a.delete_rule(space, &id("own"), None).await.unwrap();
    eventually("a subject's rule goes", SEEN_WITHIN, async || matching(b, space, "post", "bot").await.is_empty()).await;
    assert_eq!(matching_now(b, space, "post", "other").unwrap(), ["other"]);
}

async fn keys_are_followed(a: &Catalog, b: &Catalog, space: &SpaceId) {
    let made = a.create_key(space, "bot", vec![Scope::Admin], None).await.unwrap().value;
    let secret = made.secret.unwrap();
    assert!(a.authenticate(&secret).is_some());
    eventually("a key is accepted", SEEN_WITHIN, async || b.authenticate(&secret).is_some()).await;
    b.delete_key(space, &made.key.id, None).await.unwrap();
    assert!(b.authenticate(&secret).is_none());
    eventually("a deleted key is refused", SEEN_WITHIN, async || a.authenticate(&secret).is_none()).await;
}

async fn a_burst_of_changes_is_followed(a: &Catalog, b: &Catalog, space: &SpaceId) {
    let writing: Vec<_> = (0..40)
        .map(|i| {
            let (catalog, space) = (if i % 2 == 0 { a.clone() } else { b.clone() }, space.clone());
            let subject = (i % 4 > 1).then(|| format!("burst-{i}"));
            tokio::spawn(async move {
                let name = format!("n{i}");
                catalog.create_rule(&space, named(&name, &name, "burst", subject.as_deref(), 1), None).await.unwrap();
            })
        })
        .collect();
    for written in writing {
        written.await.unwrap();
    }
    for catalog in [a, b] {
        eventually("all of a burst is seen", SEEN_WITHIN, async || {
            // Twenty for everyone, and the subject's own.
            matching(catalog, space, "burst", "burst-2").await.len() == 21
                && matching(catalog, space, "burst", "burst-39").await.len() == 21
        })
        .await;
    }
    eventually("both are at the same version", SEEN_WITHIN, async || a.version() == b.version()).await;
}
