//! Plays: what they do, computed once for both engines.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::apply::{Books, Missing, Planned, Plans};
use super::args::{Given, Raw, understand};
use super::definition::{IfFull, Mode, Overflow as IfMore};
use super::entry::{Entry, Leg, What};
use super::formula::{Datum, Node, Read, Reader};
use super::plan::{Account, Act, FUNDS, STACK, Then, put_code, put_short, take_code};
use super::play::{CountTo, Counting, Moving, Needs, Played, Returns, Step};
use super::run::{Codes, Deeds, Run, Stop, span};
use super::told::{Refusal, Returned, Told, put_datum, take_datum};
use super::world::Realm;
use super::zones::Zones;
use crate::int::Micros;
use crate::queue::delivery::Due;
use crate::record;

/// Somebody wants to play.
#[derive(Clone, Debug)]
pub struct Call {
    /// In which realm.
    pub realm: Arc<Realm>,
    /// What.
    pub play: Arc<str>,
    /// Who.
    pub by: Arc<str>,
    /// What it is given.
    pub args: BTreeMap<Arc<str>, Raw>,
    /// The idempotency key, of which draws are made.
    pub key: Arc<str>,
    /// Where, for the events.
    pub guild: Arc<str>,
    /// For people.
    pub note: Arc<str>,
    /// The schedule that it fulfils.
    pub done: Option<Box<[u8]>>,
    /// The time zones of owners, as far as they are known.
    pub zones: Zones,
    /// All bounds are checked while it is planned, for whom nothing is applied.
    pub is_dry: bool,
}

/// The most plays that follow from one, in its commit and after it.
const ALSO_MAX: usize = 64;
const LATER_MAX: u8 = 64;
/// The most that is looked at together.
const LIKELY_MAX: usize = 200;
/// The most times of a scheduled play that are kept to be shown.
const TIMES_MAX: usize = 100;

impl Plans for Call {
    fn planned(&self, books: &dyn Books, now: Micros) -> Planned {
        let mut run = Run::new(&self.realm, books, now, &self.key, self.is_dry);
        run.zones = self.zones.clone();
        let Some(play) = self.realm.plays.get(&*self.play) else { return Planned::Argument("play".into(), "there is no such play".into()) };
        let mut told = Told::default();
        let result = match self.names(play, &mut run) {
            Ok(names) => {
                Frame { run: &mut run, play, name: &self.play, by: &self.by, names, told: &mut told, depth: 0, call: self }.whole()
            }
            Err(Argued::Stop(stop)) => Err(stop),
            Err(Argued::Wrong(name, reason)) => return Planned::Argument(name, reason),
        };
        let result = if run.is_guessing() { Err(Stop::Unknown) } else { result };
        let entry = |run: &mut Run<'_>| {
            let (legs, draws) = (std::mem::take(&mut run.deeds().legs), std::mem::take(&mut run.deeds().draws));
            let [play, by, key] = [&self.play, &self.by, &self.key].map(Arc::clone);
            let (guild, note) = (Arc::clone(&self.guild), Arc::clone(&self.note));
            Entry { what: What::Play, play, by, key, guild, note, refers: 0, legs, draws }.pack()
        };
        let mut plan = match result {
            Ok(()) => {
                let entry = entry(&mut run);
                told.later = run.deeds().later.iter().map(|(due, _)| due.from(now)).min().unwrap_or_default();
                run.plan(Act::Apply, entry, told.pack())
            }
            Err(Stop::Refused(refusal)) => {
                run.take_back(&Deeds::default());
                run.plan(Act::Refuse, Box::default(), refusal.pack())
            }
            // Where somebody is is asked elsewhere, and first.
            Err(Stop::Unknown) if matches!(run.missing[..], [Missing::Zone(_)]) => return Planned::Missing(run.missing),
            Err(Stop::Unknown) => return Planned::Missing(self.likely(play, run.missing)),
            Err(Stop::Failed(why)) => return Planned::Failed(why),
        };
        plan.done.clone_from(&self.done);
        Planned::Plan(Box::new(plan))
    }
}

