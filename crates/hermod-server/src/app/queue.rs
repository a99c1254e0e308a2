//! queue: push, claim, settle, look at and change deliveries.
//!
//! A queue lies in many partitions: a delivery is with its recipient, else with its key, else anywhere; a queue
//! of total order is in one. What a call means to several partitions is one operation each.

mod ahead;
mod catch_up;
mod claim;
mod edit;
mod holding;
mod list;
mod relay;
mod reply;
mod settle;
mod staff;
mod stream;
mod take;
mod watch;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use hermod_catalog::Scope;
use hermod_core::queue::claim::Failing;
use hermod_core::queue::push::{PUSH_MAX, Push};
use hermod_core::queue::{Delivery, DeliveryId, Mode, OnExhausted, Order, Overdue, Queue, Stored, Terms, Turnover, Woken};
use hermod_core::{Micros, Once, Outcome, Place, QueueId, SpaceId};
use hermod_engine::Engine;

use super::{AGAIN, App, Caller};
use crate::code::{Code, Problem, conflict};
use crate::telemetry::Depths;

pub(crate) use claim::WAIT_MAX;
pub use claim::{ClaimAsk, Taken};
pub use edit::Bulk;
pub(crate) use holding::is_run;
pub use list::{ListAsk, Listing};
pub use relay::RelayAnswer;
pub(crate) use reply::Replies;
pub use settle::SettleAsk;
pub use staff::{Explanation, WorkersAnswer};
pub use stream::StreamAsk;
pub(crate) use watch::Watches;
pub use worker::Registered;
pub(crate) use worker::{GRACE, Staffs};

/// So many bytes of payloads go into one step.
const PUSH_BYTES_MAX: usize = 1 << 20;

/// So many steps may share one way to the disk. Fewer than would be asked in another order than they came.
const STEPS_AT_ONCE: usize = 8;

/// So many queues are counted for metrics.
const QUEUES_MEASURED: usize = 100;

/// What became of one delivery that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushAnswer {
    /// Its name.
    pub id: DeliveryId,
    /// Whether it is new.
    pub stored: Stored,
    /// When it is due; none if it is finished.
    pub due: Option<Micros>,
    /// The time of the answer.
    pub now: Micros,
}

impl App {
    /// The queue of this name. On an open server one that is not there is made, with the defaults.
    pub(super) async fn queue_of(&self, caller: &Caller, queue: &str) -> Result<Arc<Queue>, Problem> {
        let id = QueueId::new(queue)?;
        if let Some(queue) = self.catalog.queue(&caller.space, &id) {
            return Ok(queue);
        }
        if !self.is_open {
            let hint = format!("There is no queue {id}. Make it first: PUT /v1/queues/{id} with {{}} for the defaults.");
            return Err(Problem::new(Code::NotFound, hint).in_field("queue"));
        }
        Ok(Arc::new(self.catalog.put_queue(&caller.space, Queue::new(id), None).await?.value.queue))
    }

    /// Counts what every queue holds, for those who watch: the first hundred.
    pub(crate) async fn measure_queues(&self, depths: &Depths) {
        let queues =
            self.catalog.all_queues().into_iter().flat_map(|(space, queues)| queues.into_iter().map(move |queue| (space.clone(), queue)));
        for (space, queue) in queues.take(QUEUES_MEASURED) {
            // One that cannot be counted keeps nobody from counting the others.
            let Ok(counts) = self.counts_of(&space, &queue, Micros::ZERO, 0).await else { continue };
            depths.depth(space.as_str(), queue.id.as_str(), &counts);
            if queue.mode == Mode::Sticky {
                let Ok((live, draining, parked)) = self.count_staff(&space, &queue).await else { continue };
                depths.staff(space.as_str(), queue.id.as_str(), live, draining, parked);
            }
        }
    }

    /// What operations must know of this queue.
    fn terms(&self, space: &SpaceId, queue: &Queue) -> Terms {
        let floor = match self.engine {
            // A store that fails over may fall back behind what was seen of it.
            Engine::Redis(_) => self.watches.of(space, &queue.id).highest.load(Ordering::Relaxed),
            Engine::Embedded(_) => 0,
        };
        Terms { is_sticky: queue.mode == Mode::Sticky, floor }
    }

