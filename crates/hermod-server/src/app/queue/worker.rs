//! queue: the workers of sticky queues come, go, and say that they live.
//!
//! A worker is known in every partition of its queue, each of which decides alone. What a worker says is kept here and told to the
//! store every now and then, for all workers of this server at once: what it costs does not depend on how many recipients there are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hermod_catalog::Scope;
use hermod_core::queue::worker::{Act, MEMBERS_MAX, Member, Staff, Staffed};
use hermod_core::queue::{Mode, Queue, Standing, Upkeep, WEIGHT_MAX};
use hermod_core::{Invalid, Micros, Outcome, Place, QueueId, SpaceId, WorkerId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{AGAIN, App, Caller, failing};
use crate::code::{Code, Problem};

/// A worker whose stream was closed has so long to come back.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// Whoever asked for what moves recipients waits so long for it; what is left goes on without him.
const MOVED_AT_ONCE: Duration = Duration::from_secs(1);

/// The workers that this server has heard of.
#[derive(Debug, Default)]
pub(crate) struct Staffs {
    table: Mutex<HashMap<(SpaceId, QueueId), HashMap<WorkerId, Heard>>>,
    /// Queues of which it is known that something is left to be moved, until somebody does it.
    unmoved: Mutex<HashSet<(SpaceId, QueueId)>>,
    /// Time was up before all was moved.
    unfinished: Notify,
}

impl Staffs {
    /// The queues whose workers it knows.
    pub(crate) fn names(&self) -> Vec<(SpaceId, QueueId)> {
        self.table.lock().keys().chain(self.unmoved.lock().iter()).cloned().collect()
    }

    /// A queue is gone, and its workers with it: not those that still listen, as it counts how often they do.
    pub(crate) fn forget_queue(&self, space: &SpaceId, queue: &QueueId) {
        let name = (space.clone(), queue.clone());
        let mut table = self.table.lock();
        if let Some(workers) = table.get_mut(&name) {
            workers.retain(|_, heard| heard.open > 0);
            if workers.is_empty() {
                table.remove(&name);
            }
        }
        self.unmoved.lock().remove(&name);
    }
}

/// One of them.
#[derive(Clone, Debug)]
struct Heard {
    incarnation: u64,
    at: Instant,
    /// When the store was last told.
    told: Instant,
    /// How many streams and claims of it are open.
    open: usize,
    /// Its stream was closed, and the store was told so: it must be told at once if it is back.
    is_closed: bool,
    standing: Standing,
}

/// A worker that registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its name.
    pub worker: WorkerId,
    /// Which of its lives this is.
    pub incarnation: u64,
    /// How it stands.
    pub standing: Standing,
    /// When its lease ends, if that was told.
    pub until: Option<Micros>,
    /// How long that is.
    pub ttl: Micros,
}

/// What partitions answered that were told of workers, and what befell the others.
#[derive(Debug, Default)]
struct Told {
    answers: Vec<(u16, Staffed)>,
    fault: Option<Problem>,
}

impl Told {
    /// The answers, if there are all.
    fn whole(self) -> Result<Vec<(u16, Staffed)>, Problem> {
        self.fault.map_or(Ok(self.answers), Err)
    }

    fn has_more(&self) -> bool {
        self.answers.iter().any(|(_, staffed)| staffed.more)
    }
}

/// A stream or a claim of a worker is open.
#[derive(Debug)]
pub(crate) struct Present {
    app: App,
    name: (SpaceId, QueueId),
    worker: WorkerId,
    incarnation: u64,
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut table = self.app.staffs.table.lock();
        let heard = table.get_mut(&self.name).and_then(|workers| workers.get_mut(&self.worker));
        if let Some(heard) = heard.filter(|heard| heard.incarnation == self.incarnation) {
            (heard.open, heard.at) = (heard.open.saturating_sub(1), Instant::now());
        }
    }
}

/// A worker must register again.
pub(super) fn gone(worker: &WorkerId) -> Problem {
    let what = format!(
        "The worker {worker} is not registered, or another has registered under its name since. Register again: PUT workers/{worker}."
    );
    Problem::new(Code::WorkerGone, what).in_field("worker")
}

