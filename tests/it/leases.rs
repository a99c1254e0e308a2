//! Leases and resets: model = embedded = Redis = Cluster, on seeded random histories, as `differential.rs` does
//! it for checks: every answer, and the state left behind.
//!
//! There are few ids, homes and idempotency keys, so that calls meet. The clock jumps to where it hurts: one tick
//! before something ends, exactly there, one tick after, a little back.
//!
//! A seed that fails is printed and appended to `seeds/leases.txt`, which is replayed first.

mod hold;
mod reset;

use std::collections::BTreeMap;

use anyhow::Result;
use hermod_core::limit::{Algorithm, Limited, Pattern, Per, Rule, Rules};
use hermod_core::{Micros, Name, Once, Operation, Outcome, RuleId, SpaceId};
use hermod_tests::history::{self, Draws, Dumps};
use hermod_tests::lane::START;
use hermod_tests::{EngineLane, Store, unique};

/// Of each kind; together more than twenty thousand operations.
const HISTORIES: u64 = 24;
const OPERATIONS: u64 = 500;
/// The clock never steps back further than this, so what ended before is safe to delete.
pub(super) const STEP_BACK_MAX: u64 = 2_000_000;
pub(super) const SECOND: u64 = 1_000_000;
pub(super) const DAY: u64 = 86_400 * SECOND;
/// How long an idempotency key keeps an answer.
pub(super) const KEPT: u64 = 3 * DAY;

/// Some of them, in any order, seldom none.
pub(super) fn some_of<T: Clone>(draws: &mut Draws, items: &[T]) -> Vec<T> {
    let mut left = items.to_vec();
    let count = if draws.chance(2) { 0 } else { 1 + draws.below(u64::try_from(items.len()).unwrap()) };
    (0..count).map(|_| left.swap_remove(usize::try_from(draws.below(u64::try_from(left.len()).unwrap())).unwrap())).collect()
}

/// An idempotency key, seldom.
pub(super) fn key(draws: &mut Draws) -> Option<String> {
    draws.chance(15).then(|| format!("k{}", draws.below(6)))
}

/// This call; or, at times, one of the last with a key once more.
pub(super) fn maybe_again<T: Clone>(draws: &mut Draws, call: T, keyed: &mut Vec<T>, has_key: bool) -> T {
    if let Some(last) = u64::try_from(keyed.len()).unwrap().checked_sub(1).filter(|_| draws.chance(8)) {
        return keyed[usize::try_from(last - draws.below(last.min(2) + 1)).unwrap()].clone();
    }
    if has_key {
        keyed.push(call.clone());
    }
    call
}

/// The time of a history, and the times at which something ends.
pub(super) struct Clock {
    pub(super) now: u64,
    pub(super) latest: u64,
    ends: Vec<u64>,
}

impl Clock {
    pub(super) fn note(&mut self, end: u64) {
        self.ends.push(end);
        let old = self.ends.len().saturating_sub(6);
        self.ends.drain(..old);
    }

    /// Moves far ahead.
    pub(super) fn leap(&mut self, by: u64) {
        self.now += by;
        self.latest = self.latest.max(self.now);
    }

    /// Moves to a place worth looking at.
    pub(super) fn jump(&mut self, draws: &mut Draws) {
        let ahead: Vec<u64> = self.ends.iter().copied().filter(|end| *end > self.now).collect();
        let end = if ahead.is_empty() { self.now + 1 } else { draws.one_of(&ahead) };
        let moved = match draws.below(24) {
            0 | 1 => end - 1,
            2 | 3 => end,
            4 => end + 1,
            5 => self.now + 1,
            6 => self.now + draws.below(SECOND),
            7 => self.now.saturating_sub(draws.below(STEP_BACK_MAX)),
            8 if draws.chance(20) => self.now + draws.one_of(&[60 * SECOND, DAY]),
            _ => self.now,
        };
        // A backward step is bounded from the latest time, however many there are.
        self.now = moved.max(self.latest.saturating_sub(STEP_BACK_MAX)).max(START.get());
        self.latest = self.latest.max(self.now);
    }
}

/// One history: the engines, their clock, and what was drawn.
pub(super) struct History {
    pub(super) lanes: [EngineLane; 3],
    pub(super) draws: Draws,
    pub(super) clock: Clock,
    dumps: Dumps,
}

impl History {
    pub(super) async fn open(seed: u64) -> Result<History> {
        // One space for all, so that even the keys are the same.
        let space = SpaceId::new(unique("leases"))?;
        let open = |store| EngineLane::open_in(store, space.clone());
        let lanes = [open(Store::Embedded).await?, open(Store::Redis).await?, open(Store::Cluster).await?];
        let (now, draws) = (START.get(), Draws::new(seed));
        Ok(History { lanes, draws, clock: Clock { now, latest: now, ends: Vec::new() }, dumps: Dumps::default() })
    }

    /// What every store answers to one operation.
    pub(super) async fn ask<O: Operation>(
        &self,
        once: Option<(&str, &str)>,
        make: impl Fn(&EngineLane) -> Result<O>,
    ) -> Result<[(Store, Outcome<O::Answer>); 3]> {
        let key = once.map(|(key, body)| Once::new(key, body.as_bytes())).transpose()?;
        let ask = async |lane: &EngineLane| {
            lane.clock().set(Micros::saturating(self.clock.now));
            anyhow::Ok(lane.engine().run(&make(lane)?, key.as_ref()).await?.outcome)
        };
        let [embedded, redis, cluster] = &self.lanes;
        let (embedded, redis, cluster) = tokio::try_join!(ask(embedded), ask(redis), ask(cluster))?;
        Ok([(Store::Embedded, embedded), (Store::Redis, redis), (Store::Cluster, cluster)])
    }

    /// The dumps are equal; what they hold.
    pub(super) async fn compare_state(&mut self) -> Result<BTreeMap<String, String>> {
        let before = Micros::saturating(self.clock.latest.saturating_sub(STEP_BACK_MAX));
        self.dumps.compare(&self.lanes, &mut self.draws, before).await
    }
}

pub(super) fn rule(number: usize, algorithm: Algorithm, limit: u64, per: Per) -> Rule {
    let (id, name) = (RuleId::new(format!("r{number}")).unwrap(), Name::new(format!("n{number}")).unwrap());
    Rule { name, algorithm, ..Rule::new(id, Pattern::action("act").unwrap(), limit, per) }
}

pub(super) fn span(us: u64) -> Per {
    Per::span(Micros::saturating(us)).unwrap()
}

pub(super) fn limited(rules: &[Rule]) -> Result<Rules> {
    rules.iter().map(|rule| Ok(Limited::new(rule)?.into())).collect()
}

/// Runs the histories, the known seeds first; a seed that fails is saved.
async fn agree<F: Future<Output = Result<u64>> + Send + 'static>(run: impl Fn(u64) -> F) -> Result<()> {
    history::agree("leases", HISTORIES, run).await.map(|_| ())
}
