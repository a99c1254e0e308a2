//! Model = embedded = Redis = Cluster, on seeded random histories: every answer, and the state left behind.
//!
//! The clock is explicit and jumps to where it hurts: one tick before `retry_at`, exactly there, far
//! ahead, a little back. Numbers are biased towards edges. Rules are edited in the middle, and keys
//! that mean nothing any more vanish at random, as a TTL would have it.
//!
//! A seed that fails is printed and appended to `seeds/limit.txt`, which is replayed first.

use anyhow::{Context, Result, ensure};
use hermod_core::limit::{Act, Algorithm, Mode, OnExpiry, Pattern, Per, Retry, Rule, Scope};
use hermod_core::{Micros, Name, Once, Outcome, RuleId, SpaceId};
use hermod_tests::history::{Draws, Dumps, agree};
use hermod_tests::lane::START;
use hermod_tests::model::{Asked, Decided, Model, decided};
use hermod_tests::{EngineLane, Store, unique};

const HISTORIES: u64 = 170;
const OPERATIONS: u64 = 600;
/// The clock never steps back further than this, so what ended before is safe to delete.
const STEP_BACK_MAX: u64 = 2_000_000;

fn random_rule(draws: &mut Draws, number: u64) -> Rule {
    loop {
        let limit: u64 = draws.one_of(&[1, 1, 2, 3, 7, 10, 60, 97, 1_000, 86_400, 1_000_003, 1 << 32, 1 << 50]);
        let per_us =
            draws.one_of(&[1, 3, 7, 1_000, 999_999, 1_000_000, 1_000_001, 60_000_000, 3_600_000_000, 86_400_000_000, 31_536_000_000_000]);
        let algorithm = draws.one_of(&[
            Algorithm::TokenBucket,
            Algorithm::TokenBucket,
            Algorithm::LeakyBucket,
            Algorithm::FixedWindow,
            Algorithm::SlidingWindow,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ]);
        let is_bucket = matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
        let burst = match draws.below(4) {
            _ if !is_bucket => None,
            0 => None,
            1 => Some(1),
            2 => Some(limit.saturating_mul(2)),
            _ => Some(draws.one_of(&[1, 2, 5, 100, 1 << 20])),
        };
        let queue = (algorithm == Algorithm::LeakyBucket && draws.chance(70)).then(|| draws.one_of(&[1, 3, 100, 1 << 20]));
        let calendar = draws.one_of(&["day@Europe/Berlin", "month@UTC", "week@America/New_York", "hour@Asia/Kolkata"]);
        let per = match algorithm {
            Algorithm::FixedWindow if draws.chance(40) => calendar.parse().unwrap(),
            _ => Per::span(Micros::saturating(per_us)).unwrap(),
        };
        let rule = Rule {
            id: RuleId::new(format!("r{number}")).unwrap(),
            name: Name::new(format!("n{number}")).unwrap(),
            action: Pattern::action("act").unwrap(),
            subject: None,
            when: None,
            limit,
            per,
            algorithm,
            burst,
            queue,
            approximate: algorithm == Algorithm::SlidingWindow && draws.chance(40),
            scope: Scope::Subject,
            mode: draws.one_of(&[Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Shadow]),
            durable: draws.chance(10),
            on_store_error: None,
            on_expiry: OnExpiry::default(),
            version: 0,
        };
        let rule = Rule { mode: if draws.chance(2) { Mode::Block } else { rule.mode }, ..rule };
        if rule.meter().is_ok() {
            return rule;
        }
    }
}

fn random_cost(draws: &mut Draws, rules: &[Rule]) -> u64 {
    if rules.is_empty() {
        return 1 + draws.below(9);
    }
    let burst = draws.one_of(&rules.iter().map(|r| r.burst.unwrap_or(r.limit)).collect::<Vec<_>>());
    match draws.below(6) {
        0 => burst,
        1 => burst.saturating_sub(1).max(1),
        2 => burst.saturating_add(1),
        3 => (1 << 53) - 1,
        _ => 1 + draws.below(3),
    }
}

/// Moves the clock to a place worth looking at.
fn random_time(draws: &mut Draws, now: u64, last: Option<&Decided>) -> u64 {
    let retry = last.and_then(|decided| retry_at(draws, decided)).filter(|at| *at > now);
    let moved = match (draws.below(10), retry) {
        (0 | 1, Some(at)) => at - 1,
        (2..=4, Some(at)) => at,
        (0..=4, None) => now,
        (5, _) => now + 1,
        (6, _) => now + draws.below(1_000_000),
        (7, _) => now + draws.one_of(&[1_000, 999_999, 60_000_000, 86_400_000_000]),
        (8, _) => now.saturating_sub(draws.below(STEP_BACK_MAX)),
        _ => now,
    };
    // Far enough from the end of exact integers that no sum passes it.
    moved.clamp(START.get(), START.get() + (1 << 50))
}

