//! When no answer can be had.

use std::time::Duration;

use axum::body::Body;
use hermod_client::Client;
use hermod_client::layer::{OnError, RateLimit, RateLimitLayer};
use tokio::time::{Instant, advance};

use crate::canned::{Canned, Server};
use crate::scripted::{Does, Scripted, send};
use crate::user;

const OVERLOADED: &str =
    r#"{"type":"about:blank","title":"Busy","status":503,"detail":"Too much at once.","code":"overloaded","retryable":true}"#;
const FORBIDDEN: &str = r#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"The key may not.","code":"forbidden"}"#;
const BAD_SUBJECT: &str = r#"{"type":"about:blank","title":"Bad","status":400,"detail":"subject must be 1 to 256 bytes.","code":"invalid_field","field":"subject"}"#;
const FULL: &str = r#"{"title":"Full","status":507,"detail":"The store is full.","code":"store_full","retryable":true}"#;
const AWAY: &str = r#"{"title":"Away","status":503,"detail":"It does not answer.","code":"store_unavailable","retryable":true}"#;

fn limited(limiter: Scripted, on_error: OnError) -> RateLimitLayer<Body, Scripted> {
    RateLimit::action("tasks/create").subject(user).on_error(on_error).with(limiter)
}

fn local(limit: u64, per_s: u64) -> OnError {
    OnError::Local { limit, per: Duration::from_secs(per_s) }
}

