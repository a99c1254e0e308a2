//! pick: which message should this subject get next?
//!
//! The planner orders, the store decides. What is known of a subject is kept between picks as a hint; whoever picked
//! elsewhere in between makes it stale, which the store notices: then it tells what is, and the plan is made anew.

mod hints;
mod picture;
mod subject;

use std::sync::Arc;
use std::time::Instant;

use hermod_catalog::{DeckView, OwnMessages, Scope};
use hermod_core::pick::history::Touched;
use hermod_core::pick::{
    Ask, Fate, Message, Offer, PickId, Picked, Plan, Planned, Profile, Reason, Recalled, Refusal, Settle, Simulated, Take, Taken, View,
};
use hermod_core::{DeckId, Invalid, MessageId, Micros, Once, Outcome, Subject};
use hermod_engine::{Durability, Engine};

use super::{App, Caller};
use crate::code::{Code, Problem, conflict};

pub(crate) use hints::Hints;
use hints::{Known, Version};
pub use picture::{Considered, HistoryAnswer, Looked, Verdict};

/// How long a pick is reserved, if it does not say.
const LEASE: Micros = Micros::saturating(60_000_000);
/// The longest.
const LEASE_MAX: Micros = Micros::saturating(24 * 3_600_000_000);
/// So often a plan is made anew. Each turn somebody else got a message of this subject.
const TURNS: u64 = 64;

/// Which message should this subject get next?
#[derive(Clone, Debug)]
pub struct PickAsk {
    /// Of which deck.
    pub deck: DeckId,
    /// For whom.
    pub subject: Subject,
    /// For how long it is reserved; none: it is committed at once.
    pub lease: Option<Micros>,
}

impl PickAsk {
    /// Checks what came from outside.
    pub fn new(deck: &str, subject: &str, reserve: bool, ttl: Option<Micros>) -> Result<PickAsk, Invalid> {
        let lease = match (reserve, ttl) {
            (false, Some(_)) => return Err(Invalid::new("ttl", "is for mode: reserve only")),
            (false, None) => None,
            (true, ttl) => Some(ttl.unwrap_or(LEASE)),
        };
        if lease.is_some_and(|lease| lease == Micros::ZERO || lease > LEASE_MAX) {
            return Err(Invalid::new("ttl", "must be longer than nothing, and 24h at most"));
        }
        Ok(PickAsk { deck: DeckId::new(deck)?, subject: Subject::new(subject)?, lease })
    }
}

/// What a pick is answered with.
#[derive(Clone, Debug)]
pub enum PickAnswer {
    /// One was picked.
    Picked(PickedAnswer),
    /// Nothing is allowed.
    None {
        /// Why, and when to ask again.
        refusal: Refusal,
        /// The time of the answer.
        now: Micros,
    },
}

/// A message that was picked.
#[derive(Clone, Debug)]
pub struct PickedAnswer {
    /// What it is settled by; none in a dry run.
    pub id: Option<String>,
    /// The message's name.
    pub message: MessageId,
    /// The message; none if it was deleted since.
    pub body: Option<Arc<Message>>,
    /// When it was picked.
    pub now: Micros,
    /// When it is given back unless it is settled; none: it is committed.
    pub expires_at: Option<Micros>,
    /// What the change survives; none in a dry run.
    pub durability: Option<Durability>,
    /// The answer was given before, for the same idempotency key.
    pub is_replayed: bool,
}

/// What became of a pick.
#[derive(Clone, Copy, Debug)]
pub struct PickSettled {
    /// Its fate.
    pub fate: Fate,
    /// This call settled it.
    pub is_done: bool,
    /// The time of the answer.
    pub now: Micros,
    /// What the change survives; none if nothing was changed.
    pub durability: Option<Durability>,
    /// The answer was given before, for the same idempotency key.
    pub is_replayed: bool,
}

/// A deck as a pick sees it.
struct Seen {
    deck: Arc<DeckView>,
    own: Arc<OwnMessages>,
}

