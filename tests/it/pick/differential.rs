//! Picks: model = embedded = Redis = Cluster, on seeded random histories, as `differential.rs` does it for checks:
//! every answer, and the state left behind.
//!
//! There are few messages and subjects, so that calls meet. Plans are right, stale, or about another time; caps are
//! edited while picks are open; messages are deleted and put among the old. The clock jumps to where it hurts.
//!
//! A seed that fails is printed and appended to `seeds/picks.txt`, which is replayed first.

use anyhow::{Context, Result, ensure};
use hermod_core::event::ReadEvents;
use hermod_core::limit::{Algorithm, Per, Rule};
use hermod_core::pick::history::OLD;
use hermod_core::pick::{About, Candidate, Cap, CapKind, Fate, Given, PickId, Plan, Settle, Take, Zone};
use hermod_core::{DeckId, MessageId, Micros, Outcome, RuleId, Subject};
use hermod_tests::history::{self, Draws};
use hermod_tests::model::pick::{Picks, Planned, Told, events_told, rule_id, taken_told};

use crate::leases::{DAY, History, KEPT, SECOND, key, maybe_again, rule};

const HISTORIES: u64 = 40;
const OPERATIONS: u64 = 500;
const HOUR: u64 = 3_600 * SECOND;
const MESSAGES: u32 = 9;
const ZONE: &str = "Europe/Berlin";

/// The ordinal of a message: some share a chunk of the old, some do not.
fn ordinal(number: u64) -> u32 {
    [0, 1, 7, 8, 63, 1_023, 1_024, 1_025, 70_000][usize::try_from(number).unwrap()]
}

fn random_cap(draws: &mut Draws) -> Option<Cap> {
    let (kind, per) = match draws.below(10) {
        0 | 1 => return None,
        2..=5 => (CapKind::Bucket, draws.one_of(&["1s", "7s", "1m", "1h"])),
        6 | 7 => (CapKind::Rolling, draws.one_of(&["1s", "1m", "1h"])),
        _ => (CapKind::Calendar, draws.one_of(&["hour", "day"])),
    };
    Some(Cap::new(draws.one_of(&[1, 1, 1, 2, 3, 100]), per, kind).unwrap())
}

/// The cap as a rule of the model, for who is in this time zone.
pub(super) fn as_rule(cap: &Cap, id: &str, zone: &str) -> Rule {
    let (algorithm, per) = match cap.kind() {
        CapKind::Bucket => (Algorithm::TokenBucket, cap.per().parse().unwrap()),
        CapKind::Rolling if cap.tokens() > 64 => (Algorithm::SlidingWindow, cap.per().parse().unwrap()),
        CapKind::Rolling => (Algorithm::SlidingLog, cap.per().parse().unwrap()),
        CapKind::Calendar => (Algorithm::FixedWindow, format!("{}@{zone}", cap.per()).parse::<Per>().unwrap()),
    };
    Rule { id: RuleId::new(id).unwrap(), ..rule(0, algorithm, cap.tokens(), per) }
}

/// What is drawn of a plan; the rest follows from the state.
#[derive(Clone, Debug)]
enum Call {
    Take { plan: Box<Plan>, caps: Vec<Option<Cap>>, cap: Option<Cap> },
    Recall,
    Settle(u64, Fate),
    About(Option<bool>),
    Read(u64, usize),
}

