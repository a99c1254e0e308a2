//! `hermod queues workers`, `explain`, `drain` and `pin`: who has whom in a sticky queue.

use std::time::Duration;

use clap::Args;
use hermod_client::{Client, Recipient, Worker, WorkerState, Workers};

use crate::noun::WriteArgs;
use crate::output::{Output, table};

pub(super) const EXPLAIN_HELP: &str = "\
Who has a recipient, since when and why, what it waits for, and who had it before.

Examples:
  hermod queues explain inbox did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp
  hermod queues explain inbox ann --json";

pub(super) const PIN_HELP: &str = "\
A preference: the recipient has that worker from its next delivery on and while it lives, another one while it does not.

Examples:
  hermod queues pin inbox ann w2
  hermod queues pin inbox ann --any";

/// How often somebody who waits for a worker looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A worker of a queue.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The queue's name.
    queue: String,
    /// The worker's name.
    worker: String,
    /// Wait until it holds nothing and has nobody any more; shows how far it has come.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true))]
pub(crate) struct PinArgs {
    /// The queue's name.
    queue: String,
    /// The recipient.
    recipient: String,
    /// The worker's name.
    #[arg(group = "whom")]
    worker: Option<String>,
    /// Pin it to nobody: it keeps the worker it has.
    #[arg(long, group = "whom")]
    any: bool,
    #[command(flatten)]
    write: WriteArgs,
}

pub(super) async fn list(queue: &str, client: &Client, out: Output) -> anyhow::Result<()> {
    out.answer(&client.queues().workers(queue).await?, rows)
}

fn rows(workers: &Workers) -> String {
    let lease = |worker: &Worker| match (workers.now, &worker.state, &worker.why) {
        (_, WorkerState::Gone, Some(why)) => why.to_string(),
        // By the server's clock on both sides, whatever this machine's says.
        (Some(now), ..) => {
            let left = worker.lease_until.to_system_time().duration_since(now.to_system_time()).unwrap_or_default();
            format!("{:.1}s", left.as_secs_f64())
        }
        (None, ..) => worker.lease_until.to_string(),
    };
    let text = table(
        ["WORKER", "STATE", "LEASE LEFT", "WEIGHT", "RECIPIENTS", "PENDING", "IN FLIGHT"],
        workers.items.iter().map(|worker| {
            let [weight, recipients] = [u64::from(worker.weight), worker.recipients].map(|count| count.to_string());
            let [pending, in_flight] = [worker.pending, worker.in_flight].map(|count| count.to_string());
            [worker.worker.clone(), worker.state.to_string(), lease(worker), weight, recipients, pending, in_flight]
        }),
    );
    format!("{text}\nparked: {}", workers.parked)
}

pub(super) async fn explain(queue: &str, recipient: &str, client: &Client, out: Output) -> anyhow::Result<()> {
    out.answer(&client.queues().explain(queue, recipient).await?, Recipient::to_string)
}

pub(super) async fn pin(args: &PinArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    let queues = args.write.on(client.queues());
    out.answer(&queues.pin(&args.queue, &args.recipient, args.worker.as_deref()).await?, Recipient::to_string)
}

pub(super) async fn drain(args: &DrainArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    let drained = client.queues().drain(&args.queue, &args.worker, None).await?;
    if !args.wait {
        return out.answer(&drained, |drained| format!("{} is {}", drained.worker, drained.state));
    }
    let mut told = None;
    loop {
        let workers = client.queues().workers(&args.queue).await?;
        let worker = workers.items.iter().find(|worker| worker.worker == args.worker && worker.state != WorkerState::Gone);
        let Some(worker) = worker else { return out.answer(&drained, |drained| format!("{} is gone", drained.worker)) };
        if worker.recipients == 0 && worker.in_flight == 0 {
            return out.answer(&drained, |drained| format!("{} is drained: it holds nothing, and has nobody any more", drained.worker));
        }
        let left = (worker.recipients, worker.in_flight);
        if told != Some(left) && !out.is_json() {
            eprintln!("{} has {} recipients to hand over, and {} deliveries in flight", worker.worker, worker.recipients, worker.in_flight);
        }
        told = Some(left);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_what_is_left_of_leases_by_the_servers_clock() {
        let text = r#"{"items":[{"worker":"w1","incarnation":7,"state":"live","lease_until":"2026-02-03T04:05:18.500Z",
            "weight":1,"recipients":3,"pending":9,"in_flight":1},{"worker":"w2","incarnation":8,"state":"gone","why":"silent",
            "lease_until":"2026-02-03T04:05:00.000Z","weight":16,"recipients":0,"pending":0,"in_flight":0}],
            "parked":4,"now":"2026-02-03T04:05:06.000Z"}"#;
        let shown = rows(&serde_json::from_str(text).unwrap());
        let lines: Vec<&str> = shown.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "w1      live   12.5s       1       3           9        1",
                "w2      gone   silent      16      0           0        0",
                "parked: 4"
            ]
        );
    }
}
