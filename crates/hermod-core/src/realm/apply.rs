//! Does what a plan says to the books of a realm, all or nothing. Twin of `apply.lua`.
//!
//! It checks everything, then it only writes. A plan that was computed from another state is not done; the answer then says what
//! is, for the next plan. Where the state is at hand ([`Plans`]), that plan is made and done in the same step.

use std::fmt;
use std::sync::Arc;

use super::formula::Read;
use super::plan::{AMOUNT_MAX, take_code, take_int, take_short};
use super::plan::{Account, Act, Balance, LIENS_MAX, Mark, Marking, Plan, Posting, Then, put_code, put_int, put_short};
use super::world::Realm;
use crate::id::{RealmId, TEXT_MAX};
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::realms::Cell;
use crate::state::{Full, State};

/// Makes plans from what the books say.
pub trait Plans: Send + Sync + fmt::Debug {
    /// What it comes to now.
    fn planned(&self, books: &dyn Books, now: Micros) -> Planned;
}

/// What something comes to.
#[derive(Clone, Debug)]
pub enum Planned {
    /// It can be tried.
    Plan(Box<Plan>),
    /// It needs to know more of the state.
    Missing(Vec<Missing>),
    /// Something that was given is not what it must be: which, and why.
    Argument(Arc<str>, String),
    /// It cannot be carried through as it is defined: why.
    Failed(&'static str),
}

/// What is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An account.
    Account(Account),
    /// A mark.
    Mark(Arc<str>),
    /// The time zone of an owner, which no books say.
    Zone(Arc<str>),
}

impl Missing {
    /// What a formula asks for, if there is such a thing.
    pub(crate) fn of(realm: &Realm, read: Read, owner: &Arc<str>, name: &Arc<str>) -> Option<Missing> {
        let mark = |kind: char| Some(Missing::Mark(format!("{kind}:{name}:{owner}").into())).filter(|_| is_short(owner) && is_short(name));
        match read {
            Read::Balance | Read::Available | Read::Room => {
                let account = || Missing::Account(Account { asset: Arc::clone(name), owner: Arc::clone(owner) });
                (realm.asset(name).is_some() && is_short(owner)).then(account)
            }
            Read::Effect => mark('e'),
            Read::Counter => mark('c'),
            Read::Box => mark('b'),
            Read::Streak | Read::Ready => mark('t'),
            Read::Tradable => None,
        }
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= TEXT_MAX
}

/// What is known of the books of a realm.
pub trait Books {
    /// What an account says; none if it is not known.
    fn account(&self, account: &Account) -> Option<Balance>;

    /// What a mark says; none if it is not known.
    fn mark(&self, name: &str) -> Option<Option<Mark>>;

    /// Whether who looks at what is missing has all of the state: then there is no need to find out what else will be asked.
    fn are_at_hand(&self) -> bool {
        false
    }
}

/// Does what a plan says.
#[derive(Clone, Debug)]
pub struct Apply {
    place: Place,
    realm: RealmId,
    /// What its idempotency key belongs to: no subject or recipient begins like it, as they hold no control characters.
    home: String,
    plan: Arc<Plan>,
    anew: Option<Arc<dyn Plans>>,
}

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was done.
    Done(Box<Done>),
    /// It was refused, as the plan says.
    Refused {
        /// When.
        now: Micros,
        /// What the plan tells of it.
        told: Box<[u8]>,
    },
    /// A bound was not kept.
    Bound(Box<Bound>),
    /// Something is not as expected, or the plan was a look: this is what is.
    Seen(Box<Seen>),
    /// The realm was changed since: this is its version.
    Outdated(u64),
    /// The schedule was fulfilled before.
    Gone,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// When.
    pub now: Micros,
    /// The number of the commit.
    pub seq: u64,
    /// What the accounts say afterwards.
    pub balances: Vec<(Account, i64)>,
    /// What the ledger keeps of it.
    pub entry: Box<[u8]>,
    /// What the plan tells besides.
    pub told: Box<[u8]>,
}

/// A bound that was not kept. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// When.
    pub now: Micros,
    /// What it is refused with.
    pub code: Arc<str>,
    /// Which.
    pub what: Which,
}

