//! A ledger of what was pushed, handed out and settled while many were at it, and what must never be in it.
//!
//! Whoever pushes or claims writes down when they asked and when they were answered. What the store did lies somewhere
//! in between, so a rule is broken only where no moment in between would keep it. An answer that never came leaves
//! both possible.
//!
//! Deliveries are told apart by a number in their payload, as the id of one whose push was not answered is not known.
//! Times are microseconds since the Unix epoch, of the machine that all of them run on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};

/// Times in answers are whole milliseconds.
const ROUNDED_US: u64 = 1_000;

/// One hand-out.
#[derive(Clone, Copy, Debug)]
struct Holding {
    token: u64,
    asked: u64,
    answered: u64,
    until: u64,
    /// When its holder first said something of it that may have ended it.
    settling: Option<u64>,
    /// When it was answered that it is finished: done, dead or dropped.
    finished: Option<u64>,
}

impl Holding {
    /// Until when it was certainly held.
    fn sure_until(&self) -> u64 {
        self.settling.map_or(self.until, |settling| settling.min(self.until))
    }
}

/// One delivery.
#[derive(Clone, Debug, Default)]
struct Entry {
    to: Option<String>,
    id: Option<String>,
    due: u64,
    pushed: Option<u64>,
    holdings: Vec<Holding>,
}

impl Entry {
    /// From when on it may be finished.
    fn may_be_finished(&self) -> Option<u64> {
        self.holdings.iter().filter_map(|holding| holding.settling).min()
    }
}

/// What is known of every delivery. Shared by all who push and claim.
#[derive(Debug)]
pub struct Ledger {
    entries: Mutex<HashMap<u64, Entry>>,
    started: (Instant, u64),
}

/// How much there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Pushes that were acknowledged.
    pub pushed: u64,
    /// Hand-outs.
    pub handed: u64,
    /// Deliveries that were finished, and that was acknowledged.
    pub finished: u64,
    /// Deliveries that were handed out more than once.
    pub repeated: u64,
}

impl Default for Ledger {
    fn default() -> Ledger {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ledger { entries: Mutex::default(), started: (Instant::now(), u64::try_from(wall.as_micros()).unwrap_or(0)) }
    }
}

impl Ledger {
    /// Now.
    pub fn now(&self) -> u64 {
        let (instant, wall) = self.started;
        wall + u64::try_from(instant.elapsed().as_micros()).unwrap_or(0)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody is about to push `n`.
    pub fn pushing(&self, n: u64, to: Option<&str>) {
        self.entries().insert(n, Entry { to: to.map(str::to_owned), ..Entry::default() });
    }

    /// It was acknowledged, under this id and due at this time.
    pub fn pushed(&self, n: u64, id: &str, due_ms: u64) {
        let now = self.now();
        if let Some(entry) = self.entries().get_mut(&n) {
            (entry.id, entry.due, entry.pushed) = (Some(id.to_owned()), due_ms * 1_000, Some(now));
        }
    }

    /// It was handed out to somebody who asked at `asked`.
    pub fn handed(&self, n: u64, id: &str, token: u64, due_ms: u64, until_ms: u64, asked: u64) -> Result<()> {
        let answered = self.now();
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&n) else { bail!("{id} was handed out, and nobody pushed {n}") };
        ensure!(entry.id.as_deref().is_none_or(|known| known == id), "{n} is {id}, and was {:?}", entry.id);
        (entry.id, entry.due) = (Some(id.to_owned()), due_ms * 1_000);
        entry.holdings.push(Holding { token, asked, answered, until: until_ms * 1_000, settling: None, finished: None });
        Ok(())
    }

    /// Its holder is about to finish it or give it back.
    pub fn settling(&self, n: u64, token: u64) {
        let now = self.now();
        self.of(n, token, |holding| holding.settling = holding.settling.or(Some(now)));
    }

    /// It was acknowledged that it is finished.
    pub fn finished(&self, n: u64, token: u64) {
        let now = self.now();
        self.of(n, token, |holding| holding.finished = Some(now));
    }

