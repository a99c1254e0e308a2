//! realm: the odds of its tables, and what its plays that roll are worth, for whoever writes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermod_core::Micros;
use hermod_core::realm::plan::{Balance, Mark};
use hermod_core::realm::world::Sample;
use hermod_core::realm::{Account, Books, Entry, Planned, Plans, Realm, Zones};

use super::simulate::{Outlook, SimulateAsk, run_of};

/// A play is tried so often.
const RUNS: u64 = 2_000;
/// Everybody has so much of everything, or as much as they can.
const HAS: i64 = 1_000;

/// What a realm gives.
#[derive(Clone, Debug, Default)]
pub struct Odds {
    /// Of each table, how likely each asset is, in millionths; the rest is nothing.
    pub tables: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u32>>,
    /// What each play that draws comes to, tried with its `sample` by somebody who has plenty of everything.
    pub plays: BTreeMap<Arc<str>, Outlook>,
    /// Of each play that may draw, and of which this cannot be said, what is to be done about it.
    pub unknown: BTreeMap<Arc<str>, String>,
}

/// Books in which everybody has plenty, and nothing has happened yet.
struct Plenty<'a>(&'a Realm);

impl Books for Plenty<'_> {
    fn account(&self, account: &Account) -> Option<Balance> {
        let (_, max) = self.0.bounds(&account.asset);
        // Half of what there is room for, so that there is something to take and room to give.
        let value = if account.is_own() { 0 } else { HAS.min(max.saturating_add(1) / 2) };
        Some(Balance { value, ..Balance::default() })
    }

    fn mark(&self, _: &str) -> Option<Option<Mark>> {
        Some(None)
    }
}

/// What a realm gives. It takes some milliseconds for each play.
pub(crate) fn odds(realm: &Arc<Realm>, now: Micros) -> Odds {
    let mut odds = Odds::default();
    for (name, table) in &realm.definition.tables {
        let part = |weight: u64| u32::try_from(u128::from(weight) * 1_000_000 / u128::from(table.of.max(1))).unwrap_or(u32::MAX);
        let drops = table.drops.iter().map(|(asset, weight)| (asset.as_str().into(), part(*weight))).collect();
        odds.tables.insert(name.as_str().into(), drops);
    }
    let (books, zones) = (Plenty(realm), Zones::none());
    for Sample { play, args, is_short, .. } in realm.samples().filter(|sample| sample.draws) {
        let by: Arc<str> = "sample".into();
        let ask = SimulateAsk { play: play.to_string(), by: Arc::clone(&by), args, n: RUNS };
        let (mut outlook, mut rolls) = (Outlook::default(), false);
        let mut unknown = if is_short { "give a sample" } else { "give a sample with which it draws" }.to_owned();
        for number in 0..RUNS {
            // No caller's key holds a space.
            let call = run_of(realm, &ask, format!("sample {number}").into(), &zones);
            let plan = match call.planned(&books, now) {
                Planned::Plan(plan) => plan,
                Planned::Argument(name, reason) => {
                    unknown = if is_short { unknown } else { format!("give another sample: {name} {reason}") };
                    break;
                }
                Planned::Failed(why) => {
                    unknown = format!("give another sample: {why}");
                    break;
                }
                Planned::Missing(_) => break,
            };
            rolls |= Entry::read(&plan.entry).is_some_and(|entry| !entry.draws.is_empty());
            // What is refused does not say what it drew: one that is refused nearly always may draw all the same.
            if outlook.take_in(&plan, &by).is_err() {
                break;
            }
        }
        if rolls && outlook.runs == RUNS {
            odds.plays.insert(play, outlook.whole());
        } else {
            odds.unknown.insert(play, unknown);
        }
    }
    odds
}
