//! What one follower has yet to be told.
//!
//! There is one place for each partition and worker, with the earliest time, so it is bounded however slow the follower is and
//! nothing is lost. The earliest and not the last, because two nodes of a cluster may be heard out of order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hermod_core::Micros;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Wake;

#[derive(Debug, Default)]
pub(super) struct Mailbox {
    pending: Mutex<Pending>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    is_look: bool,
    times: HashMap<(u16, Arc<str>), Micros>,
    /// Those with a time, first come first told.
    order: VecDeque<(u16, Arc<str>)>,
    replied: VecDeque<(u16, u64)>,
}

/// A follower is told of so many replies; if it is slower, it looks at everything.
const REPLIED_MAX: usize = 10_000;

impl Mailbox {
    /// A delivery of this partition can be claimed at this time, by this worker if it is of a sticky queue.
    pub(super) fn wake(&self, partition: u16, owner: &Arc<str>, time: Micros) {
        let mut pending = self.pending.lock();
        let place = (partition, Arc::clone(owner));
        match pending.times.get_mut(&place) {
            Some(known) => *known = time.min(*known),
            None => {
                pending.times.insert(place.clone(), time);
                pending.order.push_back(place);
            }
        }
        drop(pending);
        self.arrived.notify_one();
    }

    /// There is a reply to the delivery of this number.
    pub(super) fn reply(&self, partition: u16, number: u64) {
        let mut pending = self.pending.lock();
        if pending.replied.len() < REPLIED_MAX {
            pending.replied.push_back((partition, number));
        }
        drop(pending);
        self.arrived.notify_one();
    }

    /// Look at everything; what was to be told before is part of it.
    pub(super) fn look(&self) {
        *self.pending.lock() = Pending { is_look: true, ..Pending::default() };
        self.arrived.notify_one();
    }

    /// Waits for what comes next. For one reader.
    pub(super) async fn next(&self) -> Wake {
        loop {
            if let Some(wake) = self.take() {
                return wake;
            }
            self.arrived.notified().await;
        }
    }

    /// What comes next, if it is there.
    pub(super) fn take(&self) -> Option<Wake> {
        let mut pending = self.pending.lock();
        if std::mem::take(&mut pending.is_look) {
            return Some(Wake::Look);
        }
        if let Some((partition, number)) = pending.replied.pop_front() {
            return Some(Wake::Replied { partition, number });
        }
        let place = pending.order.pop_front()?;
        let time = pending.times.remove(&place)?;
        Some(Wake::At { partition: place.0, time, owner: place.1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody() -> Arc<str> {
        Arc::from("")
    }

    fn at(partition: u16, time: u64) -> Wake {
        Wake::At { partition, time: Micros::saturating(time), owner: nobody() }
    }

    fn all(mailbox: &Mailbox) -> Vec<Wake> {
        std::iter::from_fn(|| mailbox.take()).collect()
    }

    #[test]
    fn a_slow_follower_is_told_the_earliest_time_of_each_partition_once() {
        let mailbox = Mailbox::default();
        for (partition, time) in [(7, 50), (3, 40), (7, 30), (7, 60)] {
            mailbox.wake(partition, &nobody(), Micros::saturating(time));
        }
        assert_eq!(all(&mailbox), [at(7, 30), at(3, 40)]);
        assert_eq!(all(&mailbox), []);
    }

    #[test]
    fn to_look_takes_the_place_of_what_came_before_only() {
        let mailbox = Mailbox::default();
        mailbox.wake(1, &nobody(), Micros::ZERO);
        mailbox.look();
        mailbox.look();
        mailbox.wake(2, &nobody(), Micros::ZERO);
        assert_eq!(all(&mailbox), [Wake::Look, at(2, 0)]);
    }
}