/// Which bound was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// There is not enough.
    Short {
        /// Where.
        account: Account,
        /// What there is.
        value: i64,
        /// What of it is on hold.
        held: i64,
        /// What was to be added: less than nothing.
        delta: i64,
    },
    /// There is no room.
    Full {
        /// Where.
        account: Account,
        /// What there is.
        value: i64,
        /// The most there can be.
        max: i64,
        /// What was to be added.
        delta: i64,
    },
    /// It is not time yet.
    Early {
        /// Of which mark.
        mark: Arc<str>,
        /// When it is.
        at: Micros,
    },
}

/// What is, in the order of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it was so.
    pub now: Micros,
    /// What the accounts say.
    pub balances: Vec<Balance>,
    /// What the marks say.
    pub marks: Vec<Option<Mark>>,
}

/// What refuses one more hold on an account.
const BUSY: &str = "busy";

impl Apply {
    /// `place` is that of the realm.
    pub fn new(place: Place, realm: RealmId, plan: Arc<Plan>) -> Apply {
        let home = format!("\u{1}{realm}");
        Apply { place, realm, home, plan, anew: None }
    }

    /// The plan is made anew, in the same step, should it be needed and the state be at hand.
    #[must_use]
    pub fn anew(mut self, plans: Arc<dyn Plans>) -> Apply {
        self.anew = Some(plans);
        self
    }

    fn see(plan: &Plan, state: &State, place: &Place, realm: &RealmId, now: Micros) -> Seen {
        let balances = plan.postings.iter().map(|posting| state.realms.cell(place, realm, &posting.account).balance(now)).collect();
        let marks = plan.markings.iter().map(|marking| state.realms.mark(place, realm, &marking.name, now)).collect();
        Seen { now, balances, marks }
    }

    fn try_plan(&self, plan: &Plan, state: &mut State, now: Micros) -> Result<Applied, Full> {
        let (place, realm) = (&self.place, &self.realm);
        let known = state.realms.version(place, realm);
        if plan.act != Act::Read && plan.version < known {
            return Ok(Applied::Outdated(known));
        }
        let seen = Apply::see(plan, state, place, realm, now);
        if !is_as_expected(plan, &seen, now) {
            return Ok(Applied::Seen(Box::new(seen)));
        }
        if let Some(done) = &plan.done
            && !state.realms.is_due(place, realm, done)
        {
            return Ok(Applied::Gone);
        }
        if state.is_full {
            return Err(Full);
        }
        let refused = match plan.act {
            Act::Refuse => Some(Applied::Refused { now, told: plan.told.clone() }),
            _ => bound(plan, &seen, |account| state.realms.cell(place, realm, account), now).map(|bound| Applied::Bound(Box::new(bound))),
        };
        if let Some(refused) = refused {
            plan.done.iter().for_each(|done| state.realms.fulfil(place, realm, done));
            return Ok(refused);
        }
        Ok(Applied::Done(Box::new(state.realms.write(place, realm, plan, now))))
    }
}

fn is_as_expected(plan: &Plan, seen: &Seen, now: Micros) -> bool {
    let is_head = |expect: &Option<Mark>, mark: &Option<Mark>| expect.as_ref().map(Mark::head) == mark.as_ref().map(Mark::head);
    plan.act != Act::Read
        && now >= plan.from
        && now < plan.until
        && plan.postings.iter().zip(&seen.balances).all(|(one, is)| one.expect.is_none_or(|expect| expect == (is.value, is.held)))
        && plan.markings.iter().zip(&seen.marks).all(|(one, is)| one.expect.as_ref().is_none_or(|expect| is_head(expect, is)))
}

/// The first bound that is not kept.
fn bound(plan: &Plan, seen: &Seen, cell: impl Fn(&Account) -> Cell, now: Micros) -> Option<Bound> {
    let postings = plan.postings.iter().zip(&seen.balances).find_map(|(posting, is)| {
        let (code, what) = overdrawn(posting, *is, &cell, now)?;
        Some(Bound { now, code, what })
    });
    postings.or_else(|| {
        plan.markings.iter().zip(&seen.marks).find_map(|(marking, is)| {
            let (code, mark) = (marking.ready.clone()?, is.as_ref().filter(|mark| mark.at > now)?);
            Some(Bound { now, code, what: Which::Early { mark: Arc::clone(&marking.name), at: mark.at } })
        })
    })
}

