//! What a service behind the layer, and its callers, may rely on.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, also outside its test functions")]

#[path = "../tries/canned.rs"]
#[allow(dead_code, reason = "shared with the tests of tries, which look at more of it")]
mod canned;
mod failing;
mod scripted;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::post;
use canned::{Canned, Server};
use hermod_client::layer::{RateLimit, RateLimitLayer};
use hermod_client::{Attributes, Client};
use scripted::send;
use serde_json::json;
use tower::ServiceExt;

const ALLOWED: &str = r#"{"allowed":true,"never":false,"rules":[
    {"id":"r1","name":"burst","limit":10,"burst":10,"window_ms":1000,"remaining":9,"reset_at":"2026-02-03T04:05:06.100Z","retry_at":null,"shadow":false},
    {"id":"r2","name":"daily","limit":250,"burst":250,"window_ms":86400000,"remaining":7,"reset_at":"2026-02-04T04:05:06.000Z","retry_at":null,"shadow":false},
    {"id":"r3","name":"trial","limit":1,"burst":1,"window_ms":1000,"remaining":0,"reset_at":"2026-02-03T04:05:07.000Z","retry_at":"2026-02-03T04:05:07.000Z","shadow":true}],
    "bound_by":null,"retry_at":null,"delay_ms":0,"durability":"deferred","degraded":false,"replayed":false,"now":"2026-02-03T04:05:06.000Z"}"#;
const REFUSED: &str = r#"{"allowed":false,"never":false,"rules":[
    {"id":"r1","name":"burst","limit":10,"burst":10,"window_ms":1000,"remaining":3,"reset_at":"2026-02-03T04:05:06.100Z","retry_at":null,"shadow":false},
    {"id":"r2","name":"daily","limit":250,"burst":250,"window_ms":86400000,"remaining":0,"reset_at":"2026-02-03T05:05:06.000Z","retry_at":"2026-02-03T04:06:16.001Z","shadow":false},
    {"id":"r3","name":"trial","limit":1,"burst":1,"window_ms":1000,"remaining":0,"reset_at":"2026-02-03T04:05:07.000Z","retry_at":"2026-02-03T04:05:07.000Z","shadow":true}],
    "bound_by":"daily","retry_at":"2026-02-03T04:06:16.001Z","delay_ms":0,"durability":null,"degraded":false,"replayed":false,"now":"2026-02-03T04:05:06.000Z"}"#;
const NEVER: &str = r#"{"allowed":false,"never":true,"rules":[
    {"id":"r1","name":"burst","limit":10,"burst":10,"window_ms":1,"remaining":10,"reset_at":"2026-02-03T04:05:06.000Z","retry_at":null,"shadow":false},
    {"id":"r2","name":"ban","limit":1,"burst":1,"window_ms":1500,"remaining":0,"reset_at":"2026-02-03T04:05:06.000Z","retry_at":null,"shadow":false}],
    "bound_by":"ban","retry_at":null,"delay_ms":0,"durability":null,"degraded":false,"replayed":false,"now":"2026-02-03T04:05:06.000Z"}"#;

/// Who sends a request.
fn user(request: &Request) -> Option<String> {
    Some(request.headers().get("x-user")?.to_str().ok()?.to_owned())
}

/// A limit on `tasks/create`, asked of this server.
fn layer(server: &Server) -> RateLimitLayer<Body, Client> {
    RateLimit::action("tasks/create").subject(user).with(Client::new(&server.url).unwrap().with_key("hk_test"))
}

