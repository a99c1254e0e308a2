//! Numbers that grow when something of a subject changes: what was remembered under another number does not stand.
//!
//! So many numbers for all subjects: those that share one lose what is remembered of them a little too often.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use hermod_core::{SpaceId, Subject};

const COUNT: usize = 1024;

/// Numbers that grow when something of a subject changes.
#[derive(Debug)]
pub(super) struct Generations {
    numbers: Vec<AtomicU64>,
    hasher: RandomState,
}

/// Grows a number when it is dropped.
#[must_use]
pub(super) struct Growing<'a>(&'a AtomicU64);

impl Drop for Growing<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Default for Generations {
    fn default() -> Generations {
        Generations { numbers: (0..COUNT).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }
}

impl Generations {
    /// The number of a subject. To be read before the store is asked.
    pub(super) fn of(&self, space: &SpaceId, subject: &Subject) -> u64 {
        self.number(space, subject).load(Ordering::Acquire)
    }

    /// Something of a subject was changed.
    pub(super) fn grow(&self, space: &SpaceId, subject: &Subject) {
        self.number(space, subject).fetch_add(1, Ordering::AcqRel);
    }

    /// Something of a subject is about to be changed: its number grows when this is dropped, also if nobody waits for the answer any more.
    pub(super) fn growing<'a>(&'a self, space: &SpaceId, subject: &Subject) -> Growing<'a> {
        Growing(self.number(space, subject))
    }

    /// Something that all subjects share was changed.
    pub(super) fn grow_all(&self) {
        for number in &self.numbers {
            number.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn number(&self, space: &SpaceId, subject: &Subject) -> &AtomicU64 {
        let count = u64::try_from(COUNT).unwrap_or(1);
        let at = usize::try_from(self.hasher.hash_one((space, subject)) % count).unwrap_or(0);
        self.numbers.get(at).expect("a remainder is below the count")
    }
}
