//! Wake-ups: who follows which queue, and what is heard of it.
//!
//! A script publishes to the channel of its queue and partition when a delivery can be claimed earlier than before
//! (`queue/line.lua`). Each channel is subscribed to once, however many follow the queue. A [`Listener`] holds the
//! connection to one node: to the only one, or to each primary of a Cluster, which a channel's slot belongs to
//! (`route.rs`). Listeners come with the first follower and go with the last.
//!
//! Of each channel it is known whether it stands. A queue's followers are told to look when the last of its channels
//! came to stand, so once at first; a part that cannot be had does not keep the others waiting.
//!
//! The cluster client's own subscriptions are not used: it forgets a channel whose slot has moved, takes the news of it
//! for the answer to another command, and does not say when a channel stands again.

mod listener;
mod mailbox;
mod route;
mod subscriber;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hermod_core::{Micros, Partitions, Place, QueueId, SpaceId, key};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::listener::Listener;
use self::mailbox::Mailbox;
use super::link::slot;
use super::{Address, Options};
use crate::Wake;

/// The wake-ups of one engine.
#[derive(Debug)]
pub(super) struct Wakes {
    followed: Arc<Followed>,
    runtime: Handle,
}

impl Wakes {
    /// Nothing is connected before somebody follows.
    pub(super) fn new(options: &Options) -> Wakes {
        let Options { address, partitions, timeout, .. } = options.clone();
        let (changed, _) = watch::channel(());
        let followed = Followed { address, partitions, timeout, changed, table: Mutex::default() };
        Wakes { followed: Arc::new(followed), runtime: Handle::current() }
    }

    pub(super) fn follow(&self, space: &SpaceId, queue: &QueueId) -> Follower {
        let mailbox = Arc::new(Mailbox::default());
        let mut table = self.followed.table.lock();
        let queue = table.join(space, queue, self.followed.partitions, Arc::clone(&mailbox));
        if table.task.is_none() && !table.is_closed {
            let followed = Arc::clone(&self.followed);
            let task = match followed.address.is_cluster() {
                true => self.runtime.spawn(route::listen(followed)),
                false => self.runtime.spawn(Listener::to_the_only_node(followed).listen()),
            };
            table.task = Some(task.abort_handle());
        }
        drop(table);
        self.followed.changed.send_replace(());
        Follower { followed: Arc::clone(&self.followed), queue, mailbox }
    }

    /// Hears nothing more.
    pub(super) fn close(&self) {
        let mut table = self.followed.table.lock();
        table.is_closed = true;
        table.stop();
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.close();
    }
}

/// One follower of a queue.
#[derive(Debug)]
pub(crate) struct Follower {
    followed: Arc<Followed>,
    queue: u64,
    mailbox: Arc<Mailbox>,
}

impl Follower {
    pub(crate) async fn next(&mut self) -> Wake {
        self.mailbox.next().await
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.followed.table.lock().leave(self.queue, &self.mailbox);
        self.followed.changed.send_replace(());
    }
}

/// All that is followed, as followers and listeners share it.
#[derive(Debug)]
struct Followed {
    address: Address,
    partitions: Partitions,
    timeout: Duration,
    /// Other queues are followed than before.
    changed: watch::Sender<()>,
    table: Mutex<Table>,
}

/// A channel of a queue that is followed. A queue that is left and followed again is another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Channel {
    name: Arc<str>,
    slot: u16,
    queue: u64,
    partition: u16,
}

impl Followed {
    /// The channels of the slots that `is_mine` names.
    fn channels(&self, is_mine: impl Fn(u16) -> bool) -> Vec<Channel> {
        self.table.lock().channels.values().filter(|channel| is_mine(channel.slot)).cloned().collect()
    }

    /// This was published.
    fn hear(&self, channel: &[u8], time: &[u8]) {
        let table = self.table.lock();
        let Some(channel) = str::from_utf8(channel).ok().and_then(|name| table.channels.get(name)) else { return };
        // Anything else is not from us.
        let Ok(text) = str::from_utf8(time) else { return };
        if let Some(number) = text.strip_prefix('=').and_then(|number| number.parse().ok()) {
            for mailbox in table.queues.get(&channel.queue).into_iter().flat_map(|queue| &queue.mailboxes) {
                mailbox.reply(channel.partition, number);
            }
            return;
        }
        // A worker's name follows if the queue is sticky.
        let (time, owner) = text.split_once(' ').unwrap_or((text, ""));
        let Some(time) = time.parse().ok().and_then(Micros::new) else { return };
        let owner: Arc<str> = owner.into();
        for mailbox in table.queues.get(&channel.queue).into_iter().flat_map(|queue| &queue.mailboxes) {
            mailbox.wake(channel.partition, &owner, time);
        }
    }

    /// These have come to stand.
    fn stand<'a>(&self, channels: impl IntoIterator<Item = &'a Channel>) {
        self.table.lock().turn(channels, Part::Stands);
    }

    /// These cannot be had for now.
    fn miss<'a>(&self, channels: impl IntoIterator<Item = &'a Channel>) {
        self.table.lock().turn(channels, Part::Missing);
    }
}

