//! realm: what does this earn, cost, drop or craft?
//!
//! What is asked for becomes a plan (`hermod_core::realm`), which the store does all or nothing. A plan that was made from what is no
//! longer so is made anew: in the same step where the state is at hand, else from what the store tells.

mod agenda;
mod audit;
mod follow;
mod known;
mod odds;
mod scheduled;
mod simulate;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hermod_catalog::Scope;
use hermod_core::realm::args::{Raw, is_owner};
use hermod_core::realm::plan::{Act, Plan};
use hermod_core::realm::{
    Account, Applied, Apply, Call, Commit, Commits, Deed, Entry, Missing, Planned, Plans, ReadLedger, Realm, Refusal, Told, Zones,
};
use hermod_core::{Invalid, Micros, Once, Outcome, RealmId, SpaceId, Subject};
use hermod_engine::{Durability, Engine};

use super::realms::no_realm;
use super::{App, Caller};
use crate::code::{Code, Problem, conflict};

pub(crate) use agenda::Agenda;
pub use audit::{Audit, AuditFault};
pub use follow::RealmTold;
use known::Known;
pub use odds::Odds;
pub(crate) use odds::odds;
pub use simulate::{Outlook, SimulateAsk, Spread};
pub use views::{AccountAnswer, LedgerFrom, MarkAnswer, SupplyAnswer};

/// So often a plan is made anew. Each turn somebody else changed what it was made from.
const TURNS: usize = 64;
/// So often it is tried among all others.
const OVERTAKEN: usize = 2;
/// So often it looks at what a plan needs to know. Each look tells something new, and a plan is about less than that.
const LOOKS: usize = 1_024;
/// So often, and this long each time, an older definition waits for the newer one.
const WAITS: usize = 40;
const WAIT: Duration = Duration::from_millis(50);

/// Makes what is to be done, for a realm and owners who are there.
type Makes<'a> = &'a (dyn Fn(Arc<Realm>, &Zones) -> Arc<dyn Plans> + Sync);

/// Who wants what done, under which key.
#[derive(Clone, Debug)]
pub struct EnactAsk {
    /// In which realm.
    pub realm: RealmId,
    /// Under which key.
    pub once: Once,
    /// Who; empty if nobody is known.
    pub by: Arc<str>,
    /// Where, for the events.
    pub guild: Arc<str>,
    /// For people.
    pub note: Arc<str>,
    /// Says what would be, and changes nothing.
    pub is_dry: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum RealmAnswer {
    /// It was done.
    Done(Box<CommitAnswer>),
    /// It was refused.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The time of the answer.
        now: Micros,
        /// The answer was given before, for the same key.
        is_replayed: bool,
    },
}

/// What was done.
#[derive(Clone, Debug)]
pub struct CommitAnswer {
    /// The number of the commit; none in a dry run.
    pub seq: Option<u64>,
    /// When.
    pub now: Micros,
    /// What the accounts say afterwards, those of the realm itself left out.
    pub balances: Vec<(Account, i64)>,
    /// What the ledger keeps.
    pub entry: Entry,
    /// What a play tells.
    pub told: Told,
    /// What it survives; none in a dry run.
    pub durability: Option<Durability>,
    /// The answer was given before, for the same key.
    pub is_replayed: bool,
}

impl EnactAsk {
    /// Checks what came from outside.
    pub fn checked(mut self, by: &str, guild: &str, note: &str) -> Result<EnactAsk, Invalid> {
        if guild.len() > 128 || guild.chars().any(char::is_control) {
            return Err(Invalid::new("guild", "may have 128 bytes at most, without control characters"));
        }
        if note.len() > 1024 {
            return Err(Invalid::new("note", "may have 1024 bytes at most"));
        }
        (self.by, self.guild, self.note) = (by.into(), guild.into(), note.into());
        Ok(self)
    }

    /// The key, if anything is to be done under it.
    fn once(&self) -> Option<&Once> {
        (!self.is_dry).then_some(&self.once)
    }
}

