//! The reservations of a subject: what was charged by estimate and is to be settled. Twin of `reservations.lua`.
//!
//! All of a subject stand in one record, in the order in which they were made or settled. An open one
//! holds the meters it was charged under as they were then, so that settling it needs no rule, and when
//! the charge will have come back by itself: from then on there is nothing to give back. One that is
//! settled says what it was settled to until an hour after its expiry, so that settling it again
//! answers the same and does nothing; of those only the last [`SETTLED_MAX`] are kept.

use crate::id::RuleId;
use crate::int::Micros;
use crate::limit::limited::{Limited, take_text, write_text};
use crate::limit::meter::{Act, Meter};
use crate::limit::records::Tag;
use crate::limit::rule::{OnExpiry, Scope};
use crate::record;
use crate::state::Value;

/// So many can be open at a time: every call reads and writes them all.
pub const OPEN_MAX: usize = 1_000;
/// So many that are settled are remembered.
pub const SETTLED_MAX: usize = 200;
/// So long after its expiry a reservation is remembered.
pub const KEEP: Micros = Micros::saturating(3_600_000_000);

/// What became of a reservation. The numbers are part of the data format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    /// It is not settled yet.
    Open = 0,
    /// It was settled by whoever made it.
    Settled = 1,
    /// It expired, and the estimate stayed charged.
    Kept = 2,
    /// It expired, and at least one rule had the estimate given back.
    Refunded = 3,
}

impl Fate {
    pub(super) fn from_number(n: u8) -> Option<Fate> {
        [Fate::Open, Fate::Settled, Fate::Kept, Fate::Refunded].into_iter().find(|fate| fate.number() == n)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Fate::Open => 0,
            Fate::Settled => 1,
            Fate::Kept => 2,
            Fate::Refunded => 3,
        }
    }
}

const REFUND: u8 = 1;
const SHARED: u8 = 2;
const DURABLE: u8 = 4;

/// What a reservation charged under one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    flags: u8,
    rule: RuleId,
    /// The meter of then: its kind and integers, as scripts take it.
    kind: u8,
    ints: [u64; 5],
    /// When what was charged has come back by itself.
    ends: Micros,
}

impl Part {
    /// Under this rule, whose record ended at `until` right after the charge at `now`.
    pub(super) fn new(rule: &Limited, until: Micros, now: Micros) -> Part {
        let (kind, ints) = rule.meter.given(now);
        // Of an estimate the period it was charged in: after its turn, others' charges would be given back.
        let ends = match (kind, ints) {
            (5, [_, period, tick_us, ..]) => until.since(Micros::saturating(period * tick_us)),
            _ => until,
        };
        Part { flags: Part::flags(rule), rule: rule.id.clone(), kind, ints, ends }
    }

    /// What of a rule matters when a reservation is settled.
    pub(super) fn flags(rule: &Limited) -> u8 {
        let refund = if rule.on_expiry == OnExpiry::Refund { REFUND } else { 0 };
        let shared = if rule.scope == Scope::Global { SHARED } else { 0 };
        refund | shared | if rule.durable { DURABLE } else { 0 }
    }

    /// Until when an expiry has something to give back.
    pub(super) fn refunds(parts: &[Part]) -> Micros {
        parts.iter().filter(|part| part.is_refunded()).map(|part| part.ends).max().unwrap_or_default()
    }

    /// Whether all subjects share the counter: it lives in another partition.
    pub(super) fn is_shared(&self) -> bool {
        self.flags & SHARED != 0
    }

    pub(super) fn is_durable(&self) -> bool {
        self.flags & DURABLE != 0
    }

    /// Whether an expiry gives it back.
    pub(super) fn is_refunded(&self) -> bool {
        self.flags & REFUND != 0
    }

    /// The rule of then with its meter as it is at `now`; none where nothing can be done about it any more.
    pub(super) fn limited(&self, now: Micros) -> Option<Limited> {
        let meter = Meter::told(self.kind, self.ints)?.at(now)?;
        Some(Limited { durable: self.is_durable(), ..Limited::enforced(self.rule.clone(), meter) })
    }

