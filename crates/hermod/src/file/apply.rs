//! Makes the items of a server those of a file.
//!
//! The whole file is read and checked before anything is sent. Items are sent one after the other, so that what is wrong with one
//! has its place in the file; if one fails, it is told which ones were applied and which were not.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use hermod_client::ClientError;
use serde_json::{Map, Value, json};

use super::diff::{Change, Plan};
use super::fault::{Fault, is_of_the_item};
use super::{Item, counted};
use crate::error;
use crate::noun::ClientArgs;
use crate::output::Output;

/// What to apply, and whether to.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// The file; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: String,
    /// Show what would be changed, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The same, where what is not in the file may be deleted.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) from: FileArgs,
    /// Delete what is not in the file.
    #[arg(long)]
    pub(crate) prune: bool,
    /// Delete without asking.
    #[arg(short, long)]
    yes: bool,
}

impl ApplyArgs {
    /// Shows the plan and carries it out with `send`, unless that is not wanted. `name` is the file's.
    pub(crate) async fn carry_out<T: Item>(
        &self,
        name: &str,
        plan: &Plan<'_, T>,
        asked: &ClientArgs,
        send: impl AsyncFn(&Change<'_, T>) -> Result<(), ClientError>,
    ) -> anyhow::Result<ExitCode> {
        self.from.carry_out(name, plan, asked, self.yes, send).await
    }
}

impl FileArgs {
    /// The same; with `yes`, nobody is asked before something is deleted.
    pub(crate) async fn carry_out<T: Item>(
        &self,
        name: &str,
        plan: &Plan<'_, T>,
        asked: &ClientArgs,
        yes: bool,
        send: impl AsyncFn(&Change<'_, T>) -> Result<(), ClientError>,
    ) -> anyhow::Result<ExitCode> {
        let out = asked.output();
        for change in &plan.changes {
            out.remark(&change.line())?;
        }
        let mut done = Done { outcomes: Vec::new(), plan };
        if !self.dry_run {
            confirm(plan, yes, out.is_json())?;
            done.outcomes = apply(plan, out, send).await;
        }
        for (change, outcome) in done.pairs() {
            if let Outcome::Failed(fault) = outcome {
                eprintln!("{}", told(change, fault, name, &asked.server));
            }
        }
        out.answer(&done.document(self.dry_run), |_| done.summary(self.dry_run))?;
        Ok(if done.is_complete() || self.dry_run { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Tells what is wrong with a file, of which nothing was applied.
pub(crate) fn tell_faults(faults: &[Fault], file: &str, json: bool) -> ExitCode {
    if json {
        eprintln!("{:#}", json!({ "file": file, "faults": faults }));
        return ExitCode::FAILURE;
    }
    for fault in faults {
        eprintln!("{}", fault.line(file));
    }
    eprintln!("Nothing was changed: {file} has {}.", counted(faults.len(), "fault"));
    ExitCode::FAILURE
}

/// Asks before anything is deleted; where nobody can be asked, the flag must say so.
fn confirm<T: Item>(plan: &Plan<'_, T>, yes: bool, json: bool) -> anyhow::Result<()> {
    let gone = plan.changes.iter().filter(|change| matches!(change, Change::Delete(_))).count();
    if gone == 0 || yes {
        return Ok(());
    }
    let gone = counted(gone, T::NOUN);
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

/// Makes the changes, and again those that were refused while others were still to come: one item may
/// take the place that another one leaves.
async fn apply<T: Item>(plan: &Plan<'_, T>, out: Output, send: impl AsyncFn(&Change<'_, T>) -> Result<(), ClientError>) -> Vec<Outcome> {
    let bar = out.bar(Some(plan.changes.len()));
    let mut outcomes: Vec<Outcome> = plan.changes.iter().map(|_| Outcome::NotTried).collect();
    loop {
        let (mut is_moving, mut has_failed) = (false, false);
        for (change, outcome) in plan.changes.iter().zip(&mut outcomes) {
            // What was to take the place of an item may be missing: nothing more is deleted after a failure.
            if matches!(outcome, Outcome::Applied) || has_failed && matches!(change, Change::Delete(_)) {
                continue;
            }
            match send(change).await {
                Ok(()) => {
                    (*outcome, is_moving) = (Outcome::Applied, true);
                    bar.inc(1);
                }
                Err(fault) => {
                    has_failed = true;
                    let is_over = !is_of_the_item(&fault);
                    *outcome = Outcome::Failed(fault);
                    // A fault of one item says nothing about the next; any other would be the same again.
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

/// What was to be deleted is gone, also where somebody else was quicker.
pub(crate) fn gone(deleted: Result<(), ClientError>) -> Result<(), ClientError> {
    match deleted {
        Err(ClientError::Problem(problem)) if problem.status == 404 => Ok(()),
        sent => sent,
    }
}

/// A failure for people, with its place in the file if what is written there is to blame.
fn told<T: Item>(change: &Change<'_, T>, fault: &ClientError, file: &str, server: &str) -> String {
    let placed = match change {
        Change::Create(written) | Change::Edit(written, _) => written.refused(fault),
        Change::Delete(_) => Vec::new(),
    };
    if placed.is_empty() {
        return format!("error: {}: {}", change.item().label(), error::sentence(fault, server));
    }
    placed.iter().map(|fault| fault.line(file)).collect::<Vec<_>>().join("\n")
}

/// What came of it; no outcomes if nothing was tried.
struct Done<'a, T> {
    plan: &'a Plan<'a, T>,
    outcomes: Vec<Outcome>,
}

impl<T: Item> Done<'_, T> {
    fn pairs(&self) -> impl Iterator<Item = (&Change<'_, T>, &Outcome)> {
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
        let mut text = if parts.is_empty() { format!("no {}s", T::NOUN) } else { parts.join(", ") };
        if self.plan.others > 0 {
            text += &format!("\n{} not in the file: left as is, without --prune", counted(self.plan.others, T::NOUN));
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
            text += &format!("\nNothing was changed. {}", T::DRY_RUN);
        }
        text
    }

    /// The same for programs.
    fn document(&self, dry_run: bool) -> Value {
        let changes = self.plan.changes.iter().zip(0..).map(|(change, place)| {
            let item = change.item();
            let told = [("id", json!(item.id())), ("what", json!(item.noun())), ("change", json!(change.word()))];
            let mut document: Map<String, Value> = told.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            if let Change::Edit(_, edits) = change {
                let edits = edits.iter().map(|edit| (edit.field.to_string(), json!({ "from": edit.from, "to": edit.to })));
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
