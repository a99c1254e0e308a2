//! What a caller may rely on when a call fails: what is repeated, what is not, and when it ends.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, also outside its test functions")]

mod canned;
mod limit;
mod queues;
mod realms;
mod workers;

use std::time::{Duration, Instant};

use canned::{Canned, Server};
use hermod_client::{Algorithm, CheckRequest, Client, ClientError, KeyDraft, PageRequest, Retry, RuleDraft, Scope};

const ALLOWED: &str = r#"{"allowed":true,"never":false,"rules":[{"id":"r1","name":"burst","limit":3,"burst":3,"remaining":2,
    "reset_at":"2026-02-03T04:05:06.789Z","retry_at":null}],"bound_by":null,"retry_at":null,"durability":"deferred",
    "degraded":false,"replayed":false,"news":"ignored"}"#;
const RULE: &str =
    r#"{"id":"r1","name":"burst","action":"a","limit":3,"per":"30s","algorithm":"token_bucket","durable":false,"version":1}"#;
const OVERLOADED: &str = r#"{"type":"about:blank","title":"Busy","status":503,"detail":"Too much at once.","code":"overloaded",
    "retryable":true,"request_id":"q1"}"#;
const INVALID: &str = r#"{"type":"about:blank","title":"Invalid","status":422,"detail":"limit must be at least 1.","code":"invalid",
    "field":"limit","retryable":false,"request_id":"q2"}"#;

/// A client with pauses short enough for a test.
fn client(server: &Server) -> Client {
    let retry = Retry::default().pauses(Duration::from_millis(1), Duration::from_millis(4));
    Client::new(&server.url).unwrap().with_key("hk_test").with_retry(retry)
}

fn check() -> CheckRequest {
    CheckRequest::new("bot-7", "tasks/create")
}

#[tokio::test]
async fn a_write_is_repeated_with_the_same_key_and_body() {
    let mut server = Server::start(vec![Canned::Answer(503, "", OVERLOADED), Canned::HangUp, Canned::Answer(201, "", RULE)]).await;
    let rule = client(&server).rules().create(&RuleDraft::new("a", 3, "30s")).await.unwrap();
    assert_eq!(rule.id, "r1");

    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    let key = asked[0].header("idempotency-key").unwrap();
    assert!(key.len() >= 32, "{key}");
    for again in &asked {
        assert_eq!(again.line, "POST /v1/rules HTTP/1.1");
        assert_eq!(again.header("idempotency-key"), Some(key));
        assert_eq!(again.header("authorization"), Some("Bearer hk_test"));
        assert_eq!(again.header("content-type"), Some("application/json"));
        assert_eq!(again.body, asked[0].body);
    }
}

#[tokio::test]
async fn two_writes_have_two_keys_and_the_callers_own_key_is_kept() {
    let mut server = Server::start((0..3).map(|_| Canned::Answer(201, "", RULE)).collect()).await;
    let client = client(&server);
    let draft = RuleDraft::new("a", 3, "30s");
    client.rules().create(&draft).await.unwrap();
    client.rules().create(&draft).await.unwrap();
    client.rules().idempotency_key("order-17").create(&draft).await.unwrap();
    let asked = server.asked();
    assert_ne!(asked[0].header("idempotency-key"), asked[1].header("idempotency-key"));
    assert_eq!(asked[2].header("idempotency-key"), Some("order-17"));
}