fn overdrawn(posting: &Posting, is: Balance, cell: impl Fn(&Account) -> Cell, now: Micros) -> Option<(Arc<str>, Which)> {
    let (account, value, delta) = (posting.account.clone(), is.value, posting.delta);
    let hold = posting.lien.map_or(0, |lien| lien.qty);
    let (mut held, mut liens) = (is.held, 0);
    if !posting.drops.is_empty() || hold > 0 {
        let cell = cell(&posting.account).without(&posting.drops, now);
        (held, liens) = (cell.balance(now).held, cell.liens.len());
    }
    let after = value + delta;
    let max = posting.bounds.map_or(AMOUNT_MAX, |(_, max)| max);
    if let Some((floor, _)) = posting.bounds
        && (delta < 0 || hold > 0)
        && after - held - hold < floor
    {
        let which = Which::Short { account, value, held, delta: delta - hold };
        return Some((Arc::clone(&posting.short), which));
    }
    if delta > 0 && after > max {
        return Some((Arc::clone(&posting.full), Which::Full { account, value, max, delta }));
    }
    if after < -AMOUNT_MAX || (hold > 0 && liens >= LIENS_MAX) {
        return Some((BUSY.into(), Which::Full { account, value, max: AMOUNT_MAX, delta }));
    }
    None
}

impl Operation for Apply {
    type Answer = Applied;

    const SCRIPT: Script = Script::short("realm/apply");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        &self.home
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Applied, Full> {
        let applied = self.try_plan(&self.plan, state, now)?;
        if let (Applied::Seen(_), Some(plans)) = (&applied, &self.anew)
            && let Planned::Plan(plan) = plans.planned(&(&*state, &self.place, &self.realm, now), now)
        {
            return self.try_plan(&plan, state, now);
        }
        Ok(applied)
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::realm(&self.place, &self.realm, "cells"));
        self.plan.write(&mut call.given);
    }

    fn is_durable(&self) -> bool {
        self.plan.act != Act::Read || self.anew.is_some()
    }

    /// Refusals too: asking twice gives one answer.
    fn is_kept(&self, answer: &Applied) -> bool {
        matches!(answer, Applied::Done(_) | Applied::Refused { .. } | Applied::Bound(_))
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Applied) -> Reply {
        let mut out = Vec::new();
        match answer {
            Applied::Done(done) => {
                out.push(b'c');
                record::put(&mut out, [done.now.get(), done.seq]);
                out.push(u8::try_from(done.balances.len()).expect("a plan is short"));
                for (account, value) in &done.balances {
                    put_int(&mut out, *value);
                    put_short(&mut out, &account.spell());
                }
                out.extend_from_slice(&done.told);
            }
            Applied::Refused { now, told } => {
                out.push(b'n');
                record::put(&mut out, [now.get()]);
                out.extend_from_slice(told);
            }
            Applied::Bound(bound) => bound.write(&mut out),
            // These are never kept.
            Applied::Seen(_) => out.push(b'a'),
            Applied::Outdated(_) => out.push(b'v'),
            Applied::Gone => out.push(b'g'),
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, note: Option<&[u8]>) -> Result<Applied, BadReply> {
        self.read(reply.as_bytes(), note).ok_or_else(|| reply.bad("is none about a commit"))
    }

    /// What was done stands in the ledger.
    fn recalled(&self, reply: &Reply, state: &State) -> Option<Vec<u8>> {
        let mut rest = reply.as_bytes().strip_prefix(b"c")?;
        let (_, seq) = (record::take_micros(&mut rest)?, record::take_number(&mut rest)?);
        let (_, mut entries) = state.realms.ledger(&self.place, &self.realm, seq.checked_sub(1)?);
        entries.next().map(|(_, entry)| entry.to_vec())
    }
}

