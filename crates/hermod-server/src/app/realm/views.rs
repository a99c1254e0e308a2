//! realm: what the books say: accounts, boards, the ledger, the supply.

use std::sync::Arc;

use hermod_catalog::Scope;
use hermod_core::realm::plan::Balance;
use hermod_core::realm::{Account, Commits, Hold, Missing, Ranked, ReadBoard, ReadLedger, Realm};
use hermod_core::{Micros, Outcome, RealmId};

use super::{App, Caller, Known};
use crate::code::{Code, Problem};

/// So many accounts are looked at in one step.
const LOOK_MAX: usize = 200;

/// What an owner has.
#[derive(Clone, Debug)]
pub struct AccountAnswer {
    /// When it was so.
    pub now: Micros,
    /// Of each asset what there is; those of which there is nothing are left out.
    pub assets: Vec<(Arc<str>, Balance)>,
    /// Timers, effects and counters.
    pub marks: Vec<MarkAnswer>,
}

/// A timer, an effect or a counter of an owner.
#[derive(Clone, Debug)]
pub struct MarkAnswer {
    /// `timer`, `effect` or `counter`.
    pub kind: &'static str,
    /// Its name.
    pub name: Arc<str>,
    /// Its value; of a timer how often in a row it was claimed.
    pub value: i64,
    /// When it ends; of a timer when it can be claimed again. None: it does not end.
    pub until: Option<Micros>,
}

/// What was minted and burnt of an asset, by whom.
#[derive(Clone, Debug, Default)]
pub struct SupplyAnswer {
    /// The asset.
    pub asset: Arc<str>,
    /// What was minted.
    pub minted: i64,
    /// What was burnt.
    pub burnt: i64,
    /// What the realm itself has.
    pub house: i64,
    /// By play: what it minted and what it burnt.
    pub plays: Vec<(Arc<str>, i64, i64)>,
}

impl App {
    /// What an owner has.
    pub async fn account(&self, caller: &Caller, id: &RealmId, owner: &str) -> Result<AccountAnswer, Problem> {
        caller.need(Scope::RealmsRead)?;
        let realm = self.realm_of(&caller.space, id)?;
        let owner: Arc<str> = owner.into();
        let definition = &realm.definition;
        let mut missing: Vec<_> = definition.assets.keys().map(|asset| account(asset.as_str(), &owner)).map(Missing::Account).collect();
        let kinds = [("timer", 't'), ("effect", 'e'), ("counter", 'c')];
        let names = |kind: char| -> Vec<Arc<str>> {
            let names: Box<dyn Iterator<Item = _>> = match kind {
                't' => Box::new(definition.timers.keys()),
                'e' => Box::new(definition.effects.keys()),
                _ => Box::new(definition.counters.keys()),
            };
            names.map(|name| name.as_str().into()).collect()
        };
        let mark = |kind: char, name: &str| -> Arc<str> { format!("{kind}:{name}:{owner}").into() };
        for (_, kind) in kinds {
            missing.extend(names(kind).iter().map(|name| Missing::Mark(mark(kind, name))));
        }
        let mut known = Known::default();
        let mut now = Micros::ZERO;
        for part in missing.chunks(LOOK_MAX) {
            now = self.look_up(&caller.space, id, part.to_vec(), &mut known).await?;
        }
        let balances = definition.assets.keys().map(|asset| (Arc::from(asset.as_str()), known.balance(&account(asset.as_str(), &owner))));
        let assets = balances.filter(|(_, is)| *is != Balance::default()).collect();
        let mut marks = Vec::new();
        for (word, kind) in kinds {
            for name in names(kind) {
                let Some(is) = known.get(&mark(kind, &name)) else { continue };
                let until = if kind == 't' { is.at } else { is.until };
                marks.push(MarkAnswer { kind: word, name, value: is.value, until: Some(until).filter(|until| *until < Micros::MAX) });
            }
        }
        Ok(AccountAnswer { now, assets, marks })
    }

