//! Reads a definition: every formula, every reference. All faults are told at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Fault;
use super::hints::hints;
use super::names::{CHAIN_OF_NAMES_MAX, Names};
use crate::id::Name;
use crate::pick::Zone;
use crate::realm::definition::{self, ArgKind, Count, Definition, Formula, Mode, Play, Return, Types};
use crate::realm::formula::{self, Datum, Node, Scope, Type};
use crate::realm::plan::{AMOUNT_MAX, FUNDS, STACK};
use crate::realm::play::{CountTo, Counting, Moving, Needed, Needs, Parameter, Played, Returns, Step};
use crate::realm::timer::Clockwork;

/// The bounds of a play.
const LEGS_MAX: usize = 64;
const ROLLS_MAX: usize = 16;
const NEEDS_MAX: usize = 32;
/// The most of anything else in a definition.
const PARTS_MAX: usize = 1_000;
/// How many plays may follow from each other in one commit.
const CHAIN_MAX: usize = 4;
/// The most names, values and facts of a play.
const NAMES_MAX: usize = 64;
const TOLD_MAX: usize = 32;

/// What the accounts of the realm itself are called.
const OWN: [&str; 4] = ["@mint", "@burn", "@house", "@escrow"];
/// What a play cannot be called: commits of other kinds are.
const RESERVED: [&str; 5] = ["commit", "hold", "capture", "release", "revert"];

pub(super) type Plays = BTreeMap<Arc<str>, Played>;
type Timers = BTreeMap<Arc<str>, Clockwork>;
pub(super) type Rules = BTreeMap<Arc<str>, Vec<(Arc<str>, Mode)>>;

pub(super) fn read(definition: &Definition) -> Result<(Plays, Timers, Rules), Vec<Fault>> {
    let mut reading = Reading { definition, faults: Vec::new(), types: BTreeSet::new() };
    reading.assets();
    let timers = reading.timers();
    reading.tables();
    let mut plays: Plays = definition.plays.iter().map(|(name, play)| (text(name), reading.play(name, play))).collect();
    let rules = reading.rules();
    if !reading.faults.is_empty() {
        return Err(reading.faults);
    }
    for (name, hints) in hints(&plays, &rules) {
        if let Some(play) = plays.get_mut(&name) {
            play.hints = hints;
        }
    }
    Ok((plays, timers, rules))
}

struct Reading<'d> {
    definition: &'d Definition,
    faults: Vec<Fault>,
    /// The types of events that there are.
    types: BTreeSet<Arc<str>>,
}

fn text(name: &Name) -> Arc<str> {
    name.as_str().into()
}

impl<'d> Reading<'d> {
    fn fault(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        // Who wrote this many at once will look at the first.
        if self.faults.len() < 100 {
            self.faults.push(Fault { path: path.into(), reason: reason.into() });
        }
    }

    fn assets(&mut self) {
        let definition = self.definition;
        if definition.assets.is_empty() {
            self.fault("assets", "must name at least one asset");
        }
        let parts = [definition.assets.len(), definition.timers.len(), definition.effects.len(), definition.counters.len()];
        let more =
            [definition.boxes.len(), definition.tables.len(), definition.recipes.len(), definition.plays.len(), definition.rules.len()];
        if parts.into_iter().chain(more).any(|many| many > PARTS_MAX) {
            self.fault("", format!("has more than {PARTS_MAX} of one kind"));
        }
        for (name, asset) in &definition.assets {
            let path = format!("assets.{name}");
            let max = asset.max.map_or(Some(AMOUNT_MAX), |max| i64::try_from(max).ok().filter(|max| (1..=AMOUNT_MAX).contains(max)));
            let floor = asset.floor.unwrap_or(0);
            if max.is_none() {
                self.fault(format!("{path}.max"), "must be between 1 and 2^53 - 1");
            }
            if !(-AMOUNT_MAX..=0).contains(&floor) {
                self.fault(format!("{path}.floor"), "must be between -(2^53 - 1) and 0");
            }
        }
    }

