//! When to look for deliveries, and who waits for them.
//!
//! Of every queue that somebody asked for, this server remembers for each partition the earliest time at which
//! something may be claimed there. It learns from its own answers and from the signals of others; what it does not
//! know it looks at first. So a claim asks those partitions only in which something is due, and who waits sleeps until
//! the earliest of these times, or until one of them becomes earlier.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hermod_core::queue::DeliveryId;
use hermod_core::queue::claim::SPREAD;
use hermod_core::{Micros, QueueId, SpaceId};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::stream::Holds;

/// So many of those who wait look at once: the others need not wake for what is one delivery. Who has found something looks
/// no more, however long it takes until it may be told.
const LOOKING_MAX: usize = 4;

/// All queues that somebody asked for.
#[derive(Debug)]
pub(crate) struct Watches {
    partitions: u16,
    watches: RwLock<HashMap<SpaceId, HashMap<QueueId, Watched>>>,
    /// Whether the store has a clock of its own.
    is_elsewhere: bool,
    /// How much the store's clock is ahead of ours, in microseconds.
    ahead: AtomicI64,
}

impl Watches {
    pub(crate) fn new(partitions: u16, is_elsewhere: bool) -> Watches {
        Watches { partitions, watches: RwLock::default(), is_elsewhere, ahead: AtomicI64::new(i64::MIN) }
    }

    /// What is known of a queue.
    pub(super) fn of(&self, space: &SpaceId, queue: &QueueId) -> Arc<Watch> {
        if let Some(watched) = self.watches.read().get(space).and_then(|queues| queues.get(queue)) {
            return Arc::clone(&watched.all);
        }
        let mut watches = self.watches.write();
        let queues = watches.entry(space.clone()).or_default();
        Arc::clone(&queues.entry(queue.clone()).or_insert_with(|| Watched::new(self.partitions)).all)
    }

    /// What is known of what a worker has.
    pub(super) fn of_worker(&self, space: &SpaceId, queue: &QueueId, worker: &str) -> Arc<Watch> {
        if let Some(watch) = self.known_of_worker(space, queue, worker) {
            return watch;
        }
        let mut watches = self.watches.write();
        let queues = watches.entry(space.clone()).or_default();
        let watched = queues.entry(queue.clone()).or_insert_with(|| Watched::new(self.partitions));
        Arc::clone(watched.workers.entry(worker.into()).or_insert_with(|| Arc::new(Watch::new(self.partitions))))
    }

    /// The same, if anybody asked for it here.
    pub(super) fn known_of_worker(&self, space: &SpaceId, queue: &QueueId, worker: &str) -> Option<Arc<Watch>> {
        self.watches.read().get(space)?.get(queue)?.workers.get(worker).cloned()
    }

    /// A worker is gone. Whoever asks for it still is told.
    pub(super) fn forget_worker(&self, space: &SpaceId, queue: &QueueId, worker: &str) {
        let mut watches = self.watches.write();
        let watched = watches.get_mut(space).and_then(|queues| queues.get_mut(queue));
        if let Some(watch) = watched.and_then(|watched| watched.workers.remove(worker)) {
            watch.forget();
        }
    }

    /// The queues of which something is known.
    pub(crate) fn names(&self) -> Vec<(SpaceId, QueueId)> {
        let watches = self.watches.read();
        watches.iter().flat_map(|(space, queues)| queues.keys().map(|queue| (space.clone(), queue.clone()))).collect()
    }

    /// A queue is gone, and what was known of it goes too: not while somebody still asks for it, as one of the same name may come.
    pub(crate) fn forget_queue(&self, space: &SpaceId, queue: &QueueId) {
        let is_asked_for = |watched: &Watched| {
            let mut all = std::iter::once(&watched.all).chain(watched.workers.values());
            all.any(|watch| Arc::strong_count(watch) > 1)
        };
        let mut watches = self.watches.write();
        let Some(queues) = watches.get_mut(space) else { return };
        if queues.get(queue).is_some_and(is_asked_for) {
            return;
        }
        queues.remove(queue);
        if queues.is_empty() {
            watches.remove(space);
        }
    }

    /// Signals of this queue may have been lost.
    pub(super) fn forget_all(&self, space: &SpaceId, queue: &QueueId) {
        if let Some(watched) = self.watches.read().get(space).and_then(|queues| queues.get(queue)) {
            watched.all.forget();
            watched.workers.values().for_each(|watch| watch.forget());
        }
    }

    /// A number was seen of this queue.
    pub(super) fn saw_number(&self, space: &SpaceId, queue: &QueueId, number: u64) {
        self.of(space, queue).highest.fetch_max(number, Ordering::Relaxed);
    }

