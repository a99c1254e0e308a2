//! The database goes away and comes back.

use std::time::{Duration, Instant};

use super::{SEEN_WITHIN, eventually, facts, matching, matching_now, open, rule, space};
use crate::{CatalogError, Scope};

/// Runs the story on the database server behind `url`. `stop` must stop it, `start` bring it back with its data.
pub async fn exercise_outage(url: &str, stop: impl AsyncFnOnce(), start: impl AsyncFnOnce()) {
    let catalog = open(url).await;
    let space = space(&catalog, "outage").await;
    let secret = catalog.create_key(&space, "bot", vec![Scope::Admin], None).await.unwrap().value.secret.unwrap();
    catalog.create_rule(&space, rule("all", "post", None, 1), None).await.unwrap();
    catalog.create_rule(&space, rule("own", "post", Some("cached"), 1), None).await.unwrap();
    catalog.create_rule(&space, rule("own-2", "post", Some("uncached"), 1), None).await.unwrap();
    assert_eq!(matching(&catalog, &space, "post", "cached").await, ["own"]);
    assert!(catalog.is_healthy());

    stop().await;
    let uncached = facts("post", "uncached");
    // At once, before anybody noticed: still an answer, and soon.
    let asked = Instant::now();
    let matched = catalog.matching(&space, &uncached).await;
    assert!(matched.is_degraded);
    assert!(asked.elapsed() < Duration::from_millis(1_500), "took {:?}", asked.elapsed());
    assert_eq!(super::ids(&matched), ["all"]);
    eventually("the loss is noticed", Duration::from_secs(4), async || !catalog.is_healthy()).await;
    // What is in memory goes on, and nobody waits for the rest.
    assert_eq!(matching_now(&catalog, &space, "post", "cached").unwrap(), ["own"]);
    assert!(catalog.authenticate(&secret).is_some());
    let asked = Instant::now();
    for _ in 0..1_000 {
        assert!(catalog.matching(&space, &uncached).await.is_degraded);
    }
    assert!(asked.elapsed() < Duration::from_secs(1), "took {:?}", asked.elapsed());
    match catalog.create_rule(&space, rule("new", "get", None, 1), None).await {
        Err(fault @ CatalogError::Unavailable(_)) => assert!(fault.is_retryable()),
        other => panic!("{other:?}"),
    }

    start().await;
    eventually("the return is noticed", Duration::from_secs(4), async || catalog.is_healthy()).await;
    assert_eq!(matching(&catalog, &space, "post", "uncached").await, ["own-2"]);
    catalog.create_rule(&space, rule("new", "get", None, 1), None).await.unwrap();
    let other = open(url).await;
    other.create_rule(&space, rule("newer", "put", None, 1), None).await.unwrap();
    eventually("changes are followed again", SEEN_WITHIN, async || matching(&catalog, &space, "put", "cached").await == ["newer"]).await;
    other.close().await;
    catalog.close().await;
}
