//! Hands out deliveries that are due, each with a lease. Twin of `claim.lua`.
//!
//! Who waits may claim a little ahead of the time: the lease is then stored when the delivery falls due, and whoever asked
//! holds the answer back until it is. So that the first of several is not late because of the last, these lie close together.

use super::delivery::{Meta, Number, Token};
use super::owners::{Terms, Turnover, Woken, put_woken, take_woken};
use super::push::{next_number, take_next};
use super::tend::{TENDED_SOME, Tended, end_lease, tend};
use super::worker::Standing;
use crate::id::{QueueId, WorkerId};
use crate::int::Micros;
use crate::key;
use crate::limit::limited::write_text;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::queues::Change;
use crate::state::{Full, State};

/// So many deliveries are handed out in one step, and so many leases ended.
pub const CLAIM_MAX: usize = 200;
/// No further delivery is handed out beyond so many bytes: a reply must not hold up the others for long.
const BYTES_MAX: usize = 1 << 20;
/// Of what is not due yet no more is handed out than falls due so long after the first.
pub const SPREAD: Micros = Micros::saturating(1_000);

/// Hands out what is due, at most `count`, for `lease`.
#[derive(Clone, Debug)]
pub struct Claim {
    place: Place,
    queue: QueueId,
    terms: Terms,
    /// Who asks, and in which of its lives, if the queue is sticky.
    worker: Option<(WorkerId, u64)>,
    count: u16,
    lease: Micros,
    /// What falls due within this is handed out, too, if nothing is due now.
    ahead: Micros,
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

impl Failing {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.max_attempts.to_le_bytes());
        out.push(u8::from(self.drops));
    }

    /// Whether a delivery is not handed out any more.
    pub(super) fn is_over(&self, meta: &Meta<'_>, now: Micros) -> bool {
        let is_late = self.drop_after.is_some_and(|span| meta.due.plus(span) <= now);
        is_late || meta.expires_at.is_some_and(|at| at <= now)
    }
}

impl Claim {
    /// `count` is held between 1 and [`CLAIM_MAX`].
    pub fn new(place: Place, queue: QueueId, terms: Terms, count: usize, lease: Micros, failing: Failing) -> Claim {
        let count = u16::try_from(count.clamp(1, CLAIM_MAX)).expect("it is at most two hundred");
        Claim { place, queue, terms, worker: None, count, lease, ahead: Micros::ZERO, failing }
    }

    /// Hands out what belongs to this worker's recipients.
    #[must_use]
    pub fn by(mut self, worker: WorkerId, incarnation: u64) -> Claim {
        self.worker = Some((worker, incarnation));
        self
    }

    /// Hands out what falls due within `span` if nothing is due now. Nobody may see it before its time.
    #[must_use]
    pub fn ahead(mut self, span: Micros) -> Claim {
        self.ahead = span;
        self
    }

    /// How the worker stands that asks, and whether something is handed to it.
    fn standing(&self, change: &Change<'_>) -> (Standing, bool) {
        if !self.terms.is_sticky {
            return (Standing::Live, true);
        }
        let known = self
            .worker
            .as_ref()
            .and_then(|(name, incarnation)| change.queue.worker(name.as_str()).filter(|worker| worker.incarnation == *incarnation));
        match known {
            None => (Standing::Gone, false),
            Some(worker) if worker.is_draining => (Standing::Draining, true),
            // What it held before it began anew comes first.
            Some(worker) => (Standing::Live, !worker.is_leaving),
        }
    }

    /// What can be claimed by `reach`, the earliest first.
    fn heads(&self, change: &Change<'_>, most: usize, reach: Micros) -> Vec<(Micros, Number)> {
        match &self.worker {
            Some((name, _)) if self.terms.is_sticky => {
                change.queue.due_of(name.as_str()).take_while(|(at, _)| *at <= reach).take(most).collect()
            }
            _ => change.queue.due.range(..=(reach, Number::MAX)).take(most).copied().collect(),
        }
    }

    /// What can be claimed by then is handed out: now, unless the first of all comes only a little later.
    fn reach(&self, change: &Change<'_>, now: Micros) -> Micros {
        let soonest = self.heads(change, 1, now.plus(self.ahead)).first().map(|(at, _)| *at);
        soonest.filter(|at| *at > now).map_or(now, |at| at.plus(SPREAD).min(now.plus(self.ahead)))
    }

    /// Ends the leases whose time is over: they have their place again, or have failed for good.
    fn reap(&self, change: &mut Change<'_>, now: Micros) -> u16 {
        let ended: Vec<Number> = change.queue.held.range(..=(now, Number::MAX)).take(CLAIM_MAX).map(|(_, number)| *number).collect();
        let mut tended = Tended::default();
        for number in ended {
            end_lease(change, number, &self.failing, &mut tended);
        }
        tended.dead
    }

