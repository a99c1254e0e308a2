//! What an answer tells besides what was done: why not, or what a play returns.

use std::sync::Arc;

use super::apply::{Bound, Which};
use super::formula::Datum;
use super::plan::{put_code, put_int, put_short, take_code, take_int};
use crate::int::Micros;
use crate::record;

/// What a play tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What it returns.
    pub returns: Vec<(Arc<str>, Returned)>,
    /// What came of the plays that followed from it: what they were refused with, if they were.
    pub also: Vec<(Arc<str>, Option<Refusal>)>,
}

/// What is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returned {
    /// A value.
    Datum(Datum),
    /// Points in time.
    Times(Vec<Micros>),
}

/// Why something was not done. It is an answer, and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub code: Arc<str>,
    /// What else there is to say.
    pub with: Vec<(Arc<str>, Datum)>,
    /// When to ask again, if time is all it takes.
    pub retry_at: Option<Micros>,
}

impl Refusal {
    /// Without anything else to say.
    pub fn new(code: &str) -> Refusal {
        Refusal { code: code.into(), with: Vec::new(), retry_at: None }
    }

    /// There is not enough.
    pub fn short(code: &str, asset: &str, have: i64, need: i64) -> Refusal {
        let with = vec![("asset".into(), Datum::Text(asset.into())), ("have".into(), Datum::Int(have)), ("need".into(), Datum::Int(need))];
        Refusal { code: code.into(), with, retry_at: None }
    }

    /// There is no room.
    pub fn full(code: &str, asset: &str, room: i64) -> Refusal {
        let with = vec![("asset".into(), Datum::Text(asset.into())), ("room".into(), Datum::Int(room.max(0)))];
        Refusal { code: code.into(), with, retry_at: None }
    }

    /// It is not time yet.
    pub fn early(code: &str, at: Micros) -> Refusal {
        Refusal { code: code.into(), with: Vec::new(), retry_at: Some(at) }
    }

    /// As bytes that stand in an answer.
    pub fn pack(&self) -> Box<[u8]> {
        let mut out = Vec::new();
        self.write(&mut out);
        out.into()
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_code(out, &self.code);
        record::put(out, [self.retry_at.map_or(0, Micros::get)]);
        out.push(u8::try_from(self.with.len()).expect("few are told"));
        for (name, datum) in &self.with {
            put_code(out, name);
            put_datum(out, datum);
        }
    }

    /// Reads it back.
    pub fn read(bytes: &[u8]) -> Option<Refusal> {
        let mut rest = bytes;
        Refusal::take(&mut rest)
    }

    fn take(rest: &mut &[u8]) -> Option<Refusal> {
        let code = take_code(rest)?.into();
        let retry_at = Some(record::take_micros(rest)?).filter(|at| *at > Micros::ZERO);
        let [many] = record::take(rest)?;
        let with = (0..many).map(|_| Some((take_code(rest)?.into(), take_datum(rest)?)));
        Some(Refusal { code, with: with.collect::<Option<Vec<_>>>()?, retry_at })
    }
}

impl From<&Bound> for Refusal {
    fn from(bound: &Bound) -> Refusal {
        match &bound.what {
            Which::Short { account, value, held, delta } => Refusal::short(&bound.code, &account.asset, value - held, -delta),
            Which::Full { account, value, max, .. } => Refusal::full(&bound.code, &account.asset, max - value),
            Which::Early { at, .. } => Refusal::early(&bound.code, *at),
        }
    }
}

impl Told {
    /// As bytes that stand in an answer.
    pub fn pack(&self) -> Box<[u8]> {
        let mut out = Vec::new();
        out.push(u8::try_from(self.returns.len()).expect("few are told"));
        for (name, returned) in &self.returns {
            put_code(&mut out, name);
            match returned {
                Returned::Datum(datum) => put_datum(&mut out, datum),
                Returned::Times(times) => {
                    out.push(b'u');
                    out.push(u8::try_from(times.len()).expect("few are told"));
                    times.iter().for_each(|time| record::put(&mut out, [time.get()]));
                }
            }
        }
        out.push(u8::try_from(self.also.len()).expect("few plays follow"));
        for (play, refusal) in &self.also {
            put_code(&mut out, play);
            out.push(u8::from(refusal.is_some()));
            refusal.iter().for_each(|refusal| refusal.write(&mut out));
        }
        out.into()
    }

    /// Reads it back.
    pub fn read(mut rest: &[u8]) -> Option<Told> {
        let [many] = record::take(&mut rest)?;
        let returns = (0..many).map(|_| {
            let name = take_code(&mut rest)?.into();
            if rest.first() != Some(&b'u') {
                return Some((name, Returned::Datum(take_datum(&mut rest)?)));
            }
            let [_, many] = record::take(&mut rest)?;
            let times = (0..many).map(|_| record::take_micros(&mut rest)).collect::<Option<Vec<_>>>()?;
            Some((name, Returned::Times(times)))
        });
        let returns = returns.collect::<Option<Vec<_>>>()?;
        let [many] = record::take(&mut rest)?;
        let also = (0..many).map(|_| {
            let play = take_code(&mut rest)?.into();
            let [is_refused] = record::take(&mut rest)?;
            Some((play, if is_refused == 1 { Some(Refusal::take(&mut rest)?) } else { None }))
        });
        Some(Told { returns, also: also.collect::<Option<Vec<_>>>()? })
    }
}

pub(crate) fn put_datum(out: &mut Vec<u8>, datum: &Datum) {
    match datum {
        Datum::Int(number) => {
            out.push(b'i');
            put_int(out, *number);
        }
        Datum::Bool(value) => out.extend_from_slice(if *value { b"y" } else { b"n" }),
        Datum::Text(text) => {
            out.push(b't');
            put_short(out, text.as_bytes());
        }
    }
}

pub(crate) fn take_datum(rest: &mut &[u8]) -> Option<Datum> {
    Some(match record::take(rest)? {
        [b'i'] => Datum::Int(take_int(rest)?),
        [b'y'] => Datum::Bool(true),
        [b'n'] => Datum::Bool(false),
        [b't'] => Datum::Text(super::entry::take_text(rest)?),
        _ => return None,
    })
}
