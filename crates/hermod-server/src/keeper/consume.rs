//! The server as a consumer: it logs, or it calls a webhook.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use hermod_core::Micros;
use hermod_core::SpaceId;
use hermod_core::queue::delivery::read_body;
use hermod_core::queue::{Push, Queue, Webhook};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::app::{AGAIN, App, ClaimAsk, SettleAsk, Taken};
use crate::push::{Endpoint, Parcel, Secret, Sent, Target};

/// So many are logged together.
const LOG_COUNT: usize = 100;
/// How long a claim waits before the catalog is looked at again.
const WAIT: Duration = Duration::from_secs(20);

/// Consumes one queue until it is told to end.
pub(super) async fn run(app: App, space: SpaceId, queue: Arc<Queue>, mut stopped: watch::Receiver<()>) {
    // Nobody waits for one whose queue was changed, and what it has sent must be settled before the store is closed.
    let _unfinished = app.unfinished();
    match &queue.push {
        Some(Push::Log) => log(&app, &space, &queue, stopped).await,
        Some(Push::Webhook(webhook)) => match endpoint(&space, webhook) {
            Some(endpoint) => send(&app, &space, &queue, Arc::new(endpoint), stopped).await,
            None => {
                tracing::warn!(queue = queue.id.as_str(), "the webhook's address cannot be used; correct the queue");
                told(&mut stopped).await;
            }
        },
        None => {}
    }
}

/// Ends when this consumer is to end: whoever could say otherwise is gone.
async fn told(stopped: &mut watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}

/// The next ones to work on; none when it is time to end, however many there are.
async fn next(
    app: &App,
    space: &SpaceId,
    queue: &Queue,
    count: usize,
    wait: Duration,
    stopped: &mut watch::Receiver<()>,
) -> Option<Vec<Taken>> {
    if app.is_stopping() || stopped.has_changed().is_err() {
        return None;
    }
    let ask = ClaimAsk { count, lease: None, wait, worker: None };
    match app.claim_until(space, queue, &ask, told(stopped)).await {
        Ok(taken) => Some(taken),
        Err(problem) => {
            tracing::debug!(queue = queue.id.as_str(), code = problem.code.text(), "the store does not hand out deliveries");
            tokio::time::sleep(AGAIN).await;
            Some(Vec::new())
        }
    }
}

async fn log(app: &App, space: &SpaceId, queue: &Queue, mut stopped: watch::Receiver<()>) {
    while let Some(taken) = next(app, space, queue, LOG_COUNT, WAIT, &mut stopped).await {
        let mut held = Vec::with_capacity(taken.len());
        let mut lines = Vec::new();
        for one in &taken {
            if let Some((_, payload)) = read_body(&one.handed.body) {
                lines.extend_from_slice(format!("{} {} ", queue.id, one.id).as_bytes());
                lines.extend_from_slice(payload);
                lines.push(b'\n');
            }
            held.push((one.id, one.handed.token));
        }
        // Printed before it is finished: after a crash in between it is printed again, and not lost.
        if print(lines).await {
            app.settle_at_last(space, queue, SettleAsk::Ack, &held).await;
        } else {
            app.settle_at_last(space, queue, SettleAsk::Nack(None), &held).await;
        }
    }
}

/// Prints to standard output; whether that went well. It may be a pipe that somebody reads slowly.
async fn print(lines: Vec<u8>) -> bool {
    let print = move || {
        let mut out = std::io::stdout().lock();
        out.write_all(&lines).and_then(|()| out.flush()).is_ok()
    };
    tokio::task::spawn_blocking(print).await.unwrap_or(false)
}

fn endpoint(space: &SpaceId, webhook: &Webhook) -> Option<Endpoint> {
    let secrets = webhook.secrets.iter().map(|secret| secret.key().and_then(|key| Secret::from_bytes(&key).ok()));
    Some(Endpoint {
        space: space.as_str().to_owned(),
        url: Target::parse(&webhook.url).ok()?,
        secrets: secrets.collect::<Option<_>>()?,
        timeout: webhook.timeout.to_duration(),
        concurrency: usize::try_from(webhook.concurrency).unwrap_or(1),
    })
}

/// Claims as many as can be sent at once, and sends them beside each other.
async fn send(app: &App, space: &SpaceId, queue: &Arc<Queue>, endpoint: Arc<Endpoint>, mut stopped: watch::Receiver<()>) {
    let mut sending = JoinSet::new();
    loop {
        while sending.try_join_next().is_some() {}
        // A receiver that is gone gets no more, also before the keeper looks again.
        if app.catalog.queue(space, &queue.id).is_none_or(|known| known.disabled.is_some()) {
            break;
        }
        if let Some(ready_at) = app.sender.ready_at(&endpoint) {
            // It rests after failures: nothing is claimed that could not be sent.
            tokio::select! {
                () = sleep_until(ready_at) => continue,
                () = told(&mut stopped) => break,
                () = app.stopping() => break,
            }
        }
        let room = app.sender.room(&endpoint).min(endpoint.concurrency.saturating_sub(sending.len()));
        if room == 0 {
            tokio::select! {
                _ = sending.join_next(), if !sending.is_empty() => continue,
                () = tokio::time::sleep(AGAIN), if sending.is_empty() => continue,
                () = told(&mut stopped) => break,
            }
        }
        // Who is under way may free a place, or fail: look again then.
        let wait = if sending.is_empty() { WAIT } else { Duration::from_millis(50) };
        let Some(taken) = next(app, space, queue, room, wait, &mut stopped).await else { break };
        for one in taken {
            sending.spawn(deliver(app.clone(), space.clone(), Arc::clone(queue), Arc::clone(&endpoint), one));
        }
    }
    // Those under way finish: their leases are longer than their requests.
    while sending.join_next().await.is_some() {}
}

async fn deliver(app: App, space: SpaceId, queue: Arc<Queue>, endpoint: Arc<Endpoint>, taken: Taken) {
    let held = [(taken.id, taken.handed.token)];
    let Some((meta, payload)) = read_body(&taken.handed.body) else { return };
    let id = taken.id.to_string();
    let attempt = u32::from(taken.handed.attempt);
    let held_for = taken.handed.until.since(app.store_now()).to_duration();
    let parcel = Parcel { id: &id, at: app.now(), body: payload, is_json: meta.is_json, attempt, held_for, queue: queue.id.as_str() };
    let ask = match app.sender.send(&endpoint, &parcel).await {
        Sent::Accepted { .. } => SettleAsk::Ack,
        Sent::Refused { status, why, retry_after } => {
            tracing::debug!(queue = queue.id.as_str(), id, attempt, status, why, "a webhook did not take a delivery");
            SettleAsk::Nack(retry_after.and_then(Micros::from_duration))
        }
        Sent::Held { .. } => SettleAsk::Return,
        Sent::Gone => {
            let why = "the receiver answered 410: it wants no more deliveries";
            match app.catalog.disable_queue(&space, &queue.id, queue.version, why).await {
                Ok(true) => tracing::warn!(queue = queue.id.as_str(), "{why}; the webhook is switched off until the queue is put again"),
                Ok(false) => {}
                Err(fault) => {
                    tracing::warn!(queue = queue.id.as_str(), error = %fault, "a webhook that is gone could not be switched off");
                    // It will be asked again, and it said that it does not want to be.
                    tokio::time::sleep(AGAIN).await;
                }
            }
            SettleAsk::Return
        }
    };
    app.settle_at_last(&space, &queue, ask, &held).await;
}
