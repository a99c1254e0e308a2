//! A check within the process beside governor's keyed limiter, and what a live key costs in memory.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use governor::{Quota, RateLimiter};
use hermod_core::limit::meter::Bucket;
use hermod_core::limit::{Act, Check, Limited, Meter, Rules};
use hermod_core::{Micros, Outcome, RuleId, SpaceId, Subject};
use hermod_engine::embedded::{Embedded, Options};

const THREADS: usize = 2;
const KEYS: usize = 100_000;
const ROUND: Duration = Duration::from_millis(1_500);
const ROUNDS: usize = 7;
const WANTED: f64 = 1.0;
const LIVE_KEYS: usize = 1_000_000;
const BYTES_WANTED: f64 = 160.0;

/// Runs `step` on every thread over and over; how often a second in all.
fn per_second(step: impl Fn(usize) -> bool + Sync) -> Result<f64> {
    let began = Instant::now();
    let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
        let step = &step;
        let thread = |number: usize| {
            scope.spawn(move || {
                let (mut turn, mut count) = (number * 7_919, 0_u64);
                while began.elapsed() < ROUND {
                    for _ in 0..1_000 {
                        // A walk over all keys in an order that no prefetcher guesses.
                        turn = (turn + 64_007) % KEYS;
                        ensure!(step(turn), "refused");
                    }
                    count += 1_000;
                }
                Ok(count)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(thread).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread fell over")))).collect()
    });
    let count = counts.into_iter().sum::<Result<u64>>()?;
    Ok(f64::from(u32::try_from(count)?) / began.elapsed().as_secs_f64())
}

pub(crate) fn run() -> Result<()> {
    let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().unwrap_or(std::path::Path::new(".")))?;
    let engine = Embedded::open(Options::new(folder.path()))?;
    let rules = rules(1_000_000)?;
    let checks = (0..KEYS).map(|n| check(&engine, n, &rules)).collect::<Result<Vec<_>>>()?;
    let keys: Vec<String> = (0..KEYS).map(|n| format!("user-{n}")).collect();
    let rate = NonZeroU32::new(1_000_000).context("not zero")?;
    let governor = RateLimiter::keyed(Quota::per_second(rate));
    let mut ratios = Vec::new();
    let (mut ours, mut theirs) = (0.0, 0.0);
    for round in 0..=ROUNDS {
        ours = per_second(|turn| checks.get(turn).is_some_and(|check| is_allowed(&engine, check)))?;
        theirs = per_second(|turn| keys.get(turn).is_some_and(|key| governor.check_key(key).is_ok()))?;
        if round > 0 {
            ratios.push(ours / theirs);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios.get(ratios.len() / 2).copied().unwrap_or(0.0);
    println!("\ncheck within the process, {KEYS} keys, {THREADS} threads");
    println!("  hermod, journaled                    {ours:>9.0}/s");
    println!("  governor, keyed                      {theirs:>9.0}/s");
    let word = if ratio >= WANTED { "reached" } else { "NOT reached" };
    println!("  ratio {ratio:.2}x, wanted {WANTED:.2}x: {word}");
    drop((engine, governor));
    memory()
}

fn rules(limit: u64) -> Result<Rules> {
    let bucket = Bucket::new(limit, Micros::saturating(1_000_000), limit, 0)?;
    Ok(Arc::new([Arc::new(Limited::enforced(RuleId::new("bench")?, Meter::Bucket(bucket)))]))
}

fn check(engine: &Embedded, n: usize, rules: &Rules) -> Result<Check> {
    let subject = Subject::new(format!("user-{n}"))?;
    let place = engine.partitions().place(&SpaceId::default_space(), subject.as_str());
    Ok(Check::new(place, Some(subject), Act::Check, 1, Arc::clone(rules)))
}

fn is_allowed(engine: &Embedded, check: &Check) -> bool {
    matches!(engine.run_deferred(check), Ok(Outcome::Done(checked)) if !checked.is_refused)
}

/// What the process holds, in bytes.
fn resident() -> Result<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = statm.split(' ').nth(1).context("statm has a second word")?.parse()?;
    Ok(pages * 4096)
}

/// A million live keys: what the process grew by, over the bytes of the keys themselves.
fn memory() -> Result<()> {
    let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().unwrap_or(std::path::Path::new(".")))?;
    let engine = Embedded::open(Options::new(folder.path()))?;
    // A day to come back, so that every key lives.
    let bucket = Bucket::new(10, Micros::saturating(86_400_000_000), 10, 0)?;
    let rules: Rules = Arc::new([Arc::new(Limited::enforced(RuleId::new("bench")?, Meter::Bucket(bucket)))]);
    let before = resident()?;
    let mut key_bytes = 0;
    for n in 0..LIVE_KEYS {
        key_bytes += format!("default/bench/user-{n}").len();
        ensure!(is_allowed(&engine, &check(&engine, n, &rules)?), "refused");
    }
    ensure!(engine.records() >= LIVE_KEYS, "only {} keys live", engine.records());
    // What waits to be written is not state; closing writes it.
    tokio::runtime::Builder::new_current_thread().build()?.block_on(engine.close())?;
    let grown = resident()?.saturating_sub(before).saturating_sub(key_bytes);
    let float = |n: usize| u32::try_from(n).map_or(f64::MAX, f64::from);
    let each = float(grown) / float(LIVE_KEYS);
    let word = if each <= BYTES_WANTED { "reached" } else { "NOT reached" };
    println!("\n1 M live keys, embedded");
    println!(
        "  {each:.0} bytes each over the key's own, wanted at most {BYTES_WANTED:.0}: {word}   (counted by the memory bound: {} bytes in all)",
        engine.memory_used()
    );
    Ok(())
}
