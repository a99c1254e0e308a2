//! A check within the process beside governor's keyed limiter, and what a live key costs in memory.
//!
//! The rule gives back a token each microsecond, on both sides, so that nothing is refused. Counters are thus full again before they are
//! flushed, and the journal gets none of them: what it costs to write counters that last is not measured here.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use governor::{Quota, RateLimiter};
use hermod_core::limit::meter::Bucket;
use hermod_core::limit::{Act, Check, Limited, Meter, Rules};
use hermod_core::{Micros, Outcome, Places, RuleId, SpaceId, Subject};
use hermod_engine::embedded::{Embedded, Options};

use crate::cpu::spent_us;
use crate::ratio::median;

const THREADS: usize = 2;
const KEYS: usize = 100_000;
const ROUND: Duration = Duration::from_millis(1_500);
const ROUNDS: usize = 7;
const WANTED: f64 = 1.0;
const LIVE_KEYS: usize = 1_000_000;
/// So many of them come at once, and what is deferred is written meanwhile.
const AT_ONCE: usize = 50_000;
const FLUSHED: Duration = Duration::from_millis(700);
const BYTES_WANTED: f64 = 160.0;

/// One round of one side. Processor time tells more than the rate where others share the machine.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    per_second: f64,
    /// Of the threads that ask, for each answer, in nanoseconds.
    asking_ns: f64,
    /// Of all others of this process.
    behind_ns: f64,
}

/// Runs `step` on every thread over and over.
fn round(step: impl Fn(usize) -> bool + Sync) -> Result<Round> {
    let (began, spent) = (Instant::now(), spent_us(std::process::id())?);
    let counts: Vec<Result<(u64, f64)>> = std::thread::scope(|scope| {
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
                Ok((count, thread_spent_ns()?))
            })
        };
        let threads: Vec<_> = (0..THREADS).map(thread).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread fell over")))).collect()
    });
    let took = began.elapsed().as_secs_f64();
    let (mut count, mut asking_ns) = (0, 0.0);
    for counted in counts {
        let (steps, spent_ns) = counted?;
        count += steps;
        asking_ns += spent_ns;
    }
    let count = f64::from(u32::try_from(count)?);
    let all_ns = (spent_us(std::process::id())? - spent) * 1e3;
    Ok(Round { per_second: count / took, asking_ns: asking_ns / count, behind_ns: (all_ns - asking_ns).max(0.0) / count })
}

/// Processor time of this thread so far.
fn thread_spent_ns() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().context("the first number is the time")?.parse()?)
}

pub(crate) fn run() -> Result<()> {
    let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().unwrap_or(std::path::Path::new(".")))?;
    let engine = Embedded::open(Options::new(folder.path()))?;
    let (rules, places) = (rules(1_000_000)?, Places::new(engine.partitions(), &SpaceId::default_space()));
    // Both sides are given a name and nothing that was computed from it.
    let subjects = (0..KEYS).map(|n| Ok(Subject::new(format!("user-{n}"))?)).collect::<Result<Vec<_>>>()?;
    let keys: Vec<String> = (0..KEYS).map(|n| format!("user-{n}")).collect();
    let rate = NonZeroU32::new(1_000_000).context("not zero")?;
    let governor = RateLimiter::keyed(Quota::per_second(rate));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // Keys come to be in another order than they are asked for, on both sides: else their names and records would lie in memory as
    // the walk goes, and it would be the prefetcher that is measured.
    for n in 0..KEYS {
        let turn = n * 38_653 % KEYS;
        ensure!(subjects.get(turn).is_some_and(|subject| is_allowed(&engine, &places, subject, &rules)), "refused");
        ensure!(keys.get(turn).is_some_and(|key| governor.check_key(key).is_ok()), "refused");
    }
    for turn in 0..=ROUNDS {
        let our_side = round(|turn| subjects.get(turn).is_some_and(|subject| is_allowed(&engine, &places, subject, &rules)))?;
        let their_side = round(|turn| keys.get(turn).is_some_and(|key| governor.check_key(key).is_ok()))?;
        if turn > 0 {
            ours.push(our_side);
            theirs.push(their_side);
        }
    }
    println!("\ncheck within the process, {KEYS} keys, {THREADS} threads");
    for (name, side) in [("hermod", &ours), ("governor, keyed", &theirs)] {
        let of = |pick: fn(&Round) -> f64| median(side.iter().map(pick).collect()).unwrap_or(0.0);
        let (rate, asking, behind) = (of(|r| r.per_second), of(|r| r.asking_ns), of(|r| r.behind_ns));
        println!("  {name:<36} {rate:>9.0}/s   {asking:>5.0} ns of CPU each, {behind:.0} ns behind it");
    }
    let ratio = median(ours.iter().zip(&theirs).map(|(o, t)| o.per_second / t.per_second).collect()).unwrap_or(0.0);
    let word = if ratio >= WANTED { "reached" } else { "NOT reached" };
    println!("  ratio {ratio:.2}x, wanted {WANTED:.2}x: {word}");
    drop((engine, governor));
    memory()
}

fn rules(limit: u64) -> Result<Rules> {
    let bucket = Bucket::new(limit, Micros::saturating(1_000_000), limit, 0)?;
    Ok(Arc::new([Arc::new(Limited::enforced(RuleId::new("bench")?, Meter::Bucket(bucket)))]))
}

/// From a subject's name to an answer.
fn is_allowed(engine: &Embedded, places: &Places, subject: &Subject, rules: &Rules) -> bool {
    let check = Check::new(places.of(subject.as_str()), Some(subject), Act::Check, 1, rules);
    matches!(engine.run_deferred(&check), Ok(Outcome::Done(checked)) if !checked.is_refused)
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
    let places = Places::new(engine.partitions(), &SpaceId::default_space());
    let before = resident()?;
    let mut key_bytes = 0;
    for n in 0..LIVE_KEYS {
        key_bytes += format!("default/bench/user-{n}").len();
        ensure!(is_allowed(&engine, &places, &Subject::new(format!("user-{n}"))?, &rules), "refused");
        // They come over some seconds: a million in the tenth of one wait to be written all at once, and the room that takes is kept.
        if (n + 1) % AT_ONCE == 0 {
            std::thread::sleep(FLUSHED);
        }
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
