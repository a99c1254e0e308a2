//! Realms: what is asked, under which key, and what is read.

use std::time::Duration;

use hermod_client::{
    BoardRequest, CaptureRequest, CommitRequest, HoldRequest, PageRequest, PlayRequest, RealmCondition, RealmEventsRequest, RealmLeg,
    RealmStatus, RealmStream, RealmTerms, Retry, SimulateRequest,
};

use super::canned::{Canned, Server};
use super::{OVERLOADED, client};

const DONE: &str = r#"{"status":"done","commit":"cm_17","seq":17,"at":"2026-02-03T04:05:06.789Z","balances":{"111":{"ajo":132}},
    "return":{"won":true},"also":[{"play":"drop","status":"refused","code":"funds","with":{"have":3}}],
    "events":[{"id":"17-0","version":1,"type":"gamble","user_id":"111","guild_id":"0","amount":32,"asset":"ajo","at":"2026-02-03T04:05:06.789Z"}],
    "draws":{"gamble.win":1},"durability":"disk","replayed":false,"news":1}"#;
const REFUSED: &str = r#"{"status":"refused","at":"2026-02-03T04:05:06.789Z","code":"ttl","retry_at":"2026-02-04T04:05:06.789Z",
    "with":{"least":350},"replayed":true}"#;

#[tokio::test]
async fn a_play_is_repeated_under_one_key_and_never_sent_without() {
    let answer = || Canned::Answer(200, "", DONE);
    let mut server = Server::start(vec![Canned::Answer(503, "", OVERLOADED), Canned::HangUp, answer(), answer(), answer(), answer()]).await;
    let client = client(&server);
    let request = PlayRequest::new("111").arg("amount", "all").arg("n", 3).explain();
    let done = client.realms().play("ajo", "gamble", &request).await.unwrap();
    assert_eq!((done.is_done(), done.balance("111", "ajo"), done.balance("222", "ajo")), (true, Some(132), None));
    assert_eq!((done.also[0].code.as_deref(), done.draws["gamble.win"], done.events.unwrap()[0].amount), (Some("funds"), 1, Some(32)));
    client.realms().idempotency_key("order-17").play("ajo", "gamble", &request).await.unwrap();
    let never = client.clone().with_retry(Retry::never());
    never.realms().play("ajo", "gamble", &request).await.unwrap();
    let terms = RealmTerms::new().key("k").guild("9").note("n").dry_run();
    client.realms().play("ajo", "daily", &PlayRequest::new("111").terms(terms)).await.unwrap();

    let asked = server.asked();
    let key = asked[0].header("idempotency-key").unwrap();
    assert!(key.len() >= 32, "{key}");
    for again in &asked[..3] {
        assert_eq!((again.header("idempotency-key"), &again.body), (Some(key), &asked[0].body));
    }
    assert_eq!(asked[0].line, "POST /v1/realms/ajo/plays/gamble HTTP/1.1");
    assert_eq!(asked[0].body, r#"{"by":"111","args":{"amount":"all","n":3},"explain":true}"#);
    assert_eq!(asked[3].header("idempotency-key"), Some("order-17"));
    assert!(asked[4].header("idempotency-key").is_some_and(|other| other != key), "it needs one also if it is not repeated");
    assert_eq!(asked[5].body, r#"{"by":"111","key":"k","guild":"9","note":"n","dry_run":true}"#);
}

#[tokio::test]
async fn changes_of_a_realm_go_where_they_should_and_a_refusal_is_an_answer() {
    let mut server = Server::start((0..7).map(|_| Canned::Answer(200, "", REFUSED)).collect()).await;
    let client = client(&server);
    let (realms, none) = (client.realms(), RealmTerms::new());
    let leg = || RealmLeg::new("@mint", "111", "ajo", 100);
    let commit = CommitRequest::new([leg()]).only_if(RealmCondition::new("balance('111','ajo') >= 10").or_else("poor"));
    let refused = realms.commit("ajo", &commit).await.unwrap();
    assert_eq!((&refused.status, refused.code.as_deref(), refused.replayed), (&RealmStatus::Refused, Some("ttl"), true));
    assert_eq!(
        (refused.with["least"].as_i64(), refused.retry_at.map(|at| at.to_string())),
        (Some(350), Some("2026-02-04T04:05:06.789Z".into()))
    );
    realms.commit("ajo", &CommitRequest::trade(["ho_1", "ho_2"])).await.unwrap();
    realms.revert("ajo", "cm_17", &RealmTerms::new().interaction("55")).await.unwrap();
    realms.hold("ajo", &HoldRequest::new([RealmLeg::new("111", "222", "ajo", 3)], Duration::from_secs(600))).await.unwrap();
    realms.capture("ajo", "ho_1", &CaptureRequest::whole()).await.unwrap();
    realms.capture("ajo", "ho_1", &CaptureRequest::whole().part("ajo", 2)).await.unwrap();
    realms.release("ajo", "ho_1", &none).await.unwrap();
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.header("idempotency-key").is_some()));
    let asked: Vec<_> = asked.into_iter().map(|asked| format!("{} {}", asked.line.replace(" HTTP/1.1", ""), asked.body)).collect();
    assert_eq!(
        asked,
        [
            r#"POST /v1/realms/ajo/commits {"if":[{"if":"balance('111','ajo') >= 10","else":"poor"}],"legs":[{"from":"@mint","to":"111","asset":"ajo","qty":100}]}"#,
            r#"POST /v1/realms/ajo/commits {"capture":["ho_1","ho_2"]}"#,
            r#"POST /v1/realms/ajo/commits/cm_17/revert {"interaction":"55"}"#,
            r#"POST /v1/realms/ajo/holds {"legs":[{"from":"111","to":"222","asset":"ajo","qty":3}],"in":"10m"}"#,
            "POST /v1/realms/ajo/holds/ho_1/capture {}",
            r#"POST /v1/realms/ajo/holds/ho_1/capture {"part":{"ajo":2}}"#,
            "POST /v1/realms/ajo/holds/ho_1/release {}",
        ]
    );
}

