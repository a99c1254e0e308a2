//! What one follower has yet to be told.
//!
//! There is one place for each partition, with the earliest time, so it is bounded however slow the follower is and
//! nothing is lost. The earliest and not the last, because two nodes of a cluster may be heard out of order.

use std::collections::{HashMap, VecDeque};

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
    times: HashMap<u16, Micros>,
    /// The partitions with a time, first come first told.
    order: VecDeque<u16>,
}

impl Mailbox {
    /// A delivery of this partition can be claimed at this time.
    pub(super) fn wake(&self, partition: u16, time: Micros) {
        let mut pending = self.pending.lock();
        match pending.times.get_mut(&partition) {
            Some(known) => *known = time.min(*known),
            None => {
                pending.times.insert(partition, time);
                pending.order.push_back(partition);
            }
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
        let partition = pending.order.pop_front()?;
        pending.times.remove(&partition).map(|time| Wake::At { partition, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: u16, time: u64) -> Wake {
        Wake::At { partition, time: Micros::saturating(time) }
    }

    fn all(mailbox: &Mailbox) -> Vec<Wake> {
        std::iter::from_fn(|| mailbox.take()).collect()
    }

    #[test]
    fn a_slow_follower_is_told_the_earliest_time_of_each_partition_once() {
        let mailbox = Mailbox::default();
        for (partition, time) in [(7, 50), (3, 40), (7, 30), (7, 60)] {
            mailbox.wake(partition, Micros::saturating(time));
        }
        assert_eq!(all(&mailbox), [at(7, 30), at(3, 40)]);
        assert_eq!(all(&mailbox), []);
    }

    #[test]
    fn to_look_takes_the_place_of_what_came_before_only() {
        let mailbox = Mailbox::default();
        mailbox.wake(1, Micros::ZERO);
        mailbox.look();
        mailbox.look();
        mailbox.wake(2, Micros::ZERO);
        assert_eq!(all(&mailbox), [Wake::Look, at(2, 0)]);
    }
}
