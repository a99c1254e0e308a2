//! Deliveries: what is asked, what is repeated, and what is read.

use std::time::{Duration, Instant};

use hermod_client::{
    BulkChange, ClaimRequest, ClientError, DeliveryFilter, DeliveryState, EditOutcome, Held, HeldOutcome, IfExists, NewDelivery,
    PageRequest, PushOutcome, Which,
};
use serde_json::json;

use super::canned::{Canned, Server};
use super::{OVERLOADED, client};

const PUSHED: &str = r#"{"id":"dl_1","outcome":"added","due":"2026-02-03T04:05:06.789Z","state":"scheduled"}"#;
const CLAIMED: &str = r#"{"deliveries":[{"id":"dl_1","token":7,"attempt":1,"due":"2026-02-03T04:05:06.789Z",
    "lease_until":"2026-02-03T04:05:36.789Z","to":"ann","payload":"hi","news":1},{"id":"dl_2","token":8,"attempt":2,
    "due":"2026-02-03T04:05:06.789Z","lease_until":"2026-02-03T04:05:36.789Z","base64":"AAE="}]}"#;
const EDITED: &str = r#"{"outcome":"leased","lease_until":"2026-02-03T04:05:36.789Z"}"#;

#[tokio::test]
async fn a_push_is_repeated_under_its_own_key_or_an_idempotency_key() {
    let mut server = Server::start(vec![
        Canned::HangUp,
        Canned::Answer(201, "", PUSHED),
        Canned::HangUp,
        Canned::Answer(201, "", PUSHED),
        Canned::Answer(201, "", PUSHED),
    ])
    .await;
    let client = client(&server);
    let pushed = client.queues().push("mail", &NewDelivery::new("hi").key("order-17")).await.unwrap();
    assert_eq!((pushed.outcome, pushed.state), (PushOutcome::Added, DeliveryState::Scheduled));
    client.queues().push("mail", &NewDelivery::new("hi").key("order-17").if_exists(IfExists::Replace)).await.unwrap();
    client.queues().idempotency_key("mine").push("mail", &NewDelivery::new("hi").key("order-17")).await.unwrap();
    let asked = server.asked();
    let keys: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key")).collect();
    assert_eq!((keys[0], keys[1], keys[4]), (None, None, Some("mine")), "its own key is enough");
    assert!(keys[2].is_some() && keys[2] == keys[3], "what may replace twice is asked for once");
    assert_eq!(asked[0].line, "POST /v1/queues/mail/deliveries HTTP/1.1");
    assert_eq!(asked[0].body, r#"{"payload":"hi","key":"order-17"}"#);
}

#[tokio::test]
async fn many_are_answered_in_their_order() {
    let list = r#"{"items":[{"id":"dl_1","outcome":"kept","due":null,"state":"done"},
        {"problem":{"detail":"No.","code":"invalid_field","field":"to","retryable":false}}]}"#;
    let lines =
        "{\"problem\":{\"detail\":\"No.\",\"code\":\"invalid_json\"}}\n{\"id\":\"dl_2\",\"outcome\":\"added\",\"state\":\"ready\"}\n";
    let mut server =
        Server::start(vec![Canned::Answer(200, "", list), Canned::Answer(200, "", lines), Canned::Answer(200, "", lines)]).await;
    let client = client(&server);
    let pushed = client.queues().idempotency_key("k").push_all("mail", &[NewDelivery::new(1), NewDelivery::new(2).to("")]).await.unwrap();
    assert_eq!(pushed[0].as_ref().unwrap().outcome, PushOutcome::Kept);
    assert_eq!(pushed[1].as_ref().unwrap_err().field.as_deref(), Some("to"));
    let pushed = client.queues().push_lines("mail", &["nonsense", "{\"payload\":1}"]).await.unwrap();
    assert_eq!((pushed[0].as_ref().unwrap_err().code.as_str(), pushed[1].as_ref().unwrap().id.as_str()), ("invalid_json", "dl_2"));
    let missing = client.queues().push_lines("mail", &["{}", "{}", "{}"]).await;
    assert!(matches!(missing, Err(ClientError::BadAnswer { .. })), "two answers to three");
    assert!(matches!(client.queues().push_lines("mail", &["{}\n{}"]).await, Err(ClientError::Invalid { .. })));
    let asked = server.asked();
    assert_eq!((asked[0].header("idempotency-key"), asked[0].body.as_str()), (Some("k.0"), r#"[{"payload":1},{"payload":2,"to":""}]"#));
    assert_eq!((asked[1].header("content-type"), asked[1].body.as_str()), (Some("application/x-ndjson"), "nonsense\n{\"payload\":1}"));
}

#[tokio::test]
async fn a_claim_waits_longer_than_a_try_and_is_not_repeated_blindly() {
    let mut server = Server::start(vec![
        Canned::Answer(503, "", OVERLOADED),
        Canned::Answer(200, "", CLAIMED),
        Canned::HangUp,
        Canned::Answer(200, "", CLAIMED),
        Canned::Hang,
    ])
    .await;
    let client = client(&server).with_try_timeout(Duration::from_millis(100)).with_deadline(Duration::from_millis(200));
    let claimed = client.queues().claim("mail", &ClaimRequest::new(2).lease(Duration::from_secs(30))).await.unwrap();
    assert_eq!((claimed[0].token, claimed[0].payload::<String>().unwrap().as_str(), claimed[1].attempt), (7, "hi", 2));
    let fault = client.queues().claim("mail", &ClaimRequest::new(1)).await.unwrap_err();
    assert!(matches!(fault, ClientError::Unreachable(_)), "{fault}: deliveries may have been handed out");
    client.queues().claim("mail", &ClaimRequest::new(1)).await.unwrap();
    let began = Instant::now();
    let fault = client.queues().claim("mail", &ClaimRequest::new(1).wait(Duration::from_millis(600))).await.unwrap_err();
    assert!(matches!(fault, ClientError::Timeout) && began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    let bodies: Vec<_> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies[1], r#"{"count":2,"lease":"30s"}"#);
    assert_eq!(bodies[4], r#"{"count":1,"wait_ms":600}"#);
    assert_eq!(bodies.len(), 5);
}

#[tokio::test]
async fn what_is_said_of_a_delivery_is_repeated() {
    let done = r#"{"items":[{"id":"dl_1","outcome":"done"},{"id":"dl_2","outcome":"stale"}]}"#;
    let retry = r#"{"items":[{"id":"dl_1","outcome":"retry","not_before":"2026-02-03T04:05:36.789Z"}]}"#;
    let mut server = Server::start(vec![
        Canned::Answer(200, "", CLAIMED),
        Canned::HangUp,
        Canned::Answer(200, "", done),
        Canned::Answer(200, "", retry),
        Canned::Answer(200, "", r#"{"items":[{"id":"dl_1","outcome":"extended","lease_until":"2026-02-03T04:05:36.789Z"}]}"#),
    ])
    .await;
    let client = client(&server);
    let claimed = client.queues().claim("mail", &ClaimRequest::new(2)).await.unwrap();
    let settled = client.queues().ack_all("mail", &claimed).await.unwrap();
    assert_eq!((&settled[0].outcome, &settled[1].outcome), (&HeldOutcome::Done, &HeldOutcome::Stale));
    let given = client.queues().nack("mail", &claimed[0], Some(Duration::from_secs(5))).await.unwrap();
    assert!(given.outcome == HeldOutcome::Retry && given.not_before.is_some());
    let kept = client.queues().extend("mail", Held::new("dl_1", 7), None).await.unwrap();
    assert_eq!(kept.outcome, HeldOutcome::Extended);
    let asked: Vec<_> = server.asked().into_iter().map(|asked| format!("{} {}", asked.line, asked.body)).collect();
    assert_eq!(asked[1], asked[2]);
    assert_eq!(
        asked[2..],
        [
            r#"POST /v1/queues/mail/ack HTTP/1.1 {"deliveries":[{"id":"dl_1","token":7},{"id":"dl_2","token":8}]}"#,
            r#"POST /v1/queues/mail/nack HTTP/1.1 {"deliveries":[{"id":"dl_1","token":7}],"delay":"5s"}"#,
            r#"POST /v1/queues/mail/extend HTTP/1.1 {"deliveries":[{"id":"dl_1","token":7}]}"#,
        ]
    );
}

#[tokio::test]
async fn changes_go_where_they_should_and_follow_their_cursor() {
    let mut server = Server::start(vec![
        Canned::Answer(200, "", EDITED),
        Canned::Answer(200, "", r#"{"outcome":"done","due":"2026-02-03T04:05:06.789Z"}"#),
        Canned::Answer(200, "", r#"{"outcome":"gone"}"#),
        Canned::Answer(200, "", r#"{"outcome":"alive"}"#),
        Canned::Answer(200, "", r#"{"done":1000,"leased":1,"others":0,"next":"3.1.2"}"#),
        Canned::Answer(200, "", r#"{"done":5,"leased":0,"others":2,"next":null}"#),
        Canned::HangUp,
    ])
    .await;
    let client = client(&server);
    let queues = client.queues();
    assert_eq!(queues.cancel("mail", "dl_1").await.unwrap().outcome, EditOutcome::Leased);
    assert_eq!(queues.reschedule("mail", "dl_1", Duration::from_secs(60)).await.unwrap().outcome, EditOutcome::Done);
    assert_eq!(queues.rewrite("mail", "dl_1", &json!({"n": 1})).await.unwrap().outcome, EditOutcome::Gone);
    assert_eq!(queues.redrive("mail", "dl_1").await.unwrap().outcome, EditOutcome::Alive);
    let bulk = queues.cancel_all("mail", &Which::Tag("news".to_owned())).await.unwrap();
    assert_eq!((bulk.done, bulk.leased, bulk.others, bulk.next), (1_005, 1, 2, None));
    assert!(queues.change_some("mail", BulkChange::Earlier(Duration::from_secs(90)), &Which::Waiting, None).await.is_err());
    let asked: Vec<_> = server.asked().into_iter().map(|asked| format!("{} {}", asked.line, asked.body)).collect();
    assert_eq!(
        asked,
        [
            "DELETE /v1/queues/mail/deliveries/dl_1 HTTP/1.1 ",
            r#"PATCH /v1/queues/mail/deliveries/dl_1 HTTP/1.1 {"in":"1m"}"#,
            r#"PATCH /v1/queues/mail/deliveries/dl_1 HTTP/1.1 {"payload":{"n":1}}"#,
            r#"PATCH /v1/queues/mail/deliveries/dl_1 HTTP/1.1 {"state":"ready"}"#,
            r#"POST /v1/queues/mail/cancel HTTP/1.1 {"tag":"news"}"#,
            r#"POST /v1/queues/mail/cancel HTTP/1.1 {"tag":"news","cursor":"3.1.2"}"#,
            r#"POST /v1/queues/mail/shift HTTP/1.1 {"state":"waiting","by":"-1m 30s"}"#,
        ],
        "times that may have been changed are not changed again"
    );
}

#[tokio::test]
async fn deliveries_are_looked_at_by_filter_and_page() {
    let page = r#"{"items":[{"id":"dl_1","state":"dead","attempts":5,"due":"2026-02-03T04:05:06.789Z",
        "dead_since":"2026-02-03T04:06:06.789Z","tags":["a"],"payload":[1]}],"next":"7"}"#;
    let stats = r#"{"ready":1,"scheduled":2,"leased":3,"dead":4,"oldest_due":null,"next_due":"2026-02-03T04:05:06.789Z",
        "forecast":[1,0],"now":"2026-02-03T04:05:06.789Z"}"#;
    let mut server =
        Server::start(vec![Canned::Answer(200, "", page), Canned::Answer(200, "", page), Canned::HangUp, Canned::Answer(200, "", stats)])
            .await;
    let client = client(&server);
    let dead = client.queues().deliveries("mail", &DeliveryFilter::Dead, &PageRequest::default().limit(5)).await.unwrap();
    assert_eq!((dead.items[0].attempts, dead.items[0].payload::<Vec<u8>>().unwrap(), dead.next.as_deref()), (5, vec![1], Some("7")));
    let key = DeliveryFilter::Key("k 1".to_owned(), Some("ann".to_owned()));
    client.queues().deliveries("mail", &key, &PageRequest::default()).await.unwrap();
    let stats = client.queues().stats("mail").await.unwrap();
    assert_eq!((stats.ready, stats.dead, stats.forecast), (1, 4, vec![1, 0]));
    let lines: Vec<_> = server.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(lines[0], "GET /v1/queues/mail/deliveries?state=dead&limit=5 HTTP/1.1");
    assert_eq!(lines[1], "GET /v1/queues/mail/deliveries?key=k+1&to=ann HTTP/1.1");
}

#[tokio::test]
async fn a_stream_is_read_to_its_end_and_a_refusal_is_told() {
    let events = concat!(
        ":\n\n",
        "event: delivery\nid: dl_1\n",
        r#"data: {"id":"dl_1","token":7,"attempt":1,"due":"2026-02-03T04:05:06.789Z","lease_until":"2026-02-03T04:05:36.789Z","payload":"hi"}"#,
        "\n\nevent: delivery\ndata: nonsense\n\n"
    );
    let mut server =
        Server::start(vec![Canned::Answer(200, "content-type: text/event-stream\r\n", events), Canned::Answer(503, "", OVERLOADED)]).await;
    let client = client(&server);
    let mut stream = client.queues().stream("mail", 8).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().payload::<String>().unwrap(), "hi");
    assert!(matches!(stream.next().await, Err(ClientError::BadAnswer { .. })));
    assert!(stream.next().await.unwrap().is_none());
    let refused = client.queues().stream("mail", 8).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "overloaded");
    let asked = server.asked();
    assert_eq!(asked[0].line, "GET /v1/queues/mail/stream?credits=8 HTTP/1.1");
    assert_eq!((asked[0].header("accept"), asked.len()), (Some("text/event-stream"), 2));
}

#[tokio::test]
async fn who_asks_is_answered_by_whoever_replies() {
    let mut server = Server::start(vec![
        Canned::Answer(200, "", r#"{"id":"dl_1","reply":3}"#),
        Canned::Answer(200, "", r#"{"id":"dl_1","outcome":"done"}"#),
    ])
    .await;
    let client = client(&server);
    let sum: u64 = client.queues().ask("sums", &NewDelivery::new([1, 2]).to("ann"), Duration::from_secs(5)).await.unwrap();
    assert_eq!(sum, 3);
    let settled = client.queues().reply("sums", Held::new("dl_1", 7), &3).await.unwrap();
    assert_eq!(settled.outcome, HeldOutcome::Done);
    let asked = server.asked();
    assert_eq!(asked[0].body, r#"{"payload":[1,2],"to":"ann","reply":{"timeout":"5000ms"}}"#);
    assert_eq!(
        (asked[1].line.as_str(), asked[1].body.as_str()),
        ("POST /v1/queues/sums/ack HTTP/1.1", r#"{"id":"dl_1","token":7,"reply":3}"#)
    );
}

#[tokio::test]
async fn a_change_of_many_under_a_key_has_one_for_each_page_and_the_same_ones_when_it_is_asked_for_again() {
    let (first, last) = (r#"{"done":1000,"leased":0,"others":0,"next":"3.1.2"}"#, r#"{"done":5,"leased":0,"others":0,"next":null}"#);
    let mut server = Server::start(vec![
        Canned::Answer(200, "", first),
        Canned::HangUp,
        Canned::Answer(200, "", last),
        Canned::Answer(200, "", first),
        Canned::Answer(200, "", last),
        Canned::Answer(200, "", last),
        Canned::Answer(200, "", last),
        Canned::Answer(200, "", last),
    ])
    .await;
    let client = client(&server);
    let (queues, tag) = (client.queues().idempotency_key("k"), Which::Tag("news".to_owned()));
    for _ in 0..2 {
        assert_eq!(queues.shift_all("mail", &tag, Duration::from_secs(60)).await.unwrap().done, 1_005);
    }
    queues.cancel_all("mail", &tag).await.unwrap();
    queues.redrive_all("mail", &Which::Dead).await.unwrap();
    queues.change_some("mail", BulkChange::Earlier(Duration::from_secs(60)), &tag, Some("3.1.2")).await.unwrap();
    let asked = server.asked();
    let keys: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key").unwrap_or_default()).collect();
    assert_eq!(keys, ["k.0", "k.1", "k.1", "k.0", "k.1", "k.0", "k.0", "k"]);
    let bodies: Vec<_> = asked.iter().map(|asked| asked.body.as_str()).collect();
    assert_eq!(bodies[1], r#"{"tag":"news","by":"1m","cursor":"3.1.2"}"#);
    assert_eq!((bodies[1], bodies[..2].to_vec()), (bodies[2], bodies[3..5].to_vec()), "a key belongs to a body");
}

#[tokio::test]
async fn who_asks_or_replies_under_a_key_sends_it() {
    let mut server = Server::start(vec![
        Canned::HangUp,
        Canned::Answer(200, "", r#"{"id":"dl_1","reply":3}"#),
        Canned::Answer(200, "", r#"{"id":"dl_1","outcome":"done"}"#),
    ])
    .await;
    let client = client(&server);
    let (queues, sum) = (client.queues().idempotency_key("k"), NewDelivery::new([1, 2]));
    let lost = queues.ask::<_, u64>("sums", &sum, Duration::from_secs(5)).await.unwrap_err();
    assert!(matches!(lost, ClientError::Unreachable(_)), "{lost}: whether to ask again is the caller's to say");
    assert_eq!(queues.ask::<_, u64>("sums", &sum, Duration::from_secs(5)).await.unwrap(), 3);
    queues.reply("sums", Held::new("dl_1", 7), &3).await.unwrap();
    let asked = server.asked();
    let keys: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key")).collect();
    assert_eq!((keys, &asked[0].body), (vec![Some("k"); 3], &asked[1].body));
}
