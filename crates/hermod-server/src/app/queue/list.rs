//! queue: looks at deliveries, one or a page at a time, and counts them.

use futures_util::future::join_all;
use hermod_catalog::Scope;
use hermod_core::queue::list::LIST_MAX;
use hermod_core::queue::{Counts, DeliveryId, Filter, List, Listed, Order, Page, Queue, Shown, Stats};
use hermod_core::{Micros, Outcome, Place, SpaceId};

use super::{App, Caller};
use crate::code::{Code, Problem, conflict};
use crate::push::Attempt;

/// Which deliveries, and from where on.
#[derive(Clone, Debug)]
pub struct ListAsk {
    /// Which.
    pub filter: Filter,
    /// The partition and the place in it after which the page begins.
    pub after: Option<(u16, Option<Page>)>,
    /// How many.
    pub limit: usize,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The time of the answer.
    pub now: Micros,
    /// What is on it.
    pub items: Vec<(DeliveryId, Shown)>,
    /// Where the next one begins.
    pub next: Option<(u16, Option<Page>)>,
}

impl App {
    /// The partitions in which deliveries of a queue can be.
    pub(super) fn partitions_of(&self, space: &SpaceId, queue: &Queue) -> std::ops::Range<u16> {
        match queue.order {
            Order::Recipient => 0..self.engine.partitions().count(),
            Order::Total => {
                let only = self.place_of(space, queue, "").partition;
                only..only + 1
            }
        }
    }

    /// A page of deliveries, partition by partition; within one in order.
    pub async fn deliveries(&self, caller: &Caller, queue: &str, ask: &ListAsk) -> Result<Listing, Problem> {
        caller.need(Scope::QueuesRead)?;
        let queue = self.queue_of(caller, queue).await?;
        self.deliveries_of(&caller.space, &queue, ask).await
    }

    pub(super) async fn deliveries_of(&self, space: &SpaceId, queue: &Queue, ask: &ListAsk) -> Result<Listing, Problem> {
        let range = self.partitions_of(space, queue);
        let (mut partition, mut after) = ask.after.unwrap_or((range.start, None));
        let mut listing = Listing { now: self.now(), items: Vec::new(), next: None };
        while partition < range.end {
            let left = ask.limit - listing.items.len();
            if left == 0 {
                listing.next = Some((partition, after));
                break;
            }
            let place = Place { space: space.clone(), partition };
            let listed = self.look(&List::new(place, queue.id.clone(), ask.filter.clone(), after, left.min(LIST_MAX))).await?;
            let named = |shown: Shown| (DeliveryId { partition, number: shown.number }, shown);
            listing.items.extend(listed.shown.into_iter().map(named));
            match listed.more {
                Some(page) => after = Some(page),
                None => (partition, after) = (partition + 1, None),
            }
        }
        Ok(listing)
    }

    async fn look(&self, list: &List) -> Result<Listed, Problem> {
        match self.engine.run(list, None).await?.outcome {
            Outcome::Done(listed) | Outcome::Replayed(listed) => Ok(listed),
            Outcome::Conflict => Err(conflict()),
        }
    }

    /// One delivery.
    pub async fn delivery(&self, caller: &Caller, queue: &str, id: &str) -> Result<(DeliveryId, Shown), Problem> {
        caller.need(Scope::QueuesRead)?;
        let queue = self.queue_of(caller, queue).await?;
        let id: DeliveryId = id.parse()?;
        let gone = || Problem::new(Code::NotFound, format!("There is no delivery {id}; it was finished, cancelled, or never was."));
        let place = self.place_of_id(&caller.space, id).ok_or_else(gone)?;
        let listed = self.look(&List::new(place, queue.id.clone(), Filter::Number(id.number), None, 1)).await?;
        listed.shown.into_iter().next().map(|shown| (id, shown)).ok_or_else(gone)
    }

    /// The delivery of a key.
    pub async fn delivery_of_key(&self, caller: &Caller, queue: &str, key: &str, to: &str) -> Result<Option<(DeliveryId, Shown)>, Problem> {
        caller.need(Scope::QueuesRead)?;
        let queue = self.queue_of(caller, queue).await?;
        let place = self.place_of(&caller.space, &queue, if to.is_empty() { key } else { to });
        let partition = place.partition;
        let filter = Filter::Key { key: key.to_owned(), to: to.to_owned() };
        let listed = self.look(&List::new(place, queue.id.clone(), filter, None, 1)).await?;
        Ok(listed.shown.into_iter().next().map(|shown| (DeliveryId { partition, number: shown.number }, shown)))
    }

    /// What this server last tried to send to the queue's webhook, the newest first.
    pub async fn attempts(&self, caller: &Caller, queue: &str) -> Result<Vec<Attempt>, Problem> {
        caller.need(Scope::QueuesRead)?;
        let queue = self.queue_of(caller, queue).await?;
        Ok(self.sender.attempts(caller.space.as_str(), queue.id.as_str()))
    }

    /// How many deliveries there are, and when they fall due.
    pub async fn queue_counts(&self, caller: &Caller, queue: &str, step: Micros, steps: usize) -> Result<Counts, Problem> {
        caller.need(Scope::QueuesRead)?;
        let queue = self.queue_of(caller, queue).await?;
        self.counts_of(&caller.space, &queue, step, steps).await
    }

    pub(crate) async fn counts_of(&self, space: &SpaceId, queue: &Queue, step: Micros, steps: usize) -> Result<Counts, Problem> {
        let all = self.partitions_of(space, queue).map(|partition| async move {
            let place = Place { space: space.clone(), partition };
            self.engine.run(&Stats::new(place, queue.id.clone(), step, steps), None).await
        });
        let mut sum = Counts { forecast: vec![0; steps], ..Counts::default() };
        for ran in join_all(all).await {
            let counts = match ran?.outcome {
                Outcome::Done(counts) | Outcome::Replayed(counts) => counts,
                Outcome::Conflict => return Err(conflict()),
            };
            let earliest = |a: Option<Micros>, b: Option<Micros>| [a, b].into_iter().flatten().min();
            sum.now = sum.now.max(counts.now);
            sum.next = earliest(sum.next, counts.next);
            sum.next_end = earliest(sum.next_end, counts.next_end);
            sum.oldest = earliest(sum.oldest, counts.oldest);
            sum.ready += counts.ready;
            sum.scheduled += counts.scheduled;
            sum.leased += counts.leased;
            sum.dead += counts.dead;
            for (total, count) in sum.forecast.iter_mut().zip(counts.forecast) {
                *total += count;
            }
        }
        Ok(sum)
    }
}
