//! The verbs of limit: what is sent, what is read, and what is tried again.

use std::time::Duration;

use hermod_client::{
    AcquireRequest, Algorithm, BatchCheck, CheckRequest, OnExpiry, OnStoreError, RefundRequest, ReserveRequest, ResetRequest, RuleDraft,
    RuleMode, RuleScope, SettleOutcome,
};

use crate::canned::{Canned, Server};
use crate::{ALLOWED, RULE, client};

const LEASED: &str = r#"{"allowed":true,"lease":"l1","expires_at":"2026-02-03T04:05:06.789Z","rules":[{"id":"r1","name":"tabs","limit":3,"remaining":2}],
    "bound_by":null,"retry_at":null,"durability":"disk","degraded":true,"replayed":false}"#;

#[tokio::test]
async fn every_verb_goes_where_it_should() {
    let explained = r#"{"allowed":true,"never":false,"rules":[],"bound_by":null,"retry_at":null,"delay_ms":40,"durability":null,"degraded":false,
        "replayed":false,"explain":[{"id":"r1","name":"burst","applies":false,"why":"its condition is not true"}]}"#;
    let batch = r#"{"answers":[{"problem":{"detail":"cost must be at least 1","code":"invalid_field","field":"cost","retryable":false}},
        {"allowed":false,"never":true,"rules":[],"bound_by":"ban","retry_at":null,"delay_ms":0,"durability":null,"degraded":false,"replayed":false}]}"#;
    let mut server = Server::start(vec![
        Canned::Answer(200, "", explained),
        Canned::Answer(200, "", ALLOWED),
        Canned::Answer(200, "", ALLOWED),
        Canned::Answer(200, "", r#"{"forgotten":2}"#),
        Canned::Answer(200, "", batch),
        Canned::Answer(200, "", LEASED),
        Canned::Answer(200, "", LEASED),
        Canned::Answer(200, "", LEASED),
        Canned::Answer(200, "", r#"{"items":[{"subject":"bot-7","refused":12}]}"#),
    ])
    .await;
    let client = client(&server);
    let limit = client.limit();

    let checked = limit.check(&CheckRequest::new("s", "a").attribute("plan", "free").peek().explain()).await.unwrap();
    assert_eq!((checked.delay_ms, checked.explain.unwrap()[0].applies), (40, false));
    limit.check(&CheckRequest::new("s", "a").cost(5).force()).await.unwrap();
    limit.idempotency_key("k").refund(&RefundRequest::new("s", "a").cost(3)).await.unwrap();
    let limit = client.limit();
    assert_eq!(limit.reset(&ResetRequest::new("s", "a")).await.unwrap().forgotten, 2);
    let answers = limit.batch(&[BatchCheck::new("s", "a").cost(0), BatchCheck::new("t", "a").idempotency_key("k")]).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().field.as_deref(), Some("cost"));
    assert!(answers[1].as_ref().unwrap().never);
    let leased = limit.acquire(&AcquireRequest::new("s", "a").lease("l1").ttl(Duration::from_millis(90_500))).await.unwrap();
    assert_eq!((leased.allowed, leased.rules[0].remaining, leased.degraded), (true, 2, true));
    limit.renew("s", "l1", Some(Duration::from_secs(30))).await.unwrap();
    limit.release("s", "l1").await.unwrap();
    assert_eq!(limit.refused(5).await.unwrap()[0].refused, 12);

    let asked: Vec<_> = server.asked().into_iter().map(|asked| format!("{} {}", asked.line.replace(" HTTP/1.1", ""), asked.body)).collect();
    assert_eq!(
        asked,
        [
            r#"POST /v1/limit/check {"subject":"s","action":"a","cost":1,"attributes":{"plan":"free"},"peek":true,"explain":true}"#,
            r#"POST /v1/limit/check {"subject":"s","action":"a","cost":5,"force":true}"#,
            r#"POST /v1/limit/refund {"subject":"s","action":"a","cost":3}"#,
            r#"POST /v1/limit/reset {"subject":"s","action":"a"}"#,
            r#"POST /v1/limit/batch {"checks":[{"subject":"s","action":"a","cost":0},{"subject":"t","action":"a","cost":1,"key":"k"}]}"#,
            r#"POST /v1/limit/acquire {"subject":"s","action":"a","lease":"l1","ttl":"1m 30s 500ms"}"#,
            r#"POST /v1/limit/renew {"subject":"s","lease":"l1","ttl":"30s"}"#,
            r#"POST /v1/limit/release {"subject":"s","lease":"l1"}"#,
            "GET /v1/limit/refused?limit=5 ",
        ]
    );
}