#[tokio::test]
async fn an_unreachable_server_is_met_by_the_policy_and_never_by_429() {
    // A port that was free a moment ago.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = Client::new(&format!("http://{free}")).unwrap();
    let layer = |on_error| RateLimit::action("tasks/create").subject(user).on_error(on_error).with(client.clone());
    let open = send(&layer(OnError::Open), Some("ada")).await;
    assert_eq!((open.status, open.body.as_str(), open.headers.len()), (200, "passed degraded", 0));
    let closed = send(&layer(OnError::Closed), Some("ada")).await;
    assert_eq!((closed.status, closed.header("retry-after")), (503, Some("1")));
    assert_eq!(closed.json()["code"], "limit_unavailable");
    let local = layer(local(1, 60));
    let seen = send(&local, Some("ada")).await;
    assert_eq!((seen.status, seen.body.as_str()), (200, "passed degraded"));
    assert_eq!(seen.header("ratelimit-policy"), Some(r#""local";q=1;w=60"#));
    assert_eq!(seen.header("ratelimit"), Some(r#""local";r=0;t=60"#));
    let seen = send(&local, Some("ada")).await;
    assert_eq!((seen.status, seen.header("retry-after")), (429, Some("60")), "its own limit, not the failure");
    assert_eq!(seen.json()["violated-policies"], serde_json::json!(["local"]));
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_a_failure() {
    for (status, body) in [(503, OVERLOADED), (403, FORBIDDEN), (502, "<html>"), (200, "<html>"), (429, "slow down")] {
        let mut server = Server::start(vec![Canned::Answer(status, "", body), Canned::HangUp]).await;
        let client = Client::new(&server.url).unwrap();
        let layer = RateLimit::action("tasks/create").subject(user).on_error(OnError::Closed).with(client);
        assert_eq!(send(&layer, Some("ada")).await.status, 503, "{status} {body}");
        assert_eq!(server.asked().len(), 1, "it is asked once, whatever the client's policy for tries");
        assert_eq!(send(&layer, Some("ada")).await.status, 503);
    }
}

#[tokio::test]
async fn a_question_that_is_not_acceptable_neither_passes_nor_counts_as_a_failure() {
    let limiter = Scripted::new(Does::Problem(BAD_SUBJECT));
    let layer = limited(limiter.clone(), OnError::Open);
    for _ in 0..9 {
        let seen = send(&layer, Some("ada")).await;
        assert_eq!(seen.status, 400);
        assert_eq!((&seen.json()["code"], &seen.json()["field"]), (&"invalid_field".into(), &"subject".into()));
    }
    assert_eq!(limiter.calls(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_full_store_is_met_by_the_policy_and_does_not_end_the_limits_of_others() {
    let limiter = Scripted::new(Does::Problem(FULL));
    let (open, closed, own) =
        (limited(limiter.clone(), OnError::Open), limited(limiter.clone(), OnError::Closed), limited(limiter.clone(), local(9, 60)));
    for _ in 0..9 {
        assert_eq!(send(&open, Some("new")).await.body, "passed degraded");
        assert_eq!(send(&closed, Some("new")).await.json()["code"], "limit_unavailable");
        assert_eq!(send(&own, Some("new")).await.body, "passed degraded");
    }
    assert_eq!(send(&own, Some("new")).await.status, 429, "the limiter within takes over");
    assert_eq!(limiter.calls(), 28, "it is asked each time");
    limiter.now(Does::Allow { delay_ms: 0 });
    for layer in [&open, &closed, &own] {
        assert_eq!(send(layer, Some("ada")).await.body, "passed");
    }
    assert_eq!(limiter.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_full_store_ends_the_pause_after_failures() {
    let limiter = Scripted::new(Does::Fail);
    let layer = limited(limiter.clone(), OnError::Open);
    for _ in 0..6 {
        send(&layer, Some("ada")).await;
    }
    assert_eq!(limiter.calls(), 5);
    advance(Duration::from_secs(1)).await;
    limiter.now(Does::Problem(FULL));
    for _ in 0..3 {
        assert_eq!(send(&layer, Some("new")).await.body, "passed degraded");
    }
    assert_eq!(limiter.calls(), 3, "somebody answers");
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_is_closed_without_its_store_goes_before_the_policy() {
    for on_error in [OnError::Open, OnError::Closed, local(9, 60)] {
        let limiter = Scripted::new(Does::Problem(AWAY));
        let layer = limited(limiter.clone(), on_error);
        for _ in 0..9 {
            let seen = send(&layer, Some("ada")).await;
            assert_eq!((seen.status, seen.header("retry-after")), (503, Some("1")));
            assert_eq!(seen.json()["code"], "limit_unavailable");
        }
        assert_eq!(limiter.calls(), 9, "it does not count as a failure");
    }
}

#[tokio::test]
async fn a_closed_rule_says_when_to_ask_again() {
    let server = Server::start(vec![Canned::Answer(503, "retry-after: 7\r\n", AWAY)]).await;
    let layer = RateLimit::action("tasks/create").subject(user).with(Client::new(&server.url).unwrap());
    let seen = send(&layer, Some("ada")).await;
    assert_eq!((seen.status, seen.header("retry-after")), (503, Some("7")));
}

#[tokio::test(start_paused = true)]
async fn after_five_failures_nobody_is_asked_until_a_probe_succeeds() {
    let limiter = Scripted::new(Does::Fail);
    let layer = limited(limiter.clone(), OnError::Open);
    for _ in 0..20 {
        assert_eq!(send(&layer, Some("ada")).await.body, "passed degraded");
    }
    assert_eq!(limiter.calls(), 5);
    // Each cool-down ends with one probe, and the next is twice as long.
    for cool_down_s in [1, 2, 4, 8, 16, 30, 30] {
        advance(Duration::from_secs(cool_down_s) - Duration::from_millis(1)).await;
        send(&layer, Some("ada")).await;
        assert_eq!(limiter.calls(), 0, "within {cool_down_s} s");
        advance(Duration::from_millis(1)).await;
        send(&layer, Some("ada")).await;
        send(&layer.clone(), Some("grace")).await;
        assert_eq!(limiter.calls(), 1, "after {cool_down_s} s");
    }
    limiter.now(Does::Allow { delay_ms: 0 });
    advance(Duration::from_secs(30)).await;
    for _ in 0..3 {
        assert_eq!(send(&layer, Some("ada")).await.body, "passed");
    }
    assert_eq!(limiter.calls(), 3, "all is as before");
    limiter.now(Does::Fail);
    for _ in 0..20 {
        send(&layer, Some("ada")).await;
    }
    assert_eq!(limiter.calls(), 5, "the count began anew");
    advance(Duration::from_secs(1)).await;
    send(&layer, Some("ada")).await;
    assert_eq!(limiter.calls(), 1, "and so did the cool-down");
}

#[tokio::test(start_paused = true)]
async fn a_success_between_failures_keeps_it_closed() {
    let limiter = Scripted::new(Does::Fail);
    let layer = limited(limiter.clone(), OnError::Open);
    for _ in 0..5 {
        limiter.now(Does::Fail);
        for _ in 0..4 {
            send(&layer, Some("ada")).await;
        }
        limiter.now(Does::Allow { delay_ms: 0 });
        send(&layer, Some("ada")).await;
    }
    assert_eq!(limiter.calls(), 25);
}

#[tokio::test(start_paused = true)]
async fn others_do_not_wait_for_the_probe_and_a_probe_given_up_is_replaced() {
    let limiter = Scripted::new(Does::Fail);
    let layer = limited(limiter.clone(), OnError::Closed);
    for _ in 0..5 {
        send(&layer, Some("ada")).await;
    }
    assert_eq!(send(&layer, Some("ada")).await.header("retry-after"), Some("1"));
    advance(Duration::from_secs(1)).await;
    limiter.calls();
    limiter.now(Does::Hang);
    {
        let mut probe = std::pin::pin!(send(&layer, Some("ada")));
        tokio::select! {
            biased;
            _ = &mut probe => panic!("it hangs"),
            () = async {} => {}
        }
        assert_eq!(send(&layer, Some("grace")).await.status, 503);
        assert_eq!(limiter.calls(), 1);
    }
    limiter.now(Does::Allow { delay_ms: 0 });
    assert_eq!(send(&layer, Some("grace")).await.status, 200);
    assert_eq!(limiter.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_limiter_is_waited_for_no_longer_than_said() {
    for (timeout, expected) in [(None, Duration::from_secs(1)), (Some(Duration::from_millis(50)), Duration::from_millis(50))] {
        let limit = RateLimit::action("tasks/create").subject(user);
        let limit = match timeout {
            Some(timeout) => limit.timeout(timeout),
            None => limit,
        };
        let begun = Instant::now();
        assert_eq!(send(&limit.with(Scripted::new(Does::Hang)), Some("ada")).await.body, "passed degraded");
        assert!(begun.elapsed() >= expected && begun.elapsed() < expected + Duration::from_millis(10));
    }
}

#[tokio::test(start_paused = true)]
async fn what_must_queue_waits_its_turn() {
    let limiter = Scripted::new(Does::Allow { delay_ms: 2_500 });
    let begun = Instant::now();
    assert_eq!(send(&limited(limiter, OnError::Open), Some("ada")).await.body, "passed");
    assert!(begun.elapsed() >= Duration::from_millis(2_500));
}

#[tokio::test(start_paused = true)]
async fn the_local_limiter_takes_over_and_hands_back() {
    let limiter = Scripted::new(Does::Fail);
    let layer = limited(limiter.clone(), local(2, 10));
    let statuses = async |users: [&str; 4]| {
        let mut seen = Vec::new();
        for user in users {
            seen.push(send(&layer, Some(user)).await.status);
        }
        seen
    };
    assert_eq!(statuses(["ada", "ada", "ada", "grace"]).await, [200, 200, 429, 200]);
    advance(Duration::from_secs(5)).await;
    assert_eq!(statuses(["ada", "ada", "grace", "grace"]).await, [200, 429, 200, 200], "one of two is back after half the period");
    limiter.now(Does::Allow { delay_ms: 0 });
    // The breaker's longest pause.
    advance(Duration::from_secs(30)).await;
    assert_eq!(statuses(["ada", "ada", "ada", "ada"]).await, [200; 4]);
    limiter.now(Does::Fail);
    assert_eq!(statuses(["ada", "ada", "ada", "ada"]).await, [200, 200, 429, 429], "what it knew is forgotten");
}
