//! limit: acquire, renew, release.

use hermod_catalog::Scope;
use hermod_core::limit::{Attributes, Facts, Lease, Leased, Mode, Rules, Scope as Counter};
use hermod_core::{Action, Invalid, Micros, Once, Outcome, Subject};
use hermod_engine::Durability;
use tokio::time::Instant;

use super::few_enough;
use crate::app::{AGAIN, App, Caller, to_the_end};
use crate::code::{Problem, conflict};

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

/// What became of a lease.
#[derive(Clone, Debug)]
pub struct LeaseAnswer {
    /// Its id.
    pub lease: String,
    /// The time of the answer.
    pub now: Micros,
    /// Whether it is held; after a release, whether it was.
    pub is_held: bool,
    /// When it ends by itself.
    pub until: Option<Micros>,
    /// Of each rule: id, name, limit, how many are left.
    pub rules: Vec<(String, String, u64, u64)>,
    /// The rule that refused.
    pub bound_by: Option<String>,
    /// When it could be taken, if nobody else does meanwhile.
    pub retry_at: Option<Micros>,
    /// What it survives.
    pub durability: Option<Durability>,
    /// The answer was given before, for the same idempotency key.
    pub is_replayed: bool,
}

impl LeaseAnswer {
    fn new(lease: &str, now: Micros) -> LeaseAnswer {
        LeaseAnswer {
            lease: lease.to_owned(),
            now,
            is_held: true,
            until: None,
            rules: Vec::new(),
            bound_by: None,
            retry_at: None,
            durability: None,
            is_replayed: false,
        }
    }

    fn add(&mut self, leased: &Leased, durability: Durability, is_replayed: bool) {
        self.now = leased.now;
        self.is_held &= leased.is_held();
        self.until = match (self.until, leased.until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        for (rule, (taken, _)) in leased.rules.iter().zip(&leased.taken) {
            let (limit, id, name) = (rule.meter.most(), rule.id.to_string(), rule.name.to_string());
            self.rules.push((id, name, limit, limit.saturating_sub(*taken)));
        }
        if leased.retry_at() > self.retry_at {
            self.retry_at = leased.retry_at();
            self.bound_by = leased.bound_by().map(|rule| rule.name.to_string());
        }
        self.durability = leased.is_held().then_some(durability);
        self.is_replayed |= is_replayed;
    }
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
        let matched = self.matched(caller, &facts).await;
        few_enough(&matched.rules)?;
        let of = |scope: Counter| matched.rules.iter().filter(|rule| rule.is_lease() && rule.scope == scope).cloned().collect::<Rules>();
        let (own, shared) = (of(Counter::Subject), of(Counter::Global));
        let mut answer = LeaseAnswer::new(&lease, self.now());
        if let Some(banned) = matched.rules.iter().find(|rule| rule.mode == Mode::Block) {
            return Ok(LeaseAnswer { is_held: false, bound_by: Some(banned.name.to_string()), ..answer });
        }
        let ttl = ask.ttl.unwrap_or(Micros::MAX);
        let shared_id = shared_id(&ask.subject, &lease);
        let (home, partitions) = (ask.subject.as_str(), self.engine.partitions());
        // The kept answer is looked up before anything that all share is touched.
        if !shared.is_empty() && !own.is_empty() && self.kept_lease(caller, home, once, &mut answer).await? {
            return Ok(answer);
        }
        // Both parts end at once, or renewing would revive one of them alone.
        let longest = Lease::longest(&own).min(Lease::longest(&shared));
        let mut was_held = false;
        if !shared.is_empty() {
            let place = partitions.place(&caller.space, "");
            let first = Lease::acquire(place, "", shared_id.clone(), ttl, Rules::clone(&shared)).at_most(longest).asked_by(home);
            was_held = self.leased(&first, once.filter(|_| own.is_empty()), &mut answer).await?;
        }
        if answer.is_held && !own.is_empty() {
            let second = Lease::acquire(partitions.place(&caller.space, home), home, lease, ttl, own).at_most(longest);
            let ran = self.leased(&second, once, &mut answer).await;
            // Only what this call took is given back.
            if !shared.is_empty() && !was_held && (ran.is_err() || !answer.is_held) {
                self.release_at_last(Lease::release(partitions.place(&caller.space, ""), "", shared_id), longest.min(ttl)).await;
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
    async fn kept_lease(&self, caller: &Caller, home: &str, once: Option<&Once>, answer: &mut LeaseAnswer) -> Result<bool, Problem> {
        if once.is_none() {
            return Ok(false);
        }
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
        let (app, caller, subject, lease, once) = (self.clone(), caller.clone(), subject.clone(), lease.to_owned(), once.cloned());
        to_the_end(async move { app.keep_both(&caller, &subject, &lease, keep, once.as_ref()).await }).await
    }

    async fn keep_both(
        &self,
        caller: &Caller,
        subject: &Subject,
        lease: &str,
        keep: Option<Option<Micros>>,
        once: Option<&Once>,
    ) -> Result<LeaseAnswer, Problem> {
        let mut answer = LeaseAnswer { is_held: false, ..LeaseAnswer::new(lease, self.now()) };
        if self.kept_lease(caller, subject.as_str(), once, &mut answer).await? {
            return Ok(answer);
        }
        // Most leases have no part that all subjects share, and some have no other.
        for (home, id) in [("", shared_id(subject, lease)), (subject.as_str(), lease.to_owned())] {
            let place = self.engine.partitions().place(&caller.space, home);
            let op = match keep {
                Some(ttl) => Lease::renew(place, home, id, ttl),
                None => Lease::release(place, home, id),
            };
            let mut part = LeaseAnswer::new(lease, self.now());
            self.leased(&op.asked_by(subject.as_str()), once, &mut part).await?;
            if part.is_held {
                let until = answer.until.map_or(part.until, |until| part.until.map(|other| other.min(until)));
                answer = LeaseAnswer { until, is_replayed: part.is_replayed || answer.is_replayed, ..part };
            }
        }
        Ok(answer)
    }

    /// Whether it had been held before.
    async fn leased(&self, op: &Lease, once: Option<&Once>, answer: &mut LeaseAnswer) -> Result<bool, Problem> {
        let ran = self.engine.run(op, once).await?;
        let (leased, is_replayed) = match ran.outcome {
            Outcome::Done(leased) => (leased, false),
            Outcome::Replayed(leased) => (leased, true),
            Outcome::Conflict => return Err(conflict()),
        };
        answer.add(&leased, ran.durability, is_replayed);
        Ok(leased.was_held)
    }
}

/// No lease is called so: ids have no line breaks but where a subject stands before them.
const NOBODYS: &str = "\n";

/// Where all subjects share the rules, ids are told apart by their subject.
fn shared_id(subject: &Subject, lease: &str) -> String {
    format!("{subject}\n{lease}")
}
