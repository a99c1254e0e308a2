//! A meter's record: what is used, in which unit, since when. One shape for all kinds.
//!
//! | kind | amount | unit | ts | tail |
//! |---|---|---|---|---|
//! | bucket | debt | the debt of one token | when that was true | |
//! | window | charges | 1 | the last charge | |
//! | sliding | charges in all marks | 1; in an answer, when a refused cost will fit | the newest mark | the marks |
//! | estimate | charges of this period | charges of the last period | the last charge | |
//!
//! On Redis a record is `kind u8, amount, unit, ts, until` and the tail, integers of 8 bytes, little
//! endian. A person reads the head with `struct.unpack('<BI8I8I8I8', value)`.

use std::fmt::Write;

use crate::int::Micros;
use crate::record;
use crate::state::Value;

/// Which meter wrote a record. The numbers are part of the data format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Debt that drains.
    Bucket = 1,
    /// One counter.
    Window = 2,
    /// Marks.
    Sliding = 4,
    /// Two counters.
    Estimate = 5,
    /// Nothing is counted.
    Block = 6,
}

impl Kind {
    fn from_number(n: u8) -> Option<Kind> {
        [Kind::Bucket, Kind::Window, Kind::Sliding, Kind::Estimate, Kind::Block].into_iter().find(|kind| kind.number() == n)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Kind::Bucket => 1,
            Kind::Window => 2,
            Kind::Sliding => 4,
            Kind::Estimate => 5,
            Kind::Block => 6,
        }
    }
}

/// Charges that leave the window together, when the last of them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The latest time one of them can have been made.
    pub last: u64,
    /// How many.
    pub count: u64,
}

/// Marks, oldest first; one pointer where there are none.
pub type Marks = Option<Box<Vec<Mark>>>;

/// A record. When it ends is kept beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// What is used.
    pub amount: u64,
    /// In which unit; see the table above.
    pub unit: u64,
    /// When that was true.
    pub ts: Micros,
    /// Oldest first.
    pub marks: Marks,
    /// Who wrote it.
    pub kind: Kind,
}

impl Tally {
    /// A record of nothing.
    pub fn nothing(kind: Kind, now: Micros) -> Tally {
        Tally { amount: 0, unit: 1, ts: now, marks: None, kind }
    }

    /// Whole tokens used, for a meter of another kind.
    pub fn tokens(&self) -> u64 {
        match self.kind {
            Kind::Bucket => self.amount.div_ceil(self.unit.max(1)),
            Kind::Estimate => self.amount.saturating_add(self.unit),
            Kind::Window | Kind::Sliding | Kind::Block => self.amount,
        }
    }

    /// Its head, as a script answers it.
    #[inline]
    pub fn head(&self, until: Micros, is_refused: bool) -> Head {
        Head { kind: self.kind, amount: self.amount, unit: self.unit, ts: self.ts, until, is_refused }
    }

    /// As Redis holds it.
    pub fn unpack(bytes: &[u8]) -> Option<(Tally, Micros)> {
        let mut rest = bytes;
        let head = Head::take(&mut rest)?;
        let marks = read_marks(&mut rest)?;
        Some((Tally { amount: head.amount, unit: head.unit, ts: head.ts, marks, kind: head.kind }, head.until))
    }
}

/// What a script answers of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Who wrote it.
    pub kind: Kind,
    /// What is used.
    pub amount: u64,
    /// In which unit.
    pub unit: u64,
    /// When that was true.
    pub ts: Micros,
    /// When it means nothing any more: everything is back.
    pub until: Micros,
    /// The cost did not fit.
    pub is_refused: bool,
}

/// The mark of a refusal in the byte of the kind.
const REFUSED: u8 = 128;

impl Head {
    /// How long a packed head is.
    pub const LENGTH: usize = 33;

    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.kind.number() | if self.is_refused { REFUSED } else { 0 });
        for n in [self.amount, self.unit, self.ts.get(), self.until.get()] {
            out.extend_from_slice(&n.to_le_bytes());
        }
    }

    /// Takes it off the front.
    pub fn take(rest: &mut &[u8]) -> Option<Head> {
        let [kind] = record::take(rest)?;
        let mut int = || record::take(rest).map(u64::from_le_bytes);
        let (amount, unit, ts, until) = (int()?, int()?, int()?, int()?);
        let (ts, until) = (Micros::new(ts)?, Micros::new(until)?);
        Some(Head { kind: Kind::from_number(kind & !REFUSED)?, amount, unit, ts, until, is_refused: kind & REFUSED != 0 })
    }
}

fn read_marks(rest: &mut &[u8]) -> Option<Marks> {
    let mut marks = Vec::with_capacity(rest.len() / 16);
    while !rest.is_empty() {
        let last = u64::from_le_bytes(record::take(rest)?);
        marks.push(Mark { last, count: u64::from_le_bytes(record::take(rest)?) });
    }
    Some((!marks.is_empty()).then(|| Box::new(marks)))
}

impl Value for Tally {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.kind.number());
        for n in [self.amount, self.unit, self.ts.get()] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        for mark in self.marks.iter().flat_map(|marks| marks.iter()) {
            out.extend_from_slice(&mark.last.to_le_bytes());
            out.extend_from_slice(&mark.count.to_le_bytes());
        }
    }

    fn read(mut bytes: &[u8]) -> Option<Tally> {
        let [kind] = record::take(&mut bytes)?;
        let amount = u64::from_le_bytes(record::take(&mut bytes)?);
        let unit = u64::from_le_bytes(record::take(&mut bytes)?);
        let ts = record::take_micros(&mut bytes)?;
        let marks = read_marks(&mut bytes)?;
        Some(Tally { amount, unit, ts, marks, kind: Kind::from_number(kind)? })
    }

    fn heap_bytes(&self) -> usize {
        self.marks.as_ref().map_or(0, |marks| 40 + marks.capacity() * size_of::<Mark>())
    }

    fn to_text(&self, until: Micros) -> String {
        let mut text = format!("{} {} {} {} {until}", self.kind.number(), self.amount, self.unit, self.ts);
        for mark in self.marks.iter().flat_map(|marks| marks.iter()) {
            // Writing to a string cannot fail.
            let _written = write!(text, " {}:{}", mark.last, mark.count);
        }
        text
    }
}