impl App {
    pub(super) async fn sticky_queue(&self, caller: &Caller, queue: &str, scope: Scope) -> Result<Arc<Queue>, Problem> {
        caller.need(scope)?;
        let queue = self.queue_of(caller, queue).await?;
        if queue.mode == Mode::Sticky {
            return Ok(queue);
        }
        let shared = format!("The queue {} is shared: any consumer has any delivery, and nobody registers.", queue.id);
        Err(Problem::new(Code::InvalidField, shared).in_field("queue"))
    }

    /// Tells partitions of workers; what each answers.
    async fn staff(
        &self,
        space: &SpaceId,
        queue: &Queue,
        partitions: impl IntoIterator<Item = u16>,
        act: Act,
        ttl: Micros,
        members: &[Member],
    ) -> Told {
        let terms = self.terms(space, queue);
        let upkeep = Upkeep { ttl, idle_after: queue.idle_after, failing: failing(queue) };
        let told = partitions.into_iter().map(|partition| {
            let place = Place { space: space.clone(), partition };
            let staff = Staff::new(place, queue.id.clone(), terms, act, upkeep, members.to_vec());
            async move { (partition, self.engine.run(&staff, None).await) }
        });
        let (mut all, mut unheard) = (Told::default(), self.unheard(space, &queue.id));
        for (partition, ran) in join_all(told).await {
            let staffed = match ran.map(|ran| ran.outcome) {
                Ok(Outcome::Done(staffed) | Outcome::Replayed(staffed)) => staffed,
                Ok(Outcome::Conflict) => continue,
                Err(fault) => {
                    let problem = Problem::from(fault);
                    unheard.failed(&problem);
                    all.fault = Some(problem);
                    continue;
                }
            };
            self.watches.set_clock(staffed.now, self.now());
            self.learn(space, queue, partition, None, &staffed.woken);
            self.metrics.over(queue.id.as_str(), staffed.dead, 0);
            self.turned(space, queue, partition, staffed.turnover);
            all.answers.push((partition, staffed));
        }
        unheard.heard();
        all
    }

    pub(super) fn home_of(&self, space: &SpaceId, queue: &Queue) -> u16 {
        self.engine.partitions().place(space, &format!("queue {}", queue.id)).partition
    }

    /// A worker registers: it is the first heartbeat, and the end of whoever had this name.
    pub async fn register(&self, caller: &Caller, queue: &str, worker: &str, weight: Option<u64>) -> Result<Registered, Problem> {
        let queue = self.sticky_queue(caller, queue, Scope::QueuesClaim).await?;
        let worker = WorkerId::new(worker)?;
        let weight = u8::try_from(weight.unwrap_or(1)).ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
        let weight = weight.ok_or_else(|| Invalid::new("weight", format!("must be between 1 and {WEIGHT_MAX}")))?;
        let (space, act, ttl) = (&caller.space, Act::Join { weight }, queue.worker_ttl);
        let home = self.home_of(space, &queue);
        let begun = Instant::now();
        let mut member = Member { worker: worker.clone(), incarnation: 0, age: Micros::ZERO };
        let first = self.staff(space, &queue, [home], act, ttl, std::slice::from_ref(&member)).await.whole()?;
        let answer = first.first().map(|(_, staffed)| (staffed.members.first().copied().unwrap_or_default(), staffed.now));
        let ((standing, incarnation), now) = answer.unwrap_or_default();
        if standing == Standing::Full {
            return Err(Problem::new(Code::TooManyWorkers, format!("The queue {} has as many workers as it can have.", queue.id)));
        }
        member.incarnation = incarnation;
        let others: Vec<u16> = self.partitions_of(space, &queue).filter(|partition| *partition != home).collect();
        let told = self.staff(space, &queue, others, act, ttl, std::slice::from_ref(&member)).await.whole()?;
        let heard = Heard { incarnation, at: begun, told: begun, open: 0, is_closed: false, standing: Standing::Live };
        self.staffs.table.lock().entry((space.clone(), queue.id.clone())).or_default().insert(worker.clone(), heard);
        self.watches.of_worker(space, &queue.id, worker.as_str()).forget();
        self.watches.saw_number(space, &queue.id, incarnation);
        if first.iter().chain(&told).any(|(_, staffed)| staffed.more) {
            let (app, space, queue) = (self.clone(), space.clone(), Arc::clone(&queue));
            tokio::spawn(async move { app.tend(&space, &queue, MOVED_AT_ONCE).await });
        }
        Ok(Registered { worker, incarnation, standing: Standing::Live, until: Some(now.plus(ttl)), ttl })
    }

