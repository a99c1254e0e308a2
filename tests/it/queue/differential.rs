//! Model = embedded = Redis = Cluster, on seeded random histories of one queue: every answer, and the state left
//! behind, also after the embedded engine was closed and opened again in the middle.
//!
//! There are few recipients, keys and tags, so that deliveries meet. The clock jumps to where it hurts: one tick
//! before a delivery is due or a lease ends, exactly there, one tick after, a little back.

use anyhow::{Context, Result, ensure};
use hermod_core::queue::claim::Failing;
use hermod_core::queue::edit::{Change, Move};
use hermod_core::queue::push::Push;
use hermod_core::queue::settle::{Outcome as Settlement, SettleAct, Settled};
use hermod_core::queue::worker::{Act, Member, Staff, Upkeep};
use hermod_core::queue::{
    Backoff, Claim, Delivery, Due, Edit, Fetch, Filter, IfExists, List, Look, Number, Replied, Roll, Settle, Stats, Terms, Token,
};
use hermod_core::{Micros, Operation, Outcome, Place, QueueId, Recipient, SpaceId, Tag, WorkerId};
use hermod_tests::history::{Draws, Dumps, agree};
use hermod_tests::lane::START;
use hermod_tests::model::queue::QueueModel;
use hermod_tests::{EngineLane, Store, unique};

const HISTORIES: u64 = 60;
const OPERATIONS: u64 = 500;
const STEP_BACK_MAX: u64 = 2_000_000;
const SECOND: u64 = 1_000_000;

fn us(n: u64) -> Micros {
    Micros::saturating(n)
}

/// The stores, which agree, settled deliveries otherwise than the model.
#[derive(Debug)]
struct Parted {
    act: SettleAct,
    held: Vec<(Number, Token)>,
    model: Settled,
    store: Settled,
}

impl std::fmt::Display for Parted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {:?}\n model: {:?}\n store: {:?}", self.act, self.held, self.model, self.store)
    }
}

impl std::error::Error for Parted {}

impl Parted {
    /// For how many of them the token is stale, and the model believed it.
    fn believed(&self) -> usize {
        let pairs = self.store.outcomes.iter().zip(&self.model.outcomes);
        pairs.filter(|(store, model)| **store == Settlement::Stale && **model != Settlement::Stale).count()
    }
}

struct History {
    lanes: Vec<EngineLane>,
    model: QueueModel,
    draws: Draws,
    dumps: Dumps,
    place: Place,
    queue: QueueId,
    now: u64,
    latest: u64,
    /// Times at which something happens.
    times: Vec<u64>,
    numbers: Vec<Number>,
    held: Vec<(Number, Token)>,
    failing: Failing,
    is_sticky: bool,
    /// The greatest number that was seen.
    floor: u64,
}

impl History {
    async fn open(seed: u64, is_sticky: bool) -> Result<History> {
        let space = SpaceId::new(unique("queue"))?;
        let mut lanes = Vec::new();
        for store in Store::ALL {
            lanes.push(EngineLane::open_in(store, space.clone()).await?);
        }
        let mut draws = Draws::new(seed);
        let now = START.get();
        Ok(History {
            lanes,
            model: QueueModel::default(),
            dumps: Dumps::default(),
            place: Place { space, partition: 3 },
            queue: QueueId::new("q")?,
            now,
            latest: now,
            times: Vec::new(),
            numbers: Vec::new(),
            held: Vec::new(),
            failing: Failing {
                max_attempts: draws.one_of(&[1, 2, 3, 5]),
                drops: draws.chance(30),
                drop_after: draws.chance(30).then(|| us(10 * SECOND)),
            },
            draws,
            is_sticky,
            floor: 0,
        })
    }

    /// Begins a step: what its operation is told of the queue.
    fn begin(&mut self) -> Terms {
        // A server that has seen more than the store has now.
        if self.draws.chance(3) {
            self.floor = self.now + self.draws.below(SECOND);
        }
        let terms = Terms { is_sticky: self.is_sticky, floor: self.floor };
        self.model.begin(terms, self.now);
        terms
    }

    fn jump(&mut self) {
        let ahead: Vec<u64> = self.times.iter().copied().filter(|time| *time > self.now).collect();
        let time = if ahead.is_empty() { self.now + 1 } else { self.draws.one_of(&ahead) };
        let moved = match self.draws.below(16) {
            0 => time - 1,
            1 | 2 => time,
            3 => time + 1,
            4 => self.now + 1,
            5 => self.now + self.draws.below(SECOND),
            6 => self.now.saturating_sub(self.draws.below(STEP_BACK_MAX)),
            7 if self.draws.chance(20) => self.now + self.draws.one_of(&[60 * SECOND, 4 * 86_400 * SECOND]),
            _ => self.now,
        };
        self.now = moved.max(self.latest.saturating_sub(STEP_BACK_MAX)).max(START.get());
        self.latest = self.latest.max(self.now);
    }

