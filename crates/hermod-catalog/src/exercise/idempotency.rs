//! Asking twice is safe.

use super::{id, rule, space};
use crate::{Catalog, CatalogError, CatalogOnce};
use hermod_core::SpaceId;

pub(super) async fn all(a: &Catalog, b: &Catalog) {
    the_same_request_replays_its_answer(a).await;
    another_request_under_the_same_key_is_refused(a).await;
    a_refusal_is_not_kept(a).await;
    of_16_at_once_one_does_it_and_the_others_replay(a, b).await;
    a_key_makes_one_space(a).await;
}

/// A key of a caller in `space`.
fn once(space: &SpaceId, key: &str, fingerprint: u128) -> CatalogOnce {
    CatalogOnce { space: space.clone(), key: key.to_owned(), fingerprint }
}

async fn the_same_request_replays_its_answer(a: &Catalog) {
    let space = space(a, "replay").await;
    let key = once(&space, "k", u128::MAX);
    let first = a.put_rule(&space, rule("r", "post", None, 1), Some(&key)).await.unwrap();
    a.put_rule(&space, rule("r", "post", None, 2), None).await.unwrap();
    let version = a.version();
    let again = a.put_rule(&space, rule("r", "post", None, 1), Some(&key)).await.unwrap();
    assert!(again.replayed && again.created);
    assert_eq!(again.value, first.value);
    // Nothing was done: neither the rule nor the version moved.
    assert_eq!(a.rule(&space, &id("r")).await.unwrap().unwrap().limit, 2);
    assert_eq!(a.version(), version);
    let gone = once(&space, "gone", 7);
    assert!(a.delete_rule(&space, &id("r"), Some(&gone)).await.unwrap());
    assert!(a.delete_rule(&space, &id("r"), Some(&gone)).await.unwrap());
    assert!(!a.delete_rule(&space, &id("r"), None).await.unwrap());
}

async fn another_request_under_the_same_key_is_refused(a: &Catalog) {
    let space = space(a, "conflict").await;
    a.create_rule(&space, rule("r", "post", None, 1), Some(&once(&space, "k", 1))).await.unwrap();
    let other = a.create_rule(&space, rule("s", "get", None, 1), Some(&once(&space, "k", 2))).await;
    assert!(matches!(other, Err(CatalogError::IdempotencyConflict { key }) if key == "k"));
    assert_eq!(a.rule(&space, &id("s")).await.unwrap(), None);
    // The same fingerprint, but another kind of request.
    assert!(matches!(a.delete_rule(&space, &id("r"), Some(&once(&space, "k", 1))).await, Err(CatalogError::IdempotencyConflict { .. })));
    // Keys tell upper from lower case, and belong to the caller's space, whatever space the request is about.
    assert!(!a.create_rule(&space, rule("t", "put", None, 1), Some(&once(&space, "K", 3))).await.unwrap().replayed);
    let default = SpaceId::default_space();
    let abroad = a.create_rule(&default, rule("conflict", "conflict", None, 1), Some(&once(&space, "k", 4))).await;
    assert!(matches!(abroad, Err(CatalogError::IdempotencyConflict { .. })));
    assert!(!a.create_rule(&default, rule("conflict", "conflict", None, 1), Some(&once(&default, "k", 4))).await.unwrap().replayed);
    for bad in ["", "a b", "ä", &"k".repeat(129)] {
        assert!(matches!(a.put_rule(&space, rule("r", "post", None, 1), Some(&once(&space, bad, 1))).await, Err(CatalogError::Invalid(_))));
    }
}

async fn a_refusal_is_not_kept(a: &Catalog) {
    let space = space(a, "refusal").await;
    a.create_rule(&space, rule("r", "post", None, 1), None).await.unwrap();
    let key = once(&space, "k", 1);
    assert!(matches!(a.create_rule(&space, rule("r", "post", None, 1), Some(&key)).await, Err(CatalogError::Exists { .. })));
    assert!(!a.delete_rule(&space, &id("none"), Some(&once(&space, "d", 1))).await.unwrap());
    a.delete_rule(&space, &id("r"), None).await.unwrap();
    assert!(!a.create_rule(&space, rule("r", "post", None, 1), Some(&key)).await.unwrap().replayed);
}

async fn of_16_at_once_one_does_it_and_the_others_replay(a: &Catalog, b: &Catalog) {
    let space = space(a, "at-once").await;
    let asking: Vec<_> = (0..16)
        .map(|i| {
            let (catalog, space) = (if i % 2 == 0 { a.clone() } else { b.clone() }, space.clone());
            tokio::spawn(async move { catalog.create_rule(&space, rule("r", "post", None, 1), Some(&once(&space, "k", 1))).await })
        })
        .collect();
    let mut done = 0;
    for answer in asking {
        let saved = answer.await.unwrap().unwrap();
        assert_eq!(saved.value.version, 1);
        done += usize::from(!saved.replayed);
    }
    assert_eq!(done, 1);
}

async fn a_key_makes_one_space(a: &Catalog) {
    let (caller, one, two) = (space(a, "spaces").await, SpaceId::new("once-one").unwrap(), SpaceId::new("once-two").unwrap());
    let first = a.create_space(&one, Some(&once(&caller, "k", 1))).await.unwrap();
    let again = a.create_space(&one, Some(&once(&caller, "k", 1))).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.value, first.value);
    assert!(matches!(a.create_space(&two, Some(&once(&caller, "k", 2))).await, Err(CatalogError::IdempotencyConflict { .. })));
}
