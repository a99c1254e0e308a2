//! queue: hands out what is due, or waits for it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermod_catalog::Scope;
use hermod_core::queue::{DeliveryId, Handed, Mode, Queue};
use hermod_core::{Invalid, Micros, QueueId, SpaceId, WorkerId};
use hermod_engine::{Engine, Wake};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::watch::Watch;
use super::{App, Caller};
use crate::code::{Code, Problem};

/// A claim hands out so many.
const COUNT_MAX: usize = 1_000;
/// Who waits looks again after so long at the latest, in case a signal was lost.
const HEAL_EVERY: Duration = Duration::from_millis(1_500);
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
        tokio::spawn(claim_for(self.clone(), caller.clone(), queue, ask.clone(), send));
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
        let _waiting = Waits::new(self, space, queue, &all);
        self.hear_of(space, queue, ask).await?;
        let _present = ask.worker.as_ref().map(|(worker, incarnation)| self.present(space, &queue.id, worker, *incarnation));
        // Of a worker that is there: whatever name somebody asks by, nothing is kept of it.
        let watch = match &ask.worker {
            Some((worker, _)) => self.watches.of_worker(space, &queue.id, worker.as_str()),
            None => Arc::clone(&all),
        };
        self.heal(&watch);
        if ask.wait.is_zero() {
            let taken = self.take(space, queue, &watch, ask, Micros::ZERO).await?.stored().await?;
            return Ok(self.told(queue, taken));
        }
        let deadline = Instant::now() + ask.wait;
        let turn = tokio::select! {
            turn = timeout_at(deadline, watch.turns.acquire()) => turn,
            () = &mut stop => return Ok(Vec::new()),
        };
        let Ok(Ok(turn)) = turn else { return Ok(Vec::new()) };
        let _unfinished = self.unfinished();
        let mut missed = None;
        let haul = loop {
            let earlier = watch.earlier();
            self.hear_of(space, queue, ask).await?;
            let haul = self.take(space, queue, &watch, ask, self.ahead(deadline)).await?;
            if !haul.is_empty() || Instant::now() >= deadline || self.is_stopping() {
                break haul;
            }
            let next = self.wake_at(&watch, deadline, &mut missed).min(deadline);
            tokio::select! {
                () = earlier => {}
                () = &mut stop => return Ok(Vec::new()),
                () = self.stopping() => return Ok(Vec::new()),
                () = sleep_until(self.heal_at(&watch).map_or(next, |heal| heal.min(next))) => self.heal(&watch),
            }
        };
        // What is known of the store is up to date: the next one looks while this one waits for the disk, and for the time.
        drop(turn);
        let taken = self.hold_back(space, queue, &watch, ask, haul, stop).await?;
        Ok(self.told(queue, taken))
    }

    /// Whoever asked is told of these now.
    fn told(&self, queue: &Queue, taken: Vec<Taken>) -> Vec<Taken> {
        self.metrics.handed(queue.id.as_str(), taken.iter().map(|taken| &taken.handed), self.watches.store_time(self.now()));
        taken
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

/// Claims for somebody who may have gone when there is something, or whose key may be.
async fn claim_for(app: App, caller: Caller, queue: Arc<Queue>, ask: ClaimAsk, mut send: oneshot::Sender<Result<Vec<Taken>, Problem>>) {
    let space = &caller.space;
    let gone = async {
        tokio::select! {
            () = send.closed() => {}
            () = app.revoked(&caller, Scope::QueuesClaim) => {}
        }
    };
    let taken = app.claim_until(space, &queue, &ask, gone).await;
    let unwanted = match (taken, app.need_still(&caller, Scope::QueuesClaim)) {
        (Ok(taken), Err(problem)) => {
            let _gone = send.send(Err(problem));
            taken
        }
        (taken, _) => match send.send(taken) {
            Err(Ok(unwanted)) => unwanted,
            _ => return,
        },
    };
    app.put_back(space, &queue, &unwanted).await;
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
