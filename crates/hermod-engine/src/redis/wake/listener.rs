//! Listens to one node, for ever: connects, subscribes to what is followed, watches, connects again.
//!
//! It has the manners of `link.rs`: the same pauses, the same question whether the node is a primary.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ::redis::RedisError;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::route::{Node, Route};
use super::subscriber::Subscriber;
use super::{Channel, Followed};
use crate::redis::address::Address;
use crate::redis::link::{RETRY_FIRST, WATCH_EVERY};
use crate::redis::not_connected;

pub(super) struct Listener {
    followed: Arc<Followed>,
    address: Address,
    /// Which channels are this node's; without it all are.
    share: Option<Share>,
    changed: watch::Receiver<()>,
    is_lost: bool,
    /// The pause before the next try.
    wait: Duration,
}

/// A node's part of a cluster.
struct Share {
    node: Node,
    route: watch::Receiver<Route>,
    /// Tells that the route may be another by now.
    doubted: Arc<Notify>,
}

impl Listener {
    /// Listens to a single node, or to what sentinels call the primary.
    pub(super) fn to_the_only_node(followed: Arc<Followed>) -> Listener {
        let (address, changed) = (followed.address.clone(), followed.changed.subscribe());
        Listener { followed, address, share: None, changed, is_lost: false, wait: RETRY_FIRST }
    }

    /// Listens to a primary of a cluster. It may take over from one that was lost.
    pub(super) fn to_a_node(
        followed: Arc<Followed>,
        node: Node,
        route: watch::Receiver<Route>,
        doubted: Arc<Notify>,
        takes_over: bool,
    ) -> Option<Listener> {
        let (address, changed) = (node.address(&followed.address)?, followed.changed.subscribe());
        let share = Some(Share { node, route, doubted });
        Some(Listener { followed, address, share, changed, is_lost: takes_over, wait: RETRY_FIRST })
    }

    pub(super) async fn listen(mut self) {
        loop {
            let lost = match Subscriber::open(&self.address, &self.followed).await {
                Ok(subscriber) => self.keep(subscriber).await,
                Err(fault) => fault,
            };
            self.note_loss(&lost);
            self.pause().await;
        }
    }

    /// Waits before the next try. Who comes to follow meanwhile need not wait for this node.
    async fn pause(&mut self) {
        let end = Instant::now() + self.wait;
        self.wait = longer(self.wait);
        loop {
            let missed = self.channels();
            self.followed.miss(&missed);
            tokio::select! {
                () = sleep_until(end) => return,
                () = self.changes() => {}
            }
        }
    }

    /// Keeps the connection subscribed to what is followed; why it is of no more use.
    async fn keep(&mut self, mut subscriber: Subscriber) -> RedisError {
        let mut standing = HashSet::new();
        let mut check_at = Instant::now() + WATCH_EVERY;
        loop {
            let refused = match self.adjust(&mut subscriber, &mut standing).await {
                Ok(refused) => refused,
                Err(fault) => return fault,
            };
            if let Some(fault) = &refused {
                self.note_loss(fault);
            } else if std::mem::take(&mut self.is_lost) {
                tracing::info!(store = %self.address, "wake-ups are heard again");
            }
            let wait = self.wait;
            tokio::select! {
                () = subscriber.lost() => return not_connected(),
                () = self.changes() => {}
                () = sleep_until(check_at) => {}
                () = sleep(wait), if refused.is_some() => self.wait = longer(wait),
            }
            if Instant::now() < check_at {
                continue;
            }
            if let Err(fault) = subscriber.check().await {
                return fault;
            }
            check_at = Instant::now() + WATCH_EVERY;
            // Not before: who is lost as soon as it stands must not be connected to all the time.
            if refused.is_none() {
                self.wait = RETRY_FIRST;
            }
        }
    }

    /// Leaves what is not followed any more, enters what is new; why some of it was refused.
    async fn adjust(&mut self, to: &mut Subscriber, standing: &mut HashSet<Channel>) -> Result<Option<RedisError>, RedisError> {
        let wanted: HashSet<Channel> = self.channels().into_iter().collect();
        let over: Vec<Channel> = standing.difference(&wanted).cloned().collect();
        to.leave(&over).await?;
        standing.retain(|channel| wanted.contains(channel));
        let new: Vec<Channel> = wanted.difference(standing).cloned().collect();
        let (mut stand, mut missed, mut why) = (Vec::new(), Vec::new(), None);
        for (answer, channel) in to.enter(&new).await?.into_iter().zip(new) {
            match answer {
                Ok(()) => stand.push(channel),
                Err(fault) => {
                    missed.push(channel);
                    why = Some(fault);
                }
            }
        }
        self.followed.miss(&missed);
        self.followed.stand(&stand);
        standing.extend(stand);
        Ok(why)
    }

    /// The channels that are followed and are this node's. What changes after this wakes [`Listener::changes`].
    fn channels(&mut self) -> Vec<Channel> {
        self.changed.borrow_and_update();
        match &mut self.share {
            None => self.followed.channels(|_| true),
            Some(Share { node, route, .. }) => {
                let route = route.borrow_and_update();
                self.followed.channels(|slot| route.owner(slot) == Some(&*node))
            }
        }
    }

    /// Waits until other channels are wanted.
    async fn changes(&mut self) {
        // A sender that is gone takes this task with it.
        let _gone = match &mut self.share {
            None => self.changed.changed().await.is_err(),
            Some(Share { route, .. }) => tokio::select! {
                changed = self.changed.changed() => changed.is_err(),
                changed = route.changed() => changed.is_err(),
            },
        };
    }

    fn note_loss(&mut self, why: &RedisError) {
        if !std::mem::replace(&mut self.is_lost, true) {
            tracing::warn!(store = %self.address, error = %why, "wake-ups are not heard, or a part of them; trying until they are");
        }
        if let Some(share) = &self.share {
            share.doubted.notify_one();
        }
    }
}

/// The pause after this one.
pub(super) fn longer(wait: Duration) -> Duration {
    (wait * 2).min(WATCH_EVERY)
}
