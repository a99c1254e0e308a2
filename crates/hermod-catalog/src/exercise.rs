//! The suite that every database must pass, the same on SQLite, PostgreSQL and MySQL/MariaDB.
//!
//! It is compiled for this crate's tests, which run it on SQLite, and behind the feature
//! `exercise` for the integration tests, which start the servers. A broken promise panics. Each
//! part works in a space of its own, so that parts do not see each other.

// This is a test, though the compiler cannot know it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod decks;
mod following;
mod globs;
mod idempotency;
mod keys;
mod leaving;
mod matching;
mod outage;
mod queues;
mod realms;
mod rules;
mod schedules;

use std::time::{Duration, Instant};

use hermod_core::limit::index::Attributes;
use hermod_core::limit::{Facts, Pattern, Rule};
use hermod_core::{RuleId, SpaceId};

use crate::{Catalog, Matched, Options};

pub use outage::exercise_outage;

/// The promise: a change is seen by all servers within a second.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

/// Runs everything on the database at `url`, which must be new and empty, and not in one connection's memory.
pub async fn exercise(url: &str) {
    eight_servers_may_start_at_once_on_a_new_database(url).await;
    let a = open(url).await;
    let b = open(url).await;
    rules::all(&a, &b).await;
    matching::all(&a).await;
    globs::all(&a, &b).await;
    keys::all(&a).await;
    idempotency::all(&a, &b).await;
    queues::all(&a, &b).await;
    schedules::all(&a, &b).await;
    decks::all(&a, &b).await;
    realms::all(&a, &b).await;
    following::all(&a, &b).await;
    leaving::all(&a, &b).await;
    assert!(a.is_healthy() && b.is_healthy());
    a.close().await;
    b.close().await;
    assert!(!a.is_healthy());
}

async fn eight_servers_may_start_at_once_on_a_new_database(url: &str) {
    let opening: Vec<_> = (0..8).map(|_| tokio::spawn(Catalog::open(Options::new(url)))).collect();
    for catalog in opening {
        let catalog = catalog.await.unwrap().unwrap();
        let spaces = catalog.spaces().await.unwrap();
        assert_eq!(spaces.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["default"]);
        catalog.close().await;
    }
}

async fn open(url: &str) -> Catalog {
    Catalog::open(Options::new(url)).await.unwrap()
}

/// A new space of this name.
async fn space(catalog: &Catalog, name: &str) -> SpaceId {
    let space = SpaceId::new(name).unwrap();
    catalog.create_space(&space, None).await.unwrap();
    space
}

/// A rule `limit` per second, of the name `default`.
fn rule(id: &str, action: &str, subject: Option<&str>, limit: u64) -> Rule {
    named(id, "default", action, subject, limit)
}

fn named(id: &str, name: &str, action: &str, subject: Option<&str>, limit: u64) -> Rule {
    let json = serde_json::json!({ "id": id, "name": name, "action": action, "limit": limit, "per": "1s" });
    let mut rule: Rule = serde_json::from_value(json).unwrap();
    rule.subject = subject.map(|s| Pattern::subject(s).unwrap());
    rule
}

fn id(text: &str) -> RuleId {
    RuleId::new(text).unwrap()
}

/// A call that costs one, without attributes.
fn facts<'a>(action: &'a str, subject: &'a str) -> Facts<'a> {
    Facts { subject, action, cost: 1, attributes: Attributes::none() }
}

/// The ids of the rules that apply, whatever has to be asked for it.
async fn matching(catalog: &Catalog, space: &SpaceId, action: &str, subject: &str) -> Vec<String> {
    let matched = catalog.matching(space, &facts(action, subject)).await;
    assert!(!matched.is_degraded);
    ids(&matched)
}

/// The ids of the rules that apply, if memory knows.
fn matching_now(catalog: &Catalog, space: &SpaceId, action: &str, subject: &str) -> Option<Vec<String>> {
    catalog.matching_now(space, &facts(action, subject)).as_ref().map(ids)
}

fn ids(matched: &Matched) -> Vec<String> {
    matched.rules.iter().map(|rule| rule.id.to_string()).collect()
}

/// Waits until `holds`, and panics with `what` after `span`.
async fn eventually(what: &str, span: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < span, "not within {span:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn sqlite_passes() {
        let folder = tempfile::tempdir().unwrap();
        exercise(&format!("sqlite:{}/catalog.db", folder.path().display())).await;
    }
}
