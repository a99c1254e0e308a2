//! What one subject was sent of one deck. Twin of `history.lua`.
//!
//! | part | field on Redis | what |
//! |---|---|---|
//! | head | `h` | the number of the last pick, the generation, the end, the subject's cap |
//! | reserved | `r` | picks that are to be acknowledged, and the last that were |
//! | entry | the ordinal | one message: the number and time of its last pick, its cap |
//! | old | `o<chunk>` | a bit for each message that was sent so long ago that no more is known of it |
//!
//! Order is by the number of the pick, so that a clock that steps changes nothing. A plan names the number it was made
//! for; what was sent since has another. The *generation* grows whenever a message moves to where a plan would not look
//! for it: given back, forgotten, or put among the old. A plan of another generation is refused.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::reserved::{Before, Fate, Reserved};
use crate::event::{Happened, Kind};
use crate::int::{INT_MAX, Micros};
use crate::limit::meter::{Act, Meter};
use crate::limit::tally::Tally;
use crate::record;

/// How long after its last pick a history is kept: 400 days.
pub const KEEP: Micros = Micros::saturating(400 * 86_400_000_000);
/// So many picks of one subject can be open at a time.
pub const OPEN_MAX: usize = 32;
/// So many that are settled are remembered.
pub const SETTLED_MAX: usize = 32;
/// Ordinals in a chunk of the old.
pub const CHUNK: u32 = 1_024;
const CHUNK_BYTES: usize = 128;

/// The number that stands for "sent, so long ago that no more is known".
pub const OLD: u64 = INT_MAX;

/// A meter as scripts take it; kind 0: nothing is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// As `Meter::given` has it.
    pub kind: u8,
    /// Its integers.
    pub ints: [u64; 5],
}

impl Given {
    /// Of this meter, as it is around `about`; of none, nothing.
    pub fn new(meter: Option<&Meter>, about: Micros) -> Given {
        meter.map_or(Given::default(), |meter| {
            let (kind, ints) = meter.given(about);
            Given { kind, ints }
        })
    }

    /// The meter.
    pub fn meter(&self) -> Option<Meter> {
        Meter::told(self.kind, self.ints)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        record::put(out, self.ints);
    }

    pub(super) fn take(rest: &mut &[u8]) -> Option<Given> {
        let [kind] = record::take(rest)?;
        let mut ints = [0; 5];
        for int in &mut ints {
            *int = record::take_number(rest)?;
        }
        Some(Given { kind, ints })
    }

    /// Whether it counts at `now`: of a window of the calendar nothing is known before and after it.
    fn is_about(&self, now: Micros) -> bool {
        let [_, start, end, ..] = self.ints;
        self.kind != 3 || (start <= now.get() && now.get() < end)
    }
}

/// What a meter has counted, and when it means nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The record.
    pub tally: Tally,
    /// Its end.
    pub until: Micros,
}

impl Counted {
    /// Takes one token, or does not.
    pub fn charge(stored: Option<&Counted>, meter: &Meter, now: Micros) -> Option<Counted> {
        let step = meter.step(Act::Check, 1, live(stored, now), now);
        (!step.is_refused).then_some(Counted { tally: step.tally, until: step.until })
    }

    /// When a token could be taken, if not now.
    pub fn refused_until(stored: Option<&Counted>, meter: &Meter, now: Micros) -> Option<Micros> {
        let step = meter.step(Act::Peek, 1, live(stored, now), now);
        match meter.explain(&step.head(), 1, now).retry {
            crate::limit::Retry::Now => None,
            crate::limit::Retry::After(span) => Some(now.plus(span)),
            crate::limit::Retry::Never => Some(Micros::MAX),
        }
    }

    /// Gives one token back: what it was charged with is `given`, and the record ended at `ends` then.
    fn returned(self, given: &Given, ends: Micros, is_last: bool, now: Micros) -> Option<Counted> {
        let Some(meter) = given.meter().filter(|_| given.is_about(now)) else { return Some(self) };
        let stored = live(Some(&self), now);
        let step = match &meter {
            _ if now >= ends => return Some(self),
            Meter::Bucket(bucket) => bucket.give_back(stored.map(|(tally, _)| tally), ends, now),
            // Of marks the newest if it is this one; else the oldest, which counts no shorter than it would have.
            meter => meter.step(if is_last { Act::Undo } else { Act::Refund }, 1, stored, now),
        };
        (step.until > now).then_some(Counted { tally: step.tally, until: step.until })
    }

