//! The workers of a sticky queue come, go, and say that they live. Twin of `worker.lua`.
//!
//! One partition's part of it: a worker is known in all of them. Its incarnation is given out by one, and told to
//! the others; each takes the greatest it has heard of.

use super::binding::Worker;
use super::claim::Failing;
use super::owners::{Terms, Turnover, WEIGHT_MAX, WORKERS_MAX, Woken, put_woken, take_woken};
use super::push::{next_number, take_next};
use super::tend::tend;
use crate::id::{QueueId, WorkerId};
use crate::int::Micros;
use crate::key;
use crate::limit::limited::write_text;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::{Place, hash};
use crate::record;
use crate::script::Script;
use crate::state::queues::Change;
use crate::state::{Full, State};

/// So many workers are told of in one step.
pub const MEMBERS_MAX: usize = 200;
/// So many recipients are moved in one step.
pub const MOVED_MAX: usize = 25;

/// Why a recipient has another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It had none before.
    First,
    /// It was parked, and a worker came.
    Adopted,
    /// Its worker was not heard of for too long.
    Silent,
    /// Its worker closed its stream and did not come back.
    Closed,
    /// Its worker left.
    Left,
    /// Its worker drains.
    Drained,
    /// It was told so.
    Pinned,
    /// Its worker was gone when it was next addressed.
    Gone,
}

impl Why {
    const ALL: [Why; 8] = [Why::First, Why::Adopted, Why::Silent, Why::Closed, Why::Left, Why::Drained, Why::Pinned, Why::Gone];

    pub(super) fn number(self) -> u8 {
        match self {
            Why::First => 1,
            Why::Adopted => 2,
            Why::Silent => 3,
            Why::Closed => 4,
            Why::Left => 5,
            Why::Drained => 6,
            Why::Pinned => 7,
            Why::Gone => 8,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Why> {
        Why::ALL.into_iter().find(|why| why.number() == number)
    }

    /// As it is told.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::First => "first",
            Why::Adopted => "adopted",
            Why::Silent => "silent",
            Why::Closed => "closed",
            Why::Left => "left",
            Why::Drained => "drained",
            Why::Pinned => "pinned",
            Why::Gone => "gone",
        }
    }
}

/// One worker that an operation is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub worker: WorkerId,
    /// Which of its lives. Zero: a new one is given out to whoever joins; whichever it is that drains or leaves.
    pub incarnation: u64,
    /// How long ago it was heard of.
    pub age: Micros,
}

/// What is told of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// They register, and are given so many turns each.
    Join {
        /// How many.
        weight: u8,
    },
    /// They live.
    Renew,
    /// Their streams were closed: they have until the end of the lease to come back.
    Close,
    /// They take on nobody new, and hand over whom they have.
    Drain,
    /// They are gone.
    Leave,
}

/// How a queue treats its workers, and what they leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// How long they live without being heard of.
    pub ttl: Micros,
    /// How long a recipient keeps its owner when there is nothing for it.
    pub idle_after: Micros,
    /// What becomes of deliveries that fail.
    pub failing: Failing,
}

/// Tells a partition of workers, and clears up after those who are gone.
#[derive(Clone, Debug)]
pub struct Staff {
    place: Place,
    queue: QueueId,
    terms: Terms,
    act: Act,
    upkeep: Upkeep,
    members: Vec<Member>,
}

impl Staff {
    /// There are at most [`MEMBERS_MAX`]; with none it only clears up.
    pub fn new(place: Place, queue: QueueId, terms: Terms, act: Act, upkeep: Upkeep, members: Vec<Member>) -> Staff {
        debug_assert!(members.len() <= MEMBERS_MAX, "a script must not hold up the others for long");
        Staff { place, queue, terms, act, upkeep, members }
    }

    /// Where a worker stands in the ring of this partition.
    pub fn points(&self, worker: &WorkerId) -> Vec<u64> {
        let Act::Join { weight } = self.act else { return Vec::new() };
        let point = |turn: u8| hash(&[&self.place.partition.to_be_bytes()[..], &[turn], worker.as_str().as_bytes()].concat());
        (0..weight.clamp(1, WEIGHT_MAX)).map(point).collect()
    }

    fn tell(&self, change: &mut Change<'_>, member: &Member, now: Micros) -> (Standing, u64) {
        let name = member.worker.as_str();
        let until = now.plus(self.upkeep.ttl).since(member.age);
        let known = change.queue.owners.workers.get(name).cloned();
        if let Act::Join { .. } = self.act {
            let incarnation = if member.incarnation == 0 { change.queue.number(now) } else { member.incarnation };
            if let Some(known) = known {
                if known.incarnation > incarnation {
                    return (Standing::Gone, known.incarnation);
                }
                if known.incarnation == incarnation && known.gone.is_none() {
                    return self.renew(change, name, Worker { until: until.max(known.until), is_closed: false, ..known });
                }
            } else if change.queue.owners.workers.len() >= WORKERS_MAX {
                return (Standing::Full, 0);
            }
            let is_leaving = change.queue.held_by(name).next().is_some();
            let points = self.points(&member.worker);
            let worker = Worker { incarnation, until, gone: None, is_draining: false, is_closed: false, is_leaving, points };
            change.queue.keep_worker(name, Some(worker));
            return (Standing::Live, incarnation);
        }
        let is_asked = |worker: &Worker| {
            worker.incarnation == member.incarnation || (member.incarnation == 0 && matches!(self.act, Act::Drain | Act::Leave))
        };
        let Some(known) = known.filter(|known| known.gone.is_none() && is_asked(known)) else { return (Standing::Gone, 0) };
        match self.act {
            Act::Close => self.renew(change, name, Worker { until: until.min(known.until), is_closed: true, ..known }),
            Act::Drain => self.renew(change, name, Worker { is_draining: true, is_leaving: true, ..known }),
            Act::Leave => {
                change.queue.dismiss(name, Why::Left);
                (Standing::Gone, known.incarnation)
            }
            Act::Renew | Act::Join { .. } => self.renew(change, name, Worker { until: until.max(known.until), is_closed: false, ..known }),
        }
    }