impl App {
    /// Plays.
    pub async fn play(&self, caller: &Caller, ask: &EnactAsk, play: &str, args: BTreeMap<Arc<str>, Raw>) -> Result<RealmAnswer, Problem> {
        caller.need(Scope::RealmsPlay)?;
        if !is_owner(&ask.by) {
            return Err(Invalid::new("by", "must be an owner: 1 to 256 bytes without control characters, not beginning with @").into());
        }
        let realm = self.realm_of(&caller.space, &ask.realm)?;
        if !realm.is_play(play) {
            let fault = Problem::new(Code::NotFound, format!("The realm {} has no play {}.", ask.realm, short(play))).in_field("play");
            return self.replayed_or(&caller.space, &ask.realm, ask.once(), fault).await;
        }
        let plans = |realm: Arc<Realm>, zones: &Zones| -> Arc<dyn Plans> { Arc::new(call_of(realm, ask, play, args.clone(), zones)) };
        let answer = if ask.is_dry {
            self.enact_dry(&caller.space, &ask.realm, realm, &plans).await?
        } else {
            self.enact(&caller.space, &ask.realm, &plans, Some(&ask.once)).await?
        };
        let outcome = match &answer {
            RealmAnswer::Done(done) if done.is_replayed || ask.is_dry => None,
            RealmAnswer::Refused { is_replayed: true, .. } => None,
            RealmAnswer::Done(_) => Some("done"),
            RealmAnswer::Refused { refusal, .. } => Some(&*refusal.code),
        };
        if let Some(outcome) = outcome {
            self.metrics.played(ask.realm.as_str(), play, outcome);
        }
        Ok(answer)
    }

    /// Commits legs, or puts something on hold, or ends a hold.
    pub async fn commit_to(
        &self,
        caller: &Caller,
        ask: &EnactAsk,
        deed: impl Fn(&Realm) -> Result<Deed, Invalid> + Sync,
    ) -> Result<RealmAnswer, Problem> {
        caller.need(Scope::RealmsPlay)?;
        let realm = self.realm_of(&caller.space, &ask.realm)?;
        let commit = |realm: Arc<Realm>, act: Deed, zones: &Zones| {
            let [key, by, guild, note] = [Arc::from(ask.once.key()), Arc::clone(&ask.by), Arc::clone(&ask.guild), Arc::clone(&ask.note)];
            Commit { realm, act, key, by, guild, note, is_dry: ask.is_dry, zones: zones.clone() }
        };
        let act = match deed(&realm) {
            Ok(act) => act,
            Err(fault) => return self.replayed_or(&caller.space, &ask.realm, ask.once(), fault.into()).await,
        };
        // A newer definition may lack what this one has; then it is as it was when it was asked for.
        let plans = |realm: Arc<Realm>, zones: &Zones| -> Arc<dyn Plans> {
            let act = deed(&realm).unwrap_or_else(|_| act.clone());
            Arc::new(commit(realm, act, zones))
        };
        if ask.is_dry {
            return self.enact_dry(&caller.space, &ask.realm, realm, &plans).await;
        }
        self.enact(&caller.space, &ask.realm, &plans, Some(&ask.once)).await
    }

    /// Undoes a commit with another one.
    pub async fn revert(&self, caller: &Caller, ask: &EnactAsk, seq: u64) -> Result<RealmAnswer, Problem> {
        caller.need(Scope::RealmsPlay)?;
        let commits = self.commits(&caller.space, &ask.realm, seq.saturating_sub(1), 1).await?;
        let found = commits.entries.into_iter().find(|(number, ..)| *number == seq && seq > 0);
        let (.., entry) = found.ok_or_else(|| Problem::new(Code::NotFound, "There is no such commit.").in_field("commit"))?;
        self.commit_to(caller, ask, |_| Ok(Deed::Revert(seq, entry.clone()))).await
    }

    pub(crate) fn realm_of(&self, space: &SpaceId, id: &RealmId) -> Result<Arc<Realm>, Problem> {
        self.catalog.realm(space, id).ok_or_else(|| no_realm(id))
    }

    pub(super) async fn commits(&self, space: &SpaceId, realm: &RealmId, after: u64, limit: usize) -> Result<Commits, Problem> {
        let place = self.engine.partitions().place(space, realm.as_str());
        match self.engine.run(&ReadLedger::after(place, realm.clone(), after, limit), None).await?.outcome {
            Outcome::Done(commits) | Outcome::Replayed(commits) => Ok(commits),
            Outcome::Conflict => Err(conflict()),
        }
    }

