//! Which messages a subject should get, in which order: the plan of a pick, and why there is none.
//!
//! The planner works on a copy of the subject's history, with three indexes: what was sent, what was sent long ago, and
//! what is known exactly by the number of its last pick. So its cost follows the words of a bitmap, not the messages of
//! the deck. The copy may be behind; the operation notices.

mod sight;

use std::sync::Arc;

use super::history::{Given, History, Touched};
use super::message::Message;
use super::offer::Offer;
use super::take::{Candidate, Picked, Plan, Taken};
use crate::chance::Seed;
use crate::int::Micros;
use crate::limit::meter::Meter;
use crate::word::word_enum;

use sight::{Evicted, Index, Sight};

/// So many steps are looked ahead for the next time something is allowed,
const STEPS: usize = 64;
/// and at so many messages whose schedules turn meanwhile.
const LOOKS_MAX: usize = 100_000;

/// One subject's offer and history, as a plan is made from them.
#[derive(Clone, Debug)]
pub struct View {
    offer: Arc<Offer>,
    history: History,
    /// The version of the profile that the offer was made for.
    profile: u64,
    index: Index,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Chance.
    pub seed: Seed,
    /// For how long it is reserved; zero: it is committed at once.
    pub lease: Micros,
    /// What it is settled by; below 2^53.
    pub number: u64,
    /// How many candidates are wanted, 24 at most: more where others pick for the subject at the same time.
    pub candidates: usize,
}

/// A plan, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// A plan.
    Plan(Box<Plan>),
    /// Nothing is allowed.
    None(Refusal),
}

word_enum! {
    /// Why nothing was picked.
    Reason, "reason", {
        /// The deck has nothing for the subject.
        #[default]
        NoMessages = "no_messages",
        /// All messages were sent as often as they may be.
        MessageCap = "message_cap",
        /// The subject got as many as it may.
        SubjectCap = "subject_cap",
        /// It is quiet.
        Quiet = "quiet",
        /// The subject is muted.
        Muted = "muted",
        /// Too many picks of the subject are not settled yet.
        Unsettled = "unsettled",
    }
}

/// The next picks of a subject.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Each with its time.
    pub picks: Vec<(Micros, Arc<Message>)>,
    /// Why there are no more, if there are fewer than were asked for.
    pub end: Option<Refusal>,
}

/// Why nothing was picked, and when to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// When something will be allowed, if nothing changes; none: at no time that is known.
    pub retry_at: Option<Micros>,
}

impl View {
    /// Of a history, as it was recalled.
    pub fn new(offer: Arc<Offer>, history: History, profile: u64) -> View {
        let index = Index::new(&offer, &history);
        View { offer, history, profile, index }
    }

    /// As it is then: what has expired by `now` is given back, and how many that are.
    fn after(&self, now: Micros) -> (View, u32) {
        let mut history = self.history.clone();
        let expired = history.expire(now, &mut Touched::default());
        (View::new(self.offer.at_time(now), history, self.profile), expired)
    }