    fn note(&mut self, times: impl IntoIterator<Item = Micros>) {
        self.times.extend(times.into_iter().map(Micros::get));
        let old = self.times.len().saturating_sub(12);
        self.times.drain(..old);
    }

    fn due(&mut self) -> Due {
        let span = self.draws.one_of(&[0, 0, 1, 1_000, 1_001, SECOND, 3 * SECOND, 60 * SECOND]);
        match self.draws.below(3) {
            0 => Due::At(us(self.now.saturating_sub(span))),
            1 => Due::At(us(self.now + span)),
            _ => Due::In(us(span)),
        }
    }

    fn delivery(&mut self) -> Result<Delivery> {
        let mut delivery = Delivery::new(self.due(), self.draws.chance(50), format!("p{}", self.draws.below(1_000)));
        let to = if self.is_sticky { self.recipient() } else { self.draws.one_of(&["", "", "ann", "ann", "bob", "Ωmega"]) };
        delivery.to = (!to.is_empty()).then(|| Recipient::new(to)).transpose()?;
        delivery.key = self.draws.chance(30).then(|| format!("k{}", self.draws.below(4)));
        delivery.if_exists = self.draws.one_of(&[IfExists::Keep, IfExists::Replace, IfExists::Debounce]);
        if self.draws.chance(30) {
            delivery.tags = (0..self.draws.below(3)).map(|_| Tag::new(format!("t{}", self.draws.below(3)))).collect::<Result<_, _>>()?;
        }
        delivery.max_attempts = self.draws.chance(20).then(|| self.draws.one_of(&[1, 2, 4]));
        delivery.reply = self.draws.chance(20).then(|| us(self.draws.one_of(&[1, SECOND, 10 * SECOND])));
        delivery.expires_at = self.draws.chance(20).then(|| us(self.now + self.draws.below(5 * SECOND)));
        Ok(delivery)
    }

    fn some_numbers(&mut self) -> Vec<Number> {
        let count = self.draws.below(4);
        let mut some: Vec<Number> = Vec::new();
        for _ in 0..count {
            if !self.numbers.is_empty() {
                let recent = self.numbers.split_off(self.numbers.len().saturating_sub(20));
                some.push(self.draws.one_of(&recent));
                self.numbers.extend(recent);
            }
        }
        some
    }

    /// What every store answers; all the same.
    async fn ask<O: Operation>(&self, op: &O) -> Result<O::Answer>
    where
        O::Answer: PartialEq + std::fmt::Debug,
    {
        let mut answers = Vec::new();
        for lane in &self.lanes {
            lane.clock().set(us(self.now));
            let Outcome::Done(answer) = lane.engine().run(op, None).await?.outcome else { anyhow::bail!("no key was given") };
            answers.push(answer);
        }
        let (redis, cluster) = (&answers[1], &answers[2]);
        ensure!(answers[0] == *redis, "embedded: {:?}\n redis: {redis:?}", answers[0]);
        ensure!(answers[0] == *cluster, "embedded: {:?}\n cluster: {cluster:?}", answers[0]);
        Ok(answers.swap_remove(0))
    }

    async fn push(&mut self) -> Result<()> {
        let count = self.draws.one_of(&[1, 1, 2, 5]);
        let deliveries = (0..count).map(|_| self.delivery()).collect::<Result<Vec<_>>>()?;
        let terms = self.begin();
        let expected = self.model.push(&deliveries, &self.failing, self.now);
        let pushed = self.ask(&Push::new(self.place.clone(), self.queue.clone(), terms, self.failing, deliveries.clone())).await?;
        ensure!(pushed == expected, "push of {deliveries:?}\n model: {expected:?}\n store: {pushed:?}");
        self.numbers.extend(pushed.stored.iter().map(|(_, number, _)| *number));
        self.note(pushed.stored.iter().map(|(_, _, due)| *due));
        Ok(())
    }

