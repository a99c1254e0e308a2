//! limit: acquire, renew, release.

mod answer;
mod away;

use hermod_catalog::{Matched, Scope};
use hermod_core::limit::{Attributes, Facts, Lease, Mode, Rules, Scope as Counter};
use hermod_core::{Action, Invalid, Micros, Once, Operation, Outcome, Partitions, SpaceId, Subject};
use tokio::time::Instant;

use super::decide::Fault;
use super::{few_enough, is_away, label};
use crate::app::{AGAIN, App, Caller, to_the_end};
use crate::code::Problem;
use crate::telemetry::Decision;

pub use answer::{LeaseAnswer, LeaseSaid};
use away::Lost;

/// A lease to be taken.
#[derive(Clone, Debug)]
pub struct LeaseAsk {
    /// Who.
    pub subject: Subject,
    /// What.
    pub action: Action,
    /// Its id; one is made up if absent.
    pub lease: Option<String>,
    /// For how long; as long as the rule allows if absent.
    pub ttl: Option<Micros>,
    /// What else rules may look at.
    pub attributes: Attributes,
}

/// A lease to be taken, and the rules that it counts under.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) subject: Subject,
    pub(super) lease: String,
    pub(super) ttl: Micros,
    /// The subject's own.
    pub(super) own: Rules,
    /// Those that all subjects share.
    pub(super) shared: Rules,
}

impl Wanted {
    /// Both parts end at once, or renewing would revive one of them alone.
    fn longest(&self) -> Micros {
        Lease::longest(&self.own).min(Lease::longest(&self.shared))
    }

    /// The part that all subjects share, if there is one; then the subject's own.
    pub(super) fn parts(&self, partitions: &Partitions, space: &SpaceId) -> (Option<Lease>, Option<Lease>) {
        let part = |home: &str, id: String, rules: &Rules| {
            let lease = Lease::acquire(partitions.place(space, home), home, id, self.ttl, Rules::clone(rules));
            (!rules.is_empty()).then(|| lease.at_most(self.longest()))
        };
        let shared = part("", shared_id(&self.subject, &self.lease), &self.shared);
        let own = part(self.subject.as_str(), self.lease.clone(), &self.own);
        (shared.map(|lease| lease.asked_by(self.subject.as_str())), own)
    }
}

/// A lease to be kept for longer, or given back.
#[derive(Clone, Debug)]
struct Keep {
    subject: Subject,
    lease: String,
    /// For how long, as long as it was taken for if that is absent; or it is given back.
    ttl: Option<Option<Micros>>,
}

impl App {
    /// Takes a lease under every rule of leases that matches, or under none.
    pub async fn acquire(&self, caller: &Caller, ask: &LeaseAsk, once: Option<&Once>) -> Result<LeaseAnswer, Problem> {
        caller.need(Scope::LimitCheck)?;
        // What was taken from all is given back if need be, though nobody waits for the answer any more.
        let (app, caller, ask, once) = (self.clone(), caller.clone(), ask.clone(), once.cloned());
        to_the_end(async move { app.acquire_all(&caller, &ask, once.as_ref()).await }).await
    }