    fn timers(&mut self) -> Timers {
        let zone = self.definition.timezone.clone().unwrap_or_else(Zone::utc);
        let mut timers = Timers::new();
        for (name, timer) in &self.definition.timers {
            match Clockwork::new(timer, &zone) {
                Ok(clockwork) => drop(timers.insert(text(name), clockwork)),
                Err(reason) => self.fault(format!("timers.{name}"), reason),
            }
        }
        timers
    }

    fn tables(&mut self) {
        let definition = self.definition;
        for (name, table) in &definition.tables {
            let path = format!("tables.{name}");
            let sum = table.drops.values().try_fold(0_u64, |sum, weight| sum.checked_add(*weight));
            if table.of == 0 || i64::try_from(table.of).is_err() {
                self.fault(format!("{path}.of"), "must be between 1 and 2^63 - 1");
            } else if sum.is_none_or(|sum| sum > table.of) {
                self.fault(format!("{path}.drops"), format!("the weights must add up to at most {}", table.of));
            }
            table.drops.keys().for_each(|asset| self.asset(&format!("{path}.drops.{asset}"), asset.as_str()));
        }
        for (name, recipe) in &definition.recipes {
            let path = format!("recipes.{name}");
            if recipe.give.is_empty() {
                self.asset(&path, name.as_str());
            }
            if recipe.take.is_empty() {
                self.fault(format!("{path}.take"), "must name at least one asset");
            }
            for (part, list) in [("take", &recipe.take), ("give", &recipe.give)] {
                for (asset, qty) in list {
                    self.asset(&format!("{path}.{part}.{asset}"), asset.as_str());
                    if !i64::try_from(*qty).is_ok_and(|qty| (1..=AMOUNT_MAX).contains(&qty)) {
                        self.fault(format!("{path}.{part}.{asset}"), "must be between 1 and 2^53 - 1");
                    }
                }
            }
        }
    }

    fn asset(&mut self, path: &str, asset: &str) {
        if !self.definition.assets.keys().any(|name| name.as_str() == asset) {
            self.fault(path, format!("there is no asset {asset}"));
        }
    }

    fn rules(&mut self) -> Rules {
        let mut rules = Rules::new();
        for (at, rule) in self.definition.rules.iter().enumerate() {
            let path = format!("rules[{at}]");
            if !self.types.contains(rule.on.as_str()) {
                let types = self.types.iter().map(|one| &**one).collect::<Vec<_>>().join(", ");
                self.fault(format!("{path}.on"), format!("no play leaves an event of the type {}; there are: {types}", rule.on));
            }
            match self.definition.plays.get(&rule.play) {
                None => self.fault(format!("{path}.play"), format!("there is no play {}", rule.play)),
                Some(play) if play.args.values().any(|arg| arg.default.is_none()) => {
                    self.fault(format!("{path}.play"), format!("{} needs arguments, and a rule has none to give", rule.play));
                }
                Some(_) => {}
            }
            rules.entry(text(&rule.on)).or_default().push((text(&rule.play), rule.mode));
        }
        if let Some(name) = self.endless(&rules) {
            self.fault("rules", format!("more than {CHAIN_MAX} plays follow from {name} in one commit, or it follows from itself"));
        }
        rules
    }

