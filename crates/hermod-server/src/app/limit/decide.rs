//! One question as operations: the subject's own rules in one, those that all share in another.

use std::sync::Arc;

use hermod_core::limit::{Act, Check, Explained, Mode, ReservationId, Reserve, Reserved, Rules, Verdict};
use hermod_core::{Micros, Once, Operation, Outcome, Subject};
use hermod_engine::{Durability, EngineError};

use super::reserve::too_many;
use super::{CheckAnswer, CheckAsk};
use crate::app::{App, Caller, to_the_end};
use crate::code::{Problem, conflict};

/// What an engine made of one operation.
pub(super) struct Ran {
    pub(super) checked: Explained,
    pub(super) durability: Durability,
    /// It was not only looked at.
    pub(super) is_charged: bool,
    /// It was noted down, to be settled; if it was admitted.
    pub(super) is_reserved: bool,
    pub(super) is_replayed: bool,
}

/// Why there is no answer.
pub(super) enum Fault {
    Engine(EngineError),
    Conflict,
    /// The subject has as many open reservations as it can have.
    TooMany,
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Problem {
        match fault {
            Fault::Engine(fault) => fault.into(),
            Fault::Conflict => conflict(),
            Fault::TooMany => too_many(),
        }
    }
}

/// A reservation to be made of what is charged.
#[derive(Clone, Debug)]
pub(super) struct Booking {
    pub(super) id: ReservationId,
    pub(super) ttl: Micros,
}

/// The rules that apply: the subject's own, and those that all subjects share.
#[derive(Clone)]
pub(super) struct Split {
    pub(super) own: Rules,
    pub(super) shared: Rules,
}

impl App {
    pub(super) async fn decide(
        &self,
        caller: &Caller,
        ask: &CheckAsk,
        split: &Split,
        once: Option<&Once>,
        booking: Option<&Booking>,
    ) -> Result<CheckAnswer, Fault> {
        let Split { own, shared } = split;
        // Without a rule there is nothing to charge; an idempotency key is honoured all the same.
        if shared.is_empty() {
            if own.is_empty() && once.is_none() && booking.is_none() {
                return Ok(CheckAnswer::unlimited(self.now(), ask.cost));
            }
            return Ok(CheckAnswer::new(self.run_own(caller, ask, own, once, booking, None).await?));
        }
        if own.is_empty() && booking.is_none() {
            return Ok(CheckAnswer::new(self.run(caller, ask, None, ask.act, shared, once).await?));
        }
        // What was taken from all is given back if need be, though nobody waits for the answer any more.
        let (app, caller, ask, split) = (self.clone(), caller.clone(), ask.clone(), split.clone());
        let (once, booking) = (once.cloned(), booking.cloned());
        to_the_end(async move { app.decide_both(&caller, &ask, &split, once.as_ref(), booking.as_ref()).await }).await
    }

