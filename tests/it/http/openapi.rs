//! The OpenAPI document says what there is, and what it answers.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::site::{Ask, Site, rule};

/// All routes there are, but for the pages for people.
const ROUTES: [&str; 93] = [
    "DELETE /v1/decks/{deck}",
    "DELETE /v1/decks/{deck}/messages/{id}",
    "DELETE /v1/keys/{id}",
    "DELETE /v1/queues/{queue}",
    "DELETE /v1/queues/{queue}/deliveries/{id}",
    "DELETE /v1/queues/{queue}/schedules/{name}",
    "DELETE /v1/queues/{queue}/workers/{worker}",
    "DELETE /v1/rules/{id}",
    "DELETE /v1/subjects/{subject}",
    "GET /healthz",
    "GET /metrics",
    "GET /readyz",
    "GET /v1/clock",
    "GET /v1/decks",
    "GET /v1/decks/{deck}",
    "GET /v1/decks/{deck}/history/{subject}",
    "GET /v1/decks/{deck}/messages",
    "GET /v1/decks/{deck}/messages/{id}",
    "GET /v1/events",
    "GET /v1/keys",
    "GET /v1/limit/gate/{action}/{subject}",
    "GET /v1/limit/refused",
    "GET /v1/queues",
    "GET /v1/queues/{queue}",
    "GET /v1/queues/{queue}/attempts",
    "GET /v1/queues/{queue}/deliveries",
    "GET /v1/queues/{queue}/deliveries/{id}",
    "GET /v1/queues/{queue}/recipients/{recipient}",
    "GET /v1/queues/{queue}/schedules",
    "GET /v1/queues/{queue}/schedules/{name}",
    "GET /v1/queues/{queue}/stats",
    "GET /v1/queues/{queue}/stream",
    "GET /v1/queues/{queue}/workers",
    "GET /v1/realms",
    "GET /v1/realms/{realm}",
    "GET /v1/realms/{realm}/accounts/{owner}",
    "GET /v1/realms/{realm}/audit",
    "GET /v1/realms/{realm}/boards/{asset}",
    "GET /v1/realms/{realm}/events",
    "GET /v1/realms/{realm}/holds/{id}",
    "GET /v1/realms/{realm}/ledger",
    "GET /v1/realms/{realm}/odds",
    "GET /v1/realms/{realm}/supply",
    "GET /v1/rules",
    "GET /v1/rules/{id}",
    "GET /v1/spaces",
    "GET /v1/subjects/{subject}",
    "PATCH /v1/queues/{queue}/deliveries/{id}",
    "POST /v1/clock",
    "POST /v1/decks/{deck}/messages",
    "POST /v1/decks/{deck}/picks",
    "POST /v1/keys",
    "POST /v1/limit/acquire",
    "POST /v1/limit/batch",
    "POST /v1/limit/cancel",
    "POST /v1/limit/check",
    "POST /v1/limit/commit",
    "POST /v1/limit/refund",
    "POST /v1/limit/release",
    "POST /v1/limit/renew",
    "POST /v1/limit/reserve",
    "POST /v1/limit/reset",
    "POST /v1/picks/{id}/ack",
    "POST /v1/picks/{id}/nack",
    "POST /v1/queues/{queue}/ack",
    "POST /v1/queues/{queue}/cancel",
    "POST /v1/queues/{queue}/claim",
    "POST /v1/queues/{queue}/deliveries",
    "POST /v1/queues/{queue}/extend",
    "POST /v1/queues/{queue}/nack",
    "POST /v1/queues/{queue}/redrive",
    "POST /v1/queues/{queue}/relay",
    "POST /v1/queues/{queue}/shift",
    "POST /v1/queues/{queue}/workers/{worker}/drain",
    "POST /v1/queues/{queue}/workers/{worker}/heartbeat",
    "POST /v1/realms/{realm}/commits",
    "POST /v1/realms/{realm}/commits/{id}/revert",
    "POST /v1/realms/{realm}/holds",
    "POST /v1/realms/{realm}/holds/{id}/capture",
    "POST /v1/realms/{realm}/holds/{id}/release",
    "POST /v1/realms/{realm}/plays/{play}",
    "POST /v1/realms/{realm}/simulate",
    "POST /v1/rules",
    "POST /v1/spaces",
    "PUT /v1/decks/{deck}",
    "PUT /v1/decks/{deck}/messages/{id}",
    "PUT /v1/queues/{queue}",
    "PUT /v1/queues/{queue}/recipients/{recipient}",
    "PUT /v1/queues/{queue}/schedules/{name}",
    "PUT /v1/queues/{queue}/workers/{worker}",
    "PUT /v1/realms/{realm}",
    "PUT /v1/rules/{id}",
    "PUT /v1/subjects/{subject}",
];
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

