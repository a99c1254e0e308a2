//! limit: reserve, commit, cancel, and what expired.

use hermod_catalog::Scope;
use hermod_core::limit::reserve::TTL_MAX;
use hermod_core::limit::settle::EXPIRED_MAX;
use hermod_core::limit::{Check, Fate, OnExpiry, Owed, ReservationId, Rules, Settle, Settled};
use hermod_core::{INT_MAX, Invalid, Micros, Once, Outcome, Subject};
use hermod_engine::{Durability, EngineError};

use super::decide::{Booking, Fault, Split};
use super::{CheckAnswer, CheckAsk, Matched, few_enough, split};
use crate::app::{App, Caller, to_the_end};
use crate::code::{Code, Problem, conflict};

/// How long a reservation is open, if it does not say.
const TTL: Micros = Micros::saturating(300_000_000);

/// So often a step of those that have expired is settled before a check: all that can be open.
const STEPS_MAX: usize = 5;

/// What an estimate is answered with.
#[derive(Clone, Debug)]
pub struct ReserveAnswer {
    /// As a check is.
    pub checked: CheckAnswer,
    /// Its id, and when it expires, if it was made.
    pub reservation: Option<(String, Micros)>,
}

/// What became of a reservation.
#[derive(Clone, Debug)]
pub struct SettleAnswer {
    /// How it is settled.
    pub outcome: SettleOutcome,
    /// What was charged first.
    pub estimate: u64,
    /// What it was settled to.
    pub charged: u64,
    /// The time of the answer.
    pub now: Micros,
    /// What the change survives; none if nothing was changed.
    pub durability: Option<Durability>,
    /// The answer was given before, for the same idempotency key.
    pub is_replayed: bool,
}

/// How a reservation is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// By this call.
    Settled,
    /// By an earlier one; this call changed nothing.
    Already,
    /// It had expired, and this is what became of the estimate.
    Expired(OnExpiry),
}

impl App {
    /// Charges an estimate as a check does, and notes it down to be settled.
    pub async fn reserve(
        &self,
        caller: &Caller,
        ask: &CheckAsk,
        ttl: Option<Micros>,
        once: Option<&Once>,
    ) -> Result<ReserveAnswer, Problem> {
        caller.need(Scope::LimitCheck)?;
        let ttl = ttl.unwrap_or(TTL);
        if ttl == Micros::ZERO || ttl > TTL_MAX {
            return Err(Invalid::new("ttl", "must be longer than nothing, and 24h at most").into());
        }
        // Made up so that a replay makes up the same.
        let number = once.map_or_else(|| uuid::Uuid::new_v4().as_u128(), Once::number);
        let booking = Booking { id: ReservationId { number, subject: ask.subject.clone() }, ttl };
        let Matched { rules, is_degraded } = self.matched(caller, &ask.facts()).await;
        few_enough(&rules)?;
        let (own, shared) = split(rules);
        let split = Split { own, shared };
        self.settle_expired(caller, &ask.subject, &split).await;
        let checked = match self.decide(caller, ask, &split, once, Some(&booking)).await {
            Ok(mut checked) => {
                checked.is_degraded = is_degraded;
                checked
            }
            // Where the rules say to answer all the same, nothing is noted down, and nothing is to be settled.
            Err(Fault::Engine(fault)) => self.without_store(caller, ask, &split.own, &split.shared, fault)?,
            Err(fault) => return Err(fault.into()),
        };
        self.count(caller, ask, &checked);
        let reservation = checked.reserved_at.map(|at| (booking.id.to_string(), at.plus(ttl)));
        Ok(ReserveAnswer { checked, reservation })
    }

    /// Settles a reservation to what was really used; as it was estimated if absent. Once: whoever comes
    /// again is told what it was settled to.
    pub async fn commit(
        &self,
        caller: &Caller,
        reservation: &str,
        actual: Option<u64>,
        once: Option<&Once>,
    ) -> Result<SettleAnswer, Problem> {
        caller.need(Scope::LimitCheck)?;
        let id: ReservationId = reservation.parse()?;
        if actual.is_some_and(|actual| actual > INT_MAX) {
            return Err(Invalid::new("actual", format!("must be between 0 and {INT_MAX}")).into());
        }
        let (app, caller, once) = (self.clone(), caller.clone(), once.cloned());
        to_the_end(async move { app.commit_all(&caller, id, actual, once.as_ref()).await }).await
    }

