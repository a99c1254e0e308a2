//! Leases that are taken, kept and given back.

use anyhow::{Context, Result, ensure};
use hermod_core::limit::{Algorithm, Lease, Rule};
use hermod_core::{Micros, Outcome};
use hermod_tests::lane::START;
use hermod_tests::model::lease::{LeaseAsked, Leases, Want, lease_told};

use super::{DAY, Draws, History, KEPT, OPERATIONS, SECOND, STEP_BACK_MAX, agree, key, limited, maybe_again, rule, some_of, span};

#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire,
    Renew,
    RenewAsBefore,
    Release,
}

fn lease_rule(draws: &mut Draws, number: usize) -> Rule {
    let limit = draws.one_of(&[1, 1, 2, 2, 3, 4, 1_000]);
    let per = draws.one_of(&[1, 1_000, SECOND, 60 * SECOND, 60 * SECOND, 3_600 * SECOND, DAY, 366 * DAY]);
    Rule { durable: draws.chance(5), ..rule(number, Algorithm::Concurrency, limit, span(per)) }
}

/// Asks the model and every store.
async fn compare(history: &mut History, model: &mut Leases, asked: &LeaseAsked<'_>) -> Result<()> {
    let (home, want) = (asked.home, asked.want);
    let expected = model.ask(asked);
    let answers = history.ask(asked.once, |lane| {
        let (place, id) = (lane.engine().partitions().place(lane.space(), home), asked.id.to_owned());
        Ok(match want {
            Want::Acquire(ttl, rules) => Lease::acquire(place, home, id, Micros::saturating(ttl), limited(rules)?),
            Want::Renew(ttl) => Lease::renew(place, home, id, ttl.map(Micros::saturating)),
            Want::Release => Lease::release(place, home, id),
        })
    });
    for (store, outcome) in answers.await? {
        let told = lease_told(&outcome);
        ensure!(told == expected, "on {store:?}\n model: {expected:?}\n store: {told:?}");
    }
    if let Outcome::Done(told) = expected {
        let retries = told.rules.iter().filter_map(|rule| rule.retry_at);
        let kept = told.until.filter(|_| asked.once.is_some()).map(|_| told.now + KEPT);
        told.until.into_iter().chain(retries).chain(kept).for_each(|end| history.clock.note(end));
    }
    Ok(())
}

/// The stores hold the same, and what the model does.
async fn compare_state(history: &mut History, model: &Leases) -> Result<()> {
    let dump = history.compare_state().await?;
    for (home, text, ends) in model.stored().filter(|(_, text, _)| !text.is_empty()) {
        let found = dump.iter().find(|(key, _)| key.ends_with(&format!("}}:lease:{home}"))).map(|(_, found)| found);
        let is_stale = ends <= history.clock.latest.saturating_sub(STEP_BACK_MAX);
        ensure!(found.map_or(is_stale, |found| *found == text), "{home:?} is {found:?}, and {text:?} in the model");
    }
    Ok(())
}

async fn run(seed: u64) -> Result<u64> {
    let mut history = History::open(seed).await?;
    let mut model = Leases::default();
    let mut rules: Vec<Rule> = (0..3).map(|number| lease_rule(&mut history.draws, number)).collect();
    let (long, mut keyed) = ("i".repeat(128), Vec::new());
    for step in 0..OPERATIONS {
        let draws = &mut history.draws;
        if draws.chance(3) {
            let number = draws.one_of(&[0, 1, 2]);
            rules[number] = lease_rule(draws, number);
        }
        history.clock.jump(draws);
        // Without a home: the leases that all subjects share, whose ids say which subject's they are.
        let (home, id) = (draws.one_of(&["s0", "s0", "s1", ""]), draws.one_of(&["a", "a", "a", "b", "b", "c", &long, "s0\na", "\n"]));
        let ttl = draws.one_of(&[1, 1_000, SECOND, 10 * SECOND, 60 * SECOND, 3_600 * SECOND, DAY, Micros::MAX.get()]);
        let act = draws.one_of(&[Act::Acquire, Act::Acquire, Act::Renew, Act::RenewAsBefore, Act::Release]);
        let (used, key) = (some_of(draws, &rules), key(draws));
        let has_key = key.is_some();
        let (home, id, ttl, act, used, key) = maybe_again(draws, (home, id, ttl, act, used, key), &mut keyed, has_key);
        // At times another call looks the same: what is kept is answered, whoever asks.
        let body = if draws.chance(20) { "same".to_owned() } else { format!("{id:?} {act:?} {ttl}") };
        let want = match act {
            Act::Acquire => Want::Acquire(ttl, &used),
            Act::Renew => Want::Renew(Some(ttl)),
            Act::RenewAsBefore => Want::Renew(None),
            Act::Release => Want::Release,
        };
        let once = key.as_deref().map(|key| (key, body.as_str()));
        let asked = LeaseAsked { home, id, want, once, now: history.clock.now };
        compare(&mut history, &mut model, &asked).await.with_context(|| format!("step {step}: {asked:?}"))?;
        if step % 100 == 99 {
            compare_state(&mut history, &model).await.with_context(|| format!("after step {step}"))?;
        }
    }
    Ok(OPERATIONS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_operations_on_leases_agree() -> Result<()> {
    agree(run).await
}

/// Found by a history. The embedded engine dropped what had ended, and Redis did not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_under_no_rule_changes_nothing() -> Result<()> {
    let mut history = History::open(0).await?;
    let mut model = Leases::default();
    let rules = [rule(0, Algorithm::Concurrency, 1, span(SECOND))];
    let steps = [(0, "a", Want::Acquire(SECOND, &rules)), (SECOND, "b", Want::Acquire(SECOND, &[])), (0, "a", Want::Renew(None))];
    for (at, id, want) in steps {
        history.clock.now = START.get() + at;
        let asked = LeaseAsked { home: "s0", id, want, once: None, now: history.clock.now };
        compare(&mut history, &mut model, &asked).await.with_context(|| format!("{asked:?}"))?;
        compare_state(&mut history, &model).await.with_context(|| format!("after {asked:?}"))?;
    }
    Ok(())
}
