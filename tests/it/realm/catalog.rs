//! Realms over HTTP: what is saved comes back, what is wrong is named with its whole path, what is settled stays.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::http::site::{Ask, Reply, Site};

const AJO: &str = "/v1/realms/ajo";

/// A small economy: money with a board, a thing, a wage, and a gamble.
fn garlic() -> Value {
    json!({
        "description": "Garlic.",
        "assets": {"ajo": {"kind": "currency", "board": true}, "bone": {"max": 206, "emoji": "🦴"}},
        "timers": {"daily": {"every": "24h"}},
        "plays": {
            "daily": {"do": [{"claim": {"timer": "daily"}}, {"move": {"from": "@mint", "to": "by", "asset": "ajo", "qty": 32}}]},
            "gamble": {
                "args": {"amount": "amount"},
                "roll": {"luck": [1, 4]},
                "need": [{"if": "amount > 0", "else": "err"}],
                "do": [{"if": {"when": "luck == 1",
                    "then": [{"move": {"from": "@mint", "to": "by", "asset": "ajo", "qty": "amount"}}],
                    "else": [{"move": {"from": "by", "to": "@burn", "asset": "ajo", "qty": "amount"}}]}}],
            },
        },
    })
}

/// The economy with something else at this place; gone if it is null.
fn with(path: &str, value: Value) -> Value {
    let mut definition = garlic();
    let (whole, name) = path.rsplit_once('/').unwrap_or_default();
    let fields = definition.pointer_mut(whole).and_then(Value::as_object_mut).expect("there is such a place");
    if value.is_null() {
        fields.remove(name)
    } else {
        fields.insert(name.to_owned(), value)
    };
    definition
}

