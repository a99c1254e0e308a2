//! queue: deliveries as they fall due, for as long as somebody listens.
//!
//! Who listens holds at most as many as they have credits; their leases are renewed while the connection stands,
//! and given back at once when it does not. That was an attempt, unless it is the server that ends: a restart must use
//! up nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hermod_catalog::Scope;
use hermod_core::queue::settle::Outcome;
use hermod_core::queue::{DeliveryId, Queue, Token};
use hermod_core::{Invalid, Micros, SpaceId, WorkerId};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use super::claim::check_worker;
use super::{AGAIN, App, Caller, ClaimAsk, SettleAsk, Taken};
use crate::code::{Code, Problem};

/// So many deliveries can be held by one who listens.
const CREDITS_MAX: usize = 1_000;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct StreamAsk {
    credits: usize,
    lease: Option<Micros>,
    /// Who listens, and in which of its lives; none: in a new one.
    worker: Option<(WorkerId, Option<u64>)>,
}

impl StreamAsk {
    /// Checks what came from outside.
    pub fn new(credits: Option<u64>, lease: Option<Micros>) -> Result<StreamAsk, Invalid> {
        let credits = usize::try_from(credits.unwrap_or(1)).unwrap_or(usize::MAX);
        if credits == 0 || credits > CREDITS_MAX {
            return Err(Invalid::new("credits", format!("must be between 1 and {CREDITS_MAX}")));
        }
        // The same bounds as of a claim.
        let lease = ClaimAsk::new(None, lease, None)?.lease;
        Ok(StreamAsk { credits, lease, worker: None })
    }

    /// It is a worker that listens. Without an incarnation it registers first.
    #[must_use]
    pub fn by(mut self, worker: Option<(WorkerId, Option<u64>)>) -> StreamAsk {
        self.worker = worker;
        self
    }
}

/// What one who listens holds.
#[derive(Debug, Default)]
pub(super) struct Holds {
    held: Mutex<HashMap<DeliveryId, Token>>,
    freed: Notify,
}

impl Holds {
    /// It is settled, by whomever.
    pub(super) fn release(&self, id: DeliveryId) {
        if self.held.lock().remove(&id).is_some() {
            self.freed.notify_one();
        }
    }

    fn all(&self) -> Vec<(DeliveryId, Token)> {
        self.held.lock().iter().map(|(id, token)| (*id, *token)).collect()
    }
}

impl App {
    /// Sends deliveries as they fall due, until nobody receives them any more, the caller's key or the queue is deleted, or the server ends;
    /// and how often a worker must be asked whether it is there, if it is one.
    pub async fn stream(
        &self,
        caller: &Caller,
        queue: &str,
        ask: StreamAsk,
    ) -> Result<(mpsc::Receiver<Vec<Taken>>, Option<Duration>), Problem> {
        caller.need(Scope::QueuesClaim)?;
        let queue = self.queue_of(caller, queue).await?;
        check_worker(&queue, ask.worker.is_some())?;
        let worker = match ask.worker.clone() {
            None => None,
            Some((worker, Some(incarnation))) => {
                self.hear(&caller.space, &queue, &worker, incarnation).await?;
                Some((worker, incarnation))
            }
            Some((worker, None)) => {
                let registered = self.register(caller, queue.id.as_str(), worker.as_str(), None).await?;
                Some((worker, registered.incarnation))
            }
        };
        let (send, receive) = mpsc::channel(1);
        // One that does not answer is noticed at the second time, within what silence has.
        let asked_every = worker.as_ref().map(|_| queue.worker_ttl.to_duration() / 3);
        tokio::spawn(feed(self.clone(), caller.clone(), queue, ask, worker, send));
        Ok((receive, asked_every))
    }
}

