//! `hermod queues cancel`, `reschedule`, `shift`, `rewrite` and `dead`: changing what nobody holds.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::bail;
use clap::{Args, ValueEnum};
use hermod_client::{Bulk, BulkChange, Client, DeliveryFilter, DeliveryState, Due, EditOutcome, Edited, Queues, Which};

use super::look::{Listed, rows};
use super::push::json;
use crate::input::time;
use crate::noun::{PageArgs, WriteArgs};
use crate::output::Output;

pub(super) const DEAD_HELP: &str = "\
A delivery is dead after its last attempt. redrive makes it due at once, as if it had never been attempted; purge
forgets it.

Examples:
  hermod queues dead mail
  hermod queues dead mail redrive --id dl_...
  hermod queues dead mail purge --all";

pub(super) const SHIFT_HELP: &str = "\
If it breaks off, some are shifted and others are not: look before it is run again.

Examples:
  hermod queues shift mail 1h --tag digest
  hermod queues shift mail 10m --earlier --from 2030-01-31T09:00:00Z --until 2030-01-31T10:00:00Z
  hermod queues shift mail 1h --all";

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("when").required(true))]
pub(crate) struct RescheduleArgs {
    /// The queue's name.
    queue: String,
    /// The delivery's id.
    id: String,
    /// When it is due: 2030-01-31T09:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time, group = "when")]
    at: Option<SystemTime>,
    /// How long until it is due: 90s.
    #[arg(long = "in", value_name = "DURATION", value_parser = humantime::parse_duration, group = "when")]
    within: Option<Duration>,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
pub(crate) struct ShiftArgs {
    /// The queue's name.
    queue: String,
    /// By how much: 90s.
    #[arg(value_parser = humantime::parse_duration)]
    by: Duration,
    /// Bring them forward instead.
    #[arg(long)]
    earlier: bool,
    /// All of this tag.
    #[arg(long, group = "which", conflicts_with_all = ["from", "until", "all"])]
    tag: Option<String>,
    /// Those that can be claimed at this time or later.
    #[arg(long, value_name = "TIME", value_parser = time, group = "which", conflicts_with = "all")]
    from: Option<SystemTime>,
    /// Those that can be claimed before this time.
    #[arg(long, value_name = "TIME", value_parser = time, group = "which", conflicts_with = "all")]
    until: Option<SystemTime>,
    /// All that wait.
    #[arg(long, group = "which")]
    all: bool,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RewriteArgs {
    /// The queue's name.
    queue: String,
    /// The delivery's id.
    id: String,
    /// What it carries, as JSON.
    payload: String,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(crate) struct CancelArgs {
    /// The queue's name.
    queue: String,
    /// The delivery's id.
    #[arg(group = "which")]
    id: Option<String>,
    /// All of this tag.
    #[arg(long, group = "which")]
    tag: Option<String>,
    /// All that wait.
    #[arg(long, group = "which")]
    all: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// What is done with dead deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DeadVerb {
    /// Show them.
    List,
    /// Make them due again.
    Redrive,
    /// Forget them.
    Purge,
}

#[derive(Debug, Args)]
pub(crate) struct DeadArgs {
    /// The queue's name.
    queue: String,
    /// What to do with them.
    #[arg(value_enum, default_value = "list")]
    verb: DeadVerb,
    /// This one.
    #[arg(long, conflicts_with = "all")]
    id: Option<String>,
    /// All of them.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    write: WriteArgs,
}

pub(super) async fn cancel(args: &CancelArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    if let Some(id) = &args.id {
        let edited = args.write.on(client.queues()).cancel(&args.queue, id).await?;
        return told(out, &edited, id, "is cancelled");
    }
    let (which, length) = match &args.tag {
        Some(tag) => (Which::Tag(tag.clone()), None),
        None => {
            let stats = client.queues().stats(&args.queue).await?;
            (Which::Waiting, usize::try_from(stats.ready + stats.scheduled).ok())
        }
    };
    many(|part| args.write.on_part(client.queues(), part), out, &args.queue, BulkChange::Cancel, &which, length, "cancelled").await
}

pub(super) async fn reschedule(args: &RescheduleArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let due = match (args.at, args.within) {
        (Some(at), _) => Due::At(at.into()),
        (None, span) => Due::In(span.unwrap_or_default()),
    };
    let edited = args.write.on(client.queues()).reschedule(&args.queue, &args.id, due).await?;
    let done = edited.due.map_or_else(|| "has another time".to_owned(), |due| format!("is due at {due}"));
    told(out, &edited, &args.id, &done)
}

pub(super) async fn shift(args: &ShiftArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let which = match (&args.tag, args.from, args.until) {
        (Some(tag), ..) => Which::Tag(tag.clone()),
        (None, None, None) => Which::Waiting,
        (None, from, until) => Which::Between(from.map(Into::into), until.map(Into::into)),
    };
    let change = if args.earlier { BulkChange::Earlier(args.by) } else { BulkChange::Later(args.by) };
    many(|part| args.write.on_part(client.queues(), part), out, &args.queue, change, &which, None, "shifted").await
}

pub(super) async fn rewrite(args: &RewriteArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let payload = json(&args.payload)?;
    let edited = args.write.on(client.queues()).rewrite(&args.queue, &args.id, &payload).await?;
    told(out, &edited, &args.id, "carries something else now")
}

pub(super) async fn dead(args: &DeadArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let queues = || args.write.on(client.queues());
    let (change, word) = match args.verb {
        DeadVerb::List => {
            let listed = Listed { queues: client.queues(), queue: &args.queue, filter: DeliveryFilter::Dead };
            args.page.list(listed, out, rows).await?;
            return Ok(ExitCode::SUCCESS);
        }
        DeadVerb::Redrive => (BulkChange::Redrive, "redriven"),
        _ => (BulkChange::Cancel, "purged"),
    };
    match &args.id {
        Some(id) if args.verb == DeadVerb::Redrive => told(out, &queues().redrive(&args.queue, id).await?, id, "is due again"),
        Some(id) => {
            // What is cancelled by its id may also be alive: that is not what was asked for.
            if client.queues().delivery(&args.queue, id).await?.state != DeliveryState::Dead {
                bail!("{id} is not dead; `hermod queues cancel {} {id}` cancels it", args.queue);
            }
            told(out, &queues().cancel(&args.queue, id).await?, id, "is forgotten")
        }
        None if args.all => {
            let stats = client.queues().stats(&args.queue).await?;
            let (part, length) = (|part| args.write.on_part(client.queues(), part), usize::try_from(stats.dead).ok());
            many(part, out, &args.queue, change, &Which::Dead, length, word).await
        }
        None => bail!("say which: --id dl_... or --all"),
    }
}

fn told(out: Output, edited: &Edited, id: &str, done: &str) -> anyhow::Result<ExitCode> {
    out.answer(edited, |edited| match (&edited.outcome, edited.lease_until) {
        (EditOutcome::Done, _) => format!("{id} {done}"),
        (EditOutcome::Leased, Some(until)) => format!("leased: somebody holds {id} until {until}; nothing was changed"),
        (EditOutcome::Gone, _) => format!("gone: {id} was finished, cancelled, or never was"),
        (EditOutcome::Alive, _) => format!("alive: {id} is not dead; nothing was changed"),
        (other, _) => format!("{id}: {other}; nothing was changed"),
    })?;
    Ok(if edited.outcome == EditOutcome::Done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Changes many, call after call, and shows how far it has come. `part` is the handle for one of the calls, from 0.
async fn many<'a>(
    part: impl Fn(usize) -> Queues<'a>,
    out: Output,
    queue: &str,
    change: BulkChange,
    which: &Which,
    length: Option<usize>,
    word: &str,
) -> anyhow::Result<ExitCode> {
    let (mut sum, bar, mut calls) = (Bulk::default(), out.bar(length), 0);
    loop {
        let some = match part(calls).change_some(queue, change, which, sum.next.as_deref()).await {
            Ok(some) => some,
            Err(fault) => {
                bar.finish_and_clear();
                let again = match change {
                    BulkChange::Later(_) | BulkChange::Earlier(_) => "look at them before it is run again",
                    _ => "it is safe to run it again",
                };
                eprintln!("{} were {word} before this; {again}.", sum.done);
                return Err(fault.into());
            }
        };
        (sum.done, sum.leased, sum.others) = (sum.done + some.done, sum.leased + some.leased, sum.others + some.others);
        bar.inc(some.done);
        (sum.next, calls) = (some.next, calls + 1);
        if sum.next.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    out.answer(&sum, |sum| {
        let held = if sum.leased > 0 { format!(", {} held by somebody and left as they are", sum.leased) } else { String::new() };
        format!("{} {word}{held}", sum.done)
    })?;
    Ok(if sum.leased == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
