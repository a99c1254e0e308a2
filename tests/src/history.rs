//! Histories that follow from a seed alone, so that one that fails can be told again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use hermod_core::{Micros, Seed};
use hermod_engine::Engine;
use tokio::task::JoinSet;

use crate::EngineLane;

/// One draw after the other.
#[derive(Clone, Debug)]
pub struct Draws {
    seed: Seed,
    count: u64,
}

impl Draws {
    /// The draws of this seed.
    pub fn new(seed: u64) -> Draws {
        Draws { seed: Seed::new(seed), count: 0 }
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.count += 1;
        self.seed.child(self.count).below(n)
    }

    /// One of them; there must be at least one.
    pub fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        let at = self.below(u64::try_from(items.len()).unwrap_or(u64::MAX));
        *items.get(usize::try_from(at).unwrap_or(usize::MAX)).expect("a draw is below the count")
    }

    /// True so often in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The state left behind, compared between the engines of a history: the first is embedded.
#[derive(Debug, Default)]
pub struct Dumps {
    /// What the embedded engine has dropped; Redis may still have it until its own TTL.
    swept: BTreeMap<String, String>,
}

impl Dumps {
    /// The dumps are equal, but for keys that ended before `before` and so mean nothing any more; of
    /// those some are deleted now, as a TTL would. What the embedded engine holds.
    pub async fn compare(&mut self, lanes: &[EngineLane], draws: &mut Draws, before: Micros) -> Result<BTreeMap<String, String>> {
        let Some((Engine::Embedded(embedded), others)) = lanes.split_first().map(|(first, others)| (first.engine(), others)) else {
            bail!("the first lane is embedded");
        };
        // What says nothing is no record on Redis.
        let ours: BTreeMap<_, _> = embedded.dump().into_iter().filter(|(_, (value, _))| !value.is_empty()).collect();
        for lane in others {
            let Engine::Redis(redis) = lane.engine() else { bail!("the other lanes are Redis") };
            let mut theirs = redis.dump(lane.space()).await?;
            for (key, (value, until)) in &ours {
                let is_stale = *until <= before;
                match theirs.remove(key) {
                    Some(found) => ensure!(found == *value, "{key} is {found:?} on Redis and {value:?} embedded"),
                    None => ensure!(is_stale, "{key} = {value:?} is missing on Redis"),
                }
                if is_stale && draws.chance(50) {
                    redis.delete(key).await?;
                }
            }
            theirs.retain(|key, value| self.swept.get(key) != Some(value));
            ensure!(theirs.is_empty(), "only on Redis: {theirs:?}");
        }
        let held = ours.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        if draws.chance(30) {
            let ended = ours.into_iter().filter(|(_, (_, until))| *until < before);
            self.swept.extend(ended.map(|(key, (value, _))| (key, value)));
            embedded.sweep(before);
        }
        Ok(held)
    }
}

/// Runs the histories `1..=count`, those of `seeds/<name>.txt` first, where a seed that fails is saved; how
/// many operations were compared.
pub async fn agree<F>(name: &str, count: u64, history: impl Fn(u64) -> F) -> Result<u64>
where
    F: Future<Output = Result<u64>> + Send + 'static,
{
    let saved = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("seeds/{name}.txt"));
    let known: Vec<u64> = std::fs::read_to_string(&saved)?.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok()).collect();
    let mut seeds = known.into_iter().chain(1..=count);
    let (mut running, mut operations) = (JoinSet::new(), 0);
    loop {
        // A few at a time: most of a history is waiting.
        while running.len() < 4
            && let Some(seed) = seeds.next()
        {
            let history = history(seed);
            running.spawn(async move { (seed, history.await) });
        }
        let Some(done) = running.join_next().await else { return Ok(operations) };
        let (seed, done) = done?;
        if done.is_err() {
            writeln!(std::fs::OpenOptions::new().append(true).open(&saved)?, "{seed}")?;
        }
        operations += done.with_context(|| format!("seed {seed}, saved to seeds/{name}.txt"))?;
    }
}