#[tokio::test]
async fn a_lease_is_taken_once_however_often_it_is_tried() {
    let mut server = Server::start(vec![Canned::HangUp, Canned::Answer(200, "", LEASED), Canned::Answer(200, "", LEASED)]).await;
    let client = client(&server);
    client.limit().acquire(&AcquireRequest::new("s", "a")).await.unwrap();
    // With a key the server makes the id up, so that the body is the same each time.
    client.limit().idempotency_key("k").acquire(&AcquireRequest::new("s", "a")).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[0].body.contains(r#""lease":"auto-"#), "{}", asked[0].body);
    assert_eq!(asked[1].body, asked[0].body);
    assert_eq!(asked[2].body, r#"{"subject":"s","action":"a"}"#);
}

#[tokio::test]
async fn a_batch_is_repeated_only_if_every_check_of_it_may_be() {
    let answers = r#"{"answers":[]}"#;
    for (check, tries) in
        [(BatchCheck::new("s", "a"), 1), (BatchCheck::new("s", "a").peek(), 2), (BatchCheck::new("s", "a").idempotency_key("k"), 2)]
    {
        let mut server = Server::start(vec![Canned::HangUp, Canned::Answer(200, "", answers)]).await;
        let answered = client(&server).limit().batch(std::slice::from_ref(&check)).await;
        assert_eq!((answered.is_ok(), server.asked().len()), (tries == 2, tries), "{check:?}");
    }
}

#[tokio::test]
async fn a_settlement_is_tried_again_and_an_estimate_is_not() {
    let reserved = r#"{"allowed":true,"never":false,"rules":[],"bound_by":null,"retry_at":null,"delay_ms":0,"durability":"deferred","degraded":false,
        "replayed":false,"reservation":"rs_7_x","expires_at":"2026-02-03T04:05:06.789Z"}"#;
    let settled =
        r#"{"outcome":"already","reservation":"rs_7_x","estimate":5,"charged":3,"on_expiry":null,"durability":null,"replayed":false}"#;
    let expired =
        r#"{"outcome":"expired","reservation":"rs_7_x","estimate":5,"charged":0,"on_expiry":"refund","durability":null,"replayed":false}"#;
    let mut server = Server::start(vec![
        Canned::HangUp,
        Canned::Answer(200, "", reserved),
        Canned::HangUp,
        Canned::Answer(200, "", settled),
        Canned::Answer(200, "", expired),
    ])
    .await;
    let client = client(&server);
    let request = ReserveRequest::new("s", "a", 5).ttl(Duration::from_secs(120));
    assert!(client.limit().reserve(&request).await.is_err(), "it may have been charged");
    let answer = client.limit().reserve(&request).await.unwrap();
    assert_eq!((answer.checked.allowed, answer.reservation.as_deref()), (true, Some("rs_7_x")));
    let settled = client.limit().commit("rs_7_x", Some(3)).await.unwrap();
    assert_eq!((settled.outcome, settled.charged), (SettleOutcome::Already, 3));
    let expired = client.limit().cancel("rs_7_x").await.unwrap();
    assert_eq!((expired.outcome, expired.on_expiry), (SettleOutcome::Expired, Some(OnExpiry::Refund)));
    let bodies: Vec<_> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies[1], r#"{"subject":"s","action":"a","cost":5,"ttl":"2m"}"#);
    assert_eq!(bodies[3..], [r#"{"reservation":"rs_7_x","actual":3}"#, r#"{"reservation":"rs_7_x"}"#]);
}

#[tokio::test]
async fn a_rule_has_all_its_fields() {
    let full = r#"{"id":"r1","name":"n","action":"a","subject":"vip:*","when":"cost > 2","limit":3,"per":"day@Europe/Berlin","algorithm":"leaky_bucket",
        "burst":3,"queue":4,"scope":"global","mode":"shadow","durable":true,"on_store_error":"local","on_expiry":"refund","version":7}"#;
    let mut server = Server::start(vec![Canned::Answer(201, "", full), Canned::Answer(201, "", RULE)]).await;
    let client = client(&server);
    let draft = RuleDraft::new("a", 3, "day@Europe/Berlin").subject("vip:*").when("cost > 2").algorithm(Algorithm::LeakyBucket).queue(4);
    let draft =
        draft.scope(RuleScope::Global).mode(RuleMode::Shadow).durable(true).on_store_error(OnStoreError::Local).on_expiry(OnExpiry::Refund);
    let rule = client.rules().create(&draft).await.unwrap();
    assert_eq!((rule.when.as_deref(), rule.queue, rule.algorithm), (Some("cost > 2"), Some(4), Algorithm::LeakyBucket));
    assert_eq!((rule.scope, rule.mode, rule.on_store_error), (RuleScope::Global, RuleMode::Shadow, OnStoreError::Local));
    assert_eq!(rule.on_expiry, OnExpiry::Refund);
    // An older server's rule lacks most of them.
    let rule = client.rules().create(&RuleDraft::new("a", 3, "30s").approximate(true)).await.unwrap();
    assert_eq!((rule.scope, rule.mode, rule.approximate), (RuleScope::Subject, RuleMode::Enforce, false));
    let bodies: Vec<_> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(
        bodies,
        [
            r#"{"action":"a","subject":"vip:*","when":"cost > 2","limit":3,"per":"day@Europe/Berlin","algorithm":"leaky_bucket","queue":4,"scope":"global","mode":"shadow","durable":true,"on_store_error":"local","on_expiry":"refund"}"#,
            r#"{"action":"a","limit":3,"per":"30s","approximate":true,"durable":false}"#,
        ]
    );
}
