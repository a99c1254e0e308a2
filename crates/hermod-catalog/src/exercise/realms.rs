//! Realms are stored, followed and versioned by their content; what is settled stays; the seed stays and is its own.

use std::sync::Arc;

use hermod_core::realm::Definition;
use hermod_core::{RealmId, SpaceId};
use serde_json::{Value, json};

use super::{SEEN_WITHIN, eventually, space};
use crate::{Catalog, CatalogError, CatalogOnce, Saved, SavedRealm};

pub(super) async fn all(a: &Catalog, b: &Catalog) {
    realms_are_saved_and_replaced(a).await;
    the_same_content_is_the_same_version(a).await;
    a_large_definition_comes_back_as_it_was_saved(a).await;
    what_is_settled_stays(a).await;
    a_dry_run_changes_nothing(a).await;
    a_replay_answers_the_same(a).await;
    realms_are_followed_and_others_stay_the_same(a, b).await;
}

fn id(text: &str) -> RealmId {
    RealmId::new(text).unwrap()
}

fn definition(value: Value) -> Definition {
    serde_json::from_value(value).unwrap()
}

async fn put(catalog: &Catalog, space: &SpaceId, name: &str, value: Value) -> Result<Saved<SavedRealm>, CatalogError> {
    catalog.put_realm(space, id(name), definition(value), false, None).await
}

fn plain() -> Value {
    json!({"assets": {"bone": {}}})
}

fn garlic() -> Value {
    json!({"description": "Grüße", "assets": {"ajo": {"kind": "currency", "board": true}, "bone": {"max": 206}},
        "timers": {"daily": {"every": "24h"}},
        "plays": {"daily": {"need": [{"timer": "daily", "else": "ttl"}], "do": [{"claim": {"timer": "daily"}},
            {"move": {"from": "@mint", "to": "by", "asset": "ajo", "qty": 32}}]}}})
}

/// Garlic without one asset, or with it changed.
fn with_asset(name: &str, asset: Option<Value>) -> Value {
    let mut value = garlic();
    let assets = value["assets"].as_object_mut().unwrap();
    match asset {
        Some(asset) => drop(assets.insert(name.to_owned(), asset)),
        None => drop(assets.remove(name)),
    }
    value
}

async fn realms_are_saved_and_replaced(a: &Catalog) {
    let space = space(a, "realms").await;
    let made = put(a, &space, "ajo", garlic()).await.unwrap();
    assert!(made.created && !made.replayed);
    assert_eq!((made.value.version, made.value.hash.len()), (1, 64));
    assert_eq!(made.value.changed, ["assets.ajo", "assets.bone", "description", "plays.daily", "timers.daily"]);
    let view = a.realm_view(&space, &id("ajo")).unwrap();
    assert_eq!((&*view.realm.definition, &*view.hash, view.realm.version), (&definition(garlic()), made.value.hash.as_str(), 1));
    assert!(!format!("{view:?}").contains("seed"), "{view:?}");

    let put_again = put(a, &space, "ajo", with_asset("bone", Some(json!({"max": 7})))).await.unwrap();
    assert!(!put_again.created);
    assert_eq!((put_again.value.version, &put_again.value.changed), (2, &vec!["assets.bone".to_owned()]));
    assert_ne!(put_again.value.hash, made.value.hash);
    let realm = a.realm(&space, &id("ajo")).unwrap();
    assert_eq!((realm.version, realm.seed), (2, view.realm.seed));
    for name in ["b", "B", "Ajo"] {
        put(a, &space, name, plain()).await.unwrap();
    }
    let names: Vec<String> = a.realms(&space).iter().map(|realm| realm.id.to_string()).collect();
    assert_eq!(names, ["Ajo", "B", "ajo", "b"]);
    assert_ne!(a.realm(&space, &id("b")).unwrap().seed, realm.seed);
    // Another space has its own.
    assert!(a.realm(&SpaceId::default_space(), &id("ajo")).is_none());
    let nowhere = SpaceId::new("nowhere").unwrap();
    assert!(matches!(put(a, &nowhere, "ajo", plain()).await, Err(CatalogError::NotFound { what: "space", .. })));
    assert!(a.realms(&nowhere).is_empty());
}

async fn the_same_content_is_the_same_version(a: &Catalog) {
    let space = space(a, "realm-same").await;
    let made = put(a, &space, "ajo", garlic()).await.unwrap();
    let (version, realm) = (a.version(), a.realm(&space, &id("ajo")).unwrap());
    // Written otherwise, with what is usual spelled out.
    let mut same = garlic();
    same["assets"]["bone"] = json!({"kind": "item", "max": 206, "board": false});
    let again = put(a, &space, "ajo", same).await.unwrap();
    assert_eq!((again.created, again.value.version, &again.value.hash), (false, 1, &made.value.hash));
    assert!(again.value.changed.is_empty());
    assert_eq!(a.version(), version);
    assert!(Arc::ptr_eq(&a.realm(&space, &id("ajo")).unwrap(), &realm));
}

