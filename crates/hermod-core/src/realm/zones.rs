//! The time zones of owners, for timers that follow their day.
//!
//! They are part of what is known of a subject, which lies in another partition than the realm. No operation reads two, so whoever
//! plans reads them first and gives them to it, as it does with the time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pick::Zone;

/// The time zones of owners, as far as they are known. Cheap to share.
#[derive(Clone, Debug, Default)]
pub struct Zones {
    known: Arc<BTreeMap<Arc<str>, Option<Zone>>>,
    is_whole: bool,
}

impl Zones {
    /// Nobody has one of their own.
    pub fn none() -> Zones {
        Zones { is_whole: true, ..Zones::default() }
    }

    /// This owner has that one, or none of their own.
    pub fn learn(&mut self, owner: Arc<str>, zone: Option<Zone>) {
        Arc::make_mut(&mut self.known).insert(owner, zone);
    }

    /// The one that an owner has, if that is known.
    pub(crate) fn get(&self, owner: &str) -> Option<Option<&Zone>> {
        // What is the realm's own has its time.
        let is_plain = self.is_whole || owner.starts_with('@');
        self.known.get(owner).map(Option::as_ref).or(is_plain.then_some(None))
    }
}