/// Hands out what falls due to one who listens.
async fn feed(
    app: App,
    caller: Caller,
    queue: Arc<Queue>,
    ask: StreamAsk,
    worker: Option<(WorkerId, u64)>,
    send: mpsc::Sender<Vec<Taken>>,
) {
    let space = &caller.space;
    let revoked = || app.revoked(&caller, Scope::QueuesClaim);
    let is_revoked = || app.need_still(&caller, Scope::QueuesClaim).is_err();
    let is_deleted = || app.catalog.queue(space, &queue.id).is_none();
    let present = worker.as_ref().map(|(worker, incarnation)| app.present(space, &queue.id, worker, *incarnation));
    let unfinished = app.unfinished();
    let holds = Arc::new(Holds::default());
    let watch = app.watches.of(space, &queue.id);
    let own = worker.as_ref().map(|(worker, _)| app.watches.of_worker(space, &queue.id, worker.as_str()));
    let lease = ask.lease.unwrap_or(queue.lease);
    let renew_every = lease.to_duration() / 3;
    let mut renew_at = Instant::now() + renew_every;
    while !send.is_closed() && !app.is_stopping() && !is_revoked() && !is_deleted() {
        if Instant::now() >= renew_at {
            renew_at = Instant::now() + renew_every;
            renew(&app, space, &queue, lease, &holds).await;
        }
        let room = ask.credits - holds.held.lock().len().min(ask.credits);
        if room == 0 {
            // Another life of this worker, or its end, is told to whoever watches what it has.
            let told = own.as_ref().map(|own| own.earlier());
            if let Some((worker, incarnation)) = &worker
                && app.hear(space, &queue, worker, *incarnation).await.is_err_and(|problem| problem.code == Code::WorkerGone)
            {
                break;
            }
            tokio::select! {
                () = holds.freed.notified() => {}
                () = async { told.expect("it is a worker's").await }, if told.is_some() => {}
                () = send.closed() => {}
                () = revoked() => {}
                () = app.stopping() => {}
                () = sleep_until(renew_at) => {}
            }
            continue;
        }
        let wait = renew_at.saturating_duration_since(Instant::now());
        let claim = ClaimAsk { count: room, lease: Some(lease), wait, worker: worker.clone() };
        let gone = async {
            tokio::select! {
                () = send.closed() => {}
                () = revoked() => {}
            }
        };
        let taken = match app.claim_until(space, &queue, &claim, gone).await {
            Ok(taken) => taken,
            // It must register again.
            Err(problem) if problem.code == Code::WorkerGone => break,
            Err(problem) => {
                tracing::debug!(queue = queue.id.as_str(), code = problem.code.text(), "a stream waits for the store");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        if taken.is_empty() {
            continue;
        }
        if is_revoked() {
            app.put_back(space, &queue, &taken).await;
            break;
        }
        {
            let mut held = holds.held.lock();
            for one in &taken {
                held.insert(one.id, one.handed.token);
                watch.hold(one.id, &holds);
            }
        }
        // One who reads slowly has a connection that stands, and so what he holds is renewed.
        let room = loop {
            tokio::select! {
                room = send.reserve() => break room.ok(),
                () = revoked() => break None,
                () = app.stopping() => break None,
                () = sleep_until(renew_at) => {
                    renew_at = Instant::now() + renew_every;
                    renew(&app, space, &queue, lease, &holds).await;
                }
            }
        };
        let Some(room) = room else { break };
        room.send(taken);
    }
    let held = holds.all();
    watch.let_go(held.iter().map(|(id, _)| *id));
    let ask = if app.is_stopping() { SettleAsk::Return } else { SettleAsk::GiveBack };
    app.give_back(space, &queue, ask, held).await;
    drop((present, unfinished));
    if let Some((worker, incarnation)) = worker.filter(|_| !app.is_stopping()) {
        app.closed(space, &queue, &worker, incarnation).await;
    }
}

/// Keeps what is held; what cannot be kept was settled elsewhere.
async fn renew(app: &App, space: &SpaceId, queue: &Queue, lease: Micros, holds: &Holds) {
    let held = holds.all();
    let Ok(outcomes) = app.settle_in(space, queue, SettleAsk::Extend(Some(lease)), &held, None).await else { return };
    for ((id, _), outcome) in held.iter().zip(outcomes) {
        if outcome == Outcome::Stale {
            holds.release(*id);
        }
    }
}
