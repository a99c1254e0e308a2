//! What a play is likely to ask of the state, found from its formulas: so that one look is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::reading::{Plays, Rules};
use crate::realm::definition::Mode;
use crate::realm::formula::{Datum, Node, Read};
use crate::realm::play::{CountTo, Needs, Played, Returns, Step};

/// The most that is looked at before it is asked for.
const HINTS_MAX: usize = 64;

type Hints = Vec<(Read, Vec<Node>)>;

/// What each play, and those that follow from it in the same commit, are likely to ask of the state. None may follow from itself.
pub(super) fn hints(plays: &Plays, rules: &Rules) -> BTreeMap<Arc<str>, Hints> {
    let mut finding = Finding { plays, rules, of_plays: BTreeMap::new(), of_events: BTreeMap::new() };
    plays.keys().for_each(|name| drop(finding.of_play(name)));
    finding.of_plays
}

/// What was found so far: many may follow from many, and each is gone through once.
struct Finding<'a> {
    plays: &'a Plays,
    rules: &'a Rules,
    of_plays: BTreeMap<Arc<str>, Hints>,
    of_events: BTreeMap<Arc<str>, Hints>,
}

impl Finding<'_> {
    fn of_play(&mut self, name: &Arc<str>) -> Hints {
        if let Some(known) = self.of_plays.get(name) {
            return known.clone();
        }
        let Some(play) = self.plays.get(name) else { return Hints::new() };
        let (mut hints, mut types) = (Hints::new(), BTreeSet::new());
        let mut seen = |read: Read, args: &[Node]| {
            if args.iter().all(|arg| matches!(arg, Node::Value(_) | Node::Name(_))) {
                add(&mut hints, [(read, args.to_vec())]);
            }
        };
        play.nodes(name, &mut |node| node.reads(&mut seen), &mut types);
        for event in &types {
            add(&mut hints, self.of_event(event));
        }
        self.of_plays.insert(Arc::clone(name), hints.clone());
        hints
    }

    fn of_event(&mut self, event: &Arc<str>) -> Hints {
        if let Some(known) = self.of_events.get(event) {
            return known.clone();
        }
        let mut hints = Hints::new();
        for (play, _) in self.rules.get(event).into_iter().flatten().filter(|(_, mode)| *mode == Mode::Inline) {
            add(&mut hints, self.of_play(play));
        }
        self.of_events.insert(Arc::clone(event), hints.clone());
        hints
    }
}

fn add(hints: &mut Hints, more: impl IntoIterator<Item = (Read, Vec<Node>)>) {
    for hint in more {
        if hints.len() < HINTS_MAX && !hints.contains(&hint) {
            hints.push(hint);
        }
    }
}

impl Played {
    /// All formulas, and the types of all events.
    fn nodes(&self, name: &str, seen: &mut dyn FnMut(&Node), types: &mut BTreeSet<Arc<str>>) {
        self.lets.values().for_each(&mut *seen);
        self.rolls.values().for_each(|(from, to)| [from, to].into_iter().for_each(&mut *seen));
        for needed in &self.needs {
            match &needed.what {
                Needs::Condition(node) => seen(node),
                Needs::Timer(timer) => seen(&timer_node(timer)),
            }
        }
        for (_, returned) in &self.returns {
            if let Returns::Node(node) = returned {
                seen(node);
            }
        }
        step_nodes(name, &self.steps, seen, types);
    }
}

fn timer_node(timer: &Arc<str>) -> Node {
    Node::Read(Read::Ready, [Node::Name("by".into()), Node::Value(Datum::Text(Arc::clone(timer)))].into())
}

fn step_nodes(play: &str, steps: &[Step], seen: &mut dyn FnMut(&Node), types: &mut BTreeSet<Arc<str>>) {
    let of = |of: &Option<Node>| of.clone().unwrap_or_else(|| Node::Name("by".into()));
    let named = |read: Read, of: Node, name: &Arc<str>| Node::Read(read, [of, Node::Value(Datum::Text(Arc::clone(name)))].into());
    for step in steps {
        match step {
            Step::Move(one) => {
                [&one.from, &one.to, &one.qty].into_iter().for_each(&mut *seen);
                types.extend(one.types.clone().map_or_else(|| [play.into(), play.into()], |(from, to)| [from, to]));
            }
            Step::Claim { seconds, .. } => seconds.iter().for_each(&mut *seen),
            Step::Effect { name, of: whose, value, seconds, .. } => {
                [value, seconds].into_iter().for_each(&mut *seen);
                seen(&named(Read::Effect, of(whose), name));
            }
            Step::Count(one) => {
                one.seconds.iter().for_each(&mut *seen);
                let read = if one.kind == 'c' { Read::Counter } else { Read::Box };
                match &one.to {
                    CountTo::Set(node) => seen(node),
                    CountTo::Add(node) => {
                        seen(node);
                        seen(&named(read, of(&one.of), &one.name));
                    }
                    CountTo::Clear => {}
                }
            }
            Step::Craft { event, fee, .. } => types.extend([event, fee].map(|one| one.clone().unwrap_or_else(|| play.into()))),
            Step::Draw { event, .. } => drop(types.insert(event.clone().unwrap_or_else(|| play.into()))),
            Step::Schedule { seconds, args, .. } => {
                seen(seconds);
                args.iter().for_each(|(_, node)| seen(node));
            }
            Step::If { when, then, otherwise } => {
                seen(when);
                step_nodes(play, then, seen, types);
                step_nodes(play, otherwise, seen, types);
            }
        }
    }
}
