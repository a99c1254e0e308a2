//! Who may ask, and for what.

use anyhow::{Context, Result, ensure};
use hermod_server::{Config, Mode, Server};
use hermod_tests::server::Postgres;
use hermod_tests::unique;
use serde_json::{Value, json};

use super::site::{Ask, Caller, SOON, Site, config, rule};

/// Every request that needs a key, and the scope it needs.
fn routes() -> Vec<(Ask, Option<&'static str>)> {
    let (check, lease) = (json!({"subject": "s", "action": "a"}), json!({"subject": "s", "lease": "l"}));
    vec![
        (Ask::json("POST", "/v1/limit/check", &check), Some("limit:check")),
        (Ask::json("POST", "/v1/limit/batch", &json!({"checks": [check]})), Some("limit:check")),
        (Ask::json("POST", "/v1/limit/refund", &check), Some("limit:check")),
        (Ask::json("POST", "/v1/limit/reset", &check), Some("rules:write")),
        (Ask::json("POST", "/v1/limit/acquire", &check), Some("limit:check")),
        (Ask::json("POST", "/v1/limit/renew", &lease), Some("limit:check")),
        (Ask::json("POST", "/v1/limit/release", &lease), Some("limit:check")),
        (Ask::new("GET", "/v1/limit/gate/a/s", ""), Some("limit:check")),
        (Ask::new("GET", "/v1/limit/refused", ""), Some("rules:read")),
        (Ask::new("GET", "/v1/rules", ""), Some("rules:read")),
        (Ask::new("GET", "/v1/rules/one", ""), Some("rules:read")),
        (Ask::json("POST", "/v1/rules", &rule("posted", 1, "1s")), Some("rules:write")),
        (Ask::json("PUT", "/v1/rules/put", &rule("put", 1, "1s")), Some("rules:write")),
        (Ask::new("DELETE", "/v1/rules/two", ""), Some("rules:write")),
        (Ask::new("GET", "/v1/queues", ""), Some("queues:read")),
        (Ask::new("GET", "/v1/queues/one", ""), Some("queues:read")),
        (Ask::json("PUT", "/v1/queues/put", &json!({})), Some("queues:write")),
        (Ask::new("DELETE", "/v1/queues/two", ""), Some("queues:write")),
        (Ask::new("GET", "/v1/queues/one/schedules", ""), Some("queues:read")),
        (Ask::new("GET", "/v1/queues/one/schedules/s", ""), Some("queues:read")),
        (Ask::json("PUT", "/v1/queues/one/schedules/put", &json!({"cron": "@daily"})), Some("queues:write")),
        (Ask::new("DELETE", "/v1/queues/one/schedules/s", ""), Some("queues:write")),
        (Ask::new("GET", "/v1/events", ""), Some("events:read")),
        (Ask::new("GET", "/v1/decks", ""), Some("decks:read")),
        (Ask::new("GET", "/v1/decks/one", ""), Some("decks:read")),
        (Ask::json("PUT", "/v1/decks/put", &json!({})), Some("decks:write")),
        (Ask::new("DELETE", "/v1/decks/two", ""), Some("decks:write")),
        (Ask::new("GET", "/v1/decks/one/messages", ""), Some("decks:read")),
        (Ask::new("GET", "/v1/decks/one/messages/m", ""), Some("decks:read")),
        (Ask::json("POST", "/v1/decks/one/messages", &json!({"body": 1})), Some("decks:write")),
        (Ask::json("PUT", "/v1/decks/one/messages/put", &json!({"body": 1})), Some("decks:write")),
        (Ask::new("DELETE", "/v1/decks/one/messages/m", ""), Some("decks:write")),
        (Ask::new("GET", "/v1/realms", ""), Some("realms:read")),
        (Ask::new("GET", "/v1/realms/one", ""), Some("realms:read")),
        (Ask::json("PUT", "/v1/realms/put", &json!({"assets": {"a": {}}})), Some("realms:write")),
        (Ask::json("PUT", "/v1/realms/put?dry_run=true", &json!({"assets": {"a": {}}})), Some("realms:write")),
        (Ask::new("GET", "/v1/keys", ""), Some("admin")),
        (Ask::json("POST", "/v1/keys", &json!({"name": "n", "scopes": ["limit:check"]})), Some("admin")),
        (Ask::new("DELETE", "/v1/keys/none", ""), Some("admin")),
        (Ask::new("GET", "/v1/spaces", ""), Some("spaces")),
        (Ask::json("POST", "/v1/spaces", &json!({"space": "new"})), Some("spaces")),
        (Ask::json("POST", "/v1/clock", &json!({"advance": "1us"})), Some("admin")),
        (Ask::new("GET", "/v1/clock", ""), None),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_brings_no_good_key_is_told_to_bring_one() -> Result<()> {
    let site = Site::start().await?;
    site.admin.fill().await?;
    let before = site.admin.state().await?;
    let good = site.server.admin_key().context("a new catalog has a first key")?;
    let (id, _) = good.trim_start_matches("hk_").split_once('_').context("a key has an id and a secret")?;
    let (changed, cut) = (format!("{}{}", &good[..good.len() - 1], if good.ends_with('x') { 'y' } else { 'x' }), &good[..good.len() - 1]);
    let others = [
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        good.to_owned(),
        format!("Basic {good}"),
        format!("Bearer hk_{id}"),
        format!("Bearer hk_{id}_"),
        format!("Bearer {cut}"),
        format!("Bearer {changed}"),
        format!("Bearer {good}x"),
        format!("Bearer {} {good}", good),
        format!("Bearer hk_unknown0000_{}", "a".repeat(43)),
        format!("Bearer {}", "k".repeat(20_000)),
        "Bearer schlüssel".to_owned(),
        String::new(),
    ];
    let nobody = site.admin.with_key(None);
    for (ask, _) in routes() {
        let told = |header: &str| format!("{} {} with {:.60}", ask.method, ask.path, header);
        let bare = nobody.send(&ask).await?;
        bare.problem(401, "unauthorized", None).with_context(|| told("nothing"))?;
        for header in &others {
            let reply = nobody.send(&ask.clone().header("authorization", header)).await?;
            let problem = reply.problem(401, "unauthorized", None).with_context(|| told(header))?;
            assert_eq!(reply.header("www-authenticate"), "Bearer", "{}", told(header));
            ensure!(!problem.to_string().contains(good) && !problem.to_string().contains(&changed), "no key is said back: {problem}");
        }
    }
    // The scheme's name is spelled as one likes.
    let spelled = nobody.send(&Ask::new("GET", "/v1/rules", "").header("authorization", format!("bearer {good}"))).await?;
    spelled.expect(200)?;
    for open in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs/"] {
        assert_eq!(nobody.get(open).await?.status, 200, "{open} needs no key");
    }
    assert_eq!(site.admin.state().await?, before);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_does_what_its_scopes_say_and_nothing_else() -> Result<()> {
    let site = Site::start().await?;
    let queues = ["queues:read", "queues:write", "queues:push", "queues:claim"];
    let decks = ["decks:read", "decks:write", "decks:pick", "events:read"];
    let realms = ["realms:read", "realms:write", "realms:play"];
    for scope in ["admin", "spaces", "rules:read", "rules:write", "limit:check"].into_iter().chain(queues).chain(decks).chain(realms) {
        for id in ["one", "two"] {
            site.admin.put(&format!("/v1/rules/{id}"), &rule(id, 1, "1s")).await?;
            site.admin.put(&format!("/v1/queues/{id}"), &json!({})).await?;
            site.admin.put(&format!("/v1/queues/{id}/schedules/s"), &json!({"cron": "@daily"})).await?;
            site.admin.put(&format!("/v1/decks/{id}"), &json!({})).await?;
            site.admin.put(&format!("/v1/decks/{id}/messages/m"), &json!({"body": 1})).await?;
            site.admin.put(&format!("/v1/realms/{id}"), &json!({"assets": {"a": {}}})).await?;
        }
        let (_, caller) = site.admin.key("default", &[scope]).await?;
        for (ask, needed) in routes() {
            let may = needed.is_none_or(|needed| needed == scope || (scope == "admin" && needed != "spaces"));
            let reply = caller.send(&ask).await?;
            let told = || format!("{scope}: {} {} gives {} {}", ask.method, ask.path, reply.status, reply.text());
            if may {
                ensure!(matches!(reply.status, 200 | 201 | 204) || ask.path == "/v1/keys/none" || reply.status == 409, "{}", told());
            } else {
                let problem = reply.problem(403, "forbidden", None).with_context(told)?;
                let lacks = format!("lacks the scope {}", needed.unwrap_or_default());
                ensure!(problem["detail"].as_str().is_some_and(|detail| detail.contains(&lacks)), "{problem}");
            }
        }
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_key_may_not_do_is_not_done() -> Result<()> {
    let site = Site::start().await?;
    site.admin.fill().await?;
    site.admin.put("/v1/rules/two", &rule("two", 1, "1s")).await?.expect(201)?;
    let (_, powerless) = site.admin.key("default", &["rules:read"]).await?;
    let before = site.admin.state().await?;
    for (ask, needed) in routes() {
        if !matches!(needed, None | Some("rules:read")) {
            powerless.send(&ask).await?.problem(403, "forbidden", None)?;
        }
    }
    assert_eq!(site.admin.state().await?, before);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_makes_a_key_that_may_more_than_itself() -> Result<()> {
    let site = Site::start().await?;
    let (_, admin) = site.admin.key("default", &["admin"]).await?;
    let make = |scopes: Value| json!({"name": "n", "scopes": scopes});
    admin.post("/v1/keys", &make(json!(["spaces"]))).await?.problem(403, "forbidden", None)?;
    admin.post("/v1/keys", &make(json!(["admin", "spaces"]))).await?.problem(403, "forbidden", None)?;
    admin.post("/v1/keys", &make(json!(["admin", "rules:read"]))).await?.expect(201)?;
    // Who rules over spaces belongs to the first one.
    site.admin.space("team").await?;
    let elsewhere = json!({"name": "n", "scopes": ["spaces"], "space": "team"});
    site.admin.post("/v1/keys", &elsewhere).await?.problem(400, "invalid_field", Some("scopes"))?;
    let (_, of_all) = site.admin.key("default", &["spaces"]).await?;
    of_all.get("/v1/rules").await?.problem(403, "forbidden", None)?;
    of_all.post("/v1/keys", &make(json!(["admin"]))).await?.problem(403, "forbidden", None)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_key_opens_nothing_any_more() -> Result<()> {
    let site = Site::start().await?;
    let (id, caller) = site.admin.key("default", &["admin"]).await?;
    caller.get("/v1/rules").await?.expect(200)?;
    site.admin.delete(&format!("/v1/keys/{id}")).await?.expect(204)?;
    caller.get("/v1/rules").await?.problem(401, "unauthorized", None)?;
    let keys = site.admin.get("/v1/keys").await?.expect(200)?;
    ensure!(!keys.to_string().contains(&id), "{keys}");
    site.admin.delete(&format!("/v1/keys/{id}")).await?.problem(404, "not_found", None)?;
    // A key may delete itself, and is gone then.
    let (id, caller) = site.admin.key("default", &["admin"]).await?;
    caller.delete(&format!("/v1/keys/{id}")).await?.expect(204)?;
    caller.get("/v1/rules").await?.problem(401, "unauthorized", None)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_one_catalog_know_each_others_keys() -> Result<()> {
    let catalog = tokio::task::block_in_place(|| Postgres::shared()?.database(&unique("http_keys")))?;
    let one = Site::start_with(|config| Config { catalog: catalog.clone(), ..config }).await?;
    let folder = tempfile::tempdir()?;
    let two = Server::start(Config { catalog: catalog.clone(), ..config(&folder) }, Mode::default()).await?;
    assert_eq!(two.admin_key(), None, "there is one first key, and it was shown");
    let (id, here) = one.admin.key("default", &["rules:read"]).await?;
    let there = Caller::new(&two.url(), here.key_text());
    let ask = Ask::new("GET", "/v1/rules", "");
    there.until(SOON, "the key to be known", &ask, |reply| reply.status == 200)?;
    one.admin.delete(&format!("/v1/keys/{id}")).await?.expect(204)?;
    let began = std::time::Instant::now();
    there.until(SOON, "the key to be refused", &ask, |reply| reply.status == 401)?;
    ensure!(began.elapsed().as_millis() < 1_500, "a second is promised, it took {:?}", began.elapsed());
    // What PostgreSQL cannot even be asked for is not there.
    one.admin.delete("/v1/keys/%00").await?.problem(404, "not_found", None)?;
    two.shutdown().await;
    one.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_over_all_spaces_cannot_be_lost_or_taken_away() -> Result<()> {
    let site = Site::start().await?;
    let listed = site.admin.get("/v1/keys").await?.expect(200)?;
    let first = format!("/v1/keys/{}", listed["items"][0]["id"].as_str().context("the first key is listed")?);
    site.admin.delete(&first).await?.problem(409, "last_key", None)?;
    let (_, lesser) = site.admin.key("default", &["admin"]).await?;
    lesser.delete(&first).await?.problem(403, "forbidden", None)?;
    // One that makes no keys is no successor, and can go.
    let (id, _) = site.admin.key("default", &["spaces"]).await?;
    site.admin.delete(&first).await?.problem(409, "last_key", None)?;
    site.admin.delete(&format!("/v1/keys/{id}")).await?.expect(204)?;
    let (_, successor) = site.admin.key("default", &["admin", "spaces"]).await?;
    successor.delete(&first).await?.expect(204)?;
    site.admin.get("/v1/keys").await?.problem(401, "unauthorized", None)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_last_two_keys_over_all_spaces_one_stays_whoever_deletes_them() -> Result<()> {
    let site = Site::start().await?;
    let listed = site.admin.get("/v1/keys").await?.expect(200)?;
    let mut last = (listed["items"][0]["id"].as_str().context("the first key is listed")?.to_owned(), site.admin.clone());
    for _ in 0..20 {
        let other = last.1.key("default", &["admin", "spaces"]).await?;
        let paths = [&last, &other].map(|(id, _)| format!("/v1/keys/{id}"));
        let (one, two) = tokio::join!(last.1.delete(&paths[1]), other.1.delete(&paths[0]));
        // Who is late is told that it is the last one, or is not known any more.
        let (one, two) = (one?.status, two?.status);
        last = match (one, two) {
            (204, 401 | 409) => last,
            (401 | 409, 204) => other,
            _ => anyhow::bail!("{one} and {two}"),
        };
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_sites_cannot_use_an_open_server() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(config(&folder), Mode { open: true, ..Mode::default() }).await?;
    let caller = Caller::new(&server.url(), None);
    let ask = || Ask::json("POST", "/v1/limit/check", &json!({"subject": "s", "action": "a"}));
    caller.send(&ask()).await?.expect(200)?;
    caller.send(&ask().header("origin", server.url())).await?.expect(200)?;
    for origin in ["https://evil.example", "null", "http://localhost:1"] {
        caller.send(&ask().header("origin", origin)).await?.problem(403, "forbidden", None)?;
    }
    server.shutdown().await;
    Ok(())
}
