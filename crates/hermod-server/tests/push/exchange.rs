//! One exchange: what is sent, and what each kind of answer means.

use std::time::Duration;

use hermod_core::Micros;
use hermod_server::push::{Endpoint, Parcel, Sent, Signed, TOLERANCE, verify};
use tokio::net::TcpListener;

use super::receiver::{Act, Received, Receiver, ok, status};
use super::{NOW, endpoint, parcel, refused, secret, send_soon, sender};

/// The request as a receiver verifies it.
fn signed(request: &Received) -> Signed<'_> {
    let [id, timestamp, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| request.header(name));
    Signed { id, timestamp, signature, body: &request.body }
}

#[tokio::test]
async fn a_delivery_arrives_signed_and_byte_for_byte() {
    let receiver = Receiver::always(ok()).await;
    let bytes: Vec<u8> = (0..=255).collect();
    let raw = Parcel { body: &bytes, is_json: false, ..parcel("dl_2") };
    for parcel in [parcel("dl_1"), raw] {
        assert_eq!(sender().send(&endpoint(&receiver.url()), &parcel).await, Sent::Accepted { status: 200 });
        let request = receiver.seen().requests.pop().unwrap();
        assert_eq!(request.line, "POST /hook?key=1 HTTP/1.1");
        assert_eq!(request.header("host"), receiver.address.to_string());
        assert_eq!(request.header("content-type"), if parcel.is_json { "application/json" } else { "application/octet-stream" });
        assert_eq!((request.header("webhook-id"), request.header("webhook-timestamp")), (parcel.id, "1445412480"));
        assert_eq!(request.body, parcel.body);
        assert_eq!(verify(&signed(&request), &[secret(1)], NOW, TOLERANCE), Ok(()));
        assert!(verify(&signed(&request), &[secret(2)], NOW, TOLERANCE).is_err());
    }
}

#[tokio::test]
async fn a_retry_has_the_same_id_and_its_own_time() {
    let receiver = Receiver::always(ok()).await;
    let (sender, endpoint) = (sender(), endpoint(&receiver.url()));
    let later = NOW.plus(Micros::saturating(60_000_000));
    sender.send(&endpoint, &parcel("dl_1")).await;
    sender.send(&endpoint, &Parcel { at: later, attempt: 2, ..parcel("dl_1") }).await;
    let requests = receiver.seen().requests;
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
    assert_eq!(requests[1].header("webhook-timestamp"), "1445412540");
    assert_eq!(verify(&signed(&requests[1]), &[secret(1)], later, TOLERANCE), Ok(()));
}

#[tokio::test]
async fn while_secrets_rotate_both_receivers_are_content() {
    let receiver = Receiver::always(ok()).await;
    let endpoint = Endpoint { secrets: vec![secret(2), secret(1)], ..endpoint(&receiver.url()) };
    sender().send(&endpoint, &parcel("dl_1")).await;
    let request = receiver.seen().requests.pop().unwrap();
    for knows in [1, 2] {
        assert_eq!(verify(&signed(&request), &[secret(knows)], NOW, TOLERANCE), Ok(()));
    }
    assert!(verify(&signed(&request), &[secret(3)], NOW, TOLERANCE).is_err());
}

#[tokio::test]
async fn without_a_secret_nothing_is_sent() {
    let receiver = Receiver::always(ok()).await;
    let unsigned = Endpoint { secrets: Vec::new(), ..endpoint(&receiver.url()) };
    let no_header = parcel("dl_1\r\nx-injected: 1");
    assert_eq!(sender().send(&unsigned, &parcel("dl_1")).await, refused(None, "the endpoint has no secret to sign with"));
    let sent = sender().send(&endpoint(&receiver.url()), &no_header).await;
    assert_eq!(sent, refused(None, "the delivery's id cannot be sent in a header"));
    assert_eq!(receiver.seen().connections, 0);
}

#[tokio::test]
async fn webhook_redirect_is_a_failure() {
    let target = Receiver::always(ok()).await;
    for code in [301, 302, 303, 307, 308] {
        let receiver = Receiver::always(status(code, &format!("location: {}\r\n", target.url()))).await;
        let sent = send_soon(&receiver).await;
        assert_eq!(sent, refused(Some(code), &format!("answered {code}; redirects are not followed")));
    }
    assert_eq!(target.seen().connections, 0);
}

#[tokio::test]
async fn gone_and_too_many_are_told_apart() {
    let cases = [
        (410, "", Sent::Gone),
        (429, "retry-after: 7\r\n", waits(429, "answered 429 Too Many Requests", 7)),
        (503, "retry-after: Wed, 21 Oct 2015 07:29:10 GMT\r\n", waits(503, "answered 503 Service Unavailable", 69)),
        (429, "retry-after: 999999\r\n", waits(429, "answered 429 Too Many Requests", 86_400)),
        (500, "retry-after: 7\r\n", refused(Some(500), "answered 500 Internal Server Error")),
        (404, "", refused(Some(404), "answered 404 Not Found")),
    ];
    for (code, headers, expected) in cases {
        let receiver = Receiver::always(status(code, headers)).await;
        assert_eq!(in_seconds(sender().send(&endpoint(&receiver.url()), &parcel("dl_1")).await), expected);
    }
}

fn waits(status: u16, why: &str, seconds: u64) -> Sent {
    Sent::Refused { status: Some(status), why: why.to_owned(), retry_after: Some(Duration::from_secs(seconds)) }
}

