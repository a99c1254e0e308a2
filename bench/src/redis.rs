//! One check on Redis beside a script that does nothing, through the same client.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hermod_core::limit::{Check, Limited, Meter};
use hermod_core::{Micros, Name, Operation, Outcome, RuleId, SpaceId, Subject};
use hermod_engine::redis::{Address, Options};
use hermod_tests::server;

use crate::load::closed_loop;
use crate::ratio::Rounds;

const WORKERS: usize = 64;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 7;
const SUBJECTS: u64 = 10_000;

pub(crate) async fn run() -> Result<()> {
    let store = server::Redis::start()?;
    let engine = hermod_engine::Redis::open(Options::new(Address::parse(&store.url())?)).await?;
    let space = SpaceId::default_space();
    let meter = Meter::Bucket(Bucket::new(1_000_000, Micros::saturating(1_000_000), 1_000_000, 0)?);
    let rules: Arc<[Limited]> = Arc::new([Limited { id: RuleId::new("bench")?, name: Name::default_name(), meter, durable: false }]);
    let checks = (0..SUBJECTS)
        .map(|n| {
            let subject = Subject::new(format!("user-{n}"))?;
            Ok(Check::new(engine.partitions().place(&space, subject.as_str()), subject, 1, Arc::clone(&rules)))
        })
        .collect::<Result<Vec<_>>>()?;
    let checks = Arc::new(checks);
    let mut rounds = Rounds::default();
    for round in 0..=ROUNDS {
        let span = if round == 0 { Duration::from_millis(500) } else { ROUND };
        let ours = closed_loop(store.pid(), WORKERS, span, |worker| {
            let (engine, checks) = (engine.clone(), Arc::clone(&checks));
            move |count| {
                let (engine, checks) = (engine.clone(), Arc::clone(&checks));
                async move { run_one(&engine, pick(&checks, worker, count)).await }
            }
        })
        .await?;
        let theirs = closed_loop(store.pid(), WORKERS, span, |worker| {
            let (engine, checks) = (engine.clone(), Arc::clone(&checks));
            move |count| {
                let (engine, checks) = (engine.clone(), Arc::clone(&checks));
                async move { Ok(engine.trivial(pick(&checks, worker, count).place()).await?) }
            }
        })
        .await?;
        if round > 0 {
            rounds.add(ours, theirs);
        }
    }
    rounds.print("check on Redis, 64 concurrent", "hermod limit/check", "EVALSHA of `return 1`, same client", 0.8)
}

fn pick(checks: &[Check], worker: usize, count: u64) -> &Check {
    let turn = worker.wrapping_mul(157).wrapping_add(usize::try_from(count).unwrap_or(0));
    checks.get(turn % checks.len()).expect("there is a check")
}

async fn run_one(engine: &hermod_engine::Redis, check: &Check) -> Result<()> {
    let ran = engine.run(check, None).await?;
    anyhow::ensure!(matches!(ran.outcome, Outcome::Done(_)), "not done");
    Ok(())
}
