//! Schedules belong to a queue, are followed, and go with it.

use hermod_core::queue::{Cron, Dst, Queue, Schedule};
use hermod_core::{Name, Recipient, SpaceId, Tag};

use super::queues::{id, queue};
use super::{SEEN_WITHIN, eventually, space};
use crate::{Catalog, CatalogError, CatalogOnce};

pub(super) async fn all(a: &Catalog, b: &Catalog) {
    schedules_are_saved_replaced_and_deleted(a).await;
    a_schedule_needs_its_queue_and_fits_into_it(a).await;
    schedules_are_followed_and_go_with_their_queue(a, b).await;
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn schedule(queue: &str, text: &str) -> Schedule {
    Schedule {
        queue: id(queue),
        name: name(text),
        cron: Cron::new("30 2 * * MON", "Europe/Berlin", Dst::Skip).unwrap(),
        payload: r#"{"say":"Grüße 🤖"}"#.into(),
        to: Some(Recipient::new("ann ").unwrap()),
        tags: ["user:42", "ß"].map(|tag| Tag::new(tag).unwrap()).to_vec(),
        enabled: false,
        version: 0,
    }
}

fn names(catalog: &Catalog, space: &SpaceId) -> Vec<String> {
    catalog.schedules(space).iter().map(|known| format!("{}/{}", known.queue, known.name)).collect()
}

async fn schedules_are_saved_replaced_and_deleted(a: &Catalog) {
    let space = space(a, "schedules").await;
    for name in ["mail", "Mail", "a"] {
        a.put_queue(&space, queue(name), None).await.unwrap();
    }
    let made = a.put_schedule(&space, schedule("mail", "weekly"), None).await.unwrap();
    assert!(made.created && !made.replayed);
    assert_eq!(made.value, Schedule { version: 1, ..schedule("mail", "weekly") });
    assert_eq!(*a.schedule(&space, &id("mail"), &name("weekly")).unwrap(), made.value);
    let once = CatalogOnce { space: space.clone(), key: String::from("k"), fingerprint: 1 };
    for replayed in [false, true] {
        let put = a.put_schedule(&space, Schedule { enabled: true, ..schedule("mail", "weekly") }, Some(&once)).await.unwrap();
        assert_eq!((put.created, put.replayed, put.value.version, put.value.enabled), (false, replayed, 2, true));
    }
    for (queue, name) in [("mail", "b"), ("mail", "B"), ("Mail", "weekly"), ("a", "z")] {
        a.put_schedule(&space, schedule(queue, name), None).await.unwrap();
    }
    assert_eq!(names(a, &space), ["Mail/weekly", "a/z", "mail/B", "mail/b", "mail/weekly"]);
    for (queue, text) in [("mail", "B"), ("Mail", "weekly"), ("a", "z")] {
        assert!(a.schedule(&space, &id(queue), &name(text)).is_some(), "{queue}/{text}");
    }
    assert!(a.schedule(&space, &id("mail"), &name("z")).is_none());
    assert!(names(a, &SpaceId::default_space()).is_empty());
    assert!(!a.delete_schedule(&space, &id("a"), &name("b"), None).await.unwrap());
    assert!(a.delete_schedule(&space, &id("mail"), &name("b"), None).await.unwrap());
    assert!(!a.delete_schedule(&space, &id("mail"), &name("b"), None).await.unwrap());
    assert_eq!(names(a, &space), ["Mail/weekly", "a/z", "mail/B", "mail/weekly"]);
}

async fn a_schedule_needs_its_queue_and_fits_into_it(a: &Catalog) {
    let space = space(a, "schedule-queue").await;
    let none = a.put_schedule(&space, schedule("mail", "weekly"), None).await;
    assert!(matches!(none, Err(CatalogError::NotFound { what: "queue", id }) if id == "mail"));
    a.put_queue(&space, Queue { max_payload: 10, ..queue("mail") }, None).await.unwrap();
    let long = a.put_schedule(&space, schedule("mail", "weekly"), None).await;
    assert!(matches!(long, Err(CatalogError::Invalid(fault)) if fault.field == "payload"));
    a.put_schedule(&space, Schedule { payload: "1234567890".into(), ..schedule("mail", "weekly") }, None).await.unwrap();
}

async fn schedules_are_followed_and_go_with_their_queue(a: &Catalog, b: &Catalog) {
    let space = space(a, "schedule-following").await;
    for name in ["mail", "other"] {
        a.put_queue(&space, queue(name), None).await.unwrap();
    }
    a.put_schedule(&space, schedule("mail", "weekly"), None).await.unwrap();
    a.put_schedule(&space, schedule("other", "weekly"), None).await.unwrap();
    eventually("schedules appear", SEEN_WITHIN, async || names(b, &space) == ["mail/weekly", "other/weekly"]).await;
    // A change of the queue leaves its schedules; its end does not.
    b.put_queue(&space, Queue { max_attempts: 2, ..queue("mail") }, None).await.unwrap();
    assert_eq!(names(b, &space).len(), 2);
    b.delete_queue(&space, &id("mail"), None).await.unwrap();
    assert_eq!(names(b, &space), ["other/weekly"]);
    eventually("schedules go", SEEN_WITHIN, async || names(a, &space) == ["other/weekly"]).await;
    a.put_queue(&space, queue("mail"), None).await.unwrap();
    assert_eq!(names(a, &space), ["other/weekly"], "a new queue of the name begins without");
    a.delete_schedule(&space, &id("other"), &name("weekly"), None).await.unwrap();
    eventually("the last one goes", SEEN_WITHIN, async || names(b, &space).is_empty()).await;
}
