//! queue: how fast what is overdue goes out, over all servers: a limit like any other, under a rule of our own.

use std::sync::Arc;

use hermod_core::limit::meter::Bucket;
use hermod_core::limit::{Act, Check, Limited, Meter, Rules};
use hermod_core::queue::Queue;
use hermod_core::{Invalid, Micros, Outcome, RuleId, SpaceId, Subject};

use super::App;
use super::watch::Watch;
use crate::code::Problem;

/// What is later than this is overdue: it was not handed out when it could have been.
const OVERDUE: Micros = Micros::saturating(1_000_000);

impl App {
    /// How many of `wanted` may go out now, where the earliest could have been claimed at `earliest`; and how many of
    /// them were charged, to be given back if they do not.
    pub(super) async fn catch_up(
        &self,
        space: &SpaceId,
        queue: &Queue,
        watch: &Watch,
        earliest: Micros,
        wanted: usize,
    ) -> Result<(usize, usize), Problem> {
        let Some(rate) = queue.catch_up_per_second else { return Ok((wanted, 0)) };
        let now = self.watches.store_time(self.now());
        if now.since(earliest) <= OVERDUE {
            return Ok((wanted, 0));
        }
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX).min(u64::from(rate));
        // As many as there is room for; if others were faster, those that are left.
        for _ in 0..2 {
            let (left, wait) = self.charge(space, queue, rate, Act::Peek, 1).await?;
            let cost = wanted.min(left);
            if cost == 0 {
                watch.rest(wait.to_duration());
                return Ok((0, 0));
            }
            if self.charge(space, queue, rate, Act::Check, cost).await?.1 == Micros::ZERO {
                let count = usize::try_from(cost).unwrap_or(usize::MAX);
                return Ok((count, count));
            }
        }
        Ok((0, 0))
    }

    /// Gives back what was not needed.
    pub(super) async fn caught_up(&self, space: &SpaceId, queue: &Queue, unused: usize) {
        let Some(rate) = queue.catch_up_per_second.filter(|_| unused > 0) else { return };
        let unused = u64::try_from(unused).unwrap_or(u64::MAX);
        // What is not given back only makes the next second slower.
        let _refunded = self.charge(space, queue, rate, Act::Refund, unused).await;
    }

    /// What is left, and how long to wait if it does not fit.
    async fn charge(&self, space: &SpaceId, queue: &Queue, rate: u32, act: Act, cost: u64) -> Result<(u64, Micros), Problem> {
        let (subject, rules) = rule(queue, rate)?;
        let place = self.engine.partitions().place(space, subject.as_str());
        let ran = self.engine.run(&Check::new(&place, Some(&subject), act, cost, &rules), None).await?;
        let checked = match ran.outcome {
            Outcome::Done(checked) | Outcome::Replayed(checked) => checked.explained(&rules),
            Outcome::Conflict => return Ok((0, OVERDUE)),
        };
        let wait = checked.retry_at().map_or(Micros::ZERO, |at| at.since(checked.now));
        Ok((checked.ruled().next().map_or(0, |(_, ruled)| ruled.left), wait))
    }
}

fn rule(queue: &Queue, rate: u32) -> Result<(Subject, Rules), Invalid> {
    let bucket = Bucket::new(u64::from(rate), Micros::saturating(1_000_000), u64::from(rate), 0)?;
    let limited = Limited::enforced(RuleId::new("hermod.catch-up")?, Meter::Bucket(bucket));
    Ok((Subject::new(format!("queue {}", queue.id))?, Rules::from([Arc::new(limited)])))
}
