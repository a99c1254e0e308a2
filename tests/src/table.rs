//! Tables a non-programmer can read, run on every lane.
//!
//! ```text
//! test retry_at_is_exact
//! rule burst 3 per 30s
//! at 0s    check bot-7 cost 3   -> allowed left 0
//! at 9s    check bot-7          -> denied retry 10s
//! ```
//! - `test NAME` begins a test with nothing in it.
//! - `rule NAME LIMIT per SPAN [ALGORITHM] [approximate] [burst N] [queue N] [for SUBJECT] [on ACTION]
//!   [durable] [shadow|block]` adds a rule, or edits the one of the same name, subject and action. The
//!   algorithm is `token_bucket`, the action `act` if none is given.
//! - `at TIME check|peek|force|refund SUBJECT [on ACTION] [cost N] [key K] -> ANSWER`, where times count
//!   from the start of the test, and go backwards if the table says so. ANSWER is
//!   `allowed [left N] [NAME left N]... [wait SPAN]`, `denied retry TIME [by NAME]`, `never [by NAME]`,
//!   `replayed [left N]` or `conflict`.

use anyhow::{Context, Result, bail, ensure};
use hermod_core::limit::{Act, Algorithm, Mode, OnExpiry, Pattern, Rule, Scope};
use hermod_core::{Name, RuleId};

use crate::lane::{Ask, Lane, Seen, parse_span};

/// One line that does something.
#[derive(Debug)]
struct Row {
    line: usize,
    text: String,
}

/// A named test of a table.
#[derive(Debug)]
pub struct Test {
    /// Its name: the story it tells.
    pub name: String,
    rows: Vec<Row>,
}

/// Reads a table.
pub fn parse(text: &str) -> Result<Vec<Test>> {
    let mut tests: Vec<Test> = Vec::new();
    for (i, raw) in text.lines().enumerate() {
        let line = raw.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        match line.strip_prefix("test ") {
            Some(name) => tests.push(Test { name: name.trim().to_owned(), rows: Vec::new() }),
            None => {
                let test = tests.last_mut().with_context(|| format!("line {}: a row before the first test", i + 1))?;
                test.rows.push(Row { line: i + 1, text: line.to_owned() });
            }
        }
    }
    ensure!(tests.iter().all(|test| test.rows.iter().any(|row| row.text.contains("->"))), "a test asserts nothing");
    Ok(tests)
}

impl Test {
    /// Runs it on one lane.
    pub async fn run(&self, lane: &mut Lane) -> Result<()> {
        for row in &self.rows {
            self.step(lane, &row.text).await.with_context(|| format!("{}, line {}: {}", self.name, row.line, row.text))?;
        }
        Ok(())
    }

    async fn step(&self, lane: &mut Lane, text: &str) -> Result<()> {
        let (ask, expected) = text.split_once("->").unwrap_or((text, ""));
        let mut words = Words(ask.split_whitespace().collect());
        match words.take()? {
            "rule" => lane.put_rule(self.rule(words)?).await,
            "at" => {
                lane.set_time(parse_span(words.take()?)?);
                let act = match words.take()? {
                    "check" => Act::Check,
                    "peek" => Act::Peek,
                    "force" => Act::Force,
                    "refund" => Act::Refund,
                    other => bail!("{other:?} cannot be asked"),
                };
                let seen = lane.check(&self.ask(act, words)?).await?;
                compare(&seen, expected)
            }
            other => bail!("{other:?} is no row"),
        }
    }