    async fn claim(&mut self) -> Result<()> {
        let count = usize::try_from(self.draws.one_of(&[1, 1, 2, 5, 50]))?;
        let lease = self.draws.one_of(&[1, 1_000, SECOND, 2 * SECOND, 30 * SECOND]);
        let ahead = self.draws.one_of(&[0, 0, 0, 0, 1, 999, 25_000, 2 * SECOND]);
        let worker = if self.is_sticky { Some(self.someone()) } else { None };
        let terms = self.begin();
        let asks = worker.as_ref().map(|(worker, incarnation)| (worker.as_str(), *incarnation));
        let expected = self.model.claim(asks, count, (lease, ahead), &self.failing, self.now);
        let mut claim = Claim::new(self.place.clone(), self.queue.clone(), terms, count, us(lease), self.failing).ahead(us(ahead));
        if let Some((worker, incarnation)) = worker.clone() {
            claim = claim.by(worker, incarnation);
        }
        let mut claimed = self.ask(&claim).await?;
        for handed in &mut claimed.handed {
            let body = std::mem::take(&mut handed.body);
            ensure!(self.model.is_body(handed.number, &body), "the body of {} is another", handed.number);
        }
        ensure!(
            claimed == expected,
            "claim of {count} for {lease}, {ahead} ahead, by {worker:?}\n model: {expected:?}\n store: {claimed:?}"
        );
        self.held.extend(claimed.handed.iter().map(|handed| (handed.number, handed.token)));
        let old = self.held.len().saturating_sub(20);
        self.held.drain(..old);
        self.note(claimed.handed.iter().map(|handed| handed.until));
        Ok(())
    }

    async fn settle(&mut self) -> Result<()> {
        let count = 1 + self.draws.below(3);
        let mut held = Vec::new();
        for _ in 0..count {
            if !self.held.is_empty() {
                let (number, token) = self.draws.one_of(&self.held);
                held.push((number, if self.draws.chance(5) { Token(token.0 + 1) } else { token }));
            }
        }
        let backoff = Backoff {
            first: us(self.draws.one_of(&[0, 1_000, 33_000, SECOND])),
            factor_permille: self.draws.one_of(&[1_000, 1_500, 2_000, 100_000]),
            max: us(self.draws.one_of(&[SECOND, 60 * SECOND])),
            jitter_permille: self.draws.one_of(&[0, 200, 1_000]),
        };
        let chance = u16::try_from(self.draws.below(1_001))?;
        let delay = self.draws.chance(50).then(|| us(self.draws.one_of(&[0, 1, SECOND, 5 * SECOND])));
        let act = match self.draws.below(9) {
            0..=2 => SettleAct::Ack,
            3..=5 => SettleAct::Nack { delay, backoff, chance, blocks: self.draws.chance(50) },
            6 => SettleAct::Extend(us(self.draws.one_of(&[1, SECOND, 10 * SECOND]))),
            7 => SettleAct::GiveBack,
            _ => SettleAct::Return,
        };
        let terms = self.begin();
        let reply = self.draws.chance(50).then(|| Replied { is_json: self.draws.chance(50), reply: (*b"well").into() });
        let expected = self.model.settle(act, &self.failing, &held, reply.as_ref(), self.now);
        let mut op = Settle::new(self.place.clone(), self.queue.clone(), terms, act, &self.failing, held.clone());
        if let Some(reply) = reply {
            op = op.reply_with(reply.is_json, reply.reply.into());
        }
        let settled = self.ask(&op).await?;
        if settled != expected {
            return Err(Parted { act, held, model: expected, store: settled }.into());
        }
        self.note(settled.next);
        Ok(())
    }

    async fn edit(&mut self) -> Result<()> {
        let numbers = self.some_numbers();
        let span = us(self.draws.one_of(&[1, SECOND, 60 * SECOND]));
        let moved = match self.draws.below(6) {
            0 => None,
            1 => Some(Move::To(self.due())),
            2 => Some(Move::Later(span)),
            3 => Some(Move::Earlier(span)),
            _ => Some(Move::Redrive),
        };
        let change = match moved {
            None if self.draws.chance(50) => Change::Cancel,
            Some(moved) if self.draws.chance(60) => Change::Move(moved),
            moved => Change::Rewrite { is_json: self.draws.chance(50), payload: b"rewritten".to_vec(), moved },
        };
        let terms = self.begin();
        let expected = self.model.edit(&change, &numbers, self.now);
        let edited = self.ask(&Edit::new(self.place.clone(), self.queue.clone(), terms, change.clone(), numbers.clone())).await?;
        ensure!(edited == expected, "{change:?} of {numbers:?}\n model: {expected:?}\n store: {edited:?}");
        self.note(edited.next);
        Ok(())
    }

