//! What is stored of a worker, and of whom a recipient has; as bytes, the same on Redis and in the journal.

use super::line::hex;
use super::worker::Why;
use crate::int::Micros;
use crate::limit::limited::{take_text, write_text};
use crate::record;

/// A worker, as one partition knows it: `incarnation u64, until u64, gone u8, flags u8, points u8`, each `u64` big endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Worker {
    pub incarnation: u64,
    /// The end of its lease.
    pub until: Micros,
    /// Why it is gone, if it is.
    pub gone: Option<Why>,
    pub is_draining: bool,
    /// Its stream was closed.
    pub is_closed: bool,
    /// It stands in `leaving`.
    pub is_leaving: bool,
    pub points: Vec<u64>,
}

const DRAINING: u8 = 1;
const CLOSED: u8 = 2;
const LEAVING: u8 = 4;

impl Worker {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        record::put(out, [self.incarnation, self.until.get()]);
        out.push(self.gone.map_or(0, Why::number));
        let flags = [(DRAINING, self.is_draining), (CLOSED, self.is_closed), (LEAVING, self.is_leaving)];
        out.push(flags.into_iter().filter(|(_, is)| *is).map(|(flag, _)| flag).sum());
        out.push(u8::try_from(self.points.len()).expect("points are few"));
        for point in &self.points {
            out.extend_from_slice(&point.to_be_bytes());
        }
    }

    pub(super) fn read(rest: &mut &[u8]) -> Option<Worker> {
        let (incarnation, until) = (record::take_number(rest)?, record::take_micros(rest)?);
        let [gone, flags, count] = record::take(rest)?;
        let gone = if gone == 0 { None } else { Some(Why::from_number(gone)?) };
        let points = (0..count).map(|_| record::take(rest).map(u64::from_be_bytes)).collect::<Option<Vec<_>>>()?;
        let has = |flag: u8| flags & flag != 0;
        let (is_draining, is_closed, is_leaving) = (has(DRAINING), has(CLOSED), has(LEAVING));
        Some(Worker { incarnation, until, gone, is_draining, is_closed, is_leaving, points })
    }

    pub(super) fn text(&self) -> String {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        hex(&bytes)
    }
}

/// A recipient's owner: `epoch u64, pin (u8 length), changes u8`, each `at u64, why u8, owner (u8 length)`, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Grows with every change of the owner.
    pub epoch: u64,
    /// Whom it is to have while that worker lives; empty: nobody in particular.
    pub pin: Box<str>,
    /// The last changes of its owner, the newest first: when, why, and to whom; empty: to nobody.
    pub changes: Vec<(Micros, Why, Box<str>)>,
}

impl Binding {
    /// Who has it; empty: nobody.
    pub fn owner(&self) -> &str {
        self.changes.first().map_or("", |(_, _, owner)| owner)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        record::put(out, [self.epoch]);
        write_text(out, &self.pin);
        out.push(u8::try_from(self.changes.len()).expect("few are kept"));
        for (at, why, owner) in &self.changes {
            record::put(out, [at.get()]);
            out.push(why.number());
            write_text(out, owner);
        }
    }

    pub(super) fn read(rest: &mut &[u8]) -> Option<Binding> {
        let epoch = record::take_number(rest)?;
        let pin = take_text(rest)?.into();
        let [count] = record::take(rest)?;
        let change = |rest: &mut &[u8]| {
            let at = record::take_micros(rest)?;
            let [why] = record::take(rest)?;
            Some((at, Why::from_number(why)?, take_text(rest)?.into()))
        };
        let changes = (0..count).map(|_| change(rest)).collect::<Option<Vec<_>>>()?;
        Some(Binding { epoch, pin, changes })
    }

    pub(super) fn text(&self) -> String {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        hex(&bytes)
    }
}