    fn sight(&self) -> Sight<'_> {
        Sight { offer: &self.offer, history: &self.history, index: &self.index }
    }

    /// The offer.
    pub fn offer(&self) -> &Arc<Offer> {
        &self.offer
    }

    /// The history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The version of the profile that the offer was made for.
    pub fn profile(&self) -> u64 {
        self.profile
    }

    /// How much memory it takes, about; the offer may be shared.
    pub fn bytes(&self) -> usize {
        let positions = self.offer.shelf.messages.len() / 4;
        self.history.bytes() + positions + self.index.recent.len() * 24 + self.offer.bytes()
    }

    /// Plans a pick.
    pub fn plan(&self, ask: &Ask, now: Micros) -> Planned {
        let is_due = self.history.reserved.iter().any(|one| one.is_expired(now));
        let after = is_due.then(|| self.after(now));
        let expired = after.as_ref().map_or(0, |(_, expired)| *expired);
        let view = after.as_ref().map_or(self, |(view, _)| view);
        let sight = view.sight();
        match sight.candidates(ask, now) {
            Err(reason) => Planned::None(Refusal { reason, retry_at: view.retry_at(now) }),
            Ok((positions, (from, until))) => {
                let mut plan = Plan {
                    seq: self.history.seq,
                    generation: self.history.generation,
                    expired,
                    profile: self.profile,
                    from: self.offer.from.max(from),
                    until: self.offer.until.min(until),
                    number: ask.number,
                    lease: ask.lease,
                    ..Plan::default()
                };
                plan.cap = plan.hold(self.offer.cap.as_ref(), now);
                let mut numbers = Vec::new();
                for (position, seq) in positions {
                    let Some(message) = self.offer.at(position) else { continue };
                    let meter = match self.offer.meter(position) {
                        None => 0,
                        Some((number, meter)) => {
                            numbers.iter().position(|known| *known == number).unwrap_or_else(|| {
                                let given = plan.hold(Some(meter), now);
                                plan.meters.push(given);
                                numbers.push(number);
                                numbers.len() - 1
                            }) + 1
                        }
                    };
                    let (ordinal, id, meter) = (message.ordinal, message.id.clone(), u8::try_from(meter).unwrap_or(0));
                    plan.candidates.push(Candidate { ordinal, id, seq, meter });
                }
                sight.clean(&mut plan, now);
                Planned::Plan(Box::new(plan))
            }
        }
    }

    /// When something will be allowed, if nothing changes: what is not settled in time is given back.
    fn retry_at(&self, now: Micros) -> Option<Micros> {
        let mut soonest = self.allowed_at(now);
        let mut ends: Vec<Micros> = self.history.open(now).map(|one| one.expires).collect();
        ends.sort_unstable();
        ends.dedup();
        for at in ends {
            if soonest.is_some_and(|soonest| soonest <= at) {
                break;
            }
            let then = self.after(at).0.allowed_at(at);
            soonest = soonest.into_iter().chain(then).min();
        }
        soonest
    }

    /// Until when a refusal of `now` stays as it is, if nothing changes: then something is allowed, or it is refused for another reason.
    pub fn refused_until(&self, refusal: &Refusal, now: Micros) -> Micros {
        let (view, _) = self.after(now);
        let turn = match view.offer.hush(now) {
            Ok((_, until)) | Err((_, until)) => until,
        };
        let capped = view.subject_capped_until(now);
        let ends = view.history.open(now).map(|one| one.expires);
        let kept = Some(view.history.until).filter(|until| *until > now);
        ends.chain(refusal.retry_at).chain(capped).chain(kept).fold(view.offer.until.min(turn), Micros::min)
    }

    /// When something will be allowed, if nothing is given back.
    fn allowed_at(&self, now: Micros) -> Option<Micros> {
        let (mut at, mut looked, mut offer) = (now, 0, Arc::clone(&self.offer));
        for _ in 0..STEPS {
            let sight = Sight { offer: &offer, ..self.sight() };
            let Some(later) = sight.next_look(at) else { break };
            if later == Micros::MAX {
                return None;
            }
            at = later;
            if !offer.holds(at) {
                looked += offer.looked_at();
                if looked > LOOKS_MAX {
                    break;
                }
                offer = offer.at_time(at);
            }
        }
        Some(at)
    }

    /// A plan of nothing: whoever answers it with nothing knows no more than is known here.
    pub fn confirm(&self, now: Micros) -> Plan {
        let expired = self.history.reserved.iter().filter(|one| one.is_expired(now)).count();
        Plan {
            seq: self.history.seq,
            generation: self.history.generation,
            expired: u32::try_from(expired).unwrap_or(u32::MAX),
            profile: self.profile,
            until: Micros::MAX,
            ..Plan::default()
        }
    }

    /// Takes in that a plan was done, if nobody did anything in between; false if this is to be recalled.
    pub fn took(&mut self, plan: &Plan, picked: &Picked) -> bool {
        if self.history.seq >= picked.seq {
            // It was recalled meanwhile, and holds what was picked.
            return true;
        }
        if (self.history.seq, self.history.generation) != (plan.seq, plan.generation) {
            return false;
        }
        // By their numbers, which go with them.
        let evicted: Vec<Evicted> = plan.evict.iter().filter_map(|ordinal| self.recent_of(*ordinal)).collect();
        let mut touched = Touched::default();
        let done = self.history.take(plan, picked.now, &mut touched);
        let is_same = matches!(&done, Some(Taken::Picked(mine)) if (mine.seq, mine.generation, mine.ordinal) == (picked.seq, picked.generation, picked.ordinal));
        if !is_same {
            return false;
        }
        if plan.expired > 0 {
            // What is given back can be anywhere.
            self.index = Index::new(&self.offer, &self.history);
            return true;
        }
        if let Some(position) = self.offer.position(picked.ordinal) {
            let before = plan.candidates.iter().find(|one| one.ordinal == picked.ordinal).map_or(0, |one| one.seq);
            self.index.sent(position, before, picked.seq);
        }
        self.index.cleaned(&plan.forget, &evicted);
        true
    }

    /// For tests: whether what was taken in one by one is what follows from the history.
    #[cfg(test)]
    pub(super) fn is_indexed(&self) -> bool {
        self.index.is_like(&Index::new(&self.offer, &self.history))
    }

    /// The number of a message's last pick, and its position, if both are known.
    fn recent_of(&self, ordinal: u32) -> Option<Evicted> {
        Some((self.history.entries.get(&ordinal)?.seq, self.offer.position(ordinal)?))
    }

    /// Has the same history under another offer, for the same profile.
    pub fn offered(&mut self, offer: Arc<Offer>) {
        self.index = Index::new(&offer, &self.history);
        self.offer = offer;
    }

    /// When a message could be sent by its own cap; none: now.
    pub fn capped_until(&self, message: &Message, now: Micros) -> Option<Micros> {
        self.sight().refused_until(self.offer.position(message.ordinal)?, now)
    }

    /// When the subject could get one by its cap; none: now.
    pub fn subject_capped_until(&self, now: Micros) -> Option<Micros> {
        self.sight().subject_until(now)
    }

    /// The next picks, each at its time, if nothing changes: with the clock moved on to the next time something is allowed.
    pub fn simulate(&self, seed: Seed, count: u64, mut now: Micros) -> Simulated {
        let mut view = self.clone();
        let mut picks = Vec::new();
        let mut end = None;
        // Each turn picks one, or moves the clock on.
        for turn in 0..4 * count {
            if u64::try_from(picks.len()).is_ok_and(|picked| picked >= count) {
                return Simulated { picks, end: None };
            }
            let ask = Ask { seed: seed.child(turn), lease: Micros::ZERO, number: turn, candidates: 1 };
            // A message may begin or end in between.
            view.offer = view.offer.at_time(now);
            match view.plan(&ask, now) {
                Planned::None(refusal) => {
                    end = Some(refusal);
                    match refusal.retry_at.filter(|at| *at > now) {
                        Some(at) => now = at,
                        None => break,
                    }
                }
                Planned::Plan(plan) => {
                    let mut touched = Touched::default();
                    let Some(Taken::Picked(picked)) = view.history.take(&plan, now, &mut touched) else { break };
                    view.index = Index::new(&view.offer, &view.history);
                    picks.extend(view.offer.message(picked.ordinal).map(|message| (now, Arc::clone(message))));
                }
            }
        }
        let end = end.filter(|_| u64::try_from(picks.len()).is_ok_and(|picked| picked < count));
        Simulated { picks, end }
    }
}

impl Plan {
    /// A meter as it is given to the operation; the plan holds only as long as it does.
    fn hold(&mut self, meter: Option<&Meter>, now: Micros) -> Given {
        let given = Given::new(meter, now);
        if let Given { kind: 3, ints: [_, start, end, ..] } = given {
            self.from = self.from.max(Micros::saturating(start));
            self.until = self.until.min(Micros::saturating(end));
        }
        given
    }
}
