//! Commits that are no plays: legs as they are given, holds, and what undoes a commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::apply::{Books, Missing, Planned, Plans};
use super::args::is_owner;
use super::definition::{Merge, Overflow as IfMore};
use super::entry::{Entry, Leg, What};
use super::formula::{self, Datum, Node, Read, Reader, Scope, Type};
use super::plan::{AMOUNT_MAX, Account, Act, Lien, Mark, Then};
use super::run::{Codes, Deeds, Run, Stop};
use super::told::{Refusal, Told};
use super::world::Realm;
use super::zones::Zones;
use crate::int::Micros;
use crate::queue::delivery::Due;

/// How long it is known what became of a hold.
const KNOWN: Micros = Micros::saturating(72 * 3_600_000_000);

/// The most legs of a commit.
pub const LEGS_MAX: usize = 64;
/// The most that is looked at together.
const LIKELY_MAX: usize = 200;

/// A commit that is no play.
#[derive(Clone, Debug)]
pub struct Commit {
    /// In which realm.
    pub realm: Arc<Realm>,
    /// What is done.
    pub act: Deed,
    /// The idempotency key.
    pub key: Arc<str>,
    /// Who does it, if that is known.
    pub by: Arc<str>,
    /// Where, for the events.
    pub guild: Arc<str>,
    /// For people.
    pub note: Arc<str>,
    /// Nothing is applied.
    pub is_dry: bool,
    /// The time zones of owners, as far as they are known.
    pub zones: Zones,
}

/// What a commit does.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Moves, if all of this is true.
    Legs(Box<Legs>),
    /// Puts something on hold, under this number, until then.
    Hold(u64, Due, Vec<Leg>),
    /// Takes what is on hold, or part of it: how much of each asset.
    Capture(u64, Option<BTreeMap<Arc<str>, i64>>),
    /// What is on hold is free again.
    Release(u64),
    /// Undoes a commit.
    Revert(u64, Entry),
}

/// What is moved and what must be true.
#[derive(Clone, Debug, Default)]
pub struct Legs {
    /// Conditions, and what is refused with otherwise.
    pub needs: Vec<(Condition, Arc<str>)>,
    /// What moves, and what becomes of what there is no room for.
    pub legs: Vec<(Leg, IfMore)>,
    /// Holds that are captured as a whole: two of them are a trade.
    pub captures: Vec<u64>,
    /// Effects that are set.
    pub effects: Vec<Lasting>,
    /// Timers that are claimed: name, owner.
    pub timers: Vec<(Arc<str>, Arc<str>)>,
}

/// An effect that is set.
#[derive(Clone, Debug)]
pub struct Lasting {
    /// Which.
    pub effect: Arc<str>,
    /// On whom.
    pub owner: Arc<str>,
    /// Its value.
    pub value: i64,
    /// For how long.
    pub span: Micros,
    /// What becomes of one that is there.
    pub merge: Merge,
}

/// A condition on the state of a realm: a formula without names.
#[derive(Clone, Debug)]
pub struct Condition(Node);

impl Condition {
    /// Reads it.
    pub fn new(realm: &Realm, text: &str) -> Result<Condition, String> {
        formula::read(text, Some(Type::Bool), &mut Bare(realm)).map(|(node, _)| Condition(node))
    }
}

struct Bare<'a>(&'a Realm);

impl Scope for Bare<'_> {
    fn type_of(&mut self, _: &str) -> Option<Type> {
        None
    }

    fn names(&self) -> Vec<String> {
        vec!["none: write owners and assets as texts, in quotes".to_owned()]
    }

    fn check(&self, read: Read, name: &str) -> Result<(), String> {
        match read {
            Read::Balance | Read::Available | Read::Room | Read::Tradable if self.0.asset(name).is_none() => {
                Err(format!("refers to the asset {name}, which there is not"))
            }
            _ => Ok(()),
        }
    }
}

impl Reader for Run<'_> {
    type Stop = Stop;

    fn name(&mut self, _: &str) -> Result<Datum, Stop> {
        Err(Stop::NO_NUMBER)
    }

    fn read(&mut self, read: Read, args: &[Datum]) -> Result<Datum, Stop> {
        Run::read(self, read, args)
    }
}