impl App {
    /// Picks a message.
    pub async fn pick(&self, caller: &Caller, ask: &PickAsk, once: Option<&Once>) -> Result<PickAnswer, Problem> {
        caller.need(Scope::DecksPick)?;
        let answer = self.pick_now(caller, ask, once).await?;
        match &answer {
            // It was counted when it was picked.
            PickAnswer::Picked(picked) if picked.is_replayed => {}
            PickAnswer::Picked(_) => self.metrics.picked(ask.deck.as_str(), "picked"),
            PickAnswer::None { refusal, .. } => self.metrics.picked(ask.deck.as_str(), refusal.reason.as_str()),
        }
        Ok(answer)
    }

    async fn pick_now(&self, caller: &Caller, ask: &PickAsk, once: Option<&Once>) -> Result<PickAnswer, Problem> {
        // One for each call, however much of it is known here.
        let chance = self.seed();
        let mut seen = self.see(caller, &ask.deck, &ask.subject).await?;
        let hint = self.hints.of(&caller.space, seen_epoch(&seen), &ask.subject);
        let change = self.hints.changes.of(&caller.space, &ask.subject);
        // Under an idempotency key something may have been picked before, which is the answer then.
        if once.is_none()
            && let Some((refusal, now)) = hint.known(Version::new(&seen.deck, &seen.own, change), &self.clock, self.is_alone())
        {
            return Ok(PickAnswer::None { refusal, now });
        }
        let place = self.engine.partitions().place(&caller.space, ask.subject.as_str());
        let mut now = self.clock.now();
        // Whether what is known was told by the store in this call.
        let mut is_fresh = false;
        let mut asked = Instant::now();
        for turn in 0..TURNS {
            let (seed, number) = (chance.child(2 * turn), chance.child(2 * turn + 1).below(1 << 53));
            let planned = hint.plan(|mut hinted| {
                let request = Ask { seed, lease: ask.lease.unwrap_or_default(), number, candidates: hinted.candidates };
                self.renew(&mut hinted, &seen, &ask.subject, now);
                match hinted.view.plan(&request, now) {
                    Planned::Plan(plan) => Ok(plan),
                    // Nothing is answered that the store did not tell.
                    Planned::None(refusal) if is_fresh => Err((refusal, hinted.view.refused_until(&refusal, now))),
                    Planned::None(_) => Ok(Box::new(hinted.view.confirm(now))),
                }
            });
            let plan = match planned {
                Some(Err((refusal, until))) => {
                    hint.learn(Known::new(refusal, (now, until), asked, Version::new(&seen.deck, &seen.own, change)));
                    return Ok(PickAnswer::None { refusal, now });
                }
                Some(Ok(plan)) => Some(Arc::<Plan>::from(plan)),
                None => None,
            };
            let (place, subject, deck, epoch) = (place.clone(), ask.subject.clone(), ask.deck.clone(), seen_epoch(&seen));
            let take = match &plan {
                Some(plan) => Take::plan(place, subject, deck, epoch, Arc::clone(plan)),
                None => Take::recall(place, subject, deck, epoch),
            };
            asked = Instant::now();
            let ran = self.engine.run(&take, once).await?;
            let (taken, is_replayed) = match ran.outcome {
                Outcome::Done(taken) => (taken, false),
                Outcome::Replayed(taken) => (taken, true),
                Outcome::Conflict => return Err(conflict()),
            };
            match taken {
                Taken::Picked(picked) => {
                    if let Some(plan) = plan.filter(|_| !is_replayed) {
                        hint.took(&plan, &picked);
                    }
                    return self.picked(caller, ask, &seen, picked, ran.durability, is_replayed).await;
                }
                Taken::Nothing(at) => (now, is_fresh) = (at, true),
                Taken::Busy { now, until } => {
                    let refusal = Refusal { reason: Reason::Unsettled, retry_at: Some(until) };
                    return Ok(PickAnswer::None { refusal, now });
                }
                Taken::Again(recalled) => {
                    now = recalled.now;
                    is_fresh = true;
                    seen = self.see(caller, &ask.deck, &ask.subject).await?;
                    let view = self.view(*recalled, &seen, &ask.subject)?;
                    hint.recalled(view, seen.own.generation);
                    self.hints.keep(&caller.space, seen_epoch(&seen), &ask.subject, &hint);
                }
            }
        }
        Err(Problem::new(Code::Overloaded, "Too many picks for this subject at once; nothing was picked. Ask again."))
    }

