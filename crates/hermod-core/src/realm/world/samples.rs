//! What reports try plays with, and which of them draw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Realm;
use super::reading::event_types;
use crate::id::Name;
use crate::realm::args::Raw;
use crate::realm::definition::{Mode, Step};

/// What a report tries a play with.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The play.
    pub play: Arc<str>,
    /// What it is given.
    pub args: BTreeMap<Arc<str>, Raw>,
    /// Something that it needs is not among it.
    pub is_short: bool,
    /// It, or one that follows from it in the same commit, may draw.
    pub draws: bool,
}

impl Realm {
    /// Every play, and what reports try it with.
    pub fn samples(&self) -> impl Iterator<Item = Sample> {
        self.plays.iter().map(|(name, play)| {
            let args: BTreeMap<_, _> = play.sample.iter().map(|(name, value)| (Arc::clone(name), Raw::Text(Arc::clone(value)))).collect();
            let is_short = play.args.iter().any(|one| one.default.is_none() && !args.contains_key(&one.name));
            Sample { play: Arc::clone(name), args, is_short, draws: self.draws(name) }
        })
    }

    fn draws(&self, play: &Arc<str>) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![Arc::clone(play)]);
        while let Some(name) = next.pop() {
            let known = Name::new(&*name).ok().and_then(|name| self.definition.plays.get(&name));
            let Some(known) = known.filter(|_| seen.insert(Arc::clone(&name))) else { continue };
            if !known.roll.is_empty() || has_draw(&known.steps) {
                return true;
            }
            let mut types = BTreeSet::new();
            event_types(&name, &known.steps, &mut types);
            let rules = types.iter().filter_map(|event| self.rules.get(event)).flatten();
            next.extend(rules.filter(|(_, mode)| *mode == Mode::Inline).map(|(play, _)| Arc::clone(play)));
        }
        false
    }
}

fn has_draw(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Draw(_) => true,
        Step::If(one) => has_draw(&one.then) || has_draw(&one.otherwise),
        _ => false,
    })
}