/// What became of a hold. The numbers are part of the data format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there.
    Open = 1,
    /// It was taken.
    Captured = 2,
    /// It was let go.
    Released = 3,
    /// It ended by itself.
    Expired = 4,
}

/// A hold, as its mark says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What became of it.
    pub standing: Standing,
    /// When it ends, or would have.
    pub until: Micros,
    /// What it is about.
    pub entry: Entry,
}

impl Hold {
    /// The name of its mark.
    pub fn mark(number: u64) -> Arc<str> {
        format!("h:{number}").into()
    }

    /// What a mark says at `now`.
    pub fn read(mark: &Mark, now: Micros) -> Option<Hold> {
        let standing = match mark.value {
            1 if mark.at > now => Standing::Open,
            1 => Standing::Expired,
            2 => Standing::Captured,
            3 => Standing::Released,
            _ => return None,
        };
        Some(Hold { standing, until: mark.at, entry: Entry::read(&mark.payload)? })
    }
}

impl Standing {
    /// The word for it; what is no longer open is refused with it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Standing::Open => "open",
            Standing::Captured => "captured",
            Standing::Released => "released",
            Standing::Expired => "expired",
        }
    }
}

impl Plans for Commit {
    fn planned(&self, books: &dyn Books, now: Micros) -> Planned {
        let mut run = Run::new(&self.realm, books, now, &self.key, self.is_dry);
        run.zones = self.zones.clone();
        let (what, refers) = match &self.act {
            Deed::Legs(_) => (What::Commit, 0),
            Deed::Hold(number, ..) => (What::Hold, *number),
            Deed::Capture(number, _) => (What::Capture, *number),
            Deed::Release(number) => (What::Release, *number),
            Deed::Revert(seq, _) => (What::Revert, *seq),
        };
        let result = self.enact(&mut run);
        let plan = match if run.is_guessing() { Err(Stop::Unknown) } else { result } {
            Ok(()) => {
                let legs = std::mem::take(&mut run.deeds().legs);
                let [by, key, guild, note] = [&self.by, &self.key, &self.guild, &self.note].map(Arc::clone);
                let entry = Entry { what, play: "".into(), by, key, guild, note, refers, legs, draws: Vec::new() };
                run.plan(Act::Apply, entry.pack(), Told::default().pack())
            }
            Err(Stop::Refused(refusal)) => {
                run.take_back(&Deeds::default());
                run.plan(Act::Refuse, Box::default(), refusal.pack())
            }
            Err(Stop::Unknown) if matches!(run.missing[..], [Missing::Zone(_)]) => return Planned::Missing(self.unknown_zones()),
            Err(Stop::Unknown) => return Planned::Missing(self.likely(books, run.missing)),
            Err(Stop::Failed(why)) => return Planned::Failed(why),
        };
        Planned::Plan(Box::new(plan))
    }
}

impl Commit {
    /// The owners whose day turns a timer, and of whom it is not known where they are.
    fn unknown_zones(&self) -> Vec<Missing> {
        let Deed::Legs(all) = &self.act else { return Vec::new() };
        let turns = |timer: &Arc<str>| self.realm.timers.get(timer).is_some_and(|clockwork| clockwork.is_of_owner());
        let owners = all.timers.iter().filter(|(timer, _)| turns(timer)).map(|(_, owner)| owner);
        owners.filter(|owner| self.zones.get(owner).is_none()).cloned().map(Missing::Zone).collect()
    }

