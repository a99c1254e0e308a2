//! One endpoint never stands in the way of another.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hermod_server::push::{Endpoint, Sent};
use tokio::sync::Semaphore;

use super::receiver::{Act, Receiver, ok, status};
use super::{endpoint, parcel, sender};

const ACCEPTED: Sent = Sent::Accepted { status: 200 };

#[tokio::test]
async fn a_slow_endpoint_does_not_delay_another() {
    let (slow, quick) = (Receiver::always(Act::Hang).await, Receiver::always(ok()).await);
    let sender = sender();
    let (to_slow, to_quick) = (endpoint(&slow.url()), endpoint(&quick.url()));
    let stuck: Vec<_> = (0..20)
        .map(|_| {
            let (sender, to_slow) = (sender.clone(), to_slow.clone());
            tokio::spawn(async move { sender.send(&to_slow, &parcel("dl_1")).await })
        })
        .collect();
    slow.until(|seen| seen.now == 4).await;
    assert_eq!((sender.room(&to_slow), sender.room(&to_quick)), (0, 4));
    for _ in 0..20 {
        assert_eq!(sender.send(&to_quick, &parcel("dl_2")).await, ACCEPTED);
    }
    assert!(stuck.iter().all(|task| !task.is_finished()));
    assert_eq!(slow.seen().most, 4);
    for task in stuck {
        task.abort();
    }
    slow.until(|seen| seen.now == 0).await;
}

#[tokio::test]
async fn no_more_than_the_bound_are_under_way() {
    let gate = Arc::new(Semaphore::new(0));
    let receiver = Receiver::always(Act::Gate(Arc::clone(&gate))).await;
    let sender = sender();
    let endpoint = Endpoint { concurrency: 3, ..endpoint(&receiver.url()) };
    let sends = join_all((0..30).map(|_| async { sender.send(&endpoint, &parcel("dl_1")).await }));
    let opens = async {
        for n in 0..30 {
            let full = 3.min(30 - n);
            receiver.until(|seen| seen.now == full && seen.requests.len() >= n + full).await;
            gate.add_permits(1);
        }
    };
    let (sent, ()) = tokio::join!(sends, opens);
    assert!(sent.iter().all(|sent| *sent == ACCEPTED), "{sent:?}");
    assert_eq!(receiver.seen().most, 3);
    assert_eq!(sender.room(&endpoint), 3);
}

#[tokio::test]
async fn who_finds_no_place_in_time_has_made_no_attempt() {
    let receiver = Receiver::always(Act::Hang).await;
    let (sender, endpoint) = (sender(), Endpoint { concurrency: 1, ..endpoint(&receiver.url()) });
    let soon = Endpoint { timeout: Duration::from_millis(50), ..endpoint.clone() };
    let busy = async {
        receiver.until(|seen| seen.now == 1).await;
        sender.send(&soon, &parcel("dl_2")).await
    };
    let first = parcel("dl_1");
    let other = tokio::select! {
        first = sender.send(&endpoint, &first) => panic!("{first:?}"),
        other = busy => other,
    };
    assert!(matches!(other, Sent::Held { why: "the endpoint is busy", .. }), "{other:?}");
    assert!(sender.attempts("default", "mail").is_empty());
    assert_eq!(receiver.seen().requests.len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_fails_is_left_alone_and_tried_again() {
    let receiver = Receiver::start(|n| if n < 6 { status(500, "") } else { ok() }, None).await;
    let (sender, endpoint) = (sender(), endpoint(&receiver.url()));
    for n in 0..5 {
        assert_eq!(sender.ready_at(&endpoint), None, "after {n} failures");
        assert!(matches!(sender.send(&endpoint, &parcel("dl_1")).await, Sent::Refused { status: Some(500), .. }));
    }
    for (failed, rest_s) in [(5, 1), (6, 2)] {
        let until = sender.ready_at(&endpoint).expect("it rests");
        let held = sender.send(&endpoint, &parcel("dl_1")).await;
        let Sent::Held { retry_after, .. } = held else { panic!("{held:?}") };
        assert!(retry_after <= Duration::from_secs(rest_s), "{retry_after:?}");
        assert_eq!((receiver.seen().requests.len(), sender.room(&endpoint)), (failed, 0));
        tokio::time::sleep_until(until).await;
        assert_eq!(sender.room(&endpoint), 1, "one finds out");
        sender.send(&endpoint, &parcel("dl_1")).await;
    }
    assert_eq!((sender.ready_at(&endpoint), sender.room(&endpoint)), (None, 4));
    assert_eq!(sender.send(&endpoint, &parcel("dl_1")).await, ACCEPTED);
    assert_eq!(sender.attempts("default", "mail").len(), 8, "what was held is no attempt");
}

#[tokio::test]
async fn an_endpoint_that_asks_for_a_rest_gets_it() {
    let receiver = Receiver::always(status(429, "retry-after: 30\r\n")).await;
    let (sender, mine) = (sender(), endpoint(&receiver.url()));
    let theirs = Endpoint { space: "other".to_owned(), ..mine.clone() };
    sender.send(&mine, &parcel("dl_1")).await;
    assert!(matches!(sender.send(&mine, &parcel("dl_2")).await, Sent::Held { .. }));
    assert!(sender.ready_at(&mine).is_some() && sender.ready_at(&theirs).is_none());
    assert_eq!(receiver.seen().requests.len(), 1);
}
