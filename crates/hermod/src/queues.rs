//! `hermod queues`: what is held until its time.

mod args;
mod change;
mod look;
mod push;
mod put;
mod relay;
mod schedule;
mod take;
mod workers;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use hermod_client::{Overdue, Push, Queue};

use crate::noun::{NounArgs, PageArgs, TargetArgs};
use crate::output::{or_dash, table};
use args::QueueArgs;

pub(crate) use args::SECRET_VARIABLE;

pub(crate) const HELP: &str = "\
Examples:
  hermod queues put mail --lease 1m --max-attempts 8
  hermod queues put orders --webhook https://example.com/hook
  hermod queues push mail '{\"say\": \"hello\"}' --in 90s --to ann
  hermod queues claim mail --wait 20s --ack
  hermod queues dead mail redrive --all
  hermod queues put inbox --mode sticky
  hermod queues tail inbox --worker w1
  hermod queues workers inbox
  hermod queues schedule put mail digest --cron '0 9 * * MON-FRI' --zone Europe/Berlin --payload '{\"say\": \"hello\"}'
  hermod queues schedule list mail";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the queues.
    List(PageArgs),
    /// Show one queue; its secrets are masked.
    Get {
        /// The queue's name.
        id: String,
    },
    /// Make a queue of this name, or replace the one that has it; its deliveries stay.
    #[command(after_help = args::HELP)]
    Put {
        #[command(flatten)]
        queue: Box<QueueArgs>,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Remove a queue and its schedules. One that holds deliveries stays.
    Delete {
        #[command(flatten)]
        target: TargetArgs,
        /// Cancel its deliveries first, except for those that somebody holds.
        #[arg(long)]
        purge: bool,
    },
    /// Deliveries that recur.
    Schedule(ScheduleArgs),
    /// Put a delivery into a queue, or one for each line of a file.
    #[command(after_help = push::HELP)]
    Push(Box<push::PushArgs>),
    /// Put a packed DIDComm message into a queue, for the recipient it names.
    #[command(after_help = relay::HELP)]
    Relay(relay::RelayArgs),
    /// Take deliveries that are due.
    #[command(after_help = take::CLAIM_HELP)]
    Claim(take::ClaimArgs),
    /// Print and finish deliveries as they fall due, until interrupted.
    Tail(take::TailArgs),
    /// Finish a delivery that was claimed.
    Ack(take::HeldArgs),
    /// Give a delivery back that failed, to be tried again.
    Nack {
        #[command(flatten)]
        held: take::HeldArgs,
        /// After how long; as the queue's backoff says if absent.
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        delay: Option<Duration>,
    },
    /// Hold a delivery that was claimed for longer.
    Extend {
        #[command(flatten)]
        held: take::HeldArgs,
        /// For how long from now on; as long as the queue says if absent.
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        lease: Option<Duration>,
    },
    /// Show deliveries, or one of them.
    Show(look::ShowArgs),
    /// Count deliveries, and when they fall due.
    Stats {
        /// The queue's name.
        queue: String,
    },
    /// Cancel deliveries that nobody holds.
    Cancel(change::CancelArgs),
    /// Give a delivery that nobody holds another time.
    Reschedule(change::RescheduleArgs),
    /// Put deliveries off that wait, or bring them forward.
    #[command(after_help = change::SHIFT_HELP)]
    Shift(change::ShiftArgs),
    /// Give a delivery that nobody holds another payload.
    Rewrite(change::RewriteArgs),
    /// Show, redrive or purge deliveries that failed for good.
    #[command(after_help = change::DEAD_HELP)]
    Dead(change::DeadArgs),
    /// Show the workers of a sticky queue, and how much each has.
    Workers {
        /// The queue's name.
        queue: String,
    },
    /// Explain which worker has a recipient, and why.
    #[command(after_help = workers::EXPLAIN_HELP)]
    Explain {
        /// The queue's name.
        queue: String,
        /// The recipient.
        recipient: String,
    },
    /// Give a worker nobody new; what it holds it finishes, and its recipients go to others.
    Drain(workers::DrainArgs),
    /// Give a recipient to a worker.
    #[command(after_help = workers::PIN_HELP)]
    Pin(workers::PinArgs),
}

