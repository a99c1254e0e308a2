//! Queues are stored and followed; a webhook's secret is made up once, kept, and rotated.

use hermod_core::queue::{Backoff, Mode, Overdue, Push, Queue, Secret, Webhook};
use hermod_core::{Micros, QueueId, SpaceId};

use super::{SEEN_WITHIN, eventually, space};
use crate::{Catalog, CatalogError, CatalogOnce};

pub(super) async fn all(a: &Catalog, b: &Catalog) {
    queues_are_saved_replaced_and_deleted(a).await;
    every_field_comes_back_as_it_was_saved(a).await;
    a_secret_is_made_up_once_and_kept(a).await;
    a_replay_knows_no_secret(a).await;
    a_webhook_is_switched_off_at_its_version_only(a).await;
    of_16_creators_of_one_queue_exactly_one_wins(a, b).await;
    queues_are_followed(a, b).await;
}

pub(super) fn id(text: &str) -> QueueId {
    QueueId::new(text).unwrap()
}

pub(super) fn queue(name: &str) -> Queue {
    Queue::new(id(name))
}

fn with_webhook(name: &str, secrets: &[Secret]) -> Queue {
    let webhook = Webhook { secrets: secrets.to_vec(), ..Webhook::new("https://example.com/hook") };
    Queue { push: Some(Push::Webhook(webhook)), ..queue(name) }
}

fn secrets(queue: &Queue) -> &[Secret] {
    match &queue.push {
        Some(Push::Webhook(webhook)) => &webhook.secrets,
        other => panic!("{other:?}"),
    }
}

async fn queues_are_saved_replaced_and_deleted(a: &Catalog) {
    let space = space(a, "queues").await;
    let made = a.create_queue(&space, queue("mail"), None).await.unwrap();
    assert!(made.created && !made.replayed && made.value.secret.is_none());
    assert_eq!(made.value.queue.version, 1);
    assert_eq!(*a.queue(&space, &id("mail")).unwrap(), made.value.queue);
    assert!(matches!(
        a.create_queue(&space, queue("mail"), None).await,
        Err(CatalogError::Exists { what: "queue", id }) if id == "mail"
    ));
    let put = a.put_queue(&space, Queue { mode: Mode::Sticky, ..queue("mail") }, None).await.unwrap();
    assert!(!put.created);
    assert_eq!((put.value.queue.version, a.queue(&space, &id("mail")).unwrap().mode), (2, Mode::Sticky));
    for name in ["b", "B", "Mail"] {
        a.put_queue(&space, queue(name), None).await.unwrap();
    }
    let names: Vec<String> = a.queues(&space).iter().map(|queue| queue.id.to_string()).collect();
    assert_eq!(names, ["B", "Mail", "b", "mail"]);
    let refused = a.put_queue(&space, Queue { max_attempts: 0, ..queue("bad") }, None).await;
    assert!(matches!(refused, Err(CatalogError::Invalid(fault)) if fault.field == "max_attempts"));
    // Another space has its own.
    assert!(a.queue(&SpaceId::default_space(), &id("mail")).is_none());
    assert!(!a.delete_queue(&SpaceId::default_space(), &id("mail"), None).await.unwrap());
    assert!(a.delete_queue(&space, &id("mail"), None).await.unwrap());
    assert!(!a.delete_queue(&space, &id("mail"), None).await.unwrap());
    assert!(a.queue(&space, &id("mail")).is_none());
    let nowhere = SpaceId::new("nowhere").unwrap();
    assert!(matches!(a.put_queue(&nowhere, queue("mail"), None).await, Err(CatalogError::NotFound { what: "space", .. })));
    assert!(a.queues(&nowhere).is_empty());
}

async fn every_field_comes_back_as_it_was_saved(a: &Catalog) {
    let space = space(a, "queue-fields").await;
    let us = Micros::saturating;
    let full = Queue {
        mode: Mode::Shared,
        order: hermod_core::queue::Order::Total,
        lease: us(100_000_000),
        worker_ttl: us(61_000_000),
        idle_after: us(7_200_000_000),
        max_attempts: 7,
        backoff: Backoff { first: us(1_500_000), factor_permille: 1_234, max: us(86_400_000_000), jitter_permille: 999 },
        on_exhausted: hermod_core::queue::OnExhausted::Drop,
        on_failure: hermod_core::queue::OnFailure::Skip,
        overdue: Overdue::DropAfter(us(3_600_001_000)),
        catch_up_per_second: Some(17),
        max_payload: 1_024,
        disabled: Some(String::from("410 Gone, große Pause")),
        ..with_webhook("full", &[Secret::from_bytes(&[1; 24]), Secret::from_bytes(&[2; 64])])
    };
    let saved = a.put_queue(&space, full.clone(), None).await.unwrap().value.queue;
    assert_eq!(saved, Queue { version: 1, ..full });
    assert_eq!(*a.queue(&space, &id("full")).unwrap(), saved);
    let log = Queue { push: Some(Push::Log), ..queue("log") };
    a.put_queue(&space, log.clone(), None).await.unwrap();
    assert_eq!(*a.queue(&space, &id("log")).unwrap(), Queue { version: 1, ..log });
}

