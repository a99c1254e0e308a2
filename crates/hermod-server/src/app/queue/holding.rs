//! queue: what a queue holds when it is to be deleted, or its deliveries would have to lie elsewhere.
//!
//! A delivery is found by its queue's definition: `mode` and `order` say in which place it is. So neither changes, and no
//! queue goes, while there are any. The runs to come of its schedules do not keep a queue, as the schedules go with it;
//! and as long as it stays, so do they. What is pushed in the moment between the look and the change is not seen: the look
//! is for those who do not know what they have, not a lock.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use hermod_core::queue::delivery::{Meta, read_body};
use hermod_core::queue::edit::EDIT_MAX;
use hermod_core::queue::{Change, DeliveryId, Filter, Number, Queue, Shown, Status};
use hermod_core::{Micros, Place, SpaceId};

use super::{App, ListAsk};
use crate::code::{Code, Problem};

/// So many are cancelled in one step, and so many runs to come are told from other deliveries.
const STEP_MAX: usize = 1_000;

const WAITING: Filter = Filter::Waiting { from: Micros::ZERO, until: Micros::MAX };

impl App {
    /// Refuses a change that would leave deliveries where nobody looks for them.
    pub(in crate::app) async fn need_same_places(&self, space: &SpaceId, known: &Queue, wanted: &Queue) -> Result<(), Problem> {
        let (field, stored) = if known.mode != wanted.mode {
            ("mode", known.mode.as_str())
        } else if known.order != wanted.order {
            ("order", known.order.as_str())
        } else {
            return Ok(());
        };
        let Some(held) = self.held_in(space, known, 0).await? else { return Ok(()) };
        let text = format!(
            "{field} is {stored} and cannot change while the queue {} holds {held}. Let them be finished, or cancel them; or make another queue.",
            known.id
        );
        Err(Problem::new(Code::QueueNotEmpty, text).in_field(field))
    }

    /// Refuses to delete a queue that holds more than the runs to come of its schedules; which these are.
    pub(in crate::app) async fn need_empty(&self, space: &SpaceId, queue: &Queue) -> Result<Vec<DeliveryId>, Problem> {
        let waiting = self.deliveries_of(space, queue, &ListAsk { filter: WAITING, after: None, limit: STEP_MAX }).await?;
        let runs: Vec<DeliveryId> = waiting.items.iter().filter(|(_, shown)| is_run_to_come(shown)).map(|(id, _)| *id).collect();
        let Some(held) = self.held_in(space, queue, u64::try_from(runs.len()).unwrap_or(0)).await? else { return Ok(runs) };
        let text = format!(
            "The queue {} holds {held}. Let them be finished, or add purge=true, which cancels them; those that are leased first have to \
             be finished, or to be given back.",
            queue.id
        );
        Err(Problem::new(Code::QueueNotEmpty, text))
    }

    /// Cancels all that nobody holds but runs to come, so many at a time. If it breaks off, it goes on when it is asked again.
    pub(in crate::app) async fn purge(&self, space: &SpaceId, queue: &Queue) -> Result<(), Problem> {
        // What is held is last: leases end meanwhile.
        for filter in [WAITING, Filter::Dead, Filter::Held] {
            let mut ask = ListAsk { filter, after: None, limit: STEP_MAX };
            loop {
                let some = self.deliveries_of(space, queue, &ask).await?;
                let others = some.items.iter().filter(|(_, shown)| !is_run_to_come(shown)).map(|(id, _)| *id);
                self.cancel_in(space, queue, others).await?;
                ask.after = some.next;
                if ask.after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Cancels these, unless somebody holds them.
    pub(in crate::app) async fn cancel_in(
        &self,
        space: &SpaceId,
        queue: &Queue,
        ids: impl IntoIterator<Item = DeliveryId>,
    ) -> Result<(), Problem> {
        let mut by_partition: BTreeMap<u16, Vec<Number>> = BTreeMap::new();
        for id in ids {
            by_partition.entry(id.partition).or_default().push(id.number);
        }
        let steps = by_partition.iter().flat_map(|(partition, numbers)| numbers.chunks(EDIT_MAX).map(move |some| (*partition, some)));
        let cancels = steps.map(|(partition, some)| {
            let place = Place { space: space.clone(), partition };
            self.edit_in(place, queue, Change::Cancel, some.to_vec(), None)
        });
        join_all(cancels).await.into_iter().try_for_each(|cancelled| cancelled.map(drop))
    }

    /// What a queue holds beside so many runs to come, in words; none if nothing.
    async fn held_in(&self, space: &SpaceId, queue: &Queue, runs: u64) -> Result<Option<String>, Problem> {
        let counts = self.counts_of(space, queue, Micros::ZERO, 0).await?;
        let scheduled = counts.scheduled.saturating_sub(runs);
        let states = [(counts.ready, "ready"), (scheduled, "scheduled"), (counts.leased, "leased"), (counts.dead, "dead")];
        let sum: u64 = states.iter().map(|(count, _)| count).sum();
        let parts: Vec<String> = states.iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!("{count} {state}")).collect();
        let noun = if sum == 1 { "delivery" } else { "deliveries" };
        Ok((sum > 0).then(|| format!("{sum} {noun} ({})", parts.join(", "))))
    }
}

/// Whether a schedule made it: by its key and its tag, as others may have one or the other.
pub(crate) fn is_run(meta: &Meta<'_>) -> bool {
    let name = meta.key.strip_prefix("schedule/").and_then(|rest| rest.split('/').next());
    name.is_some_and(|name| meta.tags.iter().any(|tag| tag.strip_prefix("schedule:") == Some(name)))
}

/// Whether a schedule made it, for a time that has not come.
fn is_run_to_come(shown: &Shown) -> bool {
    let is_run = read_body(&shown.body).is_some_and(|(meta, _)| is_run(&meta));
    is_run && shown.status == Status::Scheduled && shown.attempts == 0
}
