//! `hermod queues claim`, `tail`, `ack`, `nack` and `extend`: taking deliveries out, and saying what became of them.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hermod_client::{ClaimRequest, Claimed, Client, ClientError, DeliveryStream, Held, HeldOutcome, SettledDelivery, WorkerState};
use serde::Serialize;

use super::look::payload;
use crate::noun::WriteArgs;
use crate::output::{Output, or_dash, table};
use crate::signals::{self, Signals};

pub(super) const CLAIM_HELP: &str = "\
What is printed is held until its lease ends; with --ack it is finished once it is printed.

Exit codes: 0 there was something, 1 there was nothing (or --ack came too late, or nobody read it), 2 error.

Examples:
  hermod queues claim mail --count 10 --wait 20s --json
  hermod queues ack mail dl_... 1700000000000000
  hermod queues claim inbox --worker w1

With --worker it registers first, which gives back what that worker held. The incarnation is printed: with it the
next claim goes on where this one ended. A worker that claims no more lives for the queue's worker_ttl.";

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
    /// As this worker of a sticky queue.
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// In which of its lives; without it, it registers first.
    #[arg(long, value_name = "N", requires = "worker")]
    incarnation: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The queue's name.
    queue: String,
    /// How many may be on their way at once, 1-1000.
    #[arg(long, value_name = "N", default_value_t = 1)]
    credits: u32,
    /// As this worker of a sticky queue. It registers, and leaves when it is interrupted.
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<u64>,
}

pub(super) async fn claim(args: &ClaimArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let mut request = ClaimRequest::new(args.count).wait(args.wait.unwrap_or_default());
    request.lease = args.lease;
    let incarnation = match (&args.worker, args.incarnation) {
        (Some(worker), None) => Some(client.queues().register(&args.queue, worker, None).await?.incarnation),
        (_, given) => given,
    };
    (request.worker, request.incarnation) = (args.worker.clone(), incarnation);
    let claimed = client.queues().claim(&args.queue, &request).await?;
    let nothing = || "nothing is due".to_owned();
    let handed = Handed { deliveries: &claimed, incarnation };
    let is_read = out.is_answer_read(&handed, |_| if claimed.is_empty() { nothing() } else { rows(&claimed) })?;
    if let Some((worker, incarnation)) = args.worker.as_ref().zip(incarnation) {
        out.remark(&format!("{worker} is incarnation {incarnation}"))?;
    }
    if claimed.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if !args.ack {
        return Ok(ExitCode::SUCCESS);
    }
    if !is_read {
        eprintln!("Nobody reads what was claimed, so it is not finished; it comes again when its lease ends.");
        return Ok(ExitCode::FAILURE);
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

/// Who listens, and in which of its lives.
struct Listener<'a> {
    args: &'a TailArgs,
    client: &'a Client,
    incarnation: Option<u64>,
}

impl Listener<'_> {
    async fn open(&mut self) -> Result<DeliveryStream, ClientError> {
        let (queues, queue, credits) = (self.client.queues(), &self.args.queue, self.args.credits);
        let Some(worker) = &self.args.worker else { return queues.stream(queue, credits).await };
        let incarnation = match self.incarnation {
            Some(incarnation) => match queues.heartbeat(queue, worker, incarnation).await {
                // Two of one name would end each other for ever: the later one stays.
                Err(gone) if gone.is_worker_gone() && self.is_replaced(worker, incarnation).await? => return Err(gone),
                Err(gone) if gone.is_worker_gone() => queues.register(queue, worker, None).await?.incarnation,
                beat => beat?.incarnation,
            },
            None => queues.register(queue, worker, None).await?.incarnation,
        };
        self.incarnation = Some(incarnation);
        queues.stream_by(queue, credits, worker, Some(incarnation)).await
    }

    async fn is_replaced(&self, worker: &str, incarnation: u64) -> Result<bool, ClientError> {
        let workers = self.client.queues().workers(&self.args.queue).await?;
        Ok(workers.items.iter().any(|other| other.worker == worker && other.incarnation > incarnation && other.state != WorkerState::Gone))
    }

    /// Others have its recipients at once. If nobody hears it, they have them a little later. Another signal ends it at once.
    async fn leave(&self, signals: &mut Signals) -> ExitCode {
        let Some((worker, incarnation)) = self.args.worker.as_ref().zip(self.incarnation) else { return ExitCode::SUCCESS };
        let queues = self.client.queues();
        match signals.unless_asked(queues.leave(&self.args.queue, worker, Some(incarnation))).await {
            Some(_) => ExitCode::SUCCESS,
            None => signals::interrupted(),
        }
    }
}

