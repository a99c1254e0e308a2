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

/// A delivery, among those of all queues.
type Name = (SpaceId, QueueId, DeliveryId);

/// Whoever waits for a reply.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// For each delivery how they are told, and how many they are: of one key several may wait for the same.
    waiting: Mutex<HashMap<Name, (Arc<Notify>, usize)>>,
}

impl Replies {
    /// There is a reply to this delivery.
    pub(super) fn tell(&self, space: &SpaceId, queue: &QueueId, id: DeliveryId) {
        let waiting = self.waiting.lock();
        if let Some((notify, _)) = waiting.get(&(space.clone(), queue.clone(), id)) {
            notify.notify_one();
        }
    }
}

/// Somebody waits; when dropped, they do not any more.
struct Waiting<'a> {
    replies: &'a Replies,
    name: Name,
    notify: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn new(replies: &'a Replies, name: Name) -> Waiting<'a> {
        let mut waiting = replies.waiting.lock();
        let (notify, many) = waiting.entry(name.clone()).or_default();
        *many += 1;
        Waiting { replies, name, notify: Arc::clone(notify) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.replies.waiting.lock();
        let Some((_, many)) = waiting.get_mut(&self.name) else { return };
        *many -= 1;
        if *many == 0 {
            waiting.remove(&self.name);
        }
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn who_gives_up_takes_nothing_from_another_who_waits() {
        let replies = Replies::default();
        let (space, queue, id) = (SpaceId::default_space(), QueueId::new("q").unwrap(), DeliveryId { partition: 1, number: 7 });
        let wait = || Waiting::new(&replies, (space.clone(), queue.clone(), id));
        let (first, second) = (wait(), wait());
        drop(first);
        replies.tell(&space, &queue, id);
        assert!(second.notify.notified().now_or_never().is_some(), "there is a reply");
        drop(second);
        assert!(replies.waiting.lock().is_empty(), "nobody is left");
    }
}