    async fn acquire_all(&self, caller: &Caller, ask: &LeaseAsk, once: Option<&Once>) -> Result<LeaseAnswer, Problem> {
        // Made up so that a replay makes up the same.
        let made_up = || once.map_or_else(|| uuid::Uuid::new_v4().simple().to_string(), Once::token);
        let lease = ask.lease.clone().unwrap_or_else(|| format!("ls_{}", made_up()));
        Lease::check_id(&lease)?;
        ask.attributes.check()?;
        if ask.ttl == Some(Micros::ZERO) {
            return Err(Invalid::new("ttl", "must be longer than nothing").into());
        }
        let facts = Facts { subject: ask.subject.as_str(), action: ask.action.as_str(), cost: 1, attributes: &ask.attributes };
        let Matched { rules, is_degraded } = self.matched(caller, &facts).await;
        few_enough(&rules)?;
        if let Some(banned) = rules.iter().find(|rule| rule.mode == Mode::Block) {
            self.metrics.decided(banned.name.as_str(), label(banned), Decision::Refused);
            let bound_by = Some(banned.name.to_string());
            let answer = LeaseAnswer { is_held: false, bound_by, is_degraded, ..LeaseAnswer::new(&lease, self.now()) };
            self.count_lease(caller, &ask.subject, &answer);
            return Ok(answer);
        }
        let of = |scope: Counter| rules.iter().filter(|rule| rule.is_lease() && rule.scope == scope).cloned().collect::<Rules>();
        let (own, shared) = (of(Counter::Subject), of(Counter::Global));
        let wanted = Wanted { subject: ask.subject.clone(), lease, ttl: ask.ttl.unwrap_or(Micros::MAX), own, shared };
        let answer = match self.acquire_both(caller, &wanted, once).await {
            Ok(answer) => LeaseAnswer { is_degraded, ..answer },
            Err(Fault::Engine(fault)) => self.acquire_away(caller, &wanted, fault)?,
            Err(fault) => return Err(fault.into()),
        };
        self.count_lease(caller, &ask.subject, &answer);
        Ok(answer)
    }

    async fn acquire_both(&self, caller: &Caller, wanted: &Wanted, once: Option<&Once>) -> Result<LeaseAnswer, Fault> {
        let mut answer = LeaseAnswer::new(&wanted.lease, self.now());
        let partitions = self.engine.partitions();
        let (shared, own) = wanted.parts(&partitions, &caller.space);
        // The kept answer is looked up before anything that all share is touched.
        if shared.is_some() && own.is_some() && self.kept_lease(caller, &wanted.subject, once, &mut answer).await? {
            return Ok(answer);
        }
        let mut was_held = false;
        if let Some(shared) = &shared {
            was_held = self.leased(shared, once.filter(|_| own.is_none()), &mut answer).await?;
        }
        if let Some(own) = own.filter(|_| answer.is_held) {
            let ran = self.leased(&own, once, &mut answer).await;
            // Only what this call took is given back.
            if shared.is_some() && !was_held && (ran.is_err() || !answer.is_held) {
                let id = shared_id(&wanted.subject, &wanted.lease);
                let release = Lease::release(partitions.place(&caller.space, ""), "", id);
                self.release_at_last(release, wanted.longest().min(wanted.ttl)).await;
            }
            ran?;
        }
        Ok(answer)
    }

    /// Gives back what all share. If the store fails, nobody waits for it, but it is tried for as long as it may last.
    async fn release_at_last(&self, release: Lease, ttl: Micros) {
        let give_up = Instant::now() + ttl.to_duration();
        if self.engine.run(&release, None).await.is_ok() {
            return;
        }
        let app = self.clone();
        tokio::spawn(async move {
            while Instant::now() < give_up && !app.is_stopping() {
                tokio::time::sleep(AGAIN).await;
                if app.engine.run(&release, None).await.is_ok() {
                    return;
                }
            }
            tracing::warn!("a lease that was refused could not be given back where all subjects share it; it ends by itself");
        });
    }

    /// Whether an answer is kept for this key, which is then the answer. To give back what nobody has
    /// changes nothing.
    async fn kept_lease(&self, caller: &Caller, subject: &Subject, once: Option<&Once>, answer: &mut LeaseAnswer) -> Result<bool, Fault> {
        if once.is_none() {
            return Ok(false);
        }
        let home = subject.as_str();
        let place = self.engine.partitions().place(&caller.space, home);
        let mut kept = LeaseAnswer::new(&answer.lease, self.now());
        self.leased(&Lease::release(place, home, NOBODYS.to_owned()), once, &mut kept).await?;
        if kept.is_replayed {
            *answer = kept;
        }
        Ok(answer.is_replayed)
    }