#[tokio::test]
async fn the_books_of_a_realm_are_read() {
    let mut server = Server::start(vec![
        Canned::Answer(
            200,
            "",
            r#"{"owner":"1 1","assets":{"ajo":{"balance":9,"available":4}},"timers":{"daily":{"value":1,"until":null}},"effects":{},"counters":{}}"#,
        ),
        Canned::Answer(200, "", r#"{"asset":"ajo","total":1,"rank":1,"items":[{"rank":1,"owner":"111","balance":9}]}"#),
        Canned::Answer(
            200,
            "",
            r#"{"items":[{"commit":"cm_2","seq":2,"at":"2026-02-03T04:05:06.789Z","kind":"play","play":"daily","by":"111","key":"k","legs":[{"from":"@mint:daily","to":"111","asset":"ajo","qty":32}]}],"next":"2"}"#,
        ),
        Canned::Answer(200, "", r#"{"items":[],"after":7,"more":false}"#),
        Canned::HangUp,
        Canned::Answer(200, "", r#"{"hold":"ho_1","status":"expired","until":"2026-02-03T04:05:06.789Z","legs":[]}"#),
        Canned::Answer(
            200,
            "",
            r#"{"items":[{"asset":"ajo","supply":9,"minted":10,"burnt":1,"house":0,"faucets":{"daily":10},"sinks":{"pay":1}}]}"#,
        ),
        Canned::Answer(200, "", r#"{"clean":false,"commits":2,"accounts":3,"draws":0,"faults":["it does not add up"]}"#),
        Canned::Answer(
            200,
            "",
            r#"{"runs":5,"done":5,"refused":{},"gains":{"ajo":{"mean":-43.5,"min":-100,"p50":-100,"p90":1,"p99":2,"max":3}}}"#,
        ),
    ])
    .await;
    let client = client(&server);
    let realms = client.realms();
    assert_eq!(realms.account("ajo", "1 1").await.unwrap().assets["ajo"].available, 4);
    assert_eq!(realms.board("ajo", "ajo", &BoardRequest::around("111", 3)).await.unwrap().rank, Some(Some(1)));
    let ledger = realms.ledger("ajo", &PageRequest::default().limit(1).cursor("3")).await.unwrap();
    assert_eq!((ledger.items[0].legs[0].qty, ledger.next.as_deref()), (32, Some("2")));
    let events = realms.events("ajo", &RealmEventsRequest::after(7).stream(RealmStream::Inventory)).await.unwrap();
    assert_eq!((events.after, events.more), (7, false));
    assert_eq!(realms.hold_state("ajo", "ho_1").await.unwrap().status.as_str(), "expired");
    assert_eq!(realms.supply("ajo").await.unwrap().items[0].sinks["pay"], 1);
    assert!(!realms.audit("ajo").await.unwrap().clean);
    let outlook = realms.simulate("ajo", &SimulateRequest::new("gamble", "111").arg("amount", "100").times(5)).await.unwrap();
    assert!((outlook.gains["ajo"].mean + 43.5).abs() < f64::EPSILON);
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.header("idempotency-key").is_none()), "nothing is changed");
    let asked: Vec<_> = asked.into_iter().map(|asked| format!("{} {}", asked.line.replace(" HTTP/1.1", ""), asked.body)).collect();
    assert_eq!(
        asked,
        [
            "GET /v1/realms/ajo/accounts/1%201 ",
            "GET /v1/realms/ajo/boards/ajo?limit=3&around=111 ",
            "GET /v1/realms/ajo/ledger?limit=1&cursor=3 ",
            "GET /v1/realms/ajo/events?after=7&stream=inventory ",
            "GET /v1/realms/ajo/holds/ho_1 ",
            "GET /v1/realms/ajo/holds/ho_1 ",
            "GET /v1/realms/ajo/supply ",
            "GET /v1/realms/ajo/audit ",
            r#"POST /v1/realms/ajo/simulate {"play":"gamble","by":"111","args":{"amount":"100"},"n":5}"#,
        ]
    );
}

#[tokio::test]
async fn an_audit_may_take_longer_than_other_calls_and_is_not_begun_again() {
    let clean = r#"{"clean":true,"commits":2,"accounts":3,"draws":0,"faults":[]}"#;
    let mut server = Server::start(vec![
        Canned::Late(Duration::from_millis(400), clean),
        Canned::Answer(503, "", OVERLOADED),
        Canned::HangUp,
        Canned::Answer(200, "", clean),
    ])
    .await;
    let client = client(&server).with_try_timeout(Duration::from_millis(100)).with_deadline(Duration::from_millis(200));
    assert!(client.realms().audit("ajo").await.unwrap().clean);
    assert_eq!(server.asked().len(), 1);
    for _ in 0..2 {
        client.realms().audit("ajo").await.unwrap_err();
        assert_eq!(server.asked().len(), 1);
    }
}
