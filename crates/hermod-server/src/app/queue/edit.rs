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
        let parts =
            by_partition.iter().flat_map(|(partition, numbers)| numbers.chunks(EDIT_MAX).enumerate().map(move |part| (*partition, part)));
        let edits = parts.map(|(partition, (position, some))| {
            let place = Place { space: caller.space.clone(), partition };
            let part = part_of(&change, position, some);
            let (queue, change, once) = (&queue, change.clone(), once.map(|once| once.part(part)));
            async move { self.edit_in(place, queue, change, some.to_vec(), once.as_ref()).await }
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
        match self.engine.run(&Edit::new(place, queue.id.clone(), self.terms(&space, queue), change, numbers), once).await?.outcome {
            Outcome::Done(edits) | Outcome::Replayed(edits) => {
                self.learn(&space, queue, partition, edits.next, &edits.woken);
                unheard.heard();
                Ok(edits.edited)
            }
            Outcome::Conflict => Err(conflict()),
        }
    }
}

/// Which part of a change of many these are, in their partition. Asked for again, what was cancelled or redriven is not found any
/// more, and others stand in its place: they are another part. What was shifted is found where it was, and is not shifted twice.
fn part_of(change: &Change, position: usize, numbers: &[Number]) -> u64 {
    match change {
        Change::Cancel | Change::Move(Move::Redrive) => {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            hermod_core::partition::hash(&bytes)
        }
        Change::Move(Move::To(_) | Move::Later(_) | Move::Earlier(_)) | Change::Rewrite { .. } => {
            u64::try_from(position).unwrap_or(u64::MAX)
        }
    }
}
