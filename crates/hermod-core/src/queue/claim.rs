//! Hands out deliveries that are due, each with a lease. Twin of `claim.lua`.

use super::delivery::{Number, Token};
use super::push::{next_number, take_next};
use crate::id::QueueId;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, Script, ScriptCall, script};
use crate::partition::Place;
use crate::record;
use crate::state::queues::Change;
use crate::state::{Full, State};

/// So many deliveries are handed out in one step, and so many leases ended.
pub const CLAIM_MAX: usize = 200;
/// No further delivery is handed out beyond so many bytes: a reply must not hold up the others for long.
const BYTES_MAX: usize = 1 << 20;

/// Hands out what is due, at most `count`, for `lease`.
#[derive(Clone, Debug)]
pub struct Claim {
    place: Place,
    queue: QueueId,
    count: u16,
    lease: Micros,
    failing: Failing,
}

/// What becomes of a delivery that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// How often one may be attempted that does not say itself.
    pub max_attempts: u16,
    /// After the last attempt it is dropped; otherwise it is kept as dead.
    pub drops: bool,
    /// So long after its time it is not handed out any more.
    pub drop_after: Option<Micros>,
}

impl Claim {
    /// `count` is held between 1 and [`CLAIM_MAX`].
    pub fn new(place: Place, queue: QueueId, count: usize, lease: Micros, failing: Failing) -> Claim {
        let count = u16::try_from(count.clamp(1, CLAIM_MAX)).expect("it is at most two hundred");
        Claim { place, queue, count, lease, failing }
    }

    /// Ends the leases whose time is over: they have their place again, or have failed for good.
    fn reap(&self, change: &mut Change<'_>, now: Micros) -> u16 {
        let ended: Vec<Number> = change.queue.held.range(..=(now, Number::MAX)).take(CLAIM_MAX).map(|(_, number)| *number).collect();
        let mut dead = 0;
        for number in ended {
            let Some(slot) = change.queue.slot(number) else { continue };
            let (meta, _) = slot.meta();
            if slot.attempts() < meta.max_attempts.unwrap_or(self.failing.max_attempts) {
                let due = meta.due;
                change.queue.give_back(number, due, false);
                continue;
            }
            exhaust(change, number, self.failing.drops, now);
            dead += 1;
        }
        dead
    }

    fn is_over(&self, change: &Change<'_>, number: Number, now: Micros) -> bool {
        change.queue.slot(number).is_none_or(|slot| {
            let (meta, _) = slot.meta();
            let is_late = self.failing.drop_after.is_some_and(|span| meta.due.plus(span) <= now);
            is_late || meta.expires_at.is_some_and(|at| at <= now)
        })
    }

    fn claim(&self, change: &mut Change<'_>, now: Micros) -> Claimed {
        let mut claimed = Claimed { now, next: None, next_end: None, dead: self.reap(change, now), expired: 0, handed: Vec::new() };
        let (count, mut steps, mut bytes) = (usize::from(self.count), CLAIM_MAX, 0);
        loop {
            let most = (count - claimed.handed.len()).min(steps);
            let heads: Vec<(Micros, Number)> = change.queue.due.range(..=(now, Number::MAX)).take(most).copied().collect();
            steps -= heads.len();
            let mut has_freed = false;
            for (at, number) in heads {
                if bytes >= BYTES_MAX {
                    break;
                }
                if self.is_over(change, number, now) {
                    change.queue.take_out(number);
                    change.queue.forget(number);
                    claimed.expired += 1;
                    has_freed = true;
                    continue;
                }
                let until = now.plus(self.lease);
                let Some((token, attempt)) = change.queue.hold(number, until, now) else { continue };
                let body = change.queue.slot(number).map(|slot| slot.body.clone()).unwrap_or_default();
                bytes += body.len();
                claimed.handed.push(Handed { number, token, attempt, until, at, body });
            }
            // Who stood behind one that was over may have come up.
            if !has_freed || bytes >= BYTES_MAX || steps == 0 || claimed.handed.len() == count {
                break;
            }
        }
        (claimed.next, claimed.next_end) = change.queue.next();
        claimed
    }
}

/// A delivery that is held has failed for the last time.
pub(super) fn exhaust(change: &mut Change<'_>, number: Number, drops: bool, now: Micros) {
    if drops {
        change.queue.take_out(number);
        change.queue.forget(number);
    } else {
        change.queue.bury(number, now);
    }
}

/// One delivery that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Its number.
    pub number: Number,
    /// What its holder finishes it with.
    pub token: Token,
    /// The how many'th attempt this is.
    pub attempt: u16,
    /// How long it is held.
    pub until: Micros,
    /// Since when it could be claimed.
    pub at: Micros,
    /// As [`super::delivery::read_body`] reads it.
    pub body: Box<[u8]>,
}

/// What was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The time of the answer.
    pub now: Micros,
    /// When a delivery can be claimed next; not after `now`: there are more.
    pub next: Option<Micros>,
    /// When a lease ends next.
    pub next_end: Option<Micros>,
    /// How many leases ended after their last attempt.
    pub dead: u16,
    /// How many were not to be handed out any more.
    pub expired: u16,
    /// In order.
    pub handed: Vec<Handed>,
}

impl Operation for Claim {
    type Answer = Claimed;

    const SCRIPT: Script = script!("queue/claim", "queue/line");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Claimed, Full> {
        let claimed = state.queues.change(&self.place, &self.queue, |change| self.claim(change, now));
        Ok(claimed.unwrap_or(Claimed { now, next: None, next_end: None, dead: 0, expired: 0, handed: Vec::new() }))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        call.given.extend_from_slice(&self.count.to_le_bytes());
        record::put(&mut call.given, [self.lease.get(), self.failing.drop_after.unwrap_or_default().get()]);
        call.given.extend_from_slice(&self.failing.max_attempts.to_le_bytes());
        call.given.push(u8::from(self.failing.drops));
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn is_kept(&self, answer: &Claimed) -> bool {
        !answer.handed.is_empty()
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Claimed) -> Reply {
        let mut out = vec![b'c'];
        record::put(&mut out, [answer.now.get(), next_number(answer.next), next_number(answer.next_end)]);
        out.extend_from_slice(&answer.dead.to_le_bytes());
        out.extend_from_slice(&answer.expired.to_le_bytes());
        for handed in &answer.handed {
            record::put(&mut out, [handed.number, handed.token.0, handed.until.get(), handed.at.get()]);
            out.extend_from_slice(&handed.attempt.to_le_bytes());
            out.extend_from_slice(&u32::try_from(handed.body.len()).expect("payloads are bounded").to_le_bytes());
            out.extend_from_slice(&handed.body);
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Claimed, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is none about a claim"))
    }
}

fn read(mut rest: &[u8]) -> Option<Claimed> {
    let [_word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    let (next, next_end) = (take_next(&mut rest)?, take_next(&mut rest)?);
    let (dead, expired) = (u16::from_le_bytes(record::take(&mut rest)?), u16::from_le_bytes(record::take(&mut rest)?));
    let mut handed = Vec::new();
    while !rest.is_empty() {
        let (number, token) = (record::take_number(&mut rest)?, Token(record::take_number(&mut rest)?));
        let (until, at) = (record::take_micros(&mut rest)?, record::take_micros(&mut rest)?);
        let attempt = u16::from_le_bytes(record::take(&mut rest)?);
        handed.push(Handed { number, token, attempt, until, at, body: record::take_bytes(&mut rest)?.into() });
    }
    Some(Claimed { now, next, next_end, dead, expired, handed })
}
