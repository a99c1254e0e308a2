//! `hermod queues cancel` and `dead`: changing what nobody holds.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use hermod_client::{Bulk, BulkChange, Client, DeliveryFilter, DeliveryState, EditOutcome, Edited, Which};

use super::look::{Listed, rows};
use crate::noun::{PageArgs, WriteArgs};
use crate::output::Output;

pub(super) const DEAD_HELP: &str = "\
A delivery is dead after its last attempt. redrive makes it due at once, as if it had never been attempted; purge
forgets it.

Examples:
  hermod queues dead mail
  hermod queues dead mail redrive --id dl_...
  hermod queues dead mail purge --all";

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
    many(client, out, &args.queue, BulkChange::Cancel, &which, length, "cancelled").await
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
            many(client, out, &args.queue, change, &Which::Dead, usize::try_from(stats.dead).ok(), word).await
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

/// Changes many, call after call, and shows how far it has come.
async fn many(
    client: &Client,
    out: Output,
    queue: &str,
    change: BulkChange,
    which: &Which,
    length: Option<usize>,
    word: &str,
) -> anyhow::Result<ExitCode> {
    let (mut sum, bar) = (Bulk::default(), out.bar(length));
    loop {
        let some = match client.queues().change_some(queue, change, which, sum.next.as_deref()).await {
            Ok(some) => some,
            Err(fault) => {
                bar.finish_and_clear();
                eprintln!("{} were {word} before this; it is safe to run it again.", sum.done);
                return Err(fault.into());
            }
        };
        (sum.done, sum.leased, sum.others) = (sum.done + some.done, sum.leased + some.leased, sum.others + some.others);
        bar.inc(some.done);
        sum.next = some.next;
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