/// The fields of a problem's faults.
fn faults(reply: &Reply) -> Result<Vec<String>> {
    let problem: Value = serde_json::from_slice(&reply.body)?;
    let faults = problem["faults"].as_array().with_context(|| problem.to_string())?;
    ensure!(faults.iter().all(|fault| fault["detail"].as_str().is_some_and(|detail| !detail.is_empty())), "{problem}");
    Ok(faults.iter().filter_map(|fault| fault["field"].as_str().map(str::to_owned)).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_realm_is_saved_shown_and_listed() -> Result<()> {
    let site = Site::start().await?;
    site.admin.get(AJO).await?.problem(404, "realm_not_found", None)?;
    let made = site.admin.put(AJO, &garlic()).await?.expect(201)?;
    assert_eq!((&made["realm"], &made["version"], &made["created"]), (&json!("ajo"), &json!(1), &json!(true)));
    assert_eq!(made["changed"], json!(["assets.ajo", "assets.bone", "description", "plays.daily", "plays.gamble", "timers.daily"]));
    // It comes back in one form, whatever it was written in.
    assert_eq!(made["definition"]["assets"]["bone"], json!({"kind": "item", "max": 206, "emoji": "🦴"}));
    assert_eq!(made["definition"]["plays"]["gamble"]["args"]["amount"], json!({"type": "amount"}));
    let read = site.admin.get(AJO).await?.expect(200)?;
    let expected = json!({"realm": "ajo", "version": 1, "hash": made["hash"], "definition": made["definition"]});
    assert_eq!(read, expected);
    ensure!(!read.to_string().contains("seed"), "{read}");

    // The same content is the same version, as it was written and as it was shown.
    for same in [&garlic(), &read["definition"]] {
        let again = site.admin.put(AJO, same).await?.expect(200)?;
        let expected = json!({"realm": "ajo", "version": 1, "hash": made["hash"], "created": false, "changed": [],
            "definition": made["definition"]});
        assert_eq!(again, expected);
    }
    let changed = site.admin.put(AJO, &with("/plays/daily", Value::Null)).await?.expect(200)?;
    assert_eq!((&changed["version"], &changed["changed"]), (&json!(2), &json!(["plays.daily"])));
    ensure!(changed["hash"] != made["hash"], "{changed}");

    site.admin.put("/v1/realms/zoo", &json!({"assets": {"cage": {}}})).await?.expect(201)?;
    let first = site.admin.get("/v1/realms?limit=1").await?.expect(200)?;
    let row = json!({"realm": "ajo", "version": 2, "hash": changed["hash"], "description": "Garlic.", "assets": 2, "plays": 1});
    assert_eq!(first, json!({"items": [row], "next": "ajo"}));
    let rest = site.admin.get("/v1/realms?limit=1&cursor=ajo").await?.expect(200)?;
    assert_eq!((&rest["items"][0]["realm"], &rest["next"]), (&json!("zoo"), &Value::Null));
    site.admin.delete(AJO).await?.problem(405, "method_not_allowed", None)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_named_with_its_whole_path_and_nothing_is_saved() -> Result<()> {
    let site = Site::start().await?;
    let rows: Vec<(Value, &str, &str)> = vec![
        (with("/seed", json!("00")), "unknown_field", "seed"),
        (with("/realm", json!("ajo")), "unknown_field", "realm"),
        (with("/assets/bone/mx", json!(1)), "unknown_field", "assets.bone.mx"),
        (with("/assets/bone/max", json!("many")), "invalid_field", "assets.bone.max"),
        (with("/assets/bone/kind", json!("gold")), "invalid_field", "assets.bone.kind"),
        (with("/assets/a b", json!({})), "invalid_field", "assets.a b"),
        (with("/timezone", json!("Mars/Base")), "invalid_field", "timezone"),
        (with("/plays/gamble/need", json!([{"if": "true"}])), "missing_field", "plays.gamble.need[0].else"),
        (with("/plays/gamble/roll/luck", json!([1])), "invalid_field", "plays.gamble.roll.luck"),
        (with("/plays/gamble/args/amount", json!("sum")), "invalid_field", "plays.gamble.args.amount"),
        (with("/plays/gamble/do/0/if/then/0/move/qty", json!(1.5)), "invalid_field", "plays.gamble.do[0].if.then[0].move.qty"),
        (with("/plays/gamble/do/0/if/else/0/move/form", json!("x")), "unknown_field", "plays.gamble.do[0].if.else[0].move.form"),
        (json!({"description": "x".repeat(262_144)}), "invalid_field", "definition"),
    ];
    for (body, code, field) in rows {
        let told = || body.to_string().chars().take(300).collect::<String>();
        for path in [AJO, "/v1/realms/ajo?dry_run=true"] {
            site.admin.put(path, &body).await?.problem(400, code, Some(field)).with_context(told)?;
        }
    }
    for (body, code) in [("", "invalid_json"), ("[]", "invalid_json"), ("{\"assets\": {", "invalid_json")] {
        site.admin.send(&Ask::new("PUT", AJO, body)).await?.problem(400, code, None)?;
    }
    for path in ["/v1/realms/a%20b", "/v1/realms/%C3%A4", &format!("/v1/realms/{}", "a".repeat(65))] {
        site.admin.put(path, &garlic()).await?.problem(400, "invalid_field", Some("realm"))?;
        site.admin.get(path).await?.problem(400, "invalid_field", Some("realm"))?;
    }
    site.admin.put("/v1/realms/ajo?dry_run=perhaps", &garlic()).await?.problem(400, "invalid_field", Some("dry_run"))?;
    site.admin.put("/v1/realms/ajo?dryrun=true", &garlic()).await?.problem(400, "unknown_field", Some("dryrun"))?;
    assert_eq!(site.admin.get("/v1/realms").await?.expect(200)?["items"], json!([]));
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_asset_goes_and_none_changes_its_kind_or_its_board() -> Result<()> {
    let site = Site::start().await?;
    let made = site.admin.put(AJO, &garlic()).await?.expect(201)?;
    let rows = [
        (with("/assets/bone", Value::Null), vec!["assets.bone"]),
        (with("/assets/bone/board", json!(true)), vec!["assets.bone.board"]),
        (with("/assets/ajo/board", Value::Null), vec!["assets.ajo.board"]),
        (with("/assets/ajo/kind", json!("item")), vec!["assets.ajo.kind"]),
        (with("/assets/ajo", json!({})), vec!["assets.ajo.board", "assets.ajo.kind"]),
        (json!({"assets": {"gear": {}}}), vec!["assets.ajo", "assets.bone"]),
        // With what is wrong by itself.
        (
            with("/plays/gamble/need", json!([{"if": "amount >", "else": "err"}, {"timer": "weekly", "else": "ttl"}])),
            vec!["plays.gamble.need[0].if", "plays.gamble.need[1].timer"],
        ),
        (json!({"assets": {"ajo": {"kind": "currency", "board": true}}, "timers": {"t": {}}}), vec!["timers.t", "assets.bone"]),
    ];
    for (body, fields) in rows {
        for path in [AJO, "/v1/realms/ajo?dry_run=true"] {
            let reply = site.admin.put(path, &body).await?;
            let problem = reply.problem(400, "invalid_field", Some(fields[0]))?;
            // All that is wrong is told at once.
            ensure!(faults(&reply)? == fields, "{problem}");
        }
    }
    assert_eq!(site.admin.get(AJO).await?.expect(200)?["hash"], made["hash"]);
    site.admin.put(AJO, &with("/assets/bone/max", json!(7))).await?.expect(200)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_tells_what_would_change_and_changes_nothing() -> Result<()> {
    let site = Site::start().await?;
    let dry = "/v1/realms/ajo?dry_run=true";
    let would = site.admin.put(dry, &garlic()).await?.expect(200)?;
    assert_eq!((&would["created"], &would["version"]), (&json!(true), &json!(1)));
    site.admin.get(AJO).await?.problem(404, "realm_not_found", None)?;
    // It uses up no key either.
    site.admin.send(&Ask::json("PUT", dry, &garlic()).once("k")).await?.expect(200)?;
    let made = site.admin.send(&Ask::json("PUT", AJO, &garlic()).once("k")).await?.expect(201)?;
    assert_eq!(made, would);
    let would = site.admin.put(dry, &with("/assets/gear", json!({"max": 20}))).await?.expect(200)?;
    assert_eq!((&would["version"], &would["changed"]), (&json!(2), &json!(["assets.gear"])));
    let read = site.admin.get(AJO).await?.expect(200)?;
    assert_eq!((&read["version"], &read["definition"]), (&json!(1), &made["definition"]));
    site.admin.put("/v1/realms/ajo?dry_run=false", &with("/assets/gear", json!({"max": 20}))).await?.expect(200)?;
    assert_eq!(site.admin.get(AJO).await?.expect(200)?["hash"], would["hash"]);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_space_sees_nothing_and_scopes_are_kept_apart() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put(AJO, &garlic()).await?.expect(201)?;
    let other = site.admin.space("other").await?;
    assert_eq!(other.get("/v1/realms").await?.expect(200)?["items"], json!([]));
    other.get(AJO).await?.problem(404, "realm_not_found", None)?;
    // What is settled in one space is nothing to the other.
    other.put(AJO, &json!({"assets": {"cage": {}}})).await?.expect(201)?;
    assert_eq!(site.admin.get(AJO).await?.expect(200)?["definition"]["description"], "Garlic.");
    let (_, reader) = site.admin.key("default", &["realms:read"]).await?;
    let (_, writer) = site.admin.key("default", &["realms:write"]).await?;
    let (_, player) = site.admin.key("default", &["realms:play"]).await?;
    reader.get(AJO).await?.expect(200)?;
    for path in [AJO, "/v1/realms/ajo?dry_run=true"] {
        reader.put(path, &garlic()).await?.problem(403, "forbidden", None)?;
        player.put(path, &garlic()).await?.problem(403, "forbidden", None)?;
        writer.put(path, &garlic()).await?.expect(200)?;
    }
    for caller in [writer, player] {
        caller.get(AJO).await?.problem(403, "forbidden", None)?;
        caller.get("/v1/realms").await?.problem(403, "forbidden", None)?;
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_is_one_write_and_one_answer() -> Result<()> {
    let site = Site::start().await?;
    let more = with("/assets/gear", json!({}));
    let rows = [("made", garlic(), 201), ("same", garlic(), 200), ("changed", more.clone(), 200)];
    for (name, body, status) in &rows {
        let ask = Ask::json("PUT", AJO, body).once(name);
        let first = site.admin.send(&ask).await?;
        ensure!(first.status == *status, "{name}: {}", first.text());
        let again = site.admin.send(&ask).await?;
        assert_eq!((again.status, again.text()), (first.status, first.text()), "{name}");
        let other = Ask::json("PUT", AJO, &with("/description", json!("Other."))).once(name);
        site.admin.send(&other).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key")).context(*name)?;
    }
    // Also now that the realm is another one, and a put without the key would be refused.
    for (name, body, _) in &rows {
        site.admin.send(&Ask::json("PUT", AJO, body).once(name)).await?;
    }
    let read = site.admin.get(AJO).await?.expect(200)?;
    assert_eq!((&read["version"], &read["definition"]["assets"]["gear"]), (&json!(2), &json!({"kind": "item"})));
    site.server.shutdown().await;
    Ok(())
}
