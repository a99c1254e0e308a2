//! A key's secret is shown once, to whom it is for, and is nowhere else.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use hermod_tests::server::Hermod;
use serde_json::{Value, json};

use super::site::{Ask, Caller, Site, rule};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_in_one_answer_only() -> Result<()> {
    let site = Site::start().await?;
    let ask = Ask::json("POST", "/v1/keys", &json!({"name": "mail bot", "scopes": ["limit:check", "admin", "admin"]})).once("k");
    let made = site.admin.send(&ask).await?.expect(201)?;
    let secret = made["secret"].as_str().context("the first answer shows it")?;
    ensure!(secret.starts_with(&format!("hk_{}_", made["id"].as_str().unwrap_or("?"))) && secret.len() > 50, "{made}");
    assert_eq!(made["scopes"], json!(["admin", "limit:check"]));
    site.admin.with_key(Some(secret)).get("/v1/keys").await?.expect(200)?;

    let replayed = site.admin.send(&ask).await?.expect(201)?;
    let mut expected = made.clone();
    expected["secret"] = Value::Null;
    assert_eq!(replayed, expected, "a replay is the same answer without the secret");
    let listed = site.admin.get("/v1/keys").await?.expect(200)?;
    let of_it: Vec<&Value> = listed["items"].as_array().context("a list")?.iter().filter(|key| key["id"] == made["id"]).collect();
    let fields: Vec<&String> = of_it.first().and_then(|key| key.as_object()).context("it is listed")?.keys().collect();
    assert_eq!(fields, ["created_at", "id", "name", "scopes", "space"]);
    ensure!(!listed.to_string().contains(secret));
    site.server.shutdown().await;
    Ok(())
}

/// Every file below `folder` that holds `text`.
fn files_with(folder: &Path, text: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_with(&path, text)?);
        } else if std::fs::read(&path)?.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_reaches_the_log_or_the_disk() -> Result<()> {
    let mut hermod = Hermod::serve(["--log", "trace"])?;
    let first = hermod.admin_key()?;
    let admin = Caller::new(hermod.url()?, Some(&first));
    let made = admin.post("/v1/keys", &json!({"name": "n", "scopes": ["admin"]})).await?.expect(201)?;
    let second = made["secret"].as_str().context("a secret")?.to_owned();
    let caller = admin.with_key(Some(&second));
    caller.post("/v1/rules", &rule("act", 1, "1s")).await?.expect(201)?;
    caller.check("bot", "act", 1).await?;
    caller.get("/v1/keys").await?.expect(200)?;
    let wrong = format!("{second}x");
    caller.with_key(Some(&wrong)).get("/v1/keys").await?.problem(401, "unauthorized", None)?;
    ensure!(hermod.terminate()?.success());
    let log = hermod.lines();
    ensure!(log.iter().any(|line| line.contains("answered")), "the log is as talkative as was asked for");
    ensure!(!log.iter().any(|line| line.contains(&second)), "the secret of a key that was made is in the log");
    let told: Vec<&String> = log.iter().filter(|line| line.contains(&first)).collect();
    ensure!(told.len() == 1 && told[0].starts_with("admin key: "), "the first key is printed once: {told:?}");
    let data = hermod.folder().join("data");
    for secret in [&first, &second] {
        let found = files_with(&data, secret)?;
        ensure!(found.is_empty(), "{found:?}");
        let hidden = secret.rsplit('_').next().context("the secret part")?;
        ensure!(files_with(&data, hidden)?.is_empty(), "not even the part that is secret");
    }
    ensure!(!files_with(&data, "bot")?.is_empty(), "what is stored can be found this way");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_start_prints_the_admin_key_and_no_later_one_does() -> Result<()> {
    let mut hermod = Hermod::serve::<&str>([])?;
    let key = hermod.admin_key()?;
    let admin = Caller::new(hermod.url()?, Some(&key));
    admin.with_key(None).get("/v1/rules").await?.problem(401, "unauthorized", None)?;
    admin.post("/v1/rules", &rule("act", 1, "1s")).await?.expect(201)?;
    admin.post("/v1/spaces", &json!({"space": "team"})).await?.expect(201)?;
    for ends_well in [true, false] {
        if ends_well {
            ensure!(hermod.terminate()?.success());
        } else {
            hermod.kill9()?;
        }
        hermod.restart()?;
        let printed = hermod.lines();
        ensure!(!printed.iter().any(|line| line.contains("hk_") || line.contains("admin key")), "{printed:?}");
        let rules = admin.get("/v1/rules").await?.expect(200)?;
        ensure!(rules["items"][0]["action"] == "act", "the key and the rule are still there: {rules}");
    }
    Ok(())
}
