//! Bad input is answered with what is wrong and where, and changes nothing.

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
        rule(r#""burst":0"#).gives(400, "invalid_field", "burst"),
        rule(r#""burst":4503599627370497"#).gives(400, "invalid_field", "burst"),
        rule(r#""burst":1000000,"per":"365days""#).gives(400, "invalid_field", "burst"),
        rule(r#""action":"tasks/*""#).gives(400, "invalid_field", "action"),
        rule(r#""subject":"vip:*""#).gives(400, "invalid_field", "subject"),
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
    let rows: Vec<Row> = bodies().into_iter().chain(names()).chain(definitions()).collect();
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
