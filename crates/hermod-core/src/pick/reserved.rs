//! A pick that is to be settled: kept by an `ack`, given back by a `nack` or when it expires.

use super::history::Given;
use crate::int::Micros;
use crate::record;

/// What became of a reserved pick. The numbers are part of the data format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    /// It is not settled yet.
    Open = 0,
    /// It was sent.
    Acked = 1,
    /// It was given back.
    Nacked = 2,
    /// It was not settled in time, and given back.
    Expired = 3,
}

impl Fate {
    /// The fate of this number.
    pub fn from_number(n: u8) -> Option<Fate> {
        [Fate::Open, Fate::Acked, Fate::Nacked, Fate::Expired].into_iter().find(|fate| fate.number() == n)
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fate::Open => "open",
            Fate::Acked => "acked",
            Fate::Nacked => "nacked",
            Fate::Expired => "expired",
        }
    }

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Fate::Open => 0,
            Fate::Acked => 1,
            Fate::Nacked => 2,
            Fate::Expired => 3,
        }
    }
}

/// A pick that is to be settled, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// What it is settled by; below 2^53.
    pub number: u64,
    /// The message.
    pub ordinal: u32,
    /// From when on it is given back.
    pub expires: Micros,
    /// What became of it.
    pub fate: Fate,
    /// What is needed to give it back, while it is open.
    pub before: Option<Box<Before>>,
}

/// What is needed to give a pick back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// The number of the pick.
    pub seq: u64,
    /// The number of the message's pick before it; 0: there was none; `OLD`: so long ago that it is not known.
    pub was: u64,
    /// When that was.
    pub was_sent_at: Micros,
    /// The message's cap then.
    pub meter: Given,
    /// When its record ended, right after it was charged.
    pub ends: Micros,
    /// The subject's cap then.
    pub cap: Given,
    /// When its record ended.
    pub cap_ends: Micros,
}

impl Reserved {
    /// Whether it is to be given back.
    pub fn is_expired(&self, now: Micros) -> bool {
        self.fate == Fate::Open && self.expires <= now
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.fate.number());
        record::put(out, [self.number]);
        out.extend_from_slice(&self.ordinal.to_le_bytes());
        record::put(out, [self.expires.get()]);
        let Some(before) = &self.before else { return };
        record::put(out, [before.seq, before.was, before.was_sent_at.get()]);
        before.meter.write(out);
        record::put(out, [before.ends.get()]);
        before.cap.write(out);
        record::put(out, [before.cap_ends.get()]);
    }

    fn take(rest: &mut &[u8]) -> Option<Reserved> {
        let [fate] = record::take(rest)?;
        let fate = Fate::from_number(fate)?;
        let number = record::take_number(rest)?;
        let ordinal = u32::from_le_bytes(record::take(rest)?);
        let expires = record::take_micros(rest)?;
        let mut before = None;
        if fate == Fate::Open {
            before = Some(Box::new(Before {
                seq: record::take_number(rest)?,
                was: record::take_number(rest)?,
                was_sent_at: record::take_micros(rest)?,
                meter: Given::take(rest)?,
                ends: record::take_micros(rest)?,
                cap: Given::take(rest)?,
                cap_ends: record::take_micros(rest)?,
            }));
        }
        Some(Reserved { number, ordinal, expires, fate, before })
    }

    /// Reads them all back.
    pub(super) fn read_all(mut rest: &[u8]) -> Option<Vec<Reserved>> {
        let mut all = Vec::new();
        while !rest.is_empty() {
            all.push(Reserved::take(&mut rest)?);
        }
        Some(all)
    }
}
