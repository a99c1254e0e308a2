//! A sliding log as long as it may be is exact to the last charge, on every store.

use anyhow::{Context, Result, bail, ensure};
use hermod_core::limit::rule::LOG_MAX;
use hermod_core::limit::{Act, Algorithm, Explained, Pattern, Per, Rule, Verdict};
use hermod_core::{Micros, Outcome, RuleId, SpaceId};
use hermod_tests::history::{Draws, Dumps};
use hermod_tests::lane::START;
use hermod_tests::{EngineLane, Store, unique};
use tokio::task::JoinSet;

const PERIOD: u64 = 3_600_000_000;
/// No two charges come at the same time, so that each is an entry.
const GAP: u64 = 7;

fn rule() -> Result<Rule> {
    let per = Per::span(Micros::saturating(PERIOD))?;
    Ok(Rule { algorithm: Algorithm::SlidingLog, ..Rule::new(RuleId::new("log")?, Pattern::action("act")?, LOG_MAX, per) })
}

/// What is answered so long after the start.
async fn ask(lane: &EngineLane, act: Act, cost: u64, after: u64) -> Result<Explained> {
    lane.clock().set(START.plus(Micros::saturating(after)));
    let operation = lane.operation("bot", act, cost, &[rule()?])?;
    match lane.engine().run(&operation, None).await?.outcome {
        Outcome::Done(checked) => Ok(checked.explained(operation.rules())),
        other => bail!("no key was given: {other:?}"),
    }
}

/// How many are left after it; or, if it was refused, how long after the start it may come again.
async fn told(lane: &EngineLane, act: Act, cost: u64, after: u64) -> Result<Result<u64, u64>> {
    let answer = ask(lane, act, cost, after).await?;
    if answer.verdict() == Verdict::Allowed {
        return Ok(Ok(answer.ruled().next().context("there is a rule")?.1.left));
    }
    Ok(Err(answer.retry_at().context("it says when")?.since(START).get()))
}

async fn fill(lane: EngineLane) -> Result<EngineLane> {
    for n in 0..LOG_MAX {
        let answer = told(&lane, Act::Check, 1, n * GAP).await?;
        ensure!(answer == Ok(LOG_MAX - n - 1), "charge {n}: {answer:?}");
    }
    let now = LOG_MAX * GAP;
    assert_eq!(told(&lane, Act::Check, 1, now).await?, Err(PERIOD), "full until the first has left");
    assert_eq!(told(&lane, Act::Check, LOG_MAX, now).await?, Err((LOG_MAX - 1) * GAP + PERIOD), "until the last has");
    assert_eq!(told(&lane, Act::Check, 1, PERIOD - 1).await?, Err(PERIOD));
    assert_eq!(told(&lane, Act::Check, 1, PERIOD).await?, Ok(0));
    assert_eq!(told(&lane, Act::Check, 1, PERIOD).await?, Err(PERIOD + GAP));
    assert_eq!(told(&lane, Act::Check, 2, PERIOD + 2 * GAP - 1).await?, Err(PERIOD + 2 * GAP));
    assert_eq!(told(&lane, Act::Check, 2, PERIOD + 2 * GAP).await?, Ok(0));
    assert_eq!(told(&lane, Act::Refund, 5, PERIOD + 2 * GAP).await?, Ok(5));
    Ok(lane)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_ten_thousand_is_exact_on_every_store() -> Result<()> {
    assert_eq!(LOG_MAX, 10_000);
    let space = SpaceId::new(unique("log"))?;
    let mut filling = JoinSet::new();
    for (n, store) in Store::ALL.into_iter().enumerate() {
        let space = space.clone();
        filling.spawn(async move {
            let lane = fill(EngineLane::open_in(store, space).await?).await.with_context(|| format!("{store:?}"))?;
            anyhow::Ok((n, lane))
        });
    }
    let mut lanes = filling.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    lanes.sort_by_key(|(n, _)| *n);
    let mut lanes: Vec<EngineLane> = lanes.into_iter().map(|(_, lane)| lane).collect();
    let held = Dumps::default().compare(&lanes, &mut Draws::new(1), Micros::ZERO).await?;
    ensure!(held.len() == 1, "{} records", held.len());
    // It comes back from the disk as it went.
    lanes[0].reopen().await?;
    assert_eq!(told(&lanes[0], Act::Peek, 6, PERIOD + 2 * GAP).await?, Err(PERIOD + 8 * GAP));
    Ok(())
}