/// Prints and finishes each delivery as it falls due, until it is interrupted or nobody reads any more.
pub(super) async fn tail(args: &TailArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let mut listener = Listener { args, client, incarnation: None };
    // A fault at the beginning is told; later ones are waited out.
    let Some(opened) = signals.unless_asked(listener.open()).await else { return Ok(listener.leave(&mut signals).await) };
    let mut stream = opened?;
    loop {
        let follows = follow(&mut stream, args, client, out);
        let ended = match signals.unless_asked(follows).await {
            None => break,
            Some(ended) => ended,
        };
        match ended {
            Ok(Ended::Unread) => break,
            Err(fault) if !fault.downcast_ref::<ClientError>().is_some_and(ClientError::is_retryable) => return Err(fault),
            _ => eprintln!("The stream has ended; waiting for the server."),
        }
        let opens = async {
            loop {
                tokio::time::sleep(AGAIN).await;
                match listener.open().await {
                    Err(fault) if fault.is_retryable() => {}
                    opened => return opened,
                }
            }
        };
        stream = match signals.unless_asked(opens).await {
            None => break,
            Some(opened) => opened?,
        };
    }
    drop(stream);
    Ok(listener.leave(&mut signals).await)
}

/// Why there is nothing more to print.
enum Ended {
    /// The server has ended the stream.
    Stream,
    /// Nobody reads any more. What was not read is not finished.
    Unread,
}

async fn follow(stream: &mut DeliveryStream, args: &TailArgs, client: &Client, out: Output) -> anyhow::Result<Ended> {
    while let Some(claimed) = stream.next().await? {
        let text = if out.is_json() { serde_json::to_string(&claimed)? } else { line(&claimed) };
        if !out.is_read(&on_one_line(&text))? {
            return Ok(Ended::Unread);
        }
        let settled = client.queues().ack(&args.queue, &claimed).await?;
        if settled.outcome == HeldOutcome::Stale {
            eprintln!("{}; it may be printed again", sentence(&settled));
        }
    }
    Ok(Ended::Stream)
}

fn line(claimed: &Claimed) -> String {
    let to = claimed.to.as_ref().map(|to| format!("{to}: ")).unwrap_or_default();
    let carried = payload(claimed.json.as_deref(), claimed.base64.as_deref(), usize::MAX);
    format!("{}  {}  {to}{carried}", claimed.due, claimed.id)
}

/// The same without line breaks, which a payload has if it was written with some. JSON has them between its parts only, so that what
/// is taken out here, and the blanks around it, mean nothing.
fn on_one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_many_lines_is_printed_on_one_and_stays_what_it_is() {
        let payload = "{\n  \"say\": \"two\\nlines,  two blanks\",\r\n\r  \"n\": 12345678901234567890.10\n}";
        let claimed: Claimed = serde_json::from_str(&format!(
            r#"{{"id":"dl_1","token":7,"attempt":1,"due":"2026-02-03T04:05:06.789Z","lease_until":"2026-02-03T04:05:36.789Z",
            "payload":{payload}}}"#
        ))
        .unwrap();
        let shown = r#"{ "say": "two\nlines,  two blanks", "n": 12345678901234567890.10 }"#;
        for text in [serde_json::to_string(&claimed).unwrap(), line(&claimed)] {
            let text = on_one_line(&text);
            assert!(text.lines().count() == 1 && text.contains(shown), "{text}");
        }
        assert_eq!(on_one_line("7"), "7");
    }
}
