//! Who works on a sticky queue, and how much each has. Twin of `workers.lua`.
//!
//! Nothing is counted when it changes: what a worker has is what is in its sets, so it cannot drift.

use super::binding::Worker;
use super::worker::{Standing, Why};
use crate::id::{QueueId, WorkerId};
use crate::int::Micros;
use crate::key;
use crate::limit::limited::{take_text, write_text};
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// Of so many recipients the deliveries are counted in one step.
pub const COUNTED_MAX: usize = 200;

/// Lists the workers of a partition, or counts what waits behind what one of them has.
#[derive(Clone, Debug)]
pub struct Roll {
    place: Place,
    queue: QueueId,
    /// Whose recipients' deliveries to count, and how many recipients were counted before; an empty name: what is parked.
    behind: Option<(Box<str>, u32)>,
}

impl Roll {
    /// Lists the workers.
    pub fn new(place: Place, queue: QueueId) -> Roll {
        Roll { place, queue, behind: None }
    }

    /// Counts instead the deliveries that wait behind the first ones of a worker's recipients, [`COUNTED_MAX`] recipients at
    /// a time, after `counted` others.
    #[must_use]
    pub fn behind(mut self, worker: Option<&WorkerId>, counted: u32) -> Roll {
        self.behind = Some((worker.map_or("", WorkerId::as_str).into(), counted));
        self
    }
}

/// A worker, and how much it has in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Working {
    /// Its name.
    pub worker: Box<str>,
    /// Which of its lives this is.
    pub incarnation: u64,
    /// When its lease ends.
    pub until: Micros,
    /// Whether it drains; [`Standing::Gone`]: it is gone, and not everything it had is moved.
    pub standing: Standing,
    /// Why it is gone.
    pub gone: Option<Why>,
    /// How many turns it has.
    pub weight: u8,
    /// How many of its recipients wait for it.
    pub waiting: u64,
    /// How many deliveries it holds.
    pub in_flight: u64,
}

/// The workers of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rolled {
    /// The time of the answer.
    pub now: Micros,
    /// How many recipients wait for a worker.
    pub parked: u64,
    /// How many deliveries wait behind their recipient's first; of one worker if that was asked.
    pub behind: u64,
    /// By name.
    pub workers: Vec<Working>,
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl Operation for Roll {
    type Answer = Rolled;

    const SCRIPT: Script = Script::long("queue/workers");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Rolled, Full> {
        let Some(queue) = state.queues.get(&self.place, &self.queue) else { return Ok(Rolled { now, ..Rolled::default() }) };
        let parked = count(queue.parked());
        if let Some((name, counted)) = &self.behind {
            let heads = queue.due_of(name).map(|(_, number)| number).chain(queue.held_by(name));
            let heads = heads.skip(usize::try_from(*counted).unwrap_or(usize::MAX)).take(COUNTED_MAX);
            let length = |number| queue.slot(number).and_then(|slot| queue.line(slot.meta().0.to)).map_or(0, |(_, length)| length - 1);
            return Ok(Rolled { now, parked, behind: count(heads.map(length).sum()), workers: Vec::new() });
        }
        let working = |(name, worker): (&str, &Worker)| Working {
            worker: name.into(),
            incarnation: worker.incarnation,
            until: worker.until,
            standing: match worker {
                worker if worker.gone.is_some() => Standing::Gone,
                worker if worker.is_draining => Standing::Draining,
                _ => Standing::Live,
            },
            gone: worker.gone,
            weight: u8::try_from(worker.points.len()).unwrap_or(u8::MAX),
            waiting: count(queue.due_of(name).count()),
            in_flight: count(queue.held_by(name).count()),
        };
        Ok(Rolled {
            now,
            parked,
            behind: count(queue.rest.len()),
            workers: queue.owners.workers.iter().map(|(name, worker)| working((name, worker))).collect(),
        })
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        let (name, counted): (&str, u32) = self.behind.as_ref().map_or(("", 0), |(name, counted)| (name, *counted));
        call.given.push(u8::from(self.behind.is_some()));
        call.given.extend_from_slice(&counted.to_le_bytes());
        write_text(&mut call.given, name);
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn is_kept(&self, _answer: &Rolled) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Rolled) -> Reply {
        let mut out = vec![b'k'];
        record::put(&mut out, [answer.now.get(), answer.parked, answer.behind]);
        for working in &answer.workers {
            write_text(&mut out, &working.worker);
            record::put(&mut out, [working.incarnation, working.until.get(), working.waiting, working.in_flight]);
            out.extend_from_slice(&[working.standing.number(), working.gone.map_or(0, Why::number), working.weight]);
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Rolled, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about who works"))
    }
}

fn read(mut rest: &[u8]) -> Option<Rolled> {
    let [_word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    let (parked, behind) = (record::take_number(&mut rest)?, record::take_number(&mut rest)?);
    let mut workers = Vec::new();
    while !rest.is_empty() {
        let worker = take_text(&mut rest)?.into();
        let (incarnation, until) = (record::take_number(&mut rest)?, record::take_micros(&mut rest)?);
        let (waiting, in_flight) = (record::take_number(&mut rest)?, record::take_number(&mut rest)?);
        let [standing, gone, weight] = record::take(&mut rest)?;
        let (standing, gone) = (Standing::from_number(standing)?, Why::from_number(gone));
        workers.push(Working { worker, incarnation, until, standing, gone, weight, waiting, in_flight });
    }
    Some(Rolled { now, parked, behind, workers })
}