    /// It was answered that the holder had lost it before.
    pub fn was_stale(&self, n: u64, token: u64) -> Result<()> {
        let now = self.now();
        let mut is_held = false;
        self.of(n, token, |holding| is_held = now < holding.until);
        ensure!(!is_held, "{n}: token {token} was called stale before its lease ended");
        Ok(())
    }

    fn of(&self, n: u64, token: u64, change: impl FnOnce(&mut Holding)) {
        let mut entries = self.entries();
        let holding = entries.get_mut(&n).and_then(|entry| entry.holdings.iter_mut().find(|holding| holding.token == token));
        if let Some(holding) = holding {
            change(holding);
        }
    }

    /// Those whose push was acknowledged and that nobody may have finished.
    pub fn unfinished(&self) -> usize {
        self.entries().values().filter(|entry| entry.pushed.is_some() && entry.may_be_finished().is_none()).count()
    }

    /// Fails if a token did not grow or something came early: what holds even where a store may forget.
    pub fn check_tokens(&self) -> Result<Sum> {
        self.sum(check_tokens)
    }

    /// Goes through all deliveries.
    fn sum(&self, check: impl Fn(u64, &Entry) -> Result<()>) -> Result<Sum> {
        let entries = self.entries();
        let mut sum = Sum::default();
        for (n, entry) in entries.iter() {
            check(*n, entry)?;
            sum.pushed += u64::from(entry.pushed.is_some());
            sum.handed += u64::try_from(entry.holdings.len())?;
            sum.finished += u64::from(entry.holdings.iter().any(|holding| holding.finished.is_some()));
            sum.repeated += u64::from(entry.holdings.len() > 1);
        }
        Ok(sum)
    }

    /// Fails if anything is in it that must never be, other than something lost.
    pub fn check(&self) -> Result<Sum> {
        let sum = self.sum(check_entry)?;
        let entries = self.entries();
        let mut lines: BTreeMap<&str, Vec<(u64, &Entry)>> = BTreeMap::new();
        for (n, entry) in entries.iter().filter(|(_, entry)| entry.id.is_some()) {
            if let Some(to) = &entry.to {
                lines.entry(to).or_default().push((*n, entry));
            }
        }
        lines.into_values().try_for_each(check_line)?;
        Ok(sum)
    }

    /// The same, when all that was there was claimed: fails also if something is lost.
    pub fn check_drained(&self) -> Result<Sum> {
        let sum = self.check()?;
        let entries = self.entries();
        let lost: Vec<_> =
            entries.iter().filter(|(_, entry)| entry.pushed.is_some() && entry.may_be_finished().is_none()).map(|(n, _)| *n).collect();
        ensure!(lost.is_empty(), "{} of {} acknowledged pushes were never delivered: {:?}", lost.len(), sum.pushed, lost.get(..8));
        Ok(sum)
    }
}

/// Tokens that grow, and never early.
fn check_tokens(n: u64, entry: &Entry) -> Result<()> {
    for (position, one) in entry.holdings.iter().enumerate() {
        ensure!(one.answered + ROUNDED_US > entry.due, "{n} was handed out {} us early", entry.due - one.answered);
        for other in entry.holdings.iter().skip(position + 1) {
            ensure!(one.token != other.token, "{n}: token {} was given out twice", one.token);
            let is_after = other.asked >= one.answered;
            ensure!(!is_after || one.token < other.token, "{n}: token {} came before {}", one.token, other.token);
        }
    }
    Ok(())
}

/// The same, one holder at a time, and never again after it was finished.
fn check_entry(n: u64, entry: &Entry) -> Result<()> {
    check_tokens(n, entry)?;
    let holdings = &entry.holdings;
    for one in holdings {
        // Those that came after this one.
        for other in holdings.iter().filter(|other| other.token != one.token && other.asked >= one.answered) {
            ensure!(other.answered >= one.sure_until(), "{n} has two holders: {one:?} and {other:?}");
            ensure!(one.finished.is_none_or(|finished| other.asked < finished), "{n} came again after it was finished: {one:?} {other:?}");
        }
    }
    let finished = holdings.iter().filter(|holding| holding.finished.is_some()).count();
    ensure!(finished <= 1, "{n} was finished {finished} times: {holdings:?}");
    Ok(())
}

