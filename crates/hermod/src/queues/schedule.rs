//! `hermod queues schedule`: deliveries that recur.

use anyhow::Context;
use clap::{Args, Subcommand};
use hermod_client::{Client, Dst, Schedule, ScheduleDraft};
use serde_json::Value;

use crate::noun::{PageArgs, WriteArgs};
use crate::output::{Output, or_dash, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List a queue's schedules.
    List {
        /// The queue's name.
        queue: String,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one schedule.
    Get(NameArgs),
    /// Make a schedule of this name, or replace the one that has it.
    Put {
        #[command(flatten)]
        name: NameArgs,
        #[command(flatten)]
        schedule: PutArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Remove a schedule and its runs to come; those whose time has come stay.
    Delete {
        #[command(flatten)]
        name: NameArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
}

/// Which schedule.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The queue's name.
    queue: String,
    /// The schedule's name.
    name: String,
}

/// What it is.
#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// When: '0 9 * * MON-FRI', with seconds first if there are six fields, or @daily and the like.
    #[arg(long, value_name = "EXPRESSION")]
    cron: String,
    /// The time zone, such as Europe/Berlin; UTC if absent.
    #[arg(long)]
    zone: Option<String>,
    /// A run that is left out when clocks go forward: shift (runs right after, the default) or skip.
    #[arg(long, value_name = "POLICY")]
    dst: Option<String>,
    /// What is delivered, as JSON.
    #[arg(long, value_name = "JSON", default_value = "null")]
    payload: String,
    /// The recipient.
    #[arg(long, value_name = "RECIPIENT")]
    to: Option<String>,
    /// By which its deliveries are found; give it several times or with commas.
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,
    /// Save it, but do not run it.
    #[arg(long)]
    disabled: bool,
}

impl PutArgs {
    fn draft(&self) -> anyhow::Result<ScheduleDraft> {
        let payload: Value =
            serde_json::from_str(&self.payload).context("--payload is not JSON; a text needs quotes of its own: '\"hello\"'")?;
        let mut draft = ScheduleDraft::new(&self.cron, payload);
        draft.zone = self.zone.clone();
        draft.dst = self.dst.clone().map(Dst::from);
        draft.to = self.to.clone();
        draft.tags = self.tags.clone();
        draft.enabled = !self.disabled;
        Ok(draft)
    }
}

pub(super) async fn run(verb: &Verb, client: &Client, out: Output) -> anyhow::Result<()> {
    match verb {
        Verb::List { queue, page } => page.list(client.queues().schedules(queue), out, rows).await,
        Verb::Get(NameArgs { queue, name }) => out.one(&client.queues().schedules(queue).get(name).await?, rows),
        Verb::Put { name: NameArgs { queue, name }, schedule, write } => {
            let saved = write.on(client.queues().schedules(queue)).put(name, &schedule.draft()?).await?;
            out.one(&saved, rows)
        }
        Verb::Delete { name: NameArgs { queue, name }, write } => {
            write.on(client.queues().schedules(queue)).delete(name).await?;
            out.remark(&format!("Schedule {name} of {queue} is removed."))
        }
    }
}

fn rows(schedules: &[Schedule]) -> String {
    table(
        ["NAME", "CRON", "ZONE", "TO", "NEXT"],
        schedules.iter().map(|schedule| {
            let next = if schedule.enabled { or_dash(schedule.next.first()) } else { String::from("disabled") };
            [schedule.name.clone(), schedule.cron.clone(), schedule.zone.clone(), or_dash(schedule.to.as_ref()), next]
        }),
    )
}
