//! What the ledger keeps of a commit: who did what, what moved, what was drawn.

use std::sync::Arc;

use super::plan::{put_code, put_int, put_short, take_code, take_int, take_short};
use crate::int::Micros;
use crate::record;
use crate::word::word_enum;

word_enum! {
    /// What a commit was.
    What, "kind", {
        /// A play.
        #[default]
        Play = "play",
        /// Legs that were given as they are.
        Commit = "commit",
        /// Something was put on hold.
        Hold = "hold",
        /// What was on hold was taken.
        Capture = "capture",
        /// What was on hold is free again.
        Release = "release",
        /// Another commit was undone.
        Revert = "revert",
    }
}

const ALL: [What; 6] = [What::Play, What::Commit, What::Hold, What::Capture, What::Release, What::Revert];

/// A commit, as the ledger keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What it was.
    pub what: What,
    /// The play, if it was one.
    pub play: Arc<str>,
    /// Who did it; empty if nobody is known.
    pub by: Arc<str>,
    /// The idempotency key: what its draws were made of.
    pub key: Arc<str>,
    /// Where, as the caller told.
    pub guild: Arc<str>,
    /// For people.
    pub note: Arc<str>,
    /// The commit or the hold it is about; 0: none.
    pub refers: u64,
    /// What moved.
    pub legs: Vec<Leg>,
    /// What was drawn.
    pub draws: Vec<Drawn>,
}

/// So many of an asset from one owner to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The asset.
    pub asset: Arc<str>,
    /// From whom.
    pub from: Arc<str>,
    /// To whom.
    pub to: Arc<str>,
    /// How many.
    pub qty: i64,
    /// The types of the events of both.
    pub types: (Arc<str>, Arc<str>),
}

/// A number that was drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Of which draw: `gamble.win`.
    pub name: Arc<str>,
    /// The least it could have been.
    pub from: i64,
    /// The most.
    pub to: i64,
    /// What it was.
    pub value: i64,
}

impl Entry {
    /// As it is stored, after the time.
    pub fn pack(&self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(64 + 64 * self.legs.len());
        let what = ALL.iter().position(|what| *what == self.what).unwrap_or_default();
        out.push(u8::try_from(what).unwrap_or_default());
        for text in [&self.play, &self.key, &self.guild] {
            put_code(&mut out, text);
        }
        put_short(&mut out, self.by.as_bytes());
        put_short(&mut out, self.note.as_bytes());
        record::put(&mut out, [self.refers]);
        out.push(u8::try_from(self.legs.len()).expect("legs are bounded"));
        for leg in &self.legs {
            put_code(&mut out, &leg.asset);
            put_short(&mut out, leg.from.as_bytes());
            put_short(&mut out, leg.to.as_bytes());
            put_int(&mut out, leg.qty);
            put_code(&mut out, &leg.types.0);
            put_code(&mut out, &leg.types.1);
        }
        out.push(u8::try_from(self.draws.len()).expect("draws are bounded"));
        for drawn in &self.draws {
            put_code(&mut out, &drawn.name);
            [drawn.from, drawn.to, drawn.value].into_iter().for_each(|number| put_int(&mut out, number));
        }
        out.into()
    }

    /// Reads it back.
    pub fn read(mut rest: &[u8]) -> Option<Entry> {
        let [what] = record::take(&mut rest)?;
        let what = *ALL.get(usize::from(what))?;
        let [play, key, guild] = [take_code(&mut rest)?.into(), take_code(&mut rest)?.into(), take_code(&mut rest)?.into()];
        let (by, note) = (take_text(&mut rest)?, take_text(&mut rest)?);
        let refers = record::take_number(&mut rest)?;
        let [legs] = record::take(&mut rest)?;
        let legs = (0..legs).map(|_| {
            let asset = take_code(&mut rest)?.into();
            let (from, to, qty) = (take_text(&mut rest)?, take_text(&mut rest)?, take_int(&mut rest)?);
            Some(Leg { asset, from, to, qty, types: (take_code(&mut rest)?.into(), take_code(&mut rest)?.into()) })
        });
        let legs = legs.collect::<Option<Vec<_>>>()?;
        let [draws] = record::take(&mut rest)?;
        let draws = (0..draws).map(|_| {
            let name = take_code(&mut rest)?.into();
            Some(Drawn { name, from: take_int(&mut rest)?, to: take_int(&mut rest)?, value: take_int(&mut rest)? })
        });
        let draws = draws.collect::<Option<Vec<_>>>()?;
        Some(Entry { what, play, by, key, guild, note, refers, legs, draws })
    }

    /// Reads it back with its time, as it is stored.
    pub fn stored(mut bytes: &[u8]) -> Option<(Micros, Entry)> {
        let at = record::take_micros(&mut bytes)?;
        Some((at, Entry::read(bytes)?))
    }
}

pub(crate) fn take_text(rest: &mut &[u8]) -> Option<Arc<str>> {
    std::str::from_utf8(take_short(rest)?).ok().map(Arc::from)
}
