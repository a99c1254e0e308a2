//! What every server keeps in memory: all spaces, all API keys, and all rules without a subject.
//!
//! A snapshot is immutable but for one counter for each space; a refresh builds the next one from
//! the parts that did not change and puts it in place as a whole. Readers take no lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use hermod_core::limit::{Limited, Rule};
use hermod_core::{Action, Invalid, SpaceId};

use crate::definition::ApiKey;
use crate::secret::SecretHash;

static NO_RULES: LazyLock<Arc<[Limited]>> = LazyLock::new(|| Arc::from([]));

/// No rules at all, without an allocation.
pub(crate) fn no_rules() -> Arc<[Limited]> {
    Arc::clone(&NO_RULES)
}

#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) spaces: HashMap<SpaceId, Arc<SpaceView>>,
    pub(crate) keys: HashMap<Box<str>, StoredKey>,
}

/// One space's part.
#[derive(Default)]
pub(crate) struct SpaceView {
    everyone: HashMap<Action, Arc<[Limited]>>,
    /// How many rules with a subject there are. Changed in place, as it changes with each of millions.
    subject_rules: AtomicU64,
}

impl SpaceView {
    pub(crate) fn new(rules: &[Rule], subject_rules: u64) -> Result<SpaceView, Invalid> {
        let everyone = by_action(rules)?.into_iter().map(|(action, rules)| (action, rules.into())).collect();
        Ok(SpaceView { everyone, subject_rules: AtomicU64::new(subject_rules) })
    }

    /// Everyone's rules for `action`, by name and id.
    pub(crate) fn everyone(&self, action: &Action) -> &Arc<[Limited]> {
        self.everyone.get(action).unwrap_or(&NO_RULES)
    }

    pub(crate) fn subject_rules(&self) -> u64 {
        self.subject_rules.load(Ordering::Acquire)
    }

    pub(crate) fn set_subject_rules(&self, count: u64) {
        self.subject_rules.store(count, Ordering::Release);
    }
}

/// An API key and what its text must hash to.
#[derive(Clone)]
pub(crate) struct StoredKey {
    pub(crate) key: Arc<ApiKey>,
    pub(crate) hash: SecretHash,
}

/// The rules as operations need them, by action, each list by name and id.
pub(crate) fn by_action(rules: &[Rule]) -> Result<HashMap<Action, Vec<Limited>>, Invalid> {
    let mut lists: HashMap<Action, Vec<Limited>> = HashMap::new();
    for rule in rules {
        let limited = Limited { id: rule.id.clone(), name: rule.name.clone(), meter: rule.meter()?, durable: rule.durable };
        lists.entry(rule.action.clone()).or_default().push(limited);
    }
    lists.values_mut().for_each(|list| sort(list));
    Ok(lists)
}

/// The order of every answer.
pub(crate) fn sort(rules: &mut [Limited]) {
    rules.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
}