    /// A part of a leaderboard: around an owner, or from a rank on that counts from 0.
    pub async fn board(
        &self,
        caller: &Caller,
        id: &RealmId,
        asset: &str,
        (around, from): (Option<&str>, usize),
        limit: usize,
    ) -> Result<Ranked, Problem> {
        caller.need(Scope::RealmsRead)?;
        let realm = self.realm_of(&caller.space, id)?;
        if !realm.asset(asset).is_some_and(|asset| asset.board) {
            let what = format!("The realm {id} has no board of that asset.");
            return Err(Problem::new(Code::NotFound, what).in_field("board"));
        }
        let place = self.engine.partitions().place(&caller.space, id.as_str());
        let read = match around {
            Some(owner) => ReadBoard::around(place, id.clone(), asset.into(), owner.into(), limit),
            None => ReadBoard::top(place, id.clone(), asset.into(), from, limit),
        };
        let Outcome::Done(ranked) = self.engine.run(&read, None).await?.outcome else { return Err(super::lost()) };
        Ok(ranked)
    }

    /// Commits, the newest first, before this one unless it is 0; or after this one, the oldest first.
    pub async fn ledger(&self, caller: &Caller, id: &RealmId, from: LedgerFrom, limit: usize) -> Result<Commits, Problem> {
        caller.need(Scope::RealmsRead)?;
        self.realm_of(&caller.space, id)?;
        let place = self.engine.partitions().place(&caller.space, id.as_str());
        let read = match from {
            LedgerFrom::Before(before) => ReadLedger::before(place, id.clone(), before, limit),
            LedgerFrom::After(after) => ReadLedger::after(place, id.clone(), after, limit),
        };
        let Outcome::Done(commits) = self.engine.run(&read, None).await?.outcome else { return Err(super::lost()) };
        Ok(commits)
    }

    /// A hold.
    pub async fn hold(&self, caller: &Caller, id: &RealmId, number: u64) -> Result<Hold, Problem> {
        caller.need(Scope::RealmsRead)?;
        self.realm_of(&caller.space, id)?;
        let (name, mut known) = (Hold::mark(number), Known::default());
        let now = self.look_up(&caller.space, id, vec![Missing::Mark(Arc::clone(&name))], &mut known).await?;
        let hold = known.get(&name).and_then(|mark| Hold::read(mark, now));
        hold.ok_or_else(|| Problem::new(Code::NotFound, "There is no such hold, or it ended long ago.").in_field("id"))
    }

    /// What was minted and burnt, of each asset.
    pub async fn supply(&self, caller: &Caller, id: &RealmId) -> Result<Vec<SupplyAnswer>, Problem> {
        caller.need(Scope::RealmsRead)?;
        let realm = self.realm_of(&caller.space, id)?;
        let sources = sources(&realm);
        let assets: Vec<Arc<str>> = realm.definition.assets.keys().map(|asset| asset.as_str().into()).collect();
        let mut missing = Vec::new();
        for asset in &assets {
            for source in &sources {
                missing.extend(["@mint", "@burn"].map(|own| Missing::Account(account(asset, &format!("{own}:{source}").into()))));
            }
            missing.extend(["@house", "@escrow"].map(|own| Missing::Account(account(asset, &own.into()))));
        }
        let mut known = Known::default();
        for part in missing.chunks(LOOK_MAX) {
            self.look_up(&caller.space, id, part.to_vec(), &mut known).await?;
        }
        let value = |asset: &Arc<str>, owner: String| known.balance(&account(asset, &owner.into())).value;
        let answers = assets.iter().map(|asset| {
            let by = sources
                .iter()
                .map(|source| (Arc::clone(source), -value(asset, format!("@mint:{source}")), value(asset, format!("@burn:{source}"))));
            let plays: Vec<_> = by.filter(|(_, minted, burnt)| (*minted, *burnt) != (0, 0)).collect();
            let (minted, burnt) = (plays.iter().map(|(_, minted, _)| minted).sum(), plays.iter().map(|(.., burnt)| burnt).sum());
            let house = value(asset, "@house".to_owned()) + value(asset, "@escrow".to_owned());
            SupplyAnswer { asset: Arc::clone(asset), minted, burnt, house, plays }
        });
        Ok(answers.collect())
    }
}

/// Which part of a ledger.
#[derive(Clone, Copy, Debug)]
pub enum LedgerFrom {
    /// The newest first, before this one unless it is 0.
    Before(u64),
    /// The oldest first.
    After(u64),
}

/// Whatever mints and burns: plays, and commits of other kinds.
fn sources(realm: &Realm) -> Vec<Arc<str>> {
    let plays = realm.definition.plays.keys().map(|play| play.as_str().into());
    plays.chain(realm.retired.iter().cloned()).chain(["commit".into(), "capture".into(), "revert".into()]).collect()
}

fn account(asset: &str, owner: &Arc<str>) -> Account {
    Account { asset: asset.into(), owner: Arc::clone(owner) }
}