    /// Plans, and has the plan done; again, if what it was made from has changed.
    pub(crate) async fn enact(&self, space: &SpaceId, id: &RealmId, plans: Makes<'_>, once: Option<&Once>) -> Result<RealmAnswer, Problem> {
        let place = self.engine.partitions().place(space, id.as_str());
        let is_at_hand = matches!(self.engine, Engine::Embedded(_));
        let (mut known, mut now, mut waits) = (Known::new(is_at_hand), self.clock.now(), 0);
        let (mut overtaken, mut looks) = (0, 0);
        let mut realm = self.realm_of(space, id)?;
        let mut queue = None;
        while overtaken < TURNS && looks < LOOKS {
            // Who is overtaken again queues with the others of this server: so there are few who overtake each other.
            if overtaken >= OVERTAKEN
                && queue.is_none()
                && let Some(turns) = self.turns.get(usize::from(place.partition))
            {
                queue = Some(turns.lock().await);
            }
            let maker = plans(Arc::clone(&realm), &known.zones);
            let plan = match maker.planned(&known, now) {
                Planned::Plan(plan) => Arc::from(plan),
                Planned::Missing(missing) => match self.look_for_zones(space, missing, &mut known).await? {
                    Some(missing) => Arc::new(look(missing)),
                    None => {
                        looks += 1;
                        continue;
                    }
                },
                fault => return self.replayed_or(space, id, once, unplanned(fault)).await,
            };
            let apply = Apply::new(place.clone(), id.clone(), Arc::clone(&plan));
            let apply = if is_at_hand { apply.anew(maker) } else { apply };
            let ran = self.engine.run(&apply, once).await?;
            let (applied, is_replayed) = match ran.outcome {
                Outcome::Done(applied) => (applied, false),
                Outcome::Replayed(applied) => (applied, true),
                Outcome::Conflict => return Err(conflict()),
            };
            match applied {
                Applied::Seen(seen) => {
                    *if plan.act == Act::Read { &mut looks } else { &mut overtaken } += 1;
                    now = seen.now;
                    known.learn(&plan, *seen);
                    // Where the state is at hand only what cannot be planned comes here: an argument that depends on it.
                    if is_at_hand
                        && let fault @ (Planned::Argument(..) | Planned::Failed(_)) =
                            plans(Arc::clone(&realm), &known.zones).planned(&known, now)
                    {
                        return Err(unplanned(fault));
                    }
                }
                Applied::Outdated(version) => {
                    // Another server has the new definition already; it comes here within a second. Nobody else waits for that.
                    queue = None;
                    waits += 1;
                    if waits > WAITS {
                        let what = format!("This server has not yet got version {version} of the realm; nothing was done. Ask again.");
                        return Err(Problem::new(Code::Overloaded, what));
                    }
                    tokio::time::sleep(WAIT).await;
                    realm = self.realm_of(space, id)?;
                    known = Known::new(is_at_hand);
                }
                Applied::Gone => return Err(Problem::new(Code::Gone, "It was done before.")),
                last => {
                    let answer = answered(last, ran.durability, is_replayed)?;
                    if let RealmAnswer::Done(done) = &answer
                        && done.told.later > Micros::ZERO
                        && !is_replayed
                    {
                        self.remind(done.told.later, done.now, space, id);
                    }
                    return Ok(answer);
                }
            }
        }
        drop(queue);
        Err(Problem::new(Code::Overloaded, "Too much changes at once in this realm; nothing was done. Ask again."))
    }

    /// The answer that was given before for the same key; else the fault. What was done stays done, although the definition may
    /// have no such thing any more.
    async fn replayed_or(&self, space: &SpaceId, id: &RealmId, once: Option<&Once>, fault: Problem) -> Result<RealmAnswer, Problem> {
        let Some(once) = once else { return Err(fault) };
        let place = self.engine.partitions().place(space, id.as_str());
        let ran = self.engine.run(&Apply::new(place, id.clone(), Arc::new(Plan::look([], []))), Some(once)).await?;
        match ran.outcome {
            Outcome::Replayed(applied) => answered(applied, ran.durability, true),
            Outcome::Done(_) | Outcome::Conflict => Err(fault),
        }
    }

    /// What it would come to. Nothing is changed.
    async fn enact_dry(&self, space: &SpaceId, id: &RealmId, realm: Arc<Realm>, plans: Makes<'_>) -> Result<RealmAnswer, Problem> {
        let (mut known, mut now) = (Known::default(), self.clock.now());
        for _ in 0..LOOKS {
            match plans(Arc::clone(&realm), &known.zones).planned(&known, now) {
                Planned::Missing(missing) => now = self.look_up(space, id, missing, &mut known).await?,
                Planned::Plan(plan) if plan.act == Act::Refuse => {
                    let refusal = Refusal::read(&plan.told).ok_or_else(lost)?;
                    return Ok(RealmAnswer::Refused { refusal, now, is_replayed: false });
                }
                Planned::Plan(plan) => {
                    let (entry, told) = (Entry::read(&plan.entry), Told::read(&plan.told));
                    let (Some(entry), Some(told)) = (entry, told) else { return Err(lost()) };
                    // What only who applies it looks at.
                    let unknown = known.unknown(&plan);
                    if !unknown.is_empty() {
                        now = self.look_up(space, id, unknown, &mut known).await?;
                    }
                    let balances = known.after(&plan);
                    let answer = CommitAnswer { seq: None, now, balances, entry, told, durability: None, is_replayed: false };
                    return Ok(RealmAnswer::Done(Box::new(answer)));
                }
                fault => return Err(unplanned(fault)),
            }
        }
        Err(lost())
    }

