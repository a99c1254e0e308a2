//! `hermod queues claim`, `tail`, `ack`, `nack` and `extend`: taking deliveries out, and saying what became of them.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hermod_client::{ClaimRequest, Claimed, Client, ClientError, DeliveryStream, Held, HeldOutcome, SettledDelivery};
use serde::Serialize;

use super::look::payload;
use crate::noun::WriteArgs;
use crate::output::{Output, or_dash, table};
use crate::signals::Signals;

pub(super) const CLAIM_HELP: &str = "\
What is printed is held until its lease ends; with --ack it is finished once it is printed.

Exit codes: 0 there was something, 1 there was nothing (or --ack came too late), 2 error.

Examples:
  hermod queues claim mail --count 10 --wait 20s --json
  hermod queues ack mail dl_... 1700000000000000";

/// A connection that broke is opened again after so long.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct ClaimArgs {
    /// The queue's name.
    queue: String,
    /// How many at most, 1-1000.
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u32,
    /// How long to wait if there is nothing, 1m at most; not at all if absent.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
    /// How long they are held; as long as the queue says if absent.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    lease: Option<Duration>,
    /// Finish them once they are printed.
    #[arg(long)]
    ack: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The queue's name.
    queue: String,
    /// How many may be on their way at once, 1-1000.
    #[arg(long, value_name = "N", default_value_t = 1)]
    credits: u32,
}

/// A delivery that is held.
#[derive(Debug, Args)]
pub(crate) struct HeldArgs {
    /// The queue's name.
    queue: String,
    /// The delivery's id.
    id: String,
    /// The token it was handed out with.
    token: u64,
    #[command(flatten)]
    write: WriteArgs,
}

impl HeldArgs {
    fn held(&self) -> Held {
        Held::new(&self.id, self.token)
    }
}

/// As the API has it.
#[derive(Serialize)]
struct Handed<'a> {
    deliveries: &'a [Claimed],
}

pub(super) async fn claim(args: &ClaimArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let mut request = ClaimRequest::new(args.count).wait(args.wait.unwrap_or_default());
    request.lease = args.lease;
    let claimed = client.queues().claim(&args.queue, &request).await?;
    if claimed.is_empty() {
        out.answer(&Handed { deliveries: &claimed }, |_| "nothing is due".to_owned())?;
        return Ok(ExitCode::FAILURE);
    }
    out.answer(&Handed { deliveries: &claimed }, |handed| rows(handed.deliveries))?;
    if !args.ack {
        return Ok(ExitCode::SUCCESS);
    }
    let mut code = ExitCode::SUCCESS;
    for settled in client.queues().ack_all(&args.queue, &claimed).await? {
        if settled.outcome != HeldOutcome::Done {
            eprintln!("{}", sentence(&settled));
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn rows(claimed: &[Claimed]) -> String {
    table(
        ["ID", "TOKEN", "ATTEMPT", "DUE", "HELD UNTIL", "TO", "PAYLOAD"],
        claimed.iter().map(|one| {
            let (token, attempt) = (one.token.to_string(), one.attempt.to_string());
            let to = or_dash(one.to.as_ref());
            let carried = payload(one.json.as_deref(), one.base64.as_deref(), usize::MAX);
            [one.id.clone(), token, attempt, one.due.to_string(), one.lease_until.to_string(), to, carried]
        }),
    )
}

pub(super) async fn ack(args: &HeldArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    told(out, &args.write.on(client.queues()).ack(&args.queue, args.held()).await?)
}

pub(super) async fn nack(args: &HeldArgs, delay: Option<Duration>, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    told(out, &args.write.on(client.queues()).nack(&args.queue, args.held(), delay).await?)
}

pub(super) async fn extend(args: &HeldArgs, lease: Option<Duration>, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    told(out, &args.write.on(client.queues()).extend(&args.queue, args.held(), lease).await?)
}

fn told(out: Output, settled: &SettledDelivery) -> anyhow::Result<ExitCode> {
    out.answer(settled, sentence)?;
    Ok(if settled.outcome == HeldOutcome::Stale { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn sentence(settled: &SettledDelivery) -> String {
    let id = &settled.id;
    match (&settled.outcome, settled.not_before.or(settled.lease_until)) {
        (HeldOutcome::Done, _) => format!("{id} is finished"),
        (HeldOutcome::Stale, _) => format!("stale: {id} is not held under this token; its lease has ended, or it was settled before"),
        (HeldOutcome::Retry, Some(at)) => format!("{id} will be tried again from {at} on"),
        (HeldOutcome::Extended, Some(until)) => format!("{id} is held until {until}"),
        (HeldOutcome::Dead, _) => format!("{id} is dead: that was its last attempt"),
        (HeldOutcome::Dropped, _) => format!("{id} is dropped: that was its last attempt"),
        (other, _) => format!("{id}: {other}"),
    }
}

/// Prints and finishes each delivery as it falls due, until it is interrupted.
pub(super) async fn tail(args: &TailArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    // A fault at the beginning is told; later ones are waited out.
    let mut stream = client.queues().stream(&args.queue, args.credits).await?;
    loop {
        let follows = follow(&mut stream, args, client, out);
        let ended = match signals.unless_asked(follows).await {
            None => return Ok(ExitCode::SUCCESS),
            Some(ended) => ended,
        };
        match ended {
            Err(fault) if !fault.downcast_ref::<ClientError>().is_some_and(ClientError::is_retryable) => return Err(fault),
            _ => eprintln!("The stream has ended; waiting for the server."),
        }
        let opens = async {
            loop {
                tokio::time::sleep(AGAIN).await;
                match client.queues().stream(&args.queue, args.credits).await {
                    Err(fault) if fault.is_retryable() => {}
                    opened => return opened,
                }
            }
        };
        stream = match signals.unless_asked(opens).await {
            None => return Ok(ExitCode::SUCCESS),
            Some(opened) => opened?,
        };
    }
}

async fn follow(stream: &mut DeliveryStream, args: &TailArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    while let Some(claimed) = stream.next().await? {
        out.text(&if out.is_json() { serde_json::to_string(&claimed)? } else { line(&claimed) })?;
        let settled = client.queues().ack(&args.queue, &claimed).await?;
        if settled.outcome == HeldOutcome::Stale {
            eprintln!("{}; it may be printed again", sentence(&settled));
        }
    }
    Ok(())
}

fn line(claimed: &Claimed) -> String {
    let to = claimed.to.as_ref().map(|to| format!("{to}: ")).unwrap_or_default();
    let carried = payload(claimed.json.as_deref(), claimed.base64.as_deref(), usize::MAX);
    format!("{}  {}  {to}{carried}", claimed.due, claimed.id)
}