#[derive(Debug, Default)]
struct Table {
    ids: HashMap<(SpaceId, QueueId), u64>,
    queues: HashMap<u64, Queue>,
    channels: HashMap<Arc<str>, Channel>,
    last_id: u64,
    task: Option<AbortHandle>,
    is_closed: bool,
}

#[derive(Debug)]
struct Queue {
    space: SpaceId,
    queue: QueueId,
    mailboxes: Vec<Arc<Mailbox>>,
    /// What is known of each partition's channel.
    parts: Vec<Part>,
    /// Some have come to stand since its followers were told to look.
    has_news: bool,
    /// Its followers were told to look before.
    has_stood: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Awaited,
    Stands,
    Missing,
}

impl Table {
    fn join(&mut self, space: &SpaceId, name: &QueueId, partitions: Partitions, mailbox: Arc<Mailbox>) -> u64 {
        let names = (space.clone(), name.clone());
        if let Some((id, queue)) = self.ids.get(&names).and_then(|id| Some((*id, self.queues.get_mut(id)?))) {
            if queue.has_stood {
                mailbox.look();
            }
            queue.mailboxes.push(mailbox);
            return id;
        }
        self.last_id += 1;
        let id = self.last_id;
        for partition in 0..partitions.count() {
            let name: Arc<str> = key::wake(&Place { space: space.clone(), partition }, name).into();
            let channel = Channel { slot: slot(&name), name: Arc::clone(&name), queue: id, partition };
            self.channels.insert(name, channel);
        }
        let parts = vec![Part::Awaited; usize::from(partitions.count())];
        let queue = Queue { space: space.clone(), queue: name.clone(), mailboxes: vec![mailbox], parts, has_news: false, has_stood: false };
        self.queues.insert(id, queue);
        self.ids.insert(names, id);
        id
    }

    fn leave(&mut self, id: u64, mailbox: &Arc<Mailbox>) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.mailboxes.retain(|other| !Arc::ptr_eq(other, mailbox));
        if !queue.mailboxes.is_empty() {
            return;
        }
        let Some(Queue { space, queue, parts, .. }) = self.queues.remove(&id) else { return };
        for partition in (0..).take(parts.len()) {
            self.channels.remove(key::wake(&Place { space: space.clone(), partition }, &queue).as_str());
        }
        self.ids.remove(&(space, queue));
        if self.queues.is_empty() {
            self.stop();
        }
    }

    fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Notes what has become of channels, and tells those whom it concerns to look.
    fn turn<'a>(&mut self, channels: impl IntoIterator<Item = &'a Channel>, part: Part) {
        let mut touched = Vec::new();
        for channel in channels {
            let Some(queue) = self.queues.get_mut(&channel.queue) else { continue };
            if let Some(known) = queue.parts.get_mut(usize::from(channel.partition)) {
                *known = part;
            }
            queue.has_news |= part == Part::Stands;
            if touched.last() != Some(&channel.queue) {
                touched.push(channel.queue);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            if queue.has_news && !queue.parts.contains(&Part::Awaited) {
                (queue.has_news, queue.has_stood) = (false, true);
                queue.mailboxes.iter().for_each(|mailbox| mailbox.look());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of two partitions with one follower.
    fn followed(table: &mut Table) -> (u64, Arc<Mailbox>, [Channel; 2]) {
        let (space, mailbox) = (SpaceId::default_space(), Arc::new(Mailbox::default()));
        let id = table.join(&space, &QueueId::new("mail").unwrap(), Partitions::new(2).unwrap(), Arc::clone(&mailbox));
        let of = |partition| table.channels.values().find(|channel| channel.partition == partition).unwrap().clone();
        (id, mailbox, [of(0), of(1)])
    }

    #[test]
    fn to_look_comes_when_every_channel_stands_or_cannot_be_had() {
        let mut table = Table::default();
        let (_, mailbox, [one, other]) = followed(&mut table);
        table.turn([&one], Part::Stands);
        assert_eq!(mailbox.take(), None, "the other may come yet");
        table.turn([&other], Part::Missing);
        assert_eq!(mailbox.take(), Some(Wake::Look));
        table.turn([&other], Part::Missing);
        assert_eq!(mailbox.take(), None, "nothing new");
        table.turn([&other], Part::Stands);
        assert_eq!(mailbox.take(), Some(Wake::Look));
    }

    #[test]
    fn a_queue_followed_anew_does_not_stand_because_it_once_did() {
        let mut table = Table::default();
        let (id, mailbox, old) = followed(&mut table);
        table.turn(&old, Part::Stands);
        table.leave(id, &mailbox);
        assert!(table.queues.is_empty() && table.channels.is_empty() && table.ids.is_empty());
        let (_, mailbox, new) = followed(&mut table);
        table.turn(&old, Part::Stands);
        assert_eq!(mailbox.take(), None);
        table.turn(&new, Part::Stands);
        assert_eq!(mailbox.take(), Some(Wake::Look));
    }
}