    async fn decide_both(
        &self,
        caller: &Caller,
        ask: &CheckAsk,
        Split { own, shared }: &Split,
        once: Option<&Once>,
        booking: Option<&Booking>,
    ) -> Result<CheckAnswer, Fault> {
        // The kept answer is the subject's: it is looked up before anything that all share is touched.
        if once.is_some() {
            let kept = self.run(caller, ask, Some(&ask.subject), Act::Peek, own, once).await?;
            if kept.is_replayed {
                return Ok(CheckAnswer::new(Ran { is_reserved: booking.is_some(), ..kept }));
            }
        }
        // A ban refuses without a look at any counter: what all share is not touched for it.
        let is_banned = matches!(ask.act, Act::Check | Act::Force) && own.iter().any(|rule| rule.mode == Mode::Block);
        let act = if is_banned { Act::Peek } else { ask.act };
        let first = self.run(caller, ask, None, act, shared, None).await?;
        if first.checked.verdict() != Verdict::Allowed {
            // Refused already; the others are looked at, so that the answer is complete. It stands without them.
            let answer = CheckAnswer::new(first);
            return Ok(match self.run(caller, ask, Some(&ask.subject), Act::Peek, own, None).await {
                Ok(second) => answer.and(second),
                Err(_) => answer,
            });
        }
        let second = self.run_own(caller, ask, own, once, booking, Some(&first.checked)).await;
        let must_undo = match &second {
            Ok(second) => second.is_replayed || second.checked.verdict() != Verdict::Allowed,
            Err(Fault::Conflict | Fault::TooMany) => true,
            // Whether the subject was charged is not known; to charge once too often is the safe side.
            Err(Fault::Engine(_)) => false,
        };
        let undo = match act {
            Act::Check | Act::Force => Act::Undo,
            Act::Refund | Act::Undo => Act::Force,
            Act::Peek => Act::Peek,
        };
        if !must_undo {
            return Ok(CheckAnswer::new(first).and(second?));
        }
        // A rule that only reports, and was over its limit, was not charged.
        let undone = self.run(caller, ask, None, undo, &first.checked.admitting(), None).await;
        if let Some(refusals) = &self.refusals {
            refusals.forget_all();
        }
        let second = second?;
        let looked = match undone {
            Ok(_) => self.run(caller, ask, None, Act::Peek, shared, None).await,
            Err(fault) => Err(fault),
        };
        match looked {
            Ok(looked) => Ok(CheckAnswer::new(looked).and(second)),
            // The refusal stands; what all share was charged once too often, which is the safe side.
            Err(_) if second.checked.verdict() != Verdict::Allowed => Ok(CheckAnswer::new(second)),
            Err(fault) => Err(fault),
        }
    }

    /// The subject's own part; where it is to be reserved, together with what all share.
    async fn run_own(
        &self,
        caller: &Caller,
        ask: &CheckAsk,
        own: &Rules,
        once: Option<&Once>,
        booking: Option<&Booking>,
        shared: Option<&Explained>,
    ) -> Result<Ran, Fault> {
        let Some(Booking { id, ttl }) = booking else { return self.run(caller, ask, Some(&ask.subject), ask.act, own, once).await };
        let place = self.engine.partitions().place(&caller.space, ask.subject.as_str());
        let mut reserve = Reserve::new(place, id.clone(), *ttl, ask.cost, Arc::clone(own));
        if let Some(shared) = shared {
            reserve = reserve.and(shared);
        }
        let ran = self.engine.run(&reserve, once).await.map_err(Fault::Engine)?;
        self.local.forget(reserve.place());
        let (reserved, is_replayed) = match ran.outcome {
            Outcome::Done(reserved) => (reserved, false),
            Outcome::Replayed(reserved) => (reserved, true),
            Outcome::Conflict => return Err(Fault::Conflict),
        };
        let Reserved::Checked(checked) = reserved else { return Err(Fault::TooMany) };
        Ok(Ran { checked: checked.explained(own), durability: ran.durability, is_charged: true, is_reserved: true, is_replayed })
    }

    pub(super) async fn run(
        &self,
        caller: &Caller,
        ask: &CheckAsk,
        subject: Option<&Subject>,
        act: Act,
        rules: &Rules,
        once: Option<&Once>,
    ) -> Result<Ran, Fault> {
        let place = self.engine.partitions().place(&caller.space, subject.map_or("", Subject::as_str));
        let mut check = Check::new(&place, subject, act, ask.cost, rules);
        if subject.is_none() {
            check = check.asked_by(&ask.subject);
        }
        let ran = self.engine.run(&check, once).await.map_err(Fault::Engine)?;
        self.local.forget(&place);
        let (checked, is_replayed) = match ran.outcome {
            Outcome::Done(checked) => (checked, false),
            Outcome::Replayed(checked) => (checked, true),
            Outcome::Conflict => return Err(Fault::Conflict),
        };
        let is_charged = act != Act::Peek;
        Ok(Ran { checked: checked.explained(rules), durability: ran.durability, is_charged, is_reserved: false, is_replayed })
    }
}
