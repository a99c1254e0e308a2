//! queue: asks the partitions in which something can be claimed.

use futures_util::future::join_all;
use hermod_core::queue::{Claim, Claimed, DeliveryId, Handed, Queue, Standing, Stats};
use hermod_core::{Micros, Outcome, Place, SpaceId};
use hermod_engine::{Engine, Pending};
use tokio::time::Instant;

use super::watch::Watch;
use super::worker::gone;
use super::{App, ClaimAsk, Taken, failing};
use crate::code::Problem;

/// So often the partitions are asked before somebody waits again.
const ROUNDS_MAX: usize = 4;

/// What was handed out, and may not be told yet: its leases may be on their way to the disk, and its time may not have come.
#[derive(Debug, Default)]
pub(super) struct Haul {
    parts: Vec<Part>,
    count: usize,
    /// When the first of it can be claimed.
    pub(super) first: Option<Micros>,
    /// When the last of it can be.
    pub(super) last: Micros,
    /// That time by this machine; none if all of it was due when it was handed out.
    pub(super) until: Option<Instant>,
}

/// What one partition handed out.
#[derive(Debug)]
struct Part {
    taken: Vec<Taken>,
    pending: Pending,
}

impl Haul {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes in an answer that has come just now.
    fn add(&mut self, partition: u16, claimed: Claimed, pending: Pending) {
        // The answer was under way, so the store's time is this or later: who waits from here on is never early, whatever
        // is thought of that clock.
        let came = Instant::now();
        for handed in &claimed.handed {
            self.first = Some(self.first.map_or(handed.at, |first| first.min(handed.at)));
            self.last = self.last.max(handed.at);
            if handed.at > claimed.now {
                self.until = self.until.max(Some(came + handed.at.since(claimed.now).to_duration()));
            }
        }
        self.count += claimed.handed.len();
        let named = |handed: Handed| Taken { id: DeliveryId { partition, number: handed.number }, handed };
        self.parts.push(Part { taken: claimed.handed.into_iter().map(named).collect(), pending });
    }

    /// All of it in order, when the store has it.
    pub(super) async fn stored(self) -> Result<Vec<Taken>, Problem> {
        let (mut taken, mut fault) = (Vec::with_capacity(self.count), None);
        for part in self.parts {
            match part.pending.stored().await {
                Ok(()) => taken.extend(part.taken),
                Err(error) => fault = Some(error),
            }
        }
        // What was handed out is told, whatever befell the others.
        if let Some(fault) = fault.filter(|_| taken.is_empty()) {
            return Err(fault.into());
        }
        taken.sort_unstable_by_key(|taken| (taken.handed.at, taken.handed.number));
        Ok(taken)
    }
}

impl App {
    /// Looks at the partitions of which nothing is known. Where some do not answer, the others count: those are looked at again when all that
    /// is known is forgotten, as it is every now and then.
    async fn look_around(&self, space: &SpaceId, queue: &Queue, watch: &Watch) -> Result<(), Problem> {
        let range = self.partitions_of(space, queue);
        let looks = watch.unknown().into_iter().map(|partition| {
            let (learned, is_ours) = (watch.learned(partition), range.contains(&partition));
            let place = Place { space: space.clone(), partition };
            async move {
                if !is_ours {
                    return (partition, learned, Ok(None));
                }
                let ran = self.engine.run(&Stats::new(place, queue.id.clone(), Micros::ZERO, 0), None).await;
                let counts = ran.map(|ran| match ran.outcome {
                    Outcome::Done(counts) | Outcome::Replayed(counts) => Some(counts),
                    Outcome::Conflict => None,
                });
                (partition, learned, counts)
            }
        });
        let (mut silent, mut fault, mut has_answer) = (Vec::new(), None, false);
        for (partition, learned, looked) in join_all(looks).await {
            let counts = match looked {
                Ok(counts) => counts,
                Err(error) => {
                    silent.push((partition, learned));
                    fault = Some(error);
                    continue;
                }
            };
            if let Some(counts) = &counts {
                has_answer = true;
                self.watches.set_clock(counts.now, self.now());
            }
            let (next, next_end) = counts.map_or((None, None), |counts| (counts.next, counts.next_end));
            watch.saw(partition, learned, next, next_end);
        }
        match fault {
            Some(fault) if !has_answer || matches!(self.engine, Engine::Embedded(_)) => Err(fault.into()),
            _ => {
                silent.into_iter().for_each(|(partition, learned)| watch.saw(partition, learned, None, None));
                Ok(())
            }
        }
    }