    /// The store's answer was of this time, and came now. It was on its way, so its clock is at least so far ahead: the
    /// fastest answer tells it best, and is believed less as time goes by, as clocks drift.
    pub(super) fn set_clock(&self, theirs: Micros, ours: Micros) {
        if !self.is_elsewhere {
            return;
        }
        let difference = |a: Micros, b: Micros| i64::try_from(a.since(b).get()).unwrap_or(0);
        let seen = difference(theirs, ours) - difference(ours, theirs);
        let known = self.ahead.load(Ordering::Relaxed);
        let ahead = if seen >= known { seen } else { known - (known - seen) / 64 };
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    /// The store's time, about, when ours is this.
    pub(super) fn store_time(&self, ours: Micros) -> Micros {
        let ahead = Some(self.ahead.load(Ordering::Relaxed)).filter(|ahead| *ahead != i64::MIN).unwrap_or(0);
        if ahead >= 0 { ours.plus(Micros::saturating(ahead.unsigned_abs())) } else { ours.since(Micros::saturating(ahead.unsigned_abs())) }
    }
}

/// What is known of one queue: of all of it, and of each worker's part if it is sticky.
#[derive(Debug)]
struct Watched {
    all: Arc<Watch>,
    workers: HashMap<Box<str>, Arc<Watch>>,
}

impl Watched {
    fn new(partitions: u16) -> Watched {
        Watched { all: Arc::new(Watch::new(partitions)), workers: HashMap::new() }
    }
}

/// What is known of one partition.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// When something may be claimed; none if nothing is there.
    at: Option<Micros>,
    /// When a lease ends. What is held until then cannot be claimed ahead.
    ends: Option<Micros>,
    /// Whether somebody has looked: otherwise something may be there that is earlier.
    is_whole: bool,
    version: Version,
}

/// What was known when a question was asked: an answer from before the latest news does not outdo them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    learned: u64,
    forgotten: u64,
}

impl Known {
    /// Something may be claimed at this time; whether that is earlier than all that was known.
    fn hear(&mut self, at: Micros) -> bool {
        bring_forward(&mut self.at, Some(at))
    }

    /// When something may be claimed, or a lease ends that may be over.
    fn when(&self, now: Micros) -> Option<Micros> {
        [self.at, self.ends.filter(|end| *end <= now)].into_iter().flatten().min()
    }
}

/// Takes a time that is earlier than the one that is known; whether it is.
fn bring_forward(known: &mut Option<Micros>, heard: Option<Micros>) -> bool {
    let is_earlier = heard.is_some_and(|heard| known.is_none_or(|known| heard < known));
    if is_earlier {
        *known = heard;
    }
    is_earlier
}

/// What is known of one queue.
#[derive(Debug)]
pub(super) struct Watch {
    known: Mutex<Vec<Known>>,
    earlier: Notify,
    /// The greatest number that was seen of it.
    pub(super) highest: AtomicU64,
    /// Turns of those who wait.
    pub(super) turns: Semaphore,
    /// Who holds deliveries for as long as they listen.
    holders: Mutex<HashMap<DeliveryId, Weak<Holds>>>,
    /// Nothing more goes out before: what is overdue has had its share of this second.
    rests_until: Mutex<Option<Instant>>,
    /// How many wait, and whether somebody follows the signals of others for them.
    pub(super) waiting: Mutex<Waiting>,
    /// When all of it was last looked at anew.
    healed: Mutex<Instant>,
}

/// Who waits.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) count: usize,
    /// When somebody asked last, whether they waited or not.
    pub(super) asked: Option<Instant>,
    pub(super) is_followed: bool,
}

impl Watch {
    fn new(partitions: u16) -> Watch {
        Watch {
            known: Mutex::new(vec![Known::default(); usize::from(partitions)]),
            earlier: Notify::new(),
            highest: AtomicU64::new(0),
            turns: Semaphore::new(LOOKING_MAX),
            holders: Mutex::default(),
            rests_until: Mutex::default(),
            waiting: Mutex::default(),
            healed: Mutex::new(Instant::now()),
        }
    }

    /// Nothing goes out for so long.
    pub(super) fn rest(&self, span: Duration) {
        *self.rests_until.lock() = Some(Instant::now() + span);
    }