    /// Whether nobody else changes what is in the store.
    fn is_alone(&self) -> bool {
        matches!(self.engine, Engine::Embedded(_))
    }

    /// Says what would be picked, and changes nothing.
    pub async fn pick_dry(&self, caller: &Caller, ask: &PickAsk) -> Result<PickAnswer, Problem> {
        caller.need(Scope::DecksPick)?;
        let (view, now) = self.recall(caller, &ask.deck, &ask.subject).await?;
        let request = Ask { seed: self.seed(), lease: ask.lease.unwrap_or_default(), number: 0, candidates: 1 };
        match view.plan(&request, now) {
            Planned::None(refusal) => Ok(PickAnswer::None { refusal, now }),
            Planned::Plan(plan) => {
                let first = plan.candidates.first();
                let message = first.and_then(|first| view.offer().message(first.ordinal)).cloned().ok_or_else(lost)?;
                let expires_at = ask.lease.map(|lease| now.plus(lease));
                let (id, name, body) = (None, message.id.clone(), Some(message));
                Ok(PickAnswer::Picked(PickedAnswer { id, message: name, body, now, expires_at, durability: None, is_replayed: false }))
            }
        }
    }

    /// The next picks, each at its time, if nothing changes; and why there are no more, if there are fewer.
    pub async fn pick_simulated(&self, caller: &Caller, ask: &PickAsk, count: u64) -> Result<Simulated, Problem> {
        caller.need(Scope::DecksPick)?;
        let (view, now) = self.recall(caller, &ask.deck, &ask.subject).await?;
        Ok(view.simulate(self.seed(), count, now))
    }

    /// Keeps a reserved pick, or gives it back.
    pub async fn settle_pick(&self, caller: &Caller, id: &str, ack: bool, once: Option<&Once>) -> Result<PickSettled, Problem> {
        caller.need(Scope::DecksPick)?;
        let id: PickId = id.parse()?;
        let place = self.engine.partitions().place(&caller.space, id.subject.as_str());
        let settle = if ack { Settle::ack(place, &id) } else { Settle::nack(place, &id) };
        let growing = self.hints.changes.growing(&caller.space, &id.subject);
        let ran = self.engine.run(&settle, once).await?;
        drop(growing);
        let (settled, is_replayed) = match ran.outcome {
            Outcome::Done(settled) => (settled, false),
            Outcome::Replayed(settled) => (settled, true),
            Outcome::Conflict => return Err(conflict()),
        };
        let fate = settled.fate.ok_or_else(|| {
            let what = "There is no such pick to settle: it was committed at once, or settled long ago.";
            Problem::new(Code::NotFound, what).in_field("id")
        })?;
        if settled.is_done {
            self.hints.forget(&caller.space, id.epoch, &id.subject);
            self.metrics.picked(id.deck.as_str(), fate.as_str());
        }
        let durability = settled.is_done.then_some(ran.durability);
        Ok(PickSettled { fate, is_done: settled.is_done, now: settled.now, durability, is_replayed })
    }

    /// The deck, and what it has for the subject alone.
    async fn see(&self, caller: &Caller, deck: &DeckId, subject: &Subject) -> Result<Seen, Problem> {
        let deck = self.catalog.deck(&caller.space, deck).ok_or_else(|| deck_not_found(deck))?;
        let own = match self.catalog.own_messages_now(&caller.space, &deck, subject.as_str()) {
            Some(own) => own,
            None => self.catalog.own_messages(&caller.space, &deck, subject.as_str()).await?,
        };
        Ok(Seen { deck, own })
    }

