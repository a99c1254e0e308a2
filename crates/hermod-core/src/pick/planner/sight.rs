//! What a plan is made from, and the order in it: an offer, a history, and what follows from it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Ask, Reason};
use crate::chance::Seed;
use crate::int::Micros;
use crate::pick::bits::Bits;
use crate::pick::deck::Strategy;
use crate::pick::history::{Counted, Entry, History, OLD};
use crate::pick::offer::{Hushed, Offer};
use crate::pick::shelf::classes;
use crate::pick::take::{CLEAN_MAX, PLAN_MAX, Plan};

/// So many draws by weight are tried before all that is left is gone through.
const TRIES: u64 = 64;
/// A history is cut back when it is so much longer than it should be: then so much at once.
const SPARE: usize = 64;

/// What follows from a history.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Positions of what was ever sent.
    pub(super) seen: Bits,
    /// Positions of what was sent long ago.
    pub(super) old: Bits,
    /// Positions by the number of their last pick.
    pub(super) recent: BTreeMap<u64, u32>,
    /// Messages that were deleted, and are still in the history.
    deleted: Vec<u32>,
}

impl Index {
    pub(super) fn new(offer: &Offer, history: &History) -> Index {
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

    /// Takes in that a message at this position was sent, which had this number before.
    pub(super) fn sent(&mut self, position: u32, before: u64, seq: u64) {
        self.recent.remove(&before);
        self.recent.insert(seq, position);
        self.seen.insert(position);
        self.old.remove(position);
    }

    /// Takes in what a plan has cleaned away; `evicted` are the positions of what was put among the old, by their numbers.
    pub(super) fn cleaned(&mut self, forgotten: &[u32], evicted: &[Evicted]) {
        self.deleted.retain(|ordinal| !forgotten.contains(ordinal));
        for (seq, position) in evicted {
            self.recent.remove(seq);
            self.old.insert(*position);
        }
    }
}

#[cfg(test)]
impl Index {
    /// Whether both say the same.
    pub(super) fn is_like(&self, other: &Index) -> bool {
        let deleted = |index: &Index| index.deleted.iter().copied().collect::<std::collections::BTreeSet<_>>();
        (&self.seen, &self.old, &self.recent) == (&other.seen, &other.old, &other.recent) && deleted(self) == deleted(other)
    }
}

/// The number of a message's last pick, and its position.
pub(super) type Evicted = (u64, u32);

/// When the first of some messages is allowed.
#[derive(Clone, Copy)]
enum Soonest {
    /// Then; none: now.
    At(Option<Micros>),
    /// There are none.
    Never,
}

/// A position, and the number of its last pick.
pub(super) type Numbered = (u32, u64);

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
        let left = self.left();
        self.list.extend(positions.take(left));
    }
}

/// What a plan is made from.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) offer: &'a Offer,
    pub(super) history: &'a History,
    pub(super) index: &'a Index,
}

impl Sight<'_> {
    /// Positions in the order they are to be tried, and since when and until when that holds.
    pub(super) fn candidates(&self, ask: &Ask, now: Micros) -> Result<(Vec<Numbered>, (Micros, Micros)), Reason> {
        let hush = self.offer.hush(now);
        // What is critical could be sent before it was quiet, too.
        let window = hush.map_or_else(|loud| loud, |(_, until)| (Micros::ZERO, until));
        let eligible = self.eligible(hush.is_ok());
        if self.subject_until(now).is_none() {
            let positions = self.order(&eligible, ask, now);
            if !positions.is_empty() {
                return Ok((positions, window));
            }
        }
        Err(match hush {
            _ if self.offer.is_empty() => Reason::NoMessages,
            Ok((Hushed::Muted, _)) => Reason::Muted,
            Ok((Hushed::Quiet, _)) => Reason::Quiet,
            Err(_) if self.subject_until(now).is_some() => Reason::SubjectCap,
            Err(_) => Reason::MessageCap,
        })
    }

    fn eligible(&self, is_hushed: bool) -> Cow<'_, Bits> {
        match is_hushed {
            true => Cow::Owned(self.offer.eligible.and(&self.offer.critical)),
            false => Cow::Borrowed(&self.offer.eligible),
        }
    }

    /// When the subject's cap allows the next one; none: now.
    pub(super) fn subject_until(&self, now: Micros) -> Option<Micros> {
        self.offer.cap.as_ref().and_then(|meter| Counted::refused_until(self.history.cap.as_ref(), meter, now))
    }

    /// When a message's own cap allows it; none: now.
    pub(super) fn refused_until(&self, position: u32, now: Micros) -> Option<Micros> {
        let (_, meter) = self.offer.meter(position)?;
        let entry = self.history.entries.get(&self.offer.at(position)?.ordinal)?;
        Counted::refused_until(Some(entry.count.as_ref()?), meter, now)
    }

    /// When to look again for something that is allowed, as before then nothing is; `MAX`: never. None: something is allowed now.
    ///
    /// Messages that end meanwhile only take away. One that begins may be allowed at once, but not before the subject's cap allows it.
    pub(super) fn next_look(&self, now: Micros) -> Option<Micros> {
        let hushed = self.offer.hush(now).ok().map(|(_, until)| until);
        let capped = self.subject_until(now);
        let soonest = match self.soonest(&self.eligible(hushed.is_some()), now) {
            Soonest::Never => Micros::MAX,
            Soonest::At(until) => until.max(capped)?,
        };
        let turn = hushed.into_iter().chain(self.offer.next_start).fold(soonest, Micros::min);
        Some(turn.max(capped.unwrap_or_default()))
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
        classes(self.offer.messages(), room)
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
    pub(super) fn clean(&self, plan: &mut Plan, now: Micros) {
        plan.forget = self.index.deleted.iter().copied().take(CLEAN_MAX).collect();
        let most = usize::try_from(self.offer.shelf.deck.history_max).unwrap_or(usize::MAX);
        if self.history.entries.len() < most.saturating_add(SPARE) {
            return;
        }
        let is_idle = |ordinal: u32| {
            let is_over = |entry: &Entry| entry.count.as_ref().is_none_or(|count| count.until <= now);
            let is_reserved = self.history.open(now).any(|one| one.ordinal == ordinal);
            let is_planned = plan.candidates.iter().any(|candidate| candidate.ordinal == ordinal);
            self.history.entries.get(&ordinal).is_some_and(is_over) && !is_reserved && !is_planned
        };
        // Those that are for others now are at their place by number as well.
        let mut oldest: Vec<(u64, u32)> = self.history.entries.iter().map(|(ordinal, entry)| (entry.seq, *ordinal)).collect();
        oldest.sort_unstable();
        let excess = (self.history.entries.len() - most).min(CLEAN_MAX);
        plan.evict = oldest.into_iter().map(|(_, ordinal)| ordinal).filter(|ordinal| is_idle(*ordinal)).take(excess).collect();
        // By the clock of the store their caps must be over, too.
        let counts = plan.evict.iter().filter_map(|ordinal| self.history.entries.get(ordinal)?.count.as_ref());
        plan.from = counts.map(|count| count.until).fold(plan.from, Micros::max);
    }
}
