//! Books of realms: model = embedded = Redis = Cluster, on seeded random histories, as `differential.rs` does it for checks: every
//! answer, and the state left behind.
//!
//! There are few accounts and marks, so that plans meet. Plans expect what is, or something else; holds begin, end and run out;
//! timers are claimed early and late; what is scheduled is fulfilled once and again. The clock jumps to where it hurts.
//!
//! A seed that fails is printed and appended to `seeds/realms.txt`, which is replayed first.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hermod_core::queue::delivery::Due;
use hermod_core::realm::plan::{AMOUNT_MAX, Act, Lien, Marking, Plan, Posting, Then};
use hermod_core::realm::survey::{Stand, Stood};
use hermod_core::realm::{Account, Applied, Apply, Entry, Hold, ReadBoard, ReadDue, ReadLedger, Survey};
use hermod_core::{Micros, Outcome, RealmId};
use hermod_tests::history::{self, Draws};
use hermod_tests::model::realm::Books;

use crate::leases::{DAY, History, KEPT, SECOND, key, maybe_again};

const HISTORIES: u64 = 40;
const OPERATIONS: u64 = 500;
const OWNERS: [&str; 5] = ["111", "222", "3:3", "@mint:farm", "@house"];
const ASSETS: [&str; 3] = ["ajo", "herb", "gear"];
const MARKS: [&str; 4] = ["t:daily:111", "e:gain:111", "c:vampire:222", "s:arm"];

fn account(draws: &mut Draws) -> Account {
    Account { asset: draws.one_of(&ASSETS).into(), owner: draws.one_of(&OWNERS).into() }
}

fn due(draws: &mut Draws, now: u64) -> Due {
    let span = draws.one_of(&[1, SECOND, 60 * SECOND, DAY]);
    if draws.chance(50) { Due::In(Micros::saturating(span)) } else { Due::At(Micros::saturating(now + span)) }
}

fn posting(draws: &mut Draws, books: &Books, account: Account, holds: &[u64], now: u64) -> Posting {
    let is = books.balance(&account, now);
    let mut one = Posting::look(account);
    if draws.chance(50) {
        let off = i64::from(draws.chance(6));
        one.expect = Some((is.value + off, is.held + i64::from(draws.chance(3))));
    }
    one.delta = draws.one_of(&[0_i64, 1, 1, 2, 5, 20, 100]) * if draws.chance(50) { -1 } else { 1 };
    if draws.chance(1) {
        one.delta = if draws.chance(50) { AMOUNT_MAX } else { -AMOUNT_MAX };
    }
    if !one.account.is_own() {
        one.bounds = Some(match &*one.account.asset {
            "herb" => (0, 20),
            "gear" => (-7, 15),
            _ => (0, AMOUNT_MAX),
        });
        one.board = &*one.account.asset != "herb";
        // What is both moved and set aside is less than the largest amount.
        if draws.chance(25) && one.delta.abs() < AMOUNT_MAX {
            let hold = 1 + draws.below(1_000_000);
            one.lien = Some(Lien { hold, qty: i64::try_from(1 + draws.below(9)).unwrap(), until: due(draws, now) });
        }
        if draws.chance(25) {
            one.drops = (0..1 + draws.below(2)).map(|_| draws.one_of(holds)).collect();
        }
    }
    if draws.chance(30) {
        (one.short, one.full) = ("err".into(), "no-room".into());
    }
    one
}

fn marking(draws: &mut Draws, books: &Books, name: &str, now: u64) -> Marking {
    let is = books.mark(name, now);
    let mut one = Marking::look(name.into());
    if draws.chance(50) {
        one.expect = Some(if draws.chance(6) { None } else { is });
    }
    one.ready = draws.chance(40).then(|| Arc::from(draws.one_of(&["ttl", "cooling"])));
    one.then = match draws.below(6) {
        0 => Then::Stay,
        1 => Then::Forget,
        _ => Then::Write {
            value: i64::try_from(draws.below(5)).unwrap() - 1,
            until: if draws.chance(10) { Due::At(Micros::MAX) } else { due(draws, now) },
            at: due(draws, now),
            payload: vec![7; usize::try_from(draws.below(3)).unwrap() * 8].into(),
        },
    };
    one
}

