//! Bad input is refused by name, and changes nothing; so is who may not, and who is of another space.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Caller, at, held};
use crate::http::site::{Ask, Site};
use crate::outage::served::Served;

/// All that can be seen of the queue `q`.
async fn state(team: &Caller) -> Result<Vec<Value>> {
    let mut state = vec![team.stats("q").await?, team.get("/v1/queues/q").await?.expect(200)?];
    for query in ["", "state=leased", "state=dead"] {
        state.extend(team.list("q", query).await?);
    }
    Ok(state)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_is_wrong_is_named_and_not_stored() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.queue("q", json!({})).await?;
    team.queue("small", json!({"max_payload": 10})).await?;
    team.push("q", json!({"payload": "there"})).await?;
    let before = state(team).await?;
    let tags: Vec<String> = (0..11).map(|n| format!("t{n}")).collect();
    let rows: Vec<(Value, &str, &str)> = vec![
        (json!({"at": at(0), "in": "1s"}), "invalid_field", "in"),
        (json!({"at": "tomorrow"}), "invalid_field", "at"),
        (json!({"at": 7}), "invalid_field", "at"),
        (json!({"at": "9999999-01-01T00:00:00Z"}), "invalid_field", "at"),
        (json!({"in": "soon"}), "invalid_field", "in"),
        (json!({"in": "-1s"}), "invalid_field", "in"),
        (json!({"in": 5}), "invalid_field", "in"),
        (json!({"base64": "###"}), "invalid_field", "base64"),
        (json!({"base64": "aGk=", "payload": 1}), "invalid_field", "base64"),
        (json!({"to": "r".repeat(300)}), "invalid_field", "to"),
        (json!({"to": ""}), "invalid_field", "to"),
        (json!({"tags": tags}), "invalid_field", "tags"),
        (json!({"tags": [""]}), "invalid_field", "tags"),
        (json!({"tags": ["t".repeat(129)]}), "invalid_field", "tags"),
        (json!({"tags": "t"}), "invalid_field", "tags"),
        (json!({"key": ""}), "invalid_field", "key"),
        (json!({"key": "two words"}), "invalid_field", "key"),
        (json!({"key": "k".repeat(129)}), "invalid_field", "key"),
        (json!({"if_exists": "maybe"}), "invalid_field", "if_exists"),
        (json!({"max_attempts": 0}), "invalid_field", "max_attempts"),
        (json!({"max_attempts": 101}), "invalid_field", "max_attempts"),
        (json!({"max_attempts": -1}), "invalid_field", "max_attempts"),
        (json!({"max_attempts": 1e300}), "invalid_field", "max_attempts"),
        (json!({"expires_at": "never"}), "invalid_field", "expires_at"),
        (json!({"payload": "x".repeat(256 << 10)}), "invalid_field", "payload"),
        (json!({"priority": 1}), "unknown_field", "priority"),
    ];
    for (body, code, field) in &rows {
        let shown: String = body.to_string().chars().take(80).collect();
        team.post("/v1/queues/q/deliveries", body).await?.problem(400, code, Some(field)).with_context(|| shown.clone())?;
        // In a list it is one of several, and the others are stored.
        let list = team.post("/v1/queues/q/deliveries", &json!([body])).await?.expect(200)?;
        let problem = &list["items"][0]["problem"];
        ensure!(problem["code"] == *code && problem["field"] == *field && problem["retryable"] == false, "{shown}: {list}");
    }
    for text in ["", "null", "1", "\"x\"", "{", "{\"payload\": }", "[1", "{\"payload\":1,\"payload\":2}"] {
        let reply = team.send(&Ask::new("POST", "/v1/queues/q/deliveries", text)).await?;
        ensure!(reply.status == 400, "{text}: {}", reply.text());
    }
    team.post("/v1/queues/small/deliveries", &json!({"payload": "123456789"})).await?.problem(400, "invalid_field", Some("payload"))?;
    team.push("small", json!({"payload": "12345678"})).await?;
    let body = json!(vec![json!({}); 1_001]);
    team.post("/v1/queues/q/deliveries", &body).await?.problem(413, "body_too_large", None)?;
    assert_eq!(state(team).await?, before);
    // The largest that fits is kept as it is.
    let largest = "x".repeat((256 << 10) - 2);
    let id = team.push("q", json!({"payload": largest})).await?["id"].clone();
    let read = team.get(&format!("/v1/queues/q/deliveries/{}", id.as_str().context("an id")?)).await?.expect(200)?;
    assert_eq!(read["payload"], largest.as_str());
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_other_request_that_is_wrong_is_named_and_changes_nothing() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.queue("q", json!({})).await?;
    for n in 0..3 {
        team.push("q", json!({"payload": n, "tags": ["t"]})).await?;
    }
    let one = team.claim_one("q").await?;
    let before = state(team).await?;
    let (id, token) = (&one["id"], &one["token"]);
    let named = |fields: Value| super::with(held(&one), &fields);
    let many: Vec<Value> = (0..1_001).map(|_| held(&one)).collect();
    let rows: Vec<(&str, &str, Value, &str, &str)> = vec![
        ("POST", "claim", json!({"count": 0}), "invalid_field", "count"),
        ("POST", "claim", json!({"count": 1_001}), "invalid_field", "count"),
        ("POST", "claim", json!({"count": "1"}), "invalid_field", "count"),
        ("POST", "claim", json!({"wait_ms": 60_001}), "invalid_field", "wait_ms"),
        ("POST", "claim", json!({"wait_ms": -1}), "invalid_field", "wait_ms"),
        ("POST", "claim", json!({"lease": "99ms"}), "invalid_field", "lease"),
        ("POST", "claim", json!({"lease": "13h"}), "invalid_field", "lease"),
        ("POST", "claim", json!({"lease": "long"}), "invalid_field", "lease"),
        ("POST", "claim", json!({"wait": "1s"}), "unknown_field", "wait"),
        ("POST", "ack", json!({}), "missing_field", "id"),
        ("POST", "ack", json!({"id": id}), "missing_field", "token"),
        ("POST", "ack", json!({"id": "nope", "token": token}), "invalid_field", "id"),
        ("POST", "ack", json!({"id": id, "token": -1}), "invalid_field", "token"),
        ("POST", "ack", json!({"id": id, "token": "x"}), "invalid_field", "token"),
        ("POST", "ack", named(json!({"deliveries": []})), "invalid_field", "deliveries"),
        ("POST", "ack", json!({"deliveries": many}), "invalid_field", "deliveries"),
        ("POST", "ack", named(json!({"delay": "1s"})), "unknown_field", "delay"),
        ("POST", "ack", named(json!({"lease": "1s"})), "unknown_field", "lease"),
        ("POST", "nack", named(json!({"lease": "1s"})), "unknown_field", "lease"),
        ("POST", "nack", named(json!({"delay": "later"})), "invalid_field", "delay"),
        ("POST", "extend", named(json!({"delay": "1s"})), "unknown_field", "delay"),
        ("POST", "extend", named(json!({"lease": "1ms"})), "invalid_field", "lease"),
        ("POST", "extend", named(json!({"lease": "13h"})), "invalid_field", "lease"),
        ("POST", "cancel", json!({}), "missing_field", "tag"),
        ("POST", "cancel", json!({"tag": "t", "by": "1s"}), "unknown_field", "by"),
        ("POST", "cancel", json!({"tag": "t", "state": "waiting"}), "invalid_field", "tag"),
        ("POST", "cancel", json!({"state": "all"}), "invalid_field", "state"),
        ("POST", "cancel", json!({"tag": "t", "cursor": "x"}), "invalid_field", "cursor"),
        ("POST", "cancel", json!({"tag": ""}), "invalid_field", "tag"),
        ("POST", "shift", json!({"tag": "t"}), "missing_field", "by"),
        ("POST", "shift", json!({"tag": "t", "by": "--1s"}), "invalid_field", "by"),
        ("POST", "redrive", json!({"state": "waiting"}), "invalid_field", "state"),
        ("PATCH", "deliveries/{id}", json!({}), "missing_field", "at"),
        ("PATCH", "deliveries/{id}", json!({"at": at(0), "in": "1s"}), "invalid_field", "in"),
        ("PATCH", "deliveries/{id}", json!({"state": "dead"}), "invalid_field", "state"),
        ("PATCH", "deliveries/{id}", json!({"state": "ready", "in": "1s"}), "invalid_field", "state"),
        ("PATCH", "deliveries/{id}", json!({"payload": "x".repeat(256 << 10)}), "invalid_field", "payload"),
        ("PATCH", "deliveries/nope", json!({"in": "1s"}), "invalid_field", "id"),
        ("DELETE", "deliveries/dl_1", Value::Null, "invalid_field", "id"),
        ("GET", "deliveries/dl_uuuuuuuuuuuuuuuu", Value::Null, "invalid_field", "id"),
        ("GET", "deliveries?limit=0", Value::Null, "invalid_field", "limit"),
        ("GET", "deliveries?limit=1001", Value::Null, "invalid_field", "limit"),
        ("GET", "deliveries?limit=x", Value::Null, "invalid_field", "limit"),
        ("GET", "deliveries?cursor=abc", Value::Null, "invalid_field", "cursor"),
        ("GET", "deliveries?cursor=1.2", Value::Null, "invalid_field", "cursor"),
        ("GET", "deliveries?cursor=99999", Value::Null, "invalid_field", "cursor"),
        ("GET", "deliveries?cursor=1.2.3.4", Value::Null, "invalid_field", "cursor"),
        ("GET", "deliveries?state=done", Value::Null, "invalid_field", "state"),
        ("GET", "deliveries?state=dead&from=2026-01-01T00:00:00Z", Value::Null, "invalid_field", "from"),
        ("GET", "deliveries?until=soon", Value::Null, "invalid_field", "until"),
        ("GET", "deliveries?page=2", Value::Null, "unknown_field", "page"),
        ("GET", "stats?minutes=121", Value::Null, "invalid_field", "minutes"),
        ("GET", "stream?credits=0", Value::Null, "invalid_field", "credits"),
        ("GET", "stream?credits=1001", Value::Null, "invalid_field", "credits"),
        ("GET", "stream?lease=1ms", Value::Null, "invalid_field", "lease"),
        ("GET", "stream?queue=x", Value::Null, "unknown_field", "queue"),
    ];
    for (method, path, body, code, field) in rows {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let shown = format!("{method} {path} {}", body.chars().take(80).collect::<String>());
        let path = path.replace("{id}", id.as_str().context("an id")?);
        let reply = team.send(&Ask::new(method, format!("/v1/queues/q/{path}"), body)).await?;
        reply.problem(400, code, Some(field)).context(shown)?;
    }
    // What could be ours and is not.
    let absent = "/v1/queues/q/deliveries/dl_00000000000000zz";
    team.get(absent).await?.problem(404, "not_found", None)?;
    assert_eq!(team.delete(absent).await?.expect(200)?, json!({"outcome": "gone"}));
    let far = json!({"id": "dl_zzzzzzzzzzzzzzzz", "token": 1});
    assert_eq!(team.post("/v1/queues/q/ack", &far).await?.expect(200)?["outcome"], "stale");
    let huge = json!({"id": id, "token": u64::MAX});
    assert_eq!(team.post("/v1/queues/q/ack", &huge).await?.expect(200)?["outcome"], "stale");
    team.get("/v1/queues/q/deliveries?cursor=60000").await?.expect(200)?;
    assert_eq!(state(team).await?, before);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_lines_amid_good_ones_are_told_in_their_place() -> Result<()> {
    let site = Site::start().await?;
    site.admin.queue("q", json!({"order": "total"})).await?;
    let long = format!("{{\"payload\": \"{}\"}}", "x".repeat(300_000));
    let lines =
        ["{\"payload\": 0}", "nonsense", "", "{\"payload\": 1, \"to\": \"\"}", "[]", &long, "  ", "{\"payload\": 2}\r", "{\"payload\": 3}"];
    let answers = site.admin.push_lines("q", &lines.join("\n")).await?;
    let told: Vec<&str> = answers.iter().map(|one| one["problem"]["code"].as_str().or(one["outcome"].as_str()).unwrap_or("")).collect();
    assert_eq!(told, ["added", "invalid_json", "invalid_field", "invalid_json", "invalid_field", "added", "added"]);
    assert_eq!(answers[4]["problem"]["field"], "payload");
    assert_eq!(super::payloads(&site.admin.claim("q", json!({"count": 9})).await?), [0, 2, 3]);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_not_there_is_named_or_made() -> Result<()> {
    let site = Site::start().await?;
    for (method, path) in [("POST", "deliveries"), ("POST", "claim"), ("GET", "stats"), ("GET", "deliveries"), ("GET", "stream")] {
        let body = if method == "POST" { "{}" } else { "" };
        let reply = site.admin.send(&Ask::new(method, format!("/v1/queues/none/{path}"), body)).await?;
        let problem = reply.problem(404, "not_found", Some("queue")).with_context(|| path.to_owned())?;
        ensure!(problem["detail"].as_str().is_some_and(|detail| detail.contains("PUT /v1/queues/none")), "{problem}");
    }
    site.admin.post("/v1/queues/a%20b/deliveries", &json!({})).await?.problem(400, "invalid_field", Some("queue"))?;
    site.server.shutdown().await;
    let open = Served::start(|_| ()).await?;
    let pushed = open.post("/v1/queues/new/deliveries", &json!({"payload": 1})).await?;
    ensure!(pushed.status == 201, "{pushed:?}");
    let queue = open.get("/v1/queues/new").await?.json()?;
    assert_eq!((&queue["mode"], &queue["lease"]), (&json!("shared"), &json!("30s")));
    open.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_does_what_its_scopes_say_in_its_own_space() -> Result<()> {
    let site = Site::start().await?;
    let (red, blue) = (site.admin.space("red").await?, site.admin.space("blue").await?);
    red.queue("q", json!({})).await?;
    let id = red.push("q", json!({"payload": "secret", "key": "k", "tags": ["t"]})).await?["id"].clone();
    let one = red.claim_one("q").await?;
    let path = format!("deliveries/{}", id.as_str().context("an id")?);
    let reads = [("GET", "stats"), ("GET", "deliveries"), ("GET", path.as_str())];
    let pushes = [("POST", "deliveries"), ("POST", "cancel"), ("POST", "shift"), ("POST", "redrive"), ("PATCH", &path), ("DELETE", &path)];
    let claims = [("POST", "claim"), ("POST", "ack"), ("POST", "nack"), ("POST", "extend"), ("GET", "stream")];
    let body = |path: &str| match path {
        "deliveries" | "claim" | "redrive" => json!({}),
        "cancel" => json!({"tag": "none"}),
        "shift" => json!({"tag": "none", "by": "1s"}),
        "ack" | "nack" | "extend" => json!({"id": id, "token": 1}),
        _ => json!({"in": "1s"}),
    };
    for (scope, allowed) in [("queues:read", reads.as_slice()), ("queues:push", &pushes), ("queues:claim", &claims), ("queues:write", &[])]
    {
        let (_, team) = site.admin.key("red", &[scope]).await?;
        for (method, path) in reads.iter().chain(&pushes).chain(&claims) {
            if (*method, *path) == ("GET", "stream") && allowed.contains(&("GET", "stream")) {
                continue;
            }
            let text = if *method == "GET" { String::new() } else { body(path).to_string() };
            let reply = team.send(&Ask::new(method, format!("/v1/queues/q/{path}"), text)).await?;
            if allowed.contains(&(*method, *path)) {
                ensure!(reply.status < 300, "{scope} {method} {path}: {}", reply.text());
            } else {
                reply.problem(403, "forbidden", None).with_context(|| format!("{scope} {method} {path}"))?;
            }
        }
    }
    // A queue of the same name in another space is another one.
    blue.queue("q", json!({})).await?;
    blue.get(&format!("/v1/queues/q/{path}")).await?.problem(404, "not_found", None)?;
    for query in ["", "state=leased", "tag=t", "key=k"] {
        assert_eq!(blue.list("q", query).await?, Vec::<Value>::new());
    }
    assert_eq!(blue.claim("q", json!({"count": 100})).await?, Vec::<Value>::new());
    assert_eq!(blue.settle("q", "ack", &one, json!({})).await?["outcome"], "stale");
    assert_eq!(blue.edit("q", &id, None).await?["outcome"], "gone");
    red.ack("q", &one).await?;
    site.server.shutdown().await;
    Ok(())
}

/// A worker that registers; its incarnation.
async fn register(team: &Caller, worker: &str) -> Result<u64> {
    let registered = team.put(&format!("/v1/queues/q/workers/{worker}"), &json!({})).await?.expect(200)?;
    registered["incarnation"].as_u64().context("an incarnation")
}

/// All that can be seen of the workers of the queue `q`, but for when leases end.
async fn staff(team: &Caller) -> Result<Value> {
    let mut listed = team.get("/v1/queues/q/workers").await?.expect(200)?;
    listed["now"] = Value::Null;
    for worker in listed["items"].as_array_mut().into_iter().flatten() {
        worker["lease_until"] = Value::Null;
    }
    let mut recipient = team.get("/v1/queues/q/recipients/ann").await?.expect(200)?;
    recipient["worker_lease_until"] = Value::Null;
    Ok(json!([listed, recipient]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_about_a_worker_is_named_and_changes_nothing() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.queue("q", json!({"mode": "sticky", "worker_ttl": "5m"})).await?;
    team.queue("shared", json!({})).await?;
    team.push("q", json!({"payload": 1, "to": "ann"})).await?;
    let life = register(team, "w1").await?;
    let one = team.claim("q", json!({"worker": "w1", "incarnation": life, "wait_ms": 10_000})).await?;
    ensure!(one.len() == 1, "{one:?}");
    let before = staff(team).await?;
    let long = "w".repeat(65);
    type Row = (&'static str, &'static str, Value, u16, &'static str, Option<&'static str>);
    let rows: Vec<Row> = vec![
        ("PUT", "q/workers/a%20b", json!({}), 400, "invalid_field", Some("worker")),
        ("PUT", "q/workers/a%2Fb", json!({}), 400, "invalid_field", Some("worker")),
        ("PUT", "q/workers/w%00", json!({}), 400, "invalid_field", Some("worker")),
        ("PUT", "q/workers/w%C3%A4", json!({}), 400, "invalid_field", Some("worker")),
        ("PUT", "q/workers/{long}", json!({}), 400, "invalid_field", Some("worker")),
        ("PUT", "q/workers/%FF", json!({}), 400, "invalid_field", Some("path")),
        ("PUT", "q/workers/w1", json!({"weight": 0}), 400, "invalid_field", Some("weight")),
        ("PUT", "q/workers/w1", json!({"weight": 17}), 400, "invalid_field", Some("weight")),
        ("PUT", "q/workers/w1", json!({"weight": -1}), 400, "invalid_field", Some("weight")),
        ("PUT", "q/workers/w1", json!({"weight": "2"}), 400, "invalid_field", Some("weight")),
        ("PUT", "q/workers/w1", json!({"incarnation": 1}), 400, "unknown_field", Some("incarnation")),
        ("PUT", "q/workers/w1", json!([]), 400, "invalid_json", None),
        ("POST", "q/workers/w1/heartbeat", json!({}), 400, "missing_field", Some("incarnation")),
        ("POST", "q/workers/w1/heartbeat", json!({"incarnation": "1"}), 400, "invalid_field", Some("incarnation")),
        ("POST", "q/workers/w1/heartbeat", json!({"incarnation": -1}), 400, "invalid_field", Some("incarnation")),
        ("POST", "q/workers/w1/heartbeat", json!({"incarnation": 1, "weight": 1}), 400, "unknown_field", Some("weight")),
        ("POST", "q/workers/w1/heartbeat", json!({"incarnation": 1}), 409, "worker_gone", Some("worker")),
        ("POST", "q/workers/w1/heartbeat", json!({"incarnation": u64::MAX}), 409, "worker_gone", Some("worker")),
        ("POST", "q/workers/w9/heartbeat", json!({"incarnation": life}), 409, "worker_gone", Some("worker")),
        ("POST", "q/workers/w1/drain", json!({"incarnation": 1}), 409, "worker_gone", Some("worker")),
        ("POST", "q/workers/w9/drain", json!({}), 409, "worker_gone", Some("worker")),
        ("POST", "q/workers/w1/drain", json!({"wait": true}), 400, "unknown_field", Some("wait")),
        ("DELETE", "q/workers/w1?incarnation=1", Value::Null, 409, "worker_gone", Some("worker")),
        ("DELETE", "q/workers/w1?incarnation=x", Value::Null, 400, "invalid_field", Some("incarnation")),
        ("DELETE", "q/workers/w1?force=1", Value::Null, 400, "unknown_field", Some("force")),
        ("DELETE", "q/workers/w9", Value::Null, 409, "worker_gone", Some("worker")),
        ("PUT", "q/recipients/ann", json!({"worker": "a b"}), 400, "invalid_field", Some("worker")),
        ("PUT", "q/recipients/ann", json!({"worker": 7}), 400, "invalid_field", Some("worker")),
        ("PUT", "q/recipients/ann", json!({"worker": "w1", "for": "1h"}), 400, "unknown_field", Some("for")),
        ("PUT", "q/recipients/{long}{long}{long}{long}", json!({"worker": "w1"}), 400, "invalid_field", Some("to")),
        ("GET", "q/recipients/{long}{long}{long}{long}", Value::Null, 400, "invalid_field", Some("to")),
        ("POST", "q/claim", json!({}), 400, "missing_field", Some("worker")),
        ("POST", "q/claim", json!({"worker": "w1"}), 400, "missing_field", Some("incarnation")),
        ("POST", "q/claim", json!({"worker": "w 1", "incarnation": life}), 400, "invalid_field", Some("worker")),
        ("POST", "q/claim", json!({"worker": "w1", "incarnation": "x"}), 400, "invalid_field", Some("incarnation")),
        ("GET", "q/stream", Value::Null, 400, "missing_field", Some("worker")),
        ("GET", "q/stream?worker=a%20b", Value::Null, 400, "invalid_field", Some("worker")),
        ("POST", "q/deliveries", json!({"payload": 1}), 400, "missing_field", Some("to")),
        // In a shared queue nobody registers.
        ("PUT", "shared/workers/w1", json!({}), 400, "invalid_field", Some("queue")),
        ("POST", "shared/workers/w1/heartbeat", json!({"incarnation": 1}), 400, "invalid_field", Some("queue")),
        ("POST", "shared/workers/w1/drain", json!({}), 400, "invalid_field", Some("queue")),
        ("DELETE", "shared/workers/w1", Value::Null, 400, "invalid_field", Some("queue")),
        ("GET", "shared/workers", Value::Null, 400, "invalid_field", Some("queue")),
        ("PUT", "shared/recipients/ann", json!({"worker": "w1"}), 400, "invalid_field", Some("queue")),
        ("POST", "shared/claim", json!({"worker": "w1", "incarnation": 1}), 400, "invalid_field", Some("worker")),
        ("GET", "shared/stream?worker=w1", Value::Null, 400, "invalid_field", Some("worker")),
        ("PUT", "none/workers/w1", json!({}), 404, "not_found", Some("queue")),
        ("GET", "none/recipients/ann", Value::Null, 404, "not_found", Some("queue")),
    ];
    for (method, path, body, status, code, field) in rows {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let shown = format!("{method} {path} {body}");
        let path = path.replace("{long}", &long);
        let reply = team.send(&Ask::new(method, format!("/v1/queues/{path}"), body)).await?;
        let problem = reply.problem(status, code, field).context(shown)?;
        ensure!(problem["retryable"] == false, "{problem}");
    }
    assert_eq!(staff(team).await?, before);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_those_of_their_space_and_need_the_scope_of_claims() -> Result<()> {
    let site = Site::start().await?;
    let (red, blue) = (site.admin.space("red").await?, site.admin.space("blue").await?);
    for team in [&red, &blue] {
        team.queue("q", json!({"mode": "sticky", "worker_ttl": "5m"})).await?;
    }
    let life = register(&red, "w1").await?;
    red.push("q", json!({"payload": 1, "to": "ann"})).await?;
    let calls = [
        ("GET", "workers", Value::Null),
        ("GET", "recipients/ann", Value::Null),
        ("PUT", "recipients/ann", json!({"worker": null})),
        ("POST", "workers/w1/heartbeat", json!({"incarnation": life})),
        ("POST", "claim", json!({"worker": "w1", "incarnation": life})),
        ("POST", "workers/w1/drain", json!({})),
        ("DELETE", "workers/w1", Value::Null),
        ("PUT", "workers/w1", json!({})),
    ];
    for scope in ["queues:read", "queues:push", "queues:write", "limit:check", "queues:claim"] {
        let (_, team) = site.admin.key("red", &[scope]).await?;
        for (method, path, body) in &calls {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let reply = team.send(&Ask::new(method, format!("/v1/queues/q/{path}"), body)).await?;
            if scope == "queues:claim" {
                ensure!(reply.status < 300, "{scope} {method} {path}: {}", reply.text());
            } else {
                reply.problem(403, "forbidden", None).with_context(|| format!("{scope} {method} {path}"))?;
            }
        }
    }
    // The same names in another space are others.
    let listed = blue.get("/v1/queues/q/workers").await?.expect(200)?;
    assert_eq!((&listed["items"], &listed["parked"]), (&json!([]), &json!(0)));
    assert_eq!(blue.get("/v1/queues/q/recipients/ann").await?.expect(200)?["state"], "idle");
    let life = register(&red, "w1").await?;
    let body = json!({"incarnation": life});
    blue.post("/v1/queues/q/workers/w1/heartbeat", &body).await?.problem(409, "worker_gone", Some("worker"))?;
    blue.delete("/v1/queues/q/workers/w1").await?.problem(409, "worker_gone", Some("worker"))?;
    red.post("/v1/queues/q/workers/w1/heartbeat", &body).await?.expect(200)?;
    site.server.shutdown().await;
    Ok(())
}
