//! queue: what the holder of deliveries says of them.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use hermod_catalog::Scope;
use hermod_core::queue::settle::{Outcome as Settlement, SETTLE_MAX, Settle, SettleAct};
use hermod_core::queue::{DeliveryId, OnFailure, Queue, Token};
use hermod_core::{Micros, Once, Outcome, Place, SpaceId};
use tokio::time::Instant;

use super::{AGAIN, App, Caller, failing};
use crate::code::{Code, Problem, conflict};

/// What the holder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleAsk {
    /// It is done.
    Ack,
    /// It failed; try again after this, or as the queue's backoff says.
    Nack(Option<Micros>),
    /// It is needed for so much longer, or as long as the queue says.
    Extend(Option<Micros>),
    /// Its holder is gone.
    GiveBack,
    /// It was not looked at, and this was no attempt.
    Return,
}

impl App {
    /// Settles deliveries; for each, in this order, what became of it.
    pub async fn settle(
        &self,
        caller: &Caller,
        queue: &str,
        ask: SettleAsk,
        held: &[(DeliveryId, Token)],
        once: Option<&Once>,
    ) -> Result<Vec<Settlement>, Problem> {
        caller.need(Scope::QueuesClaim)?;
        let queue = self.queue_of(caller, queue).await?;
        self.settle_in(&caller.space, &queue, ask, held, once).await
    }

    /// Finishes a delivery with a reply to whoever waits for it: whether that is JSON, and what.
    pub async fn ack_with(
        &self,
        caller: &Caller,
        queue: &str,
        held: (DeliveryId, Token),
        reply: (bool, Vec<u8>),
        once: Option<&Once>,
    ) -> Result<Settlement, Problem> {
        caller.need(Scope::QueuesClaim)?;
        let queue = self.queue_of(caller, queue).await?;
        let max = usize::try_from(queue.max_payload).unwrap_or(usize::MAX);
        if reply.1.len() > max {
            let many = format!("reply is {} bytes; this queue takes {max} at most.", reply.1.len());
            return Err(Problem::new(Code::InvalidField, many).in_field("reply"));
        }
        let outcomes = self.settle_with(&caller.space, &queue, SettleAsk::Ack, &[held], Some(&reply), once).await?;
        self.replies.tell(&caller.space, &queue.id, held.0);
        Ok(outcomes.first().copied().unwrap_or(Settlement::Stale))
    }

    /// Settles deliveries, whoever asks.
    pub(crate) async fn settle_in(
        &self,
        space: &SpaceId,
        queue: &Queue,
        ask: SettleAsk,
        held: &[(DeliveryId, Token)],
        once: Option<&Once>,
    ) -> Result<Vec<Settlement>, Problem> {
        self.settle_with(space, queue, ask, held, None, once).await
    }

    /// Settles what was worked on. If the store fails, it is tried for as long as the lease may last.
    pub(crate) async fn settle_at_last(&self, space: &SpaceId, queue: &Queue, ask: SettleAsk, held: &[(DeliveryId, Token)]) {
        let give_up = Instant::now() + queue.lease.to_duration();
        while let Err(problem) = self.settle_in(space, queue, ask, held, None).await {
            if Instant::now() >= give_up || self.is_stopping() {
                tracing::warn!(
                    queue = queue.id.as_str(),
                    code = problem.code.text(),
                    "what became of deliveries could not be stored; they come again"
                );
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Gives back what nobody works on. If the store fails, nobody waits for it, but it is tried on.
    pub(crate) async fn give_back(&self, space: &SpaceId, queue: &Queue, ask: SettleAsk, held: Vec<(DeliveryId, Token)>) {
        if self.settle_in(space, queue, ask, &held, None).await.is_err() {
            let (app, space, queue) = (self.clone(), space.clone(), queue.clone());
            tokio::spawn(async move {
                tokio::time::sleep(AGAIN).await;
                app.settle_at_last(&space, &queue, ask, &held).await;
            });
        }
    }

    async fn settle_with(
        &self,
        space: &SpaceId,
        queue: &Queue,
        ask: SettleAsk,
        held: &[(DeliveryId, Token)],
        reply: Option<&(bool, Vec<u8>)>,
        once: Option<&Once>,
    ) -> Result<Vec<Settlement>, Problem> {
        let mut by_partition: BTreeMap<u16, Vec<(usize, DeliveryId, Token)>> = BTreeMap::new();
        let mut outcomes = vec![Settlement::Stale; held.len()];
        for (position, (id, token)) in held.iter().enumerate() {
            if self.place_of_id(space, *id).is_some() {
                by_partition.entry(id.partition).or_default().push((position, *id, *token));
            }
        }
        let act = self.act(queue, ask);
        let parts =
            by_partition.iter().flat_map(|(partition, held)| held.chunks(SETTLE_MAX).enumerate().map(move |part| (*partition, part)));
        let settles = parts.map(|(partition, (part, held))| async move {
            let place = Place { space: space.clone(), partition };
            let failing = failing(queue);
            let some = held.iter().map(|(_, id, token)| (id.number, *token)).collect();
            let mut settle = Settle::new(place, queue.id.clone(), self.terms(space, queue), act, &failing, some);
            if let Some((is_json, reply)) = reply {
                settle = settle.reply_with(*is_json, reply.clone());
            }
            let once = once.map(|once| once.part(part));
            (partition, held, self.engine.run(&settle, once.as_ref()).await)
        });
        let (mut problem, mut unheard) = (None, self.unheard(space, &queue.id));
        for (partition, held, ran) in join_all(settles).await {
            let settled = match ran.map_err(Problem::from).map(|ran| ran.outcome) {
                Ok(Outcome::Done(settled)) => {
                    self.turned(space, queue, partition, settled.turnover);
                    settled
                }
                Ok(Outcome::Replayed(settled)) => settled,
                Ok(Outcome::Conflict) => return Err(conflict()),
                // Told, though some were settled: asking again is safe, as those answer that they are stale.
                Err(fault) => {
                    unheard.failed(&fault);
                    problem = Some(fault);
                    continue;
                }
            };
            let watch = self.watches.of(space, &queue.id);
            self.learn(space, queue, partition, settled.next, &settled.woken);
            let stale = settled.outcomes.iter().filter(|outcome| **outcome == Settlement::Stale).count();
            self.metrics.stale(queue.id.as_str(), stale);
            for ((position, id, _), outcome) in held.iter().zip(settled.outcomes) {
                if outcome != Settlement::Stale && !matches!(ask, SettleAsk::Extend(_)) {
                    watch.settled(*id);
                }
                if let Some(slot) = outcomes.get_mut(*position) {
                    *slot = outcome;
                }
            }
        }
        unheard.heard();
        problem.map_or(Ok(outcomes), Err)
    }

    fn act(&self, queue: &Queue, ask: SettleAsk) -> SettleAct {
        match ask {
            SettleAsk::Ack => SettleAct::Ack,
            SettleAsk::GiveBack => SettleAct::GiveBack,
            SettleAsk::Return => SettleAct::Return,
            SettleAsk::Extend(span) => SettleAct::Extend(span.unwrap_or(queue.lease)),
            SettleAsk::Nack(delay) => {
                let draw = self.seed().below(1_001);
                let chance = u16::try_from(draw).unwrap_or(0);
                SettleAct::Nack { delay, backoff: queue.backoff, chance, blocks: queue.on_failure == OnFailure::Block }
            }
        }
    }
}
