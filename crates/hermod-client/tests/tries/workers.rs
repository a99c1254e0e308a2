//! Workers of sticky queues: what is asked, what is repeated, and what is read.

use std::time::Duration;

use hermod_client::{ClaimRequest, OwnerReason, RecipientState, WorkerState};

use super::canned::{Canned, Server};
use super::client;

const REGISTERED: &str =
    r#"{"worker":"w 1","incarnation":7,"state":"live","lease_until":"2026-02-03T04:05:06.789Z","worker_ttl":"15s","news":1}"#;
const DRAINING: &str = r#"{"worker":"w 1","incarnation":7,"state":"draining","lease_until":"2026-02-03T04:05:06.789Z","worker_ttl":"?"}"#;
const GONE: &str = r#"{"status":409,"code":"worker_gone","detail":"Register again.","field":"worker","retryable":false}"#;

#[tokio::test]
async fn a_worker_says_the_same_until_it_is_heard() {
    let mut server = Server::start(vec![
        Canned::HangUp,
        Canned::Answer(200, "", REGISTERED),
        Canned::Answer(200, "", REGISTERED),
        Canned::HangUp,
        Canned::Answer(200, "", REGISTERED),
        Canned::Answer(200, "", DRAINING),
        Canned::Answer(200, "", DRAINING),
        Canned::Answer(204, "", ""),
        Canned::Answer(204, "", ""),
        Canned::Answer(409, "", GONE),
    ])
    .await;
    let client = client(&server);
    let queues = client.queues();
    let registered = queues.register("inbox", "w 1", None).await.unwrap();
    assert_eq!((registered.incarnation, &registered.state), (7, &WorkerState::Live));
    assert_eq!(registered.heartbeat_every(), Duration::from_secs(5));
    queues.register("inbox", "w 1", Some(3)).await.unwrap();
    queues.heartbeat("inbox", "w 1", 7).await.unwrap();
    let draining = queues.drain("inbox", "w 1", None).await.unwrap();
    assert_eq!(draining.state, WorkerState::Draining);
    assert!(!draining.heartbeat_every().is_zero(), "a span that cannot be read is no reason to ask without end");
    queues.drain("inbox", "w 1", Some(7)).await.unwrap();
    queues.leave("inbox", "w 1", Some(7)).await.unwrap();
    queues.leave("inbox", "w 1", None).await.unwrap();
    let gone = queues.heartbeat("inbox", "w 1", 7).await.unwrap_err();
    assert!(gone.is_worker_gone() && !gone.is_retryable(), "{gone}");
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.header("idempotency-key").is_none()), "nobody remembers a heartbeat");
    let asked: Vec<_> = asked.into_iter().map(|asked| format!("{} {}", asked.line, asked.body)).collect();
    assert_eq!(
        asked,
        [
            "PUT /v1/queues/inbox/workers/w%201 HTTP/1.1 {}",
            "PUT /v1/queues/inbox/workers/w%201 HTTP/1.1 {}",
            r#"PUT /v1/queues/inbox/workers/w%201 HTTP/1.1 {"weight":3}"#,
            r#"POST /v1/queues/inbox/workers/w%201/heartbeat HTTP/1.1 {"incarnation":7}"#,
            r#"POST /v1/queues/inbox/workers/w%201/heartbeat HTTP/1.1 {"incarnation":7}"#,
            "POST /v1/queues/inbox/workers/w%201/drain HTTP/1.1 {}",
            r#"POST /v1/queues/inbox/workers/w%201/drain HTTP/1.1 {"incarnation":7}"#,
            "DELETE /v1/queues/inbox/workers/w%201?incarnation=7 HTTP/1.1 ",
            "DELETE /v1/queues/inbox/workers/w%201 HTTP/1.1 ",
            r#"POST /v1/queues/inbox/workers/w%201/heartbeat HTTP/1.1 {"incarnation":7}"#,
        ]
    );
}

