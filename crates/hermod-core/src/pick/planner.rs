//! Which messages a subject should get, in which order: the plan of a pick, and why there is none.
//!
//! The planner works on a copy of the subject's history, with three indexes: what was sent, what was sent long ago, and
//! what is known exactly by the number of its last pick. So its cost follows the words of a bitmap, not the messages of
//! the deck. The copy may be behind; the operation notices.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bits::Bits;
use super::deck::Strategy;
use super::history::{Counted, Given, History, OLD, Touched};
use super::message::Message;
use super::offer::{Hushed, Offer};
use super::take::{CLEAN_MAX, Candidate, PLAN_MAX, Picked, Plan, Taken};
use crate::chance::Seed;
use crate::int::Micros;
use crate::limit::meter::Meter;
use crate::word::word_enum;

/// So many draws by weight are tried before all that is left is gone through.
const TRIES: u64 = 64;
/// A history is cut back when it is so much longer than it should be: then so much at once.
const SPARE: usize = 64;
/// So many steps are looked ahead for the next time something is allowed.
const STEPS: usize = 16;

/// One subject's offer and history, as a plan is made from them.
#[derive(Clone, Debug)]
pub struct View {
    offer: Arc<Offer>,
    history: History,
    /// The version of the profile that the offer was made for.
    profile: u64,
    index: Index,
}