    /// As Redis holds it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.tally.head(self.until, false).write(out);
        for mark in self.tally.marks.iter().flat_map(|marks| marks.iter()) {
            record::put(out, [mark.last, mark.count]);
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Option<Counted>> {
        match bytes {
            [] => Some(None),
            bytes => Tally::unpack(bytes).map(|(tally, until)| Some(Counted { tally, until })),
        }
    }
}

fn live(stored: Option<&Counted>, now: Micros) -> Option<(&Tally, Micros)> {
    stored.filter(|counted| counted.until > now).map(|counted| (&counted.tally, counted.until))
}

/// One message that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of its last pick.
    pub seq: u64,
    /// When that was.
    pub sent_at: Micros,
    /// Its own cap.
    pub count: Option<Counted>,
}

impl Entry {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        record::put(out, [self.seq, self.sent_at.get()]);
        if let Some(count) = &self.count {
            count.write(out);
        }
    }

    pub(crate) fn read(mut rest: &[u8]) -> Option<Entry> {
        let (seq, sent_at) = (record::take_number(&mut rest)?, record::take_micros(&mut rest)?);
        Some(Entry { seq, sent_at, count: Counted::read(rest)? })
    }
}

/// What one subject was sent of one deck.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The number of the last pick.
    pub seq: u64,
    /// Grows whenever a message moves to where a plan would not look for it.
    pub generation: u64,
    /// When all of it means nothing any more.
    pub until: Micros,
    /// The subject's cap.
    pub cap: Option<Counted>,
    /// Picks that are to be settled, and the last that were, in the order they were made.
    pub reserved: Vec<Reserved>,
    /// What was sent, by ordinal.
    pub entries: HashMap<u32, Entry>,
    /// What was sent long ago, in chunks.
    pub old: BTreeMap<u32, Old>,
}

/// One chunk of the old: a bit for each of [`CHUNK`] ordinals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Old(Box<[u8; CHUNK_BYTES]>);

impl Old {
    /// From its bytes.
    pub fn read(bytes: &[u8]) -> Option<Old> {
        bytes.try_into().ok().map(|bytes| Old(Box::new(bytes)))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &*self.0
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }
}

/// Which parts of a history were changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Ordinals whose entries were written or removed, and those that were forgotten.
    pub entries: SmallVec<[u32; 4]>,
    /// Chunks of the old that were.
    pub chunks: SmallVec<[u32; 2]>,
    /// The reserved were.
    pub reserved: bool,
    /// What happened, in order.
    pub events: SmallVec<[Happened; 2]>,
}

impl History {
    /// Whether this message was sent long ago.
    pub fn is_old(&self, ordinal: u32) -> bool {
        let Some(chunk) = self.old.get(&(ordinal / CHUNK)) else { return false };
        let (byte, mask) = bit(ordinal);
        chunk.0.get(byte).is_some_and(|byte| byte & mask != 0)
    }

