//! The todo example answers the commands it was asked to answer, on every database and store it may be run with.

use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use hermod_tests::server::{MariaDb, Redis};
use hermod_tests::unique;
use serde_json::json;

use crate::example::{Answer, Example, curls};

const README: &str = include_str!("../../examples/todo/README.md");
const SOURCE: &str = include_str!("../../examples/todo/src/main.rs");
const USER: &str = "9725cc63-4e92-4893-a6b2-216617f3a5dd";

/// The commands, as they were printed by who asked for the example.
const ASKED: &str = r#"
```shell
curl --location --request POST 'localhost:8080/users/9725cc63-4e92-4893-a6b2-216617f3a5dd/tasks' \
--header 'Content-Type: application/json' \
--data-raw '{
    "content": "fetch milk"
}'
```
```shell
curl --location --request PUT 'localhost:8080/users/9725cc63-4e92-4893-a6b2-216617f3a5dd/rules' \
--header 'Content-Type: application/json' \
--data-raw '{
    "action": "tasks/create",
    "unit": "day",
    "requests_per_unit": 10
}'
```
```shell
curl --location --request PUT 'localhost:8080/users/9725cc63-4e92-4893-a6b2-216617f3a5dd/rules' \
--header 'Content-Type: application/json' \
--data-raw '{
    "action": "tasks/create",
    "unit": "minute",
    "requests_per_unit": 5
}'
```
"#;

impl Answer {
    /// A task was made.
    fn created(&self) -> Result<()> {
        ensure!(self.status == 201 && self.body["content"] == "fetch milk" && self.body["user_id"] == USER, "{self:?}");
        Ok(())
    }

    /// The limit is reached; in so many seconds it may not be.
    fn refused(&self) -> Result<u64> {
        ensure!(self.status == 429 && self.body["status"] == 429, "{self:?}");
        ensure!(self.header("content-type") == Some("application/problem+json"), "{self:?}");
        Ok(self.header("retry-after").context("when to come again")?.parse()?)
    }
}

/// How many whole spans of so many seconds passed since the epoch.
fn turn(seconds: u64) -> Result<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs() / seconds)
}

fn answers_as_asked(args: &[&str]) -> Result<()> {
    let [post, ten_a_day, five_a_minute] = curls(ASKED)[..] else { bail!("three commands were asked for") };
    let todo = Example::start("todo", args)?;

    let day = turn(86_400)?;
    let mut made = 0;
    let refused = loop {
        let answer = todo.run(post)?;
        if answer.status == 429 {
            break answer;
        }
        answer.created()?;
        made += 1;
        ensure!(made <= 10, "five a day are ten at most, at midnight");
    };
    let after = refused.refused()?;
    ensure!((1..=86_400).contains(&after), "{refused:?}");
    ensure!(made == 5 || turn(86_400)? > day, "{made} were made, and the rule says five a day");

    let put = todo.run(ten_a_day)?;
    assert_eq!(put.body, json!({"user_id": USER, "action": "tasks/create", "unit": "day", "requests_per_unit": 10}));
    let minute = turn(60)?;
    todo.run(post)?.created().context("ten a day are more than five")?;

    let put = todo.run(five_a_minute)?;
    assert_eq!(put.body, json!({"user_id": USER, "action": "tasks/create", "unit": "minute", "requests_per_unit": 5}));
    let answer = todo.run(post)?;
    // What was used this day was used this minute, unless that is over.
    if turn(60)? == minute {
        let after = answer.refused()?;
        ensure!((1..=60).contains(&after), "{answer:?}");
    } else if answer.status != 429 {
        answer.created()?;
    }
    Ok(())
}

#[test]
fn answers_with_sqlite_and_embedded() -> Result<()> {
    // As it is run by who only wants to look.
    answers_as_asked(&[])
}

#[test]
fn answers_with_sqlite_and_redis() -> Result<()> {
    // Its own, as the example has but one space.
    let redis = Redis::start()?;
    answers_as_asked(&["--store", &redis.url()])
}

#[test]
fn answers_with_mariadb_and_embedded() -> Result<()> {
    let database = MariaDb::shared()?.database(&unique("todo"))?;
    answers_as_asked(&["--database", &database])
}

#[test]
fn answers_with_mariadb_and_redis() -> Result<()> {
    let (database, redis) = (MariaDb::shared()?.database(&unique("todo"))?, Redis::start()?);
    answers_as_asked(&["--database", &database, "--store", &redis.url()])
}

#[test]
fn the_readme_shows_what_was_asked_for() -> Result<()> {
    let (shown, asked) = (curls(README), curls(ASKED));
    for method in ["POST", "PUT"] {
        ensure!(shown.iter().any(|command| command.contains(method)), "the README shows no {method}");
    }
    for command in shown {
        ensure!(asked.contains(&command), "nobody asked for\n{command}");
    }
    Ok(())
}

#[test]
fn the_example_is_short() {
    let lines = SOURCE.lines().count();
    assert!(lines < 150, "{lines} lines are more than an example should have");
}