    /// A worker lives.
    pub async fn heartbeat(&self, caller: &Caller, queue: &str, worker: &str, incarnation: u64) -> Result<Registered, Problem> {
        let queue = self.sticky_queue(caller, queue, Scope::QueuesClaim).await?;
        let worker = WorkerId::new(worker)?;
        let (standing, until) = self.hear(&caller.space, &queue, &worker, incarnation).await?;
        Ok(Registered { worker, incarnation, standing, until: Some(until), ttl: queue.worker_ttl })
    }

    /// A worker is heard of: how it stands, and until when; a problem if it must register again.
    pub(super) async fn hear(
        &self,
        space: &SpaceId,
        queue: &Queue,
        worker: &WorkerId,
        incarnation: u64,
    ) -> Result<(Standing, Micros), Problem> {
        let known = {
            let mut table = self.staffs.table.lock();
            let heard = table.get_mut(&(space.clone(), queue.id.clone())).and_then(|workers| workers.get_mut(worker));
            let is_known = |heard: &&mut Heard| heard.incarnation > incarnation || (heard.incarnation == incarnation && !heard.is_closed);
            heard.filter(is_known).map(|heard| {
                if heard.incarnation > incarnation {
                    return Standing::Gone;
                }
                heard.at = Instant::now();
                heard.standing
            })
        };
        let (standing, until) = match known {
            Some(standing) => (standing, self.watches.store_time(self.now()).plus(queue.worker_ttl)),
            // Of another server until now, or its stream was closed.
            None => self.tell(space, queue, worker, incarnation, Act::Renew, queue.worker_ttl).await?,
        };
        if standing == Standing::Gone { Err(gone(worker)) } else { Ok((standing, until)) }
    }

    /// Tells all partitions of one worker at once; how it stands.
    async fn tell(
        &self,
        space: &SpaceId,
        queue: &Queue,
        worker: &WorkerId,
        incarnation: u64,
        act: Act,
        ttl: Micros,
    ) -> Result<(Standing, Micros), Problem> {
        let member = Member { worker: worker.clone(), incarnation, age: Micros::ZERO };
        let told = self.staff(space, queue, self.partitions_of(space, queue), act, ttl, &[member]).await.whole()?;
        let (standing, _) = standing_in(&told);
        let now = told.iter().map(|(_, staffed)| staffed.now).max().unwrap_or_default();
        if act == Act::Renew && standing != Standing::Gone {
            let moment = Instant::now();
            let mut table = self.staffs.table.lock();
            let workers = table.entry((space.clone(), queue.id.clone())).or_default();
            let open = workers.get(worker).filter(|heard| heard.incarnation == incarnation).map_or(0, |heard| heard.open);
            workers.insert(worker.clone(), Heard { incarnation, at: moment, told: moment, open, is_closed: false, standing });
        }
        if told.iter().any(|(_, staffed)| staffed.more) {
            self.tend(space, queue, MOVED_AT_ONCE).await;
        }
        Ok((standing, now.plus(ttl)))
    }

    /// A worker takes on nobody new, and hands over whom it has as soon as it holds nothing of theirs.
    pub async fn drain(&self, caller: &Caller, queue: &str, worker: &str, incarnation: Option<u64>) -> Result<Registered, Problem> {
        let queue = self.sticky_queue(caller, queue, Scope::QueuesClaim).await?;
        let worker = WorkerId::new(worker)?;
        let member = Member { worker: worker.clone(), incarnation: incarnation.unwrap_or(0), age: Micros::ZERO };
        let partitions = self.partitions_of(&caller.space, &queue);
        let told = self.staff(&caller.space, &queue, partitions, Act::Drain, queue.worker_ttl, &[member]).await.whole()?;
        let (standing, incarnation) = standing_in(&told);
        if standing == Standing::Gone {
            return Err(gone(&worker));
        }
        {
            let mut table = self.staffs.table.lock();
            let heard = table.get_mut(&(caller.space.clone(), queue.id.clone())).and_then(|workers| workers.get_mut(&worker));
            if let Some(heard) = heard.filter(|heard| heard.incarnation == incarnation) {
                heard.standing = Standing::Draining;
            }
        }
        if told.iter().any(|(_, staffed)| staffed.more) {
            self.tend(&caller.space, &queue, MOVED_AT_ONCE).await;
        }
        Ok(Registered { worker, incarnation, standing, until: None, ttl: queue.worker_ttl })
    }

