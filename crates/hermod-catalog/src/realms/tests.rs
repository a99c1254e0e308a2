//! What only one server's own database can show: bounds, and rows that were spoiled.

use super::*;
use crate::Options;

async fn run(catalog: &Catalog, statement: &'static str) {
    catalog.inner.database.query(statement).execute(catalog.inner.database.pool()).await.unwrap();
}

const PLAIN: &str = r#"{"assets":{"bone":{}}}"#;

fn id(text: &str) -> RealmId {
    RealmId::new(text).unwrap()
}

fn definition(json: &str) -> Definition {
    serde_json::from_str(json).unwrap()
}

#[tokio::test]
async fn a_space_has_a_thousand_realms_at_most() {
    let catalog = Catalog::open(Options::default()).await.unwrap();
    let space = SpaceId::default_space();
    let put = async |name: &str, dry_run| catalog.put_realm(&space, id(name), definition(PLAIN), dry_run, None).await;
    put("r0", false).await.unwrap();
    let more = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998) \
                INSERT INTO realms SELECT space, 'r' || i, body, version, hash, seed, retired FROM realms, n WHERE id = 'r0'";
    run(&catalog, more).await;
    put("last", false).await.unwrap();
    for dry_run in [true, false] {
        let refused = put("more", dry_run).await;
        assert!(matches!(refused, Err(CatalogError::TooMany { whole: "space", what: "realm", max: 1_000 })), "{refused:?}");
    }
    // What is there can still be changed.
    let changed = Definition { description: "more".to_owned(), ..definition(PLAIN) };
    assert_eq!(catalog.put_realm(&space, id("last"), changed, false, None).await.unwrap().value.version, 2);
}

#[tokio::test]
async fn a_definition_has_a_quarter_of_a_mebibyte_at_most() {
    let catalog = Catalog::open(Options::default()).await.unwrap();
    let of = |length| Definition { description: "x".repeat(length), ..definition(PLAIN) };
    let empty = serde_json::to_string(&of(1)).unwrap().len() - 1;
    let put = async |length| catalog.put_realm(&SpaceId::default_space(), id("ajo"), of(length), false, None).await;
    put(DEFINITION_MAX - empty).await.unwrap();
    let refused = put(DEFINITION_MAX - empty + 1).await.unwrap_err();
    assert!(matches!(&refused, CatalogError::Invalid(fault) if fault.field == "definition"), "{refused:?}");
}

#[tokio::test]
async fn a_realm_that_cannot_be_read_any_more_is_left_out_and_can_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/catalog.db", folder.path().display());
    let space = SpaceId::default_space();
    let catalog = Catalog::open(Options::new(&url)).await.unwrap();
    for name in ["good", "newer", "torn", "seedless"] {
        catalog.put_realm(&space, id(name), definition(PLAIN), false, None).await.unwrap();
    }
    run(&catalog, r#"UPDATE realms SET body = '{"assets":{"bone":{"shape":"round"}},"moons":[]}' WHERE id = 'newer'"#).await;
    run(&catalog, "UPDATE realms SET body = '{' WHERE id = 'torn'").await;
    run(&catalog, "UPDATE realms SET seed = 'zz' WHERE id = 'seedless'").await;
    catalog.close().await;

    let catalog = Catalog::open(Options::new(&url)).await.unwrap();
    let names: Vec<String> = catalog.realms(&space).iter().map(|realm| realm.id.to_string()).collect();
    assert_eq!(names, ["good"]);
    // What was settled is still known of one that cannot be played.
    let refused = catalog.put_realm(&space, id("newer"), definition(r#"{"assets":{"gear":{}}}"#), false, None).await.unwrap_err();
    assert!(matches!(&refused, CatalogError::Faulty { faults } if faults[0].path == "assets.bone"), "{refused:?}");
    let put = catalog.put_realm(&space, id("newer"), definition(PLAIN), false, None).await.unwrap();
    assert_eq!((put.value.version, put.value.changed), (2, vec!["assets.bone".to_owned(), "moons".to_owned()]));
    assert_eq!(catalog.realm(&space, &id("newer")).unwrap().version, 2);
    let torn = catalog.put_realm(&space, id("torn"), definition(PLAIN), false, None).await;
    assert!(matches!(torn, Err(CatalogError::Corrupt { what: "realm", .. })), "{torn:?}");
}
