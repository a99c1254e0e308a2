//! queue: whoever pushed a delivery waits for what its holder replies.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hermod_core::queue::{Delivery, DeliveryId, Fetch, Fetched, Replied};
use hermod_core::{Micros, Once, Outcome, QueueId, SpaceId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::claim::Waits;
use super::{App, Caller, PushAnswer};
use crate::code::{Code, Problem};

/// Who waits looks again after so long at the latest, in case a signal was lost.
const HEAL_EVERY: Duration = Duration::from_millis(500);

/// Whoever waits for a reply.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    waiting: Mutex<HashMap<(SpaceId, QueueId, DeliveryId), Arc<Notify>>>,
}

impl Replies {
    /// There is a reply to this delivery.
    pub(super) fn tell(&self, space: &SpaceId, queue: &QueueId, id: DeliveryId) {
        let waiting = self.waiting.lock();
        if let Some(notify) = waiting.get(&(space.clone(), queue.clone(), id)) {
            notify.notify_one();
        }
    }
}

/// Somebody waits; when dropped, nobody does any more.
struct Waiting<'a> {
    replies: &'a Replies,
    name: (SpaceId, QueueId, DeliveryId),
    notify: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn new(replies: &'a Replies, name: (SpaceId, QueueId, DeliveryId)) -> Waiting<'a> {
        let notify = Arc::clone(replies.waiting.lock().entry(name.clone()).or_default());
        Waiting { replies, name, notify }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.replies.waiting.lock().remove(&self.name);
    }
}

impl App {
    /// Pushes a delivery and waits for what its holder replies when it is done.
    ///
    /// The reply is kept for as long as the caller may wait; who has it has taken it.
    pub async fn push_and_wait(
        &self,
        caller: &Caller,
        queue: &str,
        mut delivery: Delivery,
        timeout: Micros,
        once: Option<&Once>,
    ) -> Result<(PushAnswer, Replied), Problem> {
        let deadline = Instant::now() + timeout.to_duration();
        delivery.reply = Some(timeout);
        let pushed = self.push(caller, queue, vec![delivery], once).await?;
        let pushed = pushed.into_iter().next().ok_or_else(|| Problem::new(Code::Internal, "Nothing was pushed."))??;
        let queue = self.queue_of(caller, queue).await?;
        let (space, id) = (&caller.space, pushed.id);
        // The signals of other servers are followed meanwhile.
        let _follows = Waits::new(self, space, &queue, &self.watches.of(space, &queue.id));
        let waiting = Waiting::new(&self.replies, (space.clone(), queue.id.clone(), id));
        loop {
            let place = hermod_core::Place { space: space.clone(), partition: id.partition };
            let fetched = self.engine.run(&Fetch::new(place, queue.id.clone(), id.number), None).await;
            let is_over = Instant::now() >= deadline || self.is_stopping();
            match fetched.map(|fetched| fetched.outcome) {
                Ok(Outcome::Done(Fetched { reply: Some(reply), .. }) | Outcome::Replayed(Fetched { reply: Some(reply), .. })) => {
                    return Ok((pushed, reply));
                }
                Err(fault) if is_over => return Err(fault.into()),
                // What was pushed is there: a store that is away for a moment is asked again.
                Ok(_) | Err(_) => {}
            }
            if is_over {
                let late =
                    format!("Nobody has replied to {id} in time. If it is still there, it stays; what is replied from now on is lost.");
                return Err(Problem::new(Code::ReplyTimeout, late));
            }
            tokio::select! {
                () = waiting.notify.notified() => {}
                () = sleep_until(deadline.min(Instant::now() + HEAL_EVERY)) => {}
                () = self.stopping() => {}
            }
        }
    }
}