    /// A worker is gone.
    pub async fn leave(&self, caller: &Caller, queue: &str, worker: &str, incarnation: Option<u64>) -> Result<(), Problem> {
        let queue = self.sticky_queue(caller, queue, Scope::QueuesClaim).await?;
        let worker = WorkerId::new(worker)?;
        let member = Member { worker: worker.clone(), incarnation: incarnation.unwrap_or(0), age: Micros::ZERO };
        let partitions = self.partitions_of(&caller.space, &queue);
        let told = self.staff(&caller.space, &queue, partitions, Act::Leave, queue.worker_ttl, &[member]).await.whole()?;
        // Zero: there was nobody of this name and incarnation.
        let was_there = told.iter().filter_map(|(_, staffed)| staffed.members.first()).any(|(_, incarnation)| *incarnation > 0);
        if !was_there {
            return Err(gone(&worker));
        }
        if let Some(workers) = self.staffs.table.lock().get_mut(&(caller.space.clone(), queue.id.clone())) {
            workers.remove(&worker);
        }
        self.watches.forget_worker(&caller.space, &queue.id, worker.as_str());
        self.tend(&caller.space, &queue, MOVED_AT_ONCE).await;
        Ok(())
    }

    /// Moves what is to be moved, step by step, for so long; when a worker's lease ends next, be it in any partition: each is told for
    /// itself, and so they end at different times. What is left is moved by whoever looks after workers.
    pub(crate) async fn tend(&self, space: &SpaceId, queue: &Queue, time: Duration) -> Option<Micros> {
        let name = (space.clone(), queue.id.clone());
        let until = Instant::now() + time;
        let mut partitions: Vec<u16> = self.partitions_of(space, queue).collect();
        let (mut next_end, mut is_whole) = (None, true);
        loop {
            let told = self.staff(space, queue, partitions, Act::Renew, queue.worker_ttl, &[]).await;
            is_whole &= told.fault.is_none();
            next_end = told.answers.iter().filter_map(|(_, staffed)| staffed.next_end).chain(next_end).min();
            partitions = told.answers.into_iter().filter(|(_, staffed)| staffed.more).map(|(partition, _)| partition).collect();
            if partitions.is_empty() && is_whole {
                self.staffs.unmoved.lock().remove(&name);
                return next_end;
            }
            if partitions.is_empty() || Instant::now() >= until {
                self.staffs.unmoved.lock().insert(name);
                if is_whole {
                    self.staffs.unfinished.notify_waiters();
                }
                return next_end;
            }
        }
    }

    /// Returns when time was up before all was moved.
    pub(crate) fn left_unmoved(&self) -> impl Future<Output = ()> {
        self.staffs.unfinished.notified()
    }

    /// The store's time, about.
    pub(crate) fn store_now(&self) -> Micros {
        self.watches.store_time(self.now())
    }

    /// Whether something is known to be left that is to be moved.
    pub(crate) fn is_unmoved(&self, name: &(SpaceId, QueueId)) -> bool {
        self.staffs.unmoved.lock().contains(name)
    }

    /// Looks at where all workers are known: the time of the store, when a worker's lease ends next, and whether there is something to do.
    pub(crate) async fn look_at_staff(&self, space: &SpaceId, queue: &Queue) -> Result<(Micros, Option<Micros>, bool), Problem> {
        let home = self.home_of(space, queue);
        let looked = self.staff(space, queue, [home], Act::Renew, queue.worker_ttl, &[]).await.whole()?;
        let (_, staffed) = looked.into_iter().next().ok_or_else(|| Problem::new(Code::Internal, "No partition answered."))?;
        Ok((staffed.now, staffed.next_end, staffed.more || staffed.turnover.moved > 0))
    }

    /// Somebody who was heard of has a stream or a claim open.
    pub(crate) fn present(&self, space: &SpaceId, queue: &QueueId, worker: &WorkerId, incarnation: u64) -> Present {
        let name = (space.clone(), queue.clone());
        let mut table = self.staffs.table.lock();
        let heard = table.get_mut(&name).and_then(|workers| workers.get_mut(worker));
        if let Some(heard) = heard.filter(|heard| heard.incarnation == incarnation) {
            (heard.open, heard.at) = (heard.open + 1, Instant::now());
        }
        drop(table);
        Present { app: self.clone(), name, worker: worker.clone(), incarnation }
    }

