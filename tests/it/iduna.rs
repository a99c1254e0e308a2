//! The iduna example answers what it was asked to answer, on every database and store it may be run with.

use anyhow::{Context, Result, bail, ensure};
use hermod_tests::server::{Postgres, Redis};
use hermod_tests::unique;
use serde_json::{Value, json};

use crate::example::{Example, curls};
use crate::queue::with;

const README: &str = include_str!("../../examples/iduna/README.md");
const SOURCE: &str = include_str!("../../examples/iduna/src/main.rs");

fn answers_as_asked(args: &[&str]) -> Result<()> {
    let [post, get] = curls(README)[..] else { bail!("two commands are printed") };
    let iduna = Example::start("iduna", args)?;
    let nobody = iduna.run(get)?;
    ensure!(nobody.status == 404 && nobody.body["reason"] == "no_messages", "{nobody:?}");

    let made = iduna.run(post)?;
    ensure!(made.status == 201, "{made:?}");
    let message = json!({"id": made.body["id"], "author": "elsa", "target": "olaf", "text": "Drink some water.", "active": true,
        "rule": {"tokens": 2, "seconds": 3600}});
    assert_eq!(made.body, message);
    for _ in 0..2 {
        let next = iduna.run(get)?;
        assert_eq!((next.status, next.body), (200, message.clone()));
    }
    let refused = iduna.run(get)?;
    ensure!(refused.status == 429 && refused.body["reason"] == "message_cap", "{refused:?}");
    ensure!(refused.body["retry_at"].as_str().is_some(), "{refused:?}");
    let other = iduna.run("curl 'localhost:8080/messages/elsa'")?;
    ensure!(other.status == 404, "{other:?}");

    // What was never sent goes first, and one that is not active does not go at all.
    let write = |fields: Value| {
        let body = with(json!({"author": "anna", "target": "olaf", "text": "Come out.", "active": true, "rule": null}), &fields);
        iduna.run(&format!("curl --request POST 'localhost:8080/messages' --header 'Content-Type: application/json' --data-raw '{body}'"))
    };
    ensure!(write(json!({"active": false, "text": "Not yet."}))?.status == 201);
    ensure!(write(json!({}))?.status == 201);
    for _ in 0..3 {
        let next = iduna.run(get)?;
        ensure!(next.status == 200 && next.body["text"] == "Come out.", "a message without a rule has no bound: {next:?}");
    }
    for (fields, field) in [(json!({"rule": {"tokens": 0, "seconds": 1}}), "tokens"), (json!({"rule": {"tokens": 1, "seconds": 0}}), "per")]
    {
        let refused = write(fields)?;
        let detail = refused.body["detail"].as_str().context("it says what is wrong")?.to_owned();
        ensure!(refused.status == 400 && detail.contains(field), "{refused:?}");
    }
    Ok(())
}

#[test]
fn it_answers_on_sqlite_and_the_embedded_engine() -> Result<()> {
    answers_as_asked(&[])
}

#[test]
fn it_answers_on_postgres_and_redis() -> Result<()> {
    let (database, redis) = (Postgres::shared()?.database(&unique("iduna"))?, Redis::start()?);
    answers_as_asked(&["--database", &database, "--store", &redis.url()])
}

#[test]
fn it_is_short() {
    let lines = SOURCE.lines().count();
    assert!(lines < 150, "{lines} lines");
}