/// A plan that is right at most times.
fn random_plan(draws: &mut Draws, model: &Picks, subject: &str, now: u64, made: u64, catalog: &[Option<Cap>]) -> Call {
    let seen = model.seen(subject, now);
    let zone = Zone::new(ZONE).unwrap();
    let about = Micros::saturating(now);
    let mut plan = Plan {
        seq: seen.seq,
        generation: seen.generation,
        expired: u32::try_from(seen.reserved.iter().filter(|one| one.3 == Fate::Open && one.2 <= now).count()).unwrap(),
        profile: model.profile(subject),
        until: Micros::MAX,
        number: made,
        lease: Micros::saturating(if draws.chance(50) { draws.one_of(&[1, SECOND, 60 * SECOND, HOUR, 2 * DAY]) } else { 0 }),
        ..Plan::default()
    };
    match draws.below(30) {
        0 => plan.seq = draws.below(seen.seq + 2),
        1 => plan.generation += 1,
        2 => plan.expired += 1,
        3 => plan.profile += 1,
        4 => plan.from = Micros::saturating(now + draws.below(2)),
        5 => plan.until = Micros::saturating(now + draws.below(2)),
        // Somebody picked in between.
        6..=9 => plan.seq = plan.seq.saturating_sub(1),
        _ => {}
    }
    let hold = |plan: &mut Plan, cap: &Cap| {
        let given = Given::new(Some(&cap.meter(&zone)), about);
        if given.kind == 3 {
            plan.from = plan.from.max(Micros::saturating(given.ints[1]));
            plan.until = plan.until.min(Micros::saturating(given.ints[2]));
        }
        given
    };
    let cap = catalog[usize::try_from(MESSAGES).unwrap()].clone();
    plan.cap = cap.as_ref().map(|cap| hold(&mut plan, cap)).unwrap_or_default();
    let mut caps = Vec::new();
    for _ in 0..1 + draws.below(4) {
        let number = draws.below(u64::from(MESSAGES));
        let ordinal = ordinal(number);
        let planned = match seen.entries.get(&ordinal) {
            _ if draws.chance(3) => draws.below(seen.seq + 2),
            Some((seq, _)) => *seq,
            None if seen.old.contains(&ordinal) => OLD,
            None => 0,
        };
        let cap = catalog[usize::try_from(number).unwrap()].clone();
        let meter = cap.as_ref().map(|cap| {
            let given = hold(&mut plan, cap);
            plan.meters.push(given);
            u8::try_from(plan.meters.len()).unwrap()
        });
        let id = MessageId::new(format!("m{ordinal}")).unwrap();
        plan.candidates.push(Candidate { ordinal, id, seq: planned, meter: meter.unwrap_or(0) });
        caps.push(cap);
    }
    if draws.chance(10) {
        let is_free = |ordinal: &u32| plan.candidates.iter().all(|one| one.ordinal != *ordinal);
        let some: Vec<u32> = (0..2).map(|_| ordinal(draws.below(u64::from(MESSAGES)))).filter(is_free).collect();
        let sent = some.iter().copied().filter(|ordinal| seen.entries.contains_key(ordinal));
        if draws.chance(50) {
            plan.forget = some
        } else {
            plan.evict = sent.collect()
        }
        plan.evict.dedup();
    }
    Call::Take { plan: Box::new(plan), caps, cap }
}

async fn compare(history: &History, model: &mut Picks, subject: &str, call: &Call, once: Option<(&str, &str)>) -> Result<Outcome<Told>> {
    let now = history.clock.now;
    let home = |subject: &str| history.lanes[0].engine().partitions().place(history.lanes[0].space(), subject);
    let expected = model.once(subject, once, now, |model| match call {
        Call::Recall => model.take(subject, None, now),
        Call::Settle(number, fate) => model.settle(subject, *number, *fate, now),
        Call::About(tell) => model.about(subject, *tell, now),
        Call::Read(after, limit) => model.events(|other| home(other) == home(subject), *after, *limit),
        Call::Take { plan, caps, cap } => {
            let rules = plan.candidates.iter().zip(caps);
            let rules = rules.map(|(one, cap)| cap.as_ref().map(|cap| as_rule(cap, &rule_id(one.ordinal), ZONE))).collect();
            model.take(subject, Some(&Planned { plan, cap: cap.as_ref().map(|cap| as_rule(cap, "cap", ZONE)), rules }), now)
        }
    });
    let (deck, name) = (DeckId::new("tips")?, Subject::new(subject)?);
    let place = |lane: &hermod_tests::EngineLane| lane.engine().partitions().place(lane.space(), subject);
    let mut told = Vec::new();
    match call {
        Call::Recall | Call::Take { .. } => {
            let answers = history.ask(once, |lane| {
                let (place, subject, deck) = (place(lane), name.clone(), deck.clone());
                Ok(match call {
                    Call::Take { plan, .. } => Take::plan(place, subject, deck, 7, plan.clone().into()),
                    _ => Take::recall(place, subject, deck, 7),
                })
            });
            let answers = answers.await?;
            for (store, outcome) in &answers {
                ensure!(*outcome == answers[0].1, "{store:?} differs: {outcome:?}\n from {:?}", answers[0].1);
                told.push((*store, of(outcome, taken_told)));
            }
        }
        Call::Settle(number, fate) => {
            let id = PickId { number: *number, deck, epoch: 7, subject: name };
            let answers = history
                .ask(once, |lane| Ok(if *fate == Fate::Acked { Settle::ack(place(lane), &id) } else { Settle::nack(place(lane), &id) }));
            let answers = answers.await?;
            ensure!(answers.iter().all(|(_, outcome)| *outcome == answers[0].1), "the stores differ: {answers:?}");
            told.extend(
                answers.iter().map(|(store, outcome)| (*store, of(outcome, |settled| Told::Settled(settled.fate, settled.is_done)))),
            );
        }
        Call::Read(after, limit) => {
            let answers = history.ask(once, |lane| Ok(ReadEvents::new(place(lane), *after, *limit))).await?;
            ensure!(answers.iter().all(|(_, outcome)| *outcome == answers[0].1), "the stores differ: {answers:?}");
            told.extend(answers.iter().map(|(store, outcome)| (*store, of(outcome, events_told))));
        }
        Call::About(tell) => {
            let answers = history.ask(once, |lane| {
                Ok(match tell {
                    None => About::ask(place(lane), name.clone()),
                    Some(true) => About::tell(place(lane), name.clone(), format!("{now}").into_bytes().into()),
                    Some(false) => About::forget(place(lane), name.clone()),
                })
            });
            let answers = answers.await?;
            ensure!(answers.iter().all(|(_, outcome)| *outcome == answers[0].1), "the stores differ: {answers:?}");
            told.extend(
                answers.iter().map(|(store, outcome)| (*store, of(outcome, |known| Told::Profile(known.version, known.was_known)))),
            );
        }
    }
    for (store, told) in told {
        ensure!(told == expected, "on {store:?}\n model: {expected:?}\n store: {told:?}");
    }
    Ok(expected)
}