    /// An answer says when something can be claimed next, and by whom if the queue is sticky.
    fn learn(&self, space: &SpaceId, queue: &Queue, partition: u16, next: Option<Micros>, woken: &[Woken]) {
        if queue.mode == Mode::Shared {
            return self.watches.of(space, &queue.id).learn(partition, next);
        }
        for (worker, at) in woken {
            if let Some(watch) = self.watches.known_of_worker(space, &queue.id, worker) {
                watch.learn(partition, Some(*at));
            }
        }
    }

    /// Counts what an operation did to who has whom, not if its answer is one that was given before. A worker is known in all partitions,
    /// each of which finds for itself that it is gone: it counts where its queue is at home.
    fn turned(&self, space: &SpaceId, queue: &Queue, partition: u16, turnover: Turnover) {
        if turnover == Turnover::default() {
            return;
        }
        let lost = if partition == self.home_of(space, queue) { turnover.lost } else { 0 };
        self.metrics.turned(queue.id.as_str(), lost, turnover.moved);
    }

    fn place_of(&self, space: &SpaceId, queue: &Queue, home: &str) -> Place {
        match queue.order {
            Order::Total => self.engine.partitions().place(space, &format!("queue {}", queue.id)),
            Order::Recipient => self.engine.partitions().place(space, home),
        }
    }

    /// Where a delivery is; none if it cannot be one of ours.
    fn place_of_id(&self, space: &SpaceId, id: DeliveryId) -> Option<Place> {
        let is_ours = id.partition < self.engine.partitions().count();
        is_ours.then(|| Place { space: space.clone(), partition: id.partition })
    }

    /// Where deliveries go that belong nowhere: anywhere, but a call that is repeated must find the same place.
    fn anywhere(&self, once: Option<&Once>) -> u64 {
        match once {
            Some(once) => hermod_core::partition::hash(once.key().as_bytes()),
            None => self.seed().draw(0),
        }
    }

    /// Puts deliveries into a queue, those of one place in this order. For each what became of it.
    pub async fn push(
        &self,
        caller: &Caller,
        queue: &str,
        deliveries: Vec<Delivery>,
        once: Option<&Once>,
    ) -> Result<Vec<Result<PushAnswer, Problem>>, Problem> {
        caller.need(Scope::QueuesPush)?;
        let queue = self.queue_of(caller, queue).await?;
        let anywhere = self.anywhere(once);
        let mut by_partition: BTreeMap<u16, Vec<(usize, Delivery)>> = BTreeMap::new();
        let mut answers: Vec<Option<Result<PushAnswer, Problem>>> = Vec::with_capacity(deliveries.len());
        for (position, delivery) in deliveries.into_iter().enumerate() {
            match check(&queue, &delivery) {
                Err(problem) => answers.push(Some(Err(problem))),
                Ok(()) => {
                    answers.push(None);
                    let place = match (delivery.home(), queue.order) {
                        (None, Order::Recipient) => u16::try_from(anywhere % u64::from(self.engine.partitions().count())).unwrap_or(0),
                        (home, _) => self.place_of(&caller.space, &queue, home.unwrap_or("")).partition,
                    };
                    by_partition.entry(place).or_default().push((position, delivery));
                }
            }
        }
        let pushes = by_partition.into_iter().map(|(partition, some)| self.push_to(caller, &queue, partition, some, once));
        for (position, answer) in join_all(pushes).await.into_iter().flatten() {
            if let Some(slot) = answers.get_mut(position) {
                *slot = Some(answer);
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Pushes to one partition, so many at a time, in this order.
    async fn push_to(
        &self,
        caller: &Caller,
        queue: &Queue,
        partition: u16,
        deliveries: Vec<(usize, Delivery)>,
        once: Option<&Once>,
    ) -> Vec<(usize, Result<PushAnswer, Problem>)> {
        let place = Place { space: caller.space.clone(), partition };
        let mut unheard = self.unheard(&caller.space, &queue.id);
        let mut answers = Vec::with_capacity(deliveries.len());
        let mut steps = (0..).zip(steps(deliveries)).map(|(part, (positions, some))| {
            let (push, once) = (
                Push::new(place.clone(), queue.id.clone(), self.terms(&caller.space, queue), failing(queue), some),
                once.map(|once| once.part(part)),
            );
            async move { (positions, self.engine.run(&push, once.as_ref()).await) }
        });
        // The embedded engine takes each when it is first asked, so they stay in order, and share one way to the disk. On
        // Redis one that overtakes another would be before it in the queue.
        let at_once = if matches!(self.engine, Engine::Embedded(_)) { STEPS_AT_ONCE } else { 1 };
        let mut ran = Vec::new();
        loop {
            let some = join_all(steps.by_ref().take(at_once)).await;
            if some.is_empty() {
                break;
            }
            ran.extend(some);
        }
        for (positions, ran) in ran {
            let pushed = match ran.map_err(Problem::from).map(|ran| ran.outcome) {
                Ok(Outcome::Done(pushed)) => {
                    self.metrics.over(queue.id.as_str(), pushed.dead, pushed.expired);
                    self.turned(&caller.space, queue, partition, pushed.turnover);
                    pushed
                }
                Ok(Outcome::Replayed(pushed)) => pushed,
                Ok(Outcome::Conflict) => {
                    answers.extend(positions.into_iter().map(|position| (position, Err(conflict()))));
                    continue;
                }
                Err(problem) => {
                    unheard.failed(&problem);
                    answers.extend(positions.into_iter().map(|position| (position, Err(problem.clone()))));
                    continue;
                }
            };
            self.learn(&caller.space, queue, partition, pushed.next, &pushed.woken);
            let greatest = pushed.stored.iter().filter(|(stored, _, _)| *stored == Stored::Added).map(|(_, number, _)| *number).max();
            self.watches.saw_number(&caller.space, &queue.id, greatest.unwrap_or(0));
            for (position, (stored, number, due)) in positions.into_iter().zip(pushed.stored) {
                let due = (stored != Stored::Finished).then_some(due);
                answers.push((position, Ok(PushAnswer { id: DeliveryId { partition, number }, stored, due, now: pushed.now })));
            }
        }
        unheard.heard();
        answers
    }

    /// To be had before the store is asked for a change.
    fn unheard<'a>(&'a self, space: &'a SpaceId, queue: &'a QueueId) -> Unheard<'a> {
        Unheard { watches: &self.watches, space, queue, has_failed: false, is_heard: false }
    }
}

/// A change of a queue that is under way. If it is not heard what became of it, because the store fails or whoever asked leaves, it may be done all
/// the same: what is known of the queue is then forgotten, so that what can be claimed is looked for.
struct Unheard<'a> {
    watches: &'a Watches,
    space: &'a SpaceId,
    queue: &'a QueueId,
    has_failed: bool,
    is_heard: bool,
}

