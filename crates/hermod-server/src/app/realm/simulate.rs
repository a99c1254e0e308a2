//! realm: what a play would come to, many times over.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermod_catalog::Scope;
use hermod_core::RealmId;
use hermod_core::realm::args::Raw;
use hermod_core::realm::plan::Act;
use hermod_core::realm::{Call, Planned, Plans, Realm, Refusal, Zones};

use super::{App, Caller, Known, unplanned};
use crate::code::{Code, Problem};

/// A play is run so many times at most.
pub(crate) const RUNS_MAX: u64 = 100_000;

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct SimulateAsk {
    /// The play.
    pub play: String,
    /// Who plays.
    pub by: Arc<str>,
    /// What it is given.
    pub args: BTreeMap<Arc<str>, Raw>,
    /// How often.
    pub n: u64,
}

/// What it came to. Each run began with what is now.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    /// How often it was run.
    pub runs: u64,
    /// How often it was refused, by the reason.
    pub refused: BTreeMap<Arc<str>, u64>,
    /// What the player gained or lost, by asset.
    pub gains: BTreeMap<Arc<str>, Spread>,
}

/// How a number was spread over many runs.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// The sum over all runs.
    pub sum: i128,
    /// How often each number came.
    pub counts: BTreeMap<i64, u64>,
}

impl Spread {
    /// A number that so many of a hundred runs did not exceed.
    pub fn percentile(&self, percent: u64, runs: u64) -> i64 {
        let mut left = (runs * percent).div_ceil(100).max(1);
        for (value, count) in &self.counts {
            if *count >= left {
                return *value;
            }
            left -= count;
        }
        self.counts.last_key_value().map_or(0, |(value, _)| *value)
    }
}

impl App {
    /// Runs a play many times on a copy of what is now.
    pub async fn simulate(&self, caller: &Caller, id: &RealmId, ask: &SimulateAsk) -> Result<Outlook, Problem> {
        caller.need(Scope::RealmsRead)?;
        if ask.n == 0 || ask.n > RUNS_MAX {
            return Err(Problem::new(Code::InvalidField, format!("n must be between 1 and {RUNS_MAX}")).in_field("n"));
        }
        let realm = self.realm_of(&caller.space, id)?;
        if !realm.is_play(&ask.play) {
            return Err(Problem::new(Code::NotFound, format!("The realm {id} has no play of that name.")).in_field("play"));
        }
        let (mut outlook, mut known, mut now) = (Outlook::default(), Known::default(), self.clock.now());
        let seed = self.seed();
        let mut number = 0;
        while number < ask.n {
            // A key that nobody uses: it holds a space.
            let call = run_of(&realm, ask, format!("simulated {} {number}", seed.child(number).below(u64::MAX)).into(), &known.zones);
            match call.planned(&known, now) {
                Planned::Missing(missing) => now = self.look_up(&caller.space, id, missing, &mut known).await?,
                Planned::Plan(plan) => {
                    outlook.take_in(&plan, &ask.by)?;
                    number += 1;
                    if number.is_multiple_of(256) {
                        tokio::task::yield_now().await;
                    }
                }
                fault => return Err(unplanned(fault)),
            }
        }
        Ok(outlook.whole())
    }
}

impl Outlook {
    pub(super) fn take_in(&mut self, plan: &hermod_core::realm::Plan, by: &Arc<str>) -> Result<(), Problem> {
        self.runs += 1;
        if plan.act == Act::Refuse {
            let refusal = Refusal::read(&plan.told).ok_or_else(super::lost)?;
            *self.refused.entry(refusal.code).or_default() += 1;
        }
        let own = plan.postings.iter().filter(|posting| posting.account.owner == *by && posting.delta != 0);
        for posting in own {
            let spread = self.gains.entry(Arc::clone(&posting.account.asset)).or_default();
            spread.sum += i128::from(posting.delta);
            *spread.counts.entry(posting.delta).or_default() += 1;
        }
        Ok(())
    }

    /// Fills in the runs in which nothing changed.
    pub(super) fn whole(mut self) -> Outlook {
        for spread in self.gains.values_mut() {
            let seen = spread.counts.values().sum::<u64>();
            if seen < self.runs {
                *spread.counts.entry(0).or_default() += self.runs - seen;
            }
        }
        self
    }
}

pub(super) fn run_of(realm: &Arc<Realm>, ask: &SimulateAsk, key: Arc<str>, zones: &Zones) -> Call {
    let (play, by) = (ask.play.as_str().into(), Arc::clone(&ask.by));
    let (realm, args, zones) = (Arc::clone(realm), ask.args.clone(), zones.clone());
    Call { realm, play, by, args, key, guild: "".into(), note: "".into(), done: None, zones, is_dry: true }
}
