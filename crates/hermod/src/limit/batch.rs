//! `hermod limit batch`: a check for each line of a file, an answer for each check.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use hermod_client::{Attributes, BatchCheck, BatchProblem, Checked, Client};
use serde::Deserialize;
use serde_json::json;

use super::tell;
use crate::input;
use crate::output::{Output, verdict};

pub(super) const HELP: &str = "\
Each line is a JSON object: {\"subject\": \"bot-7\", \"action\": \"tasks/create\", \"cost\": 2}; attributes, peek
and key (an idempotency key) may stand there, too. Answers come in the same order, one per line.

Exit codes: 0 all allowed, 1 some refused, 2 error, or some had no answer.

Examples:
  hermod limit batch -f checks.ndjson
  jq -c '.[]' checks.json | hermod limit batch -f - --json";

/// The most checks in one request, by the API.
const CHECKS_MAX: usize = 1_000;
/// The most bytes of checks in one request: half of what a server takes unless it is told otherwise.
const BYTES_MAX: usize = 512 << 10;

#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    /// The file, a check per line; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: String,
}

/// A check as a line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    subject: String,
    action: String,
    #[serde(default = "one")]
    cost: u64,
    #[serde(default)]
    attributes: Attributes,
    #[serde(default)]
    peek: bool,
    #[serde(default)]
    key: Option<String>,
}

fn one() -> u64 {
    1
}

impl From<Line> for BatchCheck {
    fn from(line: Line) -> BatchCheck {
        let mut check = BatchCheck::new(line.subject, line.action).cost(line.cost).attributes(line.attributes);
        (check.peek, check.key) = (line.peek, line.key);
        check
    }
}

pub(super) async fn run(args: &BatchArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let (file, text) = input::read(&args.file)?;
    // All are read before the first is made: a fault in the last line must not leave half of them charged.
    let checks = read(&file, &text)?;
    let (mut refused, mut failed, mut done) = (0, 0, 0);
    for some in parts(&checks)? {
        let answers = match client.limit().batch(some).await {
            Ok(answers) => answers,
            Err(fault) => {
                eprintln!("{done} of {} checks have an answer; whether others were charged is not known.", checks.len());
                return Err(fault.into());
            }
        };
        for (check, answer) in some.iter().zip(&answers) {
            match answer {
                Ok(checked) if checked.allowed => {}
                Ok(_) => refused += 1,
                Err(_) => failed += 1,
            }
            out.text(&line(check, answer, out.is_json())?)?;
        }
        done += answers.len();
    }
    Ok(match (failed, refused) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    })
}

/// The checks; empty lines are passed over.
fn read(file: &str, text: &str) -> anyhow::Result<Vec<BatchCheck>> {
    let mut checks = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Line>(line) {
            Ok(check) => checks.push(check.into()),
            Err(fault) => {
                let what = fault.to_string();
                let what = what.split(" at line ").next().unwrap_or_default();
                bail!("{file}:{number}:{}: {what}. Nothing was checked", fault.column());
            }
        }
    }
    Ok(checks)
}

/// Cuts the checks into parts that fit a request each.
fn parts(checks: &[BatchCheck]) -> anyhow::Result<Vec<&[BatchCheck]>> {
    let lengths = checks.iter().map(|check| Ok(serde_json::to_string(check)?.len() + ",".len())).collect::<anyhow::Result<Vec<_>>>()?;
    let (mut parts, mut rest, mut lengths) = (Vec::new(), checks, lengths.as_slice());
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = lengths.iter().take(CHECKS_MAX).take_while(|length| {
            bytes += **length;
            bytes <= BYTES_MAX
        });
        // One that is too large by itself goes alone; the server says so.
        let count = fits.count().max(1);
        let (part, after) = rest.split_at(count);
        parts.push(part);
        (rest, lengths) = (after, lengths.split_at(count).1);
    }
    Ok(parts)
}

fn line(check: &BatchCheck, answer: &Result<Checked, BatchProblem>, json: bool) -> anyhow::Result<String> {
    Ok(match (answer, json) {
        (Ok(checked), true) => serde_json::to_string(checked)?,
        (Err(problem), true) => json!({ "problem": problem }).to_string(),
        (Ok(checked), false) => {
            let told = tell::sentence(checked, check.cost, check.peek);
            format!("{} {}: {}", check.subject, check.action, verdict(checked.allowed, &told))
        }
        (Err(problem), false) => format!("{} {}: {}", check.subject, check.action, verdict(false, &format!("error: {problem}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_by_count_and_by_bytes() {
        let cut = |lengths: &[usize]| {
            // So long is a check as it is sent, with the comma behind it.
            let frame = serde_json::to_string(&BatchCheck::new("", "x")).unwrap().len() + 1;
            let checks: Vec<_> = lengths.iter().map(|length| BatchCheck::new("s".repeat(length - frame), "x")).collect();
            let parts = parts(&checks).unwrap();
            assert_eq!(parts.concat(), checks, "all of them, in order");
            parts.iter().map(|part| part.len()).collect::<Vec<_>>()
        };
        assert_eq!(cut(&[]), [0_usize; 0]);
        assert_eq!(cut(&[100; 2_001]), [1_000, 1_000, 1]);
        assert_eq!(cut(&[1_024; 1_100]), [512, 512, 76]);
        assert_eq!(cut(&[BYTES_MAX, 100, BYTES_MAX + 9, 100, 100]), [1, 1, 1, 2]);
    }

    #[test]
    fn lines_are_checks_and_a_fault_names_its_line() {
        let checks =
            read("f", "{\"subject\":\"a\",\"action\":\"x\",\"cost\":2}\n\n{\"subject\":\"b\",\"action\":\"x\",\"peek\":true}\n").unwrap();
        assert_eq!(checks, [BatchCheck::new("a", "x").cost(2), BatchCheck::new("b", "x").peek()]);
        for (text, told) in [
            ("{\"subject\":\"a\"}", "f:1:15: missing field `action`. Nothing was checked"),
            ("\n{\"subject\":1}", "f:2:12: invalid type: integer `1`, expected a string. Nothing was checked"),
            (
                "{\"subject\":\"a\",\"actoin\":\"x\"}",
                "f:1:23: unknown field `actoin`, expected one of `subject`, `action`, `cost`, `attributes`, `peek`, `key`. Nothing was checked",
            ),
            ("nonsense", "f:1:2: expected ident. Nothing was checked"),
        ] {
            assert_eq!(read("f", text).unwrap_err().to_string(), told);
        }
    }
}
