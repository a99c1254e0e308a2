//! What a play has done so far: the accounts and marks it has looked at and changed, what moved, what was drawn.
//!
//! Reading an account or a mark makes it an expectation of the plan; changing one does not. So a play that only moves constants needs
//! no look at the state before, and bounds are checked where it is applied.

use std::sync::Arc;

use super::apply::Books;
use super::chance;
use super::entry::{Drawn, Leg};
use super::formula::Overflow;
use super::plan::{AMOUNT_MAX, Account, Act, Balance, Mark, Marking, Plan, Posting, Then};
use super::told::Refusal;
use super::world::Realm;
use crate::int::Micros;
use crate::queue::delivery::Due;

/// Why a play was not carried through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It needs to know more of the state ([`Run::missing`]).
    Unknown,
    /// It is refused.
    Refused(Refusal),
    /// A sum was too large, or something was divided by zero.
    Overflow,
}

impl From<Overflow> for Stop {
    fn from(_: Overflow) -> Stop {
        Stop::Overflow
    }
}

/// What an account or a mark is that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An account.
    Account(Account),
    /// A mark.
    Mark(Arc<str>),
}

/// What a play has done so far.
pub(crate) struct Run<'a> {
    pub realm: &'a Realm,
    books: &'a dyn Books,
    pub now: Micros,
    pub key: &'a str,
    /// Bounds are checked at once, as nothing must be refused where it is applied.
    pub is_strict: bool,
    pub missing: Vec<Missing>,
    done: Deeds,
}