    fn claim(&self, change: &mut Change<'_>, now: Micros) -> Claimed {
        change.queue.agree(self.terms, now);
        change.queue.expire();
        let dead = self.reap(change, now) + tend(change, &self.failing, TENDED_SOME).dead;
        let (standing, is_given) = self.standing(change);
        let mut claimed = Claimed { now, standing, dead, ..Claimed::default() };
        if !is_given {
            return self.close(change, claimed);
        }
        let (count, mut steps, mut bytes) = (usize::from(self.count), CLAIM_MAX, 0);
        let reach = self.reach(change, now);
        loop {
            let most = (count - claimed.handed.len()).min(steps);
            let heads = self.heads(change, most, reach);
            steps -= heads.len();
            let mut has_freed = false;
            for (at, number) in heads {
                if bytes >= BYTES_MAX {
                    break;
                }
                // It is nobody's before its time, so all counts from there.
                let from = at.max(now);
                if change.queue.slot(number).is_none_or(|slot| self.failing.is_over(&slot.meta().0, from)) {
                    change.queue.take_out(number);
                    change.queue.forget(number);
                    claimed.expired += 1;
                    has_freed = true;
                    continue;
                }
                let until = from.plus(self.lease);
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
        self.close(change, claimed)
    }

    /// When to ask again, and who else should.
    fn close(&self, change: &Change<'_>, mut claimed: Claimed) -> Claimed {
        (claimed.next, claimed.next_end) = change.queue.next();
        if self.terms.is_sticky {
            let name = self.worker.as_ref().map_or("", |(name, _)| name.as_str());
            claimed.next = change.queue.due_of(name).next().map(|(at, _)| at).filter(|_| claimed.standing != Standing::Gone);
        }
        (claimed.woken, claimed.turnover) = (change.queue.woken(), change.queue.turnover());
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
    /// Since when it could be claimed; after the time of the answer if it was claimed ahead.
    pub at: Micros,
    /// As [`super::delivery::read_body`] reads it.
    pub body: Box<[u8]>,
}

/// What was handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// How the worker stands that asked.
    pub standing: Standing,
    /// For whom something may have become due earlier, in a sticky queue.
    pub woken: Vec<Woken>,
    /// What was done to who has whom.
    pub turnover: Turnover,
    /// In order.
    pub handed: Vec<Handed>,
}

impl Operation for Claim {
    type Answer = Claimed;

    const SCRIPT: Script = Script::short("queue/claim");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Claimed, Full> {
        let claimed = state.queues.change(&self.place, &self.queue, |change| self.claim(change, now));
        let standing = if self.terms.is_sticky { Standing::Gone } else { Standing::Live };
        Ok(claimed.unwrap_or_else(|| Claimed { now, standing, ..Claimed::default() }))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        self.terms.write(&mut call.given);
        call.given.extend_from_slice(&self.count.to_le_bytes());
        record::put(&mut call.given, [self.lease.get(), self.ahead.get(), self.failing.drop_after.unwrap_or_default().get()]);
        self.failing.write(&mut call.given);
        let (name, incarnation) = self.worker.as_ref().map_or(("", 0), |(name, incarnation)| (name.as_str(), *incarnation));
        record::put(&mut call.given, [incarnation]);
        write_text(&mut call.given, name);
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn frees(&self) -> bool {
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
        out.push(answer.standing.number());
        put_woken(&mut out, answer.turnover, &answer.woken);
        for handed in &answer.handed {
            out.extend_from_slice(&handed.number.to_be_bytes());
            out.extend_from_slice(&handed.attempt.to_le_bytes());
            record::put(&mut out, [handed.token.0, handed.until.get(), handed.at.get()]);
            out.push(0);
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
    let [standing] = record::take(&mut rest)?;
    let (standing, (turnover, woken)) = (Standing::from_number(standing)?, take_woken(&mut rest)?);
    let mut handed = Vec::new();
    while !rest.is_empty() {
        let number = Number::from_be_bytes(record::take(&mut rest)?);
        let attempt = u16::from_le_bytes(record::take(&mut rest)?);
        let token = Token(record::take_number(&mut rest)?);
        let (until, at) = (record::take_micros(&mut rest)?, record::take_micros(&mut rest)?);
        let [_blocks] = record::take(&mut rest)?;
        handed.push(Handed { number, token, attempt, until, at, body: record::take_bytes(&mut rest)?.into() });
    }
    Some(Claimed { now, next, next_end, dead, expired, standing, woken, turnover, handed })
}
