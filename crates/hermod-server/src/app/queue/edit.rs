//! queue: changes deliveries that nobody holds, one or many.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use hermod_catalog::Scope;
use hermod_core::queue::edit::EDIT_MAX;
use hermod_core::queue::{Change, DeliveryId, Edit, Edited, Filter, Move, Number, Page, Queue};
use hermod_core::{Once, Outcome, Place, SpaceId};

use super::{App, Caller, ListAsk};
use crate::code::{Code, Problem, conflict};

/// So many deliveries are changed by one call.
const BULK_MAX: usize = 1_000;

/// So many are put off by one call, if they are found by their time.
const PUT_OFF_MAX: usize = 100_000;

/// What a change of many has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    /// So many were changed.
    pub done: u64,
    /// So many are held by somebody, and are as they were.
    pub leased: u64,
    /// So many had gone meanwhile, or are of another state.
    pub others: u64,
    /// Where the next call begins, if there are more.
    pub next: Option<(u16, Option<Page>)>,
}

impl App {
    /// Changes one delivery.
    pub async fn edit(&self, caller: &Caller, queue: &str, id: &str, change: Change, once: Option<&Once>) -> Result<Edited, Problem> {
        caller.need(Scope::QueuesPush)?;
        let queue = self.queue_of(caller, queue).await?;
        let id: DeliveryId = id.parse()?;
        if let Change::Rewrite { payload, .. } = &change
            && payload.len() > usize::try_from(queue.max_payload).unwrap_or(usize::MAX)
        {
            let many = format!("payload is {} bytes; this queue takes {} at most.", payload.len(), queue.max_payload);
            return Err(Problem::new(Code::InvalidField, many).in_field("payload"));
        }
        let Some(place) = self.place_of_id(&caller.space, id) else { return Ok(Edited::Gone) };
        let edited = self.edit_in(place, &queue, change, vec![id.number], once).await?;
        Ok(edited.into_iter().next().unwrap_or(Edited::Gone))
    }

    /// Changes all deliveries that fit, up to a thousand a call. Those that are found by their time and put off are
    /// changed all at once: moved one by one, they would be found again.
    pub async fn edit_all(
        &self,
        caller: &Caller,
        queue: &str,
        filter: Filter,
        change: Change,
        after: Option<(u16, Option<Page>)>,
        once: Option<&Once>,
    ) -> Result<Bulk, Problem> {
        caller.need(Scope::QueuesPush)?;
        let queue = self.queue_of(caller, queue).await?;
        let puts_off = matches!((&change, &filter), (Change::Move(Move::Later(_)), Filter::Waiting { .. }));
        let mut by_partition: BTreeMap<u16, Vec<Number>> = BTreeMap::new();
        let (mut ask, mut found) = (ListAsk { filter, after, limit: BULK_MAX }, 0);
        loop {
            let listing = self.deliveries_of(&caller.space, &queue, &ask).await?;
            found += listing.items.len();
            for (id, _) in &listing.items {
                by_partition.entry(id.partition).or_default().push(id.number);
            }
            ask.after = listing.next;
            if !puts_off || ask.after.is_none() {
                break;
            }
            if found >= PUT_OFF_MAX {
                let many = format!("More than {PUT_OFF_MAX} wait there. Shift them by tag, or part by part, the latest first.");
                return Err(Problem::new(Code::InvalidField, many).in_field("until"));
            }
        }
        let by_partition: Vec<_> = by_partition.into_iter().collect();
        let parts =
            by_partition.iter().flat_map(|(partition, numbers)| parts_of(&change, numbers).into_iter().map(move |part| (*partition, part)));
        let edits = parts.map(|(partition, (part, some))| {
            let place = Place { space: caller.space.clone(), partition };
            let (queue, change, once) = (&queue, change.clone(), once.map(|once| once.part(part)));
            async move { self.edit_in(place, queue, change, some, once.as_ref()).await }
        });
        let mut bulk = Bulk { next: ask.after, ..Bulk::default() };
        for edited in join_all(edits).await {
            for one in edited? {
                match one {
                    Edited::Done { .. } => bulk.done += 1,
                    Edited::Leased { .. } => bulk.leased += 1,
                    Edited::Gone | Edited::Dead | Edited::Alive => bulk.others += 1,
                }
            }
        }
        Ok(bulk)
    }

    pub(super) async fn edit_in(
        &self,
        place: Place,
        queue: &Queue,
        change: Change,
        numbers: Vec<Number>,
        once: Option<&Once>,
    ) -> Result<Vec<Edited>, Problem> {
        let (space, partition): (SpaceId, u16) = (place.space.clone(), place.partition);
        let unheard = self.unheard(&space, &queue.id);
        let outcome = self.engine.run(&Edit::new(place, queue.id.clone(), self.terms(&space, queue), change, numbers), once).await?.outcome;
        if let Outcome::Done(edits) = &outcome {
            self.turned(&space, queue, partition, edits.turnover);
        }
        match outcome {
            Outcome::Done(edits) | Outcome::Replayed(edits) => {
                self.learn(&space, queue, partition, edits.next, &edits.woken);
                unheard.heard();
                Ok(edits.edited)
            }
            Outcome::Conflict => Err(conflict()),
        }
    }
}

/// The parts in which many of a partition are changed, each with its number, under which it is done once. Asked for again, what was cancelled or
/// redriven is not found any more, and others stand in its place: they are another part. What was shifted is found again, or not, among others than
/// before: it is of the same part whoever else is found.
fn parts_of(change: &Change, numbers: &[Number]) -> Vec<(u64, Vec<Number>)> {
    match change {
        Change::Cancel | Change::Move(Move::Redrive) => {
            let bytes = |some: &[Number]| some.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
            numbers.chunks(EDIT_MAX).map(|some| (hermod_core::partition::hash(&bytes(some)), some.to_vec())).collect()
        }
        Change::Move(Move::To(_) | Move::Later(_) | Move::Earlier(_)) | Change::Rewrite { .. } => {
            let (mut parts, span): (BTreeMap<u64, Vec<Number>>, _) = (BTreeMap::new(), u64::try_from(EDIT_MAX).unwrap_or(u64::MAX));
            for number in numbers {
                parts.entry(number / span).or_default().push(*number);
            }
            parts.into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use hermod_core::Micros;

    use super::*;

    #[test]
    fn a_delivery_is_of_the_same_part_whoever_else_is_found() {
        let later = Change::Move(Move::Later(Micros::saturating(1)));
        let part_of = |found: &[Number], one: Number| {
            let parts = parts_of(&later, found);
            assert!(parts.iter().all(|(_, some)| some.len() <= EDIT_MAX));
            parts.into_iter().find(|(_, some)| some.contains(&one)).map(|(part, _)| part)
        };
        let all: Vec<Number> = (1..=1_000).rev().collect();
        let some: Vec<Number> = all.iter().copied().filter(|number| number % 7 == 0).collect();
        for one in &some {
            assert_eq!(part_of(&all, *one), part_of(&some, *one));
        }
        let parts: Vec<u64> = parts_of(&later, &all).into_iter().map(|(part, _)| part).collect();
        assert!(parts.is_sorted() && parts.len() >= 1_000 / EDIT_MAX);
    }
}
