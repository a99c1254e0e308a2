//! queue: hands out what is due, or waits for it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hermod_catalog::Scope;
use hermod_core::queue::{Claim, DeliveryId, Handed, Mode, Queue, Standing, Stats};
use hermod_core::{Invalid, Micros, Outcome, Place, QueueId, SpaceId, WorkerId};
use hermod_engine::{Clock, Engine, EngineError, Wake};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::watch::Watch;
use super::worker::gone;
use super::{App, Caller, SettleAsk, failing};
use crate::code::{Code, Problem};

/// So often the partitions are asked before somebody waits again.
const ROUNDS_MAX: usize = 4;
/// A claim hands out so many.
const COUNT_MAX: usize = 1_000;
/// Who waits looks again after so long at the latest, in case a signal was lost.
const HEAL_EVERY: Duration = Duration::from_millis(1_500);
/// How often who waits looks at a clock that is set by hand.
const MANUAL_EVERY: Duration = Duration::from_millis(10);
/// Somebody who follows the signals of others goes on for so long after the last has asked or waited.
const FOLLOW_ON: Duration = Duration::from_secs(5);
/// How long one can wait.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// What is asked for.
#[derive(Clone, Debug)]
pub struct ClaimAsk {
    /// How many, at most.
    pub count: usize,
    /// For how long, if not as long as the queue says.
    pub lease: Option<Micros>,
    /// How long to wait if there is nothing.
    pub wait: Duration,
    /// Who asks, and in which of its lives, if the queue is sticky.
    pub worker: Option<(WorkerId, u64)>,
}

impl ClaimAsk {
    /// Checks what came from outside.
    pub fn new(count: Option<u64>, lease: Option<Micros>, wait_ms: Option<u64>) -> Result<ClaimAsk, Invalid> {
        let count = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
        if count == 0 || count > COUNT_MAX {
            return Err(Invalid::new("count", format!("must be between 1 and {COUNT_MAX}")));
        }
        let wait = Duration::from_millis(wait_ms.unwrap_or(0));
        if wait > WAIT_MAX {
            return Err(Invalid::new("wait_ms", format!("must be at most {}", WAIT_MAX.as_millis())));
        }
        let longest = Micros::saturating(12 * 3_600_000_000);
        if lease.is_some_and(|lease| lease < Micros::saturating(100_000) || lease > longest) {
            return Err(Invalid::new("lease", "must be between 100ms and 12h"));
        }
        Ok(ClaimAsk { count, lease, wait, worker: None })
    }

    /// It is a worker that asks.
    #[must_use]
    pub fn by(mut self, worker: Option<(WorkerId, u64)>) -> ClaimAsk {
        self.worker = worker;
        self
    }
}

/// A delivery that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its name.
    pub id: DeliveryId,
    /// What was handed out.
    pub handed: Handed,
}

impl App {
    /// Hands out deliveries that are due, in order of their time; waits for the first if there is none.
    pub async fn claim(&self, caller: &Caller, queue: &str, ask: &ClaimAsk) -> Result<Vec<Taken>, Problem> {
        caller.need(Scope::QueuesClaim)?;
        let queue = self.queue_of(caller, queue).await?;
        check_worker(&queue, ask.worker.is_some())?;
        let (send, receive) = oneshot::channel();
        // A task of its own: if whoever asked has gone, what was handed out is given back.
        tokio::spawn(claim_for(self.clone(), caller.space.clone(), queue, ask.clone(), send));
        receive.await.unwrap_or_else(|_| Err(Problem::new(Code::Internal, "The claim broke off.")))
    }

    /// The same, whoever asks; nobody waits any more when `stop` ends.
    pub(crate) async fn claim_until(
        &self,
        space: &SpaceId,
        queue: &Queue,
        ask: &ClaimAsk,
        stop: impl Future<Output = ()>,
    ) -> Result<Vec<Taken>, Problem> {
        let mut stop = pin!(stop);
        let all = self.watches.of(space, &queue.id);
        let watch = match &ask.worker {
            Some((worker, _)) => self.watches.of_worker(space, &queue.id, worker.as_str()),
            None => Arc::clone(&all),
        };
        let _waiting = Waits::new(self, space, queue, &all);
        self.hear_of(space, queue, ask).await?;
        let _present = ask.worker.as_ref().map(|(worker, incarnation)| self.present(space, &queue.id, worker, *incarnation));
        self.heal(&watch);
        if ask.wait.is_zero() {
            return self.take(space, queue, &watch, ask).await;
        }
        let deadline = Instant::now() + ask.wait;
        let turn = tokio::select! {
            turn = timeout_at(deadline, watch.turns.acquire()) => turn,
            () = &mut stop => return Ok(Vec::new()),
        };
        let Ok(Ok(_turn)) = turn else { return Ok(Vec::new()) };
        loop {
            let earlier = watch.earlier();
            self.hear_of(space, queue, ask).await?;
            let taken = self.take(space, queue, &watch, ask).await?;
            if !taken.is_empty() || Instant::now() >= deadline || self.is_stopping() {
                return Ok(taken);
            }
            let next = self.wake_at(&watch).min(deadline);
            tokio::select! {
                () = earlier => {}
                () = &mut stop => return Ok(Vec::new()),
                () = self.stopping() => return Ok(Vec::new()),
                () = sleep_until(self.heal_at(&watch).map_or(next, |heal| heal.min(next))) => self.heal(&watch),
            }
        }
    }

