//! What a play is likely to ask of the state, found from its formulas: so that one look is enough.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::reading::{CHAIN_MAX, Plays, Rules};
use crate::realm::definition::Mode;
use crate::realm::formula::{Datum, Node, Read};
use crate::realm::play::{CountTo, Needs, Played, Returns, Step};

/// What a play and those that follow from it in the same commit are likely to ask of the state.
pub(super) fn hint(plays: &Plays, rules: &Rules, name: &str, hints: &mut Vec<(Read, Vec<Node>)>, depth: usize) {
    let Some(play) = plays.get(name).filter(|_| depth <= CHAIN_MAX) else { return };
    let mut seen = |read: Read, args: &[Node]| {
        let is_plain = args.iter().all(|arg| matches!(arg, Node::Value(_) | Node::Name(_)));
        let hint = (read, args.to_vec());
        if is_plain && hints.len() < 64 && !hints.contains(&hint) {
            hints.push(hint);
        }
    };
    let mut types = BTreeSet::new();
    play.nodes(name, &mut |node| node.reads(&mut seen), &mut types);
    let follows = types.iter().filter_map(|one| rules.get(&**one)).flatten().filter(|(_, mode)| *mode == Mode::Inline);
    for (next, _) in follows {
        hint(plays, rules, next, hints, depth + 1);
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