    /// What must be done so that `charged` is charged instead of `estimate`, if anything.
    pub(super) fn owes(&self, estimate: u64, charged: u64, now: Micros) -> Option<(Act, u64)> {
        let (act, cost) = match charged < estimate {
            true => (Act::Refund, self.left_of(estimate - charged, now)),
            false => (Act::Force, charged - estimate),
        };
        (cost > 0).then_some((act, cost))
    }

    /// How many of `cost` tokens have not come back by themselves.
    fn left_of(&self, cost: u64, now: Micros) -> u64 {
        if now >= self.ends {
            return 0;
        }
        match (self.kind, self.ints) {
            (1, [limit, period, _, tick_us, _]) => {
                // What was charged last drains last: so many ticks' worth of the debt of then is left.
                let ticks = self.ends.get() / tick_us - now.get() / tick_us;
                if ticks >= (cost * period).div_ceil(limit) { cost } else { ticks * limit / period }
            }
            _ => cost,
        }
    }

    /// Its rule and meter, as scripts take them.
    pub(super) fn write_meter(&self, out: &mut Vec<u8>) {
        write_text(out, self.rule.as_str());
        out.push(self.kind);
        for int in self.ints {
            out.extend_from_slice(&int.to_le_bytes());
        }
    }

    /// As Redis holds it, which finds records by the tags of their rules, or as the journal does.
    pub(super) fn write(&self, out: &mut Vec<u8>, form: Form) {
        out.push(self.flags);
        if form == Form::Redis {
            out.extend_from_slice(&Tag::of_id(self.rule.as_str()).bytes());
        }
        self.write_meter(out);
        out.extend_from_slice(&self.ends.get().to_le_bytes());
    }

    fn take(rest: &mut &[u8], form: Form) -> Option<Part> {
        let [flags] = record::take(rest)?;
        if form == Form::Redis {
            let _tag: [u8; 8] = record::take(rest)?;
        }
        let (rule, kind, ints) = take_meter(rest)?;
        Some(Part { flags, rule, kind, ints, ends: record::take_micros(rest)? })
    }

    fn to_text(&self) -> String {
        let ints = self.ints.map(|int| int.to_string()).join(" ");
        format!("{}/{} {} {ints} until {}", self.rule, self.flags, self.kind, self.ends)
    }
}

/// Who holds the bytes of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Redis.
    Redis,
    /// The journal of the embedded engine.
    Journal,
}

/// A rule and its meter, as [`Part::write_meter`] writes them.
pub(super) fn take_meter(rest: &mut &[u8]) -> Option<(RuleId, u8, [u64; 5])> {
    let rule = RuleId::new(take_text(rest)?).ok()?;
    let [kind] = record::take(rest)?;
    let mut ints = [0; 5];
    for int in &mut ints {
        *int = u64::from_le_bytes(record::take(rest)?);
    }
    Some((rule, kind, ints))
}

/// One reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub(super) fate: Fate,
    pub(super) number: u128,
    pub(super) expires: Micros,
    pub(super) estimate: u64,
    /// What it was settled to; while it is open, nothing.
    pub(super) charged: u64,
    /// Only while it is open.
    pub(super) parts: Vec<Part>,
}

impl Reservation {
    /// Until when an expiry has something to give back.
    fn refunds(&self) -> Micros {
        Part::refunds(&self.parts)
    }

    /// When it is forgotten: what must be given back is not.
    fn until(&self) -> Micros {
        self.expires.plus(KEEP).max(self.refunds())
    }

    /// It has expired, if it is open.
    pub(super) fn is_expired(&self, now: Micros) -> bool {
        self.fate == Fate::Open && self.expires <= now
    }
}

/// All reservations of a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations(pub(super) Vec<Reservation>);

