//! What is to be done to the books of a realm, and what must be true for it to be right.
//!
//! A plan is made in Rust, once for both engines. It changes *accounts* (what an owner has of an asset) and *marks* (timers, effects,
//! counters, boxes, holds: a number that may end). What it was computed from it expects to be so still; what it only changes is
//! bounded, and needs not be read before.

use std::sync::Arc;

use crate::int::{INT_MAX, Micros};
use crate::queue::delivery::Due;
use crate::record;

/// The most of anything, and the largest debt.
pub const AMOUNT_MAX: i64 = INT_MAX.cast_signed();

/// The most holds on one account.
pub const LIENS_MAX: usize = 32;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whether anything is.
    pub act: Act,
    /// The version of the realm that it was made by.
    pub version: u64,
    /// It holds from then on.
    pub from: Micros,
    /// It does not hold from then on.
    pub until: Micros,
    /// The accounts it is about; each once.
    pub postings: Vec<Posting>,
    /// The marks it is about; each once.
    pub markings: Vec<Marking>,
    /// What is scheduled by it.
    pub later: Vec<(Due, Box<[u8]>)>,
    /// The schedule it fulfils: what was scheduled, as it was.
    pub done: Option<Box<[u8]>>,
    /// What the ledger keeps of it.
    pub entry: Box<[u8]>,
    /// What its answer tells besides.
    pub told: Box<[u8]>,
}

/// Whether a plan changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It only looks.
    Read = 0,
    /// It was refused, if all is as expected.
    Refuse = 1,
    /// It is done.
    Apply = 2,
}

/// What is done to one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    /// Which account.
    pub account: Account,
    /// What it was computed from: what there is, and what of it is on hold.
    pub expect: Option<(i64, i64)>,
    /// What is added.
    pub delta: i64,
    /// What is put on hold.
    pub lien: Option<Lien>,
    /// The holds that end.
    pub drops: Vec<u64>,
    /// What it must not go below when something is taken, or above when something is given; none for those of the realm itself.
    pub bounds: Option<(i64, i64)>,
    /// Whether it is on a board.
    pub board: bool,
    /// What is refused with if there is not enough.
    pub short: Arc<str>,
    /// What is refused with if there is no room.
    pub full: Arc<str>,
}

/// Whose, and what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    /// The asset.
    pub asset: Arc<str>,
    /// The owner.
    pub owner: Arc<str>,
}

impl Account {
    /// Whether it is the realm's own: it absorbs the difference, and has no bounds.
    pub fn is_own(&self) -> bool {
        self.owner.starts_with('@')
    }

    /// As it is spelled in the store: `asset:owner`.
    pub fn spell(&self) -> Vec<u8> {
        [self.asset.as_bytes(), b":", self.owner.as_bytes()].concat()
    }

    /// Reads it back. An asset has no colon in its name.
    pub fn read(bytes: &[u8]) -> Option<Account> {
        let (asset, owner) = std::str::from_utf8(bytes).ok()?.split_once(':')?;
        Some(Account { asset: asset.into(), owner: owner.into() })
    }
}

/// What is put on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lien {
    /// By which hold.
    pub hold: u64,
    /// How much.
    pub qty: i64,
    /// Until when.
    pub until: Due,
}

/// What is done to one mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Its name: `t:daily:111`.
    pub name: Arc<str>,
    /// What it was computed from; `Some(None)`: that there is none.
    pub expect: Option<Option<Mark>>,
    /// It must not be there, or its time must have come; this is refused with otherwise.
    pub ready: Option<Arc<str>>,
    /// What becomes of it.
    pub then: Then,
}

/// What becomes of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// It stays as it is.
    Stay,
    /// It is forgotten.
    Forget,
    /// It is this.
    Write {
        /// Its number.
        value: i64,
        /// When it means nothing any more.
        until: Due,
        /// Its time: of a timer when it can be claimed again, of a hold when it ends.
        at: Due,
        /// What else it says.
        payload: Box<[u8]>,
    },
}

/// A number that may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number.
    pub value: i64,
    /// When it means nothing any more.
    pub until: Micros,
    /// Its time.
    pub at: Micros,
    /// What else it says.
    pub payload: Box<[u8]>,
}

impl Mark {
    /// What a mark is recognised by: all but its payload, which does not change while these stay.
    pub(crate) fn head(&self) -> [u8; 24] {
        let mut head = [0; 24];
        let numbers = [self.value.to_le_bytes(), self.until.get().to_le_bytes(), self.at.get().to_le_bytes()];
        head.iter_mut().zip(numbers.as_flattened()).for_each(|(slot, byte)| *slot = *byte);
        head
    }

    /// As Redis holds it.
    pub(crate) fn pack(&self) -> Vec<u8> {
        [&self.head()[..], &self.payload].concat()
    }

    /// Reads it back.
    pub(crate) fn unpack(mut rest: &[u8]) -> Option<Mark> {
        let value = take_int(&mut rest)?;
        let (until, at) = (record::take_micros(&mut rest)?, record::take_micros(&mut rest)?);
        Some(Mark { value, until, at, payload: rest.into() })
    }
}