/// One of the verbs of schedules.
#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    #[command(subcommand)]
    verb: schedule::Verb,
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::List(page) => page.list(client.queues(), out, rows).await?,
        Verb::Get { id } => out.one(&client.queues().get(id).await?, rows)?,
        Verb::Put { queue, target } => return put::run(queue, target, &client, out).await,
        Verb::Delete { target: TargetArgs { id, write }, purge } => {
            let queues = write.on(client.queues());
            if *purge {
                queues.purge(id).await?
            } else {
                queues.delete(id).await?
            };
            out.remark(&format!("Queue {id} is removed."))?;
        }
        Verb::Schedule(args) => schedule::run(&args.verb, &client, out).await?,
        Verb::Push(args) => return push::run(args, &client, out).await,
        Verb::Relay(args) => relay::run(args, &client, out).await?,
        Verb::Claim(args) => return take::claim(args, &client, out).await,
        Verb::Tail(args) => return take::tail(args, &client, out).await,
        Verb::Ack(held) => return take::ack(held, &client, out).await,
        Verb::Nack { held, delay } => return take::nack(held, *delay, &client, out).await,
        Verb::Extend { held, lease } => return take::extend(held, *lease, &client, out).await,
        Verb::Show(args) => look::show(args, &client, out).await?,
        Verb::Stats { queue } => look::stats(queue, &client, out).await?,
        Verb::Cancel(args) => return change::cancel(args, &client, out).await,
        Verb::Reschedule(args) => return change::reschedule(args, &client, out).await,
        Verb::Shift(args) => return change::shift(args, &client, out).await,
        Verb::Rewrite(args) => return change::rewrite(args, &client, out).await,
        Verb::Dead(args) => return change::dead(args, &client, out).await,
        Verb::Workers { queue } => workers::list(queue, &client, out).await?,
        Verb::Explain { queue, recipient } => workers::explain(queue, recipient, &client, out).await?,
        Verb::Drain(args) => workers::drain(args, &client, out).await?,
        Verb::Pin(args) => workers::pin(args, &client, out).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(queues: &[Queue]) -> String {
    table(
        ["QUEUE", "MODE", "LEASE", "ATTEMPTS", "PUSH", "OPTIONS"],
        queues.iter().map(|queue| {
            [
                queue.queue.clone(),
                queue.mode.to_string(),
                queue.lease.clone(),
                queue.max_attempts.to_string(),
                or_dash(queue.push.as_ref().map(push)),
                or_dash(Some(options(queue)).filter(|options| !options.is_empty())),
            ]
        }),
    )
}

fn push(push: &Push) -> String {
    push.webhook.as_ref().map_or_else(|| String::from("log"), |webhook| webhook.url.clone())
}

/// What has no column of its own and is not usual.
fn options(queue: &Queue) -> String {
    let mut options = Vec::new();
    for (name, value, usual) in [
        ("order", queue.order.as_str(), "recipient"),
        ("on_exhausted", queue.on_exhausted.as_str(), "dead"),
        ("on_failure", queue.on_failure.as_str(), "block"),
    ] {
        if value != usual {
            options.push(format!("{name}={value}"));
        }
    }
    if let Overdue::DropAfter(span) = &queue.overdue {
        options.push(format!("drop_after={span}"));
    }
    if let Some(rate) = queue.catch_up_per_second {
        options.push(format!("catch_up_per_second={rate}"));
    }
    if let Some(why) = &queue.disabled {
        options.push(format!("disabled={why:?}"));
    }
    options.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_what_is_unusual() {
        let plain = r#"{"queue":"mail","mode":"shared","order":"recipient","lease":"30s","worker_ttl":"15s","idle_after":"1day","max_attempts":5,
            "backoff":{},"on_exhausted":"dead","on_failure":"block","overdue":"deliver","max_payload":262144,"push":null}"#;
        let other = plain
            .replace("recipient", "total")
            .replace("\"deliver\"", "{\"drop_after\":\"1h\"}")
            .replace("null", r#"{"webhook":{"url":"https://h","secret":"whsec_…abcd"}},"disabled":"410 Gone""#);
        let queues: Vec<Queue> = [plain, &other].map(|text| serde_json::from_str(text).unwrap()).into();
        let text = rows(&queues);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "mail   shared  30s    5         -          -");
        assert_eq!(lines[2], "mail   shared  30s    5         https://h  order=total drop_after=1h disabled=\"410 Gone\"");
    }
}
