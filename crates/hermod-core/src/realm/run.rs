//! What a play has done so far: the accounts and marks it has looked at and changed, what moved, what was drawn.
//!
//! Reading an account or a mark makes it an expectation of the plan; changing one does not. So a play that only moves constants needs
//! no look at the state before, and bounds are checked where it is applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::apply::{Books, Missing};
use super::args::is_owner;
use super::chance;
use super::definition::{Merge, Overflow as IfMore};
use super::entry::{Drawn, Leg};
use super::formula::{Datum, Overflow, Read};
use super::plan::{AMOUNT_MAX, Account, Act, Balance, FUNDS, Mark, Marking, Plan, Posting, STACK, Then};
use super::timer::SPAN_MAX;
use super::told::Refusal;
use super::world::Realm;
use super::zones::Zones;
use crate::id::TEXT_MAX;
use crate::int::Micros;
use crate::pick::Zone;
use crate::queue::delivery::Due;

/// Why a play was not carried through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It needs to know more of the state ([`Run::missing`]).
    Unknown,
    /// It is refused.
    Refused(Refusal),
    /// It cannot be carried through as it is defined: why.
    Failed(&'static str),
}

/// A formula gave no number.
const NO_NUMBER: &str = "A formula of this realm gave no number within 2^53 - 1, or divided by zero";
/// Bounds of one commit, with the plays that follow in it.
const LEGS_MAX: usize = 128;
const DRAWS_MAX: usize = 64;
const CELLS_MAX: usize = 200;
/// The longest name of a mark: a kind, a name and an owner.
const MARK_MAX: usize = 4_096;
const TOO_MUCH: &str = "It would move, draw, look at or schedule more than one commit may";
const NO_OWNER: &str = "It would move something from or to whom there cannot be, or of what there is not";

impl From<Overflow> for Stop {
    fn from(_: Overflow) -> Stop {
        Stop::Failed(NO_NUMBER)
    }
}

impl Stop {
    pub(crate) const NO_NUMBER: Stop = Stop::Failed(NO_NUMBER);
    pub(crate) const TOO_MUCH: Stop = Stop::Failed(TOO_MUCH);
    pub(crate) const NO_OWNER: Stop = Stop::Failed(NO_OWNER);
}

/// What a play has done so far.
pub(crate) struct Run<'a> {
    pub realm: &'a Realm,
    books: &'a dyn Books,
    pub now: Micros,
    pub key: &'a str,
    /// The time zones of owners.
    pub zones: Zones,
    /// Bounds are checked at once, as nothing must be refused where it is applied.
    pub is_strict: bool,
    /// What is not known. It goes on after the first, as if there was nothing, to find what else it will ask: all of that is then
    /// looked at together. What it comes to by then is nothing to rely on.
    pub missing: Vec<Missing>,
    /// What holds had that end with it.
    freed: BTreeMap<Account, i64>,
    done: Deeds,
}

/// What moves are refused with, and where goes what there is no room for.
pub(crate) struct Codes {
    pub short: Arc<str>,
    pub full: Arc<str>,
    pub burn: Arc<str>,
}

impl Codes {
    /// The usual ones.
    pub(crate) fn usual(burn: Arc<str>) -> Codes {
        Codes { short: FUNDS.into(), full: STACK.into(), burn }
    }
}

/// So many seconds.
pub(crate) fn span(seconds: i64) -> Result<Micros, Stop> {
    let span = u64::try_from(seconds.max(0)).ok().and_then(|seconds| seconds.checked_mul(1_000_000)).and_then(Micros::new);
    span.filter(|span| *span <= SPAN_MAX).ok_or(Stop::NO_NUMBER)
}

/// What can be taken back as a whole.
#[derive(Clone, Default)]
pub(crate) struct Deeds {
    from: Micros,
    until: Option<Micros>,
    postings: Vec<Posting>,
    marks: Vec<Marking>,
    pub legs: Vec<Leg>,
    pub draws: Vec<Drawn>,
    pub later: Vec<(Due, Box<[u8]>)>,
}

