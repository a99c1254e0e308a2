//! Decks and messages over HTTP: what is saved comes back, what is wrong is named, and nobody sees those of others.

use anyhow::{Context, Result, ensure};
use hermod_server::Config;
use hermod_tests::server::MariaDb;
use hermod_tests::{unique, until};
use serde_json::{Value, json};

use crate::http::site::{Ask, SOON, Site};

const MESSAGES: &str = "/v1/decks/tips/messages";

fn ids(page: &Value, name: &str) -> Vec<String> {
    let items = page["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item[name].as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deck_is_saved_with_its_defaults_and_can_be_sent_back_as_it_is() -> Result<()> {
    let site = Site::start().await?;
    let made = site.admin.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
    let expected = json!({"deck": "tips", "strategy": "fresh_lru", "subject_cap": {"tokens": 1, "per": "10m", "kind": "bucket"},
        "timezone": "UTC", "history_max": 512, "version": 1});
    assert_eq!(made, expected);
    let full = json!({"deck": "full", "strategy": "sequence", "subject_cap": {"tokens": 3, "per": "day", "kind": "calendar"},
        "quiet_hours": {"from": "22:00", "to": "08:00"}, "timezone": "Europe/Berlin", "history_max": 16, "version": 1});
    assert_eq!(site.admin.put("/v1/decks/full", &full).await?.expect(201)?, full);
    // No bound is null, and stays so.
    let free = site.admin.put("/v1/decks/free", &json!({"subject_cap": null})).await?.expect(201)?;
    assert_eq!(free.get("subject_cap"), Some(&Value::Null));
    for deck in ["tips", "full", "free"] {
        let path = format!("/v1/decks/{deck}");
        let read = site.admin.get(&path).await?.expect(200)?;
        let mut again = site.admin.put(&path, &read).await?.expect(200)?;
        assert_eq!(again["version"], json!(2));
        again["version"] = read["version"].clone();
        assert_eq!(again, read);
    }
    let first = site.admin.get("/v1/decks?limit=2").await?.expect(200)?;
    assert_eq!((ids(&first, "deck"), &first["next"]), (vec!["free".to_owned(), "full".to_owned()], &json!("full")));
    let rest = site.admin.get("/v1/decks?limit=2&cursor=full").await?.expect(200)?;
    assert_eq!((ids(&rest, "deck"), &rest["next"]), (vec!["tips".to_owned()], &Value::Null));
    site.admin.delete("/v1/decks/tips").await?.expect(204)?;
    site.admin.delete("/v1/decks/tips").await?.problem(404, "deck_not_found", None)?;
    site.admin.get("/v1/decks/tips").await?.problem(404, "deck_not_found", None)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deck_that_takes_longer_to_delete_than_a_request_may_is_deleted_in_the_end() -> Result<()> {
    let name = unique("decks");
    let catalog = tokio::task::block_in_place(|| MariaDb::shared()?.database(&name))?;
    let site = Site::start_with(|config| Config { catalog, request_timeout: "1s".to_owned(), ..config }).await?;
    site.admin.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
    site.admin.post(MESSAGES, &json!({"id": "a", "body": 1})).await?.expect(201)?;
    // Somebody else has the messages for a while.
    let holds = format!("BEGIN; SELECT id FROM {name}.messages FOR UPDATE; SELECT SLEEP(5); COMMIT");
    let held = std::thread::spawn(move || MariaDb::shared()?.run(&holds));
    let locked = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'";
    tokio::task::block_in_place(|| {
        until(SOON, "the messages to be held", || MariaDb::shared().and_then(|db| db.run(locked)).is_ok_and(|count| count == "1"))
    })?;
    site.admin.delete("/v1/decks/tips").await?.problem(504, "timeout", None)?;
    site.admin.get("/v1/decks/tips").await?.expect(200)?;
    site.admin.until(SOON, "the deck to be gone", &Ask::new("GET", "/v1/decks/tips", ""), |reply| reply.status == 404)?;
    held.join().expect("it has no reason to panic")?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_saved_listed_replaced_and_deleted() -> Result<()> {
    let site = Site::start().await?;
    for ask in [
        Ask::new("GET", MESSAGES, ""),
        Ask::json("POST", MESSAGES, &json!({"body": 1})),
        Ask::new("GET", format!("{MESSAGES}/a"), ""),
        Ask::json("PUT", format!("{MESSAGES}/a"), &json!({"body": 1})),
        Ask::new("DELETE", format!("{MESSAGES}/a"), ""),
    ] {
        site.admin.send(&ask).await?.problem(404, "deck_not_found", None).with_context(|| ask.path.clone())?;
    }
    site.admin.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
    let made = site.admin.post(MESSAGES, &json!({"body": null})).await?.expect(201)?;
    let id = made["id"].as_str().context("it has an id")?.to_owned();
    ensure!(id.starts_with("ms_"), "{id}");
    let expected = json!({"id": id, "body": null, "to": "everyone", "weight": 1, "priority": 0, "active": true, "cap": null, "tags": [],
        "critical": false, "ordinal": 0, "version": 1});
    assert_eq!(made, expected);
    let full = json!({"id": "full", "body": {"text": "Grüße", "n": [1.50, true]}, "to": {"tags": ["vip"]}, "when": "attributes.plan == 'pro'",
        "weight": 9, "priority": -3, "active": false, "starts_at": "2026-12-01T00:00:00.000Z", "ends_at": "2026-12-24T18:00:00.000Z",
        "cap": {"tokens": 2, "per": "1h", "kind": "rolling"}, "tags": ["news"], "critical": true, "ordinal": 1, "version": 1});
    assert_eq!(site.admin.put(&format!("{MESSAGES}/full"), &full).await?.expect(201)?, full);
    let list = json!([{"id": "one", "body": 1, "to": {"subjects": ["ann", "Grüße"]}}, {"id": "two", "body": "2", "to": "everyone"}]);
    let saved = site.admin.post(MESSAGES, &list).await?.expect(201)?;
    assert_eq!((ids(&saved, "id"), &saved["items"][0]["to"]), (vec!["one".to_owned(), "two".to_owned()], &list[0]["to"]));
    for id in ["full", "one", &id] {
        let path = format!("{MESSAGES}/{id}");
        let read = site.admin.get(&path).await?.expect(200)?;
        let mut again = site.admin.put(&path, &read).await?.expect(200)?;
        assert_eq!(again["version"], json!(2));
        again["version"] = read["version"].clone();
        assert_eq!(again, read);
    }
    // All or none: one is there already.
    let known = json!([{"id": "three", "body": 3}, {"id": "two", "body": 2}]);
    site.admin.post(MESSAGES, &known).await?.problem(409, "already_exists", None)?;
    let twice = json!([{"id": "three", "body": 3}, {"id": "three", "body": 3}]);
    site.admin.post(MESSAGES, &twice).await?.problem(409, "already_exists", None)?;
    site.admin.get(&format!("{MESSAGES}/three")).await?.problem(404, "message_not_found", None)?;
    let first = site.admin.get(&format!("{MESSAGES}?limit=3")).await?.expect(200)?;
    assert_eq!((ids(&first, "id"), &first["next"]), (vec!["full".to_owned(), id.clone(), "one".to_owned()], &json!("one")));
    let rest = site.admin.get(&format!("{MESSAGES}?limit=3&cursor=one")).await?.expect(200)?;
    assert_eq!((ids(&rest, "id"), &rest["next"]), (vec!["two".to_owned()], &Value::Null));
    site.admin.delete(&format!("{MESSAGES}/two")).await?.expect(204)?;
    site.admin.delete(&format!("{MESSAGES}/two")).await?.problem(404, "message_not_found", None)?;
    // With the deck go its messages.
    site.admin.delete("/v1/decks/tips").await?.expect(204)?;
    site.admin.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
    assert_eq!(site.admin.get(MESSAGES).await?.expect(200)?["items"], json!([]));
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_deck_is_named_and_nothing_is_saved() -> Result<()> {
    let site = Site::start().await?;
    let cap = |fields: Value| json!({"subject_cap": fields});
    let quiet = |from: Value, to: Value| json!({"quiet_hours": {"from": from, "to": to}});
    let rows: Vec<(Value, &str, &str)> = vec![
        (json!({"deck": "other"}), "invalid_field", "deck"),
        (json!({"strategy": "best"}), "invalid_field", "strategy"),
        (json!({"strategy": 1}), "invalid_field", "strategy"),
        (cap(json!({"tokens": 0, "per": "1h"})), "invalid_field", "subject_cap.tokens"),
        (cap(json!({"tokens": -1, "per": "1h"})), "invalid_field", "subject_cap.tokens"),
        (cap(json!({"tokens": 1_000_001, "per": "1h"})), "invalid_field", "subject_cap.tokens"),
        (cap(json!({"tokens": 1, "per": "soon"})), "invalid_field", "subject_cap.per"),
        (cap(json!({"tokens": 1, "per": "10m", "kind": "calendar"})), "invalid_field", "subject_cap.per"),
        (cap(json!({"tokens": 1, "per": "1h", "kind": "gcra"})), "invalid_field", "subject_cap.kind"),
        (cap(json!({"tokens": 1})), "missing_field", "per"),
        (cap(json!({"tokens": 1, "per": "1h", "burst": 2})), "unknown_field", "burst"),
        (cap(json!(1)), "invalid_field", "subject_cap"),
        (quiet(json!("22"), json!("08:00")), "invalid_field", "quiet_hours.from"),
        (quiet(json!("22:00"), json!("24:00")), "invalid_field", "quiet_hours.to"),
        (quiet(json!("22:00"), json!("22:00")), "invalid_field", "quiet_hours.to"),
        (quiet(json!(22), json!("08:00")), "invalid_field", "quiet_hours.from"),
        (json!({"quiet_hours": {"from": "22:00"}}), "missing_field", "to"),
        (json!({"timezone": "+02:00"}), "invalid_field", "timezone"),
        (json!({"timezone": "Nowhere/Here"}), "invalid_field", "timezone"),
        (json!({"history_max": 15}), "invalid_field", "history_max"),
        (json!({"history_max": 4097}), "invalid_field", "history_max"),
        (json!({"history_max": "512"}), "invalid_field", "history_max"),
        (json!({"epoch": 1}), "unknown_field", "epoch"),
        (json!({"stratgy": "weighted"}), "unknown_field", "stratgy"),
    ];
    for (body, code, field) in rows {
        site.admin.put("/v1/decks/tips", &body).await?.problem(400, code, Some(field)).with_context(|| body.to_string())?;
    }
    for path in ["/v1/decks/a%20b", "/v1/decks/%C3%A4", &format!("/v1/decks/{}", "a".repeat(65))] {
        site.admin.put(path, &json!({})).await?.problem(400, "invalid_field", Some("deck"))?;
        site.admin.get(path).await?.problem(400, "invalid_field", Some("deck"))?;
        site.admin.get(&format!("{path}/messages")).await?.problem(400, "invalid_field", Some("deck"))?;
    }
    assert_eq!(site.admin.get("/v1/decks").await?.expect(200)?["items"], json!([]));
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_message_is_named_and_nothing_is_saved() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
    let with = |name: &str, value: Value| {
        let mut body = json!({"body": 1});
        body[name] = value;
        body
    };
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let rows: Vec<(Value, &str, &str)> = vec![
        (json!({}), "missing_field", "body"),
        (with("id", json!("other")), "invalid_field", "id"),
        (with("body", json!("x".repeat(65_536))), "invalid_field", "body"),
        (with("to", json!("all")), "invalid_field", "to"),
        (with("to", json!(7)), "invalid_field", "to"),
        (with("to", json!({})), "invalid_field", "to"),
        (with("to", json!({"subjects": ["a"], "tags": ["b"]})), "invalid_field", "to"),
        (with("to", json!({"subjects": []})), "invalid_field", "to.subjects"),
        (with("to", json!({"subjects": [""]})), "invalid_field", "to.subjects"),
        (with("to", json!({"subjects": vec!["a"; 1_001]})), "invalid_field", "to.subjects"),
        (with("to", json!({"tags": []})), "invalid_field", "to.tags"),
        (with("to", json!({"tags": ["a\nb"]})), "invalid_field", "to.tags"),
        (with("when", json!("1 +")), "invalid_field", "when"),
        (with("weight", json!(0)), "invalid_field", "weight"),
        (with("weight", json!(1_000_001)), "invalid_field", "weight"),
        (with("weight", json!(-1)), "invalid_field", "weight"),
        (with("priority", json!("high")), "invalid_field", "priority"),
        (with("active", json!(1)), "invalid_field", "active"),
        (with("starts_at", json!("soon")), "invalid_field", "starts_at"),
        (with("ends_at", json!(1)), "invalid_field", "ends_at"),
        (json!({"body": 1, "starts_at": "2026-01-02T00:00:00Z", "ends_at": "2026-01-01T00:00:00Z"}), "invalid_field", "ends_at"),
        (with("cap", json!({"tokens": 0, "per": "1h"})), "invalid_field", "cap.tokens"),
        (with("cap", json!({"tokens": 1, "per": "day@UTC", "kind": "rolling"})), "invalid_field", "cap.per"),
        (with("cap", json!({"tokens": "1", "per": "1h"})), "invalid_field", "cap.tokens"),
        (with("tags", json!([""])), "invalid_field", "tags"),
        (with("tags", json!(vec!["t"; 33])), "invalid_field", "tags"),
    ];
    for (body, code, field) in rows {
        let told = || body.to_string().chars().take(200).collect::<String>();
        site.admin.put(&format!("{MESSAGES}/m"), &body).await?.problem(400, code, Some(field)).with_context(told)?;
        if field != "id" {
            site.admin.post(MESSAGES, &body).await?.problem(400, code, Some(field)).with_context(told)?;
            let list = json!([{"body": 1}, body]);
            site.admin.post(MESSAGES, &list).await?.problem(400, code, Some(&format!("[1].{field}"))).with_context(told)?;
        }
    }
    site.admin.post(MESSAGES, &with("body", deep)).await?.problem(400, "invalid_field", Some("body"))?;
    site.admin.post(MESSAGES, &json!([])).await?.problem(400, "invalid_field", Some("messages"))?;
    site.admin.post(MESSAGES, &json!(vec![json!({"body": 1}); 1_001])).await?.problem(413, "body_too_large", None)?;
    site.admin.put(&format!("{MESSAGES}/a%20b"), &json!({"body": 1})).await?.problem(400, "invalid_field", Some("id"))?;
    site.admin.get(&format!("{MESSAGES}?cursor=%20")).await?.problem(400, "invalid_field", Some("cursor"))?;
    assert_eq!(site.admin.get(MESSAGES).await?.expect(200)?["items"], json!([]));
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_space_sees_nothing_and_scopes_are_kept_apart() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
    site.admin.put(&format!("{MESSAGES}/m"), &json!({"body": 1})).await?.expect(201)?;
    let other = site.admin.space("other").await?;
    assert_eq!(other.get("/v1/decks").await?.expect(200)?["items"], json!([]));
    for ask in [
        Ask::new("GET", "/v1/decks/tips", ""),
        Ask::new("GET", MESSAGES, ""),
        Ask::new("GET", format!("{MESSAGES}/m"), ""),
        Ask::json("PUT", format!("{MESSAGES}/m"), &json!({"body": 2})),
        Ask::new("DELETE", format!("{MESSAGES}/m"), ""),
        Ask::new("DELETE", "/v1/decks/tips", ""),
    ] {
        other.send(&ask).await?.problem(404, "deck_not_found", None).with_context(|| ask.path.clone())?;
    }
    other.put("/v1/decks/tips", &json!({"strategy": "weighted"})).await?.expect(201)?;
    assert_eq!(site.admin.get("/v1/decks/tips").await?.expect(200)?["strategy"], "fresh_lru");
    let (_, reader) = site.admin.key("default", &["decks:read"]).await?;
    let (_, writer) = site.admin.key("default", &["decks:write"]).await?;
    assert_eq!(reader.get(&format!("{MESSAGES}/m")).await?.expect(200)?["body"], 1);
    reader.post(MESSAGES, &json!({"body": 2})).await?.problem(403, "forbidden", None)?;
    writer.get("/v1/decks").await?.problem(403, "forbidden", None)?;
    writer.post(MESSAGES, &json!({"body": 2})).await?.expect(201)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_is_one_write_and_one_answer() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put("/v1/decks/tips", &json!({})).await?.expect(201)?;
    site.admin.put("/v1/decks/old", &json!({})).await?.expect(201)?;
    site.admin.put(&format!("{MESSAGES}/old"), &json!({"body": 1})).await?.expect(201)?;
    let rows = [
        ("deck", Ask::json("PUT", "/v1/decks/new", &json!({})), Ask::json("PUT", "/v1/decks/new", &json!({"history_max": 16}))),
        ("gone", Ask::new("DELETE", "/v1/decks/old", ""), Ask::new("DELETE", "/v1/decks/tips", "")),
        // What the server makes up is the same the second time.
        ("one", Ask::json("POST", MESSAGES, &json!({"body": 1})), Ask::json("POST", MESSAGES, &json!({"body": 2}))),
        ("list", Ask::json("POST", MESSAGES, &json!([{"body": 1}, {"body": 2}])), Ask::json("POST", MESSAGES, &json!([{"body": 1}]))),
        (
            "put",
            Ask::json("PUT", format!("{MESSAGES}/p"), &json!({"body": 1})),
            Ask::json("PUT", format!("{MESSAGES}/q"), &json!({"body": 1})),
        ),
        ("delete", Ask::new("DELETE", format!("{MESSAGES}/old"), ""), Ask::new("DELETE", format!("{MESSAGES}/p"), "")),
    ];
    for (name, ask, other) in rows {
        let first = site.admin.send(&ask.clone().once(name)).await?;
        ensure!(matches!(first.status, 201 | 204), "{name}: {}", first.text());
        let state = (site.admin.get("/v1/decks").await?.expect(200)?, site.admin.get(MESSAGES).await?.expect(200)?);
        let again = site.admin.send(&ask.clone().once(name)).await?;
        assert_eq!((again.status, again.text()), (first.status, first.text()), "{name}");
        site.admin.send(&other.clone().once(name)).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key")).context(name)?;
        assert_eq!((site.admin.get("/v1/decks").await?.expect(200)?, site.admin.get(MESSAGES).await?.expect(200)?), state, "{name}");
    }
    site.server.shutdown().await;
    Ok(())
}
