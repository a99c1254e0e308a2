//! What the server does by itself: it consumes the queues that say so, creates the deliveries that recur, and finds workers that
//! are silent.
//!
//! Every server does all of it and none leads: a claim hands a delivery to one of them, and a run of a schedule has
//! a key of its own, under which it is pushed once.

mod consume;
mod crew;
mod plays;
mod recur;
mod staff;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hermod_core::queue::Queue;
use hermod_core::{QueueId, SpaceId};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;

/// So often the catalog is looked at: a change of it is seen within a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// One queue that this server consumes.
#[derive(Debug)]
struct Consumer {
    queue: Arc<Queue>,
    /// Dropped, it tells the consumer to end.
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

/// Keeps at it until the server ends.
pub(crate) async fn keep(app: App) {
    let mut consumers: HashMap<(SpaceId, QueueId), Consumer> = HashMap::new();
    let (staff, plays, runs) = (lasting(&app, staff::run), lasting(&app, plays::run), lasting(&app, recur::run));
    loop {
        consume_all(&app, &mut consumers);
        app.forget_gone();
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = app.stopping() => break,
        }
    }
    let _ended = (staff.await, plays.await, runs.await);
    for (_, consumer) in consumers {
        drop(consumer.stop);
        let _ended = consumer.task.await;
    }
}

/// Work that goes on until the server ends, also after a fault of ours.
fn lasting<W: Future<Output = ()> + Send + 'static>(app: &App, work: fn(App) -> W) -> JoinHandle<()> {
    let app = app.clone();
    tokio::spawn(async move {
        while let Err(fault) = tokio::spawn(work(app.clone())).await {
            tracing::error!(error = %fault, "what the server does by itself failed, and is begun again");
            tokio::time::sleep(LOOK_EVERY).await;
            if app.is_stopping() {
                return;
            }
        }
    })
}

/// Starts what is wanted and not there, ends what is there and not wanted, or wanted otherwise.
fn consume_all(app: &App, consumers: &mut HashMap<(SpaceId, QueueId), Consumer>) {
    let mut wanted = HashMap::new();
    for (space, queues) in app.catalog.all_queues() {
        for queue in queues.into_iter().filter(|queue| queue.push.is_some() && queue.disabled.is_none()) {
            wanted.insert((space.clone(), queue.id.clone()), queue);
        }
    }
    // Compared as a whole: one that was deleted and made again has the same version.
    consumers.retain(|name, consumer| wanted.get(name).is_some_and(|queue| **queue == *consumer.queue) && !consumer.task.is_finished());
    for (name, queue) in wanted {
        if consumers.contains_key(&name) {
            continue;
        }
        let (stop, stopped) = watch::channel(());
        let task = tokio::spawn(consume::run(app.clone(), name.0.clone(), Arc::clone(&queue), stopped));
        consumers.insert(name, Consumer { queue, stop, task });
    }
}