/// What an account says now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// What there is.
    pub value: i64,
    /// What of it is on hold.
    pub held: i64,
    /// When the first hold ends; zero: there is none.
    pub next: Micros,
}

impl Plan {
    /// A look at accounts and marks.
    pub fn look(accounts: impl IntoIterator<Item = Account>, marks: impl IntoIterator<Item = Arc<str>>) -> Plan {
        Plan {
            act: Act::Read,
            version: 0,
            from: Micros::ZERO,
            until: Micros::MAX,
            postings: accounts.into_iter().map(Posting::look).collect(),
            markings: marks.into_iter().map(Marking::look).collect(),
            later: Vec::new(),
            done: None,
            entry: Box::default(),
            told: Box::default(),
        }
    }

    /// As scripts read it (`apply.lua`).
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(match self.act {
            Act::Read => 0,
            Act::Refuse => 1,
            Act::Apply => 2,
        });
        record::put(out, [self.version, self.from.get(), self.until.get()]);
        for length in [self.postings.len(), self.markings.len(), self.later.len()] {
            out.push(u8::try_from(length).expect("a plan is short"));
        }
        self.postings.iter().for_each(|posting| posting.write(out));
        self.markings.iter().for_each(|marking| marking.write(out));
        for (due, bytes) in &self.later {
            due.write(out);
            put_short(out, bytes);
        }
        put_short(out, self.done.as_deref().unwrap_or_default());
        put_long(out, &self.entry);
        put_long(out, &self.told);
    }
}

impl Posting {
    /// Changes nothing.
    pub fn look(account: Account) -> Posting {
        let (short, full) = (FUNDS.into(), STACK.into());
        Posting { account, expect: None, delta: 0, lien: None, drops: Vec::new(), bounds: None, board: false, short, full }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let bounds = self.bounds.filter(|bounds| *bounds != (0, AMOUNT_MAX));
        let codes = &*self.short != FUNDS || &*self.full != STACK;
        let has = [
            self.expect.is_some(),
            self.lien.is_some(),
            !self.drops.is_empty(),
            self.board,
            bounds.is_some(),
            self.bounds.is_none(),
            codes,
        ];
        out.push(flags(&has));
        put_int(out, self.delta);
        out.push(u8::try_from(self.account.asset.len()).expect("names are short"));
        put_short(out, &self.account.spell());
        if let Some((value, held)) = self.expect {
            put_int(out, value);
            put_int(out, held);
        }
        if let Some(lien) = &self.lien {
            record::put(out, [lien.hold]);
            put_int(out, lien.qty);
            lien.until.write(out);
        }
        if !self.drops.is_empty() {
            out.push(u8::try_from(self.drops.len()).expect("holds on an account are few"));
            self.drops.iter().for_each(|hold| record::put(out, [*hold]));
        }
        if let Some((floor, max)) = bounds {
            put_int(out, floor);
            put_int(out, max);
        }
        if codes {
            put_code(out, &self.short);
            put_code(out, &self.full);
        }
    }
}

impl Marking {
    /// Changes nothing.
    pub fn look(name: Arc<str>) -> Marking {
        Marking { name, expect: None, ready: None, then: Then::Stay }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (is_written, is_gone) = (matches!(self.then, Then::Write { .. }), self.then == Then::Forget);
        out.push(flags(&[self.expect.is_some(), self.ready.is_some(), is_written, is_gone]));
        put_short(out, self.name.as_bytes());
        if let Some(expect) = &self.expect {
            match expect {
                Some(mark) => put_short(out, &mark.head()),
                None => put_short(out, &[]),
            }
        }
        if let Some(code) = &self.ready {
            put_code(out, code);
        }
        if let Then::Write { value, until, at, payload } = &self.then {
            put_int(out, *value);
            until.write(out);
            at.write(out);
            put_long(out, payload);
        }
    }
}

/// What is refused with if there is not enough, unless something else is said.
pub const FUNDS: &str = "funds";
/// What is refused with if there is no room.
pub const STACK: &str = "stack";

fn flags(has: &[bool]) -> u8 {
    has.iter().rev().fold(0, |flags, has| flags << 1 | u8::from(*has))
}

pub(crate) fn put_int(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn take_int(rest: &mut &[u8]) -> Option<i64> {
    record::take(rest).map(i64::from_le_bytes)
}

/// At most 255 bytes.
pub(crate) fn put_code(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("names are short"));
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn take_code<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let [length] = record::take(rest)?;
    let (text, tail) = rest.split_at_checked(usize::from(length))?;
    *rest = tail;
    std::str::from_utf8(text).ok()
}

/// At most 64 KiB.
pub(crate) fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u16::try_from(bytes.len()).expect("it is bounded to less").to_le_bytes());
    out.extend_from_slice(bytes);
}

pub(crate) fn take_short<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u16::from_le_bytes(record::take(rest)?);
    let (bytes, tail) = rest.split_at_checked(usize::from(length))?;
    *rest = tail;
    Some(bytes)
}

pub(crate) fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).expect("it is bounded to less").to_le_bytes());
    out.extend_from_slice(bytes);
}