/// What can be taken back as a whole.
#[derive(Clone, Default)]
pub(crate) struct Deeds {
    from: Micros,
    until: Option<Micros>,
    postings: Vec<Posting>,
    /// With what it was before.
    marks: Vec<(Marking, Option<Mark>)>,
    pub legs: Vec<Leg>,
    pub draws: Vec<Drawn>,
    pub later: Vec<(Due, Box<[u8]>)>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(realm: &'a Realm, books: &'a dyn Books, now: Micros, key: &'a str, is_strict: bool) -> Run<'a> {
        Run { realm, books, now, key, is_strict, missing: Vec::new(), done: Deeds::default() }
    }

    pub(crate) fn deeds(&mut self) -> &mut Deeds {
        &mut self.done
    }

    /// What a play that is refused leaves: what it has looked at, which the refusal depends on.
    pub(crate) fn take_back(&mut self, before: &Deeds) {
        let now = std::mem::take(&mut self.done);
        let keep = |one: &Posting| before.postings.iter().find(|posting| posting.account == one.account);
        let postings = now.postings.into_iter().map(|one| {
            let was = keep(&one).cloned().unwrap_or_else(|| Posting::look(one.account.clone()));
            Posting { expect: one.expect, ..was }
        });
        let mark = |one: &Marking| before.marks.iter().find(|(marking, _)| marking.name == one.name);
        let marks = now.marks.into_iter().map(|(one, is)| {
            let was = mark(&one).map_or_else(|| Marking::look(Arc::clone(&one.name)), |(marking, _)| marking.clone());
            (Marking { expect: one.expect, ..was }, is)
        });
        let (postings, marks) = (postings.collect(), marks.collect());
        let (from, until) = (now.from, now.until);
        self.done = Deeds { from, until, postings, marks, ..before.clone() };
    }

    fn posting(&mut self, account: &Account) -> usize {
        let found = self.done.postings.iter().position(|posting| posting.account == *account);
        found.unwrap_or_else(|| {
            let is_own = account.is_own();
            let mut posting = Posting::look(account.clone());
            posting.bounds = (!is_own).then(|| self.realm.bounds(&account.asset));
            posting.board = !is_own && self.realm.asset(&account.asset).is_some_and(|asset| asset.board);
            self.done.postings.push(posting);
            self.done.postings.len() - 1
        })
    }

    pub(crate) fn change<T>(&mut self, account: &Account, change: impl FnOnce(&mut Posting) -> T) -> T {
        let at = self.posting(account);
        change(self.done.postings.get_mut(at).expect("it is there"))
    }

    /// What an account says now, with what was done to it so far.
    pub(crate) fn balance(&mut self, account: &Account) -> Result<Balance, Stop> {
        let Some(is) = self.books.account(account) else {
            self.missing.push(Missing::Account(account.clone()));
            return Err(Stop::Unknown);
        };
        if is.next > Micros::ZERO {
            self.until(is.next);
        }
        let delta = self.change(account, |posting| {
            posting.expect = Some((is.value, is.held));
            posting.delta
        });
        Ok(Balance { value: is.value.checked_add(delta).ok_or(Stop::Overflow)?, ..is })
    }

    /// How much more an account can have.
    pub(crate) fn room(&mut self, account: &Account) -> Result<i64, Stop> {
        let (_, max) = self.realm.bounds(&account.asset);
        Ok(max.saturating_sub(self.balance(account)?.value).max(0))
    }

    /// Moves something, and leaves it in the ledger. What is refused, where it is known already, is refused here.
    pub(crate) fn shift(&mut self, leg: Leg, short: &Arc<str>, full: &Arc<str>) -> Result<(), Stop> {
        if !(0..=AMOUNT_MAX).contains(&leg.qty) {
            return Err(Stop::Overflow);
        }
        let account = |owner: &Arc<str>| Account { asset: Arc::clone(&leg.asset), owner: Arc::clone(owner) };
        let (from, to) = (account(&leg.from), account(&leg.to));
        for (account, delta) in [(&from, -leg.qty), (&to, leg.qty)] {
            // What stays with the same owner moves nothing, but must be there.
            let sum = self.change(account, |posting| {
                posting.delta = posting.delta.saturating_add(delta);
                if delta < 0 {
                    posting.short = Arc::clone(short);
                } else {
                    posting.full = Arc::clone(full);
                }
                posting.delta
            });
            if sum.unsigned_abs() > AMOUNT_MAX.unsigned_abs() {
                return Err(Stop::Overflow);
            }
            let is_known = self.change(account, |posting| posting.expect.is_some());
            if !account.is_own() && (self.is_strict || is_known) {
                let ((floor, max), is) = (self.realm.bounds(&account.asset), self.balance(account)?);
                if delta < 0 && is.value - is.held < floor {
                    let have = is.value - is.held + leg.qty;
                    return Err(Stop::Refused(Refusal::short(short, &leg.asset, have, leg.qty)));
                }
                if delta > 0 && is.value > max {
                    return Err(Stop::Refused(Refusal::full(full, &leg.asset, max - (is.value - leg.qty))));
                }
            }
        }
        self.done.legs.push(leg);
        Ok(())
    }

    fn marking(&mut self, name: &str) -> usize {
        let found = self.done.marks.iter().position(|(marking, _)| &*marking.name == name);
        found.unwrap_or_else(|| {
            self.done.marks.push((Marking::look(name.into()), None));
            self.done.marks.len() - 1
        })
    }

    /// What a mark says now, with what was done to it so far.
    pub(crate) fn mark(&mut self, name: &str) -> Result<Option<Mark>, Stop> {
        let at = self.marking(name);
        let now = self.now;
        let (marking, _) = self.done.marks.get(at).expect("it is there");
        match marking.then {
            Then::Write { .. } => return Ok(marking.written(now)),
            Then::Forget => return Ok(None),
            Then::Stay => {}
        }
        let Some(is) = self.books.mark(name) else {
            self.missing.push(Missing::Mark(name.into()));
            return Err(Stop::Unknown);
        };
        // It may have ended since it was looked at.
        let is = is.filter(|mark| mark.until > now);
        if let Some(mark) = &is {
            self.until(mark.until);
            if mark.at > now {
                self.until(mark.at);
            }
        }
        if let Some((marking, was)) = self.done.marks.get_mut(at) {
            marking.expect = Some(is.clone());
            was.clone_from(&is);
        }
        Ok(is)
    }

    /// Changes a mark.
    pub(crate) fn put_mark(&mut self, name: &str, then: Then) {
        let at = self.marking(name);
        if let Some((marking, _)) = self.done.marks.get_mut(at) {
            marking.then = then;
        }
    }

    /// A mark's time must have come, which is checked where it is applied.
    pub(crate) fn ready(&mut self, name: &str, code: &Arc<str>) {
        let at = self.marking(name);
        if let Some((marking, _)) = self.done.marks.get_mut(at) {
            marking.ready = Some(Arc::clone(code));
        }
    }

    /// What follows from now is only right until then.
    pub(crate) fn until(&mut self, until: Micros) {
        self.done.until = Some(self.done.until.map_or(until, |before| before.min(until)));
    }

    /// What follows from now is only right in this window.
    pub(crate) fn within(&mut self, (from, until): (Micros, Micros)) {
        self.done.from = self.done.from.max(from);
        self.until(until);
    }

    /// Draws a number. One that is drawn again under the same name is another.
    pub(crate) fn draw(&mut self, name: &str, from: i64, to: i64) -> i64 {
        let again = self.done.draws.iter().filter(|drawn| drawn.name.split('#').next() == Some(name)).count();
        let name: Arc<str> = if again == 0 { name.into() } else { format!("{name}#{}", again + 1).into() };
        let value = chance::draw(&self.realm.seed, self.key, &name, from, to);
        self.done.draws.push(Drawn { name, from, to: to.max(from), value });
        value
    }

    /// The plan of what was done.
    pub(crate) fn plan(self, act: Act, entry: Box<[u8]>, told: Box<[u8]>) -> Plan {
        let Deeds { from, until, mut postings, marks, later, .. } = self.done;
        // What was looked at holds from the time of the look on.
        let from = if until.is_some() || marks.iter().any(|(marking, _)| marking.expect.is_some()) { from.max(self.now) } else { from };
        // One that neither changed nor was looked at says nothing.
        postings.retain(|one| one.delta != 0 || one.expect.is_some() || one.lien.is_some() || one.drops > 0);
        let mut markings: Vec<_> = marks.into_iter().map(|(marking, _)| marking).collect();
        markings.retain(|one| one.then != Then::Stay || one.expect.is_some() || one.ready.is_some());
        Plan {
            act,
            version: self.realm.version,
            from,
            until: until.unwrap_or(Micros::MAX),
            postings,
            markings,
            later,
            done: None,
            entry,
            told,
        }
    }
}