    /// The first play from which more follow in the same commit, one from the other, than may.
    fn endless(&self, rules: &Rules) -> Option<&'d str> {
        let plays = self.definition.plays.iter().map(|(name, play)| {
            let mut types = BTreeSet::new();
            event_types(name.as_str(), &play.steps, &mut types);
            (name.as_str(), types)
        });
        let plays: Vec<_> = plays.collect();
        // Those from which so many follow, one more with each turn. What follows from itself stays.
        let mut leading: BTreeSet<&str> = plays.iter().map(|(name, _)| *name).collect();
        for _ in 0..=CHAIN_MAX {
            let leads = |(_, follow): &(_, &Vec<(Arc<str>, Mode)>)| {
                follow.iter().any(|(play, mode)| *mode == Mode::Inline && leading.contains(&**play))
            };
            let events: BTreeSet<&Arc<str>> = rules.iter().filter(leads).map(|(event, _)| event).collect();
            leading = plays.iter().filter(|(_, types)| types.iter().any(|one| events.contains(one))).map(|(name, _)| *name).collect();
        }
        leading.first().copied()
    }

    fn play(&mut self, name: &Name, play: &'d Play) -> Played {
        let path = format!("plays.{name}");
        if RESERVED.contains(&name.as_str()) {
            self.fault(&path, format!("must not be called one of {}", RESERVED.join(", ")));
        }
        let parts = [
            ("roll", play.roll.len(), ROLLS_MAX),
            ("need", play.need.len(), NEEDS_MAX),
            ("args", play.args.len(), 16),
            ("let", play.lets.len(), NAMES_MAX),
            ("return", play.returns.len(), TOLD_MAX),
        ];
        for (part, many, most) in parts {
            if many > most {
                self.fault(format!("{path}.{part}"), format!("are {many}; at most {most} are allowed"));
            }
        }
        if play.need.iter().any(|need| need.with.len() > TOLD_MAX) {
            self.fault(format!("{path}.need"), format!("with has more than {TOLD_MAX} facts"));
        }
        if play.lets.len() > NAMES_MAX || play.roll.len() > ROLLS_MAX {
            // They are not read: there may be very many.
            return Played::default();
        }
        if legs(self.definition, &play.steps) > LEGS_MAX {
            self.fault(format!("{path}.do"), format!("may move more than {LEGS_MAX} times"));
        }
        let mut types = BTreeSet::new();
        event_types(name.as_str(), &play.steps, &mut types);
        self.types.extend(types);
        PlayReading { path, play, names: Names::new(self.definition, play), all: self }.whole()
    }
}

fn legs(definition: &Definition, steps: &[definition::Step]) -> usize {
    let most = definition.recipes.values().map(|recipe| recipe.take.len() + recipe.give.len().max(1)).max().unwrap_or(0);
    let of = |step: &definition::Step| match step {
        // What overflows is burnt, which is one more.
        definition::Step::Move(one) => 1 + usize::from(one.overflow == definition::Overflow::Burn),
        definition::Step::Draw(_) => 1,
        definition::Step::Craft(_) => most,
        definition::Step::If(one) => legs(definition, &one.then).max(legs(definition, &one.otherwise)),
        _ => 0,
    };
    steps.iter().map(of).sum()
}

pub(super) fn event_types(play: &str, steps: &[definition::Step], types: &mut BTreeSet<Arc<str>>) {
    for step in steps {
        match step {
            definition::Step::Move(one) => match &one.event {
                None => drop(types.insert(play.into())),
                Some(Types::Both(both)) => drop(types.insert(text(both))),
                Some(Types::Each(from, to)) => types.extend([text(from), text(to)]),
            },
            definition::Step::Craft(one) => {
                types.extend([&one.event, &one.fee].map(|event| event.as_ref().map_or_else(|| play.into(), text)));
            }
            definition::Step::Draw(one) => drop(types.insert(one.event.as_ref().map_or_else(|| play.into(), text))),
            definition::Step::If(one) => {
                event_types(play, &one.then, types);
                event_types(play, &one.otherwise, types);
            }
            _ => {}
        }
    }
}

struct PlayReading<'r, 'd> {
    path: String,
    play: &'d Play,
    names: Names<'d>,
    all: &'r mut Reading<'d>,
}