    /// Asks the partitions in which something is due, or will be within `ahead` if nothing is.
    pub(super) async fn take(&self, space: &SpaceId, queue: &Queue, watch: &Watch, ask: &ClaimAsk, ahead: Micros) -> Result<Haul, Problem> {
        let mut haul = Haul::default();
        for _ in 0..ROUNDS_MAX {
            if let Err(problem) = self.look_around(space, queue, watch).await {
                if haul.is_empty() {
                    return Err(problem);
                }
                break;
            }
            let now = self.watches.store_time(self.now());
            let (reach, mut due) = watch.due(now, ahead, haul.first);
            let Some((earliest, _)) = due.first().copied() else {
                // What was found may have been forgotten meanwhile, because a signal may have been lost.
                if watch.unknown().is_empty() {
                    break;
                }
                continue;
            };
            let (wanted, charged) = match self.catch_up(space, queue, watch, earliest, ask.count - haul.count).await {
                Ok(allowed) => allowed,
                Err(problem) if haul.is_empty() => return Err(problem),
                Err(_) => break,
            };
            due.truncate(wanted);
            if due.is_empty() {
                break;
            }
            let before = haul.count;
            let asked = self.ask_all(space, queue, watch, ask, (&due, wanted, reach.since(now)), &mut haul).await;
            self.caught_up(space, queue, (before + charged).saturating_sub(haul.count)).await;
            match asked {
                Err(problem) if haul.is_empty() => return Err(problem),
                Err(_) => break,
                Ok(()) if haul.count >= ask.count => break,
                Ok(()) => {}
            }
        }
        Ok(haul)
    }

    /// Asks these partitions for what they have by then, together no more than is wanted.
    async fn ask_all(
        &self,
        space: &SpaceId,
        queue: &Queue,
        watch: &Watch,
        ask: &ClaimAsk,
        (due, wanted, ahead): (&[(Micros, u16)], usize, Micros),
        haul: &mut Haul,
    ) -> Result<(), Problem> {
        // The earliest have the odd ones.
        let (each, odd) = (wanted / due.len(), wanted % due.len());
        let lease = ask.lease.unwrap_or(queue.lease);
        let claims = due.iter().enumerate().map(|(turn, (_, partition))| {
            let place = Place { space: space.clone(), partition: *partition };
            let each = each + usize::from(turn < odd);
            let mut claim = Claim::new(place, queue.id.clone(), self.terms(space, queue), each, lease, failing(queue)).ahead(ahead);
            if let Some((worker, incarnation)) = ask.worker.clone() {
                claim = claim.by(worker, incarnation);
            }
            let learned = watch.learned(*partition);
            async move { (*partition, learned, self.engine.begin(&claim).await) }
        });
        let (mut fault, mut is_gone) = (None, false);
        for (partition, learned, begun) in join_all(claims).await {
            let (claimed, pending) = match begun {
                Ok((Outcome::Done(claimed) | Outcome::Replayed(claimed), pending)) => (claimed, pending),
                Ok((Outcome::Conflict, _)) => continue,
                Err(error) => {
                    fault = Some(error);
                    continue;
                }
            };
            self.watches.set_clock(claimed.now, self.now());
            self.metrics.over(queue.id.as_str(), claimed.dead, claimed.expired);
            self.turned(space, queue, partition, claimed.turnover);
            // What somebody is told who is gone says nothing of what there is for whoever has this name now.
            if claimed.standing == Standing::Gone {
                is_gone = true;
                continue;
            }
            watch.saw(partition, learned, claimed.next, claimed.next_end);
            self.learn(space, queue, partition, None, &claimed.woken);
            let greatest = claimed.handed.iter().map(|handed| handed.token.0).max();
            self.watches.saw_number(space, &queue.id, greatest.unwrap_or(0));
            haul.add(partition, claimed, pending);
        }
        match (fault, ask.worker.as_ref().filter(|_| is_gone)) {
            (Some(fault), _) => Err(fault.into()),
            (None, Some((worker, _))) if haul.is_empty() => Err(gone(worker)),
            _ => Ok(()),
        }
    }
}
