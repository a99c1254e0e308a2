//! `hermod rules apply`: makes the server's rules those of a file.
//!
//! The whole file is read and checked before anything is sent. Rules are sent one after the other, as
//! the API has no write of many; if one fails, it is told which ones were applied and which were not.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use hermod_client::{Client, ClientError};
use serde_json::{Map, Value, json};

use super::diff::{Change, Plan, conflicts, plan};
use super::fault::{Fault, is_of_the_rule};
use super::file::{Written, read};
use super::form::draft;
use crate::noun::ClientArgs;
use crate::output::Output;
use crate::{error, input};

pub(super) const HELP: &str = "\
The file is what `hermod rules export` prints: a list under `rules:`, each rule with an id. It is
checked as a whole before anything is changed. Applying it again changes nothing.

Exit codes: 0 applied (or nothing to do), 1 the file is faulty or not all could be applied, 2 error.

Examples:
  hermod rules apply -f rules.yaml --dry-run
  hermod rules apply -f rules.yaml --prune --yes
  hermod rules export --server http://a:7700 | hermod rules apply -f - --server http://b:7700";

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The file; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: String,
    /// Show what would be changed, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Delete the rules that are not in the file.
    #[arg(long)]
    prune: bool,
    /// Delete without asking.
    #[arg(short, long)]
    yes: bool,
}

