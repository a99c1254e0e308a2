//! Bad input is answered with what is wrong and where, and changes nothing.

mod limits;

use anyhow::{Result, ensure};
use hermod_tests::server::Hermod;
use serde_json::json;

use super::site::{Ask, Caller, Site};

/// What is said back of a field's name is bounded.
const LONG_NAME: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// A request, and the status, code and field of its answer.
struct Row {
    ask: Ask,
    status: u16,
    code: &'static str,
    field: Option<&'static str>,
}

impl Ask {
    fn gives(self, status: u16, code: &'static str, field: impl Into<Option<&'static str>>) -> Row {
        Row { ask: self, status, code, field: field.into() }
    }
}

fn check(body: impl AsRef<[u8]>) -> Ask {
    Ask::new("POST", "/v1/limit/check", body)
}

fn check_of(subject: &str) -> Ask {
    check(json!({"subject": subject, "action": "watched"}).to_string())
}

fn cost(cost: &str) -> Ask {
    check(format!(r#"{{"subject":"witness","action":"watched","cost":{cost}}}"#))
}

/// A rule that is good but for these fields.
fn rule(fields: &str) -> Ask {
    let taken = |field: &str| fields.contains(&format!("\"{field}\":"));
    let others = [("action", r#""a""#), ("limit", "1"), ("per", r#""1s""#)];
    let others: String = others.iter().filter(|(name, _)| !taken(name)).map(|(name, value)| format!(r#","{name}":{value}"#)).collect();
    Ask::new("POST", "/v1/rules", format!("{{{fields}{others}}}"))
}

/// The same of a token bucket.
fn bucket(fields: &str) -> Ask {
    rule(&format!(r#""algorithm":"token_bucket",{fields}"#))
}

fn key(fields: &str) -> Ask {
    Ask::new("POST", "/v1/keys", format!("{{{fields}}}"))
}

fn space(name: &str) -> Ask {
    Ask::new("POST", "/v1/spaces", json!({"space": name}).to_string())
}

fn get(path: &str) -> Ask {
    Ask::new("GET", path, "")
}

fn bodies() -> Vec<Row> {
    let deep = "[".repeat(100_000);
    let good = r#"{"subject":"witness","action":"watched"}"#;
    vec![
        check("").gives(400, "invalid_json", None),
        check("   ").gives(400, "invalid_json", None),
        check("subject=witness&action=watched").gives(400, "invalid_json", None),
        check(r#"{"subject":"witness","action":"watched""#).gives(400, "invalid_json", None),
        check(format!("{good}{good}")).gives(400, "invalid_json", None),
        check("null").gives(400, "invalid_json", None),
        check("7").gives(400, "invalid_json", None),
        check(r#""witness""#).gives(400, "invalid_json", None),
        check("[]").gives(400, "invalid_json", None),
        check(r#"["witness","watched",1]"#).gives(400, "invalid_json", None),
        check(format!("[{good}]")).gives(400, "invalid_json", None),
        check(b"{\"subject\":\"\xff\xfe\",\"action\":\"watched\"}").gives(400, "invalid_json", None),
        check(r#"{"subject":"\ud800","action":"watched"}"#).gives(400, "invalid_json", None),
        check(&deep).gives(400, "invalid_json", None),
        check(format!(r#"{{"subject":{deep}"#)).gives(400, "invalid_field", "subject"),
        check(format!(r#"{{"depth":{deep}"#)).gives(400, "unknown_field", "depth"),
        check(r#"{"subject":"witness","action":"watched","prize":1}"#).gives(400, "unknown_field", "prize"),
        check(format!(r#"{{"{}":1}}"#, "x".repeat(9_000))).gives(400, "unknown_field", LONG_NAME),
        check(r#"{"subject":"witness"}"#).gives(400, "missing_field", "action"),
        check("{}").gives(400, "missing_field", "subject"),
        check(r#"{"subject":"witness","subject":"other","action":"watched"}"#).gives(400, "invalid_field", "subject"),
        check(r#"{"subject":7,"action":"watched"}"#).gives(400, "invalid_field", "subject"),
        check(r#"{"subject":null,"action":"watched"}"#).gives(400, "invalid_field", "subject"),
        check(r#"{"subject":["witness"],"action":"watched"}"#).gives(400, "invalid_field", "subject"),
        check(r#"{"subject":{"id":"witness"},"action":"watched"}"#).gives(400, "invalid_field", "subject"),
        cost(r#""1""#).gives(400, "invalid_field", "cost"),
        cost(&format!("{:?}", "9".repeat(9_000))).gives(400, "invalid_field", "cost"),
        cost("1.5").gives(400, "invalid_field", "cost"),
        cost("1.0").gives(400, "invalid_field", "cost"),
        cost("true").gives(400, "invalid_field", "cost"),
        cost("0").gives(400, "invalid_field", "cost"),
        cost("-1").gives(400, "invalid_field", "cost"),
        cost("9007199254740992").gives(400, "invalid_field", "cost"),
        cost("18446744073709551616").gives(400, "invalid_field", "cost"),
        cost("1e309").gives(400, "invalid_field", "cost"),
        cost("01").gives(400, "invalid_json", None),
        cost("NaN").gives(400, "invalid_json", None),
    ]
}

fn names() -> Vec<Row> {
    let long_id = "a".repeat(65);
    vec![
        check_of("").gives(400, "invalid_field", "subject"),
        check_of(&"a".repeat(257)).gives(400, "invalid_field", "subject"),
        check_of(&"a".repeat(300)).gives(400, "invalid_field", "subject"),
        check_of(&"é".repeat(129)).gives(400, "invalid_field", "subject"),
        check_of("a\0b").gives(400, "invalid_field", "subject"),
        check_of("a\nb").gives(400, "invalid_field", "subject"),
        check_of("a\u{85}b").gives(400, "invalid_field", "subject"),
        check(json!({"subject": "witness", "action": ""}).to_string()).gives(400, "invalid_field", "action"),
        check(json!({"subject": "witness", "action": "\u{7f}"}).to_string()).gives(400, "invalid_field", "action"),
        get("/v1/rules/a%2Fb").gives(400, "invalid_field", "id"),
        get("/v1/rules/a%20b").gives(400, "invalid_field", "id"),
        get("/v1/rules/%00").gives(400, "invalid_field", "id"),
        get("/v1/rules/%C3%A4").gives(400, "invalid_field", "id"),
        get("/v1/rules/%FF").gives(400, "invalid_field", "id"),
        get(&format!("/v1/rules/{long_id}")).gives(400, "invalid_field", "id"),
        get("/v1/rules/none").gives(404, "not_found", None),
        Ask::new("DELETE", "/v1/rules/a%2Fb", "").gives(400, "invalid_field", "id"),
        Ask::new("DELETE", "/v1/rules/none", "").gives(404, "not_found", None),
        Ask::new("DELETE", "/v1/keys/none", "").gives(404, "not_found", None),
        Ask::new("DELETE", "/v1/keys/%00", "").gives(404, "not_found", None),
        Ask::new("DELETE", "/v1/keys/%FF", "").gives(400, "invalid_field", "id"),
        Ask::new("PUT", "/v1/rules/a%2Fb", rule(r#""limit":1"#).body).gives(400, "invalid_field", "id"),
        Ask::new("PUT", "/v1/rules/one", rule(r#""id":"two""#).body).gives(400, "invalid_field", "id"),
        space("").gives(400, "invalid_field", "space"),
        space("a/b").gives(400, "invalid_field", "space"),
        space("käse").gives(400, "invalid_field", "space"),
        space(&long_id).gives(400, "invalid_field", "space"),
        space("default").gives(409, "already_exists", None),
        get("/v1/nothing").gives(404, "not_found", None),
        get("/v1/rules/a/b").gives(404, "not_found", None),
        get("/v2/rules").gives(404, "not_found", None),
        get("/%FF").gives(404, "not_found", None),
        get("/v1/limit/check").gives(405, "method_not_allowed", None),
        Ask::new("PATCH", "/v1/rules/watched", "{}").gives(405, "method_not_allowed", None),
        Ask::new("DELETE", "/v1/rules", "").gives(405, "method_not_allowed", None),
        Ask::new("POST", "/openapi.json", "").gives(405, "method_not_allowed", None),
        Ask::new("POST", "/healthz", "").gives(405, "method_not_allowed", None),
    ]
}

fn definitions() -> Vec<Row> {
    let list = |query: &str| get(&format!("/v1/rules?{query}"));
    let once = |key: &[u8]| check(r#"{"subject":"witness","action":"watched"}"#).header("idempotency-key", key);
    vec![
        rule(r#""limit":0"#).gives(400, "invalid_field", "limit"),
        rule(r#""limit":-3"#).gives(400, "invalid_field", "limit"),
        rule(r#""limit":null"#).gives(400, "invalid_field", "limit"),
        rule(r#""per":"0s""#).gives(400, "invalid_field", "per"),
        rule(r#""per":"soon""#).gives(400, "invalid_field", "per"),
        rule(r#""per":"1ns""#).gives(400, "invalid_field", "per"),
        rule(r#""per":"2years""#).gives(400, "invalid_field", "per"),
        rule(r#""per":60"#).gives(400, "invalid_field", "per"),
        bucket(r#""burst":0"#).gives(400, "invalid_field", "burst"),
        bucket(r#""burst":4503599627370497"#).gives(400, "invalid_field", "burst"),
        bucket(r#""burst":1000000,"per":"365days""#).gives(400, "invalid_field", "burst"),
        bucket(r#""limit":1000000000000,"per":"365days""#).gives(400, "invalid_field", "limit"),
        bucket(r#""queue":1"#).gives(400, "invalid_field", "queue"),
        bucket(r#""approximate":true"#).gives(400, "invalid_field", "approximate"),
        bucket(r#""per":"day@Europe/Berlin""#).gives(400, "invalid_field", "algorithm"),
        rule(r#""burst":5"#).gives(400, "invalid_field", "burst"),
        rule(r#""limit":1,"requests_per_unit":1"#).gives(400, "invalid_field", "limit"),
        rule(r#""per":"day@Middle/Earth""#).gives(400, "invalid_field", "per"),
        rule(r#""per":"day@""#).gives(400, "invalid_field", "per"),
        rule(r#""per":"decade@UTC""#).gives(400, "invalid_field", "per"),
        rule(r#""algorithm":"sliding_log","limit":10001"#).gives(400, "invalid_field", "limit"),
        rule(r#""algorithm":"concurrency","limit":1001"#).gives(400, "invalid_field", "limit"),
        rule(r#""algorithm":"concurrency","mode":"shadow""#).gives(400, "invalid_field", "mode"),
        rule(r#""algorithm":7"#).gives(400, "invalid_field", "algorithm"),
        rule(r#""scope":"all""#).gives(400, "invalid_field", "scope"),
        rule(r#""scope":"global","subject":"bot""#).gives(400, "invalid_field", "scope"),
        rule(r#""mode":"off""#).gives(400, "invalid_field", "mode"),
        rule(r#""on_store_error":"maybe""#).gives(400, "invalid_field", "on_store_error"),
        rule(r#""on_expiry":"maybe""#).gives(400, "invalid_field", "on_expiry"),
        rule(r#""on_expiry":"refund","algorithm":"concurrency""#).gives(400, "invalid_field", "on_expiry"),
        rule(r#""approximate":1"#).gives(400, "invalid_field", "approximate"),
        rule(r#""when":"""#).gives(400, "invalid_field", "when"),
        rule(r#""when":"cost >""#).gives(400, "invalid_field", "when"),
        rule(r#""when":"cost + 1""#).gives(400, "invalid_field", "when"),
        rule(r#""when":"cost > 'one'""#).gives(400, "invalid_field", "when"),
        rule(r#""when":"moon == 1""#).gives(400, "invalid_field", "when"),
        rule(&format!(r#""when":"{}""#, "(".repeat(500))).gives(400, "invalid_field", "when"),
        rule(&format!(r#""when":"cost == {}1""#, "1 + ".repeat(500))).gives(400, "invalid_field", "when"),
        rule(r#""action":"""#).gives(400, "invalid_field", "action"),
        rule(r#""algorithm":"magic""#).gives(400, "invalid_field", "algorithm"),
        rule(r#""durable":"yes""#).gives(400, "invalid_field", "durable"),
        rule(r#""name":"a b""#).gives(400, "invalid_field", "name"),
        rule(r#""id":"a/b""#).gives(400, "invalid_field", "id"),
        rule(r#""id":"""#).gives(400, "invalid_field", "id"),
        rule(r#""id":".""#).gives(400, "invalid_field", "id"),
        rule(r#""id":"..""#).gives(400, "invalid_field", "id"),
        rule(r#""id":"watched""#).gives(409, "already_exists", None),
        rule(r#""action":"watched""#).gives(409, "duplicate_rule", None),
        rule(r#""speed":1"#).gives(400, "unknown_field", "speed"),
        list("limit=0").gives(400, "invalid_field", "limit"),
        list("limit=1001").gives(400, "invalid_field", "limit"),
        list("limit=ten").gives(400, "invalid_field", "limit"),
        list("limit=-1").gives(400, "invalid_field", "limit"),
        list("cursor=a/b").gives(400, "invalid_field", "cursor"),
        list("cursor=").gives(400, "invalid_field", "cursor"),
        list("page=2").gives(400, "unknown_field", "page"),
        key(r#""name":"n","scopes":[]"#).gives(400, "invalid_field", "scopes"),
        key(r#""name":"n","scopes":["root"]"#).gives(400, "invalid_field", "scopes"),
        key(r#""name":"n","scopes":"admin""#).gives(400, "invalid_field", "scopes"),
        key(r#""name":"n","scopes":["admin",7]"#).gives(400, "invalid_field", "scopes[1]"),
        key(r#""name":"n","scopes":{"admin":true}"#).gives(400, "invalid_field", "scopes"),
        key(r#""name":"n""#).gives(400, "missing_field", "scopes"),
        key(r#""name":"","scopes":["admin"]"#).gives(400, "invalid_field", "name"),
        key(r#""name":"a\u0000","scopes":["admin"]"#).gives(400, "invalid_field", "name"),
        key(r#""name":"n","scopes":["admin"],"space":"a/b""#).gives(400, "invalid_field", "space"),
        key(r#""name":"n","scopes":["admin"],"space":"nowhere""#).gives(404, "not_found", None),
        Ask::new("POST", "/v1/clock", r#"{"advance":"soon"}"#).gives(400, "invalid_field", "advance"),
        once(b"").gives(400, "invalid_field", "Idempotency-Key"),
        once("k".repeat(129).as_bytes()).gives(400, "invalid_field", "Idempotency-Key"),
        once(b"two words").gives(400, "invalid_field", "Idempotency-Key"),
        once("schlüssel".as_bytes()).gives(400, "invalid_field", "Idempotency-Key"),
        once(b"\xff").gives(400, "invalid_field", "Idempotency-Key"),
    ]
}

/// All of it to one server; the number of requests made.
async fn offend(caller: &Caller) -> Result<usize> {
    caller.fill().await?;
    let before = caller.state().await?;
    let rows: Vec<Row> = bodies().into_iter().chain(names()).chain(limits::rows()).chain(definitions()).collect();
    let mut wrong = Vec::new();
    for Row { ask, status, code, field } in &rows {
        let reply = caller.send(ask).await?;
        if let Err(fault) = reply.problem(*status, code, *field) {
            let body: String = String::from_utf8_lossy(&ask.body).chars().take(80).collect();
            wrong.push(format!("{} {} {:?} {body}: {fault}", ask.method, ask.path, ask.headers));
        }
    }
    ensure!(wrong.is_empty(), "{wrong:#?}");
    ensure!(caller.state().await? == before, "something was changed");
    Ok(rows.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_told_what_is_wrong_and_changes_nothing() -> Result<()> {
    let site = Site::start().await?;
    assert!(offend(&site.admin).await? > 100);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_the_callers_fault_and_not_worth_a_warning() -> Result<()> {
    let mut hermod = Hermod::serve(["--log", "info"])?;
    let caller = Caller::new(hermod.url()?, Some(&hermod.admin_key()?));
    offend(&caller).await?;
    ensure!(hermod.terminate()?.success());
    let alarms = ["ERROR", "WARN", "panicked"];
    let alarming: Vec<String> = hermod.lines().into_iter().filter(|line| alarms.iter().any(|word| line.contains(word))).collect();
    ensure!(alarming.is_empty(), "{alarming:#?}");
    Ok(())
}

/// Where it is wrong, or what to write instead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_cannot_be_is_told_what_would_help() -> Result<()> {
    let site = Site::start().await?;
    let fields = |fields: serde_json::Value| {
        let mut body = super::site::rule("a", 1, "1s");
        body.as_object_mut().into_iter().zip(fields.as_object()).for_each(|(body, fields)| body.extend(fields.clone()));
        body
    };
    for (body, field, told) in [
        (json!({"limit": 0}), "limit", "mode: block"),
        (json!({"limit": 10_001, "algorithm": "sliding_log"}), "limit", "sliding_window"),
        (json!({"when": "cost >"}), "when", "line 1, column "),
        (json!({"when": "cost > 1 &&\n  ) "}), "when", "line 2, column "),
        (json!({"when": "moon == 1"}), "when", "moon"),
        (json!({"burst": 5}), "burst", "token_bucket"),
        (json!({"queue": 5}), "queue", "leaky_bucket"),
        (json!({"per": "day@UTC", "algorithm": "token_bucket"}), "algorithm", "fixed_window"),
        (json!({"per": "day@Middle/Earth"}), "per", "Europe/Berlin"),
        (json!({"algorithm": "magic"}), "algorithm", "sliding_window, sliding_log, fixed_window, token_bucket, leaky_bucket, concurrency"),
        (json!({"scope": "all"}), "scope", "subject global"),
        (json!({"mode": "off"}), "mode", "enforce shadow block"),
        (json!({"on_store_error": "maybe"}), "on_store_error", "open closed local"),
        (json!({"on_expiry": "maybe"}), "on_expiry", "keep refund"),
    ] {
        let problem = site.admin.post("/v1/rules", &fields(body.clone())).await?.problem(400, "invalid_field", Some(field))?;
        ensure!(problem["detail"].as_str().is_some_and(|detail| detail.contains(told)), "{body}: {told} is not in {}", problem["detail"]);
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_just_within_the_bounds_is_accepted() -> Result<()> {
    let site = Site::start().await?;
    let admin = &site.admin;
    for (nth, subject) in ["a".repeat(256), "é".repeat(128), "\u{1F600}".repeat(64), "with spaces, {}:/\"'".to_owned()].iter().enumerate()
    {
        assert_eq!(admin.check(subject, "free", (1 << 53) - 1).await?["allowed"], true);
        let body = json!({"id": format!("r{nth}"), "action": "a", "subject": subject, "limit": 1, "per": "1us"});
        assert_eq!(admin.post("/v1/rules", &body).await?.expect(201)?["subject"], *subject);
        assert_eq!(admin.check(subject, "a", 1).await?["rules"][0]["id"], body["id"], "the subject is found by its own spelling");
    }
    let long = "a".repeat(64);
    admin.put(&format!("/v1/rules/{long}"), &super::site::rule("long", 1, "366days")).await?.expect(201)?;
    admin.post("/v1/spaces", &json!({"space": long})).await?.expect(201)?;
    admin.post("/v1/keys", &json!({"name": "é".repeat(64), "scopes": ["admin"]})).await?.expect(201)?;
    let ask = Ask::json("POST", "/v1/rules", &super::site::rule("keyed", 1, "day"));
    admin.send(&ask.once(&"~".repeat(128))).await?.expect(201)?;
    let most = json!({"many": vec![7; 254], "x": "x".repeat(16 * 1024 - 5)});
    admin.post("/v1/limit/check", &json!({"subject": "b", "action": "free", "attributes": most})).await?.expect(200)?;
    let checks = vec![json!({"subject": "b", "action": "free"}); 1_000];
    let answers = admin.post("/v1/limit/batch", &json!({"checks": checks})).await?.expect(200)?;
    assert_eq!(answers["answers"].as_array().map(Vec::len), Some(1_000));
    for rule in [json!({"action": "tasks/*"}), json!({"action": "glob", "subject": "vip:*"}), json!({"action": "*", "subject": "*"})] {
        let mut body = super::site::rule("", 10_000, "1us");
        body["algorithm"] = json!("sliding_log");
        body.as_object_mut().into_iter().zip(rule.as_object()).for_each(|(body, rule)| body.extend(rule.clone()));
        admin.post("/v1/rules", &body).await?.expect(201)?;
    }
    let spaced = Ask::new("POST", "/v1/limit/check", " {\"subject\" : \"b\",\r\n\t\"action\":\"free\",\"cost\":null} ");
    admin.send(&spaced).await?.expect(200)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_request_leaves_its_idempotency_key_free() -> Result<()> {
    let site = Site::start().await?;
    for body in [r#"{"action":"a","limit":0,"per":"1s"}"#, r#"{"action":"a"}"#, "]"] {
        let reply = site.admin.send(&Ask::new("POST", "/v1/rules", body).once("again")).await?;
        assert_eq!(reply.status, 400, "{}", reply.text());
    }
    site.admin.send(&Ask::json("POST", "/v1/rules", &super::site::rule("a", 1, "1s")).once("again")).await?.expect(201)?;
    site.server.shutdown().await;
    Ok(())
}