    fn renew(&self, change: &mut Change<'_>, name: &str, worker: Worker) -> (Standing, u64) {
        let standing = if worker.is_draining { Standing::Draining } else { Standing::Live };
        let incarnation = worker.incarnation;
        change.queue.keep_worker(name, Some(worker));
        (standing, incarnation)
    }

    fn staff(&self, change: &mut Change<'_>, now: Micros) -> Staffed {
        change.queue.agree(self.terms, now);
        let members = self.members.iter().map(|member| self.tell(change, member, now)).collect();
        change.queue.expire();
        let tended = tend(change, &self.upkeep.failing, MOVED_MAX);
        change.queue.trim(self.upkeep.idle_after);
        Staffed {
            now,
            next_end: change.queue.next_worker_end(),
            dead: tended.dead,
            parked: u64::try_from(change.queue.parked()).unwrap_or(u64::MAX),
            more: tended.more,
            members,
            woken: change.queue.woken(),
            turnover: change.queue.turnover(),
        }
    }
}

/// Whether a worker is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It is not, or not any more: it must register again.
    #[default]
    Gone,
    /// It is.
    Live,
    /// It is, and drains.
    Draining,
    /// There are too many already.
    Full,
}

impl Standing {
    pub(super) fn number(self) -> u8 {
        match self {
            Standing::Gone => 0,
            Standing::Live => 1,
            Standing::Draining => 2,
            Standing::Full => 3,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Standing> {
        [Standing::Gone, Standing::Live, Standing::Draining, Standing::Full].into_iter().find(|standing| standing.number() == number)
    }
}

/// What was told, and cleared up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staffed {
    /// The time of the answer.
    pub now: Micros,
    /// When a worker's lease ends next.
    pub next_end: Option<Micros>,
    /// How many deliveries were attempted for the last time.
    pub dead: u16,
    /// How many recipients wait for a worker.
    pub parked: u64,
    /// There is more to clear up.
    pub more: bool,
    /// For each worker how it stands, and its incarnation.
    pub members: Vec<(Standing, u64)>,
    /// For whom something may have become due earlier.
    pub woken: Vec<Woken>,
    /// What was done to who has whom.
    pub turnover: Turnover,
}

impl Operation for Staff {
    type Answer = Staffed;

    const SCRIPT: Script = Script::long("queue/worker");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Staffed, Full> {
        if matches!(self.act, Act::Join { .. }) {
            if state.is_full {
                return Err(Full);
            }
            return Ok(state.queues.make(&self.place, &self.queue, |change| self.staff(change, now)));
        }
        let staffed = state.queues.change(&self.place, &self.queue, |change| self.staff(change, now));
        Ok(staffed.unwrap_or_else(|| {
            let members = vec![(Standing::Gone, 0); self.members.len()];
            Staffed { now, members, ..Staffed::default() }
        }))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        let given = &mut call.given;
        self.terms.write(given);
        given.push(match self.act {
            Act::Join { .. } => 0,
            Act::Renew => 1,
            Act::Close => 2,
            Act::Drain => 3,
            Act::Leave => 4,
        });
        record::put(given, [self.upkeep.ttl.get(), self.upkeep.idle_after.get()]);
        self.upkeep.failing.write(given);
        given.extend_from_slice(&u16::try_from(self.members.len()).expect("few").to_le_bytes());
        for member in &self.members {
            write_text(given, member.worker.as_str());
            record::put(given, [member.incarnation, member.age.get()]);
            let points = self.points(&member.worker);
            given.push(u8::try_from(points.len()).expect("few"));
            for point in points {
                given.extend_from_slice(&point.to_be_bytes());
            }
        }
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn frees(&self) -> bool {
        !matches!(self.act, Act::Join { .. })
    }

    fn is_kept(&self, _answer: &Staffed) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Staffed) -> Reply {
        let mut out = vec![b'w'];
        record::put(&mut out, [answer.now.get(), next_number(answer.next_end), answer.parked]);
        out.extend_from_slice(&answer.dead.to_le_bytes());
        out.push(u8::from(answer.more));
        out.extend_from_slice(&u16::try_from(answer.members.len()).expect("few").to_le_bytes());
        for (standing, incarnation) in &answer.members {
            out.push(standing.number());
            record::put(&mut out, [*incarnation]);
        }
        put_woken(&mut out, answer.turnover, &answer.woken);
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Staffed, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about workers"))
    }
}

fn read(mut rest: &[u8]) -> Option<Staffed> {
    let [_word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    let next_end = take_next(&mut rest)?;
    let parked = record::take_number(&mut rest)?;
    let dead = u16::from_le_bytes(record::take(&mut rest)?);
    let [more] = record::take(&mut rest)?;
    let count = u16::from_le_bytes(record::take(&mut rest)?);
    let member = |rest: &mut &[u8]| {
        let [standing] = record::take(rest)?;
        Some((Standing::from_number(standing)?, record::take_number(rest)?))
    };
    let members = (0..count).map(|_| member(&mut rest)).collect::<Option<Vec<_>>>()?;
    let (turnover, woken) = take_woken(&mut rest)?;
    Some(Staffed { now, next_end, dead, parked, more: more == 1, members, woken, turnover })
}