    /// All that were sent long ago.
    pub fn all_old(&self) -> impl Iterator<Item = u32> {
        self.old.iter().flat_map(|(chunk, old)| {
            let bytes = (0..).zip(old.0.iter());
            bytes
                .flat_map(move |(byte, bits)| (0..8).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| chunk * CHUNK + byte * 8 + bit))
        })
    }

    fn set_old(&mut self, ordinal: u32, is_old: bool, touched: &mut Touched) {
        let chunk = ordinal / CHUNK;
        if !is_old && !self.is_old(ordinal) {
            return;
        }
        let old = self.old.entry(chunk).or_insert_with(|| Old(Box::new([0; CHUNK_BYTES])));
        let (byte, mask) = bit(ordinal);
        if let Some(byte) = old.0.get_mut(byte) {
            *byte = if is_old { *byte | mask } else { *byte & !mask };
        }
        if old.is_empty() {
            self.old.remove(&chunk);
        }
        if !touched.chunks.contains(&chunk) {
            touched.chunks.push(chunk);
        }
    }

    /// How many are open, and not expired.
    pub fn open(&self, now: Micros) -> impl Iterator<Item = &Reserved> {
        self.reserved.iter().filter(move |one| one.fate == Fate::Open && one.expires > now)
    }

    /// Gives back what has expired; how many.
    pub fn expire(&mut self, now: Micros, touched: &mut Touched) -> u32 {
        let due: Vec<u64> = self.reserved.iter().filter(|one| one.is_expired(now)).map(|one| one.number).collect();
        for number in &due {
            self.settle(*number, Fate::Expired, now, touched);
        }
        u32::try_from(due.len()).unwrap_or(u32::MAX)
    }

    /// Settles one that is open.
    pub(super) fn settle(&mut self, number: u64, fate: Fate, now: Micros, touched: &mut Touched) {
        let Some(one) = self.reserved.iter_mut().find(|one| one.number == number && one.fate == Fate::Open) else { return };
        one.fate = fate;
        touched.reserved = true;
        let before = one.before.take();
        let (ordinal, Some(before)) = (one.ordinal, before) else { return };
        let kind = match fate {
            Fate::Acked => Kind::Acked,
            Fate::Nacked => Kind::Nacked,
            Fate::Expired | Fate::Open => Kind::Expired,
        };
        touched.events.push(Happened { kind, number, ordinal });
        if fate != Fate::Acked {
            self.give_back(ordinal, &before, now, touched);
            self.generation += 1;
        }
        let settled = self.reserved.iter().filter(|one| one.fate != Fate::Open).count();
        if settled > SETTLED_MAX
            && let Some(oldest) = self.reserved.iter().position(|one| one.fate != Fate::Open)
        {
            self.reserved.remove(oldest);
        }
    }

    /// As if it had not been sent, as far as that can be.
    fn give_back(&mut self, ordinal: u32, before: &Before, now: Micros, touched: &mut Touched) {
        if let Some(mut entry) = self.entries.remove(&ordinal) {
            let is_last = entry.seq == before.seq;
            entry.count = entry.count.and_then(|count| count.returned(&before.meter, before.ends, is_last, now));
            if !is_last {
                // Whoever has this one before it has from now on what was before this one.
                let others = self.reserved.iter_mut().filter(|one| one.ordinal == ordinal).filter_map(|one| one.before.as_mut());
                for other in others.filter(|other| other.was == before.seq) {
                    (other.was, other.was_sent_at) = (before.was, before.was_sent_at);
                    touched.reserved = true;
                }
            }
            match before.was {
                0 if is_last => {}
                OLD if is_last => self.set_old(ordinal, true, touched),
                was => {
                    if is_last {
                        (entry.seq, entry.sent_at) = (was, before.was_sent_at);
                    }
                    self.entries.insert(ordinal, entry);
                }
            }
            touched.entries.push(ordinal);
        }
        let is_last = self.seq == before.seq;
        self.cap = self.cap.take().and_then(|count| count.returned(&before.cap, before.cap_ends, is_last, now));
    }

    /// What a plan must name for this message: the number of its last pick, 0 if it was never sent, [`OLD`].
    pub fn number_of(&self, ordinal: u32) -> u64 {
        match self.entries.get(&ordinal) {
            Some(entry) => entry.seq,
            None if self.is_old(ordinal) => OLD,
            None => 0,
        }
    }

    /// Forgets messages that were deleted, and puts some among the old.
    pub(crate) fn clean(&mut self, forget: &[u32], evict: &[u32], touched: &mut Touched) {
        for (ordinals, is_old) in [(forget, false), (evict, true)] {
            for ordinal in ordinals {
                // What is not among the old any more has no entry from now on, either: a record may be left of it.
                if self.entries.remove(ordinal).is_some() || self.is_old(*ordinal) {
                    touched.entries.push(*ordinal);
                }
                self.set_old(*ordinal, is_old, touched);
            }
        }
        self.generation += u64::from(!forget.is_empty() || !evict.is_empty());
    }

    /// Sends a message: its entry is made or renewed.
    pub(crate) fn send(&mut self, ordinal: u32, count: Option<Counted>, now: Micros, touched: &mut Touched) {
        self.seq += 1;
        self.until = now.plus(KEEP);
        self.set_old(ordinal, false, touched);
        self.entries.insert(ordinal, Entry { seq: self.seq, sent_at: now, count });
        touched.entries.push(ordinal);
    }

    /// The head's bytes.
    pub(crate) fn write_head(&self, out: &mut Vec<u8>) {
        record::put(out, [self.seq, self.generation, self.until.get()]);
        if let Some(cap) = &self.cap {
            cap.write(out);
        }
    }

    /// The bytes of what is reserved.
    pub(crate) fn write_reserved(&self, out: &mut Vec<u8>) {
        self.reserved.iter().for_each(|one| one.write(out));
    }

    pub(super) fn read_head(&mut self, mut rest: &[u8]) -> Option<()> {
        (self.seq, self.generation) = (record::take_number(&mut rest)?, record::take_number(&mut rest)?);
        self.until = record::take_micros(&mut rest)?;
        self.cap = Counted::read(rest)?;
        Some(())
    }

    /// How much memory it takes, about. It is asked with every change, so nothing is gone through.
    pub fn bytes(&self) -> usize {
        let reserved = self.reserved.len() * (size_of::<Reserved>() + size_of::<Before>());
        size_of::<History>() + self.entries.len() * ENTRY_BYTES + reserved + self.old.len() * (CHUNK_BYTES + 48)
    }
}

/// What an entry takes in the table, with a mark or two of a rolling cap.
const ENTRY_BYTES: usize = size_of::<Entry>() + 64;

fn bit(ordinal: u32) -> (usize, u8) {
    let place = ordinal % CHUNK;
    (usize::try_from(place / 8).unwrap_or(0), 1 << (place % 8))
}
