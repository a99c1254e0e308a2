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
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use hermod_core::limit::{Algorithm, Limited, Pattern, Per, Rule, Rules};
use hermod_core::{Micros, Name, Once, Operation, Outcome, RuleId, Seed, SpaceId};
use hermod_engine::Engine;
use hermod_tests::lane::START;
use hermod_tests::{EngineLane, Store, unique};
use tokio::task::JoinSet;

/// Of each kind; together more than twenty thousand operations.
const HISTORIES: u64 = 24;
const OPERATIONS: u64 = 500;
/// The clock never steps back further than this, so what ended before is safe to delete.
const STEP_BACK_MAX: u64 = 2_000_000;
const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;
/// How long an idempotency key keeps an answer.
const KEPT: u64 = 3 * DAY;

/// Draws that follow from the seed alone.
struct Draws {
    seed: Seed,
    count: u64,
}

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.count += 1;
        self.seed.child(self.count).below(n)
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.below(u64::try_from(items.len()).unwrap())).unwrap()]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Some of them, in any order, seldom none.
    fn some_of<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let mut left = items.to_vec();
        let count = if self.chance(2) { 0 } else { 1 + self.below(u64::try_from(items.len()).unwrap()) };
        (0..count).map(|_| left.swap_remove(usize::try_from(self.below(u64::try_from(left.len()).unwrap())).unwrap())).collect()
    }

    /// An idempotency key, seldom.
    fn key(&mut self) -> Option<String> {
        self.chance(15).then(|| format!("k{}", self.below(6)))
    }

    /// This call; or, at times, one of the last with a key once more.
    fn maybe_again<T: Clone>(&mut self, call: T, keyed: &mut Vec<T>, has_key: bool) -> T {
        if let Some(last) = u64::try_from(keyed.len()).unwrap().checked_sub(1).filter(|_| self.chance(8)) {
            return keyed[usize::try_from(last - self.below(last.min(2) + 1)).unwrap()].clone();
        }
        if has_key {
            keyed.push(call.clone());
        }
        call
    }
}

/// The time of a history, and the times at which something ends.
struct Clock {
    now: u64,
    latest: u64,
    ends: Vec<u64>,
}

impl Clock {
    fn note(&mut self, end: u64) {
        self.ends.push(end);
        let old = self.ends.len().saturating_sub(6);
        self.ends.drain(..old);
    }

    /// Moves to a place worth looking at.
    fn jump(&mut self, draws: &mut Draws) {
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
struct History {
    lanes: [EngineLane; 3],
    draws: Draws,
    clock: Clock,
    /// What the embedded engine has dropped; Redis may still have it until its own TTL.
    swept: BTreeMap<String, String>,
}

impl History {
    async fn open(seed: u64) -> Result<History> {
        // One space for all, so that even the keys are the same.
        let space = SpaceId::new(unique("leases"))?;
        let open = |store| EngineLane::open_in(store, space.clone());
        let lanes = [open(Store::Embedded).await?, open(Store::Redis).await?, open(Store::Cluster).await?];
        let (now, draws) = (START.get(), Draws { seed: Seed::new(seed), count: 0 });
        Ok(History { lanes, draws, clock: Clock { now, latest: now, ends: Vec::new() }, swept: BTreeMap::new() })
    }

    /// What every store answers to one operation.
    async fn ask<O: Operation>(
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

    /// The dumps are equal, but for keys that mean nothing any more; of those some are deleted now.
    async fn compare_state(&mut self) -> Result<BTreeMap<String, String>> {
        let Engine::Embedded(embedded) = self.lanes[0].engine() else { bail!("the first lane is embedded") };
        let before = self.clock.latest.saturating_sub(STEP_BACK_MAX);
        // No leases at all are no record on Redis.
        let ours: BTreeMap<_, _> = embedded.dump().into_iter().filter(|(_, (value, _))| !value.is_empty()).collect();
        for lane in &self.lanes[1..] {
            let Engine::Redis(redis) = lane.engine() else { bail!("the other lanes are Redis") };
            let mut theirs = redis.dump(lane.space()).await?;
            for (key, (value, until)) in &ours {
                let is_stale = until.get() <= before;
                match theirs.remove(key) {
                    Some(found) => ensure!(found == *value, "{key} is {found:?} on Redis and {value:?} embedded"),
                    None => ensure!(is_stale, "{key} = {value:?} is missing on Redis"),
                }
                if is_stale && self.draws.chance(50) {
                    redis.delete(key).await?;
                }
            }
            theirs.retain(|key, value| self.swept.get(key) != Some(value));
            ensure!(theirs.is_empty(), "only on Redis: {theirs:?}");
        }
        let dump = ours.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        if self.draws.chance(30) {
            let ended = ours.into_iter().filter(|(_, (_, until))| until.get() < before);
            self.swept.extend(ended.map(|(key, (value, _))| (key, value)));
            embedded.sweep(Micros::saturating(before));
        }
        Ok(dump)
    }
}

fn rule(number: usize, algorithm: Algorithm, limit: u64, per: Per) -> Rule {
    let (id, name) = (RuleId::new(format!("r{number}")).unwrap(), Name::new(format!("n{number}")).unwrap());
    Rule { name, algorithm, ..Rule::new(id, Pattern::action("act").unwrap(), limit, per) }
}

fn span(us: u64) -> Per {
    Per::span(Micros::saturating(us)).unwrap()
}

fn limited(rules: &[Rule]) -> Result<Rules> {
    rules.iter().map(|rule| Ok(Limited::new(rule)?.into())).collect()
}

fn seeds() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds/leases.txt")
}

/// Runs the histories, the known seeds first; a seed that fails is saved.
async fn agree<F: Future<Output = Result<()>> + Send + 'static>(history: impl Fn(u64) -> F) -> Result<()> {
    let known: Vec<u64> =
        std::fs::read_to_string(seeds())?.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok()).collect();
    let mut seeds_left = known.into_iter().chain(1..=HISTORIES);
    let mut running = JoinSet::new();
    loop {
        // A few at a time: most of a history is waiting.
        while running.len() < 4
            && let Some(seed) = seeds_left.next()
        {
            let history = history(seed);
            running.spawn(async move { (seed, history.await) });
        }
        let Some(done) = running.join_next().await else { break };
        let (seed, done) = done?;
        if done.is_err() {
            writeln!(std::fs::OpenOptions::new().append(true).open(seeds())?, "{seed}")?;
        }
        done.with_context(|| format!("seed {seed}, saved to seeds/leases.txt"))?;
    }
    Ok(())
}