impl PlayReading<'_, '_> {
    fn whole(mut self) -> Played {
        let play = self.play;
        self.check_names();
        let args = play.args.iter().map(|(name, arg)| self.arg(name, arg)).collect();
        let mut lets = BTreeMap::new();
        for name in play.lets.keys() {
            match self.names.bind(name.as_str()) {
                Some(Ok((node, _))) => drop(lets.insert(text(name), node)),
                Some(Err(reason)) => self.fault(&format!("let.{name}"), reason),
                None => {}
            }
        }
        let mut rolls = BTreeMap::new();
        for (name, (from, to)) in &play.roll {
            // Of those that refer to each other in a circle the first is named.
            self.names.type_of(name.as_str());
            let from = self.node(&format!("roll.{name}[0]"), from, Some(Type::Int));
            rolls.insert(text(name), (from, self.node(&format!("roll.{name}[1]"), to, Some(Type::Int))));
        }
        for name in std::mem::take(&mut self.names.endless) {
            let part = if play.roll.keys().any(|one| one.as_str() == &*name) { "roll" } else { "let" };
            self.fault(
                &format!("{part}.{name}"),
                format!("refers to itself, or through more than {CHAIN_OF_NAMES_MAX} other names to something"),
            );
        }
        let needs = play.need.iter().enumerate().map(|(at, need)| self.need(at, need)).collect();
        let steps = self.steps("do", &play.steps, 0);
        let returns = play.returns.iter().map(|(name, returned)| (text(name), self.returned(name, returned))).collect();
        for name in play.sample.keys() {
            if !play.args.contains_key(name) {
                self.fault(&format!("sample.{name}"), "is no argument of the play");
            }
        }
        let sample = play.sample.iter().map(|(name, value)| (text(name), value.0.as_str().into())).collect();
        Played { internal: play.internal, args, lets, rolls, needs, steps, returns, sample, hints: Vec::new() }
    }

    fn fault(&mut self, part: &str, reason: impl Into<String>) {
        let path = format!("{}.{part}", self.path);
        self.all.fault(path, reason);
    }

    fn check_names(&mut self) {
        let play = self.play;
        let mut seen = BTreeSet::from(["by", "realm", "key"]);
        let parts =
            [("args", play.args.keys().collect::<Vec<_>>()), ("let", play.lets.keys().collect()), ("roll", play.roll.keys().collect())];
        for (part, names) in parts {
            for name in names {
                let word = name.as_str();
                let fits = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if !fits {
                    self.fault(
                        &format!("{part}.{name}"),
                        "formulas refer to it: it must be letters, digits and '_', and begin with no digit",
                    );
                }
                if !seen.insert(word) {
                    self.fault(&format!("{part}.{name}"), "is the name of something else here, too");
                }
                if self.all.definition.assets.contains_key(name) {
                    self.fault(&format!("{part}.{name}"), "is the name of an asset, too: which one would be meant?");
                }
            }
        }
    }

    fn node(&mut self, part: &str, formula: &Formula, wanted: Option<Type>) -> Node {
        match formula::read(&formula.0, wanted, &mut self.names) {
            Ok((node, _)) => node,
            Err(reason) => {
                self.fault(part, reason);
                Node::Value(Datum::Int(0))
            }
        }
    }

    fn opt(&mut self, part: &str, formula: &Option<Formula>, wanted: Type) -> Option<Node> {
        formula.as_ref().map(|formula| self.node(part, formula, Some(wanted)))
    }

    /// The name of an asset or a recipe as it is, or a formula of it.
    fn name(&mut self, part: &str, formula: &Formula, is_one: impl Fn(&Definition, &Name) -> bool) -> Node {
        let is_name = Name::new(&formula.0).is_ok_and(|name| is_one(self.all.definition, &name));
        if is_name { Node::Value(Datum::Text(formula.0.as_str().into())) } else { self.node(part, formula, Some(Type::Text)) }
    }

    fn owner(&mut self, part: &str, formula: &Formula) -> Node {
        let node = match formula.0.starts_with('@') {
            true => Node::Value(Datum::Text(formula.0.as_str().into())),
            false => self.node(part, formula, Some(Type::Text)),
        };
        if let Node::Value(Datum::Text(owner)) = &node
            && owner.starts_with('@')
            && !OWN.contains(&&**owner)
        {
            self.fault(part, format!("the realm's own accounts are {}", OWN.join(", ")));
        }
        node
    }

    fn arg(&mut self, name: &Name, arg: &definition::Arg) -> Parameter {
        let part = format!("args.{name}");
        if let Some(asset) = &arg.all {
            let path = format!("{}.{part}.all", self.path);
            self.all.asset(&path, asset.as_str());
        }
        if arg.kind != ArgKind::Amount && (arg.all.is_some() || arg.round_up) {
            self.fault(&part, "all and round_up are for amounts only");
        }
        let wanted = if arg.kind == ArgKind::Amount { Type::Int } else { Type::Text };
        Parameter {
            name: text(name),
            kind: arg.kind,
            or_else: arg.or_else.as_ref().map(text),
            all: arg.all.as_ref().map(text),
            round_up: arg.round_up,
            default: self.opt(&format!("{part}.default"), &arg.default, wanted),
        }
    }