    async fn look(&mut self) -> Result<()> {
        for number in self.some_numbers() {
            let expected = self.model.fetch(number, self.now);
            let fetched = self.ask(&Fetch::new(self.place.clone(), self.queue.clone(), number)).await?;
            ensure!(fetched == expected, "the reply to {number}\n model: {expected:?}\n store: {fetched:?}");
        }
        let (from, until) = (us(self.now - SECOND), us(self.now + 5 * SECOND));
        let filter = match self.draws.below(6) {
            0 => Filter::Waiting { from: Micros::ZERO, until: Micros::MAX },
            1 => Filter::Waiting { from, until },
            2 => Filter::Held,
            3 => Filter::Dead,
            4 => Filter::Tag(Tag::new(format!("t{}", self.draws.below(3)))?),
            _ if self.draws.chance(50) => Filter::Number(self.some_numbers().first().copied().unwrap_or(7)),
            _ => Filter::Key { key: format!("k{}", self.draws.below(4)), to: self.draws.one_of(&["", "ann"]).to_owned() },
        };
        let limit = usize::try_from(self.draws.one_of(&[1, 2, 5, 200]))?;
        let mut after = None;
        // All pages of it.
        for _ in 0..50 {
            let expected = self.model.list(&filter, after, limit, self.now);
            let mut listed = self.ask(&List::new(self.place.clone(), self.queue.clone(), filter.clone(), after, limit)).await?;
            for shown in &mut listed.shown {
                let body = std::mem::take(&mut shown.body);
                ensure!(self.model.is_body(shown.number, &body), "the body of {} is another", shown.number);
            }
            ensure!(listed == expected, "{filter:?} after {after:?}\n model: {expected:?}\n store: {listed:?}");
            after = listed.more;
            if after.is_none() {
                break;
            }
        }
        let counts = self.ask(&Stats::new(self.place.clone(), self.queue.clone(), us(SECOND), 5)).await?;
        let expected = self.model.stats(SECOND, 5, self.now);
        ensure!(counts == expected, "stats\n model: {expected:?}\n store: {counts:?}");
        Ok(())
    }
}

/// Of a queue that is sticky, too.
impl History {
    fn recipient(&mut self) -> &'static str {
        self.draws.one_of(&["ann", "ann", "bob", "cem", "dora", "Ωmega"])
    }

    /// Somebody who works, or does not any more.
    fn someone(&mut self) -> (WorkerId, u64) {
        let alive = self.model.alive();
        let somebody = alive.iter().map(|(name, incarnation)| (name.as_str(), *incarnation)).collect::<Vec<_>>();
        let (name, incarnation) = match alive.is_empty() || self.draws.chance(5) {
            true => (self.draws.one_of(&["w1", "w2", "w3"]), self.draws.below(3)),
            false => self.draws.one_of(&somebody),
        };
        (WorkerId::new(name).expect("a worker's name"), incarnation)
    }

    async fn staff(&mut self) -> Result<()> {
        let act = match self.draws.below(12) {
            0..=3 => Act::Join { weight: self.draws.one_of(&[1, 1, 1, 3]) },
            4..=7 => Act::Renew,
            8 => Act::Close,
            9 => Act::Drain,
            10 => Act::Leave,
            _ => Act::Renew,
        };
        let count = if matches!(act, Act::Renew) { self.draws.below(4) } else { 1 };
        let mut members = Vec::new();
        for _ in 0..count {
            let (mut worker, mut incarnation) = self.someone();
            if matches!(act, Act::Join { .. }) && self.draws.chance(80) {
                worker = WorkerId::new(self.draws.one_of(&["w1", "w2", "w3", "w4"]))?;
                incarnation = if self.draws.chance(80) { 0 } else { incarnation };
            }
            if matches!(act, Act::Drain | Act::Leave) && self.draws.chance(50) {
                incarnation = 0;
            }
            members.push(Member { worker, incarnation, age: us(self.draws.one_of(&[0, 0, 1_000, SECOND])) });
        }
        let ttl = self.draws.one_of(&[SECOND, 5 * SECOND, 15 * SECOND]);
        let idle_after = self.draws.one_of(&[SECOND, 30 * SECOND, 600 * SECOND]);
        let terms = self.begin();
        let upkeep = Upkeep { ttl: us(ttl), idle_after: us(idle_after), failing: self.failing };
        let op = Staff::new(self.place.clone(), self.queue.clone(), terms, act, upkeep, members.clone());
        let points: Vec<_> = members.iter().map(|member| op.points(&member.worker)).collect();
        let expected = self.model.staff(act, ttl, idle_after, &self.failing, &members, &points);
        let staffed = self.ask(&op).await?;
        ensure!(staffed == expected, "{act:?} of {members:?} for {ttl}\n model: {expected:?}\n store: {staffed:?}");
        self.note(staffed.next_end);
        Ok(())
    }

    async fn explain(&mut self) -> Result<()> {
        let to = self.recipient();
        let pin = self.draws.chance(30).then(|| self.draws.one_of(&[None, Some("w1"), Some("w2"), Some("w9")]));
        let terms = self.begin();
        let expected = self.model.look(to, pin);
        let mut op = Look::new(self.place.clone(), self.queue.clone(), terms, Recipient::new(to)?);
        if let Some(pin) = pin {
            op = op.pin(pin.map(WorkerId::new).transpose()?);
        }
        let explained = self.ask(&op).await?;
        ensure!(explained == expected, "{to} pinned {pin:?}\n model: {expected:?}\n store: {explained:?}");
        let roll = Roll::new(self.place.clone(), self.queue.clone());
        let rolled = self.ask(&roll).await?;
        let expected = self.model.roll();
        ensure!(rolled == expected, "who works\n model: {expected:?}\n store: {rolled:?}");
        for working in &rolled.workers {
            let worker = WorkerId::new(&*working.worker)?;
            let behind = self.ask(&roll.clone().behind(Some(&worker), 0)).await?.behind;
            let (pending, expected) = (behind + working.waiting + working.in_flight, self.model.pending(&working.worker));
            ensure!(pending == expected, "{worker} has {pending} pending, not {expected}");
        }
        Ok(())
    }

    async fn sticky_step(&mut self) -> Result<()> {
        match self.draws.below(26) {
            0..=6 => self.push().await,
            7..=12 => self.claim().await,
            13..=16 => self.settle().await,
            17 | 18 => self.edit().await,
            19..=23 => self.staff().await,
            24 => self.explain().await,
            _ => self.look().await,
        }
    }
}