    /// What the store knows of a subject, as the planner sees it.
    async fn recall(&self, caller: &Caller, deck: &DeckId, subject: &Subject) -> Result<(View, Micros), Problem> {
        let seen = self.see(caller, deck, subject).await?;
        let place = self.engine.partitions().place(&caller.space, subject.as_str());
        let take = Take::recall(place, subject.clone(), deck.clone(), seen_epoch(&seen));
        let Outcome::Done(Taken::Again(recalled)) = self.engine.run(&take, None).await?.outcome else { return Err(lost()) };
        let mut recalled = *recalled;
        let now = recalled.now;
        // What has expired is given back by the next pick, and counts no more.
        recalled.history.expire(now, &mut Touched::default());
        Ok((self.view(recalled, &seen, subject)?, now))
    }

    fn view(&self, recalled: Recalled, seen: &Seen, subject: &Subject) -> Result<View, Problem> {
        let profile = Arc::new(profile_of(&recalled.profile_bytes)?);
        let shelf = self.hints.shelf(&seen.deck);
        let offer = Offer::new(shelf, seen.own.messages.clone(), subject, &profile, recalled.now);
        Ok(View::new(Arc::new(offer), recalled.history, recalled.profile))
    }

    /// Makes the offer anew, if the catalog or the messages' schedules have moved on.
    fn renew(&self, hinted: &mut hints::Hinted<'_>, seen: &Seen, subject: &Subject, now: Micros) {
        let shelf = self.hints.shelf(&seen.deck);
        if Arc::ptr_eq(hinted.view.offer().shelf(), &shelf) && *hinted.own == seen.own.generation && hinted.view.offer().holds(now) {
            return;
        }
        let offer = Offer::new(shelf, seen.own.messages.clone(), subject, hinted.view.offer().profile(), now);
        hinted.view.offered(Arc::new(offer));
        *hinted.own = seen.own.generation;
    }

    async fn picked(
        &self,
        caller: &Caller,
        ask: &PickAsk,
        seen: &Seen,
        picked: Picked,
        durability: Durability,
        is_replayed: bool,
    ) -> Result<PickAnswer, Problem> {
        let message = picked.id.ok_or_else(lost)?;
        let shared = seen.deck.messages.binary_search_by_key(&picked.ordinal, |message| message.ordinal).ok();
        let own = || seen.own.messages.iter().find(|message| message.ordinal == picked.ordinal);
        let mut body = shared.and_then(|at| seen.deck.messages.get(at)).or_else(own).cloned();
        if body.is_none() {
            // It may be for somebody else by now, or deleted.
            body = self.catalog.message(&caller.space, &ask.deck, &message).await?.map(Arc::new);
        }
        let (deck, epoch, subject) = (ask.deck.clone(), picked.epoch.unwrap_or_else(|| seen_epoch(seen)), ask.subject.clone());
        let id = Some(PickId { number: picked.number, deck, epoch, subject }.to_string());
        let expires_at = Some(picked.expires).filter(|at| *at > Micros::ZERO);
        Ok(PickAnswer::Picked(PickedAnswer { id, message, body, now: picked.now, expires_at, durability: Some(durability), is_replayed }))
    }
}

fn seen_epoch(seen: &Seen) -> u64 {
    seen.deck.deck.epoch
}

fn profile_of(bytes: &[u8]) -> Result<Profile, Problem> {
    if bytes.is_empty() {
        return Ok(Profile::default());
    }
    let unreadable = |fault: serde_json::Error| {
        Problem::new(Code::Internal, "What is stored of this subject is not understood; a newer server may have written it.")
            .caused_by(&fault)
    };
    serde_json::from_slice(bytes).map_err(unreadable)
}

fn deck_not_found(deck: &DeckId) -> Problem {
    Problem::new(Code::DeckNotFound, format!("There is no deck {deck}.")).in_field("deck")
}

fn lost() -> Problem {
    Problem::new(Code::Internal, "The store gave an answer that is not understood; the log has the details.")
}