impl Bound {
    fn write(&self, out: &mut Vec<u8>) {
        let mut account = |word: u8, account: &Account, numbers: [i64; 3]| {
            out.push(word);
            record::put(out, [self.now.get()]);
            numbers.into_iter().for_each(|number| put_int(out, number));
            put_code(out, &self.code);
            put_short(out, &account.spell());
        };
        match &self.what {
            Which::Short { account: of, value, held, delta } => account(b's', of, [*value, *held, *delta]),
            Which::Full { account: of, value, max, delta } => account(b'f', of, [*value, *max, *delta]),
            Which::Early { mark, at } => {
                out.push(b't');
                record::put(out, [self.now.get(), at.get()]);
                put_code(out, &self.code);
                put_short(out, mark.as_bytes());
            }
        }
    }

    fn read(word: u8, mut rest: &[u8]) -> Option<Bound> {
        let now = record::take_micros(&mut rest)?;
        if word == b't' {
            let at = record::take_micros(&mut rest)?;
            let code = take_code(&mut rest)?.into();
            let mark = std::str::from_utf8(take_short(&mut rest)?).ok()?.into();
            return Some(Bound { now, code, what: Which::Early { mark, at } });
        }
        let (value, second, delta) = (take_int(&mut rest)?, take_int(&mut rest)?, take_int(&mut rest)?);
        let code = take_code(&mut rest)?.into();
        let account = Account::read(take_short(&mut rest)?)?;
        let what = match word {
            b's' => Which::Short { account, value, held: second, delta },
            _ => Which::Full { account, value, max: second, delta },
        };
        Some(Bound { now, code, what })
    }
}

impl Apply {
    /// The entry of what was done now is the plan's; of what was done before it is the note, after its time.
    fn read(&self, bytes: &[u8], note: Option<&[u8]>) -> Option<Applied> {
        let mut rest = bytes;
        let [word] = record::take(&mut rest)?;
        Some(match word {
            b'v' => Applied::Outdated(record::take_number(&mut rest)?),
            b'g' => Applied::Gone,
            b's' | b'f' | b't' => Applied::Bound(Box::new(Bound::read(word, rest)?)),
            b'n' => Applied::Refused { now: record::take_micros(&mut rest)?, told: rest.into() },
            b'a' => {
                let now = record::take_micros(&mut rest)?;
                let balances = self.plan.postings.iter().map(|_| {
                    let (value, held) = (take_int(&mut rest)?, take_int(&mut rest)?);
                    Some(Balance { value, held, next: record::take_micros(&mut rest)? })
                });
                let balances = balances.collect::<Option<Vec<_>>>()?;
                let marks = self.plan.markings.iter().map(|_| {
                    let record = record::take_bytes(&mut rest)?;
                    if record.is_empty() { Some(None) } else { Mark::unpack(record).map(Some) }
                });
                Applied::Seen(Box::new(Seen { now, balances, marks: marks.collect::<Option<Vec<_>>>()? }))
            }
            b'c' => {
                let (now, seq) = (record::take_micros(&mut rest)?, record::take_number(&mut rest)?);
                let [many] = record::take(&mut rest)?;
                let balances = (0..many).map(|_| {
                    let value = take_int(&mut rest)?;
                    Some((Account::read(take_short(&mut rest)?)?, value))
                });
                let balances = balances.collect::<Option<Vec<_>>>()?;
                let entry = match note {
                    Some(stored) => stored.get(8..)?.into(),
                    None => self.plan.entry.clone(),
                };
                Applied::Done(Box::new(Done { now, seq, balances, entry, told: rest.into() }))
            }
            _ => return None,
        })
    }
}

/// The state itself: everything is known.
impl Books for (&State, &Place, &RealmId, Micros) {
    fn account(&self, account: &Account) -> Option<Balance> {
        let (state, place, realm, now) = *self;
        Some(state.realms.cell(place, realm, account).balance(now))
    }

    fn mark(&self, name: &str) -> Option<Option<Mark>> {
        let (state, place, realm, now) = *self;
        Some(state.realms.mark(place, realm, name, now))
    }
}

impl Marking {
    /// The mark that is written at `now`; none if none is.
    pub(crate) fn written(&self, now: Micros) -> Option<Mark> {
        let Then::Write { value, until, at, payload } = &self.then else { return None };
        Some(Mark { value: *value, until: until.from(now), at: at.from(now), payload: payload.clone() })
    }
}