pub(super) async fn run(args: &ApplyArgs, client: &Client, asked: &ClientArgs) -> anyhow::Result<ExitCode> {
    let out = asked.output();
    let (file, text) = input::read(&args.file)?;
    let written = match read(&text) {
        Ok(written) => written,
        Err(faults) => {
            tell_faults(&faults, &file, out.is_json());
            return Ok(ExitCode::FAILURE);
        }
    };
    let there = client.rules().list_all().await?;
    let faults = conflicts(&written, &there, args.prune);
    if !faults.is_empty() {
        tell_faults(&faults, &file, out.is_json());
        return Ok(ExitCode::FAILURE);
    }
    let plan = plan(&written, &there, args.prune);
    for change in &plan.changes {
        out.remark(&change.line())?;
    }
    let mut done = Done { outcomes: Vec::new(), plan: &plan };
    if !args.dry_run {
        confirm(args, &plan, out.is_json())?;
        done.outcomes = apply(client, &plan, out).await;
    }
    for (change, outcome) in done.pairs() {
        if let Outcome::Failed(fault) = outcome {
            eprintln!("{}", told(change, fault, &file, &asked.server));
        }
    }
    out.answer(&done.document(args.dry_run), |_| done.summary(args.dry_run))?;
    Ok(if done.is_complete() || args.dry_run { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell_faults(faults: &[Fault], file: &str, json: bool) {
    if json {
        eprintln!("{:#}", json!({ "file": file, "faults": faults }));
        return;
    }
    for fault in faults {
        eprintln!("{}", fault.line(file));
    }
    eprintln!("Nothing was changed: {file} has {}.", counted(faults.len(), "fault"));
}

/// Asks before rules are deleted; where nobody can be asked, the flag must say so.
fn confirm(args: &ApplyArgs, plan: &Plan<'_>, json: bool) -> anyhow::Result<()> {
    let gone = plan.changes.iter().filter(|change| matches!(change, Change::Delete(_))).count();
    if gone == 0 || args.yes {
        return Ok(());
    }
    let gone = counted(gone, "rule");
    if json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!("--prune would delete {gone}; add --yes where nobody can be asked. Nothing was changed");
    }
    eprint!("Delete {gone}? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        bail!("nothing was changed");
    }
    Ok(())
}

/// What became of a change.
enum Outcome {
    Applied,
    Failed(ClientError),
    /// An earlier one failed.
    NotTried,
}

/// Makes the changes, and again those that were refused while others were still to come: one rule may
/// take the place that another one leaves.
async fn apply(client: &Client, plan: &Plan<'_>, out: Output) -> Vec<Outcome> {
    let bar = out.bar(Some(plan.changes.len()));
    let mut outcomes: Vec<Outcome> = plan.changes.iter().map(|_| Outcome::NotTried).collect();
    loop {
        let (mut is_moving, mut has_failed) = (false, false);
        for (change, outcome) in plan.changes.iter().zip(&mut outcomes) {
            // What was to take the place of a rule may be missing: nothing more is deleted after a failure.
            if matches!(outcome, Outcome::Applied) || has_failed && matches!(change, Change::Delete(_)) {
                continue;
            }
            match send(client, change).await {
                Ok(()) => {
                    (*outcome, is_moving) = (Outcome::Applied, true);
                    bar.inc(1);
                }
                Err(fault) => {
                    has_failed = true;
                    let is_over = !is_of_the_rule(&fault);
                    *outcome = Outcome::Failed(fault);
                    // A fault of one rule says nothing about the next; any other would be the same again.
                    if is_over {
                        bar.finish_and_clear();
                        return outcomes;
                    }
                }
            }
        }
        if !has_failed || !is_moving {
            bar.finish_and_clear();
            return outcomes;
        }
    }
}

async fn send(client: &Client, change: &Change<'_>) -> Result<(), ClientError> {
    match change {
        Change::Create(Written { rule, .. }) | Change::Edit(Written { rule, .. }, _) => {
            client.rules().put(&rule.id, &draft(rule)).await.map(drop)
        }
        Change::Delete(id) => match client.rules().delete(id).await {
            // Somebody else was quicker.
            Err(ClientError::Problem(problem)) if problem.status == 404 => Ok(()),
            sent => sent,
        },
    }
}

/// A failure for people, with the rule's place in the file if the rule is to blame.
fn told(change: &Change<'_>, fault: &ClientError, file: &str, server: &str) -> String {
    let placed = match change {
        Change::Create(written) | Change::Edit(written, _) => Fault::refused(written, fault),
        Change::Delete(_) => None,
    };
    placed.map_or_else(|| format!("error: {}: {}", change.id(), error::sentence(fault, server)), |fault| fault.line(file))
}

/// What came of it; no outcomes if nothing was tried.
struct Done<'a> {
    plan: &'a Plan<'a>,
    outcomes: Vec<Outcome>,
}

impl Done<'_> {
    fn pairs(&self) -> impl Iterator<Item = (&Change<'_>, &Outcome)> {
        self.plan.changes.iter().zip(&self.outcomes)
    }

    fn is_complete(&self) -> bool {
        self.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied))
    }

    /// How many changes of this kind were made, or would be.
    fn count(&self, word: &str) -> usize {
        let is_made = |place| self.outcomes.get(place).is_none_or(|outcome| matches!(outcome, Outcome::Applied));
        self.plan.changes.iter().zip(0..).filter(|(change, place)| change.word() == word && is_made(*place)).count()
    }

    fn summary(&self, dry_run: bool) -> String {
        let words = if dry_run { ["to create", "to change", "to delete"] } else { ["created", "changed", "deleted"] };
        let counts = ["create", "change", "delete"].map(|word| self.count(word)).into_iter().zip(words);
        let failed = self.outcomes.iter().filter(|outcome| !matches!(outcome, Outcome::Applied)).count();
        let parts = counts.chain([(self.plan.unchanged, "unchanged"), (failed, "not applied")]).filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
        let mut text = if parts.is_empty() { "no rules".to_owned() } else { parts.join(", ") };
        if self.plan.others > 0 {
            text += &format!("\n{} not in the file: left as is, without --prune", counted(self.plan.others, "rule"));
        }
        if !self.is_complete() {
            let those = |wanted: bool| {
                let those = self.pairs().filter(|(_, outcome)| matches!(outcome, Outcome::Applied) == wanted);
                let those: Vec<String> = those.map(|(change, _)| change.short()).collect();
                if those.is_empty() { "none".to_owned() } else { those.join(", ") }
            };
            text += &format!("\napplied: {}\nnot applied: {}", those(true), those(false));
        }
        if dry_run {
            text += "\nNothing was changed. The rules were checked here; the server checks them again when they are applied.";
        }
        text
    }

    /// The same for programs.
    fn document(&self, dry_run: bool) -> Value {
        let changes = self.plan.changes.iter().zip(0..).map(|(change, place)| {
            let mut document = Map::from_iter([("id".to_owned(), json!(change.id())), ("change".to_owned(), json!(change.word()))]);
            if let Change::Edit(_, edits) = change {
                let edits = edits.iter().map(|edit| (edit.field.to_owned(), json!({ "from": edit.from, "to": edit.to })));
                document.insert("fields".to_owned(), Value::Object(edits.collect()));
            }
            let outcome = self.outcomes.get(place);
            document.insert("applied".to_owned(), json!(matches!(outcome, Some(Outcome::Applied))));
            if let Some(Outcome::Failed(fault)) = outcome {
                let problem = fault.problem().map_or_else(|| json!({ "detail": fault.to_string() }), |problem| json!(problem));
                document.insert("problem".to_owned(), problem);
            }
            Value::Object(document)
        });
        let [created, changed, deleted] = ["create", "change", "delete"].map(|word| if dry_run { 0 } else { self.count(word) });
        json!({
            "dry_run": dry_run,
            "changes": changes.collect::<Vec<_>>(),
            "created": created,
            "changed": changed,
            "deleted": deleted,
            "unchanged": self.plan.unchanged,
            "others": self.plan.others,
        })
    }
}

/// `1 rule`, `2 rules`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