#[tokio::test]
async fn what_is_allowed_passes_and_is_told_what_is_left() {
    let mut server = Server::start(vec![Canned::Answer(200, "", ALLOWED)]).await;
    let seen = send(&layer(&server), Some("ada")).await;
    assert_eq!((seen.status, seen.body.as_str()), (200, "passed"));
    assert_eq!(seen.header("ratelimit-policy"), Some(r#""burst";q=10;w=1, "daily";q=250;w=86400"#));
    assert_eq!(seen.header("ratelimit"), Some(r#""burst";r=9;t=1, "daily";r=7;t=86400"#));
    assert_eq!(seen.header("retry-after"), None);
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].line, "POST /v1/limit/check HTTP/1.1");
    assert_eq!(asked[0].header("authorization"), Some("Bearer hk_test"));
    assert_eq!(asked[0].body, r#"{"subject":"ada","action":"tasks/create","cost":1}"#);
}

#[tokio::test]
async fn what_is_refused_is_429_with_the_policies_that_refused() {
    let server = Server::start(vec![Canned::Answer(200, "", REFUSED)]).await;
    let seen = send(&layer(&server), Some("ada")).await;
    assert_eq!(seen.status, 429);
    assert_eq!(seen.header("retry-after"), Some("71"), "rounded up");
    assert_eq!(seen.header("ratelimit-policy"), Some(r#""burst";q=10;w=1, "daily";q=250;w=86400"#));
    assert_eq!(seen.header("ratelimit"), Some(r#""burst";r=3;t=1, "daily";r=0;t=3600"#));
    assert_eq!(
        seen.json(),
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Request cannot be satisfied as assigned quota has been exceeded",
            "status": 429,
            "detail": "The policy daily does not admit this yet; Retry-After says when.",
            "code": "quota_exceeded",
            "violated-policies": ["daily"],
        })
    );
}

#[tokio::test]
async fn what_never_fits_is_not_told_to_come_again() {
    let server = Server::start(vec![Canned::Answer(200, "", NEVER)]).await;
    let seen = send(&layer(&server), Some("ada")).await;
    assert_eq!((seen.status, seen.header("retry-after")), (429, None));
    assert_eq!(seen.header("ratelimit-policy"), Some(r#""burst";q=10;w=1, "ban";q=1;w=2"#));
    assert_eq!(seen.json()["violated-policies"], json!(["ban"]));
    assert_eq!(seen.json()["detail"], "The policy ban does not admit this at any time.");
}

#[tokio::test]
async fn nobody_is_asked_about_nobody() {
    let mut server = Server::start(vec![]).await;
    let seen = send(&layer(&server), None).await;
    assert_eq!((seen.status, seen.body.as_str(), seen.header("ratelimit")), (200, "passed", None));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn an_action_without_rules_has_no_headers() {
    let none = r#"{"allowed":true,"never":false,"rules":[],"degraded":true}"#;
    let server = Server::start(vec![Canned::Answer(200, "", none)]).await;
    let seen = send(&layer(&server), Some("ada")).await;
    assert_eq!((seen.status, seen.body.as_str()), (200, "passed degraded"), "the server's own word is passed on, too");
    assert!(seen.headers.is_empty(), "{seen:?}");
}

#[tokio::test]
async fn it_stands_next_to_an_axum_route() {
    let mut server = Server::start(vec![Canned::Answer(200, "", ALLOWED), Canned::Answer(200, "", REFUSED)]).await;
    // The closures need no types here: the route's own decide.
    let limit = RateLimit::action("tasks/create")
        .subject(|request| request.headers().get("x-user").and_then(|value| value.to_str().ok()).map(ToOwned::to_owned))
        .cost(|request| u64::try_from(request.uri().path().len()).unwrap())
        .attributes(|request| Attributes::from_iter([("method".to_owned(), request.method().as_str().into())]))
        .with(Client::new(&server.url).unwrap());
    let app = Router::new().route("/tasks", post(async || "made").layer(limit)).route("/free", post(async || "free"));
    let send = async |path: &str| {
        let request = Request::post(path).header("x-user", "ada").body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!((send("/tasks").await, send("/tasks").await, send("/free").await), (200, 429, 200));
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].body, r#"{"subject":"ada","action":"tasks/create","cost":6,"attributes":{"method":"POST"}}"#);
}

#[tokio::test]
async fn layers_behind_one_another_all_say_what_is_left() {
    let server = Server::start(vec![Canned::Answer(200, "", ALLOWED), Canned::Answer(200, "", ALLOWED)]).await;
    let app = Router::new().route("/", post(async || "made").layer((layer(&server), layer(&server))));
    let request = Request::post("/").header("x-user", "ada").body(Body::empty()).unwrap();
    let response = app.oneshot(request).await.unwrap();
    assert_eq!(response.headers().get_all("ratelimit").iter().count(), 2);
}