/// A date is counted from when the answer came, some milliseconds after the attempt's own time.
fn in_seconds(sent: Sent) -> Sent {
    match sent {
        Sent::Refused { status, why, retry_after: Some(wait) } => waits(status.unwrap(), &why, wait.as_secs()),
        sent => sent,
    }
}

#[tokio::test]
async fn who_does_not_finish_is_left_at_the_time_out() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3c0\r\n";
    let late = "the answer did not end within 300ms";
    let cases = [
        (Act::Hang, refused(None, "no answer within 300ms")),
        (Act::Drip("HTTP/1.1 200 OK\r\nx-slow: ".to_owned()), refused(None, "no answer within 300ms")),
        (Act::Drip(head.to_owned()), refused(Some(200), late)),
        (Act::Drip(chunked.to_owned()), refused(Some(200), late)),
        // Its status says all there is to say; the body is not waited for.
        (Act::Drip("HTTP/1.1 500 X\r\ncontent-length: 900\r\n\r\n".to_owned()), refused(Some(500), "answered 500 Internal Server Error")),
        (Act::Drip("HTTP/1.1 410 X\r\ncontent-length: 900\r\n\r\n".to_owned()), Sent::Gone),
    ];
    for (act, expected) in cases {
        let receiver = Receiver::always(act).await;
        assert_eq!(send_soon(&receiver).await, expected);
        receiver.until(|seen| seen.closed == 1 && seen.now == 0).await;
    }
}

#[tokio::test]
async fn an_endless_answer_is_not_read() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    let receiver = Receiver::always(Act::Flood(head, format!("400\r\n{}\r\n", "x".repeat(1_024)))).await;
    assert_eq!(sender().send(&endpoint(&receiver.url()), &parcel("dl_1")).await, Sent::Accepted { status: 200 });
    receiver.until(|seen| seen.closed == 1).await;

    let receiver = Receiver::always(Act::Flood("HTTP/1.1 200 OK\r\n".to_owned(), format!("x: {}\r\n", "x".repeat(999)))).await;
    let sent = sender().send(&endpoint(&receiver.url()), &parcel("dl_1")).await;
    assert_eq!(sent, refused(None, "the head of the answer is too large"));
    receiver.until(|seen| seen.closed == 1).await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_none() {
    let cases = [
        ("", None, "the connection broke off"),
        ("HTTP/1.1 200 OK\r\ncontent-le", None, "the connection broke off"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345", Some(200), "the connection broke off"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", None, "the answer is not HTTP/1.1"),
    ];
    for (text, status, why) in cases {
        let receiver = Receiver::always(Act::Close(text.to_owned())).await;
        let sent = sender().send(&endpoint(&receiver.url()), &parcel("dl_1")).await;
        assert_eq!(sent, refused(status, why), "{text:?}");
        assert_eq!(receiver.seen().requests.len(), 1);
    }
}

#[tokio::test]
async fn nobody_there_is_a_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(sender().send(&endpoint(&url), &parcel("dl_1")).await, refused(None, "connection refused"));
    // Longer than a label may be, so that it is refused without asking anybody.
    let nowhere = endpoint(&format!("http://{}.example/", "x".repeat(64)));
    assert_eq!(sender().send(&nowhere, &parcel("dl_1")).await, refused(None, "the name could not be resolved"));
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let receiver = Receiver::always(Act::Answer("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_owned())).await;
    let (sender, endpoint) = (sender(), endpoint(&receiver.url()));
    for _ in 0..3 {
        assert_eq!(sender.send(&endpoint, &parcel("dl_1")).await, Sent::Accepted { status: 200 });
    }
    assert_eq!((receiver.seen().requests.len(), receiver.seen().connections), (3, 1));
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_no_failure() {
    let acts = |n| if n == 1 { Act::Close(String::new()) } else { ok() };
    let receiver = Receiver::start(acts, None).await;
    let (sender, endpoint) = (sender(), endpoint(&receiver.url()));
    for _ in 0..2 {
        assert_eq!(sender.send(&endpoint, &parcel("dl_1")).await, Sent::Accepted { status: 200 });
    }
    assert_eq!((receiver.seen().requests.len(), receiver.seen().connections), (3, 2));
}

#[tokio::test]
async fn the_log_tells_attempts_and_no_secrets() {
    let receiver = Receiver::start(|n| if n == 0 { status(500, "") } else { ok() }, None).await;
    let (sender, endpoint) = (sender(), endpoint(&receiver.url()));
    sender.send(&endpoint, &parcel("dl_1")).await;
    sender.send(&endpoint, &Parcel { attempt: 2, ..parcel("dl_1") }).await;
    let attempts = sender.attempts("default", "mail");
    let told: Vec<_> = attempts.iter().map(|a| (a.id.as_str(), a.attempt, a.at, a.status, a.why.as_deref())).collect();
    let failed = ("dl_1", 1, NOW, Some(500), Some("answered 500 Internal Server Error"));
    assert_eq!(told, [("dl_1", 2, NOW, Some(200), None), failed]);
    assert!(sender.attempts("default", "other").is_empty() && sender.attempts("other", "mail").is_empty());

    let text = format!("{attempts:?} {endpoint:?} {sender:?}");
    let key = secret(1).reveal();
    assert!(!text.contains(key.trim_start_matches("whsec_")) && !text.contains("hello") && !text.contains("key=1"), "{text}");
    sender.forget("default", "mail");
    assert!(sender.attempts("default", "mail").is_empty());
}