#[tokio::test]
async fn a_check_without_a_key_is_repeated_only_if_nothing_can_have_happened() {
    let mut server = Server::start(vec![Canned::Answer(503, "", OVERLOADED), Canned::HangUp, Canned::Answer(200, "", ALLOWED)]).await;
    let fault = client(&server).limit().check(&check()).await.unwrap_err();
    assert!(matches!(fault, ClientError::Unreachable(_)), "{fault}");
    let asked = server.asked();
    assert_eq!(asked.len(), 2, "turned away: again; hung up: perhaps charged, so not again");
    assert_eq!(asked[0].header("idempotency-key"), None);
    assert_eq!(asked[0].body, r#"{"subject":"bot-7","action":"tasks/create","cost":1}"#);
}

#[tokio::test]
async fn a_check_with_a_key_is_repeated() {
    let mut server = Server::start(vec![Canned::HangUp, Canned::Answer(200, "", ALLOWED)]).await;
    let checked = client(&server).limit().idempotency_key("order-17").check(&check()).await.unwrap();
    assert!(checked.allowed);
    assert_eq!(checked.rules[0].remaining, 2);
    assert!(server.asked().iter().all(|again| again.header("idempotency-key") == Some("order-17")));
}

#[tokio::test]
async fn what_is_never_repeated_needs_no_key() {
    let mut server = Server::start(vec![Canned::Answer(503, "", OVERLOADED)]).await;
    let fault = client(&server).with_retry(Retry::never()).rules().create(&RuleDraft::new("a", 3, "30s")).await.unwrap_err();
    assert!(fault.is_retryable());
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].header("idempotency-key"), None);
}

#[tokio::test]
async fn a_read_is_repeated_without_a_key() {
    let mut server = Server::start(vec![Canned::HangUp, Canned::Answer(200, "", RULE)]).await;
    let rule = client(&server).rules().get("r 1/x").await.unwrap();
    assert_eq!(rule.per, "30s");
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].line, "GET /v1/rules/r%201%2Fx HTTP/1.1");
    assert_eq!(asked[1].header("idempotency-key"), None);
}