    /// Keeps a lease for longer, or gives it back, by its id.
    pub async fn keep_lease(
        &self,
        caller: &Caller,
        subject: &Subject,
        lease: &str,
        keep: Option<Option<Micros>>,
        once: Option<&Once>,
    ) -> Result<LeaseAnswer, Problem> {
        caller.need(Scope::LimitCheck)?;
        Lease::check_id(lease)?;
        // Both parts are kept, or given back.
        let keep = Keep { subject: subject.clone(), lease: lease.to_owned(), ttl: keep };
        let (app, caller, once) = (self.clone(), caller.clone(), once.cloned());
        to_the_end(async move { app.keep_both(&caller, &keep, once.as_ref()).await }).await
    }

    async fn keep_both(&self, caller: &Caller, keep: &Keep, once: Option<&Once>) -> Result<LeaseAnswer, Problem> {
        let Keep { subject, lease, ttl } = keep;
        let mut answer = LeaseAnswer { is_held: false, ..LeaseAnswer::new(lease, self.now()) };
        match self.kept_lease(caller, subject, once, &mut answer).await {
            Ok(false) => {}
            Ok(true) => return Ok(answer),
            // It is asked for below, too.
            Err(Fault::Engine(fault)) if is_away(&fault) => {}
            Err(fault) => return Err(fault.into()),
        }
        let (mut lost, mut last_fault) = (Vec::new(), None);
        // Most leases have no part that all subjects share, and some have no other.
        let homes = [("", Counter::Global, shared_id(subject, lease)), (subject.as_str(), Counter::Subject, lease.clone())];
        for (home, counter, id) in homes {
            let place = self.engine.partitions().place(&caller.space, home);
            let op = match ttl {
                Some(ttl) => Lease::renew(place, home, id.clone(), *ttl),
                None => Lease::release(place, home, id.clone()),
            };
            let op = op.asked_by(subject.as_str());
            let mut part = LeaseAnswer::new(lease, self.now());
            match self.leased(&op, once, &mut part).await {
                Ok(_) => {}
                Err(Fault::Engine(fault)) if is_away(&fault) => {
                    let known = self.local.keep(&op, home, &id, self.now());
                    lost.push(Lost { counter, is_known: known.is_some() });
                    last_fault = Some(fault);
                    match known {
                        Some(leased) => part.add(&leased, None, false),
                        None => part.is_held = false,
                    }
                }
                Err(fault) => return Err(fault.into()),
            }
            if part.is_held {
                let until = answer.until.map_or(part.until, |until| part.until.map(|other| other.min(until)));
                answer = LeaseAnswer { until, is_replayed: part.is_replayed || answer.is_replayed, ..part };
            }
        }
        match last_fault {
            Some(fault) => self.keep_away(caller, keep, &lost, fault, answer).await,
            None => Ok(answer),
        }
    }

    /// Whether it had been held before.
    async fn leased(&self, op: &Lease, once: Option<&Once>, answer: &mut LeaseAnswer) -> Result<bool, Fault> {
        let ran = self.engine.run(op, once).await.map_err(Fault::Engine)?;
        self.local.forget(op.place());
        let (leased, is_replayed) = match ran.outcome {
            Outcome::Done(leased) => (leased, false),
            Outcome::Replayed(leased) => (leased, true),
            Outcome::Conflict => return Err(Fault::Conflict),
        };
        answer.add(&leased, Some(ran.durability), is_replayed);
        Ok(leased.was_held)
    }

    fn count_lease(&self, caller: &Caller, subject: &Subject, answer: &LeaseAnswer) {
        self.metrics.checked(answer.is_held);
        for LeaseSaid { name, counted: (label, decision), .. } in &answer.rules {
            self.metrics.decided(name, label, *decision);
        }
        if !answer.is_held {
            self.top.add(&caller.space, subject.as_str());
        }
    }
}

/// No lease is called so: ids have no line breaks but where a subject stands before them.
const NOBODYS: &str = "\n";

/// Where all subjects share the rules, ids are told apart by their subject.
pub(super) fn shared_id(subject: &Subject, lease: &str) -> String {
    format!("{subject}\n{lease}")
}