    /// A worker that asks is heard of; a problem if it must register again.
    async fn hear_of(&self, space: &SpaceId, queue: &Queue, ask: &ClaimAsk) -> Result<(), Problem> {
        match &ask.worker {
            Some((worker, incarnation)) => self.hear(space, queue, worker, *incarnation).await.map(drop),
            None => Ok(()),
        }
    }

    /// Forgets what may have changed without a signal, every now and then. Where nobody else writes, none is lost.
    fn heal(&self, watch: &Watch) {
        if matches!(self.engine, Engine::Redis(_)) {
            watch.heal(HEAL_EVERY);
        }
    }

    /// When that is to be done again, if ever.
    fn heal_at(&self, watch: &Watch) -> Option<Instant> {
        matches!(self.engine, Engine::Redis(_)).then(|| watch.heal_at(HEAL_EVERY))
    }

    /// When whoever waits must look.
    fn wake_at(&self, watch: &Watch) -> Instant {
        let now = Instant::now();
        if matches!(self.clock, Clock::Manual(_)) {
            return now + MANUAL_EVERY;
        }
        let Some(next) = watch.next() else { return now + WAIT_MAX };
        let span = next.since(self.watches.store_time(self.now())).to_duration();
        // A store that has something due and hands out nothing is not asked without end.
        let wake_at = now + span.clamp(Duration::from_micros(500), WAIT_MAX);
        watch.rests_until().map_or(wake_at, |until| until.max(wake_at))
    }

    /// Looks at the partitions of which nothing is known.
    async fn look_around(&self, space: &SpaceId, queue: &Queue, watch: &Watch) -> Result<(), Problem> {
        let range = self.partitions_of(space, queue);
        let looks = watch.unknown().into_iter().map(|partition| {
            let (learned, is_ours) = (watch.learned(partition), range.contains(&partition));
            let place = Place { space: space.clone(), partition };
            async move {
                if !is_ours {
                    return Ok((partition, learned, None));
                }
                let ran = self.engine.run(&Stats::new(place, queue.id.clone(), Micros::ZERO, 0), None).await?;
                match ran.outcome {
                    Outcome::Done(counts) | Outcome::Replayed(counts) => Ok((partition, learned, Some(counts))),
                    Outcome::Conflict => Ok((partition, learned, None)),
                }
            }
        });
        for looked in join_all(looks).await {
            let (partition, learned, counts) = looked.map_err(|fault: EngineError| Problem::from(fault))?;
            let times = counts.map(|counts| {
                self.watches.set_clock(counts.now, self.now());
                [counts.next, counts.next_end]
            });
            watch.saw(partition, learned, times.into_iter().flatten().flatten().min());
        }
        Ok(())
    }

    /// Asks the partitions in which something is due.
    async fn take(&self, space: &SpaceId, queue: &Queue, watch: &Watch, ask: &ClaimAsk) -> Result<Vec<Taken>, Problem> {
        let (count, lease) = (ask.count, ask.lease.unwrap_or(queue.lease));
        let mut taken: Vec<Taken> = Vec::new();
        for _ in 0..ROUNDS_MAX {
            if let Err(problem) = self.look_around(space, queue, watch).await {
                if taken.is_empty() {
                    return Err(problem);
                }
                break;
            }
            let wanted = count - taken.len();
            let due = watch.due(self.watches.store_time(self.now()));
            let Some((earliest, _)) = due.first().copied() else {
                // What was found may have been forgotten meanwhile, because a signal may have been lost.
                if watch.unknown().is_empty() {
                    break;
                }
                continue;
            };
            let (wanted, charged) = match self.catch_up(space, queue, watch, earliest, wanted).await {
                Ok(allowed) => allowed,
                Err(problem) if taken.is_empty() => return Err(problem),
                Err(_) => break,
            };
            let (asked, before) = (due.len().min(wanted), taken.len());
            if asked == 0 {
                break;
            }
            // Together no more than is wanted; the earliest have the odd ones.
            let (each, odd) = (wanted / asked, wanted % asked);
            let claims = due.iter().take(asked).enumerate().map(|(turn, (_, partition))| {
                let place = Place { space: space.clone(), partition: *partition };
                let each = each + usize::from(turn < odd);
                let mut claim = Claim::new(place, queue.id.clone(), self.terms(space, queue), each, lease, failing(queue));
                if let Some((worker, incarnation)) = ask.worker.clone() {
                    claim = claim.by(worker, incarnation);
                }
                let learned = watch.learned(*partition);
                async move { (*partition, learned, self.engine.run(&claim, None).await) }
            });
            let (mut fault, mut is_gone) = (None, false);
            for (partition, learned, ran) in join_all(claims).await {
                let claimed = match ran.map(|ran| ran.outcome) {
                    Ok(Outcome::Done(claimed) | Outcome::Replayed(claimed)) => claimed,
                    Ok(Outcome::Conflict) => continue,
                    Err(error) => {
                        fault = Some(error);
                        continue;
                    }
                };
                self.watches.set_clock(claimed.now, self.now());
                // What somebody is told who is gone says nothing of what there is for whoever has this name now.
                if claimed.standing == Standing::Gone {
                    is_gone = true;
                    continue;
                }
                watch.saw(partition, learned, [claimed.next, claimed.next_end].into_iter().flatten().min());
                self.metrics.claimed(queue.id.as_str(), &claimed);
                self.learn(space, queue, partition, None, &claimed.woken);
                let greatest = claimed.handed.iter().map(|handed| handed.token.0).max();
                self.watches.saw_number(space, &queue.id, greatest.unwrap_or(0));
                let named = |handed: Handed| Taken { id: DeliveryId { partition, number: handed.number }, handed };
                taken.extend(claimed.handed.into_iter().map(named));
            }
            self.caught_up(space, queue, (before + charged).saturating_sub(taken.len())).await;
            // What was handed out is told, whatever befell the others.
            if let Some(fault) = fault {
                if taken.is_empty() {
                    return Err(fault.into());
                }
                break;
            }
            if let Some((worker, _)) = ask.worker.as_ref().filter(|_| is_gone && taken.is_empty()) {
                return Err(gone(worker));
            }
            if taken.len() >= count {
                break;
            }
        }
        taken.sort_unstable_by_key(|taken| (taken.handed.at, taken.handed.number));
        Ok(taken)
    }
}