impl Call {
    /// What is missing, and what is likely to be, so that one look is enough.
    fn likely(&self, play: &Played, mut missing: Vec<Missing>) -> Vec<Missing> {
        let mut run = Run::new(&self.realm, &Nothing, Micros::ZERO, &self.key, true);
        let names = self.names(play, &mut run).unwrap_or_else(|_| self.plain(play));
        let value = |node: &Node| match node {
            Node::Value(Datum::Text(text)) => Some(Arc::clone(text)),
            Node::Name(name) => {
                names.get(&**name).and_then(|datum| if let Datum::Text(text) = datum { Some(Arc::clone(text)) } else { None })
            }
            _ => None,
        };
        for (read, args) in &play.hints {
            let (Some(owner), Some(name)) = (args.first().and_then(value), args.get(1).and_then(value)) else { continue };
            let Some(one) = Missing::of(&self.realm, *read, &owner, &name) else { continue };
            if !missing.contains(&one) {
                missing.push(one);
            }
        }
        missing.truncate(LIKELY_MAX);
        missing
    }

    /// The texts among what it is given, should an amount be unknown yet.
    fn plain(&self, play: &Played) -> BTreeMap<Arc<str>, Datum> {
        let mut names = self.own_names();
        for parameter in &play.args {
            if let Some(Ok(Given::Datum(datum))) =
                self.args.get(&parameter.name).map(|raw| understand(raw, parameter.kind, parameter.all.is_some(), parameter.round_up))
            {
                names.insert(Arc::clone(&parameter.name), datum);
            }
        }
        names
    }

    fn own_names(&self) -> BTreeMap<Arc<str>, Datum> {
        let own = [("by", &self.by), ("key", &self.key)].map(|(name, text)| (name.into(), Datum::Text(Arc::clone(text))));
        own.into_iter().chain([("realm".into(), Datum::Text("@house".into()))]).collect()
    }

    fn names(&self, play: &Played, run: &mut Run<'_>) -> Result<BTreeMap<Arc<str>, Datum>, Argued> {
        let mut names = self.own_names();
        if let Some(unknown) = self.args.keys().find(|name| !play.args.iter().any(|parameter| parameter.name == **name)) {
            let known = play.args.iter().map(|parameter| &*parameter.name).collect::<Vec<_>>().join(", ");
            return Err(Argued::Wrong(Arc::clone(unknown), format!("is no argument of the play; it takes: {known}")));
        }
        for parameter in &play.args {
            let wrong = |reason: &str| match &parameter.or_else {
                Some(code) => Argued::Stop(Stop::Refused(Refusal::new(code))),
                None => Argued::Wrong(Arc::clone(&parameter.name), reason.to_owned()),
            };
            let datum = match (self.args.get(&parameter.name), &parameter.default) {
                (Some(raw), _) => match understand(raw, parameter.kind, parameter.all.is_some(), parameter.round_up) {
                    Ok(Given::Datum(Datum::Text(text))) if parameter.kind == super::definition::ArgKind::Asset => {
                        let is_known = self.realm.asset(&text).is_some() || self.realm.recipe(&text).is_some();
                        if !is_known {
                            return Err(wrong("must be the name of an asset"));
                        }
                        Datum::Text(text)
                    }
                    Ok(Given::Datum(datum)) => datum,
                    Ok(Given::All) => {
                        let asset = parameter.all.clone().unwrap_or_default();
                        let is = run.balance(&Account { asset, owner: Arc::clone(&self.by) }).map_err(Argued::Stop)?;
                        Datum::Int(is.value - is.held)
                    }
                    Err(reason) => return Err(wrong(reason)),
                },
                (None, Some(default)) => default.run(&mut Plain(&names)).map_err(Argued::Stop)?,
                (None, None) => return Err(wrong("is missing")),
            };
            names.insert(Arc::clone(&parameter.name), datum);
        }
        Ok(names)
    }
}

enum Argued {
    Stop(Stop),
    Wrong(Arc<str>, String),
}

/// Nothing is known.
struct Nothing;

impl Books for Nothing {
    fn account(&self, _: &Account) -> Option<super::plan::Balance> {
        None
    }

    fn mark(&self, _: &str) -> Option<Option<super::plan::Mark>> {
        None
    }
}

/// Names only: what the default of an argument may refer to.
struct Plain<'a>(&'a BTreeMap<Arc<str>, Datum>);

impl Reader for Plain<'_> {
    type Stop = Stop;

    fn name(&mut self, name: &str) -> Result<Datum, Stop> {
        self.0.get(name).cloned().ok_or(Stop::NO_NUMBER)
    }

    fn read(&mut self, _: Read, _: &[Datum]) -> Result<Datum, Stop> {
        Err(Stop::NO_NUMBER)
    }
}

