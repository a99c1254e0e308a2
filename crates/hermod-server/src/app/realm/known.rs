//! What the store told of the books of a realm.

use std::collections::HashMap;
use std::sync::Arc;

use hermod_core::realm::apply::Seen;
use hermod_core::realm::plan::{Balance, Mark};
use hermod_core::realm::{Account, Books, Missing, Plan, Zones};

/// What is known of the books.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    accounts: HashMap<Account, Balance>,
    marks: HashMap<Arc<str>, Option<Mark>>,
    /// The store makes the plan where it has all of the state.
    is_at_hand: bool,
    /// Where owners are, which other partitions say.
    pub(super) zones: Zones,
}

impl Known {
    /// Nothing is known yet.
    pub(super) fn new(is_at_hand: bool) -> Known {
        Known { is_at_hand, ..Known::default() }
    }

    /// Takes in what the store told, in the order of the plan.
    pub(super) fn learn(&mut self, plan: &Plan, seen: Seen) {
        // It could not make it.
        self.is_at_hand = false;
        self.accounts.extend(plan.postings.iter().map(|posting| posting.account.clone()).zip(seen.balances));
        self.marks.extend(plan.markings.iter().map(|marking| Arc::clone(&marking.name)).zip(seen.marks));
    }

    /// The accounts of a plan that nothing is known of, those of the realm itself left out.
    pub(super) fn unknown(&self, plan: &Plan) -> Vec<Missing> {
        let others = plan.postings.iter().map(|posting| &posting.account).filter(|account| !account.is_own());
        others.filter(|account| !self.accounts.contains_key(*account)).cloned().map(Missing::Account).collect()
    }

    /// What the accounts would say after a plan, those of the realm itself left out.
    pub(super) fn after(&self, plan: &Plan) -> Vec<(Account, i64)> {
        let others = plan.postings.iter().filter(|posting| !posting.account.is_own());
        let after = others.map(|posting| {
            let before = self.accounts.get(&posting.account).map_or(0, |balance| balance.value);
            (posting.account.clone(), before.saturating_add(posting.delta))
        });
        after.collect()
    }

    pub(super) fn balance(&self, account: &Account) -> Balance {
        self.accounts.get(account).copied().unwrap_or_default()
    }

    pub(super) fn get(&self, mark: &str) -> Option<&Mark> {
        self.marks.get(mark).and_then(Option::as_ref)
    }
}

impl Books for Known {
    fn account(&self, account: &Account) -> Option<Balance> {
        self.accounts.get(account).copied()
    }

    fn mark(&self, name: &str) -> Option<Option<Mark>> {
        self.marks.get(name).cloned()
    }

    fn are_at_hand(&self) -> bool {
        self.is_at_hand
    }
}