    /// A worker's stream was closed. Unless it is heard of soon, it is gone.
    pub(crate) async fn closed(&self, space: &SpaceId, queue: &Queue, worker: &WorkerId, incarnation: u64) {
        let is_open = |heard: &Heard| heard.incarnation != incarnation || heard.open > 0;
        let name = (space.clone(), queue.id.clone());
        {
            let mut table = self.staffs.table.lock();
            match table.get_mut(&name).and_then(|workers| workers.get_mut(worker)) {
                Some(heard) if is_open(heard) => return,
                Some(heard) => heard.is_closed = true,
                None => {}
            }
        }
        let grace = Micros::from_duration(GRACE).unwrap_or_default();
        let member = Member { worker: worker.clone(), incarnation, age: Micros::ZERO };
        // It may be back by now, and what it told may have come before this.
        let is_back = |heard: &Heard| heard.incarnation == incarnation && !heard.is_closed;
        let is_back = || self.staffs.table.lock().get(&name).and_then(|workers| workers.get(worker)).is_some_and(is_back);
        let ends_at = Instant::now() + queue.worker_ttl.to_duration();
        while self
            .staff(space, queue, self.partitions_of(space, queue), Act::Close, grace, std::slice::from_ref(&member))
            .await
            .fault
            .is_some()
        {
            tokio::time::sleep(AGAIN).await;
            // Its lease ends by itself.
            if is_back() || self.is_stopping() || Instant::now() >= ends_at {
                break;
            }
        }
        if is_back() {
            let _standing = self.tell(space, queue, worker, incarnation, Act::Renew, queue.worker_ttl).await;
            return;
        }
        tokio::time::sleep(GRACE + Duration::from_millis(20)).await;
        self.tend(space, queue, MOVED_AT_ONCE).await;
    }

    /// Tells the store who was heard of since it was last told; whether all of it knows.
    pub(crate) async fn renew_staff(&self, space: &SpaceId, queue: &Queue) -> bool {
        let name = (space.clone(), queue.id.clone());
        let moment = Instant::now();
        let forgotten = queue.worker_ttl.to_duration() * 2;
        let members: Vec<Member> = {
            let mut table = self.staffs.table.lock();
            let Some(workers) = table.get_mut(&name) else { return true };
            workers.retain(|worker, heard| {
                let is_kept = heard.open > 0 || heard.at.elapsed() < forgotten;
                if !is_kept {
                    self.watches.forget_worker(space, &queue.id, worker.as_str());
                }
                is_kept
            });
            let mut members = Vec::new();
            for (worker, heard) in workers.iter_mut().filter(|(_, heard)| heard.standing != Standing::Gone && !heard.is_closed) {
                if heard.open > 0 {
                    heard.at = moment;
                }
                if heard.at > heard.told {
                    let age = Micros::from_duration(moment.duration_since(heard.at)).unwrap_or_default();
                    members.push(Member { worker: worker.clone(), incarnation: heard.incarnation, age });
                }
            }
            members
        };
        let mut standings: HashMap<WorkerId, (u64, Standing)> = HashMap::new();
        let mut is_told = true;
        for some in members.chunks(MEMBERS_MAX) {
            let told = self.staff(space, queue, self.partitions_of(space, queue), Act::Renew, queue.worker_ttl, some).await;
            if told.has_more() {
                self.staffs.unmoved.lock().insert(name.clone());
                self.staffs.unfinished.notify_waiters();
            }
            let Ok(told) = told.whole() else {
                // Told again soon; the others are told meanwhile.
                is_told = false;
                continue;
            };
            for (_, staffed) in told {
                for (member, (standing, _)) in some.iter().zip(&staffed.members) {
                    let known = standings.entry(member.worker.clone()).or_insert((member.incarnation, *standing));
                    known.1 = worse(known.1, *standing);
                }
            }
        }
        let mut table = self.staffs.table.lock();
        let Some(workers) = table.get_mut(&name) else { return is_told };
        for (worker, (incarnation, standing)) in standings {
            if let Some(heard) = workers.get_mut(&worker).filter(|heard| heard.incarnation == incarnation) {
                (heard.standing, heard.told) = (standing, heard.told.max(moment));
                // Whoever waits under this name is told.
                if standing == Standing::Gone {
                    self.watches.forget_worker(space, &queue.id, worker.as_str());
                }
            }
        }
        is_told
    }
}