/// One play that is being run.
struct Frame<'f, 'a> {
    run: &'f mut Run<'a>,
    play: &'a Played,
    name: &'a Arc<str>,
    by: &'f Arc<str>,
    names: BTreeMap<Arc<str>, Datum>,
    told: &'f mut Told,
    depth: usize,
    call: &'a Call,
}

impl Reader for Frame<'_, '_> {
    type Stop = Stop;

    fn name(&mut self, name: &str) -> Result<Datum, Stop> {
        if let Some(known) = self.names.get(name) {
            return Ok(known.clone());
        }
        let datum = if let Some(node) = self.play.lets.get(name) {
            node.run(self)?
        } else if let Some((from, to)) = self.play.rolls.get(name) {
            let (from, to) = (from.int(self)?, to.int(self)?);
            Datum::Int(self.run.draw(&format!("{}.{name}", self.name), from, to)?)
        } else {
            // What a step was to draw and has not.
            Datum::Text("".into())
        };
        self.names.insert(name.into(), datum.clone());
        Ok(datum)
    }

    fn read(&mut self, read: Read, args: &[Datum]) -> Result<Datum, Stop> {
        self.run.read(read, args)
    }
}

impl<'a> Frame<'_, 'a> {
    fn whole(&mut self) -> Result<(), Stop> {
        for needed in &self.play.needs {
            let refused = match &needed.what {
                Needs::Condition(node) if node.truth(self)? => continue,
                Needs::Condition(_) => Refusal::new(&needed.or_else),
                Needs::Timer(timer) => match self.run.cooling(timer, self.by)? {
                    Some(at) => Refusal::early(&needed.or_else, at),
                    None => continue,
                },
            };
            if self.run.is_guessing() {
                continue;
            }
            let with = needed.with.iter().map(|(name, node)| Ok((Arc::clone(name), node.run(self)?))).collect::<Result<_, Stop>>()?;
            return Err(Stop::Refused(Refusal { with, ..refused }));
        }
        let play = self.play;
        self.steps(&play.steps)?;
        // What a play that followed returns is not told: only whether it was refused.
        let is_first = self.depth == 0;
        for (name, returned) in play.returns.iter().filter(|_| is_first) {
            let returned = match returned {
                Returns::Node(node) => Returned::Datum(node.run(self)?),
                Returns::Upcoming(play, limit) => {
                    let mut times = self.times(play)?;
                    times.truncate(*limit);
                    Returned::Times(times)
                }
            };
            self.told.returns.push((Arc::clone(name), returned));
        }
        Ok(())
    }

    fn steps(&mut self, steps: &'a [Step]) -> Result<(), Stop> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &'a Step) -> Result<(), Stop> {
        match step {
            Step::Move(moving) => self.moving(moving),
            Step::Claim { timer, of, seconds, or_else } => {
                let owner = self.owner(of.as_ref())?;
                let instead = seconds.as_ref().map(|node| node.int(self)).transpose()?.map(span).transpose()?;
                self.run.claim(timer, &owner, instead, or_else)
            }
            Step::Effect { name, of, value, seconds, merge } => {
                let (owner, value, span) = (self.owner(of.as_ref())?, value.int(self)?, span(seconds.int(self)?)?);
                self.run.effect(name, &owner, (value, span), *merge)
            }
            Step::Count(counting) => self.count(counting),
            Step::Craft { recipe, event, fee } => self.craft(recipe, event.as_ref(), fee.as_ref()),
            Step::Draw { table, to, event, nothing, full, name } => {
                let drawn = self.draw(table, to.as_ref(), event.as_ref(), nothing.as_ref(), full.as_ref())?;
                if let Some(name) = name {
                    self.names.insert(Arc::clone(name), Datum::Text(drawn));
                }
                Ok(())
            }
            Step::Schedule { play, seconds, args } => {
                let seconds = seconds.int(self)?;
                let args = args.iter().map(|(name, node)| Ok((Arc::clone(name), node.run(self)?))).collect::<Result<Vec<_>, Stop>>()?;
                self.schedule(play, seconds, &args)
            }
            Step::If { when, then, otherwise } => {
                if when.truth(self)? {
                    self.steps(then)
                } else {
                    self.steps(otherwise)
                }
            }
        }
    }

    /// Whose: the player's, unless it says.
    fn owner(&mut self, of: Option<&Node>) -> Result<Arc<str>, Stop> {
        of.map_or_else(|| Ok(Arc::clone(self.by)), |node| node.text(self))
    }

    fn moving(&mut self, moving: &Moving) -> Result<(), Stop> {
        let (from, to) = (self.side(&moving.from)?, self.side(&moving.to)?);
        let (asset, qty) = (moving.asset.text(self)?, moving.qty.int(self)?);
        let types = moving.types.clone().unwrap_or_else(|| (Arc::clone(self.name), Arc::clone(self.name)));
        let codes = Codes { short: Arc::clone(&moving.short), full: Arc::clone(&moving.full), burn: self.own("@burn") };
        self.transfer(Leg { asset, from: self.own(&from), to: self.own(&to), qty, types }, moving.overflow, &codes)
    }

    /// Whom a formula names. What is the realm's own is named by its definition only, never by what somebody gave.
    fn side(&mut self, node: &Node) -> Result<Arc<str>, Stop> {
        let owner = node.text(self)?;
        let is_said = matches!(node, Node::Value(_)) || matches!(node, Node::Name(name) if &**name == "realm");
        if owner.starts_with('@') && !is_said { Err(Stop::NO_OWNER) } else { Ok(owner) }
    }

    /// What the realm itself gives and takes stands under the play's name, so that faucets and sinks can be told apart.
    fn own(&self, owner: &str) -> Arc<str> {
        if matches!(owner, "@mint" | "@burn") { format!("{owner}:{}", self.name).into() } else { owner.into() }
    }

    /// Moves something, and does what follows from its events.
    fn transfer(&mut self, leg: Leg, overflow: IfMore, codes: &Codes) -> Result<(), Stop> {
        let legs = self.run.transfer(leg, overflow, codes)?;
        let sides = legs.into_iter().flat_map(|leg| [(leg.from, leg.types.0), (leg.to, leg.types.1)]);
        for (owner, event) in sides.filter(|(owner, _)| !owner.starts_with('@')) {
            let realm = self.run.realm;
            for (play, mode) in realm.rules.get(&event).into_iter().flatten() {
                match mode {
                    Mode::After => self.later(play, &owner, Due::In(Micros::ZERO), &[])?,
                    Mode::Inline => self.follow(play, &owner)?,
                }
            }
        }
        Ok(())
    }

    /// Runs a play that follows, in the same commit. If it is refused it has done nothing, and this one goes on.
    fn follow(&mut self, name: &'a Arc<str>, owner: &Arc<str>) -> Result<(), Stop> {
        let realm: &'a Realm = self.run.realm;
        let Some(play) = realm.plays.get(name).filter(|_| self.depth < 8) else { return Ok(()) };
        let (before, was_strict) = (self.run.deeds().clone(), self.run.is_strict);
        self.run.is_strict = true;
        let mut names = self.call.own_names();
        names.insert("by".into(), Datum::Text(Arc::clone(owner)));
        for parameter in &play.args {
            if let Some(default) = &parameter.default {
                let datum = default.run(&mut Plain(&names))?;
                names.insert(Arc::clone(&parameter.name), datum);
            }
        }
        let mut told = Told::default();
        let (depth, call) = (self.depth + 1, self.call);
        let result = Frame { run: self.run, play, name, by: owner, names, told: &mut told, depth, call }.whole();
        self.run.is_strict = was_strict;
        let refused = match result {
            Ok(()) => None,
            Err(Stop::Refused(refusal)) => {
                // What was drawn stays: it is why.
                let draws = self.run.deeds().draws.clone();
                self.run.take_back(&before);
                self.run.deeds().draws = draws;
                self.run.check_moved(&before)?;
                Some(refusal)
            }
            Err(stop) => return Err(stop),
        };
        if self.told.also.len() + told.also.len() >= ALSO_MAX {
            return Err(Stop::TOO_MUCH);
        }
        self.told.also.push((Arc::clone(name), refused));
        self.told.also.append(&mut told.also);
        Ok(())
    }

    fn count(&mut self, counting: &Counting) -> Result<(), Stop> {
        let name = format!("{}:{}:{}", counting.kind, counting.name, self.owner(counting.of.as_ref())?);
        let seconds = counting.seconds.as_ref().map(|node| node.int(self)).transpose()?.map(span).transpose()?;
        let value = match &counting.to {
            CountTo::Clear => {
                return self.run.put_mark(&name, Then::Forget);
            }
            CountTo::Set(node) => node.int(self)?,
            CountTo::Add(node) => {
                let added = node.int(self)?;
                let kept = self.run.mark(&name)?;
                let old = kept.map_or_else(|| self.run.realm.default_of(counting.kind, &counting.name), |mark| mark.value);
                old.checked_add(added).ok_or(Stop::NO_NUMBER)?
            }
        };
        let until = match seconds {
            Some(Micros::ZERO) => {
                return self.run.put_mark(&name, Then::Forget);
            }
            Some(span) => Due::In(span),
            None => Due::At(self.run.mark(&name)?.map_or(Micros::MAX, |mark| mark.until)),
        };
        self.run.put_number(&name, value, until)
    }

    fn craft(&mut self, recipe: &Node, event: Option<&Arc<str>>, fee: Option<&Arc<str>>) -> Result<(), Stop> {
        let name = recipe.text(self)?;
        let realm = self.run.realm;
        let Some(recipe) = realm.recipe(&name) else { return Err(Stop::Refused(Refusal::new("unknown"))) };
        let by = Arc::clone(self.by);
        let gives: Vec<(Arc<str>, i64)> = match recipe.give.is_empty() {
            true => vec![(name, 1)],
            false => recipe.give.iter().map(|(asset, qty)| (asset.as_str().into(), int(*qty))).collect(),
        };
        let takes: Vec<(Arc<str>, i64)> = recipe.take.iter().map(|(asset, qty)| (asset.as_str().into(), int(*qty))).collect();
        for (asset, qty) in &gives {
            let account = Account { asset: Arc::clone(asset), owner: Arc::clone(&by) };
            let room = self.run.room(&account)?;
            if room < *qty && !self.run.is_guessing() && !takes.iter().any(|(taken, _)| taken == asset) {
                return Err(Stop::Refused(Refusal::full(STACK, asset, room)));
            }
        }
        for (asset, price) in &takes {
            let is = self.run.balance(&Account { asset: Arc::clone(asset), owner: Arc::clone(&by) })?;
            if is.value - is.held < *price && !self.run.is_guessing() {
                return Err(Stop::Refused(Refusal::short(FUNDS, asset, is.value - is.held, *price)));
            }
        }
        let codes = Codes::usual(self.own("@burn"));
        let types = |event: Option<&Arc<str>>| {
            event.map_or_else(|| (Arc::clone(self.name), Arc::clone(self.name)), |one| (Arc::clone(one), Arc::clone(one)))
        };
        let (made, paid) = (types(event), types(fee));
        for (asset, qty) in takes {
            let leg = Leg { asset, from: Arc::clone(&by), to: self.own("@burn"), qty, types: paid.clone() };
            self.transfer(leg, IfMore::Reject, &codes)?;
        }
        for (asset, qty) in gives {
            let leg = Leg { asset, from: self.own("@mint"), to: Arc::clone(&by), qty, types: made.clone() };
            self.transfer(leg, IfMore::Reject, &codes)?;
        }
        Ok(())
    }

    /// What was drawn of a table; an empty text if nothing was.
    fn draw(
        &mut self,
        table_name: &Arc<str>,
        to: Option<&Node>,
        event: Option<&Arc<str>>,
        nothing: Option<&Arc<str>>,
        full: Option<&Arc<str>>,
    ) -> Result<Arc<str>, Stop> {
        let owner = to.map_or_else(|| Ok(Arc::clone(self.by)), |to| self.side(to))?;
        let realm = self.run.realm;
        let Some(table) = realm.table(table_name) else { return Err(Stop::NO_NUMBER) };
        let mut drops: Vec<(Arc<str>, i64)> = table.drops.iter().map(|(asset, weight)| (asset.as_str().into(), int(*weight))).collect();
        let mut of = int(table.of);
        let refused = |code: Option<&Arc<str>>, refusal: Refusal| match code {
            Some(_) => Err(Stop::Refused(refusal)),
            None => Ok("".into()),
        };
        loop {
            let mut drawn = self.run.draw(&format!("{}.{table_name}", self.name), 1, of.max(1))?;
            let found = drops.iter().position(|(_, weight)| {
                drawn -= weight;
                drawn <= 0
            });
            let Some((asset, weight)) = found.and_then(|at| drops.get(at)).cloned() else {
                return refused(nothing, Refusal::new(nothing.map_or("", |code| code)));
            };
            let room = self.run.room(&Account { asset: Arc::clone(&asset), owner: Arc::clone(&owner) })?;
            if room < 1 && !self.run.is_guessing() {
                if table.full == IfFull::Lose {
                    return refused(full, Refusal::full(full.map_or("", |code| code), &asset, 0));
                }
                drops.retain(|(one, _)| *one != asset);
                of -= weight;
                continue;
            }
            let event = event.unwrap_or(self.name);
            let types = (Arc::clone(event), Arc::clone(event));
            let leg = Leg { asset: Arc::clone(&asset), from: self.own("@mint"), to: owner, qty: 1, types };
            self.transfer(leg, IfMore::Reject, &Codes::usual(self.own("@burn")))?;
            return Ok(asset);
        }
    }

    /// The times at which a play is scheduled and which are to come, the next first.
    fn times(&mut self, play: &str) -> Result<Vec<Micros>, Stop> {
        let now = self.run.now;
        let mark = self.run.mark(&format!("s:{play}"))?;
        let payload = mark.map(|mark| mark.payload).unwrap_or_default();
        let (chunks, _) = payload.as_chunks::<8>();
        let times = chunks.iter().filter_map(|chunk| Micros::new(u64::from_le_bytes(*chunk)));
        Ok(times.filter(|time| *time > now).collect())
    }

    fn schedule(&mut self, play: &'a Arc<str>, seconds: i64, args: &[(Arc<str>, Datum)]) -> Result<(), Stop> {
        let at = self.run.now.plus(span(seconds)?);
        let mut times = self.times(play)?;
        times.push(at);
        times.sort();
        times.truncate(TIMES_MAX);
        let last = times.last().copied().unwrap_or(at);
        let payload = times.iter().flat_map(|time| time.get().to_le_bytes()).collect();
        // The number tells this list from others that end at the same time.
        let value = i64::try_from(at.get()).unwrap_or(0);
        self.run.put_mark(
            &format!("s:{play}"),
            Then::Write { value, until: Due::At(last.plus(Micros::saturating(1))), at: Due::At(Micros::ZERO), payload },
        )?;
        self.later(play, &Arc::clone(self.by), Due::At(at), args)
    }

    fn later(&mut self, play: &Arc<str>, by: &Arc<str>, due: Due, args: &[(Arc<str>, Datum)]) -> Result<(), Stop> {
        let number = u8::try_from(self.run.deeds().later.len()).ok().filter(|number| *number < LATER_MAX).ok_or(Stop::TOO_MUCH)?;
        let scheduled =
            Scheduled { number, play: Arc::clone(play), by: Arc::clone(by), guild: Arc::clone(&self.call.guild), args: args.to_vec() };
        self.run.deeds().later.push((due, scheduled.pack()));
        Ok(())
    }
}