fn random_plan(draws: &mut Draws, books: &Books, holds: &[u64], version: u64, now: u64) -> Plan {
    let mut accounts: Vec<Account> = (0..draws.below(4)).map(|_| account(draws)).collect();
    accounts.sort();
    accounts.dedup();
    let mut names: Vec<&str> = (0..draws.below(3)).map(|_| draws.one_of(&MARKS)).collect();
    names.sort_unstable();
    names.dedup();
    let mut plan = Plan::look([], []);
    plan.act = draws.one_of(&[Act::Read, Act::Refuse, Act::Apply, Act::Apply, Act::Apply, Act::Apply, Act::Apply, Act::Apply]);
    plan.version = if draws.chance(3) { version.saturating_sub(1) } else { version };
    plan.postings = accounts.into_iter().map(|account| posting(draws, books, account, holds, now)).collect();
    plan.markings = names.into_iter().map(|name| marking(draws, books, name, now)).collect();
    match draws.below(20) {
        0 => plan.from = Micros::saturating(now + draws.below(2)),
        1 => plan.until = Micros::saturating(now + draws.below(2)),
        _ => {}
    }
    for number in 0..draws.below(3).saturating_sub(1) {
        plan.later.push((due(draws, now), vec![u8::try_from(number).unwrap(), 9].into()));
    }
    if draws.chance(10) {
        let known: Vec<_> = books.due.iter().map(|(_, what)| what.clone()).collect();
        plan.done = Some(
            if known.is_empty() || draws.chance(10) {
                vec![0; 9]
            } else {
                known[usize::try_from(draws.below(u64::try_from(known.len()).unwrap())).unwrap()].clone()
            }
            .into(),
        );
    }
    plan.entry = Entry { note: format!("{}", draws.below(1_000)).into(), ..Entry::default() }.pack();
    plan.told = vec![1; usize::try_from(draws.below(4)).unwrap()].into();
    plan
}

async fn compare(history: &History, books: &mut Books, plan: &Plan, once: Option<(&str, &str)>) -> Result<Outcome<Applied>> {
    let now = history.clock.now;
    let expected = books.apply(plan, once, now);
    let (realm, plan) = (RealmId::new("ajo")?, Arc::new(plan.clone()));
    let place = |lane: &hermod_tests::EngineLane| lane.engine().partitions().place(lane.space(), "ajo");
    for (store, outcome) in history.ask(once, |lane| Ok(Apply::new(place(lane), realm.clone(), Arc::clone(&plan)))).await? {
        ensure!(outcome == expected, "on {store:?}\n model: {expected:?}\n store: {outcome:?}");
    }
    Ok(expected)
}

async fn compare_views(history: &mut History, books: &Books) -> Result<()> {
    let realm = RealmId::new("ajo")?;
    let place = |lane: &hermod_tests::EngineLane| lane.engine().partitions().place(lane.space(), "ajo");
    for asset in ASSETS {
        let (from, limit) = (usize::try_from(history.draws.below(3))?, usize::try_from(1 + history.draws.below(4))?);
        for around in [None, Some("111"), Some("3:3"), Some("nobody")] {
            let expected = books.board(asset, around, from, limit);
            let read = |lane: &hermod_tests::EngineLane| {
                Ok(match around {
                    None => ReadBoard::top(place(lane), realm.clone(), asset.into(), from, limit),
                    Some(owner) => ReadBoard::around(place(lane), realm.clone(), asset.into(), owner.into(), limit),
                })
            };
            for (store, outcome) in history.ask(None, read).await? {
                ensure!(outcome == Outcome::Done(expected.clone()), "board {asset} {around:?} on {store:?}: {outcome:?}, not {expected:?}");
            }
        }
    }
    let last = u64::try_from(books.ledger.len())?;
    let after = history.draws.below(last + 2);
    for is_back in [false, true] {
        let read = |lane: &hermod_tests::EngineLane| {
            let (place, realm) = (place(lane), realm.clone());
            Ok(if is_back { ReadLedger::before(place, realm, after, 7) } else { ReadLedger::after(place, realm, after, 7) })
        };
        for (store, outcome) in history.ask(None, read).await? {
            let Outcome::Done(commits) = outcome else { anyhow::bail!("a page is no replay") };
            let mut numbers: Vec<u64> = match is_back {
                true => (1..=last).filter(|seq| after == 0 || *seq < after).rev().take(7).collect(),
                false => (1..=last).filter(|seq| *seq > after).take(7).collect(),
            };
            ensure!(commits.last == last, "{store:?} has {} commits, not {last}", commits.last);
            for (seq, at, entry) in &commits.entries {
                ensure!(!numbers.is_empty() && numbers.remove(0) == *seq, "{store:?} tells {seq} after {after}");
                let (time, packed) = &books.ledger[usize::try_from(*seq - 1)?];
                ensure!(at.get() == *time && entry.pack() == *packed, "{store:?} has another commit {seq}");
            }
            ensure!(numbers.is_empty(), "{store:?} lacks {numbers:?}");
        }
    }
    let expected: Vec<_> = books.due.iter().take(5).map(|(at, what)| (Micros::saturating(*at), Box::from(&what[..]))).collect();
    for (store, outcome) in history.ask(None, |lane| Ok(ReadDue::new(place(lane), realm.clone(), 5))).await? {
        let Outcome::Done(waiting) = outcome else { anyhow::bail!("a look is no replay") };
        ensure!(waiting.first == expected, "{store:?} has {:?} due, not {expected:?}", waiting.first);
    }
    Ok(())
}

