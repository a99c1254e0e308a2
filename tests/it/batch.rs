//! Operations that share a script call keep apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use hermod_core::limit::{Act, Algorithm, Checked, Pattern, Rule, Verdict};
use hermod_core::{Micros, Once, Outcome, RuleId};
use hermod_tests::{EngineLane, Store};
use tokio::task::JoinSet;

const SUBJECTS: u64 = 200;

fn rule(limit: u64) -> Result<Rule> {
    let rule = Rule::new(RuleId::new(format!("r{limit}"))?, Pattern::action("act")?, limit, "1day".parse()?);
    Ok(Rule { algorithm: Algorithm::TokenBucket, ..rule })
}

/// Hundreds at once, each with a cost, a number of rules and a key of its own, each asked twice: every
/// one gets its own answer, and of each key one is done and the other replayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_of_a_shared_call_gets_its_own_answer() -> Result<()> {
    for store in Store::ALL {
        let lane = EngineLane::open(store).await?;
        let mut asked = JoinSet::new();
        for n in (1..=SUBJECTS).chain(1..=SUBJECTS) {
            let rules = if n % 3 == 0 { vec![rule(1_000)?, rule(2_000)?] } else { vec![rule(1_000)?] };
            let (engine, operation) = (lane.engine().clone(), lane.operation(&format!("s{n}"), Act::Check, n, &rules)?);
            let once = Once::new(&format!("k{n}"), b"the same")?;
            asked.spawn(async move { (n, engine.run(&operation, Some(&once)).await, Arc::clone(operation.rules())) });
        }
        let (mut done, mut replayed) = (0, 0);
        while let Some(answered) = asked.join_next().await {
            let (n, ran, rules) = answered?;
            let checked: Checked = match ran?.outcome {
                Outcome::Done(checked) => {
                    done += 1;
                    checked
                }
                Outcome::Replayed(checked) => {
                    replayed += 1;
                    checked
                }
                Outcome::Conflict => anyhow::bail!("{store:?}: s{n} met another's key"),
            };
            let checked = checked.explained(&rules);
            let left: Vec<u64> = checked.ruled().map(|(_, ruled)| ruled.left).collect();
            let expected = if n % 3 == 0 { vec![1_000 - n, 2_000 - n] } else { vec![1_000 - n] };
            ensure!(checked.verdict() == Verdict::Allowed && left == expected, "{store:?}: s{n} was told {checked:?}");
        }
        ensure!((done, replayed) == (SUBJECTS, SUBJECTS), "{store:?}: {done} done, {replayed} replayed");
    }
    Ok(())
}

/// Without keys of their own those that differ in their subject only are told once what to do, and where nothing is owed
/// any more it is computed once. Three times, ten seconds apart, so that of two rules one has drained and the other has not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_computed_once_for_a_shared_call_is_right_for_each() -> Result<()> {
    let quick = |id: &str| Ok::<_, anyhow::Error>(Rule { id: RuleId::new(id)?, per: "5s".parse()?, ..rule(4)? });
    let rules = [quick("quick")?, rule(7)?, quick("quick-too")?];
    let mut told: BTreeMap<(u64, u64), Checked> = BTreeMap::new();
    for store in Store::ALL {
        let lane = EngineLane::open(store).await?;
        for round in 0..3 {
            let mut asked = JoinSet::new();
            for n in 0..SUBJECTS {
                // Runs of some that are alike, between others: of a cost, an act or a number of rules.
                let (cost, act) = (n / 16 % 5 + 1, if n / 48 == 2 { Act::Peek } else { Act::Check });
                let some = rules.get(..usize::try_from(n / 64)? % 3 + 1).unwrap_or_default();
                let (engine, operation) = (lane.engine().clone(), lane.operation(&format!("s{n}"), act, cost, some)?);
                asked.spawn(async move { (n, engine.run(&operation, None).await) });
            }
            while let Some(answered) = asked.join_next().await {
                let (n, ran) = answered?;
                let Outcome::Done(checked) = ran?.outcome else { anyhow::bail!("{store:?}: s{n} was not done") };
                let first = told.entry((round, n)).or_insert_with(|| checked.clone());
                ensure!(*first == checked, "{store:?}: s{n} was told {checked:?} in round {round}, not {first:?}");
            }
            lane.clock().advance(Micros::saturating(10_000_000));
        }
    }
    ensure!(told.values().any(|checked| checked.is_refused) && told.values().any(|checked| !checked.is_refused), "all are alike");
    Ok(())
}