    /// What is missing, and what is likely to be, so that one look is enough, or two where a hold says what it is about.
    fn likely(&self, books: &dyn Books, mut missing: Vec<Missing>) -> Vec<Missing> {
        let mut add = |one: Missing| {
            if missing.len() < LIKELY_MAX && !missing.contains(&one) {
                missing.push(one);
            }
        };
        let holds: &[u64] = match &self.act {
            Deed::Legs(legs) => &legs.captures,
            Deed::Capture(number, _) | Deed::Release(number) => std::slice::from_ref(number),
            Deed::Hold(..) | Deed::Revert(..) => &[],
        };
        let mut legs: Vec<Leg> = match &self.act {
            Deed::Legs(legs) => legs.legs.iter().map(|(leg, _)| leg.clone()).collect(),
            Deed::Hold(_, _, legs) => legs.clone(),
            Deed::Revert(_, entry) => entry.legs.clone(),
            Deed::Capture(..) | Deed::Release(_) => Vec::new(),
        };
        for number in holds {
            let mark = books.mark(&Hold::mark(*number));
            let hold = mark.as_ref().and_then(|mark| Hold::read(mark.as_ref()?, Micros::ZERO));
            legs.extend(hold.into_iter().flat_map(|hold| hold.entry.legs));
            if mark.is_none() {
                add(Missing::Mark(Hold::mark(*number)));
            }
        }
        if let Deed::Legs(all) = &self.act {
            for (Condition(node), _) in &all.needs {
                node.reads(&mut |read, args| {
                    if let [Node::Value(Datum::Text(owner)), Node::Value(Datum::Text(name))] = args {
                        Missing::of(&self.realm, read, owner, name).into_iter().for_each(&mut add);
                    }
                });
            }
            let effects = all.effects.iter().map(|one| (Read::Effect, &one.owner, &one.effect));
            for (read, owner, name) in effects.chain(all.timers.iter().map(|(timer, owner)| (Read::Ready, owner, timer))) {
                Missing::of(&self.realm, read, owner, name).into_iter().for_each(&mut add);
            }
        }
        for leg in &legs {
            for owner in [&leg.from, &leg.to].into_iter().filter(|owner| is_owner(owner)) {
                Missing::of(&self.realm, Read::Balance, owner, &leg.asset).into_iter().for_each(&mut add);
            }
        }
        missing
    }

    fn enact(&self, run: &mut Run<'_>) -> Result<(), Stop> {
        match &self.act {
            Deed::Legs(legs) => self.legs(run, legs),
            Deed::Hold(number, until, legs) => Commit::hold(run, *number, *until, legs),
            Deed::Capture(number, part) => Commit::capture(run, *number, part.as_ref()),
            Deed::Release(number) => Commit::release(run, *number),
            Deed::Revert(seq, entry) => Commit::revert(run, *seq, entry),
        }
    }

    fn legs(&self, run: &mut Run<'_>, legs: &Legs) -> Result<(), Stop> {
        for (Condition(node), code) in &legs.needs {
            if !node.truth(run)? && !run.is_guessing() {
                return Err(Stop::Refused(Refusal::new(code)));
            }
        }
        for number in &legs.captures {
            Commit::capture(run, *number, None)?;
        }
        let codes = Codes::usual("@burn:commit".into());
        for (leg, overflow) in &legs.legs {
            let owned =
                |owner: &Arc<str>| if matches!(&**owner, "@mint" | "@burn") { format!("{owner}:commit").into() } else { Arc::clone(owner) };
            run.transfer(Leg { from: owned(&leg.from), to: owned(&leg.to), ..leg.clone() }, *overflow, &codes)?;
        }
        for one in &legs.effects {
            run.effect(&one.effect, &one.owner, (one.value, one.span), one.merge)?;
        }
        let code = "ttl".into();
        legs.timers.iter().try_for_each(|(timer, owner)| run.claim(timer, owner, None, &code))
    }

