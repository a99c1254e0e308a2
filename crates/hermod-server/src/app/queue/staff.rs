//! queue: who works on a sticky queue and how much each has, and what is known of a recipient.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use hermod_catalog::Scope;
use hermod_core::queue::workers::COUNTED_MAX;
use hermod_core::queue::{DeliveryId, Explained, Forget, Look, Mode, Queue, Roll, Standing, Working};
use hermod_core::{Micros, Once, Outcome, Place, Recipient, SpaceId, WorkerId};

use super::{App, Caller};
use crate::code::{Problem, conflict};

/// Who works on a queue.
#[derive(Clone, Debug, Default)]
pub struct WorkersAnswer {
    /// The time of the answer.
    pub now: Micros,
    /// By name, with how many deliveries their recipients have in all.
    pub workers: Vec<(Working, u64)>,
    /// How many recipients wait for a worker.
    pub parked: u64,
}

/// What is known of a recipient.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What is known.
    pub explained: Explained,
    /// The delivery that is handed out, or would be next.
    pub head: Option<DeliveryId>,
    /// Whether the recipient has a worker at all.
    pub is_sticky: bool,
}

impl App {
    /// Who works on a queue, and how much each has.
    pub async fn workers(&self, caller: &Caller, queue: &str) -> Result<WorkersAnswer, Problem> {
        let queue = self.sticky_queue(caller, queue, Scope::QueuesClaim).await?;
        let rolls = self.partitions_of(&caller.space, &queue).map(|partition| {
            let roll = Roll::new(Place { space: caller.space.clone(), partition }, queue.id.clone());
            self.rolled(roll)
        });
        let mut answer = WorkersAnswer::default();
        let mut all: BTreeMap<Box<str>, (Working, u64)> = BTreeMap::new();
        for rolled in join_all(rolls).await {
            let (now, parked, workers) = rolled?;
            (answer.now, answer.parked) = (answer.now.max(now), answer.parked + parked);
            for (working, pending) in workers {
                let Some((sum, sum_pending)) = all.get_mut(&working.worker) else {
                    all.insert(working.worker.clone(), (working, pending));
                    continue;
                };
                *sum_pending += pending;
                let (waiting, in_flight) = (sum.waiting + working.waiting, sum.in_flight + working.in_flight);
                // The one that knows of the latest life knows best.
                if (working.incarnation, working.until) > (sum.incarnation, sum.until) {
                    *sum = working;
                }
                (sum.waiting, sum.in_flight) = (waiting, in_flight);
            }
        }
        answer.workers = all.into_values().collect();
        Ok(answer)
    }

    /// How many work, how many of them drain, and how many recipients wait for one.
    pub(super) async fn count_staff(&self, space: &SpaceId, queue: &Queue) -> Result<(usize, usize, u64), Problem> {
        let home = self.home_of(space, queue);
        let rolls = self.partitions_of(space, queue).map(|partition| {
            let roll = Roll::new(Place { space: space.clone(), partition }, queue.id.clone());
            async move { (partition, self.engine.run(&roll, None).await) }
        });
        let (mut counts, mut parked) = ((0, 0), 0);
        for (partition, ran) in join_all(rolls).await {
            let (Outcome::Done(rolled) | Outcome::Replayed(rolled)) = ran?.outcome else { continue };
            parked += rolled.parked;
            if partition == home {
                let count = |standing: Standing| rolled.workers.iter().filter(|working| working.standing == standing).count();
                counts = (count(Standing::Live), count(Standing::Draining));
            }
        }
        Ok((counts.0, counts.1, parked))
    }

    /// The workers of one partition, with the number of deliveries of each.
    async fn rolled(&self, roll: Roll) -> Result<(Micros, u64, Vec<(Working, u64)>), Problem> {
        let (Outcome::Done(rolled) | Outcome::Replayed(rolled)) = self.engine.run(&roll, None).await?.outcome else {
            return Err(conflict());
        };
        let mut workers = Vec::with_capacity(rolled.workers.len());
        for working in rolled.workers {
            let recipients = working.waiting + working.in_flight;
            let mut pending = recipients;
            if rolled.behind > 0
                && let Ok(name) = WorkerId::new(&working.worker)
            {
                for counted in (0..u32::try_from(recipients).unwrap_or(u32::MAX)).step_by(COUNTED_MAX) {
                    let ran = self.engine.run(&roll.clone().behind(Some(&name), counted), None).await?;
                    if let Outcome::Done(more) | Outcome::Replayed(more) = ran.outcome {
                        pending += more.behind;
                    }
                }
            }
            workers.push((working, pending));
        }
        Ok((rolled.now, rolled.parked, workers))
    }

    /// What is known of a recipient: who has it, since when and why, and what it waits for.
    pub async fn explain_recipient(&self, caller: &Caller, queue: &str, to: &str) -> Result<Explanation, Problem> {
        caller.need(Scope::QueuesClaim)?;
        let queue = self.queue_of(caller, queue).await?;
        self.look_at(caller, &queue, to, None, None).await
    }

    /// A recipient is to have this worker while it lives; or any.
    pub async fn pin(
        &self,
        caller: &Caller,
        queue: &str,
        to: &str,
        worker: Option<&str>,
        once: Option<&Once>,
    ) -> Result<Explanation, Problem> {
        let queue = self.sticky_queue(caller, queue, Scope::QueuesClaim).await?;
        let worker = worker.map(WorkerId::new).transpose()?;
        self.look_at(caller, &queue, to, Some(worker), once).await
    }

    /// Forgets who worked on a queue that is gone, and who had whom, step by step.
    pub(in crate::app) async fn forget_owners(&self, space: &SpaceId, queue: &Queue) -> Result<(), Problem> {
        let places = self.partitions_of(space, queue).map(|partition| async move {
            let mut forget = Forget::new(Place { space: space.clone(), partition }, queue.id.clone());
            loop {
                match self.engine.run(&forget, None).await?.outcome {
                    Outcome::Done(forgotten) | Outcome::Replayed(forgotten) if forgotten.next > 0 => forget = forget.from(forgotten.next),
                    _ => return Ok::<_, Problem>(()),
                }
            }
        });
        join_all(places).await.into_iter().collect()
    }

    pub(super) async fn look_at(
        &self,
        caller: &Caller,
        queue: &Queue,
        to: &str,
        pin: Option<Option<WorkerId>>,
        once: Option<&Once>,
    ) -> Result<Explanation, Problem> {
        let to = Recipient::new(to)?;
        let place = self.place_of(&caller.space, queue, to.as_str());
        let partition = place.partition;
        let mut look = Look::new(place, queue.id.clone(), self.terms(&caller.space, queue), to);
        if let Some(pin) = pin {
            look = look.pin(pin);
        }
        let unheard = self.unheard(&caller.space, &queue.id);
        let outcome = self.engine.run(&look, once).await?.outcome;
        if let Outcome::Done(explained) = &outcome {
            self.turned(&caller.space, queue, partition, explained.turnover);
        }
        let explained = match outcome {
            Outcome::Done(explained) | Outcome::Replayed(explained) => explained,
            Outcome::Conflict => return Err(conflict()),
        };
        self.learn(&caller.space, queue, partition, None, &explained.woken);
        unheard.heard();
        let head = explained.head.map(|head| DeliveryId { partition, number: head.number });
        Ok(Explanation { explained, head, is_sticky: queue.mode == Mode::Sticky })
    }
}