/// A play that is scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Which of those that one commit scheduled.
    pub number: u8,
    /// The play.
    pub play: Arc<str>,
    /// Who plays.
    pub by: Arc<str>,
    /// Where.
    pub guild: Arc<str>,
    /// What it is given.
    pub args: Vec<(Arc<str>, Datum)>,
}

impl Scheduled {
    fn pack(&self) -> Box<[u8]> {
        let mut out = vec![self.number];
        put_code(&mut out, &self.play);
        put_code(&mut out, &self.guild);
        put_short(&mut out, self.by.as_bytes());
        out.push(u8::try_from(self.args.len()).expect("arguments are few"));
        for (name, datum) in &self.args {
            put_code(&mut out, name);
            put_datum(&mut out, datum);
        }
        out.into()
    }

    /// Reads it back, with the commit that scheduled it before it.
    pub fn read(mut rest: &[u8]) -> Option<(u64, Scheduled)> {
        let seq = u64::from_be_bytes(record::take(&mut rest)?);
        let [number] = record::take(&mut rest)?;
        let (play, guild) = (take_code(&mut rest)?.into(), take_code(&mut rest)?.into());
        let by = super::entry::take_text(&mut rest)?;
        let [many] = record::take(&mut rest)?;
        let args = (0..many).map(|_| Some((take_code(&mut rest)?.into(), take_datum(&mut rest)?)));
        Some((seq, Scheduled { number, play, by, guild, args: args.collect::<Option<Vec<_>>>()? }))
    }
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