impl Unheard<'_> {
    /// A part of it failed.
    fn failed(&mut self, problem: &Problem) {
        // Whatever else is said of it, it was not done.
        self.has_failed |= problem.code == Code::StoreUnavailable;
    }

    /// What is to be learnt of all other parts is learnt.
    fn heard(mut self) {
        self.is_heard = true;
    }
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if self.has_failed || !self.is_heard {
            self.watches.forget_all(self.space, self.queue);
        }
    }
}

/// Deliveries of one partition, so many as go into one step, with their positions.
fn steps(deliveries: Vec<(usize, Delivery)>) -> Vec<(Vec<usize>, Vec<Delivery>)> {
    let mut rest = deliveries.into_iter().peekable();
    let mut steps = Vec::new();
    while rest.peek().is_some() {
        let (mut positions, mut some, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((position, delivery)) = rest.next_if(|_| some.len() < PUSH_MAX && bytes < PUSH_BYTES_MAX) {
            bytes += delivery.payload.len();
            positions.push(position);
            some.push(delivery);
        }
        steps.push((positions, some));
    }
    steps
}

/// What becomes of deliveries of this queue that fail.
fn failing(queue: &Queue) -> Failing {
    Failing {
        max_attempts: u16::try_from(queue.max_attempts).unwrap_or(u16::MAX),
        drops: queue.on_exhausted == OnExhausted::Drop,
        drop_after: match queue.overdue {
            Overdue::Deliver => None,
            Overdue::DropAfter(span) => Some(span),
        },
    }
}

fn check(queue: &Queue, delivery: &Delivery) -> Result<(), Problem> {
    delivery.check()?;
    if queue.mode == Mode::Sticky && delivery.to.is_none() {
        let needed = format!("The queue {} is sticky: a delivery goes to its recipient's worker, so to is needed.", queue.id);
        return Err(Problem::new(Code::MissingField, needed).in_field("to"));
    }
    let max = usize::try_from(queue.max_payload).unwrap_or(usize::MAX);
    if delivery.payload.len() > max {
        let many = format!("payload is {} bytes; this queue takes {max} at most.", delivery.payload.len());
        return Err(Problem::new(Code::InvalidField, many).in_field("payload"));
    }
    Ok(())
}