/// A worker asks for what is its recipients', and nobody else does.
pub(super) fn check_worker(queue: &Queue, is_worker: bool) -> Result<(), Problem> {
    match (queue.mode, is_worker) {
        (Mode::Sticky, true) | (Mode::Shared, false) => Ok(()),
        (Mode::Sticky, false) => {
            let needed = format!("The queue {} is sticky: register a worker, and say which one asks.", queue.id);
            Err(Problem::new(Code::MissingField, needed).in_field("worker"))
        }
        (Mode::Shared, true) => {
            let shared = format!("The queue {} is shared: any consumer has any delivery, and worker has no meaning.", queue.id);
            Err(Problem::new(Code::InvalidField, shared).in_field("worker"))
        }
    }
}

/// Claims for somebody who may have gone when there is something.
async fn claim_for(app: App, space: SpaceId, queue: Arc<Queue>, ask: ClaimAsk, mut send: oneshot::Sender<Result<Vec<Taken>, Problem>>) {
    let taken = app.claim_until(&space, &queue, &ask, send.closed()).await;
    if let Err(Ok(unwanted)) = send.send(taken) {
        let held: Vec<_> = unwanted.iter().map(|taken| (taken.id, taken.handed.token)).collect();
        // If it cannot be given back now, it comes back when its lease ends.
        let _given_back = app.settle_in(&space, &queue, SettleAsk::Return, &held, None).await;
    }
}

/// Somebody asks; while anybody does, and a while longer, the signals of other servers are followed.
pub(super) struct Waits(Arc<Watch>);

impl Waits {
    pub(super) fn new(app: &App, space: &SpaceId, queue: &Queue, watch: &Arc<Watch>) -> Waits {
        let mut waiting = watch.waiting.lock();
        (waiting.count, waiting.asked) = (waiting.count + 1, Some(Instant::now()));
        if !waiting.is_followed && matches!(app.engine, Engine::Redis(_)) {
            waiting.is_followed = true;
            tokio::spawn(follow(app.clone(), space.clone(), queue.id.clone(), Arc::clone(watch)));
        }
        drop(waiting);
        Waits(Arc::clone(watch))
    }
}

/// Learns from the signals of other servers for as long as anybody asks, and a while longer.
async fn follow(app: App, space: SpaceId, queue: QueueId, watch: Arc<Watch>) {
    let mut signals = app.engine.follow(&space, &queue);
    let mut looks = tokio::time::interval(FOLLOW_ON);
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                Wake::At { partition, time, owner } if owner.is_empty() => watch.learn(partition, Some(time)),
                Wake::At { partition, time, owner } => {
                    if let Some(watch) = app.watches.known_of_worker(&space, &queue, &owner) {
                        watch.learn(partition, Some(time));
                    }
                }
                Wake::Replied { partition, number } => app.replies.tell(&space, &queue, DeliveryId { partition, number }),
                Wake::Look => app.watches.forget_all(&space, &queue),
            },
            () = app.stopping() => break,
            _ = looks.tick() => {
                let mut waiting = watch.waiting.lock();
                if waiting.count == 0 && waiting.asked.is_none_or(|asked| asked.elapsed() >= FOLLOW_ON) {
                    waiting.is_followed = false;
                    // What others do from now on is not heard, so what is known will not be true for long.
                    app.watches.forget_all(&space, &queue);
                    break;
                }
            }
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.lock().count -= 1;
    }
}