    /// Settles it, and does what follows where all subjects share the counters.
    async fn commit_all(
        &self,
        caller: &Caller,
        id: ReservationId,
        actual: Option<u64>,
        once: Option<&Once>,
    ) -> Result<SettleAnswer, Problem> {
        let place = self.engine.partitions().place(&caller.space, id.subject.as_str());
        let ran = self.engine.run(&Settle::one(place, &id, actual), once).await?;
        let (settled, is_replayed) = match ran.outcome {
            Outcome::Done(settled) => (settled, false),
            Outcome::Replayed(settled) => (settled, true),
            Outcome::Conflict => return Err(conflict()),
        };
        let outcome = match settled.fate {
            Some(Fate::Settled) if settled.is_done => SettleOutcome::Settled,
            Some(Fate::Settled) => SettleOutcome::Already,
            Some(Fate::Kept) => SettleOutcome::Expired(OnExpiry::Keep),
            Some(Fate::Refunded) => SettleOutcome::Expired(OnExpiry::Refund),
            Some(Fate::Open) | None => return Err(unknown()),
        };
        let durability = settled.is_done.then_some(ran.durability);
        let (estimate, charged, now) = (settled.estimate, settled.charged, settled.now);
        if !is_replayed {
            self.pay(caller, &id.subject, settled).await;
        }
        Ok(SettleAnswer { outcome, estimate, charged, now, durability, is_replayed })
    }

    /// Gives back what expired, where a rule that applies says so: before the subject is answered.
    pub(super) async fn settle_expired(&self, caller: &Caller, subject: &Subject, split: &Split) {
        if !gives_back(&split.own) && !gives_back(&split.shared) {
            return;
        }
        let (app, caller, subject) = (self.clone(), caller.clone(), subject.clone());
        to_the_end(async move { app.settle_steps(&caller, &subject).await }).await;
    }

    async fn settle_steps(&self, caller: &Caller, subject: &Subject) {
        let place = self.engine.partitions().place(&caller.space, subject.as_str());
        for _ in 0..STEPS_MAX {
            // A store that cannot be reached is told of by the question itself.
            let Ok(ran) = self.engine.run(&Settle::expired(place.clone(), subject.as_str()), None).await else { return };
            let Outcome::Done(settled) = ran.outcome else { return };
            let has_more = usize::try_from(settled.expired).is_ok_and(|expired| expired >= EXPIRED_MAX);
            self.pay(caller, subject, settled).await;
            if !has_more {
                return;
            }
        }
    }

    /// Does what is owed where all subjects share the counters. Only who settled a reservation does it; if it
    /// fails, the estimate stays charged there, which is the safe side.
    async fn pay(&self, caller: &Caller, subject: &Subject, settled: Settled) {
        if !settled.is_done {
            return;
        }
        let has_shared = !settled.owed.is_empty();
        for Owed { act, cost, rule } in settled.owed {
            let (place, id) = (self.engine.partitions().place(&caller.space, ""), rule.id.clone());
            let check = Check::new(place, None, act, cost, Rules::from([rule.into()])).asked_by(subject.clone());
            let ran: Result<_, EngineError> = self.engine.run(&check, None).await;
            if let Err(fault) = ran {
                tracing::warn!(rule = %id, error = %fault, "a reservation was not settled where all subjects share the counter");
            }
        }
        if let Some(refusals) = &self.refusals {
            if has_shared { refusals.forget_all() } else { refusals.forget(&caller.space, subject) }
        }
    }
}

/// Whether one of these rules gives back what expired.
pub(super) fn gives_back(rules: &Rules) -> bool {
    rules.iter().any(|rule| rule.on_expiry == OnExpiry::Refund)
}

pub(super) fn too_many() -> Problem {
    let many = format!(
        "This subject has {} open reservations, which is the most; commit or cancel some.",
        hermod_core::limit::reservations::OPEN_MAX
    );
    Problem::new(Code::TooManyReservations, many)
}

fn unknown() -> Problem {
    Problem::new(Code::NotFound, "There is no such reservation; it may have been settled long ago.").in_field("reservation")
}