    /// Until when nothing goes out.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.rests_until.lock().filter(|until| *until > Instant::now())
    }

    /// A delivery is held by one who listens.
    pub(super) fn hold(&self, id: DeliveryId, holds: &Arc<Holds>) {
        self.holders.lock().insert(id, Arc::downgrade(holds));
    }

    /// It is settled: whoever listened has room for another.
    pub(super) fn settled(&self, id: DeliveryId) {
        let holds = self.holders.lock().remove(&id);
        if let Some(holds) = holds.and_then(|holds| holds.upgrade()) {
            holds.release(id);
        }
    }

    /// Nobody listens any more.
    pub(super) fn let_go(&self, ids: impl Iterator<Item = DeliveryId>) {
        let mut holders = self.holders.lock();
        for id in ids {
            holders.remove(&id);
        }
    }

    /// Something may be claimed in this partition at this time.
    pub(super) fn learn(&self, partition: u16, at: Option<Micros>) {
        let Some(at) = at else { return };
        let mut all = self.known.lock();
        let Some(known) = all.get_mut(usize::from(partition)) else { return };
        known.version.learned += 1;
        if known.hear(at) {
            drop(all);
            self.earlier.notify_waiters();
        }
    }

    /// Signals may have been lost: nothing is known any more.
    pub(super) fn forget(&self) {
        for known in self.known.lock().iter_mut() {
            let version = Version { forgotten: known.version.forgotten + 1, ..known.version };
            *known = Known { version, ..Known::default() };
        }
        self.earlier.notify_waiters();
    }

    /// The same, unless that was less than `every` ago.
    pub(super) fn heal(&self, every: Duration) {
        let mut healed = self.healed.lock();
        if healed.elapsed() >= every {
            *healed = Instant::now();
            drop(healed);
            self.forget();
        }
    }

    /// When [`Watch::heal`] does something again.
    pub(super) fn heal_at(&self, every: Duration) -> Instant {
        *self.healed.lock() + every
    }

    /// What is known of a partition before it is asked, to be given to [`Watch::saw`].
    pub(super) fn learned(&self, partition: u16) -> Version {
        self.known.lock().get(usize::from(partition)).map_or(Version::default(), |known| known.version)
    }

    /// An answer says when something may be claimed in this partition, and when a lease ends there. What was learned while it was on its way counts
    /// beside it, whichever is earlier: it costs a look that finds nothing, and no delivery waits.
    pub(super) fn saw(&self, partition: u16, asked: Version, at: Option<Micros>, ends: Option<Micros>) {
        let mut all = self.known.lock();
        let Some(known) = all.get_mut(usize::from(partition)) else { return };
        let was_whole = known.is_whole;
        known.is_whole |= known.version.forgotten == asked.forgotten;
        if known.version == asked {
            (known.at, known.ends) = (at, ends);
            return;
        }
        let is_earlier = bring_forward(&mut known.at, at) | bring_forward(&mut known.ends, ends);
        if is_earlier && was_whole {
            known.version.learned += 1;
            drop(all);
            self.earlier.notify_waiters();
        }
    }

    /// The partitions at which nobody has looked.
    pub(super) fn unknown(&self) -> Vec<u16> {
        let all = self.known.lock();
        (0..).zip(all.iter()).filter(|(_, known)| !known.is_whole).map(|(partition, _)| partition).collect()
    }

    /// The partitions in which something may be claimed, the earliest first, and by when. That is now, unless the first
    /// comes within `ahead`: then it is a little after it. `first` is what the same answer has already.
    pub(super) fn due(&self, now: Micros, ahead: Micros, first: Option<Micros>) -> (Micros, Vec<(Micros, u16)>) {
        let all = self.known.lock();
        let mut due: Vec<(Micros, u16)> =
            (0..).zip(all.iter()).filter_map(|(partition, known)| known.when(now).map(|at| (at, partition))).collect();
        drop(all);
        due.sort_unstable();
        let soonest = due.first().map(|(at, _)| *at).into_iter().chain(first).min();
        let reach = soonest.filter(|at| *at > now).map_or(now, |at| at.plus(SPREAD).min(now.plus(ahead)));
        due.retain(|(at, _)| *at <= reach);
        (reach, due)
    }

    /// When something may be claimed next, and when a lease ends next.
    pub(super) fn next(&self) -> (Option<Micros>, Option<Micros>) {
        let all = self.known.lock();
        (all.iter().filter_map(|known| known.at).min(), all.iter().filter_map(|known| known.ends).min())
    }

    /// Whether none of those who wait looks for what comes next.
    pub(super) fn is_unattended(&self) -> bool {
        self.turns.available_permits() == LOOKING_MAX
    }

    /// Ends when a time becomes earlier. Make it before looking, so that nothing is missed in between.
    pub(super) fn earlier(&self) -> tokio::sync::futures::Notified<'_> {
        self.earlier.notified()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn us(n: u64) -> Micros {
        Micros::saturating(n)
    }

    /// What is due at this time.
    fn due(watch: &Watch, now: u64) -> Vec<(Micros, u16)> {
        watch.due(us(now), Micros::ZERO, None).1
    }

    #[test]
    fn what_is_learned_while_an_answer_is_on_its_way_is_not_lost() {
        let watch = Watch::new(2);
        assert_eq!((due(&watch, 5), watch.unknown()), (vec![], vec![0, 1]), "what is not known is looked at first");
        let (before, other) = (watch.learned(0), watch.learned(1));
        watch.saw(1, other, None, None);
        watch.saw(0, before, None, None);
        assert!(watch.unknown().is_empty());
        // An answer that found nothing was given before this came.
        watch.learn(0, Some(us(7)));
        watch.saw(0, before, None, None);
        assert_eq!((watch.next().0, due(&watch, 6), due(&watch, 7)), (Some(us(7)), vec![], vec![(us(7), 0)]));
        watch.learn(0, Some(us(9)));
        assert_eq!(watch.next().0, Some(us(7)), "later news do not put it off");
        watch.forget();
        assert_eq!((watch.next().0, watch.unknown().len()), (None, 2));
    }

    #[test]
    fn a_queue_that_is_gone_is_forgotten_once_nobody_asks_for_it() {
        let (watches, space, queue) = (Watches::new(2, false), SpaceId::default_space(), QueueId::new("q").unwrap());
        let is_known = || {
            watches.forget_queue(&space, &queue);
            !watches.names().is_empty()
        };
        let (all, worker) = (watches.of(&space, &queue), watches.of_worker(&space, &queue, "w"));
        assert!(is_known() && Arc::ptr_eq(&all, &watches.of(&space, &queue)), "somebody waits for it");
        drop(all);
        assert!(is_known(), "a worker waits for it");
        drop(worker);
        assert!(!is_known() && !is_known());
    }

    #[tokio::test]
    async fn what_is_pushed_while_nobody_has_looked_yet_wakes_who_waits() {
        let watch = Watch::new(1);
        let (earlier, before) = (watch.earlier(), watch.learned(0));
        watch.learn(0, Some(us(7)));
        assert!(earlier.now_or_never().is_some(), "who waits is told");
        // The first look found nothing, as it was before the push: it counts, and so does the push.
        watch.saw(0, before, None, None);
        assert_eq!((watch.next().0, watch.unknown()), (Some(us(7)), vec![]));
        // What lay there all the time is earlier.
        let before = watch.learned(0);
        watch.learn(0, Some(us(9)));
        watch.saw(0, before, Some(us(3)), None);
        assert_eq!(due(&watch, 3), [(us(3), 0)]);
    }

    #[test]
    fn an_answer_from_before_all_was_forgotten_is_not_the_whole() {
        let watch = Watch::new(1);
        let before = watch.learned(0);
        watch.forget();
        watch.saw(0, before, Some(us(9)), None);
        assert_eq!((watch.next().0, watch.unknown()), (Some(us(9)), vec![0]));
    }

    #[test]
    fn ahead_of_the_time_only_what_lies_close_together() {
        let watch = Watch::new(4);
        for (partition, at, ends) in [(0, Some(20_000), None), (1, Some(21_000), None), (2, Some(21_001), None), (3, None, Some(10_000))] {
            watch.saw(partition, watch.learned(partition), at.map(us), ends.map(us));
        }
        let ahead = us(25_000);
        assert_eq!(due(&watch, 1), []);
        assert_eq!(watch.due(us(1), ahead, None), (us(21_000), vec![(us(20_000), 0), (us(21_000), 1)]));
        assert_eq!(watch.due(us(1), us(19_998), None).1, [], "not as far ahead");
        assert_eq!(watch.due(us(1), us(20_000), None), (us(20_001), vec![(us(20_000), 0)]));
        // A lease that is over comes first, and what is due with it.
        assert_eq!(watch.due(us(10_000), ahead, None), (us(10_000), vec![(us(10_000), 3)]));
        assert_eq!(watch.due(us(1), ahead, Some(us(1))), (us(1), vec![]), "what is due already does not wait for others");
        assert_eq!(watch.next(), (Some(us(20_000)), Some(us(10_000))));
    }

    #[test]
    fn the_stores_clock_may_differ() {
        let watches = Watches::new(1, true);
        assert_eq!(watches.store_time(us(2_000)), us(2_000));
        watches.set_clock(us(1_000), us(1_500));
        assert_eq!(watches.store_time(us(2_000)), us(1_500));
        watches.set_clock(us(1_500), us(1_000));
        assert_eq!(watches.store_time(us(2_000)), us(2_500));
        watches.set_clock(us(1_000), us(7_400));
        assert_eq!(watches.store_time(us(2_000)), us(2_393), "an answer that was slow says little");
        let same = Watches::new(1, false);
        same.set_clock(us(1_000), us(1_500));
        assert_eq!(same.store_time(us(2_000)), us(2_000), "where there is one clock, an answer is only late");
    }
}