fn of<A>(outcome: &Outcome<A>, told: impl FnOnce(&A) -> Told) -> Outcome<Told> {
    match outcome {
        Outcome::Done(answer) => Outcome::Done(told(answer)),
        Outcome::Replayed(answer) => Outcome::Replayed(told(answer)),
        Outcome::Conflict => Outcome::Conflict,
    }
}

async fn run(seed: u64) -> Result<u64> {
    let mut history = History::open(seed).await?;
    let mut model = Picks::default();
    // The last one is the subject's.
    let mut catalog: Vec<Option<Cap>> = (0..=MESSAGES).map(|_| random_cap(&mut history.draws)).collect();
    let (mut numbers, mut keyed, mut made) = (vec![0], Vec::new(), 0);
    for step in 0..OPERATIONS {
        let draws = &mut history.draws;
        if draws.chance(4) {
            let which = draws.below(u64::from(MESSAGES) + 1);
            catalog[usize::try_from(which).unwrap()] = random_cap(draws);
        }
        history.clock.jump(draws);
        if draws.below(OPERATIONS * 4) == 0 {
            history.clock.leap(401 * DAY);
        }
        let subject = draws.one_of(&["s0", "s0", "s0", "s1"]);
        let now = history.clock.now;
        made += 1;
        let recent = numbers.len().saturating_sub(8);
        let call = match draws.below(20) {
            0 => Call::Recall,
            1 => Call::About(draws.one_of(&[None, Some(true), Some(true), Some(false)])),
            2 if draws.chance(50) => Call::Read(draws.below(made), usize::try_from(draws.one_of(&[0, 1, 10, 200])).unwrap()),
            2..=5 => Call::Settle(draws.one_of(&numbers[recent..]), draws.one_of(&[Fate::Acked, Fate::Nacked, Fate::Nacked])),
            _ => random_plan(draws, &model, subject, now, made, &catalog),
        };
        let key = key(draws).filter(|_| !matches!(call, Call::Recall | Call::About(None) | Call::Read(..)));
        let has_key = key.is_some();
        let (subject, call, key) = maybe_again(draws, (subject, call, key), &mut keyed, has_key);
        let body = format!("{call:?}");
        let once = key.as_deref().map(|key| (key, body.as_str()));
        let said = || format!("step {step} at {now}: {subject} {call:?} with {key:?}");
        let told = compare(&history, &mut model, subject, &call, once).await.with_context(said)?;
        if let (Outcome::Done(Told::Picked(..)), Call::Take { plan, caps, .. }) = (&told, &call) {
            let per = |cap: &Cap| cap.meter(&Zone::utc()).limit();
            let spans = caps.iter().flatten().filter(|cap| cap.kind() != CapKind::Calendar);
            for cap in spans.take(1) {
                let span = cap.per().parse::<Per>().map(|per| per.usual().get()).unwrap_or(1);
                history.clock.note(now + span);
                history.clock.note(now + span.div_ceil(per(cap)));
            }
            if plan.lease > Micros::ZERO {
                numbers.push(plan.number);
                history.clock.note(now + plan.lease.get());
            }
            if once.is_some() {
                history.clock.note(now + KEPT);
            }
        }
        if step % 10 == 9 {
            // From any point, a few or many.
            for (after, limit) in [(0, 1), (step, 0), (step * 7 % 200, 10), (0, 200), (200, 200), (400, 200)] {
                compare(&history, &mut model, subject, &Call::Read(after, limit), None)
                    .await
                    .with_context(|| format!("reading after step {step}"))?;
            }
        }
        if step % 50 == 49 {
            history.compare_state().await.with_context(|| format!("after step {step}"))?;
        }
        if step % 100 == 99 {
            history.lanes[0].reopen().await?;
        }
    }
    Ok(OPERATIONS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_operations_on_picks_agree() -> Result<()> {
    let operations = history::agree("picks", HISTORIES, run).await?;
    println!("{operations} operations on picks agree on the model, embedded, Redis and Cluster");
    ensure!(operations >= 20_000, "only {operations} operations were compared");
    Ok(())
}
