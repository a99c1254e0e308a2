//! The todo example answers the commands it was asked to answer, on every database and store it may be run with.
//!
//! The example is a binary that cargo does not build for a test of another package: `cargo xtask test` does, else
//! `cargo build -p hermod-example-todo`.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use hermod_tests::server::{MariaDb, Process, Program, Redis};
use hermod_tests::unique;
use serde_json::{Value, json};

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

/// The commands of a text that call the example.
fn curls(text: &str) -> Vec<&str> {
    let blocks = text.split("```shell\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::trim).filter(|block| block.starts_with("curl ")).collect()
}

/// A running example, killed when dropped.
struct Todo {
    address: String,
    // The process stands before the folder, as it must end first.
    process: Process,
    _folder: tempfile::TempDir,
}

impl Todo {
    fn start(args: &[&str]) -> Result<Todo> {
        let folder = tempfile::tempdir()?;
        let program = Program::at(binary()?, folder.path()).args(["--listen", "127.0.0.1:0"]).args(args);
        let mut process = program.start()?;
        let mut address = None;
        process.until_ready(Duration::from_secs(60), |process| {
            let log = process.log();
            let told = log.split_once("todo: http://").and_then(|(_, rest)| rest.split_once('\n'));
            address = told.map(|(address, _)| address.trim().to_owned());
            address.is_some()
        })?;
        Ok(Todo { address: address.context("it told where it listens")?, process, _folder: folder })
    }

    /// Runs a command as it is printed, but for the address.
    fn run(&self, command: &str) -> Result<Answer> {
        let command = command.replace("localhost:8080", &self.address);
        let done = Command::new("sh").args(["-c", &format!("{command} --silent --show-error --include")]).output()?;
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        let told = || format!("{command}\n{printed}{}\n{}", String::from_utf8_lossy(&done.stderr), self.process.log_tail());
        ensure!(done.status.success(), told());
        let (head, body) = printed.split_once("\r\n\r\n").with_context(told)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).with_context(told)?;
        Ok(Answer { status, head: head.to_lowercase(), body: serde_json::from_str(body).with_context(told)? })
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Value,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

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

fn binary() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let found = this.ancestors().skip(1).take(2).map(|folder| folder.join("todo")).find(|path| path.is_file());
    found.context("the example is not built; run `cargo build -p hermod-example-todo`")
}

/// How many whole spans of so many seconds passed since the epoch.
fn turn(seconds: u64) -> Result<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs() / seconds)
}

fn answers_as_asked(args: &[&str]) -> Result<()> {
    let [post, ten_a_day, five_a_minute] = curls(ASKED)[..] else { bail!("three commands were asked for") };
    let todo = Todo::start(args)?;

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
