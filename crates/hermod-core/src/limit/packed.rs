//! A record as the embedded engine's memory holds it: in 24 bytes, so that with its key and its end it fills one
//! line of the processor's cache. A check waits for memory more than for anything else.

use std::borrow::Cow;

use crate::int::Micros;
use crate::limit::tally::{Kind, Tally};
use crate::state::{Counter, Value};

/// A record.
#[derive(Debug)]
pub struct Packed(Form);

#[derive(Debug)]
enum Form {
    /// Without marks. No time has more than 53 bits, so it leaves a byte for the kind.
    Short { amount: u64, unit: u64, ts: [u8; 7], kind: Kind },
    /// With them.
    Long(Box<Tally>),
}

impl Packed {
    /// The record.
    #[inline]
    pub fn tally(&self) -> Cow<'_, Tally> {
        match &self.0 {
            Form::Short { amount, unit, ts, kind } => {
                Cow::Owned(Tally { amount: *amount, unit: *unit, ts: wide(*ts), marks: None, kind: *kind })
            }
            Form::Long(tally) => Cow::Borrowed(tally),
        }
    }
}

impl From<Tally> for Packed {
    #[inline]
    fn from(tally: Tally) -> Packed {
        match tally {
            Tally { amount, unit, ts, marks: None, kind } => Packed(Form::Short { amount, unit, ts: narrow(ts), kind }),
            marked => Packed(Form::Long(Box::new(marked))),
        }
    }
}

#[inline]
fn narrow(time: Micros) -> [u8; 7] {
    let [bytes @ .., _zero] = time.get().to_le_bytes();
    bytes
}

#[inline]
fn wide([a, b, c, d, e, f, g]: [u8; 7]) -> Micros {
    Micros::saturating(u64::from_le_bytes([a, b, c, d, e, f, g, 0]))
}

impl Value for Packed {
    fn write(&self, out: &mut Vec<u8>) {
        self.tally().write(out);
    }

    fn read(bytes: &[u8]) -> Option<Packed> {
        Tally::read(bytes).map(Packed::from)
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Short { .. } => 0,
            Form::Long(tally) => size_of::<Tally>() + 16 + tally.heap_bytes(),
        }
    }

    fn to_text(&self, until: Micros) -> String {
        self.tally().to_text(until)
    }

    fn hash(key: &[u8]) -> u64 {
        // One that is none of ours is found by nobody.
        Counter::of(key).map_or(0, |counter| counter.hash())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::tally::Mark;

    #[test]
    fn every_record_comes_back_and_most_are_small() {
        assert_eq!(size_of::<Packed>(), 24);
        let tally = |amount, marks| Tally { amount, unit: 7, ts: Micros::MAX, marks, kind: Kind::Estimate };
        let marks = || Some(Box::new(vec![Mark { last: 1, count: 2 }]));
        for (tally, is_short) in [(tally(1 << 53, None), true), (tally(u64::MAX, None), true), (tally(1, marks()), false)] {
            let packed = Packed::from(tally.clone());
            assert_eq!(*packed.tally(), tally);
            assert_eq!(packed.heap_bytes() == 0, is_short);
        }
    }
}
