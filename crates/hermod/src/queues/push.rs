//! `hermod queues push`: one delivery, or one for each line of a file.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::Args;
use hermod_client::{BatchProblem, Client, IfExists, NewDelivery, PushOutcome, Pushed};
use serde::Serialize;
use serde_json::Value;

use crate::input::{self, time};
use crate::noun::WriteArgs;
use crate::output::{Output, or_dash, table};

pub(super) const HELP: &str = "\
A file has a delivery on each line, as the API takes it: {\"payload\": {\"n\": 1}, \"in\": \"90s\", \"to\": \"ann\"}. Lines
are pushed in order; what is wrong with one is told with its number, and the others are pushed.

Exit codes: 0 pushed (or there already), 1 some lines were refused, 2 error.

Examples:
  hermod queues push mail '{\"say\": \"hello\"}' --in 90s --to ann
  hermod queues push mail '\"good morning\"' --at 2030-01-31T09:00:00+01:00 --delivery-key greeting --if-exists replace
  hermod queues push mail --file deliveries.ndjson
  jq -c '.[]' deliveries.json | hermod queues push mail --file -";

/// So many lines are sent together.
const LINES_MAX: usize = 500;

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The queue's name.
    queue: String,
    /// What it carries, as JSON.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    payload: Option<String>,
    /// When it is due: 2030-01-31T09:00:00Z. At once if neither this nor --in is there.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["within", "file"])]
    at: Option<SystemTime>,
    /// How long until it is due: 90s.
    #[arg(long = "in", value_name = "DURATION", value_parser = humantime::parse_duration, conflicts_with = "file")]
    within: Option<Duration>,
    /// Its recipient: those of one recipient are handed out in order, one at a time.
    #[arg(long, value_name = "RECIPIENT", conflicts_with = "file")]
    to: Option<String>,
    /// What it is known by: of one key one is pushed.
    #[arg(long = "delivery-key", value_name = "KEY", conflicts_with = "file")]
    known_by: Option<String>,
    /// What becomes of one of that key that waits: keep (the default), replace or debounce.
    #[arg(long, value_name = "WHAT", requires = "known_by")]
    if_exists: Option<String>,
    /// What it can be found by; give it several times or with commas.
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',', conflicts_with = "file")]
    tags: Vec<String>,
    /// A delivery per line; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

/// What a delivery carries.
pub(super) fn json(payload: &str) -> anyhow::Result<Value> {
    serde_json::from_str(payload).context("the payload is not JSON; a text needs quotes of its own: '\"hello\"'")
}

impl PushArgs {
    fn delivery(&self, payload: &str) -> anyhow::Result<NewDelivery> {
        let mut delivery = NewDelivery::new(json(payload)?);
        (delivery.at, delivery.within) = (self.at.map(Into::into), self.within);
        (delivery.to, delivery.key) = (self.to.clone(), self.known_by.clone());
        delivery.if_exists = self.if_exists.clone().map(IfExists::from);
        delivery.tags = self.tags.clone();
        Ok(delivery)
    }
}

pub(super) async fn run(args: &PushArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.file {
        return lines(args, client, out, file).await;
    }
    let delivery = args.delivery(args.payload.as_deref().unwrap_or("null"))?;
    let pushed = args.write.on(client.queues()).push(&args.queue, &delivery).await?;
    out.one(&pushed, rows)?;
    Ok(ExitCode::SUCCESS)
}

fn rows(pushed: &[Pushed]) -> String {
    let row = |one: &Pushed| [one.id.clone(), one.outcome.to_string(), one.state.to_string(), or_dash(one.due)];
    table(["ID", "OUTCOME", "STATE", "DUE"], pushed.iter().map(row))
}

/// What became of the lines of a file.
#[derive(Debug, Default, Serialize)]
struct Summary {
    added: u64,
    kept: u64,
    replaced: u64,
    finished: u64,
    refused: Vec<Refused>,
}

#[derive(Debug, Serialize)]
struct Refused {
    line: usize,
    problem: BatchProblem,
}

impl Summary {
    fn add(&mut self, line: usize, answer: Result<Pushed, BatchProblem>) {
        match answer.map(|pushed| pushed.outcome) {
            Ok(PushOutcome::Kept) => self.kept += 1,
            Ok(PushOutcome::Replaced) => self.replaced += 1,
            Ok(PushOutcome::Finished) => self.finished += 1,
            Ok(_) => self.added += 1,
            Err(problem) => self.refused.push(Refused { line, problem }),
        }
    }

    fn words(&self) -> String {
        let refused = u64::try_from(self.refused.len()).unwrap_or(u64::MAX);
        let counts = [
            (self.added, "added"),
            (self.kept, "there already"),
            (self.replaced, "replaced"),
            (self.finished, "finished before"),
            (refused, "refused"),
        ];
        let parts: Vec<String> = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        if parts.is_empty() { "no deliveries".to_owned() } else { parts.join(", ") }
    }
}

async fn lines(args: &PushArgs, client: &Client, out: Output, file: &str) -> anyhow::Result<ExitCode> {
    let (file, text) = input::read(file)?;
    let lines: Vec<(usize, &str)> = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).collect();
    let (mut summary, mut done, bar) = (Summary::default(), 0, out.bar(Some(lines.len())));
    for (part, some) in lines.chunks(LINES_MAX).enumerate() {
        // One key stands for the whole file; each request needs its own.
        let queues = match &args.write.idempotency_key {
            Some(key) => client.queues().idempotency_key(format!("{key}.{part}")),
            None => client.queues(),
        };
        let texts: Vec<&str> = some.iter().map(|(_, line)| *line).collect();
        let answers = match queues.push_lines(&args.queue, &texts).await {
            Ok(answers) => answers,
            Err(fault) => {
                bar.finish_and_clear();
                eprintln!("{done} of {} lines have an answer; whether others were pushed is not known.", lines.len());
                return Err(fault.into());
            }
        };
        for ((number, _), answer) in some.iter().zip(answers) {
            if let (Err(problem), false) = (&answer, out.is_json()) {
                bar.suspend(|| eprintln!("{file}:{number}: {problem}"));
            }
            summary.add(*number, answer);
        }
        done += some.len();
        bar.inc(u64::try_from(some.len()).unwrap_or(0));
    }
    bar.finish_and_clear();
    out.answer(&summary, Summary::words)?;
    Ok(if summary.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_an_offset() {
        assert_eq!(time("2030-01-31T09:00:00+01:00").unwrap(), time("2030-01-31T08:00:00Z").unwrap());
        assert!(time("tomorrow").is_err() && time("2030-01-31").is_err());
    }

    #[test]
    fn a_summary_counts_what_there_was() {
        let mut summary = Summary::default();
        assert_eq!(summary.words(), "no deliveries");
        let pushed = |outcome: &str| serde_json::from_str(&format!(r#"{{"id":"dl_1","outcome":"{outcome}","state":"ready"}}"#)).unwrap();
        summary.add(1, Ok(pushed("added")));
        summary.add(2, Ok(pushed("kept")));
        summary.add(3, Err(serde_json::from_str(r#"{"code":"invalid_json"}"#).unwrap()));
        assert_eq!((summary.words().as_str(), summary.refused[0].line), ("1 added, 1 there already, 1 refused", 3));
    }
}