impl Reservations {
    /// Those that still mean something. What expired and has nothing to give back is settled by that.
    pub(super) fn live(mut self, now: Micros) -> Reservations {
        self.0.retain(|one| one.until() > now);
        for one in &mut self.0 {
            if one.is_expired(now) && one.refunds() <= now {
                (one.fate, one.charged, one.parts) = (Fate::Kept, one.estimate, Vec::new());
            }
        }
        self
    }

    /// How many are open.
    pub(super) fn open(&self) -> usize {
        self.0.iter().filter(|one| one.fate == Fate::Open).count()
    }

    /// Takes one out, to be put back settled.
    pub(super) fn settle(&mut self, at: usize, fate: Fate, charged: u64) {
        let settled = Reservation { fate, charged, parts: Vec::new(), ..self.0.remove(at) };
        self.0.push(settled);
    }

    /// Forgets the first that were settled, if there are too many; and until when the others mean something.
    pub(super) fn trim(&mut self) -> Micros {
        let mut excess = (self.0.len() - self.open()).saturating_sub(SETTLED_MAX);
        self.0.retain(|one| {
            let is_dropped = one.fate != Fate::Open && excess > 0;
            excess -= usize::from(is_dropped);
            !is_dropped
        });
        self.0.iter().map(Reservation::until).max().unwrap_or_default()
    }

    /// As Redis holds them.
    pub fn unpack(bytes: &[u8]) -> Option<Reservations> {
        Reservations::take_all(bytes, Form::Redis)
    }

    fn take_all(mut rest: &[u8], form: Form) -> Option<Reservations> {
        let mut all = Vec::new();
        while !rest.is_empty() {
            let [fate] = record::take(&mut rest)?;
            let number = u128::from_be_bytes(record::take(&mut rest)?);
            let (expires, _refunds) = (record::take_micros(&mut rest)?, record::take_micros(&mut rest)?);
            let estimate = u64::from_le_bytes(record::take(&mut rest)?);
            let charged = u64::from_le_bytes(record::take(&mut rest)?);
            let length = u16::from_le_bytes(record::take(&mut rest)?);
            let (mut bytes, tail) = rest.split_at_checked(usize::from(length))?;
            rest = tail;
            let mut parts = Vec::new();
            while !bytes.is_empty() {
                parts.push(Part::take(&mut bytes, form)?);
            }
            all.push(Reservation { fate: Fate::from_number(fate)?, number, expires, estimate, charged, parts });
        }
        Some(Reservations(all))
    }
}

impl Value for Reservations {
    /// Per reservation `fate u8, number [16], expires, refunds until, estimate, charged u64, parts (u16 length)`, per part
    /// `flags u8, rule (u8 length), kind u8, the meter u64 x 5, ends u64`; on Redis with the rule's tag behind the flags.
    fn write(&self, out: &mut Vec<u8>) {
        for one in &self.0 {
            out.push(one.fate.number());
            out.extend_from_slice(&one.number.to_be_bytes());
            for int in [one.expires.get(), one.refunds().get(), one.estimate, one.charged] {
                out.extend_from_slice(&int.to_le_bytes());
            }
            let mut parts = Vec::new();
            one.parts.iter().for_each(|part| part.write(&mut parts, Form::Journal));
            out.extend_from_slice(&u16::try_from(parts.len()).expect("few rules apply to a call").to_le_bytes());
            out.extend_from_slice(&parts);
        }
    }

    fn read(bytes: &[u8]) -> Option<Reservations> {
        Reservations::take_all(bytes, Form::Journal)
    }

    fn heap_bytes(&self) -> usize {
        self.0.iter().map(|one| size_of::<Reservation>() + one.parts.len() * (size_of::<Part>() + 32)).sum()
    }

    fn to_text(&self, _until: Micros) -> String {
        let text = |one: &Reservation| {
            let parts = one.parts.iter().map(Part::to_text).collect::<Vec<_>>().join("; ");
            format!("{:x} {:?} until {} {} {} [{parts}]", one.number, one.fate, one.expires, one.estimate, one.charged)
        };
        self.0.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}
