//! How many deliveries there are, and when they fall due. Twin of `stats.lua`.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::delivery::Number;
use super::line::Queue;
use super::push::{next_number, take_next};
use crate::id::QueueId;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// A forecast has so many steps.
pub const FORECAST_MAX: usize = 120;

/// Counts the deliveries of a queue in one partition.
#[derive(Clone, Debug)]
pub struct Stats {
    place: Place,
    queue: QueueId,
    step: Micros,
    steps: u16,
}

impl Stats {
    /// With a forecast of so many steps, held at [`FORECAST_MAX`].
    pub fn new(place: Place, queue: QueueId, step: Micros, steps: usize) -> Stats {
        let steps = u16::try_from(steps.min(FORECAST_MAX)).expect("few");
        Stats { place, queue, step, steps }
    }

    fn count(&self, queue: &Queue, now: Micros) -> Counts {
        let waiting = [&queue.due, &queue.rest];
        let within = |set: &BTreeSet<(Micros, Number)>, after: Option<Micros>, through: Micros| {
            let begin = after.map_or(Bound::Unbounded, |after| Bound::Excluded((after, Number::MAX)));
            count(set.range((begin, Bound::Included((through, Number::MAX)))).count())
        };
        let both = |after: Option<Micros>, through: Micros| waiting.map(|set| within(set, after, through)).iter().sum::<u64>();
        let ready = both(None, now);
        let mut forecast = Vec::with_capacity(usize::from(self.steps));
        let mut from = now;
        for _ in 0..self.steps {
            let through = from.plus(self.step);
            forecast.push(both(Some(from), through));
            from = through;
        }
        let (next, next_end) = queue.next();
        let oldest = waiting.iter().filter_map(|set| set.first().map(|(at, _)| *at)).min().filter(|at| *at <= now);
        Counts {
            now,
            next,
            next_end,
            oldest,
            ready,
            scheduled: count(queue.due.len() + queue.rest.len()) - ready,
            leased: count(queue.held.len()),
            dead: count(queue.dead.len()),
            forecast,
        }
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The time of the answer.
    pub now: Micros,
    /// When a delivery can be claimed next.
    pub next: Option<Micros>,
    /// When a lease ends next.
    pub next_end: Option<Micros>,
    /// Since when the one that waits longest could be claimed.
    pub oldest: Option<Micros>,
    /// Their time has come.
    pub ready: u64,
    /// Their time has not come.
    pub scheduled: u64,
    /// Somebody holds them.
    pub leased: u64,
    /// They have failed as often as they may.
    pub dead: u64,
    /// How many fall due in each of the steps to come.
    pub forecast: Vec<u64>,
}

impl Operation for Stats {
    type Answer = Counts;

    const SCRIPT: Script = Script::long("queue/stats");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Counts, Full> {
        let nothing = || Counts { now, forecast: vec![0; usize::from(self.steps)], ..Counts::default() };
        Ok(state.queues.get(&self.place, &self.queue).map_or_else(nothing, |queue| self.count(queue, now)))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        record::put(&mut call.given, [self.step.get()]);
        call.given.extend_from_slice(&self.steps.to_le_bytes());
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn is_kept(&self, _answer: &Counts) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Counts) -> Reply {
        let mut out = vec![b'n'];
        let times = [answer.next, answer.next_end, answer.oldest].map(next_number);
        record::put(&mut out, [answer.now.get()]);
        record::put(&mut out, times);
        record::put(&mut out, [answer.ready, answer.scheduled, answer.leased, answer.dead]);
        for count in &answer.forecast {
            record::put(&mut out, [*count]);
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Counts, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("counts no deliveries"))
    }
}

fn read(mut rest: &[u8]) -> Option<Counts> {
    let rest = &mut rest;
    let [_word] = record::take(rest)?;
    let now = record::take_micros(rest)?;
    let (next, next_end, oldest) = (take_next(rest)?, take_next(rest)?, take_next(rest)?);
    let mut number = || record::take_number(rest);
    let (ready, scheduled, leased, dead) = (number()?, number()?, number()?, number()?);
    let forecast = std::iter::from_fn(number).collect();
    Some(Counts { now, next, next_end, oldest, ready, scheduled, leased, dead, forecast })
}
