//! Leases and resets: model = embedded = Redis = Cluster, on seeded random histories, as `differential.rs` does
//! it for checks: every answer, and the state left behind.
//!
//! There are few ids, homes and idempotency keys, so that calls meet. The clock jumps to where it hurts: one tick
//! before something ends, exactly there, one tick after, a little back.
//!
//! A seed that fails is printed and appended to `seeds/leases.txt`, which is replayed first.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use hermod_core::limit::{Act, Algorithm, Lease, Limited, Pattern, Per, Reset, Rule, Rules};
use hermod_core::{Micros, Name, Once, Operation, Outcome, RuleId, Seed, SpaceId, Subject};
use hermod_engine::Engine;
use hermod_tests::lane::START;
use hermod_tests::model::lease::{LeaseAsked, Leases, Want, lease_told};
use hermod_tests::model::reset::{ResetAsked, Resets};
use hermod_tests::model::{Asked, decided};
use hermod_tests::{EngineLane, Store, unique};
use tokio::task::JoinSet;

const HISTORIES: u64 = 30;
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

    /// An idempotency key, and what it is bound to: mostly this call, at times one thing for all.
    fn once(&mut self, call: &str) -> Option<(String, String)> {
        self.chance(15).then(|| (format!("k{}", self.below(4)), if self.chance(20) { "same".to_owned() } else { call.to_owned() }))
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
        let moved = match draws.below(20) {
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

fn lease_rule(draws: &mut Draws, number: usize) -> Rule {
    let limit = draws.one_of(&[1, 1, 2, 2, 3, 4, 1_000]);
    let per = draws.one_of(&[1, 1_000, SECOND, 60 * SECOND, 60 * SECOND, 3_600 * SECOND, DAY, 366 * DAY]);
    Rule { durable: draws.chance(5), ..rule(number, Algorithm::Concurrency, limit, span(per)) }
}

async fn leases(seed: u64) -> Result<()> {
    let mut history = History::open(seed).await?;
    let mut model = Leases::default();
    let mut rules: Vec<Rule> = (0..3).map(|number| lease_rule(&mut history.draws, number)).collect();
    let long = "i".repeat(128);
    for step in 0..OPERATIONS {
        let draws = &mut history.draws;
        if draws.chance(3) {
            let number = draws.one_of(&[0, 1, 2]);
            rules[number] = lease_rule(draws, number);
        }
        history.clock.jump(draws);
        // Without a home: the leases that all subjects share, whose ids say which subject's they are.
        let (home, id) = (draws.one_of(&["s0", "s0", "s1", ""]), draws.one_of(&["a", "a", "b", "c", "d", &long, "s0\na", "\n"]));
        let ttl = draws.one_of(&[1, 2, 1_000, SECOND, 10 * SECOND, 60 * SECOND, DAY, Micros::MAX.get()]);
        let used = draws.some_of(&rules);
        let want = match draws.below(10) {
            0..=4 => Want::Acquire(ttl, &used),
            5 => Want::Renew(Some(ttl)),
            6 | 7 => Want::Renew(None),
            _ => Want::Release,
        };
        let once = draws.once(&format!("{id:?} {want:?}"));
        let once = once.as_ref().map(|(key, body)| (key.as_str(), body.as_str()));
        let asked = LeaseAsked { home, id, want, once, now: history.clock.now };
        let expected = model.ask(&asked);
        let answers = history.ask(once, |lane| {
            let (place, id) = (lane.engine().partitions().place(lane.space(), home), id.to_owned());
            Ok(match want {
                Want::Acquire(ttl, rules) => Lease::acquire(place, home, id, Micros::saturating(ttl), limited(rules)?),
                Want::Renew(ttl) => Lease::renew(place, home, id, ttl.map(Micros::saturating)),
                Want::Release => Lease::release(place, home, id),
            })
        });
        for (store, outcome) in answers.await.with_context(|| format!("step {step}: {asked:?}"))? {
            let told = lease_told(&outcome);
            ensure!(told == expected, "step {step} on {store:?}: {asked:?}\n model: {expected:?}\n store: {told:?}");
        }
        if let Outcome::Done(told) = expected {
            told.until.into_iter().chain(told.rules.iter().filter_map(|rule| rule.retry_at)).for_each(|end| history.clock.note(end));
            if once.is_some() && told.until.is_some() {
                history.clock.note(told.now + KEPT);
            }
        }
        if step % 100 == 99 {
            let dump = history.compare_state().await.with_context(|| format!("after step {step}"))?;
            for (home, text, ends) in model.stored().filter(|(_, text, _)| !text.is_empty()) {
                let found = dump.iter().find(|(key, _)| key.ends_with(&format!("}}:lease:{home}"))).map(|(_, found)| found);
                let is_stale = ends <= history.clock.latest.saturating_sub(STEP_BACK_MAX);
                ensure!(
                    found.map_or(is_stale, |found| *found == text),
                    "after step {step}: {home:?} is {found:?}, and {text:?} in the model"
                );
            }
        }
    }
    Ok(())
}

/// One of each kind.
fn rate_rules() -> Vec<Rule> {
    let estimate = Rule { approximate: true, ..rule(3, Algorithm::SlidingWindow, 10, span(60 * SECOND)) };
    let queued = Rule { queue: Some(3), burst: Some(2), ..rule(5, Algorithm::LeakyBucket, 7, span(SECOND)) };
    vec![
        rule(0, Algorithm::TokenBucket, 3, span(10 * SECOND)),
        rule(1, Algorithm::SlidingWindow, 5, span(SECOND)),
        rule(2, Algorithm::SlidingLog, 4, span(60 * SECOND)),
        estimate,
        rule(4, Algorithm::FixedWindow, 6, "day@Europe/Berlin".parse().unwrap()),
        queued,
        Rule { durable: true, ..rule(6, Algorithm::FixedWindow, 2, span(1_000)) },
    ]
}

async fn resets(seed: u64) -> Result<()> {
    let mut history = History::open(seed).await?;
    let mut model = Resets::default();
    let rules = rate_rules();
    for step in 0..OPERATIONS {
        let draws = &mut history.draws;
        history.clock.jump(draws);
        let (subject, used) = (draws.one_of(&["s0", "s0", "s1"]), draws.some_of(&rules));
        let now = Micros::saturating(history.clock.now);
        let ids: Vec<&str> = used.iter().map(|rule| rule.id.as_str()).collect();
        if draws.chance(25) {
            let once = draws.once("").map(|(key, _)| (key, format!("reset {ids:?}")));
            let once = once.as_ref().map(|(key, body)| (key.as_str(), body.as_str()));
            let asked = ResetAsked { subject, rules: &used, once, now };
            let expected = model.reset(&asked);
            let answers = history.ask(once, |lane| {
                let place = lane.engine().partitions().place(lane.space(), subject);
                Ok(Reset::new(place, Subject::new(subject)?, limited(&used)?))
            });
            for (store, outcome) in answers.await.with_context(|| format!("step {step}: {asked:?}"))? {
                ensure!(outcome == expected, "step {step} on {store:?}: {asked:?}\n model: {expected:?}\n store: {outcome:?}");
            }
        } else if !used.is_empty() {
            let (act, cost) = (draws.one_of(&[Act::Check, Act::Check, Act::Check, Act::Peek, Act::Force, Act::Refund]), 1 + draws.below(3));
            let once = draws.once("").map(|(key, _)| (key, format!("{act:?} {cost} {ids:?}")));
            let once = once.as_ref().map(|(key, body)| (key.as_str(), body.as_str()));
            let asked = Asked { subject, act, cost, rules: &used, once, now };
            let expected = model.check(&asked);
            let rules = limited(&used)?;
            let answers = history.ask(once, |lane| lane.operation(subject, act, cost, &used));
            for (store, outcome) in answers.await.with_context(|| format!("step {step}: {asked:?}"))? {
                let outcome = decided(outcome, &rules);
                ensure!(outcome == expected, "step {step} on {store:?}: {asked:?}\n model: {expected:?}\n store: {outcome:?}");
            }
            if let Outcome::Done(decided) = expected {
                decided.rules.iter().filter(|(_, ruled)| ruled.reset > Micros::ZERO).for_each(|(_, ruled)| {
                    history.clock.note(now.plus(ruled.reset).get());
                });
                if once.is_some() {
                    history.clock.note(now.get() + KEPT);
                }
            }
        }
        if step % 100 == 99 {
            history.compare_state().await.with_context(|| format!("after step {step}"))?;
        }
    }
    Ok(())
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

/// Ten thousand and more, as those of resets are.
const _: () = assert!(HISTORIES * OPERATIONS >= 10_000);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_operations_on_leases_agree() -> Result<()> {
    agree(leases).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_checks_and_resets_agree() -> Result<()> {
    agree(resets).await
}