    fn need(&mut self, at: usize, need: &definition::Need) -> Needed {
        let part = format!("need[{at}]");
        let what = match (&need.condition, &need.timer) {
            (Some(condition), None) => Needs::Condition(self.node(&format!("{part}.if"), condition, Some(Type::Bool))),
            (None, Some(timer)) => {
                self.timer(&format!("{part}.timer"), timer);
                Needs::Timer(text(timer))
            }
            _ => {
                self.fault(&part, "needs either if or timer");
                Needs::Condition(Node::Value(Datum::Bool(true)))
            }
        };
        let with = need.with.iter().map(|(name, formula)| (text(name), self.node(&format!("{part}.with.{name}"), formula, None))).collect();
        Needed { what, or_else: text(&need.or_else), with }
    }

    fn timer(&mut self, part: &str, timer: &Name) {
        if !self.all.definition.timers.contains_key(timer) {
            self.fault(part, format!("there is no timer {timer}"));
        }
    }

    fn other_play(&mut self, part: &str, play: &Name) {
        if !self.all.definition.plays.contains_key(play) {
            self.fault(part, format!("there is no play {play}"));
        }
    }

    fn returned(&mut self, name: &Name, returned: &Return) -> Returns {
        let part = format!("return.{name}");
        match returned {
            Return::Formula(formula) => Returns::Node(self.node(&part, formula, None)),
            Return::Upcoming(upcoming) => {
                self.other_play(&format!("{part}.upcoming"), &upcoming.upcoming);
                if upcoming.limit == 0 || upcoming.limit > 100 {
                    self.fault(&format!("{part}.limit"), "must be between 1 and 100");
                }
                Returns::Upcoming(text(&upcoming.upcoming), upcoming.limit)
            }
        }
    }

    fn steps(&mut self, part: &str, steps: &[definition::Step], depth: usize) -> Vec<Step> {
        if depth > 8 {
            self.fault(part, "nests more than 8 deep");
            return Vec::new();
        }
        steps.iter().enumerate().map(|(at, step)| self.step(&format!("{part}[{at}]"), step, depth)).collect()
    }

    fn step(&mut self, part: &str, step: &definition::Step, depth: usize) -> Step {
        match step {
            definition::Step::Move(one) => self.moving(&format!("{part}.move"), one),
            definition::Step::Claim(one) => {
                let part = format!("{part}.claim");
                self.timer(&format!("{part}.timer"), &one.timer);
                Step::Claim {
                    timer: text(&one.timer),
                    of: self.opt(&format!("{part}.of"), &one.of, Type::Text),
                    seconds: self.opt(&format!("{part}.for"), &one.seconds, Type::Int),
                    or_else: one.or_else.as_ref().map_or_else(|| "ttl".into(), text),
                }
            }
            definition::Step::Effect(one) => {
                let part = format!("{part}.effect");
                if !self.all.definition.effects.contains_key(&one.name) {
                    self.fault(&format!("{part}.name"), format!("there is no effect {}", one.name));
                }
                Step::Effect {
                    name: text(&one.name),
                    of: self.opt(&format!("{part}.of"), &one.of, Type::Text),
                    value: self.node(&format!("{part}.value"), &one.value, Some(Type::Int)),
                    seconds: self.node(&format!("{part}.for"), &one.seconds, Some(Type::Int)),
                    merge: one.merge,
                }
            }
            definition::Step::Counter(one) => {
                let is_there = self.all.definition.counters.contains_key(&one.name);
                self.counting(&format!("{part}.counter"), one, 'c', is_there)
            }
            definition::Step::Box(one) => {
                let is_there = self.all.definition.boxes.contains_key(&one.name);
                self.counting(&format!("{part}.box"), one, 'b', is_there)
            }
            definition::Step::Craft(one) => Step::Craft {
                recipe: self.name(&format!("{part}.craft.recipe"), &one.recipe, |definition, name| definition.recipes.contains_key(name)),
                event: one.event.as_ref().map(text),
                fee: one.fee.as_ref().map(text),
            },
            definition::Step::Draw(one) => {
                let part = format!("{part}.draw");
                if !self.all.definition.tables.contains_key(&one.table) {
                    self.fault(&format!("{part}.table"), format!("there is no table {}", one.table));
                }
                Step::Draw {
                    table: text(&one.table),
                    to: self.opt(&format!("{part}.to"), &one.to, Type::Text),
                    event: one.event.as_ref().map(text),
                    nothing: one.nothing.as_ref().map(text),
                    full: one.full.as_ref().map(text),
                    name: one.name.as_ref().map(text),
                }
            }
            definition::Step::Schedule(one) => self.schedule(&format!("{part}.schedule"), one),
            definition::Step::If(one) => Step::If {
                when: self.node(&format!("{part}.if.when"), &one.when, Some(Type::Bool)),
                then: self.steps(&format!("{part}.if.then"), &one.then, depth + 1),
                otherwise: self.steps(&format!("{part}.if.else"), &one.otherwise, depth + 1),
            },
        }
    }

