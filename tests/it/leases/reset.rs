//! Resets between checks, under rules that stay as they are.

use anyhow::{Context, Result, ensure};
use hermod_core::limit::{Act, Algorithm, Reset, Rule};
use hermod_core::{Micros, Outcome, Subject};
use hermod_tests::model::reset::{ResetAsked, Resets};
use hermod_tests::model::{Asked, decided};

use super::{History, KEPT, OPERATIONS, SECOND, agree, key, limited, maybe_again, rule, some_of, span};

/// One of each kind; and so many more that Redis no longer writes all records of a subject at once.
fn rules() -> Vec<Rule> {
    let more = (7..20).map(|number| rule(number, Algorithm::TokenBucket, 50, span(3_600 * SECOND)));
    let estimate = Rule { approximate: true, ..rule(3, Algorithm::SlidingWindow, 10, span(60 * SECOND)) };
    let queued = Rule { queue: Some(3), burst: Some(2), ..rule(5, Algorithm::LeakyBucket, 7, span(SECOND)) };
    let kinds = [
        rule(0, Algorithm::TokenBucket, 3, span(10 * SECOND)),
        rule(1, Algorithm::SlidingWindow, 5, span(SECOND)),
        rule(2, Algorithm::SlidingLog, 4, span(60 * SECOND)),
        estimate,
        rule(4, Algorithm::FixedWindow, 6, "day@Europe/Berlin".parse().unwrap()),
        queued,
        Rule { durable: true, ..rule(6, Algorithm::FixedWindow, 2, span(1_000)) },
    ];
    kinds.into_iter().chain(more).collect()
}

async fn compare_reset(history: &History, model: &mut Resets, asked: &ResetAsked<'_>) -> Result<()> {
    let expected = model.reset(asked);
    let answers = history.ask(asked.once, |lane| {
        let place = lane.engine().partitions().place(lane.space(), asked.subject);
        Ok(Reset::new(place, Subject::new(asked.subject)?, limited(asked.rules)?))
    });
    for (store, outcome) in answers.await? {
        ensure!(outcome == expected, "on {store:?}\n model: {expected:?}\n store: {outcome:?}");
    }
    Ok(())
}

async fn compare_check(history: &mut History, model: &mut Resets, asked: &Asked<'_>) -> Result<()> {
    let expected = model.check(asked);
    let rules = limited(asked.rules)?;
    let answers = history.ask(asked.once, |lane| lane.operation(asked.subject, asked.act, asked.cost, asked.rules));
    for (store, outcome) in answers.await? {
        let outcome = decided(outcome, &rules);
        ensure!(outcome == expected, "on {store:?}\n model: {expected:?}\n store: {outcome:?}");
    }
    if let Outcome::Done(decided) = expected {
        let resets = decided.rules.iter().map(|(_, ruled)| ruled.reset).filter(|reset| *reset > Micros::ZERO);
        let kept = asked.once.map(|_| Micros::saturating(KEPT));
        resets.chain(kept).for_each(|span| history.clock.note(asked.now.plus(span).get()));
    }
    Ok(())
}

async fn run(seed: u64) -> Result<u64> {
    let mut history = History::open(seed).await?;
    let mut model = Resets::default();
    let (rules, mut keyed) = (rules(), Vec::new());
    for step in 0..OPERATIONS {
        let draws = &mut history.draws;
        history.clock.jump(draws);
        let (subject, mut used) = (draws.one_of(&["s0", "s0", "s1"]), some_of(draws, &rules));
        // Mostly few apply.
        used.truncate(draws.one_of(&[1, 2, 3, 3, 20]));
        let (act, cost) = (draws.one_of(&[Act::Check, Act::Check, Act::Check, Act::Peek, Act::Force, Act::Refund]), 1 + draws.below(3));
        // No act is a reset. A check has rules.
        let (act, key) = (Some(act).filter(|_| draws.chance(75) && !used.is_empty()), key(draws));
        let has_key = key.is_some();
        let (subject, act, cost, used, key) = maybe_again(draws, (subject, act, cost, used, key), &mut keyed, has_key);
        let body = format!("{act:?} {cost} {:?}", used.iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>());
        let (once, now) = (key.as_deref().map(|key| (key, body.as_str())), Micros::saturating(history.clock.now));
        let compared = match act {
            None => compare_reset(&history, &mut model, &ResetAsked { subject, rules: &used, once, now }).await,
            Some(act) => compare_check(&mut history, &mut model, &Asked { subject, act, cost, rules: &used, once, now }).await,
        };
        compared.with_context(|| format!("step {step} at {now}: {subject} {act:?} {cost} with {once:?} under {used:?}"))?;
        if step % 100 == 99 {
            history.compare_state().await.with_context(|| format!("after step {step}"))?;
        }
    }
    Ok(OPERATIONS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_checks_and_resets_agree() -> Result<()> {
    agree(run).await
}