/// All accounts as they stand, by whatever order a store has them in, and some by their names.
async fn compare_accounts(history: &History, books: &Books) -> Result<()> {
    let realm = RealmId::new("ajo")?;
    let place = |lane: &hermod_tests::EngineLane| lane.engine().partitions().place(lane.space(), "ajo");
    let boards: Arc<[Arc<str>]> = ["ajo", "gear"].map(Arc::from).into();
    let now = Micros::saturating(history.clock.now);
    let expected = books.accounts(&boards);
    let on_boards = [books.board("ajo", None, 0, 1).total, books.board("gear", None, 0, 1).total];
    let names: Vec<Account> =
        expected.iter().map(|stood| stood.account.clone()).chain([Account { asset: "herb".into(), owner: "?".into() }]).collect();
    let nobody = Stood { account: names.last().context("one")?.clone(), says: Some(Stand::default()), row: None };
    let by_name: Vec<Stood> = expected.iter().cloned().chain([nobody]).collect();
    let page = |lane: &hermod_tests::EngineLane| Ok(Survey::page(place(lane), realm.clone(), Arc::clone(&boards), 0));
    let these =
        |lane: &hermod_tests::EngineLane| Ok(Survey::these(place(lane), realm.clone(), Arc::clone(&boards), names.clone(), vec![1, 2]));
    for (is_page, found) in [(true, history.ask(None, page).await?), (false, history.ask(None, these).await?)] {
        for (store, outcome) in found {
            let Outcome::Done(mut found) = outcome else { anyhow::bail!("a survey is no replay") };
            if is_page {
                // There are few accounts, so one page has them all.
                found.accounts.sort_by(|one, other| one.account.cmp(&other.account));
            }
            let accounts = if is_page { &expected } else { &by_name };
            ensure!(found.accounts == *accounts, "{store:?} has {:?}, not {accounts:?}", found.accounts);
            ensure!(
                (found.next, found.last) == (0, u64::try_from(books.ledger.len())?) && found.on_boards == on_boards,
                "on {store:?}: {found:?}"
            );
            let mut holds: Vec<u64> = expected.iter().flat_map(|stood| books.live(&stood.account, now.get())).collect();
            holds.extend(if is_page { &[][..] } else { &[1, 2] });
            holds.sort_unstable();
            holds.dedup();
            ensure!(found.holds.keys().copied().collect::<Vec<_>>() == holds, "{store:?} has {:?}, not {holds:?}", found.holds);
            for (number, hold) in &found.holds {
                let mark = books.mark(&Hold::mark(*number), now.get());
                ensure!(*hold == mark.and_then(|mark| Hold::read(&mark, now)), "{store:?} has {hold:?} as {number}");
            }
        }
    }
    Ok(())
}

async fn run(seed: u64) -> Result<u64> {
    let mut history = History::open(seed).await?;
    let (mut books, mut holds, mut keyed, mut version) = (Books::default(), vec![0], Vec::new(), 1);
    for step in 0..OPERATIONS {
        let draws = &mut history.draws;
        version += u64::from(draws.chance(2));
        history.clock.jump(draws);
        let now = history.clock.now;
        let recent = holds.len().saturating_sub(6);
        let plan = random_plan(draws, &books, &holds[recent..], version, now);
        let key = key(draws).filter(|_| plan.act != Act::Read);
        let has_key = key.is_some();
        let (plan, key) = maybe_again(draws, (plan, key), &mut keyed, has_key);
        let body = format!("{plan:?}");
        let once = key.as_deref().map(|key| (key, body.as_str()));
        let told =
            compare(&history, &mut books, &plan, once).await.with_context(|| format!("step {step} at {now}: {plan:?} with {key:?}"))?;
        if let Outcome::Done(Applied::Done(_)) = told {
            for lien in plan.postings.iter().filter_map(|posting| posting.lien) {
                holds.push(lien.hold);
                history.clock.note(lien.until.from(Micros::saturating(now)).get());
            }
            for marking in &plan.markings {
                if let Then::Write { until, at, .. } = &marking.then {
                    history.clock.note(at.from(Micros::saturating(now)).get());
                    // The end of time is none to jump to.
                    if *until != Due::At(Micros::MAX) {
                        history.clock.note(until.from(Micros::saturating(now)).get());
                    }
                }
            }
        }
        if once.is_some() {
            history.clock.note(now + KEPT);
        }
        if step % 10 == 9 {
            compare_views(&mut history, &books).await.with_context(|| format!("after step {step}"))?;
            compare_accounts(&history, &books).await.with_context(|| format!("after step {step}"))?;
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
async fn twenty_thousand_plans_on_books_agree() -> Result<()> {
    let operations = history::agree("realms", HISTORIES, run).await?;
    println!("{operations} plans on books agree on the model, embedded, Redis and Cluster");
    ensure!(operations >= 20_000, "only {operations} operations were compared");
    Ok(())
}