impl Posting {
    /// Whether it was changed, and what it comes to was looked at by nobody. What becomes of a hold that ends is for who applies
    /// it to say.
    fn is_unchecked(&self) -> bool {
        self.delta != 0 && self.expect.is_none() && self.drops.is_empty() && !self.account.is_own()
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(realm: &'a Realm, books: &'a dyn Books, now: Micros, key: &'a str, is_strict: bool) -> Run<'a> {
        Run {
            realm,
            books,
            now,
            key,
            zones: Zones::default(),
            is_strict,
            missing: Vec::new(),
            freed: BTreeMap::new(),
            done: Deeds::default(),
        }
    }

    /// Whether something it has asked is not known: nothing is refused any more, and it comes to nothing.
    pub(crate) fn is_guessing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// What is not known, if it may go on without.
    fn miss(&mut self, one: Missing) -> Result<(), Stop> {
        if !self.missing.contains(&one) {
            self.missing.push(one);
        }
        if self.books.are_at_hand() { Err(Stop::Unknown) } else { Ok(()) }
    }

    pub(crate) fn deeds(&mut self) -> &mut Deeds {
        &mut self.done
    }

    /// What a play that is refused leaves: what it has looked at, which the refusal depends on.
    pub(crate) fn take_back(&mut self, before: &Deeds) {
        let now = std::mem::take(&mut self.done);
        let keep = |one: &Posting| before.postings.iter().find(|posting| posting.account == one.account);
        let postings = now.postings.into_iter().map(|one| {
            let expect = one.expect;
            // One that was not there before keeps its bounds and its board, for whoever changes it next.
            let was = keep(&one).cloned().unwrap_or(Posting { delta: 0, lien: None, drops: Vec::new(), ..one });
            Posting { expect, ..was }
        });
        let mark = |one: &Marking| before.marks.iter().find(|marking| marking.name == one.name);
        let marks = now.marks.into_iter().map(|one| {
            let was = mark(&one).cloned().unwrap_or_else(|| Marking::look(Arc::clone(&one.name)));
            Marking { expect: one.expect, ..was }
        });
        let (postings, marks) = (postings.collect(), marks.collect());
        let (from, until) = (now.from, now.until);
        self.done = Deeds { from, until, postings, marks, ..before.clone() };
    }

    /// What was moved `before`, and only since then looked at, must have been possible by itself: whoever looked at it is not
    /// refused in its place.
    pub(crate) fn check_moved(&mut self, before: &Deeds) -> Result<(), Stop> {
        for one in before.postings.iter().filter(|one| one.is_unchecked()) {
            if self.change(&one.account, |now| now.expect.take().is_some()) {
                self.balance(&one.account)?;
            }
        }
        Ok(())
    }

    /// A hold ends that had so much of an account.
    pub(crate) fn free(&mut self, account: Account, hold: u64, qty: i64) {
        self.change(&account, |posting| {
            if !posting.drops.contains(&hold) {
                posting.drops.push(hold);
            }
        });
        let freed = self.freed.entry(account).or_default();
        *freed = freed.saturating_add(qty);
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
        if self.done.postings.len() >= CELLS_MAX {
            return Err(Stop::TOO_MUCH);
        }
        let is = match self.books.account(account) {
            Some(is) => is,
            None => {
                self.miss(Missing::Account(account.clone()))?;
                Balance::default()
            }
        };
        if is.next > Micros::ZERO {
            self.until(is.next);
        }
        let (delta, was_known, codes) = self.change(account, |one| {
            let was_known = one.expect.replace((is.value, is.held)).is_some() || !one.drops.is_empty();
            (one.delta, was_known, (Arc::clone(&one.short), Arc::clone(&one.full)))
        });
        let value = is.value.checked_add(delta).ok_or(Stop::NO_NUMBER)?;
        // What was done to it before it was looked at was checked by nobody yet.
        if !was_known && !account.is_own() && !self.is_guessing() {
            let ((short, full), (floor, max)) = (codes, self.realm.bounds(&account.asset));
            if delta < 0 && value - is.held < floor {
                return Err(Stop::Refused(Refusal::short(&short, &account.asset, is.value - is.held, -delta)));
            }
            if delta > 0 && value > max {
                return Err(Stop::Refused(Refusal::full(&full, &account.asset, max - is.value)));
            }
        }
        Ok(Balance { value, ..is })
    }

    /// How much more an account can have.
    pub(crate) fn room(&mut self, account: &Account) -> Result<i64, Stop> {
        let (_, max) = self.realm.bounds(&account.asset);
        Ok(max.saturating_sub(self.balance(account)?.value).max(0))
    }

    /// Moves something, and leaves it in the ledger. What is refused, where it is known already, is refused here.
    pub(crate) fn shift(&mut self, leg: Leg, short: &Arc<str>, full: &Arc<str>) -> Result<(), Stop> {
        for (account, delta) in self.sides(&leg)? {
            self.check_so_far(&account)?;
            // What stays with the same owner moves nothing, but must be there.
            self.post(&account, delta, short, full)?;
            // What becomes of a hold that ends is for who applies it to say, unless nobody will.
            let (is_known, is_held) = self.change(&account, |posting| (posting.expect.is_some(), !posting.drops.is_empty()));
            if !account.is_own() && (self.is_strict || (is_known && !is_held)) {
                let ((floor, max), is) = (self.realm.bounds(&account.asset), self.balance(&account)?);
                let held = is.held - self.freed.get(&account).copied().unwrap_or(0);
                if self.is_guessing() {
                    continue;
                }
                if delta < 0 && is.value - held < floor {
                    let have = is.value - held + leg.qty;
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

    /// Moves all of this at once: only what an account comes to in the end must be possible.
    pub(crate) fn shift_all(&mut self, legs: Vec<Leg>, codes: &Codes) -> Result<(), Stop> {
        for leg in legs {
            self.check_owners(&leg)?;
            for (account, delta) in self.sides(&leg)? {
                self.post(&account, delta, &codes.short, &codes.full)?;
            }
            self.done.legs.push(leg);
        }
        if self.is_strict {
            let accounts: Vec<Account> = self.done.postings.iter().map(|posting| posting.account.clone()).collect();
            // All of them, so that one look is enough.
            let checked: Vec<_> = accounts.iter().map(|account| self.check_so_far(account)).collect();
            checked.into_iter().collect::<Result<(), Stop>>()?;
        }
        Ok(())
    }

    /// The accounts of a leg, and what it does to them.
    fn sides(&self, leg: &Leg) -> Result<[(Account, i64); 2], Stop> {
        if !(0..=AMOUNT_MAX).contains(&leg.qty) {
            return Err(Stop::NO_NUMBER);
        }
        if self.done.legs.len() >= LEGS_MAX || self.done.postings.len() >= CELLS_MAX {
            return Err(Stop::TOO_MUCH);
        }
        let account = |owner: &Arc<str>| Account { asset: Arc::clone(&leg.asset), owner: Arc::clone(owner) };
        Ok([(account(&leg.from), -leg.qty), (account(&leg.to), leg.qty)])
    }

    fn post(&mut self, account: &Account, delta: i64, short: &Arc<str>, full: &Arc<str>) -> Result<(), Stop> {
        let sum = self.change(account, |posting| {
            posting.delta = posting.delta.saturating_add(delta);
            if delta < 0 {
                posting.short = Arc::clone(short);
            } else {
                posting.full = Arc::clone(full);
            }
            posting.delta
        });
        if sum.unsigned_abs() > AMOUNT_MAX.unsigned_abs() { Err(Stop::NO_NUMBER) } else { Ok(()) }
    }

    /// What was moved before must have been possible by itself, whatever is moved next: an account that is touched again is
    /// looked at.
    fn check_so_far(&mut self, account: &Account) -> Result<(), Stop> {
        if self.change(account, |one| one.is_unchecked()) {
            self.balance(account)?;
        }
        Ok(())
    }

    fn check_owners(&self, leg: &Leg) -> Result<(), Stop> {
        let is_known = |owner: &Arc<str>| is_owner(owner) || ["@mint:", "@burn:"].iter().any(|own| owner.starts_with(own));
        let is_known = |owner: &Arc<str>| is_known(owner) || matches!(&**owner, "@house" | "@escrow");
        let is_known = self.realm.asset(&leg.asset).is_some() && is_known(&leg.from) && is_known(&leg.to);
        if is_known { Ok(()) } else { Err(Stop::NO_OWNER) }
    }

    /// Moves something, as far as there is room for it if it says so.
    pub(crate) fn transfer(&mut self, leg: Leg, overflow: IfMore, codes: &Codes) -> Result<Vec<Leg>, Stop> {
        self.check_owners(&leg)?;
        let mut legs = vec![leg];
        // Who gives something to themselves needs no more room.
        if overflow != IfMore::Reject
            && let Some(leg) = legs.first_mut().filter(|leg| !leg.to.starts_with('@') && leg.from != leg.to)
        {
            let room = self.room(&Account { asset: Arc::clone(&leg.asset), owner: Arc::clone(&leg.to) })?;
            let more = leg.qty.saturating_sub(room).max(0);
            leg.qty -= more;
            if overflow == IfMore::Burn && more > 0 {
                let burnt = Leg { to: codes.burn.clone(), qty: more, ..leg.clone() };
                legs.push(burnt);
            }
        }
        legs.iter().try_for_each(|leg| self.shift(leg.clone(), &codes.short, &codes.full))?;
        Ok(legs)
    }

    /// What a formula asks of the state.
    pub(crate) fn read(&mut self, read: Read, args: &[Datum]) -> Result<Datum, Stop> {
        let text = |at: usize| match args.get(at) {
            Some(Datum::Text(text)) => Arc::clone(text),
            _ => "".into(),
        };
        let (owner, name) = (text(0), text(1));
        let account = || Account { asset: Arc::clone(&name), owner: Arc::clone(&owner) };
        // Of what is not there nobody has any, nor room for it. A formula may compute the name, and of any length.
        let is_account = matches!(read, Read::Balance | Read::Available | Read::Room);
        if is_account && (self.realm.asset(&name).is_none() || owner.len() > TEXT_MAX) {
            return Ok(Datum::Int(0));
        }
        Ok(match read {
            Read::Balance => Datum::Int(self.balance(&account())?.value),
            Read::Available => {
                let is = self.balance(&account())?;
                Datum::Int(is.value - is.held)
            }
            Read::Room => Datum::Int(self.room(&account())?),
            Read::Effect => Datum::Int(self.number('e', &name, &owner)?),
            Read::Counter => Datum::Int(self.number('c', &name, &owner)?),
            Read::Box => Datum::Int(self.number('b', &name, &owner)?),
            Read::Streak => Datum::Int(self.mark(&format!("t:{name}:{owner}"))?.map_or(0, |mark| mark.value)),
            Read::Ready => Datum::Bool(self.cooling(&name, &owner)?.is_none()),
            Read::Tradable => Datum::Bool(self.realm.asset(&owner).is_some_and(|asset| asset.tradable.unwrap_or(true))),
        })
    }

    fn number(&mut self, kind: char, name: &str, owner: &str) -> Result<i64, Stop> {
        let mark = self.mark(&format!("{kind}:{name}:{owner}"))?;
        Ok(mark.map_or_else(|| self.realm.default_of(kind, name), |mark| mark.value))
    }

    /// When a timer can be claimed again; none if it can be now.
    pub(crate) fn cooling(&mut self, timer: &str, owner: &str) -> Result<Option<Micros>, Stop> {
        let now = self.now;
        Ok(self.mark(&format!("t:{timer}:{owner}"))?.map(|mark| mark.at).filter(|at| *at > now))
    }

    /// Claims a timer, for `instead` of what it says.
    pub(crate) fn claim(&mut self, timer: &str, owner: &str, instead: Option<Micros>, code: &Arc<str>) -> Result<(), Stop> {
        let (now, realm) = (self.now, self.realm);
        let Some(clockwork) = realm.timers.get(timer) else { return Err(Stop::NO_NUMBER) };
        let name = format!("t:{timer}:{owner}");
        let own = if clockwork.is_of_owner() && instead.is_none() { self.zone(owner)? } else { None };
        let claimed = clockwork.claim(now, instead, own.as_ref());
        let mut value = 1;
        if clockwork.streak || self.is_strict {
            let before = self.mark(&name)?;
            if let Some(at) = before.as_ref().map(|mark| mark.at).filter(|at| *at > now && !self.is_guessing()) {
                return Err(Stop::Refused(Refusal::early(code, at)));
            }
            value = before.map_or(0, |mark| mark.value).saturating_add(1).min(AMOUNT_MAX);
        }
        if claimed.window != (Micros::ZERO, Micros::MAX) {
            self.within(claimed.window);
        }
        self.ready(&name, code)?;
        self.put_mark(&name, Then::Write { value, until: claimed.until, at: claimed.at, payload: Box::default() })
    }

    /// The time zone of an owner's own.
    fn zone(&mut self, owner: &str) -> Result<Option<Zone>, Stop> {
        let Some(zone) = self.zones.get(owner) else {
            self.missing.push(Missing::Zone(owner.into()));
            return Err(Stop::Unknown);
        };
        Ok(zone.cloned())
    }

    /// Sets an effect.
    pub(crate) fn effect(&mut self, effect: &str, owner: &str, (value, span): (i64, Micros), merge: Merge) -> Result<(), Stop> {
        let (name, now) = (format!("e:{effect}:{owner}"), self.now);
        if span == Micros::ZERO {
            return self.put_mark(&name, Then::Forget);
        }
        let (mut value, mut until) = (value, Due::In(span));
        if merge != Merge::Replace {
            let (old, ends) = self.mark(&name)?.map_or((self.realm.default_of('e', effect), now), |mark| (mark.value, mark.until));
            value = match merge {
                Merge::Add => old.checked_add(value).ok_or(Stop::NO_NUMBER)?,
                Merge::Max => old.max(value),
                Merge::Replace | Merge::Extend => value,
            };
            until = match merge {
                Merge::Extend => Due::At(ends.plus(span)),
                _ if ends > now.plus(span) => Due::At(ends),
                _ => until,
            };
        }
        self.put_number(&name, value, until)
    }

    /// Keeps a number under a name.
    pub(crate) fn put_number(&mut self, name: &str, value: i64, until: Due) -> Result<(), Stop> {
        if !(-AMOUNT_MAX..=AMOUNT_MAX).contains(&value) {
            return Err(Stop::NO_NUMBER);
        }
        self.put_mark(name, Then::Write { value, until, at: Due::At(Micros::ZERO), payload: Box::default() })
    }

    /// The place of a mark among those that are looked at or changed.
    fn marking(&mut self, name: &str) -> Result<usize, Stop> {
        if let Some(found) = self.done.marks.iter().position(|marking| &*marking.name == name) {
            return Ok(found);
        }
        // A formula may compute a name, and of any length.
        if self.done.marks.len() >= CELLS_MAX || name.len() > MARK_MAX {
            return Err(Stop::TOO_MUCH);
        }
        self.done.marks.push(Marking::look(name.into()));
        Ok(self.done.marks.len() - 1)
    }

    /// What a mark says now, with what was done to it so far.
    pub(crate) fn mark(&mut self, name: &str) -> Result<Option<Mark>, Stop> {
        let at = self.marking(name)?;
        let now = self.now;
        let marking = self.done.marks.get(at).expect("it is there");
        match marking.then {
            Then::Write { .. } => return Ok(marking.written(now)),
            Then::Forget => return Ok(None),
            Then::Stay => {}
        }
        let is = match self.books.mark(name) {
            Some(is) => is,
            None => {
                self.miss(Missing::Mark(name.into()))?;
                None
            }
        };
        // It may have ended since it was looked at.
        let is = is.filter(|mark| mark.until > now);
        if let Some(mark) = &is {
            self.until(mark.until);
            if mark.at > now {
                self.until(mark.at);
            }
        }
        if let Some(marking) = self.done.marks.get_mut(at) {
            marking.expect = Some(is.clone());
        }
        Ok(is)
    }

    /// What a mark says, if that is known. If not, it is expected to say nothing, and nobody has to look for it first.
    pub(crate) fn mark_if_known(&mut self, name: &str) -> Result<Option<Mark>, Stop> {
        if self.books.mark(name).is_some() {
            return self.mark(name);
        }
        let at = self.marking(name)?;
        if let Some(marking) = self.done.marks.get_mut(at) {
            marking.expect = Some(None);
        }
        Ok(None)
    }

    /// Changes a mark.
    pub(crate) fn put_mark(&mut self, name: &str, then: Then) -> Result<(), Stop> {
        let at = self.marking(name)?;
        if let Some(marking) = self.done.marks.get_mut(at) {
            marking.then = then;
        }
        Ok(())
    }

    /// A mark's time must have come, which is checked where it is applied.
    pub(crate) fn ready(&mut self, name: &str, code: &Arc<str>) -> Result<(), Stop> {
        let at = self.marking(name)?;
        if let Some(marking) = self.done.marks.get_mut(at) {
            marking.ready = Some(Arc::clone(code));
        }
        Ok(())
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
    pub(crate) fn draw(&mut self, name: &str, from: i64, to: i64) -> Result<i64, Stop> {
        if self.done.draws.len() >= DRAWS_MAX {
            return Err(Stop::TOO_MUCH);
        }
        let again = self.done.draws.iter().filter(|drawn| drawn.name.split('#').next() == Some(name)).count();
        let name: Arc<str> = if again == 0 { name.into() } else { format!("{name}#{}", again + 1).into() };
        let value = chance::draw(&self.realm.seed, self.key, &name, from, to);
        self.done.draws.push(Drawn { name, from, to: to.max(from), value });
        Ok(value)
    }

    /// The plan of what was done.
    pub(crate) fn plan(self, act: Act, entry: Box<[u8]>, told: Box<[u8]>) -> Plan {
        let Deeds { from, until, mut postings, marks, later, .. } = self.done;
        // What was looked at holds from the time of the look on.
        let from = if until.is_some() || marks.iter().any(|marking| marking.expect.is_some()) { from.max(self.now) } else { from };
        // One that neither changed nor was looked at says nothing.
        postings.retain(|one| one.delta != 0 || one.expect.is_some() || one.lien.is_some() || !one.drops.is_empty());
        let mut markings = marks;
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