#[tokio::test]
async fn a_worker_claims_and_listens_under_its_name() {
    let events = "content-type: text/event-stream\r\n";
    let mut server = Server::start(vec![
        Canned::Answer(200, "", r#"{"deliveries":[]}"#),
        Canned::Answer(409, "", GONE),
        Canned::Answer(200, events, ":\n\n"),
        Canned::Answer(200, events, ":\n\n"),
        Canned::Answer(409, "", GONE),
    ])
    .await;
    let client = client(&server);
    let request = ClaimRequest::new(2).by("w1", 7);
    assert!(client.queues().claim("inbox", &request).await.unwrap().is_empty());
    assert!(client.queues().claim("inbox", &request).await.unwrap_err().is_worker_gone());
    let mut stream = client.queues().stream_by("inbox", 4, "w1", None).await.unwrap();
    assert!(stream.next().await.unwrap().is_none());
    client.queues().stream_by("inbox", 4, "w1", Some(7)).await.unwrap();
    assert!(client.queues().stream_by("inbox", 4, "w1", Some(7)).await.unwrap_err().is_worker_gone());
    let asked = server.asked();
    assert_eq!(asked[0].body, r#"{"count":2,"worker":"w1","incarnation":7}"#);
    assert_eq!(asked[2].line, "GET /v1/queues/inbox/stream?credits=4&worker=w1 HTTP/1.1");
    assert_eq!(asked[3].line, "GET /v1/queues/inbox/stream?credits=4&worker=w1&incarnation=7 HTTP/1.1");
}

#[tokio::test]
async fn who_has_whom_is_read_and_changed() {
    let workers = r#"{"items":[{"worker":"w1","incarnation":7,"state":"gone","why":"silent","lease_until":"2026-02-03T04:05:06.789Z",
        "weight":2,"recipients":3,"pending":9,"in_flight":1}],"parked":4,"now":"2026-02-03T04:05:06.789Z"}"#;
    let owned = r#"{"recipient":"did:key:z6","state":"owned","worker":"w2","worker_state":"live","worker_lease_until":"2026-02-03T04:05:06.789Z",
        "epoch":8,"pending":2,"head":{"id":"dl_1","attempts":2,"not_before":"2026-02-03T04:05:06.789Z",
        "in_flight_since":"2026-02-03T04:05:06.789Z","lease_until":"2026-02-03T04:05:36.789Z"},
        "changes":[{"at":"2026-02-03T04:05:06.789Z","why":"bored","worker":"w2"},{"at":"2026-02-03T04:05:06.789Z","why":"silent"}]}"#;
    let idle = r#"{"recipient":"did:key:z6","state":"idle","pinned_to":"w1","pending":0,"changes":[]}"#;
    let mut server = Server::start(vec![
        Canned::Answer(200, "", workers),
        Canned::HangUp,
        Canned::Answer(200, "", owned),
        Canned::HangUp,
        Canned::Answer(200, "", idle),
        Canned::Answer(200, "", idle),
    ])
    .await;
    let client = client(&server);
    let queues = client.queues();
    let listed = queues.workers("inbox").await.unwrap();
    let first = &listed.items[0];
    assert_eq!((&first.state, &first.why, first.pending, listed.parked), (&WorkerState::Gone, &Some(OwnerReason::Silent), 9, 4));
    let recipient = queues.explain("inbox", "did:key:z6").await.unwrap();
    assert_eq!((&recipient.state, recipient.epoch), (&RecipientState::Owned, Some(8)));
    assert!(recipient.head.unwrap().in_flight_since.is_some());
    assert_eq!(recipient.changes[0].why, OwnerReason::Other("bored".to_owned()), "a newer server may know more");
    assert_eq!(recipient.changes[1].worker, None);
    let pinned = queues.pin("inbox", "did:key:z6", Some("w1")).await.unwrap();
    assert_eq!((pinned.state, pinned.pinned_to.as_deref()), (RecipientState::Idle, Some("w1")));
    queues.clone().idempotency_key("mine").pin("inbox", "did:key:z6", None).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked[0].line, "GET /v1/queues/inbox/workers HTTP/1.1");
    assert_eq!(asked[2].line, "GET /v1/queues/inbox/recipients/did:key:z6 HTTP/1.1");
    assert_eq!(
        (asked[4].line.as_str(), asked[4].body.as_str()),
        ("PUT /v1/queues/inbox/recipients/did:key:z6 HTTP/1.1", r#"{"worker":"w1"}"#)
    );
    assert!(asked[3].header("idempotency-key").is_some() && asked[3].header("idempotency-key") == asked[4].header("idempotency-key"));
    assert_eq!((asked[5].header("idempotency-key"), asked[5].body.as_str()), (Some("mine"), r#"{"worker":null}"#));
}