/// When one of the rules that refused says to ask again, or when one of them is as new.
fn retry_at(draws: &mut Draws, decided: &Decided) -> Option<u64> {
    let spans: Vec<u64> = decided
        .rules
        .iter()
        .flat_map(|(_, ruled)| match ruled.retry {
            Retry::After(span) => [span.get(), span.get(), ruled.reset.get()],
            Retry::Now | Retry::Never => [ruled.reset.get(), 0, 0],
        })
        .filter(|span| *span > 0)
        .collect();
    if spans.is_empty() { None } else { Some(decided.now.get() + draws.one_of(&spans)) }
}

async fn history(seed: u64) -> Result<u64> {
    let mut lanes = Vec::new();
    // One space for all, so that even the keys are the same.
    let space = SpaceId::new(unique("history"))?;
    for store in Store::ALL {
        lanes.push(EngineLane::open_in(store, space.clone()).await?);
    }
    let mut model = Model::default();
    let mut dumps = Dumps::default();
    let mut draws = Draws::new(seed);
    let mut rules: Vec<Rule> = (0..3).map(|n| random_rule(&mut draws, n)).collect();
    let mut now = START.get();
    let mut latest = now;
    let mut last: Option<Decided> = None;
    for step in 0..OPERATIONS {
        if draws.chance(2) {
            let number = draws.below(3);
            rules[usize::try_from(number)?] = random_rule(&mut draws, number);
        }
        // A backward step is bounded from the latest time, however many there are.
        now = random_time(&mut draws, now, last.as_ref()).max(latest.saturating_sub(STEP_BACK_MAX));
        latest = latest.max(now);
        // Sometimes no rule applies.
        let count = if draws.chance(3) { 0 } else { usize::try_from(1 + draws.below(3))? };
        let (subject, used) = (format!("s{}", draws.below(4)), &rules[..count]);
        let cost = random_cost(&mut draws, used);
        let act =
            draws.one_of(&[Act::Check, Act::Check, Act::Check, Act::Check, Act::Check, Act::Peek, Act::Force, Act::Refund, Act::Undo]);
        let once = draws.chance(15).then(|| (format!("k{}", draws.below(5)), format!("{subject} {act:?} {cost} {count}")));
        let asked = Asked {
            subject: &subject,
            act,
            cost,
            rules: used,
            once: once.as_ref().map(|(key, body)| (key.as_str(), body.as_str())),
            now: Micros::saturating(now),
        };
        let expected = model.check(&asked);
        let key = once.as_ref().map(|(key, body)| Once::new(key, body.as_bytes())).transpose()?;
        let ask = |lane: &EngineLane| {
            lane.clock().set(Micros::saturating(now));
            let (engine, operation, key) = (lane.engine().clone(), lane.operation(&subject, act, cost, used), key.clone());
            async move {
                let operation = operation?;
                anyhow::Ok(decided(engine.run(&operation, key.as_ref()).await?.outcome, operation.rules()))
            }
        };
        let (embedded, redis, cluster) = tokio::try_join!(ask(&lanes[0]), ask(&lanes[1]), ask(&lanes[2]))?;
        for (store, outcome) in Store::ALL.iter().zip([embedded, redis, cluster]) {
            ensure!(outcome == expected, "step {step} on {store:?}: {asked:?}\n model: {expected:?}\n store: {outcome:?}");
        }
        last = match expected {
            Outcome::Done(decided) | Outcome::Replayed(decided) => Some(decided),
            Outcome::Conflict => None,
        };
        if step % 100 == 99 {
            let before = Micros::saturating(latest.saturating_sub(STEP_BACK_MAX));
            dumps.compare(&lanes, &mut draws, before).await.with_context(|| format!("after step {step}"))?;
        }
    }
    Ok(OPERATIONS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_operations_agree() -> Result<()> {
    let operations = agree("limit", HISTORIES, history).await?;
    println!("{operations} operations agree on the model, embedded, Redis and Cluster");
    ensure!(operations >= 100_000, "only {operations} operations were compared");
    Ok(())
}
