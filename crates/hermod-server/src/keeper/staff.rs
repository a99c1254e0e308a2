//! Workers that are silent are found, and what they had goes to others, without anybody asking.
//!
//! Where all workers of a queue are known (one partition of it) is looked at every now and then; only when a worker's lease
//! is over, there or in any other partition as far as is known, are all partitions told to look for themselves. Every server does it: to
//! move what was moved does nothing.
//!
//! Who lives is told by a task of its own: it must not wait for what is moved, nor for another queue whose store does not answer.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hermod_core::queue::{Mode, Queue};
use hermod_core::{Micros, QueueId, SpaceId};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::app::{App, GRACE};

/// So often a queue is looked at if no lease ends before. Less than [`GRACE`]: that a stream was closed on another server must be noticed in time
/// by whoever has another stream of the same worker.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// And not more often than this.
const LOOK_LEAST: Duration = Duration::from_millis(20);
/// So long a queue's recipients are moved at once.
const TURN: Duration = Duration::from_millis(100);
/// So often the queues themselves are looked at.
const QUEUES_EVERY: Duration = Duration::from_millis(250);
/// The store is told of who lives at least so often, and at most.
const RENEW_EVERY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

type Name = (SpaceId, QueueId);

/// Keeps at it until the server ends.
pub(super) async fn run(app: App) {
    let (mut kept, mut tasks) = (HashSet::new(), JoinSet::new());
    loop {
        for name in sticky_queues(&app) {
            if kept.insert(name.clone()) {
                let (app, name) = (app.clone(), name);
                tasks.spawn(async move {
                    // A fault of ours ends it for the moment, and not for good.
                    let kept = async { tokio::join!(renew(&app, &name), look_after(&app, &name)) };
                    let _ended = AssertUnwindSafe(kept).catch_unwind().await;
                    name
                });
            }
        }
        tokio::select! {
            Some(Ok(ended)) = tasks.join_next() => drop(kept.remove(&ended)),
            () = sleep(QUEUES_EVERY) => {}
            () = app.stopping() => break,
        }
    }
    while tasks.join_next().await.is_some() {}
}

fn sticky_queues(app: &App) -> Vec<Name> {
    let of = |(space, queues): (SpaceId, Vec<Arc<Queue>>)| {
        let sticky = queues.into_iter().filter(|queue| queue.mode == Mode::Sticky);
        sticky.map(move |queue| (space.clone(), queue.id.clone())).collect::<Vec<_>>()
    };
    app.catalog.all_queues().into_iter().flat_map(of).collect()
}

/// The queue as it is now, if it is still there.
fn sticky(app: &App, (space, id): &Name) -> Option<Arc<Queue>> {
    app.catalog.queue(space, id).filter(|queue| queue.mode == Mode::Sticky && !app.is_stopping())
}

/// Tells the store who lives.
async fn renew(app: &App, name: &Name) {
    while let Some(queue) = sticky(app, name) {
        let began = Instant::now();
        let every = if app.renew_staff(&name.0, &queue).await {
            (queue.worker_ttl.to_duration() / 5).clamp(RENEW_EVERY.0, RENEW_EVERY.1)
        } else {
            RENEW_EVERY.0
        };
        tokio::select! {
            () = sleep_until((began + every).max(Instant::now() + LOOK_LEAST)) => {}
            () = app.stopping() => {}
        }
    }
}

/// Finds who is silent, and moves what they had.
async fn look_after(app: &App, name: &Name) {
    // When a worker's lease ends, in any partition. Before all were asked once nothing is known.
    let (mut end, mut is_new) = (None, true);
    while let Some(queue) = sticky(app, name) {
        let left = app.left_unmoved();
        let wait = look(app, name, &queue, &mut end, &mut is_new).await;
        tokio::select! {
            () = sleep(wait) => {}
            () = left => {}
            () = app.stopping() => {}
        }
    }
}

/// Looks once, and does what is due; how long it is until the next look.
async fn look(app: &App, name: &Name, queue: &Queue, end: &mut Option<Micros>, is_new: &mut bool) -> Duration {
    let (space, _) = name;
    let looked = app.look_at_staff(space, queue).await;
    let is_known = looked.is_ok();
    // One partition that does not answer must not keep the others from being looked after.
    let (now, home_end, is_more) = looked.unwrap_or_else(|_| (app.store_now(), None, false));
    if home_end.is_some_and(|end| end.since(now).to_duration() <= GRACE) {
        // A stream may have been closed on another server, of a worker that has one here.
        app.renew_staff(space, queue).await;
    }
    if is_more || *is_new || app.is_unmoved(name) || end.is_some_and(|end| end <= now) {
        *end = app.tend(space, queue, TURN).await;
        *is_new &= !is_known;
    }
    *end = (*end).into_iter().chain(home_end).min();
    end.map_or(LOOK_EVERY, |end| (end.since(now).to_duration() + Duration::from_millis(1)).clamp(LOOK_LEAST, LOOK_EVERY))
}
