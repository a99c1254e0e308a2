//! One check on Redis beside a script that does nothing, through the same client.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hermod_core::limit::meter::Bucket;
use hermod_core::limit::{Act, Check, Limited, Meter, Rules};
use hermod_core::{Micros, Operation, Outcome, RuleId, SpaceId, Subject};
use hermod_engine::redis::{Address, Options};
use hermod_tests::server;

use crate::load::closed_loop;
use crate::ratio::Rounds;

const WORKERS: usize = 64;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 7;
const SUBJECTS: u64 = 10_000;

/// What a subject that comes back finds.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// All of it has come back meanwhile.
    Nothing,
    /// Something is used under every rule.
    Something,
}

impl Found {
    /// A bucket of which that is true, though each subject comes some times a second.
    fn bucket(self) -> Result<Bucket> {
        let (limit, per) = match self {
            Found::Nothing => (1_000_000, 1_000_000),
            Found::Something => (10_000, 3_600_000_000),
        };
        Ok(Bucket::new(limit, Micros::saturating(per), 100_000, 0)?)
    }

    fn name(self) -> &'static str {
        match self {
            Found::Nothing => "nothing is used",
            Found::Something => "some is used",
        }
    }
}

pub(crate) async fn run() -> Result<()> {
    for found in [Found::Nothing, Found::Something] {
        run_with(1, found, 0.8).await?;
        run_with(3, found, 0.7).await?;
    }
    Ok(())
}

async fn run_with(rules: u64, found: Found, wanted: f64) -> Result<()> {
    let store = server::Redis::start()?;
    let engine = hermod_engine::Redis::open(Options::new(Address::parse(&store.url())?)).await?;
    let space = SpaceId::default_space();
    let limited = |n: u64| Ok(Arc::new(Limited::enforced(RuleId::new(format!("bench-{n}"))?, Meter::Bucket(found.bucket()?))));
    let limited: Rules = (0..rules).map(limited).collect::<Result<Vec<_>>>()?.into();
    let checks = (0..SUBJECTS)
        .map(|n| {
            let subject = Subject::new(format!("user-{n}"))?;
            let place = engine.partitions().place(&space, subject.as_str());
            Ok(Check::new(place, Some(subject), Act::Check, 1, Arc::clone(&limited)))
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
    let title = format!("check on Redis, {rules} rule(s) in one call, {}, 64 concurrent", found.name());
    rounds.print(&title, "hermod limit/check", "EVALSHA of `return 1`, same client", wanted)
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
