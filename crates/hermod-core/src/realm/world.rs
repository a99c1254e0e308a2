//! A realm that is ready to be played: its definition with every formula read and every reference checked.

mod hints;
mod names;
mod reading;
mod samples;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::definition::{Asset, Definition, Mode, Recipe, Table};
use super::plan::AMOUNT_MAX;
use super::play::Played;
use super::timer::Clockwork;
use crate::id::{Name, RealmId};

pub use samples::Sample;

/// What is wrong with a definition, and where: `plays.gamble.need[1].if`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path of the field.
    pub path: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// A realm that is ready to be played. Cheap to share.
pub struct Realm {
    /// Its name.
    pub id: RealmId,
    /// What it was made of.
    pub definition: Arc<Definition>,
    /// Grows with every change.
    pub version: u64,
    /// What draws are made of. It is never shown.
    pub seed: [u8; 32],
    /// The plays that there were: what they minted and burnt is part of the supply.
    pub retired: Vec<Arc<str>>,
    pub(crate) plays: BTreeMap<Arc<str>, Played>,
    pub(crate) timers: BTreeMap<Arc<str>, Clockwork>,
    /// By the type of the event: plays, and when they run.
    pub(crate) rules: BTreeMap<Arc<str>, Vec<(Arc<str>, Mode)>>,
}

impl fmt::Debug for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seed would tell what everybody draws next.
        f.debug_struct("Realm").field("id", &self.id).field("version", &self.version).finish_non_exhaustive()
    }
}

impl Realm {
    /// Reads every formula of a definition; or all that is wrong with it.
    pub fn new(id: RealmId, definition: Arc<Definition>, version: u64, seed: [u8; 32]) -> Result<Realm, Vec<Fault>> {
        let (plays, timers, rules) = reading::read(&definition)?;
        Ok(Realm { id, definition, version, seed, retired: Vec::new(), plays, timers, rules })
    }

    /// An asset.
    pub fn asset(&self, name: &str) -> Option<&Asset> {
        named(&self.definition.assets, name)
    }

    pub(crate) fn table(&self, name: &str) -> Option<&Table> {
        named(&self.definition.tables, name)
    }

    pub(crate) fn recipe(&self, name: &str) -> Option<&Recipe> {
        named(&self.definition.recipes, name)
    }

    /// Whether there is a play of this name, and everybody may run it.
    pub fn is_play(&self, name: &str) -> bool {
        self.plays.get(name).is_some_and(|play| !play.internal)
    }

    /// What an owner can have of an asset: at least, at most.
    pub fn bounds(&self, asset: &str) -> (i64, i64) {
        let asset = self.asset(asset);
        let max = asset.and_then(|asset| asset.max).and_then(|max| i64::try_from(max).ok()).unwrap_or(AMOUNT_MAX);
        (asset.and_then(|asset| asset.floor).unwrap_or(0), max)
    }

    pub(crate) fn default_of(&self, kind: char, name: &str) -> i64 {
        let numbers = match kind {
            'e' => &self.definition.effects,
            'c' => &self.definition.counters,
            _ => &self.definition.boxes,
        };
        named(numbers, name).map_or(0, |number| number.default)
    }
}

fn named<'a, T>(map: &'a BTreeMap<Name, T>, name: &str) -> Option<&'a T> {
    // Only what can be a name is in it.
    map.get(&Name::new(name).ok()?)
}