/// Of one recipient one after the other: when one is handed out, those before it may be finished.
fn check_line(mut line: Vec<(u64, &Entry)>) -> Result<()> {
    line.sort_by_key(|(_, entry)| (entry.due, entry.id.clone()));
    for (position, (n, entry)) in line.iter().enumerate() {
        let Some(first) = entry.holdings.iter().min_by_key(|holding| holding.answered) else { continue };
        for (before, earlier) in line.iter().take(position) {
            let was_there = earlier.pushed.is_some_and(|pushed| pushed <= first.asked);
            let may_be_over = earlier.may_be_finished().is_some_and(|over| over <= first.answered);
            ensure!(!was_there || may_be_over, "{n} was handed out before {before} of the same recipient:\n{entry:?}\n{earlier:?}");
        }
        // Nor is one handed out while a later one is held.
        for (after, later) in line.iter().skip(position + 1) {
            let meets = |one: &Holding, other: &Holding| other.asked >= one.answered && other.answered < one.sure_until();
            let both = later.holdings.iter().any(|one| entry.holdings.iter().any(|other| meets(one, other)));
            ensure!(!both, "{n} and {after} of one recipient were held at once:\n{entry:?}\n{later:?}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Ledger {
        let ledger = Ledger::default();
        for n in [1, 2] {
            ledger.pushing(n, Some("ann"));
            ledger.pushed(n, &format!("dl_{n}"), 1);
        }
        ledger
    }

    fn far(ledger: &Ledger) -> u64 {
        ledger.now() / 1_000 + 60_000
    }

    fn hand(ledger: &Ledger, n: u64, token: u64) {
        let asked = ledger.now();
        ledger.handed(n, &format!("dl_{n}"), token, 1, far(ledger), asked).expect("it was pushed");
    }

    fn finish(ledger: &Ledger, n: u64, token: u64) {
        ledger.settling(n, token);
        ledger.finished(n, token);
    }

    #[test]
    fn one_after_the_other_is_as_it_should_be() {
        let ledger = two();
        hand(&ledger, 1, 10);
        finish(&ledger, 1, 10);
        assert!(ledger.check_drained().is_err(), "one is missing");
        hand(&ledger, 2, 11);
        finish(&ledger, 2, 11);
        assert_eq!(ledger.check_drained().expect("all is well"), Sum { pushed: 2, handed: 2, finished: 2, repeated: 0 });
    }

    #[test]
    fn what_must_not_be_is_found() {
        let ledger = two();
        hand(&ledger, 2, 10);
        assert!(ledger.check().is_err(), "the second before the first");
        let ledger = two();
        hand(&ledger, 1, 10);
        hand(&ledger, 1, 11);
        assert!(ledger.check().is_err(), "two holders");
        let ledger = two();
        hand(&ledger, 1, 10);
        finish(&ledger, 1, 10);
        hand(&ledger, 1, 11);
        assert!(ledger.check().is_err(), "again after it was finished");
        let ledger = two();
        hand(&ledger, 1, 10);
        ledger.settling(1, 10);
        hand(&ledger, 1, 9);
        assert!(ledger.check().is_err(), "a token that does not grow");
        let ledger = two();
        let asked = ledger.now();
        ledger.handed(1, "dl_1", 10, far(&ledger), far(&ledger), asked).expect("it was pushed");
        assert!(ledger.check().is_err(), "early");
        assert!(ledger.handed(3, "dl_3", 10, 1, 1, 0).is_err(), "out of nothing");
        assert!(ledger.was_stale(1, 10).is_err(), "stale while it is held");
    }
}