    /// Looks at what is missing; the time at which it was so.
    async fn look_up(&self, space: &SpaceId, id: &RealmId, missing: Vec<Missing>, known: &mut Known) -> Result<Micros, Problem> {
        let missing = self.look_for_zones(space, missing, known).await?.unwrap_or_default();
        let place = self.engine.partitions().place(space, id.as_str());
        let plan = Arc::new(look(missing));
        let apply = Apply::new(place, id.clone(), Arc::clone(&plan));
        let Outcome::Done(Applied::Seen(seen)) = self.engine.run(&apply, None).await?.outcome else { return Err(lost()) };
        let now = seen.now;
        known.learn(&plan, *seen);
        Ok(now)
    }
}

impl App {
    /// Finds out where owners are; what else is missing, if anything is.
    async fn look_for_zones(&self, space: &SpaceId, missing: Vec<Missing>, known: &mut Known) -> Result<Option<Vec<Missing>>, Problem> {
        let mut others = Vec::new();
        for one in missing {
            match one {
                Missing::Zone(owner) => {
                    let zone = self.zone_of(space, &Subject::new(&*owner)?).await?;
                    known.zones.learn(owner, zone);
                }
                other => others.push(other),
            }
        }
        Ok(Some(others).filter(|others| !others.is_empty()))
    }
}

/// What the store's last word is answered with.
fn answered(applied: Applied, durability: Durability, is_replayed: bool) -> Result<RealmAnswer, Problem> {
    match applied {
        Applied::Done(done) => {
            let (entry, told) = (Entry::read(&done.entry), Told::read(&done.told));
            let (Some(entry), Some(told)) = (entry, told) else { return Err(lost()) };
            let balances = done.balances.into_iter().filter(|(account, _)| !account.is_own()).collect();
            let (seq, now, durability) = (Some(done.seq), done.now, Some(durability));
            Ok(RealmAnswer::Done(Box::new(CommitAnswer { seq, now, balances, entry, told, durability, is_replayed })))
        }
        Applied::Refused { now, told } => {
            let refusal = Refusal::read(&told).ok_or_else(lost)?;
            Ok(RealmAnswer::Refused { refusal, now, is_replayed })
        }
        Applied::Bound(bound) => Ok(RealmAnswer::Refused { refusal: Refusal::from(&*bound), now: bound.now, is_replayed }),
        Applied::Seen(_) | Applied::Outdated(_) | Applied::Gone => Err(lost()),
    }
}

pub(crate) fn call_of(realm: Arc<Realm>, ask: &EnactAsk, play: &str, args: BTreeMap<Arc<str>, Raw>, zones: &Zones) -> Call {
    let [by, guild, note] = [&ask.by, &ask.guild, &ask.note].map(Arc::clone);
    let (key, zones) = (ask.once.key().into(), zones.clone());
    Call { realm, play: play.into(), by, args, key, guild, note, done: None, zones, is_dry: ask.is_dry }
}

fn look(missing: Vec<Missing>) -> Plan {
    let (mut accounts, mut marks) = (Vec::new(), Vec::new());
    for one in missing {
        match one {
            Missing::Account(account) => accounts.push(account),
            Missing::Mark(name) => marks.push(name),
            // No realm has it.
            Missing::Zone(_) => {}
        }
    }
    Plan::look(accounts, marks)
}

fn unplanned(planned: Planned) -> Problem {
    match planned {
        Planned::Argument(name, reason) => {
            Problem::new(Code::InvalidField, format!("args.{name} {reason}.")).in_field(format!("args.{name}"))
        }
        Planned::Failed(why) => Problem::new(Code::PlayFailed, format!("{why}; nothing was done.")),
        Planned::Plan(_) | Planned::Missing(_) => lost(),
    }
}

fn lost() -> Problem {
    Problem::new(Code::Internal, "The store gave an answer that is not understood; the log has the details.")
}

fn short(name: &str) -> String {
    name.chars().take(64).collect()
}