/// What follows from a history.
#[derive(Clone, Debug, Default)]
struct Index {
    /// Positions of what was ever sent.
    seen: Bits,
    /// Positions of what was sent long ago.
    old: Bits,
    /// Positions by the number of their last pick.
    recent: BTreeMap<u64, u32>,
    /// Messages that were deleted, and are still in the history.
    deleted: Vec<u32>,
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
    /// How many candidates are wanted, [`PLAN_MAX`] at most: more where others pick for the subject at the same time.
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
        let mut touched = Touched::default();
        let mut after = None;
        let mut expired = 0;
        if self.history.reserved.iter().any(|one| one.is_expired(now)) {
            let mut history = self.history.clone();
            expired = history.expire(now, &mut touched);
            after = Some(Sight { index: Index::new(&self.offer, &history), history, offer: &self.offer });
        }
        let sight = after.as_ref().map_or_else(|| SightRef::of(self), SightRef::from);
        match sight.candidates(ask, now) {
            Err(refusal) => Planned::None(self.sooner(refusal, ask, now)),
            Ok((positions, until)) => {
                let mut plan = Plan {
                    seq: self.history.seq,
                    generation: self.history.generation,
                    expired,
                    profile: self.profile,
                    from: self.offer.from,
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

    /// The same, if what is reserved is given back before: what is not settled in time is.
    fn sooner(&self, refusal: Refusal, ask: &Ask, now: Micros) -> Refusal {
        let mut ends: Vec<Micros> = self.history.open(now).map(|one| one.expires).collect();
        ends.sort_unstable();
        for at in ends.into_iter().filter(|at| refusal.retry_at.is_none_or(|retry_at| *at < retry_at)) {
            let mut history = self.history.clone();
            history.expire(at, &mut Touched::default());
            let sight = Sight { index: Index::new(&self.offer, &history), history, offer: &self.offer };
            if SightRef::from(&sight).candidates(ask, at).is_ok() {
                return Refusal { retry_at: Some(at), ..refusal };
            }
        }
        refusal
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
        let mut touched = Touched::default();
        let done = self.history.take(plan, picked.now, &mut touched);
        let is_same = matches!(&done, Some(Taken::Picked(mine)) if (mine.seq, mine.generation, mine.ordinal) == (picked.seq, picked.generation, picked.ordinal));
        if !is_same {
            return false;
        }
        if plan.generation != picked.generation {
            self.index = Index::new(&self.offer, &self.history);
            return true;
        }
        if let Some(position) = self.offer.position(picked.ordinal) {
            let before = plan.candidates.iter().find(|one| one.ordinal == picked.ordinal).map_or(0, |one| one.seq);
            self.index.recent.remove(&before);
            self.index.recent.insert(picked.seq, position);
            self.index.seen.insert(position);
            self.index.old.remove(position);
        }
        true
    }

    /// Has the same history under another offer.
    pub fn offered(&mut self, offer: Arc<Offer>, profile: u64) {
        self.index = Index::new(&offer, &self.history);
        (self.offer, self.profile) = (offer, profile);
    }

    /// When a message could be sent by its own cap; none: now.
    pub fn capped_until(&self, message: &Message, now: Micros) -> Option<Micros> {
        SightRef::of(self).refused_until(self.offer.position(message.ordinal)?, now)
    }

    /// When the subject could get one by its cap; none: now.
    pub fn subject_capped_until(&self, now: Micros) -> Option<Micros> {
        SightRef::of(self).subject_until(now)
    }

    /// The next picks, each at its time, if nothing changes: with the clock moved on to the next time something is allowed.
    pub fn simulate(&self, seed: Seed, count: u64, mut now: Micros) -> Vec<(Micros, Arc<Message>)> {
        let mut view = self.clone();
        let mut picks = Vec::new();
        let mut turn = 0;
        // Each turn picks one, or moves the clock on.
        while u64::try_from(picks.len()).is_ok_and(|picked| picked < count) && turn < 4 * count {
            let ask = Ask { seed: seed.child(turn), lease: Micros::ZERO, number: turn, candidates: 1 };
            turn += 1;
            match view.plan(&ask, now) {
                Planned::None(Refusal { retry_at: Some(at), .. }) if at > now && at < self.offer.until => now = at,
                Planned::None(_) => break,
                Planned::Plan(plan) => {
                    let mut touched = Touched::default();
                    let Some(Taken::Picked(picked)) = view.history.take(&plan, now, &mut touched) else { break };
                    view.index = Index::new(&view.offer, &view.history);
                    picks.extend(view.offer.message(picked.ordinal).map(|message| (now, Arc::clone(message))));
                }
            }
        }
        picks
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

impl Index {
    fn new(offer: &Offer, history: &History) -> Index {
        let room = offer.messages().count();
        let mut index = Index { seen: Bits::new(room), old: Bits::new(room), ..Index::default() };
        for (ordinal, entry) in &history.entries {
            match offer.position(*ordinal) {
                Some(position) => {
                    index.seen.insert(position);
                    index.recent.insert(entry.seq, position);
                }
                None if offer.shelf.is_deleted(*ordinal) => index.deleted.push(*ordinal),
                None => {}
            }
        }
        for ordinal in history.all_old() {
            match offer.position(ordinal) {
                Some(position) => {
                    index.seen.insert(position);
                    index.old.insert(position);
                }
                None if offer.shelf.is_deleted(ordinal) => index.deleted.push(ordinal),
                None => {}
            }
        }
        index
    }
}

/// When the first of some messages is allowed.
#[derive(Clone, Copy)]
enum Soonest {
    /// Then; none: now.
    At(Option<Micros>),
    /// There are none.
    Never,
}

/// An offer and a history that was made for this plan alone.
struct Sight<'a> {
    offer: &'a Offer,
    history: History,
    index: Index,
}

/// A position, and the number of its last pick.
type Numbered = (u32, u64);

/// The candidates so far.
struct Chosen {
    list: Vec<Numbered>,
    most: usize,
}

impl Chosen {
    /// How many more are wanted.
    fn left(&self) -> usize {
        self.most.saturating_sub(self.list.len())
    }

    /// As many of these as are wanted.
    fn extend(&mut self, positions: impl Iterator<Item = Numbered>) {
        self.list.extend(positions.take(self.most.saturating_sub(self.list.len())));
    }
}

/// What a plan is made from.
#[derive(Clone, Copy)]
struct SightRef<'a> {
    offer: &'a Offer,
    history: &'a History,
    index: &'a Index,
}

impl<'a> From<&'a Sight<'a>> for SightRef<'a> {
    fn from(sight: &'a Sight<'a>) -> SightRef<'a> {
        SightRef { offer: sight.offer, history: &sight.history, index: &sight.index }
    }
}

impl<'a> SightRef<'a> {
    fn of(view: &'a View) -> SightRef<'a> {
        SightRef { offer: &view.offer, history: &view.history, index: &view.index }
    }

    /// Positions in the order they are to be tried, and until when that holds.
    fn candidates(&self, ask: &Ask, now: Micros) -> Result<(Vec<Numbered>, Micros), Refusal> {
        let hush = self.offer.hush(now);
        let (is_hushed, until) = match hush {
            Ok((_, until)) => (true, until),
            Err(until) => (false, until),
        };
        let eligible = self.eligible(is_hushed);
        if self.subject_until(now).is_none() {
            let positions = self.order(&eligible, ask, now);
            if !positions.is_empty() {
                return Ok((positions, until));
            }
        }
        let reason = match hush {
            _ if self.offer.is_empty() => Reason::NoMessages,
            Ok((Hushed::Muted, _)) => Reason::Muted,
            Ok((Hushed::Quiet, _)) => Reason::Quiet,
            Err(_) if self.subject_until(now).is_some() => Reason::SubjectCap,
            Err(_) => Reason::MessageCap,
        };
        Err(Refusal { reason, retry_at: self.retry_at(now) })
    }

    fn eligible(&self, is_hushed: bool) -> Bits {
        if is_hushed { self.offer.eligible.and(&self.offer.critical) } else { self.offer.eligible.clone() }
    }

    /// When the subject's cap allows the next one; none: now.
    fn subject_until(&self, now: Micros) -> Option<Micros> {
        self.offer.cap.as_ref().and_then(|meter| Counted::refused_until(self.history.cap.as_ref(), meter, now))
    }

    /// When a message's own cap allows it; none: now.
    fn refused_until(&self, position: u32, now: Micros) -> Option<Micros> {
        let (_, meter) = self.offer.meter(position)?;
        let entry = self.history.entries.get(&self.offer.at(position)?.ordinal)?;
        Counted::refused_until(Some(entry.count.as_ref()?), meter, now)
    }

    /// When something will be allowed, if nothing changes.
    fn retry_at(&self, now: Micros) -> Option<Micros> {
        let next_start = self.offer.next_start;
        if self.offer.is_empty() {
            return next_start;
        }
        let mut at = now;
        for _ in 0..STEPS {
            let hushed = self.offer.hush(at).ok().map(|(_, until)| until);
            let later = match (self.soonest(&self.eligible(hushed.is_some()), at), hushed) {
                (Soonest::Never, Some(until)) => until,
                (Soonest::Never, None) => return next_start,
                (Soonest::At(until), hushed) => match (until.max(self.subject_until(at)), hushed) {
                    (None, _) => break,
                    (Some(until), hushed) => hushed.map_or(until, |hushed| until.min(hushed)),
                },
            };
            if later == Micros::MAX {
                return next_start;
            }
            at = later;
        }
        Some(next_start.map_or(at, |start| at.min(start)))
    }

    /// When the first of these is allowed by its own cap.
    fn soonest(&self, eligible: &Bits, now: Micros) -> Soonest {
        // What was never sent, or so long ago that no more is known, has no cap that could refuse it.
        let is_free = eligible.without(&self.index.seen).or(&eligible.and(&self.index.old)).count() > 0;
        if is_free {
            return Soonest::At(None);
        }
        let recent = self.index.recent.values().filter(|position| eligible.contains(**position));
        // None is before all times.
        recent.map(|position| self.refused_until(*position, now)).min().map_or(Soonest::Never, Soonest::At)
    }

    /// So many of the eligible, in the order of the deck's strategy, without those whose own cap refuses them.
    fn order(&self, eligible: &Bits, ask: &Ask, now: Micros) -> Vec<Numbered> {
        let (seed, most) = (ask.seed, ask.candidates.clamp(1, PLAN_MAX));
        let mut positions = Chosen { list: Vec::with_capacity(most), most };
        match self.offer.shelf.deck.strategy {
            Strategy::FreshLru => self.fresh_first(eligible, seed, now, &mut positions),
            Strategy::Weighted => self.draw(eligible.clone(), seed, &mut positions, |position| {
                let ordinal = self.offer.at(position)?.ordinal;
                self.refused_until(position, now).is_none().then(|| self.history.number_of(ordinal))
            }),
            Strategy::Sequence => {
                self.in_turn(&eligible.without(&self.index.seen), 0, &mut positions);
                self.in_turn(&eligible.and(&self.index.old), OLD, &mut positions);
                self.longest_ago(eligible, now, &mut positions);
            }
            Strategy::Priority => {
                for (turn, class) in (0..).zip(self.classes()) {
                    if positions.left() == 0 {
                        break;
                    }
                    self.fresh_first(&eligible.and(&class), seed.child(turn), now, &mut positions);
                }
            }
        }
        positions.list
    }

    /// Positions by priority, the highest first, with the subject's own messages among them.
    fn classes(&self) -> Vec<Bits> {
        let shelf = &self.offer.shelf;
        let room = self.offer.messages().count();
        if room == shelf.messages.len() {
            return shelf.classes.clone();
        }
        let mut classes: BTreeMap<i32, Bits> = BTreeMap::new();
        for (position, message) in (0..).zip(self.offer.messages()) {
            classes.entry(-message.priority.max(-i32::MAX)).or_insert_with(|| Bits::new(room)).insert(position);
        }
        classes.into_values().collect()
    }

    /// What was never sent at random, then what was sent longest ago.
    fn fresh_first(&self, eligible: &Bits, seed: Seed, now: Micros, out: &mut Chosen) {
        // Neither has a cap that could refuse it.
        self.draw(eligible.without(&self.index.seen), seed.child(0), out, |_| Some(0));
        if out.left() > 0 {
            self.draw(eligible.and(&self.index.old), seed.child(1), out, |_| Some(OLD));
            self.longest_ago(eligible, now, out);
        }
    }

    fn in_turn(&self, set: &Bits, seq: u64, out: &mut Chosen) {
        let mut positions: Vec<u32> = set.iter().take(PLAN_MAX).collect();
        let shared = u32::try_from(self.offer.shelf.messages.len()).unwrap_or(u32::MAX);
        positions.extend(set.iter().filter(|position| *position >= shared).take(PLAN_MAX));
        positions.sort_by_key(|position| self.offer.at(*position).map_or(u32::MAX, |message| message.ordinal));
        positions.dedup();
        out.extend(positions.into_iter().map(|position| (position, seq)));
    }

    fn longest_ago(&self, eligible: &Bits, now: Micros, out: &mut Chosen) {
        let recent = self.index.recent.iter().filter(|(_, position)| eligible.contains(**position));
        let allowed = recent.filter(|(_, position)| self.refused_until(**position, now).is_none());
        out.extend(allowed.map(|(seq, position)| (*position, *seq)));
    }

    /// At random by weight, one after the other; `number` tells the number of its last pick, none if its cap refuses it.
    fn draw(&self, mut set: Bits, seed: Seed, out: &mut Chosen, number: impl Fn(u32) -> Option<u64>) {
        let mut left = set.count();
        let mut turn = 0;
        while left > 0 && out.left() > 0 {
            let Some(position) = self.draw_one(&set, left, seed.child(turn)) else { return };
            turn += 1;
            set.remove(position);
            left -= 1;
            out.list.extend(number(position).map(|seq| (position, seq)));
        }
    }

    fn draw_one(&self, set: &Bits, left: u64, seed: Seed) -> Option<u32> {
        if self.offer.is_even {
            return set.nth(seed.below(left));
        }
        // A message is kept as often as its weight says, beside the heaviest.
        let most = u64::from(self.offer.weight_max.max(1));
        for turn in 0..TRIES {
            let position = set.nth(seed.child(2 * turn).below(left))?;
            if seed.child(2 * turn + 1).below(most) < self.weight(position) {
                return Some(position);
            }
        }
        let total: u64 = set.iter().map(|position| self.weight(position)).sum();
        let mut rest = seed.child(2 * TRIES).below(total);
        set.iter().find(|position| match rest.checked_sub(self.weight(*position)) {
            Some(less) => {
                rest = less;
                false
            }
            None => true,
        })
    }

    fn weight(&self, position: u32) -> u64 {
        self.offer.at(position).map_or(0, |message| u64::from(message.weight))
    }

    /// What is to be forgotten, and what is to be put among the old.
    fn clean(&self, plan: &mut Plan, now: Micros) {
        plan.forget = self.index.deleted.iter().copied().take(CLEAN_MAX).collect();
        let most = usize::try_from(self.offer.shelf.deck.history_max).unwrap_or(usize::MAX);
        if self.history.entries.len() < most.saturating_add(SPARE) {
            return;
        }
        let is_idle = |ordinal: u32| {
            let is_over = |entry: &super::history::Entry| entry.count.as_ref().is_none_or(|count| count.until <= now);
            let is_reserved = self.history.open(now).any(|one| one.ordinal == ordinal);
            let is_planned = plan.candidates.iter().any(|candidate| candidate.ordinal == ordinal);
            self.history.entries.get(&ordinal).is_some_and(is_over) && !is_reserved && !is_planned
        };
        // Those that are for others now are at their place by number as well.
        let mut oldest: Vec<(u64, u32)> = self.history.entries.iter().map(|(ordinal, entry)| (entry.seq, *ordinal)).collect();
        oldest.sort_unstable();
        let excess = (self.history.entries.len() - most).min(CLEAN_MAX);
        plan.evict = oldest.into_iter().map(|(_, ordinal)| ordinal).filter(|ordinal| is_idle(*ordinal)).take(excess).collect();
    }
}
