//! The names that formulas of a play know, and their types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::Name;
use crate::realm::definition::{self, ArgKind, Definition, Play};
use crate::realm::formula::{self, Node, Read, Scope, Type};

/// How many names may refer to each other, one to the next.
pub(super) const CHAIN_OF_NAMES_MAX: usize = 16;

/// The names that formulas of a play know.
pub(super) struct Names<'d> {
    definition: &'d Definition,
    play: &'d Play,
    /// What was drawn, under the names that steps give it.
    drawn: BTreeSet<&'d str>,
    lets: BTreeMap<Arc<str>, Result<(Node, Type), String>>,
    /// Rolls whose bounds were read: once, however often they are referred to.
    rolls: BTreeSet<Arc<str>>,
    /// Those that are being read: one that refers to itself has no value.
    open: Vec<Arc<str>>,
    /// Those that do, or whose chain of names is too long.
    pub(super) endless: BTreeSet<Arc<str>>,
}

impl<'d> Names<'d> {
    pub(super) fn new(definition: &'d Definition, play: &'d Play) -> Names<'d> {
        fn drawn<'d>(steps: &'d [definition::Step], names: &mut BTreeSet<&'d str>) {
            for step in steps {
                match step {
                    definition::Step::Draw(one) => names.extend(one.name.as_ref().map(Name::as_str)),
                    definition::Step::If(one) => [&one.then, &one.otherwise].into_iter().for_each(|steps| drawn(steps, names)),
                    _ => {}
                }
            }
        }
        let (rolls, endless) = (BTreeSet::new(), BTreeSet::new());
        let mut names = Names { definition, play, drawn: BTreeSet::new(), lets: BTreeMap::new(), rolls, open: Vec::new(), endless };
        drawn(&play.steps, &mut names.drawn);
        names
    }

    pub(super) fn bind(&mut self, name: &str) -> Option<Result<(Node, Type), String>> {
        if let Some(known) = self.lets.get(name) {
            return Some(known.clone());
        }
        let formula = self.play.lets.iter().find(|(one, _)| one.as_str() == name).map(|(_, formula)| formula)?;
        if self.open.iter().any(|open| &**open == name) || self.open.len() >= CHAIN_OF_NAMES_MAX {
            // Whoever refers to it has no fault of its own.
            self.endless.insert(name.into());
            return Some(Err(format!("{name} refers to itself")));
        }
        self.open.push(name.into());
        let read = formula::read(&formula.0, None, self);
        self.open.pop();
        self.lets.insert(name.into(), read.clone());
        Some(read)
    }
}

impl Scope for Names<'_> {
    fn type_of(&mut self, name: &str) -> Option<Type> {
        if matches!(name, "by" | "realm" | "key") || self.drawn.contains(name) {
            return Some(Type::Text);
        }
        if let Some((_, arg)) = self.play.args.iter().find(|(one, _)| one.as_str() == name) {
            return Some(if arg.kind == ArgKind::Amount { Type::Int } else { Type::Text });
        }
        if let Some((_, (from, to))) = self.play.roll.iter().find(|(one, _)| one.as_str() == name) {
            if self.rolls.contains(name) {
                return Some(Type::Int);
            }
            // What its bounds refer to must not refer to it.
            if self.open.iter().any(|open| &**open == name) || self.open.len() >= CHAIN_OF_NAMES_MAX {
                self.endless.insert(name.into());
                return Some(Type::Int);
            }
            self.open.push(name.into());
            for bound in [from, to] {
                // Faults are told where they stand.
                let _read = formula::read(&bound.0, Some(Type::Int), self);
            }
            self.open.pop();
            self.rolls.insert(name.into());
            return Some(Type::Int);
        }
        // A fault in it is told where it stands.
        self.bind(name).map(|read| read.map_or(Type::Int, |(_, found)| found))
    }

    fn names(&self) -> Vec<String> {
        let own = ["by", "key", "realm"].into_iter().chain(self.drawn.iter().copied());
        let play = self.play.args.keys().chain(self.play.roll.keys()).chain(self.play.lets.keys()).map(Name::as_str);
        own.chain(play).map(str::to_owned).collect()
    }

    fn check(&self, read: Read, name: &str) -> Result<(), String> {
        let has = |mut names: Box<dyn Iterator<Item = &Name> + '_>| names.any(|one| one.as_str() == name);
        let (noun, is_there) = match read {
            Read::Balance | Read::Available | Read::Room | Read::Tradable => ("asset", has(Box::new(self.definition.assets.keys()))),
            Read::Effect => ("effect", has(Box::new(self.definition.effects.keys()))),
            Read::Counter => ("counter", has(Box::new(self.definition.counters.keys()))),
            Read::Box => ("box", has(Box::new(self.definition.boxes.keys()))),
            Read::Streak | Read::Ready => ("timer", has(Box::new(self.definition.timers.keys()))),
        };
        if is_there { Ok(()) } else { Err(format!("refers to the {noun} {name}, which there is not")) }
    }
}
