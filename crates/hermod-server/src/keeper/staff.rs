//! Workers that are silent are found, and what they had goes to others, without anybody asking.
//!
//! Where all workers of a queue are known (one partition of it) is looked at every now and then; only when a worker's lease
//! is over are all partitions told to look for themselves. Every server does it: to move what was moved does nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hermod_core::queue::{Mode, Queue};
use hermod_core::{Micros, QueueId, SpaceId};
use tokio::time::Instant;

use crate::app::App;

/// So often a queue is looked at if no lease ends before.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// And not more often than this.
const LOOK_LEAST: Duration = Duration::from_millis(20);
/// So long a queue's recipients are moved at once. Meanwhile nobody is told who lives.
const TURN: Duration = Duration::from_millis(100);
/// So often the queues themselves are looked at.
const QUEUES_EVERY: Duration = Duration::from_millis(250);
/// The store is told of who lives at least so often, and at most.
const RENEW_EVERY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// What is known of one sticky queue.
#[derive(Clone, Debug)]
struct Known {
    look_at: Instant,
    renew_at: Instant,
    /// When a worker's lease ends; none: it was not looked at yet, or nobody works.
    end: Option<Micros>,
    is_new: bool,
}

/// Keeps at it until the server ends.
pub(super) async fn run(app: App) {
    let mut known: HashMap<(SpaceId, QueueId), Known> = HashMap::new();
    loop {
        let sticky = sticky_queues(&app);
        known.retain(|name, _| sticky.contains_key(name));
        let work = sticky.iter().map(|(name, queue)| {
            let now = Instant::now();
            let before = known.get(name).cloned().unwrap_or(Known { look_at: now, renew_at: now, end: None, is_new: true });
            one(&app, name, queue, before)
        });
        for (name, after) in join_all(work).await {
            known.insert(name, after);
        }
        let next = known.values().map(|known| known.look_at.min(known.renew_at)).min();
        let latest = Instant::now() + QUEUES_EVERY;
        tokio::select! {
            () = tokio::time::sleep_until(next.map_or(latest, |next| next.min(latest))) => {}
            () = app.left_unmoved() => {}
            () = app.stopping() => return,
        }
    }
}

fn sticky_queues(app: &App) -> HashMap<(SpaceId, QueueId), Arc<Queue>> {
    let mut sticky = HashMap::new();
    for (space, queues) in app.catalog.all_queues() {
        for queue in queues.into_iter().filter(|queue| queue.mode == Mode::Sticky) {
            sticky.insert((space.clone(), queue.id.clone()), queue);
        }
    }
    sticky
}

/// Does what is due for one queue. Those who live are told of first: after an outage nobody is taken for silent who is not.
async fn one(app: &App, name: &(SpaceId, QueueId), queue: &Queue, mut known: Known) -> ((SpaceId, QueueId), Known) {
    let (space, _) = name;
    if Instant::now() >= known.renew_at {
        app.renew_staff(space, queue).await;
        known.renew_at = Instant::now() + (queue.worker_ttl.to_duration() / 5).clamp(RENEW_EVERY.0, RENEW_EVERY.1);
    }
    if Instant::now() >= known.look_at || app.is_unmoved(name) {
        let mut sleep = LOOK_EVERY;
        if let Ok((now, mut next_end, is_more)) = app.look_at_staff(space, queue).await {
            if is_more || known.is_new || app.is_unmoved(name) || known.end.is_some_and(|end| end <= now) {
                next_end = app.tend(space, queue, TURN).await.into_iter().chain(next_end).min();
            }
            (known.end, known.is_new) = (next_end, false);
            if let Some(end) = next_end {
                sleep = (end.since(now).to_duration() + Duration::from_millis(1)).clamp(LOOK_LEAST, LOOK_EVERY);
            }
        }
        known.look_at = Instant::now() + sleep;
    }
    (name.clone(), known)
}