async fn document(site: &Site) -> Result<Value> {
    site.admin.with_key(None).get("/openapi.json").await?.expect(200)
}

/// `GET /v1/rules` and so on, as the document has them.
fn documented(document: &Value) -> Result<BTreeSet<String>> {
    let mut routes = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().context("paths")? {
        for method in operations.as_object().context("operations")?.keys() {
            routes.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    Ok(routes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_lists_the_routes_that_exist_and_no_others() -> Result<()> {
    let site = Site::start().await?;
    let document = document(&site).await?;
    ensure!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1.")), "{}", document["openapi"]);
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let routes = documented(&document)?;
    assert_eq!(routes, ROUTES.map(str::to_owned).into_iter().collect());
    let paths: BTreeSet<&str> = routes.iter().filter_map(|route| route.split_once(' ')).map(|(_, path)| path).collect();
    for path in paths {
        for method in METHODS {
            let reply = site.admin.send(&Ask::new(method, path.replace(['{', '}'], ""), "")).await?;
            let text = reply.text();
            let is_there = reply.status != 405 && !text.contains("There is nothing at this path");
            assert_eq!(is_there, routes.contains(&format!("{method} {path}")), "{method} {path}: {} {text}", reply.status);
        }
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_that_takes_an_idempotency_key_is_documented_to() -> Result<()> {
    let site = Site::start().await?;
    let document = document(&site).await?;
    // Each check of a batch has a key of its own; what a lost claim handed out comes back with its lease.
    // What a worker says of itself is the same when it says it twice.
    let none = ["POST /v1/clock", "POST /v1/limit/batch", "POST /v1/queues/{queue}/claim", "POST /v1/realms/{realm}/simulate"];
    let has_none = |route: &str| route.starts_with("GET") || none.contains(&route) || route.contains("/workers/");
    for route in documented(&document)?.iter().filter(|route| !has_none(route)) {
        let (method, path) = route.split_once(' ').context("a route")?;
        let parameters = document["paths"][path][method.to_lowercase()]["parameters"].as_array().cloned().unwrap_or_default();
        let header = parameters.iter().find(|parameter| parameter["name"] == "Idempotency-Key").with_context(|| route.clone())?;
        assert_eq!((&header["in"], &header["required"]), (&json!("header"), &json!(false)), "{route}");
    }
    let checks = document.pointer("/components/schemas/BatchCheck/properties/key").context("a check of a batch has a key")?;
    ensure!(checks["type"] == json!(["string", "null"]), "{checks}");
    site.server.shutdown().await;
    Ok(())
}

/// Whether `value` is what `schema` says, as far as this document says it.
fn fits(document: &Value, schema: &Value, value: &Value, place: &str) -> Result<()> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).with_context(|| format!("{reference} leads nowhere"))?;
        return fits(document, target, value, place);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        ensure!(choices.iter().any(|choice| fits(document, choice, value, place).is_ok()), "{place}: {value} is none of {schema}");
        return Ok(());
    }
    // What says nothing but a description stands for any JSON.
    if schema.as_object().is_some_and(|schema| schema.keys().all(|key| key == "description")) {
        return Ok(());
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = &schema["type"];
    ensure!(kinds == kind || kinds.as_array().is_some_and(|kinds| kinds.contains(&json!(kind))), "{place} is {kind} and not {kinds}");
    if let Value::Array(items) = value {
        items.iter().try_for_each(|item| fits(document, &schema["items"], item, &format!("{place}[]")))?;
    }
    if let Value::Object(fields) = value {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            ensure!(fields.contains_key(name), "{place} lacks {name}");
        }
        for (name, field) in fields {
            // What people name themselves is all of one kind.
            let own = schema.get("additionalProperties").filter(|own| own.is_object());
            let Some(schema) = schema["properties"].get(name).or(own) else { bail!("{place}.{name} is not documented") };
            fits(document, schema, field, &format!("{place}.{name}"))?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_what_the_document_says_they_are() -> Result<()> {
    let site = Site::start().await?;
    let document = document(&site).await?;
    site.admin.put("/v1/rules/used", &rule("used", 1, "7s")).await?.expect(201)?;
    let check = |action: &str, cost: u64| Ask::json("POST", "/v1/limit/check", &json!({"subject": "s", "action": action, "cost": cost}));
    let own = json!({"action": "own", "subject": "s", "limit": 1, "per": "1s", "algorithm": "leaky_bucket", "durable": true, "burst": 2,
        "queue": 1, "when": "cost > 0"});
    let leases = json!({"action": "lease", "limit": 1, "per": "1m", "algorithm": "concurrency"});
    site.admin.put("/v1/rules/leases", &leases).await?.expect(201)?;
    let post = |operation: &str, body: Value| Ask::json("POST", format!("/v1/limit/{operation}"), &body);
    let explained = json!({"subject": "s", "action": "used", "peek": true, "explain": true, "attributes": {"plan": ["free", 1, null]}});
    let batch = json!({"checks": [{"subject": "s", "action": "used", "key": "k"}, {"subject": "", "action": "used"}]});
    let acquire = |lease: &str| json!({"subject": "s", "action": "lease", "lease": lease});
    let held = json!({"subject": "s", "lease": "one"});
    let hook = |secrets: Value| json!({"webhook": {"url": "https://example.com", "secrets": secrets}});
    let (one, two) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    let full = json!({"mode": "shared", "order": "total", "overdue": {"drop_after": "1h"}, "catch_up_per_second": 5, "disabled": "why",
        "backoff": {"factor": 1.5}, "push": hook(json!([one]))});
    let rotated = json!({"push": hook(json!([two, one]))});
    let schedule = json!({"cron": "@daily", "payload": {"any": ["thing", 1.5, null]}, "to": "ann", "tags": ["t"]});
    let cap = json!({"tokens": 1, "per": "day", "kind": "calendar"});
    let deck = json!({"subject_cap": null, "quiet_hours": {"from": "22:00", "to": "08:00"}});
    let message = json!({"id": "m", "body": {"any": ["thing", 1.5, null]}, "to": {"tags": ["vip"]}, "when": "subject != 'x'", "cap": cap,
        "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2027-01-01T00:00:00Z", "tags": ["t"], "critical": true});
    let named = json!({"body": 1, "to": {"subjects": ["ann"]}});
    let realm = json!({"description": "d", "timezone": "UTC", "assets": {"a": {"kind": "currency", "max": 9, "floor": -1, "tradable": false,
            "board": true, "emoji": "🧄", "description": "d"}, "b": {}},
        "timers": {"t": {"at": "00:00", "tz": "UTC", "grace": "1h", "streak": true}, "u": {"every": "24h"}},
        "effects": {"e": {"default": 1}}, "counters": {"c": {}}, "boxes": {"x": {}},
        "tables": {"d": {"of": 10, "full": "reroll", "drops": {"b": 1}}}, "recipes": {"b": {"take": {"a": 1}, "give": {"b": 2}}},
        "plays": {"p": {"description": "d", "args": {"n": {"type": "amount", "else": "err", "default": 1}, "o": "owner"},
            "let": {"m": "n + 1"}, "roll": {"r": [1, "n"]}, "need": [{"if": "n > 0", "else": "err", "with": {"n": "n"}}, {"timer": "u", "else": "ttl"}],
            "do": [{"claim": {"timer": "u", "of": "o", "for": 60, "else": "ttl"}}, {"craft": {"recipe": "'b'", "event": "made", "fee": "fee"}},
                {"effect": {"name": "e", "of": "o", "value": 1, "for": 60, "merge": "add"}}, {"counter": {"name": "c", "add": 1, "for": 9}},
                {"box": {"name": "x", "of": "'x'", "clear": true}}, {"draw": {"table": "d", "to": "o", "nothing": "none", "as": "got"}},
                {"schedule": {"play": "q", "in": 60}}, {"if": {"when": "n > 1", "then": [{"move": {"from": "@mint", "to": "by",
                    "asset": "a", "qty": "m", "event": ["one", "two"], "short": "funds"}}], "else": [{"claim": {"timer": "u"}}]}}],
            "return": {"n": "n", "next": {"upcoming": "q", "limit": 5}}, "sample": {"n": 1, "o": "'ann'"}}, "q": {"internal": true}},
        "rules": [{"on": "p", "play": "q", "mode": "after"}]});
    let mut less = realm.clone();
    less["assets"] = json!({"a": {}});
    for (ask, path, status) in [
        (check("free", 1), "/v1/limit/check", "200"),
        (check("used", 1), "/v1/limit/check", "200"),
        (check("used", 1), "/v1/limit/check", "200"),
        (check("used", 2), "/v1/limit/check", "200"),
        (check("", 1), "/v1/limit/check", "4XX"),
        (post("check", explained), "/v1/limit/check", "200"),
        (post("batch", batch), "/v1/limit/batch", "200"),
        (post("batch", json!({"checks": []})), "/v1/limit/batch", "4XX"),
        (post("refund", json!({"subject": "s", "action": "used", "cost": 1})), "/v1/limit/refund", "200"),
        (post("refund", json!({"subject": "s"})), "/v1/limit/refund", "4XX"),
        (post("reset", json!({"subject": "s", "action": "used"})), "/v1/limit/reset", "200"),
        (post("reset", json!({"subject": "s"})), "/v1/limit/reset", "4XX"),
        (post("acquire", acquire("one")), "/v1/limit/acquire", "200"),
        (post("acquire", acquire("two")), "/v1/limit/acquire", "200"),
        (post("acquire", acquire("")), "/v1/limit/acquire", "4XX"),
        (post("renew", held.clone()), "/v1/limit/renew", "200"),
        (post("renew", json!({"subject": "s"})), "/v1/limit/renew", "4XX"),
        (post("release", held.clone()), "/v1/limit/release", "200"),
        (post("release", held), "/v1/limit/release", "200"),
        (post("release", json!({"subject": "s"})), "/v1/limit/release", "4XX"),
        (Ask::new("GET", "/v1/limit/gate/used/gated?cost=2", ""), "/v1/limit/gate/{action}/{subject}", "429"),
        (Ask::new("GET", "/v1/limit/gate/used/gated?cost=0", ""), "/v1/limit/gate/{action}/{subject}", "4XX"),
        (Ask::new("GET", "/v1/limit/refused", ""), "/v1/limit/refused", "200"),
        (Ask::new("GET", "/v1/limit/refused?limit=0", ""), "/v1/limit/refused", "4XX"),
        (Ask::json("POST", "/v1/rules", &own), "/v1/rules", "201"),
        (Ask::json("POST", "/v1/rules", &own), "/v1/rules", "4XX"),
        (Ask::json("PUT", "/v1/rules/put", &rule("put", 1, "1s")), "/v1/rules/{id}", "201"),
        (Ask::json("PUT", "/v1/rules/put", &rule("put", 2, "1s")), "/v1/rules/{id}", "200"),
        (Ask::new("GET", "/v1/rules/put", ""), "/v1/rules/{id}", "200"),
        (Ask::new("GET", "/v1/rules/none", ""), "/v1/rules/{id}", "4XX"),
        (Ask::new("GET", "/v1/rules?limit=1", ""), "/v1/rules", "200"),
        (Ask::json("PUT", "/v1/queues/plain", &json!({})), "/v1/queues/{queue}", "201"),
        (Ask::json("PUT", "/v1/queues/full", &full), "/v1/queues/{queue}", "201"),
        (Ask::json("PUT", "/v1/queues/full", &rotated), "/v1/queues/{queue}", "200"),
        (Ask::json("PUT", "/v1/queues/full", &json!({"lease": "1us"})), "/v1/queues/{queue}", "4XX"),
        (Ask::json("PUT", "/v1/queues/log", &json!({"push": {"log": true}})), "/v1/queues/{queue}", "201"),
        (Ask::new("GET", "/v1/queues/full", ""), "/v1/queues/{queue}", "200"),
        (Ask::new("GET", "/v1/queues", ""), "/v1/queues", "200"),
        (Ask::json("PUT", "/v1/queues/full/schedules/s", &schedule), "/v1/queues/{queue}/schedules/{name}", "201"),
        (Ask::json("PUT", "/v1/queues/full/schedules/s", &schedule), "/v1/queues/{queue}/schedules/{name}", "200"),
        (Ask::json("PUT", "/v1/queues/full/schedules/s", &json!({"cron": "x"})), "/v1/queues/{queue}/schedules/{name}", "4XX"),
        (Ask::new("GET", "/v1/queues/full/schedules/s", ""), "/v1/queues/{queue}/schedules/{name}", "200"),
        (Ask::new("GET", "/v1/queues/full/schedules", ""), "/v1/queues/{queue}/schedules", "200"),
        (Ask::json("PUT", "/v1/decks/d", &json!({})), "/v1/decks/{deck}", "201"),
        (Ask::json("PUT", "/v1/decks/d", &deck), "/v1/decks/{deck}", "200"),
        (Ask::json("PUT", "/v1/decks/d", &json!({"history_max": 1})), "/v1/decks/{deck}", "4XX"),
        (Ask::new("GET", "/v1/decks/d", ""), "/v1/decks/{deck}", "200"),
        (Ask::new("GET", "/v1/decks", ""), "/v1/decks", "200"),
        (Ask::json("POST", "/v1/decks/d/messages", &message), "/v1/decks/{deck}/messages", "201"),
        (Ask::json("POST", "/v1/decks/d/messages", &message), "/v1/decks/{deck}/messages", "4XX"),
        (Ask::json("PUT", "/v1/decks/d/messages/n", &json!({"body": "any"})), "/v1/decks/{deck}/messages/{id}", "201"),
        (Ask::json("PUT", "/v1/decks/d/messages/n", &named), "/v1/decks/{deck}/messages/{id}", "200"),
        (Ask::new("GET", "/v1/decks/d/messages/m", ""), "/v1/decks/{deck}/messages/{id}", "200"),
        (Ask::new("GET", "/v1/decks/d/messages", ""), "/v1/decks/{deck}/messages", "200"),
        (Ask::json("PUT", "/v1/realms/r", &realm), "/v1/realms/{realm}", "201"),
        (Ask::json("PUT", "/v1/realms/r?dry_run=true", &realm), "/v1/realms/{realm}", "200"),
        (Ask::json("PUT", "/v1/realms/r", &less), "/v1/realms/{realm}", "4XX"),
        (Ask::new("GET", "/v1/realms/r", ""), "/v1/realms/{realm}", "200"),
        (Ask::new("GET", "/v1/realms/none", ""), "/v1/realms/{realm}", "4XX"),
        (Ask::new("GET", "/v1/realms", ""), "/v1/realms", "200"),
        (Ask::json("POST", "/v1/keys", &json!({"name": "n", "scopes": ["admin"]})).once("k"), "/v1/keys", "201"),
        (Ask::json("POST", "/v1/keys", &json!({"name": "n", "scopes": ["admin"]})).once("k"), "/v1/keys", "201"),
        (Ask::new("GET", "/v1/keys", ""), "/v1/keys", "200"),
        (Ask::json("POST", "/v1/spaces", &json!({"space": "s"})), "/v1/spaces", "201"),
        (Ask::new("GET", "/v1/spaces", ""), "/v1/spaces", "200"),
        (Ask::new("GET", "/v1/clock", ""), "/v1/clock", "200"),
        (Ask::json("POST", "/v1/clock", &json!({"advance": "1s"})), "/v1/clock", "200"),
        (Ask::new("GET", "/healthz", ""), "/healthz", "200"),
        (Ask::new("GET", "/readyz", ""), "/readyz", "200"),
    ] {
        let reply = site.admin.send(&ask).await?;
        let place = format!("{} {path} {status}", ask.method);
        ensure!(status == "4XX" && reply.status / 100 == 4 || status == reply.status.to_string(), "{place}: {}", reply.text());
        let content = &document["paths"][path][ask.method.to_lowercase()]["responses"][status]["content"];
        let schema = &content[reply.header("content-type")]["schema"];
        ensure!(!schema.is_null(), "{place}: {} is not documented", reply.header("content-type"));
        fits(&document, schema, &serde_json::from_slice(&reply.body)?, &place)?;
    }
    site.server.shutdown().await;
    Ok(())
}
