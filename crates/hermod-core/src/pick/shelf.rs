//! A deck and its messages, compiled once for each version of the catalog.
//!
//! Messages are known by their *position* here, which is dense; their ordinals have gaps where messages were deleted or
//! are for named subjects only.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::bits::Bits;
use super::cap::Cap;
use super::deck::Deck;
use super::message::{Audience, Message};
use super::quiet::Zone;
use crate::limit::meter::Meter;

/// A deck and its messages that are not for named subjects.
#[derive(Debug)]
pub struct Shelf {
    pub(super) deck: Arc<Deck>,
    /// By ordinal.
    pub(super) messages: Arc<[Arc<Message>]>,
    /// Their ordinals: to search them takes no look at the messages themselves, which are all over memory.
    ordinals: Vec<u32>,
    /// Ordinals of messages that were deleted, sorted.
    pub(super) tombstones: Arc<[u32]>,
    /// Active, and for everyone at all times.
    pub(super) plain: Bits,
    /// Active, and for some, or at some times.
    pub(super) special: Vec<u32>,
    pub(super) critical: Bits,
    /// By priority, the highest first.
    pub(super) classes: Vec<Bits>,
    /// The cap of each message, counted from 1; 0: it has none.
    pub(super) cap_of: Vec<u32>,
    pub(super) caps: Vec<Cap>,
    /// Of the caps, in UTC.
    pub(super) meters: Arc<[Meter]>,
    pub(super) weight_max: u32,
    pub(super) is_even: bool,
}

impl Shelf {
    /// Compiles a deck. `messages` and `tombstones` are sorted by ordinal.
    pub fn new(deck: Arc<Deck>, messages: Arc<[Arc<Message>]>, tombstones: Arc<[u32]>) -> Shelf {
        let (mut plain, mut critical, mut special) = (Bits::new(messages.len()), Bits::new(messages.len()), Vec::new());
        let mut caps = Caps::default();
        let mut cap_of = Vec::with_capacity(messages.len());
        for (position, message) in (0..).zip(messages.iter()) {
            cap_of.push(caps.number(message.cap.as_ref()));
            if message.critical {
                critical.insert(position);
            }
            let is_plain = message.to == Audience::Everyone
                && message.when.is_none()
                && message.tags.is_empty()
                && message.starts_at.is_none()
                && message.ends_at.is_none();
            match (message.active, is_plain) {
                (false, _) => {}
                (true, true) => plain.insert(position),
                (true, false) => special.push(position),
            }
        }
        let weight = |message: &Arc<Message>| message.weight;
        let weight_max = messages.iter().map(weight).max().unwrap_or(1);
        let is_even = messages.iter().all(|message| message.weight == weight_max);
        let meters = caps.list.iter().map(|cap| cap.meter(&Zone::utc())).collect();
        let (classes, caps) = (classes(messages.iter(), messages.len()), caps.list);
        let ordinals = messages.iter().map(|message| message.ordinal).collect();
        Shelf { deck, messages, ordinals, tombstones, plain, special, critical, classes, cap_of, caps, meters, weight_max, is_even }
    }

    /// The deck.
    pub fn deck(&self) -> &Deck {
        &self.deck
    }

    /// The message with this ordinal, unless it is deleted or for named subjects.
    pub fn message(&self, ordinal: u32) -> Option<&Arc<Message>> {
        self.position(ordinal).and_then(|position| self.messages.get(position))
    }

    pub(super) fn position(&self, ordinal: u32) -> Option<usize> {
        // Where nothing was deleted before it, it is as far from the first as its ordinal says; else it stands before that.
        let first = self.ordinals.first()?;
        let most = usize::try_from(ordinal.checked_sub(*first)?).ok()?;
        if self.ordinals.get(most) == Some(&ordinal) {
            return Some(most);
        }
        self.ordinals.get(..most).unwrap_or(&self.ordinals).binary_search(&ordinal).ok()
    }

    pub(super) fn is_deleted(&self, ordinal: u32) -> bool {
        self.tombstones.binary_search(&ordinal).is_ok()
    }
}

/// Positions by priority, the highest first.
pub(super) fn classes<'a>(messages: impl Iterator<Item = &'a Arc<Message>>, room: usize) -> Vec<Bits> {
    let mut classes: BTreeMap<Reverse<i32>, Bits> = BTreeMap::new();
    for (position, message) in (0..).zip(messages) {
        classes.entry(Reverse(message.priority)).or_insert_with(|| Bits::new(room)).insert(position);
    }
    classes.into_values().collect()
}

/// Different caps, each once: a deck has few.
#[derive(Default)]
pub(super) struct Caps {
    pub(super) list: Vec<Cap>,
    known: BTreeMap<(u64, Box<str>, &'static str), u32>,
}

impl Caps {
    /// These, which are different.
    pub(super) fn of(list: &[Cap]) -> Caps {
        let mut caps = Caps::default();
        for cap in list {
            caps.number(Some(cap));
        }
        caps
    }

    /// Counted from 1; 0 for none.
    pub(super) fn number(&mut self, cap: Option<&Cap>) -> u32 {
        let Some(cap) = cap else { return 0 };
        let next = u32::try_from(self.list.len()).unwrap_or(u32::MAX - 1) + 1;
        *self.known.entry((cap.tokens(), cap.per().into(), cap.kind().as_str())).or_insert_with(|| {
            self.list.push(cap.clone());
            next
        })
    }
}