async fn history(seed: u64) -> Result<u64> {
    run(History::open(seed, false).await?).await
}

async fn sticky(seed: u64) -> Result<u64> {
    run(History::open(seed, true).await?).await
}

async fn unfenced(seed: u64) -> Result<u64> {
    let mut history = History::open(seed, true).await?;
    history.model.is_unfenced = true;
    run(history).await
}

async fn run(mut history: History) -> Result<u64> {
    for step in 0..OPERATIONS {
        history.jump();
        let done = match history.draws.below(20) {
            _ if history.is_sticky => history.sticky_step().await,
            0..=5 => history.push().await,
            6..=11 => history.claim().await,
            12..=15 => history.settle().await,
            16..=18 => history.edit().await,
            _ => history.look().await,
        };
        done.with_context(|| format!("step {step} at {}", history.now - START.get()))?;
        if step % 50 == 49 {
            let before = us(history.latest.saturating_sub(STEP_BACK_MAX));
            history.dumps.compare(&history.lanes, &mut history.draws, before).await.with_context(|| format!("after step {step}"))?;
        }
        if step % 100 == 99 {
            history.lanes[0].reopen().await?;
        }
    }
    Ok(OPERATIONS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_operations_on_a_queue_agree() -> Result<()> {
    let operations = agree("queue", HISTORIES, history).await?;
    println!("{operations} operations agree on the model, embedded, Redis and Cluster");
    ensure!(operations >= 30_000, "only {operations} operations were compared");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_operations_on_a_sticky_queue_agree() -> Result<()> {
    let operations = agree("sticky", HISTORIES, sticky).await?;
    println!("{operations} operations on a sticky queue agree on the model, embedded, Redis and Cluster");
    ensure!(operations >= 30_000, "only {operations} operations were compared");
    Ok(())
}

/// What holds the others to their word notices if tokens are believed that are not the holder's: the histories part where one of them is
/// settled with, nowhere before and for no other reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_without_fences_is_noticed() -> Result<()> {
    for seed in 1..=20 {
        let Err(error) = unfenced(seed).await else { continue };
        let Some(parted) = error.downcast_ref::<Parted>() else { return Err(error.context("before a stale token was believed")) };
        ensure!(parted.believed() > 0, "they part for another reason: {parted}");
        // With fences the same history is one that all agree on.
        sticky(seed).await.with_context(|| format!("seed {seed}, with fences"))?;
        return Ok(());
    }
    anyhow::bail!("twenty histories agree with a model that lets anybody settle anything");
}
