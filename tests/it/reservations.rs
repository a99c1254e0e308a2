//! Reservations: model = embedded = Redis = Cluster, on seeded random histories, as `differential.rs` does it for
//! checks: every answer, and the state left behind.
//!
//! There are few subjects and rules, so that calls meet. The clock jumps to where it hurts: one tick before a
//! reservation expires or a charge has come back by itself, exactly there, one tick after, a little back. Rules are
//! edited while reservations are open.
//!
//! A seed that fails is printed and appended to `seeds/reservations.txt`, which is replayed first.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hermod_core::limit::{Act, Algorithm, Check, Mode, OnExpiry, Reserve, Retry, Rule, Scope, Settle, Verdict};
use hermod_core::limit::{Explained, ReservationId};
use hermod_core::{Micros, Outcome, Subject};
use hermod_tests::history::{self, Draws};
use hermod_tests::model::reservation::{ReservationAsked, Reservations, Told, Want, reserved_told, settled_told};
use hermod_tests::model::{Asked, decided};

use crate::leases::{DAY, History, KEPT, SECOND, STEP_BACK_MAX, key, limited, maybe_again, rule, some_of, span};

const HISTORIES: u64 = 30;
const OPERATIONS: u64 = 500;
const HOUR: u64 = 3_600 * SECOND;

/// One of any kind; they all last about as long as a reservation may.
fn random_rule(draws: &mut Draws, number: usize) -> Rule {
    let algorithm = draws.one_of(&[
        Algorithm::TokenBucket,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ]);
    let calendar = draws.one_of(&["day@Europe/Berlin", "hour@Asia/Kolkata", "hour@UTC"]);
    let per = match algorithm {
        Algorithm::FixedWindow if draws.chance(60) => calendar.parse().unwrap(),
        _ => span(draws.one_of(&[1_000, SECOND, 7 * SECOND + 1, 60 * SECOND, HOUR, DAY])),
    };
    let limit = draws.one_of(&[1, 3, 7, 10, 10, 97, 1_000]);
    Rule {
        approximate: algorithm == Algorithm::SlidingWindow && draws.chance(40),
        queue: (algorithm == Algorithm::LeakyBucket).then_some(3),
        mode: draws.one_of(&[Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Shadow]),
        durable: draws.chance(5),
        on_expiry: draws.one_of(&[OnExpiry::Keep, OnExpiry::Refund, OnExpiry::Refund]),
        ..rule(number, algorithm, limit, per)
    }
}

/// The rule that all subjects share.
fn shared_rule(draws: &mut Draws) -> Rule {
    Rule { scope: Scope::Global, mode: Mode::Enforce, ..random_rule(draws, 9) }
}

/// Asks the model and every store; what they answered.
async fn compare(history: &mut History, model: &mut Reservations, asked: &ReservationAsked<'_>, part: Option<&Explained>) -> Result<Told> {
    let expected = model.ask(asked);
    let subject = Subject::new(asked.subject)?;
    let id = |number| ReservationId { number, subject: subject.clone() };
    let place = |lane: &hermod_tests::EngineLane| lane.engine().partitions().place(lane.space(), asked.subject);
    let mut told = Vec::new();
    match asked.want {
        Want::Reserve { number, cost, ttl, rules, .. } => {
            let limited = limited(rules)?;
            let answers = history.ask(asked.once, |lane| {
                let reserve = Reserve::new(place(lane), id(number), Micros::saturating(ttl), cost, limited.clone());
                Ok(match part {
                    Some(part) => reserve.and(part),
                    None => reserve,
                })
            });
            told.extend(answers.await?.map(|(store, outcome)| (store, reserved_told(outcome, &limited))));
        }
        Want::Settle(number, actual) => {
            let answers = history.ask(asked.once, |lane| Ok(Settle::one(place(lane), &id(number), actual))).await?;
            ensure!(answers.iter().all(|(_, outcome)| *outcome == answers[0].1), "the stores differ: {answers:?}");
            told.extend(answers.iter().map(|(store, outcome)| (*store, settled_told(outcome))));
        }
        Want::Expired => {
            let answers = history.ask(asked.once, |lane| Ok(Settle::expired(place(lane), asked.subject))).await?;
            ensure!(answers.iter().all(|(_, outcome)| *outcome == answers[0].1), "the stores differ: {answers:?}");
            told.extend(answers.iter().map(|(store, outcome)| (*store, settled_told(outcome))));
        }
    }
    for (store, told) in told {
        ensure!(told == expected, "on {store:?}\n model: {expected:?}\n store: {told:?}");
    }
    Ok(match expected {
        Outcome::Done(told) => told,
        Outcome::Replayed(_) | Outcome::Conflict => Told::TooMany,
    })
}