async fn a_secret_is_made_up_once_and_kept(a: &Catalog) {
    let space = space(a, "queue-secrets").await;
    let made = a.put_queue(&space, with_webhook("hook", &[]), None).await.unwrap().value;
    let secret = made.secret.unwrap();
    assert_eq!(secret.key().unwrap().len(), 32);
    assert_eq!(secrets(&made.queue), std::slice::from_ref(&secret));
    // Saved again without one, it stays, and is not told again; also where its mask is sent back.
    for given in [&[][..], &[secret.masked()]] {
        let again = a.put_queue(&space, with_webhook("hook", given), None).await.unwrap().value;
        assert_eq!((again.secret, secrets(&again.queue)), (None, &[secret.clone()][..]));
    }
    // A new one beside the old, which may be named by its mask; then the new one alone.
    let new = Secret::from_bytes(&[9; 32]);
    let rotated = a.put_queue(&space, with_webhook("hook", &[new.clone(), secret.masked()]), None).await.unwrap().value;
    assert_eq!((rotated.secret, secrets(&rotated.queue)), (None, &[new.clone(), secret.clone()][..]));
    a.put_queue(&space, with_webhook("hook", &[]), None).await.unwrap();
    assert_eq!(secrets(&a.queue(&space, &id("hook")).unwrap()), [new.clone(), secret.clone()]);
    a.put_queue(&space, with_webhook("hook", std::slice::from_ref(&new)), None).await.unwrap();
    let stale = a.put_queue(&space, with_webhook("hook", &[secret.masked()]), None).await;
    assert!(matches!(stale, Err(CatalogError::Invalid(fault)) if fault.field == "push.webhook.secret"));
    // Without its webhook a queue has no secret to come back to.
    a.put_queue(&space, queue("hook"), None).await.unwrap();
    let other = a.put_queue(&space, with_webhook("hook", &[]), None).await.unwrap().value.secret.unwrap();
    assert!(other != secret && other != new);
}

async fn a_replay_knows_no_secret(a: &Catalog) {
    let space = space(a, "queue-once").await;
    let once = |key: &str, fingerprint| CatalogOnce { space: space.clone(), key: key.to_owned(), fingerprint };
    let first = a.put_queue(&space, with_webhook("hook", &[]), Some(&once("k", 1))).await.unwrap().value;
    let again = a.put_queue(&space, with_webhook("hook", &[]), Some(&once("k", 1))).await.unwrap();
    assert!(again.replayed && again.created);
    assert_eq!((again.value.secret, again.value.queue), (None, first.queue.masked()));
    assert_eq!(a.queue(&space, &id("hook")).unwrap().version, 1);
    let other = a.put_queue(&space, queue("hook"), Some(&once("k", 2))).await;
    assert!(matches!(other, Err(CatalogError::IdempotencyConflict { .. })));
    assert!(a.delete_queue(&space, &id("hook"), Some(&once("d", 1))).await.unwrap());
    assert!(a.delete_queue(&space, &id("hook"), Some(&once("d", 1))).await.unwrap());
    assert!(!a.delete_queue(&space, &id("hook"), None).await.unwrap());
}

async fn a_webhook_is_switched_off_at_its_version_only(a: &Catalog) {
    let space = space(a, "queue-off").await;
    a.put_queue(&space, with_webhook("hook", &[]), None).await.unwrap();
    assert!(!a.disable_queue(&space, &id("none"), 1, "410 Gone").await.unwrap());
    assert!(a.disable_queue(&space, &id("hook"), 1, "410 Gone").await.unwrap());
    let off = a.queue(&space, &id("hook")).unwrap();
    assert_eq!((off.version, off.disabled.as_deref()), (2, Some("410 Gone")));
    // Saved anew it is on again, and news of the old one do not concern it.
    a.put_queue(&space, with_webhook("hook", &[]), None).await.unwrap();
    assert!(!a.disable_queue(&space, &id("hook"), 2, "410 Gone").await.unwrap());
    assert_eq!(a.queue(&space, &id("hook")).unwrap().disabled, None);
}

async fn of_16_creators_of_one_queue_exactly_one_wins(a: &Catalog, b: &Catalog) {
    let space = space(a, "queue-race").await;
    let creating: Vec<_> = (0..16)
        .map(|i| {
            let (catalog, space) = (if i % 2 == 0 { a.clone() } else { b.clone() }, space.clone());
            tokio::spawn(async move { catalog.create_queue(&space, with_webhook("one", &[]), None).await })
        })
        .collect();
    let mut winners = Vec::new();
    for created in creating {
        match created.await.unwrap() {
            Ok(saved) => winners.push(saved.value.queue),
            Err(CatalogError::Exists { .. }) => {}
            Err(fault) => panic!("{fault:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    eventually("the winner is seen", SEEN_WITHIN, async || a.queue(&space, &id("one")).as_deref() == winners.first()).await;
}

async fn queues_are_followed(a: &Catalog, b: &Catalog) {
    let space = space(a, "queue-following").await;
    a.put_queue(&space, queue("mail"), None).await.unwrap();
    eventually("a queue appears", SEEN_WITHIN, async || b.queue(&space, &id("mail")).is_some()).await;
    b.put_queue(&space, Queue { max_attempts: 9, ..queue("mail") }, None).await.unwrap();
    let attempts = |catalog: &Catalog| catalog.queue(&space, &id("mail")).map(|queue| queue.max_attempts);
    assert_eq!(attempts(b), Some(9));
    eventually("a queue is replaced", SEEN_WITHIN, async || attempts(a) == Some(9)).await;
    // A rule is no reason to forget queues, nor a queue to forget rules.
    a.create_rule(&space, super::rule("r", "post", None, 1), None).await.unwrap();
    assert_eq!((attempts(a), a.queues(&space).len()), (Some(9), 1));
    b.put_queue(&space, queue("more"), None).await.unwrap();
    assert_eq!(super::matching(b, &space, "post", "bot").await, ["r"]);
    a.delete_queue(&space, &id("mail"), None).await.unwrap();
    eventually("a queue goes", SEEN_WITHIN, async || b.queue(&space, &id("mail")).is_none()).await;
}