/// How a worker stands that partitions were told of, and which of its lives this is.
fn standing_in(told: &[(u16, Staffed)]) -> (Standing, u64) {
    let members = || told.iter().filter_map(|(_, staffed)| staffed.members.first());
    let standing = members().map(|(standing, _)| *standing).reduce(worse).unwrap_or_default();
    (standing, members().map(|(_, incarnation)| *incarnation).max().unwrap_or(0))
}

/// Of what two partitions say of a worker, what counts.
fn worse(one: Standing, other: Standing) -> Standing {
    let rank = |standing: Standing| match standing {
        Standing::Gone => 0,
        Standing::Full => 1,
        Standing::Draining => 2,
        Standing::Live => 3,
    };
    if rank(one) <= rank(other) { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::ClaimAsk;
    use crate::{Config, Mode as ServerMode, Server};

    /// A server in this folder, whoever asks it, and a sticky queue.
    async fn sticky(folder: &tempfile::TempDir) -> (Server, Caller, Queue) {
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), data: folder.path().join("data"), ..Config::default() };
        let server = Server::start(config, ServerMode { open: true, ..ServerMode::default() }).await.unwrap();
        let (mut queue, caller) = (Queue::new(QueueId::new("q").unwrap()), Caller::inside(SpaceId::default_space()));
        queue.mode = Mode::Sticky;
        server.app().catalog.put_queue(&caller.space, queue.clone(), None).await.unwrap();
        (server, caller, queue)
    }

    #[tokio::test]
    async fn a_queue_that_is_gone_takes_its_workers_along_but_those_that_still_listen() {
        let folder = tempfile::tempdir().unwrap();
        let (server, caller, queue) = sticky(&folder).await;
        let (app, space) = (server.app(), &caller.space);
        let here = app.register(&caller, "q", "here", None).await.unwrap();
        app.register(&caller, "q", "away", None).await.unwrap();
        let known = || {
            app.staffs.forget_queue(space, &queue.id);
            let table = app.staffs.table.lock();
            table.values().flat_map(HashMap::keys).map(ToString::to_string).collect::<Vec<_>>()
        };
        let present = app.present(space, &queue.id, &here.worker, here.incarnation);
        assert_eq!(known(), ["here"]);
        drop(present);
        assert!(known().is_empty() && app.staffs.names().is_empty());
        server.shutdown().await;
    }

    #[tokio::test]
    async fn nothing_is_kept_of_workers_that_are_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let (server, caller, queue) = sticky(&folder).await;
        let app = server.app();
        let is_known = |name: &str| app.watches.known_of_worker(&caller.space, &queue.id, name).is_some();

        for n in 0..1_000 {
            let worker = WorkerId::new(format!("w{n}")).unwrap();
            let ask = ClaimAsk::new(None, None, None).unwrap().by(Some((worker, 1)));
            assert_eq!(app.claim(&caller, "q", &ask).await.unwrap_err().code, Code::WorkerGone);
        }
        assert_eq!((0..1_000).filter(|n| is_known(&format!("w{n}"))).count(), 0, "nobody has registered");

        let silent = app.register(&caller, "q", "silent", None).await.unwrap();
        let unheard = app.register(&caller, "q", "unheard", None).await.unwrap();
        assert!(is_known("silent") && is_known("unheard"));
        let long_ago = Instant::now().checked_sub(queue.worker_ttl.to_duration() * 3).unwrap();
        app.staffs.table.lock().values_mut().filter_map(|workers| workers.get_mut(&silent.worker)).for_each(|heard| heard.at = long_ago);
        // Another server was told that this one leaves.
        let member = Member { worker: unheard.worker.clone(), incarnation: unheard.incarnation, age: Micros::ZERO };
        app.staff(&caller.space, &queue, app.partitions_of(&caller.space, &queue), Act::Leave, queue.worker_ttl, &[member]).await;
        app.staffs.table.lock().values_mut().filter_map(|workers| workers.get_mut(&unheard.worker)).for_each(|heard| heard.told = long_ago);
        app.renew_staff(&caller.space, &queue).await;
        assert!(!is_known("silent") && !is_known("unheard"));
        server.shutdown().await;
    }
}