    fn moving(&mut self, part: &str, one: &definition::Move) -> Step {
        Step::Move(Moving {
            from: self.owner(&format!("{part}.from"), &one.from),
            to: self.owner(&format!("{part}.to"), &one.to),
            asset: self.name(&format!("{part}.asset"), &one.asset, |definition, name| definition.assets.contains_key(name)),
            qty: self.node(&format!("{part}.qty"), &one.qty, Some(Type::Int)),
            overflow: one.overflow,
            types: one.event.as_ref().map(|event| match event {
                Types::Both(both) => (text(both), text(both)),
                Types::Each(from, to) => (text(from), text(to)),
            }),
            short: one.short.as_ref().map_or_else(|| FUNDS.into(), text),
            full: one.full.as_ref().map_or_else(|| STACK.into(), text),
        })
    }

    fn counting(&mut self, part: &str, one: &Count, kind: char, is_there: bool) -> Step {
        if !is_there {
            let noun = if kind == 'c' { "counter" } else { "box" };
            self.fault(&format!("{part}.name"), format!("there is no {noun} {}", one.name));
        }
        let to = match (&one.set, &one.add, one.clear) {
            (Some(set), None, false) => CountTo::Set(self.node(&format!("{part}.set"), set, Some(Type::Int))),
            (None, Some(add), false) => CountTo::Add(self.node(&format!("{part}.add"), add, Some(Type::Int))),
            (None, None, true) => CountTo::Clear,
            _ => {
                self.fault(part, "needs one of set, add and clear");
                CountTo::Clear
            }
        };
        let of = self.opt(&format!("{part}.of"), &one.of, Type::Text);
        Step::Count(Counting { name: text(&one.name), kind, of, to, seconds: self.opt(&format!("{part}.for"), &one.seconds, Type::Int) })
    }

    fn schedule(&mut self, part: &str, one: &definition::Schedule) -> Step {
        self.other_play(&format!("{part}.play"), &one.play);
        let definition = self.all.definition;
        if let Some(play) = definition.plays.get(&one.play) {
            for name in one.args.keys().filter(|name| !play.args.contains_key(*name)) {
                self.fault(&format!("{part}.args.{name}"), format!("{} has no such argument", one.play));
            }
            for (name, _) in play.args.iter().filter(|(name, arg)| arg.default.is_none() && !one.args.contains_key(*name)) {
                self.fault(&format!("{part}.args"), format!("{} needs {name}", one.play));
            }
        }
        let args = one.args.iter().map(|(name, formula)| (text(name), self.node(&format!("{part}.args.{name}"), formula, None))).collect();
        Step::Schedule { play: text(&one.play), seconds: self.node(&format!("{part}.in"), &one.seconds, Some(Type::Int)), args }
    }
}