#[tokio::test]
async fn a_final_problem_is_not_repeated() {
    let mut server = Server::start(vec![Canned::Answer(422, "", INVALID), Canned::Answer(201, "", RULE)]).await;
    let fault = client(&server).rules().create(&RuleDraft::new("a", 0, "30s")).await.unwrap_err();
    let problem = fault.problem().unwrap();
    assert_eq!((problem.status, problem.code.as_str(), problem.field.as_deref()), (422, "invalid", Some("limit")));
    assert!(!fault.is_retryable());
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn repeats_are_bounded() {
    let mut server = Server::start((0..9).map(|_| Canned::Answer(503, "", OVERLOADED)).collect()).await;
    let fault = client(&server).limit().check(&check()).await.unwrap_err();
    assert_eq!(fault.problem().unwrap().code, "overloaded");
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let mut server = Server::start(vec![Canned::Answer(503, "Retry-After: 1\r\n", OVERLOADED), Canned::Answer(200, "", ALLOWED)]).await;
    client(&server).limit().check(&check()).await.unwrap();
    let asked = server.asked();
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_retry_after_beyond_the_deadline_ends_at_once() {
    let mut server = Server::start(vec![Canned::Answer(503, "Retry-After: 60\r\n", OVERLOADED)]).await;
    let begun = Instant::now();
    let fault = client(&server).limit().check(&check()).await.unwrap_err();
    assert_eq!(fault.retry_after(), Some(Duration::from_secs(60)));
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_silent_server_ends_at_the_deadline() {
    let mut server = Server::start((0..9).map(|_| Canned::Hang).collect()).await;
    let deadline = Duration::from_millis(300);
    let begun = Instant::now();
    let fault = client(&server).with_deadline(deadline).limit().check(&check()).await.unwrap_err();
    assert!(matches!(fault, ClientError::Timeout), "{fault}");
    assert!(begun.elapsed() >= deadline && begun.elapsed() < Duration::from_secs(10));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_silent_try_leaves_time_for_another() {
    let mut server = Server::start(vec![Canned::Hang, Canned::Answer(200, "", ALLOWED)]).await;
    let client = client(&server).with_try_timeout(Duration::from_millis(200));
    assert!(client.limit().idempotency_key("k").check(&check()).await.unwrap().allowed);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    // A port that was free a moment ago.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = Client::new(&format!("http://{free}")).unwrap().with_retry(Retry::never());
    let fault = client.rules().list_all().await.unwrap_err();
    assert!(matches!(fault, ClientError::Unreachable(_)), "{fault}");
}

#[tokio::test]
async fn an_answer_of_another_program_is_told_apart() {
    let html = "<html>It works!</html>";
    let mut server = Server::start(vec![
        Canned::Answer(200, "", html),
        Canned::Answer(502, "", html),
        Canned::Answer(200, "", RULE),
        Canned::Answer(302, "location: http://127.0.0.1:1/\r\n", ""),
    ])
    .await;
    let client = client(&server);
    assert!(matches!(client.rules().get("r1").await, Err(ClientError::BadAnswer { status: 200, .. })));
    // A proxy's 502 is worth another try.
    client.rules().get("r1").await.unwrap();
    assert!(matches!(client.rules().get("r1").await, Err(ClientError::BadAnswer { status: 302, .. })));
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    let first = r#"{"items":[{"space":"default","created_at":"2026-02-03T04:05:06.789Z"}],"next":"c&1"}"#;
    let last = r#"{"items":[{"space":"team","created_at":"2026-02-03T04:05:06.789Z"}],"next":null}"#;
    let mut server =
        Server::start(vec![Canned::Answer(200, "", first), Canned::Answer(200, "", last), Canned::Answer(200, "", last)]).await;
    let client = client(&server);
    let all = client.spaces().list_all().await.unwrap();
    assert_eq!(all.iter().map(|space| space.space.as_str()).collect::<Vec<_>>(), ["default", "team"]);
    client.spaces().list(&PageRequest::default().limit(5).cursor("c&1")).await.unwrap();
    let lines: Vec<_> = server.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(lines[0], "GET /v1/spaces HTTP/1.1");
    assert_eq!(lines[1], "GET /v1/spaces?cursor=c%261 HTTP/1.1");
    assert_eq!(lines[2], "GET /v1/spaces?limit=5&cursor=c%261 HTTP/1.1");
}

#[tokio::test]
async fn every_write_goes_where_it_should() {
    let key = r#"{"id":"k1","space":"team","name":"ci","scopes":["limit:check"],"created_at":"2026-02-03T04:05:06.789Z","secret":"hk_x"}"#;
    let mut server = Server::start(vec![
        Canned::Answer(200, "", RULE),
        Canned::Answer(204, "", ""),
        Canned::Answer(201, "", key),
        Canned::Answer(204, "", ""),
        Canned::Answer(200, "", r#"{"now":"2026-02-03T05:05:06.789Z"}"#),
    ])
    .await;
    let client = client(&server);
    client
        .rules()
        .put("r1", &RuleDraft::new("a", 3, "30s").name("burst").subject("vip").algorithm(Algorithm::TokenBucket).burst(5))
        .await
        .unwrap();
    client.rules().delete("r1").await.unwrap();
    let made = client.keys().create(&KeyDraft::new("ci", [Scope::LimitCheck]).space("team")).await.unwrap();
    assert_eq!(made.secret.as_deref(), Some("hk_x"));
    client.keys().delete("k1").await.unwrap();
    client.clock().advance(Duration::from_secs(3600)).await.unwrap();

    let asked: Vec<_> = server.asked().into_iter().map(|asked| format!("{} {}", asked.line, asked.body)).collect();
    assert_eq!(
        asked,
        [
            r#"PUT /v1/rules/r1 HTTP/1.1 {"id":"r1","name":"burst","action":"a","subject":"vip","limit":3,"per":"30s","algorithm":"token_bucket","burst":5,"durable":false}"#,
            "DELETE /v1/rules/r1 HTTP/1.1 ",
            r#"POST /v1/keys HTTP/1.1 {"name":"ci","scopes":["limit:check"],"space":"team"}"#,
            "DELETE /v1/keys/k1 HTTP/1.1 ",
            r#"POST /v1/clock HTTP/1.1 {"advance":"1h"}"#,
        ]
    );
    // These would reach the whole list instead.
    for id in ["", ".", ".."] {
        assert!(matches!(client.rules().delete(id).await, Err(ClientError::Invalid { .. })), "{id:?}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn not_ready_is_an_answer() {
    let down = r#"{"status":"unavailable","store":"unavailable","catalog":"ok"}"#;
    let server = Server::start(vec![Canned::Answer(503, "", down), Canned::Answer(200, "", r#"{"status":"ok"}"#)]).await;
    let client = client(&server);
    assert!(!client.ready().await.unwrap().is_ok());
    assert!(client.health().await.unwrap().is_ok());
}