async fn a_large_definition_comes_back_as_it_was_saved(a: &Catalog) {
    let space = space(a, "realm-large").await;
    // Beyond what MySQL's TEXT holds.
    let large = json!({"description": "é".repeat(100_000), "assets": {"bone": {}}});
    put(a, &space, "large", large.clone()).await.unwrap();
    assert_eq!(*a.realm(&space, &id("large")).unwrap().definition, definition(large));
}

async fn what_is_settled_stays(a: &Catalog) {
    let space = space(a, "realm-settled").await;
    put(a, &space, "ajo", garlic()).await.unwrap();
    let rows = [
        (with_asset("bone", None), vec!["assets.bone"]),
        (with_asset("bone", Some(json!({"board": true}))), vec!["assets.bone.board"]),
        (with_asset("ajo", Some(json!({"kind": "currency"}))), vec!["assets.ajo.board"]),
        (with_asset("ajo", Some(json!({}))), vec!["assets.ajo.board", "assets.ajo.kind"]),
        (json!({"assets": {"gear": {}}}), vec!["assets.ajo", "assets.bone"]),
    ];
    for (value, paths) in rows {
        for dry_run in [true, false] {
            let refused = a.put_realm(&space, id("ajo"), definition(value.clone()), dry_run, None).await.unwrap_err();
            let CatalogError::Faulty { faults } = refused else { panic!("{refused:?}") };
            assert_eq!(faults.iter().map(|fault| fault.path.as_str()).collect::<Vec<_>>(), paths);
        }
    }
    assert_eq!(a.realm(&space, &id("ajo")).unwrap().version, 1);
    // Anything else of an asset may change, and there may be more.
    put(a, &space, "ajo", with_asset("bone", Some(json!({"max": 1, "tradable": false, "emoji": "🦴"})))).await.unwrap();
    put(a, &space, "ajo", with_asset("gear", Some(json!({})))).await.unwrap();
}

async fn a_dry_run_changes_nothing(a: &Catalog) {
    let space = space(a, "realm-dry").await;
    let version = a.version();
    let dry = async |value: Value| a.put_realm(&space, id("ajo"), definition(value), true, None).await.unwrap();
    let would = dry(garlic()).await;
    assert_eq!((would.created, would.value.version, would.value.changed.len()), (true, 1, 5));
    assert!(a.realm(&space, &id("ajo")).is_none());
    let made = put(a, &space, "ajo", garlic()).await.unwrap();
    assert_eq!(made.value, would.value);
    let would = dry(json!({"assets": garlic()["assets"]})).await;
    assert_eq!((would.created, would.value.version), (false, 2));
    assert_eq!(would.value.changed, ["description", "plays.daily", "timers.daily"]);
    assert_eq!(dry(garlic()).await.value.version, 1);
    assert_eq!((a.realm(&space, &id("ajo")).unwrap().version, a.version()), (1, version + 1));
}

async fn a_replay_answers_the_same(a: &Catalog) {
    let space = space(a, "realm-once").await;
    let once = |key: &str, fingerprint| CatalogOnce { space: space.clone(), key: key.to_owned(), fingerprint };
    let put = async |value: Value, once: CatalogOnce| a.put_realm(&space, id("ajo"), definition(value), false, Some(&once)).await;
    let made = put(garlic(), once("first", 1)).await.unwrap();
    // That nothing changed is an answer, too.
    let same = put(garlic(), once("same", 2)).await.unwrap();
    assert_eq!((same.replayed, same.value.version), (false, 1));
    let other = put(with_asset("gear", Some(json!({}))), once("other", 3)).await.unwrap();
    for (value, once, before) in
        [(garlic(), once("first", 1), &made), (garlic(), once("same", 2), &same), (plain(), once("other", 3), &other)]
    {
        let again = put(value, once).await.unwrap();
        assert_eq!((again.replayed, again.created, &again.value), (true, before.created, &before.value));
    }
    assert!(matches!(put(garlic(), once("first", 9)).await, Err(CatalogError::IdempotencyConflict { .. })));
    assert_eq!(a.realm(&space, &id("ajo")).unwrap().version, 2);
}

async fn realms_are_followed_and_others_stay_the_same(a: &Catalog, b: &Catalog) {
    let space = space(a, "realm-followed").await;
    put(a, &space, "ajo", garlic()).await.unwrap();
    put(a, &space, "other", plain()).await.unwrap();
    eventually("realms made on one server", SEEN_WITHIN, async || b.realms(&space).len() == 2).await;
    let (ajo, other) = (b.realm(&space, &id("ajo")).unwrap(), b.realm(&space, &id("other")).unwrap());
    assert_eq!(ajo.seed, a.realm(&space, &id("ajo")).unwrap().seed);
    put(a, &space, "ajo", with_asset("gear", Some(json!({})))).await.unwrap();
    eventually("a realm changed on one server", SEEN_WITHIN, async || b.realm(&space, &id("ajo")).unwrap().version == 2).await;
    assert_eq!(ajo.version, 1, "who has it keeps it");
    assert!(Arc::ptr_eq(&b.realm(&space, &id("other")).unwrap(), &other));
    // Nor does reading everything again make it another one.
    b.inner.reload().await.unwrap();
    assert!(Arc::ptr_eq(&b.realm(&space, &id("other")).unwrap(), &other));
}