/// A plain check of the subject, or of what all subjects share; what was answered.
async fn compare_check(
    history: &mut History,
    model: &mut Reservations,
    subject: &str,
    act: Act,
    cost: u64,
    rules: &[Rule],
) -> Result<Explained> {
    let now = Micros::saturating(history.clock.now);
    let expected = model.checks.check(&Asked { subject, act, cost, rules, once: None, now });
    let limited = limited(rules)?;
    let answers = history.ask(None, |lane| {
        let place = lane.engine().partitions().place(lane.space(), subject);
        Ok(Check::new(place, Subject::new(subject).ok(), act, cost, limited.clone()))
    });
    let answers = answers.await?;
    for (store, outcome) in &answers {
        let outcome = decided(outcome.clone(), &limited);
        ensure!(outcome == expected, "on {store:?}\n model: {expected:?}\n store: {outcome:?}");
    }
    let [(_, Outcome::Done(checked)), ..] = answers else { anyhow::bail!("a check without a key is done") };
    Ok(checked.explained(&limited))
}

/// The dumps are equal, and hold the reservations of the model.
async fn compare_state(history: &mut History, model: &Reservations) -> Result<()> {
    let stale = history.clock.latest.saturating_sub(STEP_BACK_MAX);
    let held: BTreeMap<String, String> = history.compare_state().await?;
    for (subject, text, until) in model.stored() {
        let found = held.iter().find(|(key, _)| key.ends_with(&format!(":reserve:{subject}"))).map(|(_, value)| value);
        let plain =
            found.map(|found| found.split('[').map(|piece| piece.split_once(']').map_or(piece, |(_, rest)| rest)).collect::<String>());
        ensure!(
            plain.as_ref().map_or(until <= stale || text.is_empty(), |plain| *plain == text),
            "{subject} is {found:?}, and {text:?} in the model"
        );
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Reserve { cost: u64, ttl: u64 },
    Settle(u128, Option<u64>),
    Expired,
    Check(Act, u64),
}

fn random_call(draws: &mut Draws, numbers: &[u128], rules: &[Rule]) -> Call {
    let most = rules.iter().map(|rule| rule.limit).min().unwrap_or(5);
    let cost = draws.one_of(&[1, 1, 2, 3, most, most.saturating_sub(1).max(1), most + 1]);
    let recent = numbers.len().saturating_sub(6);
    let number = numbers.get(recent..).filter(|recent| !recent.is_empty()).map_or(0, |recent| draws.one_of(recent));
    let actual = draws.one_of(&[None, Some(0), Some(0), Some(1), Some(cost), Some(cost + 1), Some(3 * cost), Some((1 << 53) - 1)]);
    match draws.below(10) {
        0..=2 => Call::Reserve { cost, ttl: draws.one_of(&[1, 1_000, SECOND, 60 * SECOND, 300 * SECOND, HOUR, DAY]) },
        3..=5 => Call::Settle(number, actual),
        6 | 7 => Call::Expired,
        8 => Call::Check(Act::Check, cost),
        _ => Call::Check(draws.one_of(&[Act::Peek, Act::Force, Act::Refund]), cost),
    }
}

async fn run(seed: u64) -> Result<u64> {
    let mut history = History::open(seed).await?;
    let mut model = Reservations::default();
    let mut rules: Vec<Rule> = (0..3).map(|number| random_rule(&mut history.draws, number)).collect();
    let mut shared = shared_rule(&mut history.draws);
    let (mut numbers, mut keyed, mut made) = (Vec::new(), Vec::new(), u128::from(seed) << 64);
    for step in 0..OPERATIONS {
        let draws = &mut history.draws;
        if draws.chance(3) {
            let number = draws.one_of(&[0, 1, 2]);
            rules[number] = random_rule(draws, number);
        }
        if draws.chance(1) {
            shared = shared_rule(draws);
        }
        history.clock.jump(draws);
        let (subject, used) = (draws.one_of(&["s0", "s0", "s1"]), some_of(draws, &rules));
        let (call, key, is_shared) = (random_call(draws, &numbers, &used), key(draws), draws.chance(20));
        let key = key.filter(|_| matches!(call, Call::Reserve { .. } | Call::Settle(..)));
        made += 1;
        let has_key = key.is_some();
        let (subject, call, used, key, number) = maybe_again(draws, (subject, call, used, key, made), &mut keyed, has_key);
        let (body, now) = (format!("{call:?} {number}"), history.clock.now);
        let once = key.as_deref().map(|key| (key, body.as_str()));
        let said = || format!("step {step} at {now}: {subject} {call:?} with {once:?} under {used:?}");
        let want = match call {
            Call::Check(act, cost) => {
                compare_check(&mut history, &mut model, subject, act, cost, &used).await.with_context(said)?;
                continue;
            }
            Call::Reserve { cost, ttl } => {
                // What all share is charged first, and given back if the subject's own rules refuse.
                let part = match is_shared && key.is_none() {
                    true => Some(compare_check(&mut history, &mut model, "", Act::Check, cost, std::slice::from_ref(&shared)).await?),
                    false => None,
                };
                let part = part.filter(|part| part.verdict() == Verdict::Allowed);
                let ends: Vec<(Rule, u64)> =
                    part.iter().flat_map(|part| part.ruled()).map(|(_, ruled)| (shared.clone(), now + ruled.reset.get())).collect();
                let want = Want::Reserve { number, cost, ttl, rules: &used, shared: &ends };
                let asked = ReservationAsked { subject, want, once, now };
                let told = compare(&mut history, &mut model, &asked, part.as_ref()).await.with_context(said)?;
                if let Told::Checked(decided) = told
                    && decided.verdict == Verdict::Allowed
                {
                    numbers.push(number);
                    let resets =
                        decided.rules.iter().filter(|(_, ruled)| ruled.retry == Retry::Now).map(|(_, ruled)| now + ruled.reset.get());
                    let ends = resets.chain([now + ttl, now + ttl, now + ttl + HOUR]).chain(once.map(|_| now + KEPT));
                    ends.collect::<Vec<_>>().into_iter().for_each(|end| history.clock.note(end));
                }
                if step % 50 == 49 {
                    compare_state(&mut history, &model).await.with_context(|| format!("after step {step}"))?;
                }
                continue;
            }
            Call::Settle(number, actual) => Want::Settle(number, actual),
            Call::Expired => Want::Expired,
        };
        let told = compare(&mut history, &mut model, &ReservationAsked { subject, want, once, now }, None).await.with_context(said)?;
        if let Told::Settled { owed, .. } = told {
            for (act, cost, _) in owed {
                compare_check(&mut history, &mut model, "", act, cost, std::slice::from_ref(&shared)).await.with_context(said)?;
            }
        }
        if step % 50 == 49 {
            compare_state(&mut history, &model).await.with_context(|| format!("after step {step}"))?;
        }
    }
    Ok(OPERATIONS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_operations_on_reservations_agree() -> Result<()> {
    let operations = history::agree("reservations", HISTORIES, run).await?;
    println!("{operations} operations on reservations agree on the model, embedded, Redis and Cluster");
    ensure!(operations >= 10_000, "only {operations} operations were compared");
    Ok(())
}

/// What was settled is remembered, so many times; what is open is not forgotten for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_two_hundred_that_were_settled_are_remembered() -> Result<()> {
    let mut history = History::open(0).await?;
    let mut model = Reservations::default();
    let rules = [rule(0, Algorithm::FixedWindow, 1_000, span(DAY))];
    let now = history.clock.now;
    let mut ask = async |history: &mut History, want| {
        let asked = ReservationAsked { subject: "s0", want, once: None, now };
        compare(history, &mut model, &asked, None).await.with_context(|| format!("{asked:?}"))
    };
    for number in 0..205 {
        ask(&mut history, Want::Reserve { number, cost: 1, ttl: HOUR, rules: &rules, shared: &[] }).await?;
    }
    for number in 1..203 {
        ask(&mut history, Want::Settle(number, Some(0))).await?;
    }
    let mut is_known = async |history: &mut History, number| {
        let told = ask(history, Want::Settle(number, None)).await?;
        anyhow::Ok(matches!(told, Told::Settled { fate: Some(_), .. }))
    };
    assert_eq!((is_known(&mut history, 1).await?, is_known(&mut history, 2).await?), (false, false));
    assert_eq!((is_known(&mut history, 3).await?, is_known(&mut history, 0).await?), (true, true));
    compare_state(&mut history, &model).await
}
