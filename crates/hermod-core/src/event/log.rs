//! How an event is packed. Twin of `log.lua`.
//!
//! `kind u8, at u64, number u64, ordinal u32`, little endian, then `deck:epoch:subject` as the key of the history ends: a
//! script has that text at hand, so events cost it no argument. The message is known by its ordinal; whoever reads asks
//! the catalog for its name.

use crate::id::{DeckId, Subject};
use crate::int::Micros;
use crate::pick::id::PickId;
use crate::record;

/// What happened. The numbers are part of the data format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A message was picked.
    Picked = 1,
    /// A reserved pick was kept.
    Acked = 2,
    /// A reserved pick was given back.
    Nacked = 3,
    /// A reserved pick was not settled in time, and given back.
    Expired = 4,
}

impl Kind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Kind; 4] = [Kind::Picked, Kind::Acked, Kind::Nacked, Kind::Expired];

    /// As it is written in JSON and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Picked => "message.picked",
            Kind::Acked => "message.acked",
            Kind::Nacked => "message.nacked",
            Kind::Expired => "message.expired",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    fn number(self) -> u8 {
        match self {
            Kind::Picked => 1,
            Kind::Acked => 2,
            Kind::Nacked => 3,
            Kind::Expired => 4,
        }
    }
}

/// What happened to a pick, before it is known whether it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// What.
    pub kind: Kind,
    /// The number of the pick.
    pub number: u64,
    /// The message.
    pub ordinal: u32,
}

impl Happened {
    /// The bytes of the event.
    pub fn pack(&self, at: Micros, (deck, epoch, subject): (&DeckId, u64, &Subject)) -> Box<[u8]> {
        let mut out = Vec::with_capacity(48 + deck.as_str().len() + subject.as_str().len());
        out.push(self.kind.number());
        record::put(&mut out, [at.get(), self.number]);
        out.extend_from_slice(&self.ordinal.to_le_bytes());
        out.extend_from_slice(format!("{deck}:{epoch}:").as_bytes());
        out.extend_from_slice(subject.as_str().as_bytes());
        out.into()
    }
}

/// The record of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// When.
    pub at: Micros,
    /// To which pick; it names the deck and the subject.
    pub pick: PickId,
    /// Which message, by its number in the deck.
    pub ordinal: u32,
}

impl Event {
    /// Reads an event back.
    pub fn read(mut rest: &[u8]) -> Option<Event> {
        let [kind] = record::take(&mut rest)?;
        let kind = Kind::ALL.into_iter().find(|one| one.number() == kind)?;
        let (at, number) = (record::take_micros(&mut rest)?, record::take_number(&mut rest)?);
        let ordinal = u32::from_le_bytes(record::take(&mut rest)?);
        let mut parts = std::str::from_utf8(rest).ok()?.splitn(3, ':');
        let deck = DeckId::new(parts.next()?).ok()?;
        let epoch = parts.next()?.parse().ok()?;
        let subject = Subject::new(parts.next()?).ok()?;
        Some(Event { kind, at, pick: PickId { number, deck, epoch, subject }, ordinal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_back() {
        let (deck, subject) = (DeckId::new("tips").unwrap(), Subject::new("a:b:c").unwrap());
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.as_str()), Some(kind));
            let packed = Happened { kind, number: 9, ordinal: 70_000 }.pack(Micros::saturating(5), (&deck, 3, &subject));
            let pick = PickId { number: 9, deck: deck.clone(), epoch: 3, subject: subject.clone() };
            assert_eq!(Event::read(&packed), Some(Event { kind, at: Micros::saturating(5), pick, ordinal: 70_000 }));
            assert_eq!(Event::read(&packed[..20]), None);
        }
    }
}