    /// Tests share a lane; their names keep them apart.
    fn own(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    fn rule(&self, mut words: Words<'_>) -> Result<Rule> {
        let name = words.take()?.to_owned();
        let limit = words.take()?.parse()?;
        ensure!(words.take()? == "per", "a rule reads: rule NAME LIMIT per SPAN");
        let per = words.take()?.parse()?;
        let subject = words.option("for").map(|s| self.own(s));
        let on = words.option("on").unwrap_or("act");
        let action = self.own(on);
        let burst = words.option("burst").map(str::parse).transpose()?;
        let queue = words.option("queue").map(str::parse).transpose()?;
        let (durable, approximate) = (words.flag("durable"), words.flag("approximate"));
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| words.flag(algorithm.as_str()));
        let mode = match (words.flag("shadow"), words.flag("block")) {
            (true, _) => Mode::Shadow,
            (_, true) => Mode::Block,
            _ => Mode::Enforce,
        };
        words.end()?;
        let whom = subject.as_deref().unwrap_or("all");
        let id = format!("{}.{name}.{whom}.{on}", self.name).replace(['/', ':', '*'], "-");
        Ok(Rule {
            id: RuleId::new(id.get(id.len().saturating_sub(64)..).unwrap_or(&id))?,
            name: Name::new(name)?,
            action: Pattern::action(action)?,
            subject: subject.map(Pattern::subject).transpose()?,
            when: None,
            limit,
            per,
            algorithm: algorithm.unwrap_or(Algorithm::TokenBucket),
            burst,
            queue,
            approximate,
            scope: Scope::Subject,
            mode,
            on_store_error: None,
            on_expiry: OnExpiry::default(),
            durable,
            version: 0,
        })
    }

    fn ask(&self, act: Act, mut words: Words<'_>) -> Result<Ask> {
        let subject = self.own(words.take()?);
        let action = self.own(words.option("on").unwrap_or("act"));
        let cost = words.option("cost").map_or(Ok(1), str::parse)?;
        let key = words.option("key").map(|key| self.own(key));
        words.end()?;
        Ok(Ask { subject, action, act, cost, key })
    }
}

fn compare(seen: &Seen, expected: &str) -> Result<()> {
    let mut words = Words(expected.split_whitespace().collect());
    let verdict = words.take()?;
    if verdict == "replayed" {
        ensure!(seen.is_replayed, "expected a replay, got {seen:?}");
    } else {
        ensure!(!seen.is_replayed && seen.verdict == verdict, "expected {verdict}, got {seen:?}");
    }
    if let Some(retry) = words.option("retry") {
        let retry_ms = parse_span(retry)?.get().div_ceil(1000);
        ensure!(seen.retry_ms == Some(retry_ms), "expected retry {retry}, got {seen:?}");
    }
    if let Some(wait) = words.option("wait") {
        let wait_ms = parse_span(wait)?.get().div_ceil(1000);
        ensure!(seen.delay_ms == wait_ms, "expected to wait {wait}, got {seen:?}");
    }
    if let Some(name) = words.option("by") {
        ensure!(seen.bound_by.as_deref() == Some(name), "expected to be refused by {name}, got {seen:?}");
    }
    while let Some(position) = words.0.iter().position(|word| *word == "left") {
        let left: u64 = words.0.get(position + 1).context("left needs a number")?.parse()?;
        words.0.drain(position..position + 2);
        let name = position.checked_sub(1).map(|at| words.0.remove(at));
        let found = match name {
            Some(name) => seen.left.get(name).copied(),
            None => seen.left.values().next().copied().filter(|_| seen.left.len() == 1),
        };
        ensure!(found == Some(left), "expected {} left {left}, got {seen:?}", name.unwrap_or("the one rule"));
    }
    words.end()
}

/// The words of a row, taken one by one.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn take(&mut self) -> Result<&'a str> {
        ensure!(!self.0.is_empty(), "the row ends too early");
        Ok(self.0.remove(0))
    }

    /// The word after `name`, both taken out.
    fn option(&mut self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|word| *word == name)?;
        if at + 1 >= self.0.len() {
            return None;
        }
        self.0.remove(at);
        Some(self.0.remove(at))
    }

    fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|word| *word == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    fn end(&self) -> Result<()> {
        ensure!(self.0.is_empty(), "not understood: {}", self.0.join(" "));
        Ok(())
    }
}