    fn hold(run: &mut Run<'_>, number: u64, until: Due, legs: &[Leg]) -> Result<(), Stop> {
        let name = Hold::mark(number);
        if until.from(run.now) <= run.now {
            return Err(Stop::Refused(Refusal::new("time")));
        }
        // Its number follows from its key, which may be forgotten before it is: it is held once all the same.
        if let Some(mark) = run.mark_if_known(&name)? {
            let standing = Hold::read(&mark, run.now).map_or("unknown", |hold| hold.standing.as_str());
            return Err(Stop::Refused(Refusal::new(standing)));
        }
        let mut held = BTreeMap::<Account, i64>::new();
        for leg in legs {
            if run.realm.asset(&leg.asset).is_none() || !is_owner(&leg.from) || !(1..=AMOUNT_MAX).contains(&leg.qty) {
                return Err(Stop::NO_NUMBER);
            }
            let account = Account { asset: Arc::clone(&leg.asset), owner: Arc::clone(&leg.from) };
            let sum = held.entry(account).or_default();
            *sum = sum.checked_add(leg.qty).filter(|sum| *sum <= AMOUNT_MAX).ok_or(Stop::NO_NUMBER)?;
        }
        for (account, qty) in held {
            if run.is_strict {
                let (is, (floor, _)) = (run.balance(&account)?, run.realm.bounds(&account.asset));
                if is.value - is.held - qty < floor && !run.is_guessing() {
                    return Err(Stop::Refused(Refusal::short(super::plan::FUNDS, &account.asset, is.value - is.held, qty)));
                }
            }
            run.change(&account, |posting| posting.lien = Some(Lien { hold: number, qty, until }));
        }
        let payload = Entry { legs: legs.to_vec(), ..Entry::default() }.pack();
        let known = match until {
            Due::At(at) => Due::At(at.plus(KNOWN)),
            Due::In(span) => Due::In(span.plus(KNOWN)),
        };
        run.put_mark(&name, Then::Write { value: 1, until: known, at: until, payload })
    }

    /// A hold that is open, its mark told to be something else.
    fn ending(run: &mut Run<'_>, number: u64, as_what: Standing) -> Result<Vec<Leg>, Stop> {
        let (name, now) = (Hold::mark(number), run.now);
        let refused = |code: &str| Err(Stop::Refused(Refusal::new(code)));
        let Some(mark) = run.mark(&name)? else { return refused("unknown") };
        let Some(hold) = Hold::read(&mark, now) else { return refused("unknown") };
        if hold.standing != Standing::Open {
            return refused(hold.standing.as_str());
        }
        let value = if as_what == Standing::Captured { 2 } else { 3 };
        run.put_mark(&name, Then::Write { value, until: Due::At(mark.until), at: Due::At(mark.at), payload: mark.payload })?;
        for leg in &hold.entry.legs {
            let account = Account { asset: Arc::clone(&leg.asset), owner: Arc::clone(&leg.from) };
            run.free(account, number, leg.qty);
        }
        Ok(hold.entry.legs)
    }

    fn capture(run: &mut Run<'_>, number: u64, part: Option<&BTreeMap<Arc<str>, i64>>) -> Result<(), Stop> {
        let mut left = part.cloned();
        let legs = Commit::ending(run, number, Standing::Captured)?;
        let codes = Codes::usual("@burn:capture".into());
        for mut leg in legs {
            if let Some(left) = &mut left {
                // The first legs first.
                let wanted = left.get_mut(&leg.asset);
                let taken = wanted.as_ref().map_or(0, |wanted| (**wanted).min(leg.qty));
                wanted.into_iter().for_each(|wanted| *wanted -= taken);
                leg.qty = taken;
            }
            if leg.qty > 0 {
                run.transfer(leg, IfMore::Reject, &codes)?;
            }
        }
        if left.is_some_and(|left| left.values().any(|left| *left != 0)) {
            return Err(Stop::Refused(Refusal::new("funds")));
        }
        Ok(())
    }

    fn release(run: &mut Run<'_>, number: u64) -> Result<(), Stop> {
        Commit::ending(run, number, Standing::Released).map(drop)
    }

    fn revert(run: &mut Run<'_>, seq: u64, entry: &Entry) -> Result<(), Stop> {
        if entry.legs.is_empty() || matches!(entry.what, What::Hold | What::Release) {
            return Err(Stop::Refused(Refusal::new("nothing")));
        }
        let name = format!("r:{seq}");
        if run.mark(&name)?.is_some() {
            return Err(Stop::Refused(Refusal::new("reverted")));
        }
        run.put_mark(&name, Then::Write { value: 1, until: Due::At(Micros::MAX), at: Due::At(Micros::ZERO), payload: Box::default() })?;
        let (codes, event): (_, Arc<str>) = (Codes::usual("@burn:revert".into()), "revert".into());
        let back = entry.legs.iter().map(|leg| {
            let types = (Arc::clone(&event), Arc::clone(&event));
            Leg { from: Arc::clone(&leg.to), to: Arc::clone(&leg.from), types, ..leg.clone() }
        });
        // What only passed through an account need not be there again.
        run.shift_all(back.collect(), &codes)
    }
}
